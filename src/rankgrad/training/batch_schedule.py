"""Which lists go into which step: shuffled by the seed and the epoch, alike in every process."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankgrad.data.truncation import draw_rows

_POOL = 32  # batches that are sorted by length together: enough to waste little, few enough to stay random


@dataclass(frozen=True)
class StepLists:
    """What this process does in one step: its lists of the batch, and how many lists the batch has in all."""

    lists: NDArray[np.int64]  # numbers of the lists in the data set
    rows: NDArray[np.int64]  # rows of the data set, list after list
    offsets: NDArray[np.int64]  # (lists + 1,), of the rows
    batch: int  # lists of the batch over all processes

    @property
    def width(self) -> int:
        """Documents of the longest list."""
        return int(np.diff(self.offsets).max(initial=0))


@dataclass(frozen=True)
class BatchSchedule:
    """The steps of any epoch. Batches are counted in lists, or, with `documents`, filled up to so many documents.

    With `by_length`, lists of like length share a batch, so that attention over padded lists wastes little: a pool of
    shuffled lists is sorted, cut into batches, and the batches are shuffled.
    """

    labels: NDArray[np.float32]  # (documents,), for a cut that keeps a relevant document
    offsets: NDArray[np.int64]  # (lists + 1,)
    seed: int
    batch: int
    documents: int | None = None
    list_size: int | None = None
    by_length: bool = False
    rank: int = 0
    world: int = 1

    def steps(self, epoch: int) -> list[StepLists]:
        """The steps of an epoch for this process; every process has as many."""
        rng = np.random.default_rng([self.seed, epoch])
        rows, offsets = None, self.offsets
        if self.list_size is not None:
            rows, offsets = draw_rows(self.labels, self.offsets, self.list_size, rng)
        return [self._step(lists, rows, offsets) for lists in self._batches(np.diff(offsets), rng)]

    def _batches(self, lengths: NDArray[np.int64], rng: np.random.Generator) -> list[NDArray[np.int64]]:
        order = rng.permutation(np.flatnonzero(lengths > 0))
        per_pool = self.batch * _POOL
        if self.documents is not None:
            per_pool = max(1, int(_POOL * self.documents / max(1.0, lengths[order].mean())) if len(order) else 1)
        if not self.by_length:
            per_pool = max(1, len(order))
        batches = []
        for start in range(0, len(order), per_pool):
            pool = order[start : start + per_pool]
            if self.by_length:
                pool = pool[np.argsort(-lengths[pool], kind="stable")]
            batches += self._cut(pool, lengths)
        if self.by_length:
            batches = [batches[place] for place in rng.permutation(len(batches))]
        return batches

    def _cut(self, pool: NDArray[np.int64], lengths: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        if self.documents is None:
            return [pool[start : start + self.batch] for start in range(0, len(pool), self.batch)]
        # A new batch begins where the next list would not fit; a list longer than a batch has one to itself.
        starts, filled = [0], 0
        for place, length in enumerate(lengths[pool].tolist()):
            if filled and filled + length > self.documents:
                starts.append(place)
                filled = 0
            filled += length
        return np.split(pool, starts[1:])

    def _step(self, batch: NDArray[np.int64], rows: NDArray[np.int64] | None, offsets: NDArray[np.int64]) -> StepLists:
        lists = batch[self.rank :: self.world]
        starts, lengths = offsets[lists], np.diff(offsets)[lists]
        new = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        places = np.arange(new[-1]) + np.repeat(starts - new[:-1], lengths)
        return StepLists(lists, places if rows is None else rows[places], new, len(batch))
