"""Read each LETOR file in two passes, in a few threads, with a bounded number of blocks in memory.

The first pass counts documents and features, and finds the length of the longest document id. Then the arrays of the
result are allocated with their exact size, in memory or mapped to a file. The second pass writes to these arrays. So
reading needs little memory in addition to the memory of the result.
"""

import math
import os
import re
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rankgrad.data.assemble import Runs, reorder
from rankgrad.data.cache import New
from rankgrad.data.letor.blocks import (
    BadLine,
    BlockCounts,
    ParsedBlock,
    ParseTarget,
    count_block,
    parse_block,
    warn_infinite_features,
)
from rankgrad.data.letor.errors import SET_FEATURES, LetorError, ParserLimits
from rankgrad.data.letor.streams import Block, blocks
from rankgrad.data.memory_limits import check_memory, refuse_sparse, too_sparse
from rankgrad.data.read_summary import ReadSummary
from rankgrad.errors import bad_value

# Maximum feature id if the caller does not give `features`. An id with a typo could need terabytes.
LARGEST_ID = 1_000_000
MOST_THREADS = 8  # each thread has one or two blocks in memory
# A truncated last line is an error if the lines before it have at least this number of values or comments. With fewer,
# there is only a warning.
_ENOUGH = 10

_In = TypeVar("_In")
_Out = TypeVar("_Out")


@dataclass(frozen=True)
class ReadOptions:
    """Options for reading LETOR files; a cache is used only if it was written with the same options."""

    features: int | None
    regroup: bool
    missing: float | None  # number that replaces missing values; None if they are an error
    docids: bool

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "missing": repr(self.missing)}  # NaN is not JSON, and not equal to itself


def fill_value(missing: float | str) -> float | None:
    """Return the number that replaces missing values in LETOR files, or None if missing values are an error."""
    if missing == "error":
        return None
    if missing == "nan":
        return math.nan
    if isinstance(missing, str | bool) or not hasattr(missing, "__float__"):
        bad_value("missing", "be 'error', 'nan' or a number that replaces missing values", repr(missing))
    if math.isinf(float(missing)):
        bad_value("missing", "be finite or NaN", missing)
    return float(missing)


def read_files(
    files: list[Path],
    options: ReadOptions,
    new: New,
    progress: Callable[[int, int], object] | None = None,
    hashes: list[Callable[[bytes], object]] | None = None,
) -> tuple[dict[str, Any], ReadSummary]:
    """Read LETOR files in two passes; return the arrays of a data set and a summary.

    `new(name, shape, dtype)` must return an array of zeros. `hashes` contains one function per file. This function is
    called once with each piece of the file, before decompression.
    """
    begun = time.perf_counter()
    stamps = [_stamp(path) for path in files]
    meter = _Meter(2 * sum(size for size, _ in stamps), progress)
    with ThreadPoolExecutor(threads()) as pool:
        reading = _Reading(options, pool)
        counts = []
        for place, path in enumerate(files):
            counts.append(reading.count(path, meter.on_read(hashes[place] if hashes else None)))
        total = reduce(add, (counted for file in counts for counted in file))
        if options.features is None and too_sparse(total.documents, total.widest, total.bytes):
            path, line = _widest(files, counts, total.widest)
            raise refuse_sparse(path, line, total.documents, total.widest)
        target = _allocate(total, reading, new)
        for path, counted in zip(files, counts, strict=True):
            reading.parse(path, meter.on_read(), counted, target)
    for path, stamp in zip(files, stamps, strict=True):
        if _stamp(path) != stamp or reading.row != total.documents:
            raise _changed(path)
    if not (options.features or total.widest):
        raise LetorError(
            files[0],
            None,
            "no document has a feature",
            "`feature:value` pairs" + SET_FEATURES,
        )
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
        widest=total.widest,
        seconds=time.perf_counter() - begun,
    )
    return arrays, summary


