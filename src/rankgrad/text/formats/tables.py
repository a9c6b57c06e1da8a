"""Read tables of documents, queries or labels: CSV, TSV, JSON lines and Parquet. All values are read as text."""

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rankgrad.data.tables.errors import some
from rankgrad.errors import bad_value
from rankgrad.text.formats.records import Record
from rankgrad.text.formats.text_files import TextFiles, bad_file

ENDINGS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".pq": "parquet"}
_LONGEST = 2**31 - 1  # characters of a field of a CSV file; the default of the csv module is 131,072
_SURROGATE = re.compile("[\ud800-\udfff]")
_IDS = ("id", "_id")
_TEXTS = ("text", "body", "contents", "content", "passage", "abstract", "document")
_DOCUMENT = ("doc_id", "docid", "docno", "document_id", "doc-id", "document-id", "pid", "passage_id")
_QUERY = ("query_id", "qid", "q_id", "query-id", "queryid", "topic_id")
# Names of the columns that are found without an option, best first.
KNOWN: dict[str, dict[str, tuple[str, ...]]] = {
    "documents": {
        "id": (*_IDS, *_DOCUMENT, "corpus_id", "corpus-id"),
        "text": _TEXTS,
        "title": ("title", "headline"),
    },
    "queries": {"id": (*_IDS, *_QUERY), "text": ("text", "query", "question", "contents", "title")},
    "qrels": {
        "query": (*_QUERY, "query", "topic"),
        "document": ("corpus-id", "corpus_id", *_DOCUMENT, "document"),
        "label": ("score", "label", "relevance", "rel", "grade"),
    },
}
Row = tuple[int, list[Any]]  # line or row number, and the values of the columns that were chosen


def format_of(path: Path) -> str | None:
    """Return the format of a text table from the ending of its name (without `.gz`); None if the file is no table."""
    return ENDINGS.get(Path(path.name.lower().removesuffix(".gz")).suffix)


def check_columns(columns: Mapping[str, Mapping[str, str]] | None) -> None:
    """Check the names in the option `columns`: `{"documents": {"id": "key"}}`."""
    for table, given in (columns or {}).items():
        if table not in KNOWN or not isinstance(given, Mapping) or not given.keys() <= KNOWN[table].keys():
            form = "; ".join(f"{name}: {', '.join(known)}" for name, known in KNOWN.items())
            bad_value("columns", f"be a dictionary per table, with names of columns ({form})", {table: given})


class TextColumns:
    """The rule that chooses the columns of a table of documents, queries or labels.

    Args:
        kind: `"documents"`, `"queries"` or `"qrels"`.
        given: column names from the user, such as `{"id": "key"}`.
    """

    def __init__(self, kind: str, given: Mapping[str, str] | None = None) -> None:
        self.given = dict(given or {})
        self.known = {part: (self.given[part],) if part in self.given else names for part, names in KNOWN[kind].items()}

    def find(self, header: Sequence[str]) -> list[str | None]:
        """Return the table column of each part, such as id and text; None for a missing column. Case is ignored."""
        lower = {name.strip().lower(): name for name in reversed(header)}
        return [
            next((lower[name.lower()] for name in names if name.lower() in lower), None)
            for names in self.known.values()
        ]

    def check(self, names: Sequence[str], path: Path, line: int | None) -> list[str | None]:
        """Return the column name of each part. A missing column is an error, unless it is an optional title."""
        found = self.find(names)
        for (part, known), name in zip(self.known.items(), found, strict=True):
            if name is None and (part != "title" or part in self.given):
                fix = f"a column {' or '.join(map(repr, known[:4]))}, or its name in the option `columns`"
                bad_file(path, line, f"no {part} in the columns {some([each[:40] for each in names])}", fix)
        return found


def records(path: Path, files: TextFiles, kind: str, given: Mapping[str, str] | None = None) -> Iterator[Record]:
    """Yield the documents or the queries of a table as records.

    Args:
        path: the file, or a folder with Parquet files.
        files: reader of the file.
        kind: `"documents"` or `"queries"`.
        given: column names from the user.
    """
    columns = TextColumns(kind, given)
    for line, values in rows(path, files, columns):
        id, text, *title = (as_text(value, part, path, line) for part, value in zip(columns.known, values, strict=True))
        yield Record(id, text, title[0] if title else None, path, line)


def rows(path: Path, files: TextFiles, columns: TextColumns, format: str | None = None) -> Iterator[Row]:
    """Yield the values of the chosen columns of each row of a text table.

    Args:
        path: the file, or a folder with Parquet files.
        files: reader of the file.
        columns: rule that chooses the columns.
        format: format of the table; None to find the format from the ending of the file name.
    """
    format = format or format_of(path)
    if format == "parquet":
        return _parquet(path, columns)
    if format == "jsonl":
        return _json_lines(path, files, columns)
    return _delimited(path, files, columns, "," if format == "csv" else "\t")


