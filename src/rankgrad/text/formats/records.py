"""Join the records of a file to `Texts`, and note empty texts and repeated ids."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from rankgrad.text.collection import Texts
from rankgrad.text.formats.text_files import bad_file


class Record(NamedTuple):
    """A document or a query, and its place in a file."""

    id: str
    text: str
    title: str | None
    path: Path | None = None
    line: int | None = None


def gather(records: Iterable[Record], kind: str, plural: str, notes: list[str]) -> Texts:
    """Return the texts of all records, in order. The first of several records with the same id is kept.

    Args:
        records: the records.
        kind: `"document"` or `"query"`, for notes.
        plural: `"documents"` or `"queries"`.
        notes: receives one sentence for each kind of defect.
    """
    numbers: dict[str, int] = {}
    texts: list[str] = []
    titles: list[str] = []
    empty: list[str] = []
    equal: list[Record] = []
    different: list[Record] = []
    for record in records:
        if not record.id:
            bad_file(record.path or Path(), record.line, f"a {kind} without an id", f"an id for each {kind}")
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
    if empty:
        notes.append(f"{counted(len(empty), kind, plural)} without text, such as {empty[0]!r}; the id is kept.")
    for repeated, what in ((equal, "the same text"), (different, "a different text")):
        if repeated:
            first = repeated[0]
            at = "" if first.path is None else f" ({first.path}:{first.line})"
            many = counted(len(repeated), kind, plural)
            notes.append(f"{many} with the id of an earlier one and {what}, such as {first.id!r}{at}; left out.")
    spaced = [each for each in numbers if each.split() != [each]]
    if spaced:
        many = counted(len(spaced), kind, plural)
        notes.append(f"{many} with white space in the id, such as {spaced[0]!r}; TREC runs cannot contain such ids.")
    return Texts(tuple(numbers), tuple(texts), tuple(titles) if any(titles) else None)


def counted(number: int, kind: str, plural: str) -> str:
    """Return a number with a noun: `1 query`, `2 queries`."""
    return f"{number:,} {kind if number == 1 else plural}"
