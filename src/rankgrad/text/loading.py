"""Load collections of text: `rankgrad.text.load`."""

import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from rankgrad.errors import bad_type, one_of
from rankgrad.metrics.trec import Qrels
from rankgrad.text.collection import Collection
from rankgrad.text.formats import ir_datasets, layouts, smart, tables, text_folder, trec
from rankgrad.text.formats import qrels as labels
from rankgrad.text.formats.records import Record, gather
from rankgrad.text.formats.text_files import TextFiles, bad_file

PathLike = str | os.PathLike[str]
Excluded = dict[str, frozenset[str]]


def load(
    source: PathLike,
    *,
    queries: PathLike | None = None,
    qrels: PathLike | None = None,
    name: str | None = None,
    columns: Mapping[str, Mapping[str, str]] | None = None,
    topic: str = "title",
    similar: Literal["exclude", "relevant"] = "exclude",
    encoding: str = "utf-8",
) -> Collection:
    """Load a collection: documents, queries, labels. Defects of the files become warnings and notes of the collection.

    Args:
        source: a folder, a file of documents, or `"ir_datasets:NAME"`. A folder contains one of these: the files of
            SMART, such as `MED.ALL`, `MED.QRY` and `MED.REL` (Cranfield, CACM, CISI, MED); files of TREC with `<DOC>`,
            also in subfolders; a table `documents.*` or `corpus.*` (JSON lines, CSV, TSV or Parquet; this includes the
            folders of BEIR); or text files (`*.txt`, also in subfolders). The id of a text file is its path without
            the ending. Files are plain or gzip.
        queries: file of queries: topics of TREC, queries of SMART, a table, or lines of `id<TAB>text`. Default: the
            file in the folder, such as `queries.jsonl`.
        qrels: file of labels: qrels of TREC or SMART, lines of `query document label`, or a table with a header.
            Default: the file in the folder, such as `qrels`, `qrels.tsv` or `qrels/test.tsv`.
        name: name of the collection. Default: the name of the folder or file.
        columns: column names of tables, if these are unusual: `{"documents": {"id": "key", "text": "content",
            "title": "heading"}, "queries": {"id": ..., "text": ...}, "qrels": {"query": ..., "document": ...,
            "label": ...}}`.
        topic: field of TREC's topics: `"title"`, `"description"`, `"narrative"`, or several such as
            `"title+description"`.
        similar: use of the document with code -1 that each query of Cranfield has (probably the source of the
            question): `"exclude"` (it is never a candidate) or `"relevant"` (its label is 4).
        encoding: encoding of text files.

    Example:
        >>> import tempfile; folder = Path(tempfile.mkdtemp(), "wings"); folder.mkdir()
        >>> _ = (folder / "documents.tsv").write_text("d1\\ta wing in a slipstream\\nd2\\theat flow\\n")
        >>> _ = (folder / "queries.tsv").write_text("q1\\tslipstream\\n")
        >>> _ = (folder / "qrels.txt").write_text("q1 0 d1 1\\n")
        >>> load(folder)
        Collection('wings', documents=2, queries=1, labels=1)
    """
    for option, path in {"source": source, "queries": queries, "qrels": qrels}.items():
        if not isinstance(path, str | os.PathLike) and (path is not None or option == "source"):
            bad_type(option, "be the path of a file", type(path).__name__)
    one_of("similar", similar, smart.SIMILAR)
    tables.check_columns(columns)
    fields = trec.topic_fields(topic)
    files = TextFiles(encoding)
    given = tuple(None if path is None else Path(path) for path in (queries, qrels))
    dataset = None
    if str(source).startswith(ir_datasets.PREFIX):
        title = str(source).removeprefix(ir_datasets.PREFIX)
        dataset, found = ir_datasets.find(title), layouts.CollectionFiles([], *given)
    else:
        found = _files(Path(source), files, *given)
        title = Path(os.path.abspath(source)).name
    options = columns or {}
    records = ir_datasets.documents(dataset) if dataset else _documents(found, files, options.get("documents"))
    documents = gather(records, "documents", files.notes)
    if not documents:
        bad_file(Path(source), None, "no documents", layouts.LAYOUTS)
    judged, excluded = _labels(found, files, similar, options.get("qrels"))
    asked: Iterator[Record] = iter(())
    if found.queries is not None:
        asked = _queries(found, files, topic, options.get("queries"), judged)
    elif dataset:
        asked = ir_datasets.queries(dataset, fields)
    texts = gather(asked, "queries", files.notes)
    if dataset and found.qrels is None:
        judged = ir_datasets.qrels(dataset)
    if _is_smart(found, files):
        judged = smart.fit_ids(judged, documents, texts)
    labels.check(judged, documents, texts, files.notes, found.qrels)
    notes = tuple(files.all_notes())
    for note in notes:
        warnings.warn(note, stacklevel=2)
    return Collection(documents, texts, judged, excluded, title if name is None else name, notes)


