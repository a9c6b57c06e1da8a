"""Two looks at each file, in a few threads, with a bounded number of blocks in memory.

The first look counts documents, features and the length of document ids, so that the result is allocated once and
exactly, in memory or mapped to a file; the second parses into it. So memory is that of the result, whatever the files.
"""

import os
import re
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from rankgrad.data.letor.blocks import BadLine, BlockCounts, ParsedBlock, ParseTarget, count_block, parse_block
from rankgrad.data.letor.errors import LetorError, ParserLimits
from rankgrad.data.letor.streams import Block, blocks
from rankgrad.data.letor.summary import ReadSummary
from rankgrad.data.memory_limits import check_memory, refuse_sparse, too_sparse
from rankgrad.data.query_groups import QueryRuns, regroup, reorder

LARGEST_ID = 1_000_000  # of a feature, where the caller does not state how many there are: one typo costs terabytes
MOST_THREADS = 8  # each holds a block or two
_ENOUGH = 10  # values without a gap, or comments, that show that a last line with less was cut

New: TypeAlias = Callable[[str, tuple[int, ...], Any], NDArray[Any]]
_In = TypeVar("_In")
_Out = TypeVar("_Out")


@dataclass(frozen=True)
class ReadOptions:
    """How to read; what a cache has to agree with."""

    features: int | None
    regroup: bool
    missing: float | None  # None: an error
    docids: bool

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "missing": repr(self.missing)}  # NaN is no JSON, and not equal to itself


def read_files(
    files: list[Path],
    options: ReadOptions,
    new: New,
    progress: Callable[[int, int], object] | None = None,
    hashes: list[Callable[[bytes], object]] | None = None,
) -> tuple[dict[str, Any], ReadSummary]:
    """The arrays of a data set, made by `new(name, shape, dtype)`, and a summary.

    `hashes` are shown the bytes of their file, as they are on the disk, once.
    """
    begun = time.perf_counter()
    stamps = [_stamp(path) for path in files]
    meter = _Meter(2 * sum(size for size, _ in stamps), progress)
    with ThreadPoolExecutor(threads()) as pool:
        reading = _Reading(options, pool)
        counts = []
        for place, path in enumerate(files):
            counts.append(reading.count(path, meter.showing(hashes[place] if hashes else None)))
        total = reduce(add, (counted for file in counts for counted in file))
        if options.features is None and too_sparse(total.documents, total.widest, total.bytes):
            path, line = _widest(files, counts, total.widest)
            raise refuse_sparse(path, line, total.documents, total.widest)
        target = _allocate(total, reading, new)
        for path, counted in zip(files, counts, strict=True):
            reading.parse(path, meter.showing(), counted, target)
    for path, stamp in zip(files, stamps, strict=True):
        if _stamp(path) != stamp or reading.row != total.documents:
            raise _changed(path)
    if not (options.features or total.widest):
        raise LetorError(files[0], None, "no document has a feature", "`feature:value` pairs, or features=")
    arrays, moved = reading.group(target, new)
    summary = ReadSummary(
        files=tuple(str(path) for path in files),
        bytes=total.bytes,
        lines=total.lines,
        documents=total.documents,
        lists=len(arrays["qids"]),
        features=target.features.shape[1],
        blank_lines=total.blank,
        comment_lines=total.comments,
        missing=reading.missing,
        regrouped=moved,
        replaced_docids=reading.replaced,
        seconds=time.perf_counter() - begun,
    )
    return arrays, summary


