"""Read LETOR text of any size as a series of small data sets, in one pass. Only some lists are in memory."""

import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrad.data.dataset import Dataset
from rankgrad.data.letor.blocks import BlockCounts, ParsedBlock, ParseTarget, count_block, parse_block
from rankgrad.data.letor.errors import LetorError, ParserLimits
from rankgrad.data.letor.passes import LineShape, in_order, threads
from rankgrad.data.letor.reader import fill_value
from rankgrad.data.letor.streams import Block, blocks, check_file
from rankgrad.data.query_groups import QueryRuns


class ChunkRows(NamedTuple):
    """Consecutive documents of a file, and the lists whose first documents are among them."""

    features: NDArray[np.float32]  # (documents, f)
    labels: NDArray[np.float32]  # (documents,)
    docids: NDArray[np.str_]  # (documents,)
    starts: NDArray[np.int64]  # (lists,), first document of each list
    qids: NDArray[Any]  # (lists,)


def stream_letor(
    path: str | os.PathLike[str],
    features: int,
    *,
    missing: float | Literal["error"] = "error",
    docids: bool = True,
    documents: int = 16_384,
    progress: Callable[[int], object] | None = None,
) -> Iterator[Dataset]:
    """Yield the lists of a LETOR file in order, as small data sets of complete lists; for scoring, not for training.

    Errors are the same as in `read_letor`. A query that occurs again raises an error only at the end of the file.

    Args:
        path: path of a file (plain, gzip or xz).
        features: number of features. A larger id is an error. Features that a line omits are 0.
        missing: number that replaces NaN, infinities and values too large for float32; with "error", they are an error.
        docids: True to keep comments as document ids.
        documents: minimum number of documents in each data set, except the last.
        progress: function that is called with the number of bytes read so far.

    Example:
        >>> path = getfixture("tmp_path") / "test.txt"
        >>> _ = path.write_text("2 qid:7 1:0.5 3:1e-2\\n0 qid:7 2:4\\n1 qid:9\\n0 qid:9\\n0 qid:8 1:2\\n")
        >>> [data.lengths.tolist() for data in stream_letor(path, 3)]
        [[2, 2, 1]]
    """
    path = Path(path)
    check_file(path)
    runs, last = QueryRuns(), None  # `last`: query of the last document so far
    waiting: list[ChunkRows] = []
    for rows in _blocks(path, features, fill_value(missing), docids, runs, progress):
        if last == str(rows.qids[0]):
            waiting.append(rows._replace(starts=rows.starts[1:], qids=rows.qids[1:]))
        else:
            waiting.append(rows)
        last = str(rows.qids[-1])
        # The last list may continue in the next block; the lists before it are complete.
        before = sum(len(each.labels) for each in waiting[:-1])
        if len(waiting[-1].starts) and before + waiting[-1].starts[-1] >= documents:
            whole, rest = _split(_joined(waiting))
            waiting = [rest]
            yield _dataset(whole, path, docids)
    yield _dataset(_joined(waiting), path, docids)
    runs.check()


def _blocks(
    path: Path,
    features: int,
    fill: float | None,
    docids: bool,
    runs: QueryRuns,
    progress: Callable[[int], object] | None,
) -> Iterator[ChunkRows]:
    """Parse a file in a few threads, and yield its blocks that contain documents; the first bad line is an error."""
    limits, read = ParserLimits(features, True, fill is not None), 0

    def on_read(piece: bytes) -> None:
        nonlocal read
        read += len(piece)
        if progress is not None:
            progress(read)

    def parse(block: Block) -> tuple[Block, BlockCounts, ParseTarget, ParsedBlock]:
        counted = count_block(block, features, docids)
        rows, width = counted.documents, counted.docid_width
        arrays = np.zeros((rows, features), np.float32), np.zeros(rows, np.float32), np.zeros((rows, width), np.uint32)
        target = ParseTarget(*arrays, fill or 0.0, limits)
        return block, counted, target, parse_block(block, 0, target)

    shape, lines, found, widest = LineShape(), 0, 0, 0
    with ThreadPoolExecutor(threads()) as pool:
        for block, counted, target, parsed in in_order(pool, parse, blocks(path, on_read)):
            truncated = shape.truncated(path, block, parsed, counted)
            if truncated is None:
                runs.add(path, parsed)
            bad = parsed.bad_line or truncated
            if bad is not None:
                runs.check()  # if a query occurs again before this line, that error is raised first
                raise LetorError(path, bad.line, bad.wrong, bad.expected)
            shape.add(parsed, counted)
            lines, found, widest = lines + counted.lines, found + counted.documents, max(widest, counted.widest)
            if counted.documents:
                width = max(1, counted.docid_width)
                names = target.docids if counted.docid_width else np.zeros((len(target.labels), 1), np.uint32)
                yield ChunkRows(
                    target.features, target.labels, names.reshape(-1).view(f"<U{width}"), parsed.rows, parsed.qids
                )
    if not found:
        wrong = "blank lines and comments only" if lines else "empty file"
        raise LetorError(path, lines or 1, wrong, "at least one document")
    if widest < features:
        differs = f"{path} has {widest} features, but the model needs {features}"
        warnings.warn(f"{differs}; the missing features are set to 0", stacklevel=3)


def _joined(parts: list[ChunkRows]) -> ChunkRows:
    if len(parts) == 1:
        return parts[0]
    before = np.cumsum([0, *(len(part.labels) for part in parts[:-1])])
    starts = np.concatenate([part.starts + shift for part, shift in zip(parts, before, strict=True)])
    qids = [part.qids for part in parts]
    if any(part.dtype.kind == "U" for part in qids):
        qids = [part.astype(np.str_) for part in qids]
    return ChunkRows(
        np.concatenate([part.features for part in parts]),
        np.concatenate([part.labels for part in parts]),
        np.concatenate([part.docids for part in parts]),
        starts,
        np.concatenate(qids),
    )


def _split(rows: ChunkRows) -> tuple[ChunkRows, ChunkRows]:
    """Return all lists except the last, and a copy of the last list; a view would keep all lists in memory."""
    at = int(rows.starts[-1])
    features, labels, docids, starts, qids = rows
    whole = ChunkRows(features[:at], labels[:at], docids[:at], starts[:-1], qids[:-1])
    first = np.zeros(1, dtype=np.int64)
    return whole, ChunkRows(features[at:].copy(), labels[at:].copy(), docids[at:].copy(), first, qids[-1:].copy())


def _dataset(rows: ChunkRows, path: Path, docids: bool) -> Dataset:
    offsets = np.append(rows.starts, len(rows.labels)).astype(np.int64)
    return Dataset(rows.features, rows.labels, offsets, rows.qids, rows.docids if docids else None, path.name)
