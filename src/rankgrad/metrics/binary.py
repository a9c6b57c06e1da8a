"""Metrics of binary relevance: precision, recall, average precision, rank-biased precision.

A document is relevant if its label is above `threshold`. A list without a relevant document counts as empty.
"""

from typing import Any

from torch import Tensor

from rankgrad.errors import bad_value
from rankgrad.metrics.ranked_lists import ListValues, Ranked, check_cutoff, rank, settle, within


def precision(
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
    r"""Precision: share of the first k documents that are relevant.

    .. math:: \mathrm{P@}k = \frac{1}{k} \sum_{i:\, r_i \le k} [y_i > t]

    As in trec_eval, the divisor is `k`, even if the list is shorter. With `k=None`, the divisor is the length of the
    list.

    Args:
        scores, labels, mask, offsets, k, empty, ties, ids, reduction: the lists and the common options; see
            `rankgrad.metrics`.
        threshold: t; a document is relevant if its label is above this value.

    Example:
        >>> precision([0.0, 3.0, 1.0, 2.0], [0, 0, 1, 1], k=3)
        tensor(0.6667)
    """
    ranked = rank(scores, labels, mask=mask, offsets=offsets, ids=ids, ties=ties, k=k)
    return settle(ranked_precision(ranked, k=k, threshold=threshold), empty, reduction)


def recall(
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
    r"""Recall: share of the relevant documents that are among the first k.

    .. math:: \mathrm{R@}k = \sum_{i:\, r_i \le k} [y_i > t] \;/\; \sum_i [y_i > t]

    Args:
        scores, labels, mask, offsets, k, empty, ties, ids, reduction: the lists and the common options; see
            `rankgrad.metrics`.
        threshold: t; a document is relevant if its label is above this value.

    Example:
        >>> recall([0.0, 3.0, 1.0, 2.0], [1, 0, 1, 1], k=3)
        tensor(0.6667)
    """
    ranked = rank(scores, labels, mask=mask, offsets=offsets, ids=ids, ties=ties, k=k)
    return settle(ranked_recall(ranked, k=k, threshold=threshold), empty, reduction)


def ap(
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
    r"""Average precision: mean of the precisions at the ranks of relevant documents. Documents beyond rank k add 0.

    .. math:: \mathrm{AP@}k = \sum_{i:\, r_i \le k} [y_i > t] \, \mathrm{P@}r_i \;/\; \sum_i [y_i > t]

    As in trec_eval (`map_cut`), the divisor is the number of all relevant documents, for every `k`.

    Args:
        scores, labels, mask, offsets, k, empty, ties, ids, reduction: the lists and the common options; see
            `rankgrad.metrics`.
        threshold: t; a document is relevant if its label is above this value.

    Example:
        >>> ap([0.0, 3.0, 1.0, 2.0], [0, 0, 1, 1])
        tensor(0.5833)

    References:
        Ties: McSherry and Najork, "Computing information retrieval performance measures efficiently in the presence of
        tied scores", ECIR 2008.
    """
    ranked = rank(scores, labels, mask=mask, offsets=offsets, ids=ids, ties=ties, k=k)
    return settle(ranked_ap(ranked, k=k, threshold=threshold), empty, reduction)


def rbp(
    scores: Any,
    labels: Any,
    *,
    mask: Any = None,
    offsets: Any = None,
    k: int | None = None,
    persistence: float = 0.8,
    threshold: float = 0.0,
    empty: str = "zero",
    ties: str = "stable",
    ids: Any = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Rank-biased precision. After each document, the reader continues to the next document with probability p.

    .. math:: \mathrm{RBP@}k = (1 - p) \sum_{i:\, r_i \le k} [y_i > t] \, p^{r_i - 1}

    Args:
        scores, labels, mask, offsets, k, empty, ties, ids, reduction: the lists and the common options; see
            `rankgrad.metrics`.
        persistence: p, at least 0 and below 1.
        threshold: t; a document is relevant if its label is above this value.

    Example:
        >>> rbp([0.0, 3.0, 1.0, 2.0], [0, 0, 1, 1], persistence=0.5)
        tensor(0.3750)

    References:
        Moffat and Zobel, "Rank-biased precision for measurement of retrieval effectiveness", TOIS 2008.
    """
    ranked = rank(scores, labels, mask=mask, offsets=offsets, ids=ids, ties=ties, k=k)
    return settle(ranked_rbp(ranked, k=k, persistence=persistence, threshold=threshold), empty, reduction)


def ranked_precision(ranked: Ranked, *, k: int | None, threshold: float) -> ListValues:
    """Return the precision of ranked lists."""
    found, total = _found(ranked, k, threshold)
    documents = ranked.mask.sum(-1).clamp(min=1) if k is None else k
    return ListValues(found / documents, total > 0)


def ranked_recall(ranked: Ranked, *, k: int | None, threshold: float) -> ListValues:
    """Return the recall of ranked lists."""
    found, total = _found(ranked, k, threshold)
    return ListValues(found / total.clamp(min=1), total > 0)


def ranked_ap(ranked: Ranked, *, k: int | None, threshold: float) -> ListValues:
    """Return the average precision of ranked lists."""
    check_cutoff(k)
    ranked = ranked.head(k)
    flags, total = ranked.relevant(threshold)
    size, inside, before, place = ranked.tied(flags)
    # The document at a tied rank is relevant with probability inside / size. If it is relevant, each of the `place`
    # tied documents before it is also relevant with probability (inside - 1) / (size - 1).
    hits = inside / size * (before + 1 + place * (inside - 1) / (size - 1).clamp(min=1))
    rank = ranked.all_ranks()
    weights = (within(rank, k) / rank).to(hits.dtype)
    return ListValues((hits * weights).sum(-1) / total.clamp(min=1), total > 0)


def ranked_rbp(ranked: Ranked, *, k: int | None, persistence: float, threshold: float) -> ListValues:
    """Return the rank-biased precision of ranked lists."""
    check_cutoff(k)
    if not 0 <= persistence < 1:
        bad_value("persistence", "be at least 0 and below 1", persistence)
    ranked = ranked.head(k)
    flags, total = ranked.relevant(threshold)
    rank = ranked.all_ranks()
    weights = ranked.spread(within(rank, k) * (1 - persistence) * persistence ** (rank - 1))
    return ListValues((flags * weights).sum(-1), total > 0)


def _found(ranked: Ranked, k: int | None, threshold: float) -> tuple[Tensor, Tensor]:
    """Return the number of relevant documents among the first `k`, and the number of all relevant documents."""
    check_cutoff(k)
    ranked = ranked.head(k)
    flags, total = ranked.relevant(threshold)
    return (flags * ranked.spread(within(ranked.all_ranks(), k))).sum(-1), total