def _files(source: Path, files: TextFiles, queries: Path | None, qrels: Path | None) -> layouts.CollectionFiles:
    if not source.exists():
        raise FileNotFoundError(f"{source}: no such file or folder; expected {layouts.LAYOUTS}")
    if (source / "index.json").is_file() and (source / "collection").is_dir():
        source /= "collection"  # a folder of `rankgrad text index` contains a copy of its collection
    if source.is_dir():
        return layouts.find_files(source, files, queries=queries, qrels=qrels)
    return layouts.CollectionFiles([source], queries, qrels)


def _documents(found: layouts.CollectionFiles, files: TextFiles, columns: Any) -> Iterator[Record]:
    if found.root is not None:
        yield from text_folder.documents(found.root, found.documents, files)
        return
    for path in found.documents:
        kind = layouts.kind_of(path, files)
        if kind == "documents":
            yield from trec.documents(path, files)
        elif kind == "smart":
            yield from smart.documents(path, files)
        elif kind == "table" or "\t" in files.start(path).partition("\n")[0]:
            yield from tables.records(path, files, "documents", columns)
        else:
            wrong = "topics, not documents" if kind == "topics" else "no known format of documents"
            bad_file(path, 1, wrong, "<DOC>, a table (.jsonl, .csv, .tsv, .parquet) or lines of id<TAB>text")


def _queries(
    found: layouts.CollectionFiles, files: TextFiles, topic: str, columns: Any, judged: Qrels
) -> Iterator[Record]:
    assert found.queries is not None
    kind = layouts.kind_of(found.queries, files)
    if kind == "topics":
        return trec.topics(found.queries, files, topic)
    if kind == "smart":
        return smart.queries(found.queries, files, judged, found.qrels)
    if kind == "documents":
        bad_file(found.queries, 1, "documents, not queries", "<top>, a table or lines of id<TAB>text")
    return tables.records(found.queries, files, "queries", columns)


def _labels(found: layouts.CollectionFiles, files: TextFiles, similar: str, columns: Any) -> tuple[Qrels, Excluded]:
    path = found.qrels
    if path is not None and smart.is_cranfield(path):
        return smart.cranfield_qrels(path, files, similar)
    if path is not None and smart.is_qrels(path, files):
        return smart.qrels(path, files), {}
    judged = {} if path is None else labels.read(path, files, columns)
    excluded = {} if found.excluded is None else labels.read(found.excluded, files)
    return judged, {query: frozenset(documents) for query, documents in excluded.items()}


def _is_smart(found: layouts.CollectionFiles, files: TextFiles) -> bool:
    """Return True if a part of the collection is in the format of SMART, whose ids are numbers."""
    texts = [*found.documents[:1], *([found.queries] if found.queries else ())]
    smart_texts = any(layouts.kind_of(path, files) == "smart" for path in texts)
    return smart_texts or (found.qrels is not None and smart.is_qrels(found.qrels, files))
