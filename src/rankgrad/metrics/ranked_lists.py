"""Ranked lists: the input of every exact metric. Lists are sorted once for many metrics."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rankgrad.errors import bad_type, bad_value, one_of, warn_caller
from rankgrad.ids import document_ids
from rankgrad.lists import Lists, as_lists, reduce, to_padded, values_are_cheap
from rankgrad.metrics.sort_order import TIES, equal_groups, ranked_order

EMPTY = ("skip", "zero", "one")


class ListValues(NamedTuple):
    """Values of a metric, one per list. The function `settle` sets the values of empty lists."""

    values: Tensor  # (...)
    full: Tensor  # (...), bool; False for an empty list


@dataclass(frozen=True)
class Ranked:
    """Lists in ranked order. Labels are 0 in padding, which is after the last document."""

    labels: Tensor  # (..., n)
    mask: Tensor  # (..., n)
    judged: Tensor  # (..., m), all labels of the query in any order, also of documents without a score; 0 in padding
    judged_mask: Tensor  # (..., m), False for padding of `judged`
    ties: tuple[Tensor, Tensor] | None = None  # start and size of the group of ties at each rank; None: not averaged

    def head(self, k: int | None) -> "Ranked":
        """Return the first `k` ranked documents, or all if ties are averaged; `judged` still contains all labels."""
        if k is None or self.ties is not None:
            return self
        return replace(self, labels=self.labels[..., :k], mask=self.mask[..., :k])

    def all_ranks(self) -> Tensor:
        """Return the ranks 1 to n of a ranked list, `(n,)`; see the function `all_ranks`."""
        return all_ranks(self.labels.shape[-1], self.labels.device)

    def spread(self, weights: Tensor) -> Tensor:
        """Return the weight of each document: the weight of its rank, `weights (n,)`, averaged over orders of ties."""
        if self.ties is None:
            return weights.to(self.labels.dtype)
        first, size = self.ties
        total = torch.nn.functional.pad(weights.cumsum(0), (1, 0))
        return ((total[first + size] - total[first]) / size).to(self.labels.dtype)

    def tied(self, flags: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return four numbers for each rank, which describe the group of tied documents at this rank.

        They are the size of the group, the number of flagged documents in the group, the number of flagged documents
        before the group, and the index of the rank in the group, from 0. If ties are not averaged, each group contains
        only one document.
        """
        count = flags.cumsum(-1)
        if self.ties is None:
            one = flags.new_ones(())
            return one, flags, count - flags, one - one
        first, size = self.ties
        count = torch.nn.functional.pad(count, (1, 0))
        before = count.gather(-1, first)
        place = torch.arange(flags.shape[-1], device=flags.device) - first
        return size.to(flags.dtype), count.gather(-1, first + size) - before, before, place.to(flags.dtype)

    def relevant(self, threshold: float) -> tuple[Tensor, Tensor]:
        """Return 1 for a label above `threshold`, otherwise 0, `(..., n)`; and the number of all such judged labels."""
        flags = ((self.labels > threshold) & self.mask).to(self.labels.dtype)
        return flags, ((self.judged > threshold) & self.judged_mask).sum(-1).to(self.labels.dtype)

    def best(self, values: Tensor, k: int | None) -> Tensor:
        """Return the `k` highest `values (..., m)` of the judged documents, highest first; 0 for padding."""
        values = torch.where(self.judged_mask, values, -torch.inf)
        if k is None or k >= values.shape[-1]:
            top = values.sort(dim=-1, descending=True).values
        else:
            top = values.topk(k, dim=-1).values
        return torch.where(top == -torch.inf, 0.0, top)


def all_ranks(n: int, device: torch.device) -> Tensor:
    """Return the ranks 1 to n for a metric, `(n,)`, in float64 if the device supports it, for precise sums."""
    wide = torch.float32 if device.type == "mps" else torch.float64
    return torch.arange(1, n + 1, device=device, dtype=wide)


