"""Load collections: `rankgrad.text.load`."""

import os
import warnings
from pathlib import Path
from typing import Literal

from rankgrad.metrics.trec import read_qrels
from rankgrad.text.collection import Collection
from rankgrad.text.formats import cranfield, trec
from rankgrad.text.formats.records import gather
from rankgrad.text.formats.text_files import TextFiles

PathLike = str | os.PathLike[str]


def load(
    source: PathLike,
    *,
    name: str | None = None,
    topic: str = "title",
    similar: Literal["exclude", "relevant"] = "exclude",
    encoding: str = "utf-8",
) -> Collection:
    """Load a collection: documents, queries and qrels."""
    folder, files = Path(source), TextFiles(encoding)
    excluded: dict[str, frozenset[str]] = {}
    if (folder / "cran.qry").exists():
        documents = cranfield.documents(folder / "cran.all.1400.gz", files)
        queries = cranfield.queries(folder / "cran.qry", files)
        qrels, excluded = cranfield.qrels(folder / "cranqrel", files, similar)
    else:
        documents = trec.documents(folder / "doc-text.trec.gz", files)
        queries = trec.topics(folder / "query-text.trec", files, topic)
        qrels = read_qrels(folder / "qrels")
    texts = gather(documents, "document", "documents", files.notes), gather(queries, "query", "queries", files.notes)
    notes = tuple(files.all_notes())
    for note in notes:
        warnings.warn(note, stacklevel=2)
    return Collection(*texts, qrels, excluded, folder.name if name is None else name, notes)
