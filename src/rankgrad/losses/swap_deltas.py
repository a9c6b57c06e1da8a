"""Swap deltas for LambdaRank: the change of nDCG, P, AP or RR if two documents swap ranks."""

import torch
from torch import Tensor

from rankgrad.errors import bad_value
from rankgrad.lists import Lists
from rankgrad.losses.metric_formula import MetricFormula
from rankgrad.metrics.ranked_lists import within
from rankgrad.metrics.sort_order import ranks

METRICS = ("nDCG", "P", "AP", "RR")


def difference(lists: Lists, metric: MetricFormula) -> Tensor:
    """Return the swap delta of every pair, `(..., n, n)`: `|metric - metric with i and j swapped|`, no gradient."""
    place = ranks(lists.scores, lists.mask) - 1
    rank = (place + 1).to(lists.scores.dtype)
    inside = within(rank, metric.k)
    if metric.name == "nDCG":
        return gaps(metric.gains(lists)) * gaps(inside / metric.discounted(rank))
    relevant = metric.relevant(lists).to(rank.dtype)
    if metric.name == "P":
        if metric.k is None:
            bad_value("metric", "have a cutoff, for example P@5", "P")
        return gaps(relevant) * gaps(inside) / metric.k
    if metric.name == "AP":
        return gaps(relevant) * _average_precision(relevant, place, inside / rank)
    return _reciprocal_rank(relevant, rank, metric.k)


def gaps(values: Tensor) -> Tensor:
    """Return the absolute difference of the values of every pair of documents, `|v_i - v_j|`, `(..., n, n)`."""
    return (values[..., :, None] - values[..., None, :]).abs()


def _average_precision(relevant: Tensor, place: Tensor, worth: Tensor) -> Tensor:
    """Return the change of AP if a relevant and an irrelevant document at ranks a < b are swapped, `(..., n, n)`.

    Let c(r) be the number of relevant documents up to rank r. The swap changes c by 1 at every rank from a to b - 1. So
    `|change| * R = c(a) / a + sum of 1 / r over relevant ranks r in (a, b) - c(b) / b`. In this formula, c(a) counts
    the document at rank a as relevant. `worth` is 1 / rank up to rank k, and 0 beyond rank k.
    """

    def down_to(values: Tensor) -> Tensor:
        return torch.zeros_like(values).scatter(-1, place, values).cumsum(-1).gather(-1, place)

    count, passed = down_to(relevant), down_to(relevant * worth)
    upper = (count + 1.0 - relevant) * worth - passed
    lower = passed - relevant * worth - count * worth
    row_is_upper = place[..., :, None] < place[..., None, :]
    change = torch.where(
        row_is_upper, upper[..., :, None] + lower[..., None, :], lower[..., :, None] + upper[..., None, :]
    )
    return change.abs() / relevant.sum(-1).clamp(min=1)[..., None, None]


def _reciprocal_rank(relevant: Tensor, rank: Tensor, k: int | None) -> Tensor:
    """Return the change of RR if a relevant and an irrelevant document are swapped, `(..., n, n)`.

    RR changes if the swap moves a relevant document before the first relevant document, or moves the first relevant
    document to a later rank.
    """
    n = rank.shape[-1]
    if n == 0:
        return gaps(relevant)

    def worth(r: Tensor) -> Tensor:
        return torch.where(r <= (n if k is None else k), 1.0 / r, 0.0)

    where = torch.where(relevant > 0, rank, n + 1.0)  # irrelevant documents get a rank after the last rank
    first = where.amin(-1)[..., None, None]
    second = torch.where(where > first[..., 0], where, n + 1.0).amin(-1)[..., None, None]
    # The row is the relevant document of the pair. The column is the document with which it is swapped.
    mine, other = rank[..., :, None], rank[..., None, :]
    overtakes = worth(torch.minimum(first, other)) - worth(first)
    falls = worth(first) - worth(torch.minimum(second, other))
    change = torch.where(other < mine, overtakes, torch.where(mine == first, falls, 0.0))
    change = change * relevant[..., :, None] * (1.0 - relevant[..., None, :])
    return change + change.mT
