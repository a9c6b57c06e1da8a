"""Collections of text: documents, queries and qrels."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from rankgrad.atomic_files import naming, writing
from rankgrad.errors import bad_type, bad_value
from rankgrad.metrics.trec import Qrels, read_qrels, write_qrels


@dataclass(frozen=True)
class Texts:
    """Documents or queries, in order. The number of a text is its position.

    Example:
        >>> documents = Texts(("d1", "d2"), ("A wing in a slipstream.", "Heat flow."), titles=("A wing", "Slabs"))
        >>> documents.numbers["d2"], documents.full(0), documents.full(1)
        (1, 'A wing in a slipstream.', 'Slabs Heat flow.')
    """

    ids: tuple[str, ...]  # unique ids
    texts: tuple[str, ...]  # one text per id
    titles: tuple[str, ...] | None = None  # one title per id, or None

    def __post_init__(self) -> None:
        for name in ("ids", "texts", "titles"):
            if (values := getattr(self, name)) is None and name == "titles":
                continue
            object.__setattr__(self, name, tuple(values))
            if len(getattr(self, name)) != len(self.ids):
                bad_value(name, f"have one text per id, {len(self.ids)}", len(getattr(self, name)))
            for place, each in enumerate(getattr(self, name)):
                if not isinstance(each, str):
                    bad_type(name, "be texts", f"{each!r} ({type(each).__name__}) at position {place}")
        if len(self.numbers) != len(self.ids):
            repeated = next(each for number, each in enumerate(self.ids) if self.numbers[each] != number)
            bad_value("ids", "differ", f"{repeated!r} more than once")

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Dictionary from the id of each document or query to its number."""
        return {each: number for number, each in enumerate(self.ids)}

    @cached_property
    def content_hash(self) -> str:
        """Hash of all ids, texts and titles of documents or queries, in their order."""
        found = hashlib.sha256()
        for values in (self.ids, self.texts, self.titles):
            found.update(b"none" if values is None else " ".join(map(str, map(len, values))).encode())
            found.update(b"\n" + "".join(values or ()).encode("utf-8", "surrogatepass"))
        return found.hexdigest()[:16]

    def full(self, number: int) -> str:
        """Return title and text, separated by a space. If the text begins with the title, return only the text.

        Args:
            number: number of the text.
        """
        text, title = self.texts[number], "" if self.titles is None else self.titles[number]
        return text if not title or text.startswith(title) else f"{title} {text}".rstrip()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write lines of JSON, `{"id": ..., "title": ..., "text": ...}`.

        Args:
            path: path of the file, which is replaced atomically.
        """
        with writing(Path(path)) as file, naming(Path(path)):
            for number, id in enumerate(self.ids):
                row = {"id": id} if self.titles is None else {"id": id, "title": self.titles[number]}
                line = json.dumps({**row, "text": self.texts[number]}, ensure_ascii=False) + "\n"
                file.write(line.encode("utf-8", "surrogatepass"))

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "Texts":
        """Read texts that `save` wrote; `rankgrad.text.load` reads files of other programs.

        Args:
            path: path of the file.
        """
        try:
            with open(path, encoding="utf-8", errors="surrogatepass") as lines:
                rows = [json.loads(line) for line in lines]
            titles = tuple(row["title"] for row in rows) if rows and "title" in rows[0] else None
            return Texts(tuple(row["id"] for row in rows), tuple(row["text"] for row in rows), titles)
        except (ValueError, TypeError, KeyError) as error:
            bad_value(str(path), "be texts that rankgrad wrote", f"the error {error}")

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"Texts({len(self)}{'' if self.titles is None else ', with titles'})"


@dataclass(frozen=True)
class Collection:
    """Documents, queries and labels of a search task. Documents and queries can also be dictionaries `{id: text}`.

    Example:
        >>> Collection({"d1": "a boat", "d2": "a wing"}, {"q1": "boats"}, {"q1": {"d1": 1}})
        Collection(documents=2, queries=1, labels=1)
    """

    documents: Texts  # texts that are searched
    queries: Texts  # texts of the queries
    qrels: Qrels = field(default_factory=dict)  # {query: {document: label}}
    excluded: Mapping[str, frozenset[str]] = field(default_factory=dict)  # per query: ids that are never candidates
    name: str = ""  # name in messages and reports
    notes: tuple[str, ...] = ()  # sentences about defects of the files, such as unknown ids

    def __post_init__(self) -> None:
        for name in ("documents", "queries"):
            value = getattr(self, name)
            if isinstance(value, Mapping):
                object.__setattr__(self, name, Texts(tuple(value), tuple(value.values())))
            elif not isinstance(value, Texts):
                bad_type(name, "be Texts(ids, texts) or a dictionary {id: text}", type(value).__name__)
        for query, judged in self.qrels.items():
            if not isinstance(query, str) or not isinstance(judged, Mapping):
                bad_type(
                    "qrels", "have the form {query: {document: label}}, with text ids", f"{query!r}: {judged!r}"[:80]
                )

    def __repr__(self) -> str:
        name = f"{self.name!r}, " if self.name else ""
        labels, excluded = (sum(map(len, pairs.values())) for pairs in (self.qrels, self.excluded))
        sizes = f"documents={len(self.documents)}, queries={len(self.queries)}, labels={labels}"
        return f"Collection({name}{sizes}{f', excluded={excluded}' if excluded else ''})"

    @cached_property
    def content_hash(self) -> str:
        """Hash of the ids, texts and titles of all documents and queries, without labels."""
        return hashlib.sha256(f"{self.documents.content_hash} {self.queries.content_hash}".encode()).hexdigest()[:16]

    def texts_of(self, query: int, document: int) -> tuple[str, str]:
        """Return the texts of a query and of a document of the collection, by their numbers.

        Args:
            query: number of the query.
            document: number of the document.
        """
        return self.queries.full(query), self.documents.full(document)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the collection: `documents.jsonl`, `queries.jsonl`, `qrels.txt` and `excluded.txt`.

        Files that would be empty are not written. Each file is replaced atomically. Notes are not saved.

        Args:
            folder: path of the folder; it is created if it does not exist.
        """
        folder = Path(folder)
        excluded = {query: dict.fromkeys(sorted(pairs), -1) for query, pairs in self.excluded.items()}
        for name, labels in (("qrels.txt", self.qrels), ("excluded.txt", excluded)):
            if any(labels.values()):
                write_qrels(folder / name, labels)
            else:
                (folder / name).unlink(missing_ok=True)
        for name, texts in (("documents.jsonl", self.documents), ("queries.jsonl", self.queries)):
            if len(texts):
                texts.save(folder / name)
            else:
                (folder / name).unlink(missing_ok=True)

    @staticmethod
    def load(folder: str | os.PathLike[str], name: str = "") -> "Collection":
        """Read a collection that `save` wrote; `rankgrad.text.load` reads files of other programs.

        Args:
            folder: path of the folder.
            name: name of the collection.
        """
        folder = Path(folder)
        documents, queries = (
            Texts.load(path) if (path := folder / file).is_file() else Texts((), ())
            for file in ("documents.jsonl", "queries.jsonl")
        )
        qrels, excluded = (
            read_qrels(path) if (path := folder / file).is_file() else {} for file in ("qrels.txt", "excluded.txt")
        )
        never = {query: frozenset(found) for query, found in excluded.items()}
        return Collection(documents, queries, qrels, never, name)


def collection_of(data: Any) -> Collection:
    """Return the collection of a text data set. Raise an error if the data set has no texts.

    Args:
        data: a `rankgrad.data.Dataset`, for example from `rankgrad.text.candidate_lists`.
    """
    found = getattr(data, "texts", None)
    if not isinstance(found, Collection):
        must = "be a text data set: text:path=FOLDER, or a result of rankgrad.text.candidate_lists"
        bad_value("data", must, f"{data!r}, which has no texts"[:200])
    return found
