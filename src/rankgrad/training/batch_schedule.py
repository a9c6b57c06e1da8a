"""Assign lists to training steps. The order of the lists depends on seed and epoch, and is equal in all processes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankgrad.data.truncation import draw_rows

# Number of batches whose lists are sorted by length together. More batches give less padding, but less random batches.
_POOL = 32


@dataclass(frozen=True)
class StepLists:
    """The lists of one step in this process, and the number of lists in the batch of all processes."""

    lists: NDArray[np.int64]  # indices of the lists in the data set
    rows: NDArray[np.int64]  # indices of the rows in the data set, list after list
    offsets: NDArray[np.int64]  # (lists + 1,), positions in `rows` where lists begin
    batch: int  # number of lists in the batch, in all processes together

    @property
    def width(self) -> int:
        """Number of documents in the longest list of the step."""
        return int(np.diff(self.offsets).max(initial=0))


@dataclass(frozen=True)
class BatchSchedule:
    """The schedule of a run: it divides the lists of each epoch into batches.

    A batch has `batch` lists. If `documents` is not None, a batch instead has at most `documents` documents; a list
    with more documents is a separate batch.

    With `by_length`, the lists of a batch have similar lengths. So there is little padding, and attention wastes little
    time on it. The schedule first shuffles the lists and divides them into pools. Then it sorts each pool by length and
    splits the pool into batches. Finally, it shuffles the batches.
    """

    labels: NDArray[np.float32]  # (documents,); a truncated list keeps a relevant document, if it has one
    offsets: NDArray[np.int64]  # (lists + 1,)
    seed: int
    batch: int
    documents: int | None = None
    list_size: int | None = None
    by_length: bool = False
    rank: int = 0
    world: int = 1

    def steps(self, epoch: int) -> list[StepLists]:
        """Return the steps of an epoch for this process; every process has the same number of steps."""
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
            batches += self._split(pool, lengths)
        if self.by_length:
            batches = [batches[place] for place in rng.permutation(len(batches))]
        return batches

    def _split(self, pool: NDArray[np.int64], lengths: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        if self.documents is None:
            return [pool[start : start + self.batch] for start in range(0, len(pool), self.batch)]
        # If the next list does not fit, a new batch begins. A list with more documents than the limit is a batch alone.
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
