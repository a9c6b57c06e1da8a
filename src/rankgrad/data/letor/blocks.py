"""One block of lines at a time through the compiled parser: what was counted, what was parsed, what was wrong."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.data.letor.errors import ParserLimits, explain
from rankgrad.data.letor.streams import Block

_SLOW_ROOM = 4096


@dataclass(frozen=True)
class BlockCounts:
    """What the first look saw in a block, or in a whole file."""

    bytes: int
    lines: int
    documents: int
    blank: int
    comments: int
    widest: int  # largest feature id
    docid_width: int  # characters
    commented: int  # documents with a comment

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
    """Where parsed documents go."""

    features: NDArray[np.float32]  # (documents, f)
    labels: NDArray[np.float32]  # (documents,)
    docids: NDArray[np.uint32]  # (documents, width), one character a column; width 0 where none are kept
    fill: float  # for values that are not finite, if the limits let them pass
    limits: ParserLimits

    def rows(self, start: int, stop: int) -> "ParseTarget":
        part = slice(start, stop)
        return ParseTarget(self.features[part], self.labels[part], self.docids[part], self.fill, self.limits)


@dataclass(frozen=True)
class BadLine:
    line: int
    wrong: str
    expected: str


@dataclass(frozen=True)
class ParsedBlock:
    """What the second look found in a block: runs of documents of one query, and counts."""

    rows: NDArray[np.int64]  # (runs,), the first row of each
    lines: NDArray[np.int64]  # (runs,), its line in the file
    qids: NDArray[Any]  # (runs,), integers where each is written the way `str` writes it, else text
    documents: int
    missing: int
    replaced: int  # document ids that are not UTF-8
    fewest: int  # features of the shortest document if all are given from 1 without a gap, else 0
    most: int  # largest feature id
    bare: int  # documents without a feature
    fault: BadLine | None
    grew: bool  # more documents than the first look counted


def count_block(block: Block, limit: int, docids: bool) -> BlockCounts:
    """The first look at a block; feature ids above `limit` are left for the second to complain about."""
    from rankgrad.data.letor import parser

    tally = np.zeros(parser.SURVEYED, dtype=np.int64)
    tally[parser.WIDEST] = limit
    parser.survey(np.frombuffer(block.text, dtype=np.uint8), docids, tally)
    return BlockCounts(len(block.text) - block.cut, *map(int, tally))


def parse_block(block: Block, first_row: int, target: ParseTarget) -> ParsedBlock:
    """The second look at a block: fill the rows of `target`, which begins at `first_row` of the whole."""
    from rankgrad.data.letor import parser

    text = np.frombuffer(block.text, dtype=np.uint8)
    state = np.zeros(parser.STATES, dtype=np.int64)
    state[parser.LINE], state[parser.FEWEST] = block.line, np.iinfo(np.int64).max
    starts = np.empty((len(target.labels), 4), dtype=np.int64)
    slow = np.empty((target.features.shape[1] + 1 + _SLOW_ROOM, 6), dtype=np.int64)
    fill, strict = np.float32(target.fill), not target.limits.missing
    fault, ended = None, parser.FULL
    while ended == parser.FULL and fault is None:
        ended = parser.parse_lines(
            text, state, target.features, target.labels, target.docids, fill, strict, starts, slow
        )
        filled, bad = _settle(block.text, slow[: state[parser.SLOW]], target)
        state[parser.MISSING] += filled
        state[parser.SLOW] = 0
        if bad is None and ended == parser.BAD:
            bad = (int(state[parser.LINE]), int(state[parser.AT]))
        if bad is not None:
            fault = _fault(block, *bad, target.limits)
    runs = starts[: state[parser.LISTS]]
    return ParsedBlock(
        rows=runs[:, 0] + first_row,
        lines=runs[:, 1].copy(),
        qids=_qids([block.text[start:stop] for start, stop in runs[:, 2:].tolist()], not state[parser.TEXT_IDS]),
        documents=int(state[parser.ROW]),
        missing=int(state[parser.MISSING]),
        replaced=int(state[parser.REPLACED]),
        fewest=int(state[parser.FEWEST]),
        most=int(state[parser.MOST]),
        bare=int(state[parser.BARE]),
        fault=fault,
        grew=ended == parser.CROWDED,
    )


def _settle(text: bytes, slow: NDArray[np.int64], target: ParseTarget) -> tuple[int, tuple[int, int] | None]:
    """Convert the numbers that the compiled parser left: how many were filled, and the first line that is bad."""
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
            filled += 1
        else:
            return filled, (line, line_start)
    return filled, None


def _fault(block: Block, line: int, start: int, limits: ParserLimits) -> BadLine:
    wrong, expected = explain(block.text[start : block.text.index(b"\n", start)], limits)
    return BadLine(
        line, f"{wrong}, where the file ends without a newline (is it cut?)" if block.cut else wrong, expected
    )


def _qids(tokens: list[bytes], whole: bool) -> NDArray[Any]:
    if whole:
        return np.array([int(token) for token in tokens], dtype=np.int64)
    return np.array([token.decode() for token in tokens], dtype=np.str_)
