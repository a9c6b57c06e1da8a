"""Metrics of a reader who stops at the first relevant document: Success, reciprocal rank, expected reciprocal rank."""

from typing import Any

import torch
from torch import Tensor

from rankgrad.errors import bad_value, one_of
from rankgrad.lists import values_are_cheap
from rankgrad.metrics.ranked_lists import ListValues, Ranked, check_cutoff, rank, settle, within

FIRST = ("relevant", "best")


def success(
    scores: Any,
    labels: Any,
    *,
    mask: Any = None,
    offsets: Any = None,
    k: int | None = None,
    threshold: float = 0.0,
    empty: str = "zero",
    ties: str = "stable",
    ids: Any = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Success: 1 if a relevant document is among the first k, otherwise 0.

    .. math:: \mathrm{Success@}k = [\,\exists i:\, r_i \le k,\ y_i > t\,]

    Args:
        scores, labels, mask, offsets, k, empty, ties, ids, reduction: the lists and the common options; see
            `rankgrad.metrics`.
        threshold: t; a document is relevant if its label is above this value. A list without a relevant document
            is empty.

    Example:
        >>> success(torch.tensor([0.0, 3.0, 1.0, 2.0]), torch.tensor([0, 0, 1, 1]), k=1)
        tensor(0.)
    """
    ranked = rank(scores, labels, mask=mask, offsets=offsets, ids=ids, ties=ties, k=k)
    return settle(ranked_success(ranked, k=k, threshold=threshold), empty, reduction)


def rr(
    scores: Any,
    labels: Any,
    *,
    mask: Any = None,
    offsets: Any = None,
    k: int | None = None,
    first: str = "relevant",
    threshold: float = 0.0,
    empty: str = "zero",
    ties: str = "stable",
    ids: Any = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Reciprocal rank of the first relevant document; 0 if this document is beyond rank k. The mean over lists is MRR.

    .. math:: \mathrm{RR@}k = \max_{i:\, r_i \le k} [y_i > t] / r_i

    Args:
        scores, labels, mask, offsets, k, empty, ties, ids, reduction: the lists and the common options; see
            `rankgrad.metrics`.
        first: documents that count as relevant. `"relevant"`: documents with a label above the threshold. `"best"`:
            only documents with the highest label of the list, as in allRank; some papers publish this MRR.
        threshold: t; a document is relevant if its label is above this value. A list without a relevant document
            is empty.

    Example:
        >>> scores, labels = torch.tensor([0.0, 3.0, 1.0, 2.0]), torch.tensor([0, 0, 2, 1])
        >>> rr(scores, labels), rr(scores, labels, first="best")
        (tensor(0.5000), tensor(0.3333))
    """
    ranked = rank(scores, labels, mask=mask, offsets=offsets, ids=ids, ties=ties, k=k)
    return settle(ranked_rr(ranked, k=k, first=first, threshold=threshold), empty, reduction)


def err(
    scores: Any,
    labels: Any,
    *,
    mask: Any = None,
    offsets: Any = None,
    k: int | None = None,
    max_label: float = 4.0,
    empty: str = "zero",
    ties: str = "stable",
    ids: Any = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Expected reciprocal rank: the expected value of 1 / r for a reader who starts at the top and stops at rank r.

    .. math:: \mathrm{ERR@}k = \sum_{i:\, r_i \le k} \frac{R_i}{r_i} \prod_{j:\, r_j < r_i} (1 - R_j),
        \quad R = \frac{2^y - 1}{2^{y_{\max}}}

    A list without a label above 0 is empty.

    Args:
        scores, labels, mask, offsets, k, empty, ties, ids, reduction: the lists and the common options; see
            `rankgrad.metrics`.
        max_label: y_max, the highest grade of the scale (4 for the five grades of web search); no label may exceed it.
            It is an option and not the maximum of the data, so the value of a list does not depend on other lists.

    Example:
        >>> err(torch.tensor([2.0, 1.0, 3.0]), torch.tensor([2, 0, 1]), max_label=2)
        tensor(0.5312)

    References:
        Chapelle et al., "Expected reciprocal rank for graded relevance", CIKM 2009.
    """
    ranked = rank(scores, labels, mask=mask, offsets=offsets, ids=ids, ties=ties, k=k, lowest_label=0.0)
    return settle(ranked_err(ranked, k=k, max_label=max_label), empty, reduction)


def ranked_success(ranked: Ranked, *, k: int | None, threshold: float) -> ListValues:
    """Return Success of ranked lists."""
    check_cutoff(k)
    ranked = ranked.head(k)
    flags, total = ranked.relevant(threshold)
    still, found = _search(ranked, flags)
    return ListValues((still * found * within(ranked.all_ranks(), k).to(flags.dtype)).sum(-1), total > 0)


def ranked_rr(ranked: Ranked, *, k: int | None, first: str, threshold: float) -> ListValues:
    """Return the reciprocal rank of ranked lists."""
    check_cutoff(k)
    one_of("first", first, FIRST)
    ranked = ranked.head(k)
    flags, total = ranked.relevant(threshold)
    if first == "best":
        flags = flags * (ranked.labels == ranked.best(ranked.judged, 1))
    rank = ranked.all_ranks()
    still, found = _search(ranked, flags)
    return ListValues((still * found * (within(rank, k) / rank).to(flags.dtype)).sum(-1), total > 0)


def ranked_err(ranked: Ranked, *, k: int | None, max_label: float) -> ListValues:
    """Return the expected reciprocal rank of ranked lists."""
    check_cutoff(k)
    if not max_label > 0:
        bad_value("max_label", "be above 0", max_label)
    if values_are_cheap(ranked.judged) and ranked.judged.numel() and float(ranked.judged.max()) > max_label:
        bad_value("labels", f"be at most max_label, {max_label:g}", f"{float(ranked.judged.max()):g}")
    full = (ranked.judged > 0).any(-1)
    ranked = ranked.head(k)
    chance = torch.exp2(ranked.labels - max_label) - 2.0**-max_label  # 0 in padding, where labels are 0
    if ranked.ties is None:
        still = torch.cumprod(1 - chance, -1)
    else:
        still = _unsatisfied(1 - chance, *ranked.ties)
    # The probability of stopping at a rank is the probability of reaching the rank minus the probability of continuing.
    stops = -torch.diff(still, dim=-1, prepend=torch.ones_like(still[..., :1]))
    rank = ranked.all_ranks()
    return ListValues((stops * (within(rank, k) / rank).to(stops.dtype)).sum(-1), full)


def _search(ranked: Ranked, flags: Tensor) -> tuple[Tensor, Tensor]:
    """Return two probabilities for each rank, `(..., n)`, for the metrics Success and reciprocal rank.

    The first is the probability that no flagged document is before this rank. The second is the probability that the
    document at this rank is flagged, if no flagged document is before this rank.
    """
    size, inside, _, place = ranked.tied(flags)
    # If none of the `place` tied documents before this rank is flagged, all `inside` flagged documents are among the
    # other size - place documents.
    found = (inside / (size - place)).clamp(max=1)
    # The product is in float64: a GPU would otherwise multiply tens of thousands of factors in float32, unlike the CPU.
    none = torch.cumprod(1 - found, -1, dtype=torch.float64).to(found.dtype)
    return torch.cat([torch.ones_like(none[..., :1]), none[..., :-1]], -1), found


def _unsatisfied(pass_by: Tensor, first: Tensor, size: Tensor) -> Tensor:
    """Return the product of `pass_by` over the documents up to each rank, averaged over all orders of ties, `(..., n)`.

    Let E_m(j) be the expected product over m random documents among the first j documents of a group of ties. Let a_j
    be the `pass_by` of document j. Document j is one of the m documents with probability m/j. So E_m(j) =
    m/j a_j E_{m-1}(j - 1) + (1 - m/j) E_m(j - 1). All groups are computed at once.
    """
    n = pass_by.shape[-1]
    drawn = torch.arange(1, n + 1, device=first.device) - first  # m at each rank
    start = drawn == 1
    product = torch.ones_like(pass_by)
    longest = int(size.max()) if values_are_cheap(size) else n
    for j in range(1, longest + 1):
        member = pass_by.gather(-1, (first + j - 1).clamp(max=n - 1))
        one_fewer = torch.where(start, 1.0, product.roll(1, -1))
        share = (drawn.to(product.dtype) / j).clamp(max=1)
        product = torch.where(j <= size, share * member * one_fewer + (1 - share) * product, product)
    # The share of readers that reach a group is the product over all documents before the group, in any order.
    whole = torch.nn.functional.pad(torch.cumprod(pass_by, -1), (1, 0), value=1.0)
    return product * whole.gather(-1, first)