def in_memory(name: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """An array of zeros, if the machine's memory could hold it."""
    check_memory(name, shape, dtype, "go to a folder given as cache")
    return np.zeros(shape, dtype)


class _Reading:
    """The state of a read: how far it is, and the lists so far."""

    def __init__(self, options: ReadOptions, pool: Executor) -> None:
        self.options, self.pool = options, pool
        stated, missing = options.features is not None, options.missing is not None
        self.limits = ParserLimits(options.features or LARGEST_ID, stated, missing)
        self.runs = QueryRuns()
        self.row = self.missing = self.replaced = 0

    def count(self, path: Path, seen: Callable[[bytes], None]) -> list[BlockCounts]:
        """The first look at a file: what is in each block."""
        look = partial(count_block, limit=self.limits.width, docids=self.options.docids)
        counted = list(in_order(self.pool, look, blocks(path, seen)))
        if not counted:
            raise LetorError(path, 1, "empty file", "at least one document")
        return counted

    def parse(self, path: Path, seen: Callable[[bytes], None], counted: list[BlockCounts], target: ParseTarget) -> None:
        """The second look: fill the rows of the file, and raise at the first line that is bad."""

        def look(job: tuple[Block, int, int]) -> tuple[Block, ParsedBlock]:
            block, start, stop = job
            return block, parse_block(block, start, target.rows(start, stop))

        ends = np.cumsum([self.row, *(block.documents for block in counted)]).tolist()
        jobs = zip(blocks(path, seen), ends[:-1], ends[1:], strict=False)
        shape = LineShape()
        for here, (block, parsed) in zip(counted, in_order(self.pool, look, jobs), strict=False):
            cut = shape.cut(path, block, parsed, here)
            if cut is None:
                self.runs.add(path, parsed)
            fault = parsed.fault or cut
            if fault is not None:
                if not self.options.regroup:
                    self.runs.check()  # a query that returned before this line is the first thing wrong
                raise LetorError(path, fault.line, fault.wrong, fault.expected)
            if parsed.grew or parsed.documents != here.documents:
                raise _changed(path)
            shape.add(parsed, here)
            self.row += parsed.documents
            self.missing += parsed.missing
            self.replaced += parsed.replaced
        if not any(block.documents for block in counted):
            lines = sum(block.lines for block in counted)
            raise LetorError(path, lines, "blank lines and comments only", "at least one document")

    def group(self, target: ParseTarget, new: New) -> tuple[dict[str, Any], int]:
        """Cut the rows into lists, by the options: the arrays, and how many runs of documents had to move."""
        starts, qids = self.runs.joined()
        lengths, moved = np.diff(starts, append=self.row), 0
        if self.options.regroup:
            source, lengths, kept = regroup(starts, qids, self.row)
            qids, moved = qids[kept], len(qids) - len(kept)
            for part in (target.features, target.labels, target.docids) if moved else ():
                reorder(part, source)
        else:
            self.runs.check()
        arrays: dict[str, Any] = {"features": target.features, "labels": target.labels}
        arrays["offsets"] = new("offsets", (len(lengths) + 1,), np.int64)
        np.cumsum(lengths, out=arrays["offsets"][1:])
        arrays["qids"] = new("qids", qids.shape, qids.dtype)
        arrays["qids"][:] = qids
        width = target.docids.shape[1]
        arrays["docids"] = target.docids.reshape(-1).view(f"<U{width}") if width else None
        return arrays, moved


class LineShape:
    """What the lines of a file have in common, by which a last line that was cut is known.

    Only a line that says less than all before it shows that it was cut. A cut inside the last value or comment does not
    show, nor does one in a file whose lines differ.
    """

    def __init__(self) -> None:
        self._documents = self._commented = self._bare = self._most = 0
        self._fewest = np.iinfo(np.int64).max

    def add(self, parsed: ParsedBlock, counted: BlockCounts) -> None:
        self._documents += counted.documents
        self._commented += counted.commented
        self._bare += parsed.bare
        self._fewest, self._most = min(self._fewest, parsed.fewest), max(self._most, parsed.most)

    def cut(self, path: Path, block: Block, parsed: ParsedBlock, counted: BlockCounts) -> BadLine | None:
        """What shows that the line of a block without a newline was cut; a warning where too little does."""
        if not block.cut or parsed.fault or not parsed.documents or counted.commented or not self._documents:
            return None
        if self._fewest == self._most > parsed.most == parsed.fewest:
            wrong, expected = f"no feature after {parsed.most}", f"features 1 to {self._most} as on every line before"
            sure = self._documents * self._most >= _ENOUGH
        elif self._commented == self._documents:
            wrong, expected, sure = "no comment", "one as on every line before", self._documents >= _ENOUGH
        elif parsed.bare and not self._bare:
            wrong, expected, sure = "no feature", "some as on every line before", False
        else:
            return None
        fault = BadLine(block.line, f"{wrong}, where the file ends without a newline (is it cut?)", expected)
        if sure:
            return fault
        warnings.warn(f"{path}:{fault.line}: {fault.wrong}; expected {fault.expected}", stacklevel=2)
        return None


def _widest(files: list[Path], counts: list[list[BlockCounts]], widest: int) -> tuple[Path, int | None]:
    """The file and the first line that has the largest feature id; the block that it is in is read again."""
    for path, counted in zip(files, counts, strict=True):
        for here, block in zip(counted, blocks(path, lambda piece: None), strict=False):
            if here.widest == widest:
                for line, text in enumerate(block.text.split(b"\n"), block.line):
                    if re.search(rb"\s0*%d:\S*\s*$" % widest, text.partition(b"#")[0]):
                        return path, line
    return files[0], None


def _allocate(total: BlockCounts, reading: _Reading, new: New) -> ParseTarget:
    options = reading.options
    width = options.features or total.widest or 1
    features = new("features", (total.documents, width), np.float32)
    labels = new("labels", (total.documents,), np.float32)
    docids = np.empty((total.documents, 0), dtype=np.uint32)
    if total.docid_width:
        text = new("docids", (total.documents,), f"<U{total.docid_width}")
        docids = text.view(np.uint32).reshape(total.documents, total.docid_width)
    return ParseTarget(features, labels, docids, options.missing or 0.0, reading.limits)


class _Meter:
    """Counts the bytes read, and tells who wants to know."""

    def __init__(self, total: int, progress: Callable[[int, int], object] | None) -> None:
        self.done, self.total, self.progress = 0, total, progress

    def showing(self, also: Callable[[bytes], object] | None = None) -> Callable[[bytes], None]:
        def seen(piece: bytes) -> None:
            self.done += len(piece)
            if also is not None:
                also(piece)
            if self.progress is not None:
                self.progress(self.done, self.total)

        return seen


def in_order(pool: Executor, work: Callable[[_In], _Out], items: Iterable[_In]) -> Iterator[_Out]:
    """The results of `work` in the order of the items, with only a few items taken in advance."""
    waiting: deque[Future[_Out]] = deque()
    for item in items:
        waiting.append(pool.submit(work, item))
        if len(waiting) > threads() + 1:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def threads() -> int:
    """How many to parse in."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_THREADS)


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _changed(path: Path) -> LetorError:
    return LetorError(path, None, "changed while it was read", "a file that nobody is writing to")
