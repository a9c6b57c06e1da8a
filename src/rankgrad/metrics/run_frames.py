"""Runs and qrels in data frames of pandas or polars, or Arrow tables, with the column names of common packages."""

from typing import Any

from rankgrad.errors import bad_type, bad_value

# Names of ir_datasets and ir_measures, PyTerrier, ranx and BEIR, best first.
QUERY = ("query_id", "qid", "q_id", "query-id", "queryid", "topic_id", "query", "topic")
DOCUMENT = ("doc_id", "docid", "docno", "document_id", "doc-id", "document-id", "corpus_id", "corpus-id", "document")
SCORE = ("score", "scores", "prediction")
LABEL = ("relevance", "label", "rel", "grade", "score")
_LARGEST = 2**53  # a float represents each integer up to this one


def is_frame(value: Any) -> bool:
    """Return True for a data frame of pandas or polars, and for an Arrow table."""
    package, name = type(value).__module__.partition(".")[0], type(value).__name__
    return package in ("pandas", "polars", "pyarrow") and (name == "LazyFrame" or hasattr(value, "columns"))


def run_of_frame(name: str, frame: Any, values: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """Return a run or qrels, `{query: {document: number}}`, from a data frame with one row per document.

    Args:
        name: name of the argument in errors.
        frame: the data frame.
        values: names of the column of numbers, best first.
    """
    frame = frame.collect() if hasattr(frame, "collect") else frame
    known = {str(column).lower(): column for column in getattr(frame, "column_names", frame.columns)}
    columns = []
    for what, names in (("queries", QUERY), ("documents", DOCUMENT), ("numbers", values)):
        column = next((known[each] for each in names if each in known), None)
        if column is None:
            must = f"have a column of {what} ({', '.join(names)})"
            bad_value(name, must, f"the columns {', '.join(map(str, known.values()))}")
        columns.append(column)
    result: dict[str, dict[str, float]] = {}
    for query, document, number in zip(*(_values(frame[column]) for column in columns), strict=True):
        documents, id = result.setdefault(_id(columns[0], query), {}), _id(columns[1], document)
        if id in documents:
            bad_value(name, "have one row per query and document", f"document {id!r} of query {query!r} twice")
        try:
            documents[id] = float(number)
        except (TypeError, ValueError):
            bad_type(f"column {columns[2]!r}", "contain numbers", repr(number)[:80])
    return result


def _values(column: Any) -> list[Any]:
    """Return the values of a column as objects of Python."""
    method = next(name for name in ("to_pylist", "to_list", "tolist") if hasattr(column, name))
    return list(getattr(column, method)())


def _id(column: str, value: Any) -> str:
    """Return an id as text. A column of integers with missing values is a column of floats in pandas."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, str | int):
        bad_value(f"column {column!r}", "have an id in each row, text or an integer", repr(value)[:80])
    return str(value)
