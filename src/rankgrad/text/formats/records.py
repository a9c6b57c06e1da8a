"""Collect the records of a file as `Texts`, and report empty texts and repeated ids."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from rankgrad.text.collection import Texts
from rankgrad.text.formats.text_files import bad_file


class Record(NamedTuple):
    """A document or a query of a collection, and its position in a file."""

    id: str
    text: str
    title: str | None
    path: Path | None = None
    line: int | None = None


def gather(records: Iterable[Record], kind: str, notes: list[str]) -> Texts:
    """Return the texts of all records, in order. If several records have the same id, only the first is used.

    Args:
        records: the records.
        kind: `"documents"` or `"queries"`, for notes.
        notes: list to which one sentence per kind of defect is added.
    """
    one = "query" if kind == "queries" else "document"
    numbers: dict[str, int] = {}
    texts: list[str] = []
    titles: list[str] = []
    empty: list[str] = []
    equal: list[Record] = []
    different: list[Record] = []
    for record in records:
        if not record.id:
            bad_file(record.path or Path(), record.line, f"a {one} has no id", f"an id for each {one}")
        title = record.title or ""
        number = numbers.setdefault(record.id, len(texts))
        if number < len(texts):
            same = texts[number] == record.text and titles[number] == title
            (equal if same else different).append(record)
            continue
        texts.append(record.text)
        titles.append(title)
        if not record.text.strip() and not title.strip():
            empty.append(record.id)
    name = kind.capitalize()
    if empty:
        notes.append(f"{name} without text are kept: {such_as(empty)}.")
    for repeated, what in ((equal, "and the same text"), (different, "but a different text")):
        if repeated:
            at = "" if repeated[0].path is None else f" ({repeated[0].path}:{repeated[0].line})"
            shown = such_as([record.id for record in repeated])
            notes.append(f"{name} that have the id of an earlier {one} {what} are left out: {shown}{at}.")
    if spaced := [id for id in numbers if id.split() != [id]]:
        notes.append(f"{name} have ids with white space, which TREC runs cannot contain: {such_as(spaced)}.")
    return Texts(tuple(numbers), tuple(texts), tuple(titles) if any(titles) else None)


def such_as(found: Sequence[object]) -> str:
    """Return the number of ids and the first id as text, for a note about records: `3, such as 'd1'`.

    Args:
        found: the things, at least one.
    """
    return f"{len(found):,}, such as {found[0]!r}"
