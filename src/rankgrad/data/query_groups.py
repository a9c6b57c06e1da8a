"""Divide rows into lists: join runs of documents, and find or regroup queries with several runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.data.letor.errors import LetorError
from rankgrad.errors import name_settings
from rankgrad.ids import join_ids

_MOST_PARTS = 16
_SLAB = 64 << 20  # number of bytes that `reorder` moves at a time


class QueryRuns:
    """Runs of consecutive documents with the same query id, in the order of the files.

    `error(path, line, problem, expected)` returns the error about a query that occurs again. For a table, `line` is the
    row.
    """

    def __init__(self, error: Callable[[Path, int, str, str], Exception] = LetorError) -> None:
        self._error = error
        self._paths: list[Path] = []
        self._parts: list[list[NDArray[Any]]] = []  # first rows, lines of these rows, indices into _paths, query ids

    def add(self, path: Path, rows: NDArray[np.int64], lines: NDArray[np.int64], qids: NDArray[Any]) -> None:
        """Add the query runs of the next block. A first run that continues the previous run is not added.

        Args:
            path: path of the file.
            rows: index of the first document of each run, over all files.
            lines: line of the first document of each run, in the file `path`.
            qids: query id of each run.
        """
        continues = bool(self._parts and len(qids)) and str(self._parts[-1][3][-1]) == str(qids[0])
        if len(rows) == continues:
            return
        if self._paths[-1:] != [path]:
            self._paths.append(path)
        files = np.full(len(rows), len(self._paths) - 1)
        self._parts.append([part[continues:] for part in (rows, lines, files, qids)])
        # Join the small arrays, because small arrays between freed blocks fragment the memory.
        if len(self._parts) == _MOST_PARTS:
            self._parts = [self._joined()]

    def joined(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return the first row and the query id of each query run. Either all ids are integers, or all ids are text."""
        rows, _, _, qids = self._joined()
        return rows, qids

    def check(self) -> None:
        """Check that the documents of each query are consecutive (one run per query)."""
        _, lines, files, qids = self._joined()
        origin = origins(qids)
        moved = np.flatnonzero(origin != np.arange(len(qids)))
        if not len(moved):
            return
        again, first = int(moved[0]), int(origin[moved[0]])
        letor = self._error is LetorError
        place = f"at {self._paths[files[first]]}:{lines[first]}" if letor else f"in row {lines[first]}"
        wrong = f"qid {qids[again]} occurs again after qid {qids[again - 1]} (first {place})"
        rows = "lines" if letor else "rows"
        expected = name_settings(f"the documents of a query on consecutive {rows}, or {{regroup=True}}")
        raise self._error(self._paths[files[again]], int(lines[again]), wrong, expected)

    def _joined(self) -> list[NDArray[Any]]:
        if not self._parts:
            return [np.empty(0, dtype=np.int64)] * 4
        *counts, qids = (list(parts) for parts in zip(*self._parts, strict=True))
        return [*(np.concatenate(parts) for parts in counts), join_ids(qids)]


def origins(qids: NDArray[Any]) -> NDArray[np.int64]:
    """Return, for each query run, the index of the first run of the same query.

    Example:
        >>> origins(np.array([7, 9, 7, 8])).tolist()
        [0, 1, 0, 3]
    """
    _, first, group = np.unique(qids, return_index=True, return_inverse=True)
    return first[group].astype(np.int64)


def regroup_runs(
    starts: NDArray[np.int64], qids: NDArray[Any], documents: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Group runs by query. Queries are in the order of their first runs. Documents of a query are in the old order.

    Returns:
        the old row of each new row, `(documents,)`; the number of documents of each query, `(queries,)`; the index of
        the first run of each query, `(queries,)`.

    Example:
        >>> source, lengths, first = regroup_runs(np.array([0, 2, 3]), np.array([7, 9, 7]), 4)
        >>> source.tolist(), lengths.tolist(), first.tolist()
        ([0, 1, 3, 2], [3, 1], [0, 1])
    """
    origin = origins(qids)
    order = np.argsort(origin, kind="stable")
    lengths = np.diff(starts, append=documents)
    small = np.int32 if documents < 2**31 else np.int64
    shift = starts[order] - np.cumsum(lengths[order]) + lengths[order]  # (runs,), old row minus new row
    source = np.repeat(shift.astype(small), lengths[order])
    source += np.arange(documents, dtype=small)
    first = np.unique(origin)
    return source, np.add.reduceat(lengths[order], np.searchsorted(origin[order], first)), first


def reorder(rows: NDArray[Any], source: NDArray[Any]) -> None:
    """Regroup rows in place: move row `source[i]` to row `i`. Only a few columns are moved at a time."""
    table = rows.reshape(len(rows), -1)
    step = max(1, _SLAB // max(1, len(rows) * rows.dtype.itemsize))
    for column in range(0, table.shape[1], step):
        part = table[:, column : column + step]
        part[:] = part[source]
