"""Group rows by query id. In tables, the rows of a query need not be adjacent."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankgrad.errors import bad_value
from rankgrad.ids import query_ids


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
    qid = query_ids(qid)
    changes = np.flatnonzero(qid[1:] != qid[:-1]) + 1
    starts = np.concatenate([[0], changes]) if len(qid) else np.zeros(0, dtype=np.int64)
    unique, first, inverse = np.unique(qid, return_index=True, return_inverse=True)
    if len(unique) == len(starts):  # already grouped
        return np.arange(len(qid)), np.append(starts, len(qid)).astype(np.int64), qid[starts]
    appearance = np.argsort(first, kind="stable")
    place = np.empty_like(appearance)
    place[appearance] = np.arange(len(unique))
    order = np.argsort(place[inverse], kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(place[inverse], minlength=len(unique)))]).astype(np.int64)
    return order, offsets, unique[appearance]


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
