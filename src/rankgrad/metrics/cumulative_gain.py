"""DCG and NDCG: metrics that sum discounted gains."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rankgrad.errors import one_of
from rankgrad.metrics.ranked_lists import ListValues, Ranked, all_ranks, check_cutoff, rank, settle, within

GAINS = ("exp", "linear")
DISCOUNTS = ("log2",)

Gain = str | Callable[[Tensor], Tensor]
Discount = str | Callable[[Tensor], Tensor]


def dcg(
    scores: Any,
    labels: Any,
    *,
    mask: Any = None,
    offsets: Any = None,
    k: int | None = None,
    gain: Gain = "exp",
    discount: Discount = "log2",
    empty: str = "zero",
    ties: str = "stable",
    ids: Any = None,
    reduction: str = "mean",
) -> Tensor:
    r"""DCG: discounted cumulative gain.

    .. math:: \mathrm{DCG@}k = \sum_{i:\, r_i \le k} g(y_i) / d(r_i), \quad g(y) = 2^y - 1, \quad d(r) = \log_2(1 + r)

    A list is empty if no document has a positive gain.

    Args:
        scores, labels, mask, offsets, k, empty, ties, ids, reduction: the lists and the common options; see
            `rankgrad.metrics`.
        gain: gain of a label: `"exp"`, `"linear"` (the label itself), or a function from labels to gains.
        discount: divisor of a gain: `"log2"`, or a function from ranks (from 1) to divisors.

    Example:
        >>> dcg(torch.tensor([2.0, 1.0, 3.0]), torch.tensor([2, 0, 1]))
        tensor(2.8928)

    References:
        Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR techniques", TOIS 2002.
    """
    lowest = None if callable(gain) else 0.0
    ranked = rank(scores, labels, mask=mask, offsets=offsets, ids=ids, ties=ties, k=k, lowest_label=lowest)
    return settle(ranked_dcg(ranked, k=k, gain=gain, discount=discount), empty, reduction)


def ndcg(
    scores: Any,
    labels: Any,
    *,
    mask: Any = None,
    offsets: Any = None,
    k: int | None = None,
    gain: Gain = "exp",
    discount: Discount = "log2",
    empty: str = "zero",
    ties: str = "stable",
    ids: Any = None,
    reduction: str = "mean",
) -> Tensor:
    r"""NDCG: normalised discounted cumulative gain, the DCG divided by the DCG of the best order.

    .. math:: \mathrm{NDCG@}k = \mathrm{DCG@}k \,/\, \max_{\text{orders}} \mathrm{DCG@}k

    A list is empty if its best DCG is not positive. Labels may be large, because only ratios of gains are computed.

    Args:
        scores, labels, mask, offsets, k, empty, ties, ids, reduction: the lists and the common options; see
            `rankgrad.metrics`.
        gain: gain of a label: `"exp"` (2^y - 1), `"linear"` (the label itself), or a function from labels to gains.
        discount: divisor of a gain: `"log2"`, or a function from ranks (from 1) to divisors.

    Example:
        >>> ndcg(torch.tensor([2.0, 1.0, 3.0]), torch.tensor([2, 0, 1]))
        tensor(0.7967)

    References:
        Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR techniques", TOIS 2002.
    """
    lowest = None if callable(gain) else 0.0
    ranked = rank(scores, labels, mask=mask, offsets=offsets, ids=ids, ties=ties, k=k, lowest_label=lowest)
    return settle(ranked_ndcg(ranked, k=k, gain=gain, discount=discount), empty, reduction)


def ranked_dcg(ranked: Ranked, *, k: int | None, gain: Gain, discount: Discount) -> ListValues:
    """Return DCG of ranked lists."""
    _check(k, gain, discount)
    best = ranked.best(gain(ranked.judged) if callable(gain) else ranked.judged, 1)
    head = ranked.head(k)
    return ListValues(_discounted(head, _gains(head.labels, gain), k, discount), best[..., 0] > 0)


def ranked_ndcg(ranked: Ranked, *, k: int | None, gain: Gain, discount: Discount) -> ListValues:
    """Return NDCG of ranked lists."""
    _check(k, gain, discount)
    head = ranked.head(k)
    if callable(gain):
        best, gains = ranked.best(gain(ranked.judged), k), gain(head.labels)
    else:
        # Named gains increase with the label, so the highest labels have the highest gains.
        labels = ranked.best(ranked.judged, k)
        best, gains = (_gains(tensor, gain, labels[..., :1]) for tensor in (labels, head.labels))
    ideal = (best * (1 / rank_discounts(all_ranks(best.shape[-1], best.device), discount)).to(best.dtype)).sum(-1)
    return ListValues(_discounted(head, gains, k, discount) / torch.where(ideal > 0, ideal, 1.0), ideal > 0)


def _discounted(ranked: Ranked, gains: Tensor, k: int | None, discount: Discount) -> Tensor:
    rank = ranked.all_ranks()
    weights = ranked.spread(within(rank, k) / rank_discounts(rank, discount))
    return (torch.where(ranked.mask, gains, 0.0) * weights).sum(-1)


def _gains(labels: Tensor, gain: Gain, top: Tensor | None = None) -> Tensor:
    """Return gains for (N)DCG. With `top (..., 1)`, exponential gains are divided by 2^top, to avoid overflow."""
    if callable(gain):
        return gain(labels)
    if gain == "linear":
        return labels
    if top is None:
        return torch.exp2(labels) - 1
    return torch.exp2(labels - top) * -torch.expm1(-math.log(2) * labels)


def rank_discounts(ranks: Tensor, discount: Discount = "log2") -> Tensor:
    """Return the discounts of ranks in (N)DCG; the gain at a rank is divided by the discount of the rank."""
    return discount(ranks) if callable(discount) else torch.log2(1 + ranks)


def _check(k: int | None, gain: Gain, discount: Discount) -> None:
    check_cutoff(k)
    if not callable(gain):
        one_of("gain", gain, GAINS)
    if not callable(discount):
        one_of("discount", discount, DISCOUNTS)
