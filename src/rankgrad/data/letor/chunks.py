"""Read LETOR text of any size as a series of small data sets, in one pass. Only a few lists are in memory at a time."""

import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.sparse import csr_matrix

from rankgrad.data.assemble import Runs, complete_lists
from rankgrad.data.dataset import Dataset
from rankgrad.data.letor.blocks import (
    BlockCounts,
    ParsedBlock,
    ParseTarget,
    count_block,
    parse_block,
    warn_infinite_features,
)
from rankgrad.data.letor.errors import LetorError, ParserLimits
from rankgrad.data.letor.passes import LineShape, fill_value, in_order, threads
from rankgrad.data.letor.streams import Block, blocks, check_file, split_block

_DENSE = 1 << 23  # maximum number of values of a block of rows that is converted to a sparse matrix


def stream_letor(
    path: str | os.PathLike[str],
    features: int,
    *,
    missing: float | Literal["error", "nan"] = "error",
    docids: bool = True,
    documents: int = 16_384,
    sparse: bool = False,
    progress: Callable[[int], object] | None = None,
) -> Iterator[Dataset]:
    """Yield the lists of a LETOR file in order, as small data sets of complete lists. They are only for scoring.

    Errors are the same as in `read_letor`. If a query occurs again, the error is raised only at the end of the file.

    Args:
        path: path of a file (plain, gzip or xz).
        features: number of features. A larger id is an error. Features that a line omits are 0.
        missing: number that replaces NaN, infinities and values too large for float32; with "error", they are an error.
        docids: True to read document ids from comments.
        documents: minimum number of documents in each data set, except the last.
        sparse: True for features as a SciPy matrix in the CSR format.
        progress: function that is called with the number of bytes read so far.

    Example:
        >>> path = getfixture("tmp_path") / "test.txt"
        >>> _ = path.write_text("2 qid:7 1:0.5 3:1e-2\\n0 qid:7 2:4\\n1 qid:9\\n0 qid:9\\n0 qid:8 1:2\\n")
        >>> [data.lengths.tolist() for data in stream_letor(path, 3)]
        [[2, 2, 1]]
    """
    path = Path(path)
    check_file(path)
    runs = Runs(LetorError)
    parts = parsed_blocks(path, features, fill_value(missing), docids, runs, progress, sparse=sparse)
    yield from complete_lists(parts, documents)
    runs.check()


def parsed_blocks(
    path: Path,
    features: int,
    fill: float | None,
    docids: bool,
    runs: Runs,
    progress: Callable[[int], object] | None,
    *,
    sparse: bool = False,
    first: int = 0,
) -> Iterator[Dataset]:
    """Parse a LETOR file in a few threads, and yield the blocks that contain documents; the first bad line is an error.

    `runs` receives the query runs of each block.

    With `sparse`, the features are matrices in the CSR format. The parser first writes dense rows; to limit their
    memory, blocks are then smaller. `first` is the number of documents in the files before this one.
    """
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

    shape, infinite, lines, found, widest = LineShape(), Counter[int](), 0, 0, 0
    with ThreadPoolExecutor(threads()) as pool:
        whole = blocks(path, on_read)
        pieces = (piece for block in whole for piece in split_block(block, _DENSE // features)) if sparse else whole
        for block, counted, target, parsed in in_order(pool, parse, pieces):
            truncated = shape.truncated(path, block, parsed, counted)
            if truncated is None:
                runs.add(path, first + found + parsed.rows, parsed.lines, parsed.qids)
            bad = parsed.bad_line or truncated
            if bad is not None:
                runs.check()  # if a query occurs again before this line, that error is raised first
                raise LetorError(path, bad.line, bad.wrong, bad.expected)
            shape.add(parsed, counted)
            infinite += parsed.infinite
            lines, found, widest = lines + counted.lines, found + counted.documents, max(widest, counted.widest)
            if counted.documents:
                width = max(1, counted.docid_width)
                names = target.docids if counted.docid_width else np.zeros((len(target.labels), 1), np.uint32)
                ids = names.reshape(-1).view(f"<U{width}") if docids else None
                rows = csr_matrix(target.features) if sparse else target.features
                offsets = np.append(parsed.rows, counted.documents)
                yield Dataset(rows, target.labels, offsets, parsed.qids, ids, path.name)
    if not found:
        wrong = "blank lines and comments only" if lines else "empty file"
        raise LetorError(path, lines or 1, wrong, "at least one document")
    warn_infinite_features(path, infinite)
    if widest < features:
        differs = f"{path} has {widest} features, but the model needs {features}"
        warnings.warn(f"{differs}; the missing features are set to 0", stacklevel=3)
