"""Assemble rows to lists: rows that come in blocks, a stream of blocks, and the rows of several data sets.

`rankgrad.group_rows` groups the rows; a reader only adds the runs of each block, and puts its values in the new order.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.data.dataset import VALUES, Dataset
from rankgrad.data.sparse_rows import stack_rows
from rankgrad.errors import bad_value, name_settings
from rankgrad.group_rows import GroupedRows, group_runs, origins
from rankgrad.ids import join_ids

_MOST_PARTS = 16
_SLAB = 64 << 20  # number of bytes that `reorder` moves at a time


class Runs:
    """Runs of consecutive documents of the same list, in the order of the files.

    Args:
        error: function `error(path, line, problem, expected)` that returns the error about a list that occurs again.
        regroup: True if a list may have several runs; with False, `check` refuses them.
        unit: `lines` of text or `rows` of a table.
    """

    def __init__(
        self, error: Callable[[Path, int, str, str], Exception], regroup: bool = False, unit: str = "lines"
    ) -> None:
        self._error, self._regroup, self._unit = error, regroup, unit
        self._paths: list[Path] = []
        # First rows, lines of these rows, indices into _paths, query ids and, if lists have ids, list ids.
        self._parts: list[list[NDArray[Any]]] = []

    def add(self, path: Path, rows: NDArray[np.int64], lines: NDArray[np.int64], *ids: NDArray[Any]) -> None:
        """Add the runs of the next block. A first run that continues the previous run is not added.

        Args:
            path: path of the file.
            rows: index of the first document of each run, over all files.
            lines: line of the first document of each run, in the file `path`.
            ids: query id of each run and, if lists have ids, list id of each run.
        """
        last = [str(each[-1]) for each in self._parts[-1][3:]] if self._parts else None
        continues = bool(len(rows)) and last == [str(each[0]) for each in ids]
        if len(rows) == continues:
            return
        if self._paths[-1:] != [path]:
            self._paths.append(path)
        files = np.full(len(rows), len(self._paths) - 1)
        self._parts.append([part[continues:] for part in (rows, lines, files, *ids)])
        # Join the small arrays, because small arrays between freed blocks fragment the memory.
        if len(self._parts) == _MOST_PARTS:
            self._parts = [self._joined()]

    def lists(self, documents: int) -> GroupedRows:
        """Check the runs, and return the lists of all rows.

        Args:
            documents: number of rows.
        """
        self.check()
        rows, _, _, *ids = self._joined()
        return group_runs(rows, documents, *ids)

    def check(self) -> None:
        """Check that the documents of each list are consecutive (one run per list), unless `regroup` is True."""
        if self._regroup or not self._parts:
            return
        _, lines, files, *ids = self._joined()
        origin = origins(*ids)
        moved = np.flatnonzero(origin != np.arange(len(origin)))
        if not len(moved):
            return
        again, first = int(moved[0]), int(origin[moved[0]])
        row = self._unit == "rows"
        place = f"in row {lines[first]}" if row else f"at {self._paths[files[first]]}:{lines[first]}"
        names = [f"qid {qid}" for qid in ids[0][[again, again - 1]]]
        if len(ids) > 1:
            names = [f"list {each} of {name}" for each, name in zip(ids[1][[again, again - 1]], names, strict=True)]
        wrong = f"{names[0]} occurs again after {names[1]} (first {place})"
        what = "query" if len(ids) == 1 else "list"
        expected = name_settings(f"the documents of a {what} on consecutive {self._unit}, or {{regroup=True}}")
        raise self._error(self._paths[files[again]], int(lines[again]), wrong, expected)

    def _joined(self) -> list[NDArray[Any]]:
        if not self._parts:
            return [np.empty(0, dtype=np.int64)] * 4
        columns = [list(parts) for parts in zip(*self._parts, strict=True)]
        return [np.concatenate(parts) for parts in columns[:3]] + [join_ids(parts) for parts in columns[3:]]


def reorder(rows: NDArray[Any], source: NDArray[Any]) -> None:
    """Regroup rows in place: move row `source[i]` to row `i`. Only a few columns are moved at a time."""
    table = rows.reshape(len(rows), -1)
    step = max(1, _SLAB // max(1, len(rows) * rows.dtype.itemsize))
    for column in range(0, table.shape[1], step):
        part = table[:, column : column + step]
        part[:] = part[source]


def complete_lists(blocks: Iterable[Dataset], documents: int) -> Iterator[Dataset]:
    """Yield small data sets of complete lists from a stream of blocks.

    Args:
        blocks: consecutive rows of a file. The last list of a block may continue in the next block.
        documents: minimum number of documents in each data set, except the last.
    """
    waiting: list[Dataset] = []
    for block in blocks:
        alone = len(block) == 1 and waiting and waiting[-1].list_names[-1:] == block.list_names
        before = sum(len(each.labels) for each in waiting)
        waiting.append(block)
        # The last list may continue in the next block; the lists before it are complete.
        if not alone and before + block.offsets[-2] >= documents:
            whole = join_lists(waiting, continued=True)
            yield whole.between(0, len(whole) - 1)
            waiting = [whole.take([-1])]  # a copy, because a view would keep all lists in memory
    if waiting:
        yield join_lists(waiting, continued=True)


def join_lists(parts: Sequence[Dataset], *, continued: bool = False) -> Dataset:
    """Return the lists of several data sets with the same features as one data set, with the attributes of the first.

    Document ids, best scores and columns are kept if all parts have them; absent document weights are 1.

    Args:
        parts: data sets.
        continued: True if the first list of a part may continue the last list of the part before.
    """
    if len(parts) == 1:
        return parts[0]
    if any(part.weights is not None for part in parts):
        parts = [replace(part, weights=np.ones_like(part.labels)) if part.weights is None else part for part in parts]
    if len({frozenset(part.columns or ()) for part in parts}) > 1:
        got = " and ".join(", ".join(part.columns or ()) or "none" for part in parts)
        bad_value("the columns used in training", "be the same in all lists that are joined", got)
    first = parts[0]
    before = np.cumsum([0, *(len(part.labels) for part in parts)])
    starts = np.concatenate([part.offsets[:-1] + shift for part, shift in zip(parts, before, strict=False)])
    ids = {"qids": join_ids([part.qids for part in parts]), "list_ids": _list_ids(parts)}
    if continued:
        ends = np.cumsum([len(part) for part in parts[:-1]])  # first list of each part but the first
        same = [place for place in ends if all(each is None or each[place - 1] == each[place] for each in ids.values())]
        starts = np.delete(starts, same)
        ids = {name: None if each is None else np.delete(each, same) for name, each in ids.items()}
    return replace(
        first,
        features=stack_rows([part.features for part in parts]),
        offsets=np.append(starts, before[-1]),
        columns=first.columns
        and {name: np.concatenate([(part.columns or {})[name] for part in parts]) for name in first.columns},
        rows=None,
        **{**{name: _joined([getattr(part, name) for part in parts]) for name in VALUES}, **ids},
    )


def _joined(arrays: list[Any]) -> Any:
    return None if any(each is None for each in arrays) else join_ids(arrays)


def _list_ids(parts: Sequence[Dataset]) -> NDArray[Any] | None:
    """Return the list ids of data sets to join. If a query of a part has one list, its list id is the query id."""
    if all(part.list_ids is None for part in parts):
        return None
    return join_ids([part.qids if part.list_ids is None else part.list_ids for part in parts])
