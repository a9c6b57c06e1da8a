"""Read labels from qrels of TREC, or from a table with the columns query, document and label."""

import csv
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rankgrad.metrics.trec import Qrels
from rankgrad.text.collection import Texts
from rankgrad.text.formats.records import such_as
from rankgrad.text.formats.tables import Row, TextColumns, as_text, format_of, rows
from rankgrad.text.formats.text_files import TextFiles, bad_file

_FORM = "`query iteration document label` or `query document label`"
_LABEL = re.compile(r"([+-]?[0-9]{1,18})(\.0*)?")


def read(path: Path, files: TextFiles, given: Mapping[str, str] | None = None) -> Qrels:
    """Return the labels of a qrels file: qrels of TREC, lines of `query document label`, or a table with a header.

    Args:
        path: the file.
        files: reader of the file.
        given: column names from the user, such as `{"label": "grade"}`.
    """
    qrels: Qrels = {}
    repeated: list[tuple[int, bool]] = []  # line, and whether the label differs
    columns = TextColumns("qrels", given)
    table = format_of(path) in ("jsonl", "parquet")
    for line, values in rows(path, files, columns) if table else _lines(path, files, columns):
        query, document = (as_text(value, "id", path, line) for value in values[:2])
        label = _label(values[2], path, line)
        if not query or not document:
            bad_file(path, line, f"no {'document' if query else 'query'}", "an id")
        labels = qrels.setdefault(query, {})
        if document in labels:
            repeated.append((line, labels[document] != label))
        else:
            labels[document] = label
    if not qrels:
        bad_file(path, None, "no labels", f"lines of {_FORM}")
    if repeated:
        different = [line for line, differs in repeated if differs]
        at = f"{path}:{(different or [repeated[0][0]])[0]}"
        why = f"{len(different):,} of them differ from the first label"
        files.notes.append(f"Repeated labels of a query-document pair are left out: {len(repeated):,} ({at}); {why}.")
    return qrels


def check(qrels: Qrels, documents: Texts, queries: Texts, notes: list[str], path: Path | None = None) -> None:
    """Report labels of unknown documents or queries, and queries without labels.

    Args:
        qrels: the labels.
        documents: the documents.
        queries: the queries.
        notes: list to which one sentence per kind of defect is added.
        path: file of the labels, for errors; None if the labels are not from a file.
    """
    if not qrels:
        return
    # The copy in a folder of `rankgrad text index` was checked before it was written.
    if path is not None and not (path.parent.parent / "index.json").is_file():
        _check_use(qrels, documents, queries, path)
    if strange := [query for query in qrels if query not in queries.numbers]:
        shown = such_as(strange) + _hint(strange[0], queries)
        notes.append(f"Some queries of the qrels are not in the collection: {shown}.")
    if unknown := [each for judged in qrels.values() for each in judged if each not in documents.numbers]:
        shown = such_as(unknown) + _hint(unknown[0], documents)
        why = "they count in the ideal DCG, as in trec_eval"
        notes.append(f"Some labels are for documents that are not in the collection: {shown}; {why}.")
    if without := [query for query in queries.ids if not qrels.get(query)]:
        notes.append(f"Queries without labels cannot be measured: {such_as(without)}.")


def _check_use(qrels: Qrels, documents: Texts, queries: Texts, path: Path) -> None:
    """Refuse labels with which every metric is 0: the file has another format or is of another collection."""
    judged = {each: None for labels in qrels.values() for each in labels}
    for what, ids, texts in (("query", qrels, queries), ("document", judged, documents)):
        if len(texts) and not any(id in texts.numbers for id in ids):
            got = f"no {what} of the collection, only ids such as {next(iter(ids))!r}"
            bad_file(path, None, got, f"{_FORM}, with ids such as {texts.ids[0]!r}")
    if not any(label > 0 for labels in qrels.values() for label in labels.values()):
        bad_file(path, None, "no label above 0", f"{_FORM}, with a label above 0 for each relevant document")


def _hint(unknown: str, texts: Texts) -> str:
    bare = unknown.strip().lstrip("0").lower()
    near = next((each for each in texts.ids if each.strip().lstrip("0").lower() == bare), None)
    return "" if near is None else f" (the collection has {near!r})"


def _lines(path: Path, files: TextFiles, columns: TextColumns) -> Iterator[Row]:
    """Yield query, document and label of each qrels line. The first line may be a header with column names."""
    places: list[int] = []
    split: Callable[[str], list[str]] = str.split
    width = 0
    for number, line in files.lines(path):
        if not line.strip():
            continue
        if not places:
            split = _separator(path, line)
        fields = [field.strip() for field in split(line)]
        if not places:
            width, found = len(fields), columns.find(fields)
            if columns.given or sum(name is not None for name in found) > 1:
                places = [fields.index(name or "") for name in columns.check(fields, path, number)]
                continue
            if width not in (3, 4):
                bad_file(path, number, f"{width} columns", f"{_FORM}, or a header")
            places = [0, 1, 2] if width == 3 else [0, 2, 3]
        if len(fields) != width:
            bad_file(
                path, number, f"{len(fields)} columns", f"{width}, as in the first line (is the file truncated here?)"
            )
        yield number, [fields[place] for place in places]


def _separator(path: Path, line: str) -> Callable[[str], list[str]]:
    """Return the function that splits a qrels line: at commas in CSV, at tabs if line 1 has tabs, or at spaces."""
    if format_of(path) == "csv":
        return lambda line: next(csv.reader([line]))
    return (lambda line: line.split("\t")) if line.count("\t") >= 2 else str.split


def _label(value: Any, path: Path, line: int) -> int:
    found = _LABEL.fullmatch(str(value).strip())
    if found is None or isinstance(value, bool):
        bad_file(path, line, f"the label {str(value)[:40]!r}", "an integer of at most 18 digits")
    return int(found[1])
