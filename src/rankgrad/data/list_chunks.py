"""Divide a stream of rows into small data sets of complete lists."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrad.data.dataset import Dataset
from rankgrad.data.sparse_rows import Features, stack_rows
from rankgrad.ids import join_ids


class ChunkRows(NamedTuple):
    """Consecutive documents of a file. `starts` and `qids` describe the lists that begin in these documents."""

    features: Features  # (documents, f)
    labels: NDArray[np.float32]  # (documents,)
    docids: NDArray[np.str_] | None  # (documents,)
    starts: NDArray[np.int64]  # (lists,), first document of each list
    qids: NDArray[Any]  # (lists,)


def complete_lists(parts: Iterable[ChunkRows], documents: int, name: str) -> Iterator[Dataset]:
    """Divide a stream of rows, and yield small data sets of complete lists.

    Args:
        parts: rows of a file, in order. A list may continue in the next part.
        documents: minimum number of documents in each data set, except the last.
        name: name of the data sets.
    """
    last = None  # query of the last document so far
    waiting: list[ChunkRows] = []
    for rows in parts:
        if last == str(rows.qids[0]):
            waiting.append(rows._replace(starts=rows.starts[1:], qids=rows.qids[1:]))
        else:
            waiting.append(rows)
        last = str(rows.qids[-1])
        # The last list may continue in the next part; the lists before it are complete.
        before = sum(len(each.labels) for each in waiting[:-1])
        if len(waiting[-1].starts) and before + waiting[-1].starts[-1] >= documents:
            whole, rest = _split(_joined(waiting))
            waiting = [rest]
            yield _dataset(whole, name)
    if waiting:
        yield _dataset(_joined(waiting), name)


def _joined(parts: list[ChunkRows]) -> ChunkRows:
    if len(parts) == 1:
        return parts[0]
    before = np.cumsum([0, *(len(part.labels) for part in parts[:-1])])
    starts = np.concatenate([part.starts + shift for part, shift in zip(parts, before, strict=True)])
    docids = [part.docids for part in parts if part.docids is not None]
    return ChunkRows(
        stack_rows([part.features for part in parts]),
        np.concatenate([part.labels for part in parts]),
        join_ids(docids) if docids else None,
        starts,
        join_ids([part.qids for part in parts]),
    )


def _split(rows: ChunkRows) -> tuple[ChunkRows, ChunkRows]:
    """Split a chunk: return all lists but the last, and a copy of the last. A view would keep all lists in memory."""
    at = int(rows.starts[-1])
    features, labels, docids, starts, qids = rows
    whole = ChunkRows(features[:at], labels[:at], None if docids is None else docids[:at], starts[:-1], qids[:-1])
    rest = None if docids is None else docids[at:].copy()
    first = np.zeros(1, dtype=np.int64)
    return whole, ChunkRows(features[at:].copy(), labels[at:].copy(), rest, first, qids[-1:].copy())


def _dataset(rows: ChunkRows, name: str) -> Dataset:
    offsets = np.append(rows.starts, len(rows.labels)).astype(np.int64)
    return Dataset(rows.features, rows.labels, offsets, rows.qids, rows.docids, name)
