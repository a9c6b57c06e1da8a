"""Metrics of the order of all documents: average relevance position and ordered pair accuracy."""

from typing import Any

import torch
from torch import Tensor

from rankgrad.metrics.ranked_lists import ListValues, Ranked, check_cutoff, rank, settle, within
from rankgrad.metrics.sort_order import equal_groups, inverse


def arp(
    scores: Any,
    labels: Any,
    *,
    mask: Any = None,
    offsets: Any = None,
    k: int | None = None,
    empty: str = "zero",
    ties: str = "stable",
    ids: Any = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Average relevance position: the mean of the ranks, weighted by the labels. Lower values are better.

    .. math:: \mathrm{ARP} = \sum_i y_i \, r_i \;/\; \sum_i y_i

    With `k`, a document beyond rank k counts with rank k + 1. A list without a label above 0 is empty.

    Args:
        scores, labels, mask, offsets, k, empty, ties, ids, reduction: the lists and the common options; see
            `rankgrad.metrics`.

    Example:
        >>> arp(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0, 1, 2]))
        tensor(1.3333)

    References:
        Wang et al., "The LambdaLoss framework for ranking metric optimization", CIKM 2018.
    """
    ranked = rank(scores, labels, mask=mask, offsets=offsets, ids=ids, ties=ties, lowest_label=0.0)
    return settle(ranked_arp(ranked, k=k), empty, reduction)


def opa(
    scores: Any,
    labels: Any,
    *,
    mask: Any = None,
    offsets: Any = None,
    k: int | None = None,
    empty: str = "zero",
    ties: str = "stable",
    ids: Any = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Ordered pair accuracy: the share of correctly ordered pairs among the pairs with different labels.

    .. math:: \mathrm{OPA@}k = \sum_{i:\, r_i \le k} \bigl|\{j: y_j < y_i,\ r_j > r_i\}\bigr| \;/\; \max_{\text{orders}}

    With `k`, a pair counts only if the document with the higher label is among the first k. The divisor is the largest
    number of correctly ordered pairs that an order of the list can have. A list without two different labels is empty.
    The time is O(n log^2 n) and the memory is O(n).

    Args:
        scores, labels, mask, offsets, k, empty, ties, ids, reduction: the lists and the common options; see
            `rankgrad.metrics`.

    Example:
        >>> opa(torch.tensor([4.0, 3.0, 2.0, 1.0]), torch.tensor([1, 3, 0, 1]))
        tensor(0.6000)
    """
    ranked = rank(scores, labels, mask=mask, offsets=offsets, ids=ids, ties=ties)
    return settle(ranked_opa(ranked, k=k), empty, reduction)


def ranked_arp(ranked: Ranked, *, k: int | None) -> ListValues:
    """Return the average relevance position of ranked lists."""
    check_cutoff(k)
    rank = ranked.all_ranks()
    weights = ranked.spread(rank if k is None else rank.clamp(max=k + 1))
    total = ranked.labels.sum(-1)
    return ListValues((ranked.labels * weights).sum(-1) / torch.where(total > 0, total, 1.0), total > 0)


def ranked_opa(ranked: Ranked, *, k: int | None) -> ListValues:
    """Return the ordered pair accuracy of ranked lists."""
    check_cutoff(k)
    # Padding is last and gets the highest label, so it is never the lower document of a pair.
    labels = torch.where(ranked.mask, ranked.labels, torch.inf)
    rank = ranked.all_ranks()
    weights = ranked.spread(within(rank, k))
    if ranked.ties is None:
        right = (lower_after(labels) * weights).sum(-1)
    else:
        first, size = ranked.ties
        # If ties are in ascending order of label, no tied pair is correct. In descending order, all are correct.
        apart, all_pairs = (lower_after(_within_ties(labels, first, falling)) for falling in (False, True))
        inside = ((labels.shape[-1] if k is None else k) - first).clamp(min=0).minimum(size)  # tied ranks up to k
        # The higher label is at tied rank p <= inside, the lower label is after p: sum (size - p) / (size (size - 1)).
        both = inside * size - inside * (inside + 1) // 2
        both = both.to(weights.dtype) / (size * (size - 1)).clamp(min=1)
        right = (apart * weights + (all_pairs - apart) * both).sum(-1)
    best = torch.where(ranked.mask, ranked.labels, -torch.inf).sort(dim=-1, descending=True).values
    first, size = equal_groups(best)
    lower = (ranked.mask.sum(-1, keepdim=True) - first - size).clamp(min=0)  # number of documents with a lower label
    most = (lower * within(rank, k)).sum(-1).to(right.dtype)
    return ListValues(right / most.clamp(min=1), most > 0)


def lower_after(labels: Tensor) -> Tensor:
    """Return, for each document of a ranked list, the number of later documents with a lower label, `(..., n)`.

    Two documents are compared by the highest bit in which the codes of their labels differ. A stable sort by the higher
    bits groups the documents whose higher bits are equal. In a group, the later documents with bit 0 are counted for
    each document with bit 1.

    Example:
        >>> lower_after(torch.tensor([2.0, 3.0, 1.0, 1.0]))
        tensor([2, 2, 0, 0])
    """
    n = labels.shape[-1]
    values, order = labels.sort(dim=-1)
    code = equal_groups(values)[0].gather(-1, inverse(order))  # equal for equal labels
    count = torch.zeros_like(code)
    for bit in reversed(range((n - 1).bit_length())):
        group, place = (code >> (bit + 1)).sort(dim=-1, stable=True)
        one = (code >> bit & 1).gather(-1, place)
        zeros = (1 - one).cumsum(-1)
        first, size = equal_groups(group)
        behind = zeros.gather(-1, first + size - 1) - zeros
        count = count.scatter_add(-1, place, one * behind)
    return count


def _within_ties(labels: Tensor, first: Tensor, falling: bool) -> Tensor:
    """Return the labels in ranked order; tied documents are ordered by label (for ordered pair accuracy)."""
    labels, order = labels.sort(dim=-1, descending=falling)
    return labels.gather(-1, first.gather(-1, order).argsort(dim=-1, stable=True))
