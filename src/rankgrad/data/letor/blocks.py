"""Count or parse one block of LETOR lines with the compiled parser, and collect the results of the parser."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.data.letor.errors import ParserLimits, explain
from rankgrad.data.letor.streams import Block
from rankgrad.data.tables.errors import warn_infinite

_SLOW_CAPACITY = 4096  # number of rows of `slow`, in addition to the rows for one line


@dataclass(frozen=True)
class BlockCounts:
    """Counts of the first pass over LETOR text, for a block or a whole file."""

    bytes: int
    lines: int
    documents: int
    blank: int  # number of lines without text
    comments: int  # number of lines with only a comment
    widest: int  # largest feature id
    docid_width: int  # number of characters of the longest document id
    commented: int  # number of documents with a comment

    def __add__(self, other: "BlockCounts") -> "BlockCounts":
        return BlockCounts(
            self.bytes + other.bytes,
            self.lines + other.lines,
            self.documents + other.documents,
            self.blank + other.blank,
            self.comments + other.comments,
            max(self.widest, other.widest),
            max(self.docid_width, other.docid_width),
            self.commented + other.commented,
        )


@dataclass(frozen=True)
class ParseTarget:
    """Arrays to which the LETOR parser writes the documents of a file or of a block."""

    features: NDArray[np.float32]  # (documents, f)
    labels: NDArray[np.float32]  # (documents,)
    docids: NDArray[np.uint32]  # (documents, width), one character per column; width 0 if ids are not read
    fill: float  # number that replaces values that are not finite, if `limits` allows such values
    limits: ParserLimits

    def rows(self, start: int, stop: int) -> "ParseTarget":
        part = slice(start, stop)
        return ParseTarget(self.features[part], self.labels[part], self.docids[part], self.fill, self.limits)


@dataclass(frozen=True)
class BadLine:
    """A line of LETOR text that cannot be parsed."""

    line: int
    wrong: str
    expected: str


@dataclass(frozen=True)
class ParsedBlock:
    """Result of the second pass for a block of LETOR lines: runs of documents with the same query, and counts."""

    rows: NDArray[np.int64]  # (runs,), first row of each run
    lines: NDArray[np.int64]  # (runs,), number of the line in the file that contains the first row of each run
    qids: NDArray[Any]  # (runs,), integers if every id equals `str(int(id))`, otherwise text
    documents: int
    missing: int  # number of values that were not finite and were replaced by `fill`
    infinite: Counter[int]  # number of these values that were not NaN, by column
    replaced: int  # number of document ids that are not UTF-8
    fewest: int  # smallest number of features per document, or 0 if a document omits an id below its largest id
    most: int  # largest feature id
    bare: int  # number of documents without a feature
    bad_line: BadLine | None  # first line that cannot be parsed
    grew: bool  # True if there are more documents than the first pass counted


def count_block(block: Block, limit: int, docids: bool) -> BlockCounts:
    """Count a block of LETOR lines. Feature ids above `limit` are ignored; the second pass raises an error for them."""
    from rankgrad.data.letor import parser

    tally = np.zeros(parser.COUNTS, dtype=np.int64)
    tally[parser.WIDEST] = limit
    parser.count_lines(np.frombuffer(block.text, dtype=np.uint8), docids, tally)
    return BlockCounts(len(block.text) - block.unterminated, *map(int, tally))


def warn_infinite_features(path: Path, infinite: Counter[int]) -> None:
    """Warn about infinite values in a LETOR file; `infinite` contains their number by column."""
    warn_infinite(str(path), {f"feature {column + 1}": infinite[column] for column in sorted(infinite)})


def parse_block(block: Block, first_row: int, target: ParseTarget) -> ParsedBlock:
    """Parse a block of LETOR lines into `target`; row 0 of `target` is row `first_row` of the data set."""
    from rankgrad.data.letor import parser

    text = np.frombuffer(block.text, dtype=np.uint8)
    state = np.zeros(parser.STATES, dtype=np.int64)
    state[parser.LINE], state[parser.FEWEST] = block.line, np.iinfo(np.int64).max
    starts = np.empty((len(target.labels), 4), dtype=np.int64)
    slow = np.empty((target.features.shape[1] + 1 + _SLOW_CAPACITY, 6), dtype=np.int64)
    infinite = np.zeros(target.features.shape[1], dtype=np.int64)
    fill, strict = np.float32(target.fill), not target.limits.missing
    bad_line, ended = None, parser.FULL
    while ended == parser.FULL and bad_line is None:
        ended = parser.parse_lines(
            text, state, target.features, target.labels, target.docids, fill, strict, starts, slow, infinite
        )
        filled, bad = _convert_slow(block.text, slow[: state[parser.SLOW]], target, infinite)
        state[parser.MISSING] += filled
        state[parser.INFINITE] += filled
        state[parser.SLOW] = 0
        if bad is None and ended == parser.BAD:
            bad = (int(state[parser.LINE]), int(state[parser.AT]))
        if bad is not None:
            bad_line = _bad_line(block, *bad, target.limits)
    runs = starts[: state[parser.LISTS]]
    return ParsedBlock(
        rows=runs[:, 0] + first_row,
        lines=runs[:, 1].copy(),
        qids=_qids([block.text[start:stop] for start, stop in runs[:, 2:].tolist()], not state[parser.TEXT_IDS]),
        documents=int(state[parser.ROW]),
        missing=int(state[parser.MISSING]),
        infinite=_counts(infinite) if state[parser.INFINITE] else Counter(),
        replaced=int(state[parser.REPLACED]),
        fewest=int(state[parser.FEWEST]),
        most=int(state[parser.MOST]),
        bare=int(state[parser.BARE]),
        bad_line=bad_line,
        grew=ended == parser.NO_ROW,
    )


def _counts(infinite: NDArray[np.int64]) -> Counter[int]:
    """Return the number of infinite values of LETOR text by column, for the columns that have some."""
    return Counter({int(column): int(infinite[column]) for column in np.flatnonzero(infinite)})


def _convert_slow(
    text: bytes, slow: NDArray[np.int64], target: ParseTarget, infinite: NDArray[np.int64]
) -> tuple[int, tuple[int, int] | None]:
    """Convert the numbers that the LETOR parser stored in `slow`; count values that are too large in `infinite`.

    Return the number of values that `fill` replaced, and the position of the first bad line.
    """
    filled = 0
    for row, column, start, stop, line, line_start in slow.tolist():
        with np.errstate(over="ignore"):
            value = np.float32(float(text[start:stop])) + np.float32(0)
        if column < 0:
            if not 0 <= value < np.inf:
                return filled, (line, line_start)
            target.labels[row] = value
        elif np.isfinite(value):
            target.features[row, column] = value
        elif target.limits.missing:
            target.features[row, column] = target.fill
            infinite[column] += 1
            filled += 1
        else:
            return filled, (line, line_start)
    return filled, None


def _bad_line(block: Block, line: int, start: int, limits: ParserLimits) -> BadLine:
    wrong, expected = explain(block.text[start : block.text.index(b"\n", start)], limits)
    return BadLine(
        line,
        f"{wrong}, and the file ends without a newline (is the file truncated?)" if block.unterminated else wrong,
        expected,
    )


def _qids(tokens: list[bytes], whole: bool) -> NDArray[Any]:
    if whole:
        return np.array([int(token) for token in tokens], dtype=np.int64)
    return np.array([token.decode() for token in tokens], dtype=np.str_)
