"""The run that a text ranker re-ranks: a TREC run, or the best documents of BM25."""

from pathlib import Path
from typing import TYPE_CHECKING

from rankgrad.errors import bad_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankgrad.cli.text.index_folder import IndexFolder
    from rankgrad.metrics.trec import Run
    from rankgrad.text import Collection

DEPTH = 100


def first_stage(folder: "IndexFolder", collection: "Collection", run: Path | None, depth: int) -> "Run":
    """Return a TREC run, or the best `depth` documents of BM25 for each query if `run` is None."""
    from rankgrad.metrics import read_run

    if depth < 1:
        bad_value("depth", "be at least 1", depth)
    if run is None:
        return folder.bm25().search(collection.queries, depth, collection.excluded)
    return read_run(run)


def fused(runs: "Sequence[Run]", depth: int) -> "Run":
    """Return one run with the sums of the z-scores of several runs, and at most `depth` documents per query."""
    from rankgrad.text import fuse

    return {query: dict([*scores.items()][:depth]) for query, scores in fuse(runs).items()}
