"""Ranked lists: what every exact metric is computed from, so that many metrics share one sort."""

import warnings
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rankgrad.errors import bad_type, bad_value, one_of
from rankgrad.lists import Lists, as_lists, reduce, to_padded, values_are_cheap
from rankgrad.metrics.sort_order import TIES, ranked_order, runs

EMPTY = ("skip", "zero", "one")


class ListValues(NamedTuple):
    """One value per list, and whether the list had anything to find; `settle` gives the others their value."""

    values: Tensor  # (...)
    full: Tensor  # (...), bool


@dataclass(frozen=True)
class Ranked:
    """Lists in ranked order. Labels are 0 in padding, which stands behind the last document."""

    labels: Tensor  # (..., n)
    mask: Tensor  # (..., n)
    judged: Tensor  # (..., m), every label that is known of the query, in any order; 0 in padding
    judged_mask: Tensor  # (..., m)
    ties: tuple[Tensor, Tensor] | None = None  # the runs of tied documents, where a metric averages over their orders

    def head(self, k: int | None) -> "Ranked":
        """The first `k` documents, where nothing behind them can matter; the judged labels stay whole."""
        if k is None or self.ties is not None:
            return self
        return replace(self, labels=self.labels[..., :k], mask=self.mask[..., :k])

    def places(self) -> Tensor:
        """The ranks of the places, 1 to n, `(n,)`; see `places`."""
        return places(self.labels.shape[-1], self.labels.device)

    def spread(self, weights: Tensor) -> Tensor:
        """The weight of each rank, `(n,)`, as the document there has it on average over the orders of ties."""
        if self.ties is None:
            return weights.to(self.labels.dtype)
        first, size = self.ties
        total = torch.nn.functional.pad(weights.cumsum(0), (1, 0))
        return ((total[first + size] - total[first]) / size).to(self.labels.dtype)

    def tied(self, flags: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """For each rank: documents tied there, how many of them are flagged, flagged ones before, place among the tied.

        Without averaging over ties each document stands alone.
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
        """1 for a ranked document with a label above `threshold`, else 0, `(..., n)`; and how many are judged so."""
        flags = ((self.labels > threshold) & self.mask).to(self.labels.dtype)
        return flags, ((self.judged > threshold) & self.judged_mask).sum(-1).to(self.labels.dtype)

    def best(self, values: Tensor, k: int | None) -> Tensor:
        """The `k` highest of the judged documents' `values`, `(..., m)`, highest first; 0 where there are fewer."""
        values = torch.where(self.judged_mask, values, -torch.inf)
        if k is None or k >= values.shape[-1]:
            top = values.sort(dim=-1, descending=True).values
        else:
            top = values.topk(k, dim=-1).values
        return torch.where(top == -torch.inf, 0.0, top)


def places(n: int, device: torch.device) -> Tensor:
    """The ranks 1 to n, `(n,)`, in float64 (where the device has it), in which sums over many ranks stay exact."""
    wide = torch.float32 if device.type == "mps" else torch.float64
    return torch.arange(1, n + 1, device=device, dtype=wide)


def within(ranks: Tensor, k: int | None) -> Tensor:
    """1 for a rank up to `k`, 0 for the others."""
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
    """Check what every metric is given, and rank it; NaN scores are warned about where looking for them is cheap.

    With `k` only the first k documents need to be put in order, unless the metric averages over ties.
    """
    check_cutoff(k)
    one_of("ties", ties, TIES)
    lists = as_lists(scores, labels, mask=mask, offsets=offsets, lowest_label=lowest_label)
    codes = id_codes(ids, lists) if ties == "trec" and ids is not None else None
    if missing := nan_scores(lists.scores):
        text = f"{missing} of {int(lists.mask.sum())} scores are NaN; their documents are ranked last"
        warnings.warn(text, stacklevel=3)
    return rank_padded(lists.scores, lists.labels, lists.mask, ties, codes, None if ties == "expected" else k)


def rank_padded(
    scores: Tensor, labels: Tensor, mask: Tensor, ties: str, codes: Tensor | None = None, k: int | None = None
) -> Ranked:
    """Rank padded lists that are checked, all `(..., n)`; `codes` are in the order of the document ids."""
    labels = labels.detach()
    if mask.shape[-1] == 0:
        # One place of padding: a largest of nothing, or a last one, does not exist.
        scores, labels, mask = (torch.nn.functional.pad(tensor, (0, 1)) for tensor in (scores, labels, mask))
        codes = None
    positions, keys = ranked_order(scores, mask, ties, codes, k)
    groups = runs(keys) if ties == "expected" else None
    return Ranked(labels.gather(-1, positions), mask.gather(-1, positions), labels, mask, groups)


def id_codes(ids: Any, lists: Lists) -> Tensor:
    """Integers in the order of the document ids as text (by code point, as trec_eval compares bytes), `(..., n)`."""
    text, shape, offsets = np.asarray(ids, dtype=str), tuple(lists.given.scores.shape), lists.given.offsets
    if text.shape != shape:
        bad_value("ids", f"have the shape of scores, {shape}", text.shape)
    codes = torch.from_numpy(np.unique(text, return_inverse=True)[1].reshape(shape)).to(lists.scores.device)
    return codes if offsets is None else to_padded(codes, offsets, lists.mask.shape[-1])[0]


def nan_scores(scores: Tensor) -> int:
    """How many scores are NaN; 0 where counting would force a device synchronisation."""
    # A sum that is a number has no NaN in it, and is the quicker look.
    if not values_are_cheap(scores) or not bool(scores.sum().isnan()):
        return 0
    return int(scores.isnan().sum())


def settle(outcome: ListValues, empty: str, reduction: str) -> Tensor:
    """Give the lists in which there is nothing to find their value, and reduce."""
    one_of("empty", empty, EMPTY)
    values, full = outcome
    if empty != "skip":
        values = torch.where(full, values, float(empty == "one"))
        return reduce(values, torch.ones_like(full), reduction)
    return reduce(torch.where(full, values, torch.nan if reduction == "none" else 0.0), full, reduction)


def check_cutoff(k: object) -> None:
    """`k` is None or a whole number from 1."""
    if k is None:
        return
    if isinstance(k, bool) or not isinstance(k, int | np.integer):
        bad_type("k", "be a whole number or None", repr(k))
    if k < 1:
        bad_value("k", "be at least 1", k)
