"""Group rows into lists. This is the only place that does it: all readers, frames, arrays and metrics call it.

Rows come as runs: consecutive rows with the same ids. A list is a query, or a list id of a query, and may have several
runs. In tables, the rows of a list need not be adjacent.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankgrad.errors import bad_value
from rankgrad.ids import query_ids


class GroupedRows(NamedTuple):
    """Rows that are grouped into lists. Lists are in the order of their first rows, rows of a list in the old order."""

    source: NDArray[Any] | None  # (rows,), old row of each new row; None if the rows keep their places
    offsets: NDArray[np.int64]  # (lists + 1,)
    qids: NDArray[Any]  # (lists,)
    list_ids: NDArray[Any] | None  # (lists,); None if a list is a query
    moved: int  # number of runs that join an earlier run of their list

    @property
    def order(self) -> NDArray[np.int64]:
        """Old row of each new row, `(rows,)`, also if the rows keep their places."""
        return np.arange(self.offsets[-1]) if self.source is None else self.source.astype(np.int64, copy=False)


def _groups(*ids: NDArray[Any] | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first run of each list, in the order of the runs, and for each run the number of its list."""
    codes, *more = [each for each in ids if each is not None]
    for other in more:
        one, two = (np.unique(each, return_inverse=True)[1].astype(np.int64) for each in (codes, other))
        codes = one * (len(two) + 1) + two
    _, first, group = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return first[order], place[group]


def origins(*ids: NDArray[Any] | None) -> NDArray[np.int64]:
    """Return, for each run, the index of the first run with the same ids.

    Example:
        >>> origins(np.array([7, 9, 7, 8]), None).tolist(), origins(np.array([7, 7, 7]), np.array([1, 2, 1])).tolist()
        ([0, 1, 0, 3], [0, 1, 0])
    """
    first, group = _groups(*ids)
    return first[group]


def group_runs(
    starts: NDArray[np.int64], rows: int, qids: NDArray[Any], list_ids: NDArray[Any] | None = None
) -> GroupedRows:
    """Group runs of rows into lists.

    Args:
        starts: first row of each run, `(runs,)`.
        rows: number of rows.
        qids: query id of each run, `(runs,)`.
        list_ids: list id of each run, `(runs,)`; None if a list is a query.

    Example:
        >>> lists = group_runs(np.array([0, 2, 3]), 4, np.array([7, 9, 7]))
        >>> lists.source.tolist(), lists.offsets.tolist(), lists.qids.tolist(), lists.moved
        ([0, 1, 3, 2], [0, 3, 4], [7, 9], 1)
    """
    first, group = _groups(qids, list_ids)
    moved = len(starts) - len(first)
    ids = qids[first], None if list_ids is None else list_ids[first]
    if not moved:
        return GroupedRows(None, np.append(starts, rows).astype(np.int64), *ids, 0)
    order = np.argsort(group, kind="stable")
    lengths = np.diff(starts, append=rows)
    sizes = np.bincount(group, lengths, len(first))
    small = np.int32 if rows < 2**31 else np.int64
    shift = starts[order] - np.cumsum(lengths[order]) + lengths[order]  # (runs,), old row minus new row
    source = np.repeat(shift.astype(small), lengths[order])
    source += np.arange(rows, dtype=small)
    return GroupedRows(source, np.append(0, np.cumsum(sizes)).astype(np.int64), *ids, moved)


def lists_of_rows(qid: Any, list_id: Any = None) -> GroupedRows:
    """Group rows in any order into lists.

    Args:
        qid: query id of each row, `(rows,)`.
        list_id: list id of each row, `(rows,)`; None if a list is a query.
    """
    ids = [query_ids(qid), *([] if list_id is None else [query_ids(list_id, "list_id")])]
    if len(ids[-1]) != len(ids[0]):
        bad_value("list_id", f"have one list id per row, ({len(ids[0])},)", ids[-1].shape)
    begins = np.ones(len(ids[0]), bool)
    begins[1:] = np.any([each[1:] != each[:-1] for each in ids], axis=0)
    starts = np.flatnonzero(begins)
    return group_runs(starts, len(ids[0]), *(each[starts] for each in ids))


def group_rows(qid: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
    """Group rows by query. Queries are in the order of their first rows; the rows of a query keep their order.

    `values[order]` groups values; `restored[order] = scores` restores the original order of grouped scores.

    Args:
        qid: query id of each row, `(rows,)`, integers or text, in any order; see `rankgrad.ids`.

    Returns:
        order `(rows,)`, offsets `(lists + 1,)`, and the query ids `(lists,)`.

    Example:
        >>> group_rows(["b", "a", "b"])
        (array([0, 2, 1]), array([0, 2, 3]), array(['b', 'a'], dtype='<U1'))
    """
    lists = lists_of_rows(qid)
    return lists.order, lists.offsets, lists.qids


def group_offsets(group: Any, rows: int) -> NDArray[np.int64]:
    """Return the offsets of lists, `(lists + 1,)`, from the number of rows of each list.

    Args:
        group: number of rows of each list, `(lists,)`; the rows of a list are consecutive.
        rows: number of all rows, which the numbers in `group` must add up to.

    Example:
        >>> group_offsets([2, 0, 1], rows=3)
        array([0, 2, 2, 3])
    """
    sizes = np.asarray(group)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or (len(sizes) and sizes.min() < 0):
        bad_value("group", "be the sizes of the lists, integers of at least 0", sizes)
    if sizes.sum() != rows:
        bad_value("group", f"have the sum {rows}, the number of rows", sizes.sum())
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