def as_text(value: Any, part: str, path: Path, line: int) -> str:
    """Return a table value as text: an integer as its digits, and a missing value as an empty text."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    bad_file(path, line, f"{part} is a {type(value).__name__} ({str(value)[:40]})", "text; ids may also be integers")


def _json_lines(path: Path, files: TextFiles, columns: TextColumns) -> Iterator[Row]:
    chosen: dict[tuple[str, ...], list[str | None]] = {}
    for number, line in files.lines(path):
        if not line.strip():
            continue
        try:
            row = json.loads(line, parse_float=str)  # an id such as 1.10 keeps its digits
        except (ValueError, RecursionError) as error:
            bad_file(path, number, f"not JSON ({error})", "one JSON object per line (is the file truncated here?)")
        if not isinstance(row, dict):
            bad_file(path, number, f"a JSON {type(row).__name__}", "one JSON object per line")
        if (names := tuple(row)) not in chosen:
            # Later rows may omit keys. A missing text is empty, a missing id is an error.
            chosen[names] = columns.find(names) if chosen else columns.check(names, path, number)
        values = [None if name is None else row[name] for name in chosen[names]]
        if "\\ud" in line or "\\uD" in line:
            values = [_without_surrogates(value, path, number, files) for value in values]
        yield number, values


def _without_surrogates(value: Any, path: Path, number: int, files: TextFiles) -> Any:
    """Replace unpaired surrogates such as `\\ud800`, which cannot be encoded, by the replacement character."""
    if isinstance(value, str) and (count := len(_SURROGATE.findall(value))):
        files.undecoded(path, number, count)
        return _SURROGATE.sub("\ufffd", value)
    return value


def _delimited(path: Path, files: TextFiles, columns: TextColumns, delimiter: str) -> Iterator[Row]:
    lines = files.lines(path)
    start, first = next(((number, line) for number, line in lines if line.strip()), (1, ""))
    limit = csv.field_size_limit(_LONGEST)
    try:
        header = next(csv.reader([first], delimiter=delimiter), [])
        found = columns.find(header)
        if delimiter == "\t" and len(header) == 2 and found[0] is None and not columns.given:
            for line, pair in _pairs(path, start, first, lines):
                yield line, [*pair, *[None] * (len(found) - 2)]
            return
        found = columns.check(header, path, start)
        places = [None if name is None else header.index(name) for name in found]
        for name in found:
            if header.count(name or "\t") > 1:
                bad_file(path, start, f"several columns {name!r}", "different names")
        # `strict`: an unclosed quote is an error, so that a cut file is noticed.
        table = csv.reader((line for _, line in lines), delimiter=delimiter, strict=True)
        line = start + 1
        try:
            for row in table:
                if row and len(row) != len(header):
                    bad_file(
                        path, line, f"{len(row)} columns", f"{len(header)}, as in the header (is the file truncated?)"
                    )
                if row:
                    yield line, [None if place is None else row[place] for place in places]
                line = start + 1 + table.line_num
        except csv.Error as error:
            bad_file(path, line, f"not a row of a table ({error})", 'quotes as in CSV: "a ""word"" in quotes"')
    finally:
        csv.field_size_limit(limit)


def _pairs(path: Path, start: int, first: str, lines: Iterator[tuple[int, str]]) -> Iterator[Row]:
    """Yield the rows of a file `id<TAB>text` without a header. Quotes and further tabs are part of the text."""

    def values(number: int, line: str) -> list[Any]:
        id, tab, text = line.rstrip("\r\n").partition("\t")
        if not tab:
            bad_file(path, number, f"no tab in the line {line.strip()[:60]!r}", "id<TAB>text")
        return [id, text]

    yield start, values(start, first)
    for number, line in lines:
        if line.strip():
            yield number, values(number, line)


def _parquet(path: Path, columns: TextColumns) -> Iterator[Row]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("Parquet files need pyarrow: pip install 'rankgrad[frames]'") from error
    if not path.is_file() and not path.is_dir():
        got = "is not a regular file" if path.exists() else "no such file"
        raise FileNotFoundError(f"{path}: {got}; expected a Parquet file")
    row = 0
    for part in sorted(path.rglob("*.parquet")) if path.is_dir() else [path]:
        try:
            with pyarrow.parquet.ParquetFile(part) as file:
                found = columns.check(file.schema_arrow.names, part, None)
                names = [name for name in found if name is not None]
                for batch in file.iter_batches(batch_size=4096, columns=names):
                    cells = {name: batch.column(name).to_pylist() for name in names}
                    empty = [None] * batch.num_rows
                    for values in zip(*(empty if name is None else cells[name] for name in found), strict=True):
                        row += 1
                        yield row, list(values)
        except (pyarrow.ArrowException, OSError) as error:
            why = " ".join(str(error).split())[:200]
            bad_file(part, None, f"not a Parquet file ({why})", "a complete file")
