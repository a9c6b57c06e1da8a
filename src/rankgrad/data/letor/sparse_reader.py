"""Read LETOR text with very many features as a sparse matrix, which stores only the values that are not 0."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from rankgrad.data.assemble import Runs
from rankgrad.data.dataset import Dataset
from rankgrad.data.letor.blocks import count_block
from rankgrad.data.letor.chunks import parsed_blocks
from rankgrad.data.letor.errors import LetorError
from rankgrad.data.letor.passes import LARGEST_ID
from rankgrad.data.letor.streams import Block, blocks
from rankgrad.data.sparse_rows import stack_rows


def read_sparse(
    files: list[Path],
    features: int | None,
    regroup: bool,
    fill: float | None,
    docids: bool,
    name: str,
    progress: Callable[[int, int], object] | None = None,
) -> Dataset:
    """Read LETOR files as one data set whose features are a SciPy matrix in the CSR format.

    Only a few blocks of rows are dense at a time, with about 32 MB per block or less.

    Args:
        files: paths of the files, in order.
        features: number of features; None for the largest id in the files.
        regroup: True to group the documents by query.
        fill: number that replaces values that are not finite; None if they are an error.
        docids: True to read document ids from comments.
        name: name of the data set.
        progress: function that is called with the number of bytes read so far and the total number of bytes.
    """
    if features is None:
        features = max(count_block(block, LARGEST_ID, False).widest for file in files for block in _blocks(file))
    if not features:
        raise LetorError(files[0], None, "no document has a feature", "`feature:value` pairs")
    runs, row, parts = Runs(LetorError, regroup), 0, []
    total, done = sum(file.stat().st_size for file in files), 0
    for file in files:

        def on_read(read: int, done: int = done) -> None:
            if progress is not None:
                progress(done + read, total)

        blocks_of_file = parsed_blocks(file, features, fill, docids, runs, on_read, sparse=True, first=row)
        parts += [(block.features, block.labels, block.docids) for block in blocks_of_file]
        row = sum(len(part[1]) for part in parts)
        done += file.stat().st_size
    lists = runs.lists(row)
    features, labels, ids = zip(*parts, strict=True)
    names = np.concatenate(ids) if docids else None
    data = Dataset(stack_rows([*features]), np.concatenate(labels), lists.offsets, lists.qids, names, name)
    return data if lists.source is None else replace(data.take_rows(lists.source, data.offsets), rows=lists.order)


def _blocks(file: Path) -> Iterator[Block]:
    return blocks(file, lambda piece: None)