def in_memory(name: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Return an array of zeros for the data of LETOR files; an array that does not fit in memory is an error."""
    check_memory(name, shape, dtype, "or give a folder as cache")
    return np.zeros(shape, dtype)


class _Reading:
    """State of reading LETOR files: the counts and the query runs so far."""

    def __init__(self, options: ReadOptions, pool: Executor) -> None:
        self.options, self.pool = options, pool
        stated, missing = options.features is not None, options.missing is not None
        self.limits = ParserLimits(options.features or LARGEST_ID, stated, missing)
        self.runs = Runs(LetorError, options.regroup)
        self.row = self.missing = self.replaced = 0

    def count(self, path: Path, on_read: Callable[[bytes], None]) -> list[BlockCounts]:
        """Count each block of a LETOR file, in the first pass."""
        count = partial(count_block, limit=self.limits.width, docids=self.options.docids)
        counted = list(in_order(self.pool, count, blocks(path, on_read)))
        if not counted:
            raise LetorError(path, 1, "empty file", "at least one document")
        return counted

    def parse(
        self, path: Path, on_read: Callable[[bytes], None], counted: list[BlockCounts], target: ParseTarget
    ) -> None:
        """Parse a LETOR file into `target`, in the second pass; the first bad line is an error."""

        def parse(job: tuple[Block, int, int]) -> tuple[Block, ParsedBlock]:
            block, start, stop = job
            return block, parse_block(block, start, target.rows(start, stop))

        ends = np.cumsum([self.row, *(block.documents for block in counted)]).tolist()
        jobs = zip(blocks(path, on_read), ends[:-1], ends[1:], strict=False)
        shape, infinite = LineShape(), Counter[int]()
        for here, (block, parsed) in zip(counted, in_order(self.pool, parse, jobs), strict=False):
            truncated = shape.truncated(path, block, parsed, here)
            if truncated is None:
                self.runs.add(path, parsed.rows, parsed.lines, parsed.qids)
            bad = parsed.bad_line or truncated
            if bad is not None:
                self.runs.check()  # if a query occurs again before this line, that error is raised first
                raise LetorError(path, bad.line, bad.wrong, bad.expected)
            if parsed.grew or parsed.documents != here.documents:
                raise _changed(path)
            shape.add(parsed, here)
            self.row += parsed.documents
            self.missing += parsed.missing
            infinite += parsed.infinite
            self.replaced += parsed.replaced
        if not any(block.documents for block in counted):
            lines = sum(block.lines for block in counted)
            raise LetorError(path, lines, "blank lines and comments only", "at least one document")
        warn_infinite_features(path, infinite)

    def group(self, target: ParseTarget, new: New) -> tuple[dict[str, Any], int]:
        """Divide the rows of LETOR files into lists; return the arrays, and the number of moved runs of documents."""
        lists = self.runs.lists(self.row)
        arrays: dict[str, Any] = {"features": target.features, "labels": target.labels}
        found = {"offsets": lists.offsets, "qids": lists.qids}
        if lists.source is not None:
            for part in (target.features, target.labels, target.docids):
                reorder(part, lists.source)
            found["rows"] = lists.order
        for name, values in found.items():
            arrays[name] = new(name, values.shape, values.dtype)
            arrays[name][:] = values
        width = target.docids.shape[1]
        arrays["docids"] = target.docids.reshape(-1).view(f"<U{width}") if width else None
        return arrays, lists.moved


class LineShape:
    """Common properties of all lines of a LETOR file, to detect a truncated last line.

    The last line is considered truncated if it has fewer features than all earlier lines, or if it is the only line
    without a comment. Truncation inside the last value or comment is not detected. If earlier lines have different
    features, and some of them have no comment, truncation is detected only if the last line has no feature.
    """

    def __init__(self) -> None:
        self._documents = self._commented = self._bare = self._most = 0
        self._fewest = np.iinfo(np.int64).max

    def add(self, parsed: ParsedBlock, counted: BlockCounts) -> None:
        self._documents += counted.documents
        self._commented += counted.commented
        self._bare += parsed.bare
        self._fewest, self._most = min(self._fewest, parsed.fewest), max(self._most, parsed.most)

    def truncated(self, path: Path, block: Block, parsed: ParsedBlock, counted: BlockCounts) -> BadLine | None:
        """Return an error if a LETOR file's last line is truncated (no newline); if this is uncertain, only warn."""
        if (
            not block.unterminated
            or parsed.bad_line
            or not parsed.documents
            or counted.commented
            or not self._documents
        ):
            return None
        if self._fewest == self._most > parsed.most == parsed.fewest:
            wrong, expected = f"no feature after {parsed.most}", f"features 1 to {self._most}, as on all earlier lines"
            sure = self._documents * self._most >= _ENOUGH
        elif self._commented == self._documents:
            wrong, expected, sure = "no comment", "a comment, as on all earlier lines", self._documents >= _ENOUGH
        elif parsed.bare and not self._bare:
            wrong, expected, sure = "no feature", "features, as on all earlier lines", False
        else:
            return None
        bad = BadLine(block.line, f"{wrong}, and the file ends without a newline (is the file truncated?)", expected)
        if sure:
            return bad
        warnings.warn(f"{path}:{bad.line}: {bad.wrong}; expected {bad.expected}", stacklevel=2)
        return None


def _widest(files: list[Path], counts: list[list[BlockCounts]], widest: int) -> tuple[Path, int | None]:
    """Return the LETOR file and the first line with the largest feature id; the file is read again up to this line."""
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
    """Counter of the bytes that are read from LETOR files; it reports the progress."""

    def __init__(self, total: int, progress: Callable[[int, int], object] | None) -> None:
        self.done, self.total, self.progress = 0, total, progress

    def on_read(self, also: Callable[[bytes], object] | None = None) -> Callable[[bytes], None]:
        def count(piece: bytes) -> None:
            self.done += len(piece)
            if also is not None:
                also(piece)
            if self.progress is not None:
                self.progress(self.done, self.total)

        return count


def in_order(pool: Executor, work: Callable[[_In], _Out], items: Iterable[_In]) -> Iterator[_Out]:
    """Call `work` with each LETOR block in threads of `pool`; yield the results in order. Few blocks are in memory."""
    waiting: deque[Future[_Out]] = deque()
    for item in items:
        waiting.append(pool.submit(work, item))
        if len(waiting) > threads() + 1:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def threads() -> int:
    """Return the number of threads that parse LETOR files."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_THREADS)


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _changed(path: Path) -> LetorError:
    return LetorError(path, None, "changed while it was read", "a file to which no other process writes")
