"""Read a collection of the package `ir_datasets`: `rankgrad.text.load("ir_datasets:NAME")`."""

from collections.abc import Iterator
from typing import Any

from rankgrad.errors import bad_value
from rankgrad.metrics.trec import Qrels
from rankgrad.text.formats.records import Record

PREFIX = "ir_datasets:"
_TEXTS = ("text", "body", "contents", "abstract")
_FIELDS = {"title": ("title", "query", "text"), "description": ("description",), "narrative": ("narrative",)}


def find(name: str) -> Any:
    """Return the data set of `ir_datasets` with this name. The package downloads the data set on first use.

    Args:
        name: name of the data set, such as `"beir/scifact/test"`.
    """
    try:
        import ir_datasets
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{PREFIX}{name} needs ir_datasets: pip install ir_datasets") from error
    try:
        dataset = ir_datasets.load(name)
    except KeyError:
        bad_value("source", "be a data set that ir_datasets knows (https://ir-datasets.com)", repr(PREFIX + name))
    if not dataset.has_docs():
        bad_value("source", "be a data set with documents", repr(PREFIX + name))
    return dataset


def documents(dataset: Any) -> Iterator[Record]:
    """Yield the documents from `ir_datasets`. Text: `text`, `body`, `contents` or `abstract`, else `default_text()`."""
    for document in dataset.docs_iter():
        texts = (getattr(document, name, None) for name in _TEXTS)
        text = next((text for text in texts if isinstance(text, str)), None)
        if text is None:
            yield Record(document.doc_id, document.default_text(), None)
        else:
            title = getattr(document, "title", None)
            yield Record(document.doc_id, text, title if isinstance(title, str) else None)


def queries(dataset: Any, fields: tuple[str, ...]) -> Iterator[Record]:
    """Yield the queries from `ir_datasets`. A missing title is `default_text()`; other missing fields are an error.

    Args:
        dataset: the data set.
        fields: fields of a topic: `"title"`, `"description"`, `"narrative"`.
    """
    for query in dataset.queries_iter() if dataset.has_queries() else ():
        texts = []
        for field in fields:
            values = (getattr(query, name, None) for name in _FIELDS[field])
            text = next((value for value in values if isinstance(value, str)), None)
            if text is None and field == "title":
                text = query.default_text()
            if text is None:
                known = ", ".join(query._fields)
                bad_value("topic", f"be a field of the queries ({known})", repr(field))
            texts.append(text)
        yield Record(query.query_id, " ".join(filter(None, texts)), None)


def qrels(dataset: Any) -> Qrels:
    """Return the labels from `ir_datasets`. If a pair has several labels (such as subtopics), the highest is used.

    Args:
        dataset: the data set.
    """
    labels: Qrels = {}
    for qrel in dataset.qrels_iter() if dataset.has_qrels() else ():
        judged = labels.setdefault(qrel.query_id, {})
        judged[qrel.doc_id] = max(qrel.relevance, judged.get(qrel.doc_id, qrel.relevance))
    return labels