def within(ranks: Tensor, k: int | None) -> Tensor:
    """Return 1 for each rank up to a metric's cutoff `k`, otherwise 0."""
    return torch.ones_like(ranks) if k is None else (ranks <= k).to(ranks.dtype)


def rank(
    scores: Any,
    labels: Any,
    *,
    mask: Any = None,
    offsets: Any = None,
    ids: Any = None,
    ties: str = "stable",
    k: int | None = None,
    lowest_label: float | None = None,
) -> Ranked:
    """Check the arguments of a metric and rank the lists; warn about NaN scores on the CPU.

    With `k` only the first k documents are sorted, unless the metric averages over ties.
    """
    check_cutoff(k)
    one_of("ties", ties, TIES)
    lists = as_lists(scores, labels, mask=mask, offsets=offsets, lowest_label=lowest_label)
    codes = id_codes(ids, lists) if ties == "trec" and ids is not None else None
    if missing := nan_scores(lists.scores):
        text = f"{missing} of {int(lists.mask.sum())} scores are NaN; their documents are ranked last"
        warn_caller(text)
    return rank_padded(lists.scores, lists.labels, lists.mask, ties, codes, None if ties == "expected" else k)


def rank_padded(
    scores: Tensor, labels: Tensor, mask: Tensor, ties: str, codes: Tensor | None = None, k: int | None = None
) -> Ranked:
    """Rank checked padded lists, all `(..., n)`; `codes` have the same order as the document ids."""
    labels = labels.detach()
    if mask.shape[-1] == 0:
        # One column of padding is added, because zero columns have no maximum and no last element.
        scores, labels, mask = (torch.nn.functional.pad(tensor, (0, 1)) for tensor in (scores, labels, mask))
        codes = None
    positions, keys = ranked_order(scores, mask, ties, codes, k)
    groups = equal_groups(keys) if ties == "expected" else None
    return Ranked(labels.gather(-1, positions), mask.gather(-1, positions), labels, mask, groups)


def id_codes(ids: Any, lists: Lists) -> Tensor:
    """Return integers with the same order as the ids, `(..., n)`. Ids are compared by code point, as in trec_eval."""
    shape, offsets = tuple(lists.given.scores.shape), lists.given.offsets
    if np.shape(ids) != shape:
        bad_value("ids", f"have the shape of scores, {shape}", np.shape(ids))
    text = document_ids(np.ravel(ids) if len(shape) != 1 else ids, "ids")
    codes = torch.from_numpy(np.unique(text, return_inverse=True)[1].reshape(shape)).to(lists.scores.device)
    return codes if offsets is None else to_padded(codes, offsets, lists.mask.shape[-1])[0]


def nan_scores(scores: Tensor) -> int:
    """Return the number of NaN scores; 0 if the count would need a synchronisation of the device."""
    # If the sum is not NaN, no score is NaN; the sum is the faster test.
    if not values_are_cheap(scores) or not bool(scores.sum().isnan()):
        return 0
    return int(scores.isnan().sum())


def settle(outcome: ListValues, empty: str, reduction: str) -> Tensor:
    """Replace the values of empty lists as the option `empty` says, and reduce the values over the lists."""
    one_of("empty", empty, EMPTY)
    values, full = outcome
    if empty != "skip":
        values = torch.where(full, values, float(empty == "one"))
        return reduce(values, torch.ones_like(full), reduction)
    return reduce(torch.where(full, values, torch.nan if reduction == "none" else 0.0), full, reduction)


def check_cutoff(k: object) -> None:
    """Check that the cutoff `k` of a metric is None or an integer of at least 1."""
    if k is None:
        return
    if isinstance(k, bool) or not isinstance(k, int | np.integer):
        bad_type("k", "be an integer or None", repr(k))
    if k < 1:
        bad_value("k", "be at least 1", k)
