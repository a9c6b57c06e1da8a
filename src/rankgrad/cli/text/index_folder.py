"""The folder that `rankgrad text index` writes: a BM25 index, and a copy or the path of the collection."""

import os
import shutil
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankgrad.errors import bad_value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rankgrad.text import BM25Index, Collection

FORMAT, VERSION = "rankgrad text index", 1
ABOUT, COPY, BM25, EMBEDDINGS = "index.json", "collection", "bm25", "embeddings"
REMOTE = "ir_datasets:"  # prefix of a collection that is not a path


@dataclass(frozen=True)
class IndexFolder:
    """A complete folder of `rankgrad text index`."""

    path: Path
    about: dict[str, Any]  # content of `index.json`

    @staticmethod
    def open(path: Path) -> "IndexFolder":
        """Open an index folder; an incomplete folder is an error."""
        about = _about(path)
        if about is None:
            bad_value(str(path), f"be an index folder, written by `rankgrad text index`, with {ABOUT}", "no such file")
        if about.get("version") != VERSION:
            bad_value(str(path / ABOUT), f"have the version {VERSION}", about.get("version"))
        if about.get("complete") is not True:
            again = f"run `rankgrad text index ... --out {path} --overwrite`"
            bad_value(str(path), f"be a complete index ({again})", "an incomplete index")
        return IndexFolder(path, about)

    def bm25(self) -> "BM25Index":
        """Return the BM25 index in the index folder."""
        from rankgrad.text import BM25Index

        return BM25Index.load(self.path / BM25)

    def collection(self, queries: Path | None = None, qrels: Path | None = None) -> "Collection":
        """Return the collection of the index. Warnings that `rankgrad text index` already printed are not repeated.

        Args:
            queries: file of other queries. The labels and excluded documents of the index are then not used.
            qrels: file of other labels.
        """
        from rankgrad.text import Collection, load

        options = dict(self.about["source"])
        source = options.pop("source")
        if self.about["copy"]:
            self._check_copy()
            if queries is None and qrels is None:
                return self._checked(Collection.load(self.path / COPY, self.about["name"]), self.path / COPY)
            options = {"topic": options["topic"]}
            source = self.path / COPY if queries is None else self.path / COPY / "documents.jsonl"
        elif queries is not None:
            options["qrels"] = None
        given = {"queries": queries, "qrels": qrels}
        options |= {name: file for name, file in given.items() if file is not None}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            found = load(source, **{**options, "name": self.about["name"]})
        for warning in caught:
            if str(warning.message) not in self.about["notes"]:
                warnings.warn(str(warning.message), stacklevel=2)
        return self._checked(without_spaces(found), source)

    def _checked(self, found: "Collection", source: Path | str) -> "Collection":
        """Return the collection, if it has the documents that were indexed."""
        if found.documents.content_hash != self.about["content"]:
            again = f"for other documents, run `rankgrad text index ... --out {self.path} --overwrite`"
            bad_value(str(source), f"have the documents that were indexed ({again})", "other documents")
        return found

    def with_queries(self, queries: Path | None, qrels: Path | None = None) -> "Collection":
        """Return the collection of the index; a collection without queries is an error."""
        found = self.collection(queries, qrels)
        if not len(found.queries):
            bad_value("queries", f"be given, because {self.path} contains no queries", None)
        return found

    def labels(self, queries: Path | None, qrels: Path | None) -> tuple[dict[str, dict[str, int]], dict[str, str]]:
        """Return the qrels of the index, and the text of each query by id. Documents are read only if necessary."""
        from rankgrad.metrics import read_qrels
        from rankgrad.text import Texts

        copy = self.path / COPY
        if self.about["copy"] and queries is None and qrels is None and (copy / "qrels.txt").is_file():
            self._check_copy()
            judged, texts = read_qrels(copy / "qrels.txt"), Texts.load(copy / "queries.jsonl")
        else:
            found = self.with_queries(queries, qrels)
            judged, texts = found.qrels, found.queries
        return judged, dict(zip(texts.ids, texts.texts, strict=True))

    def _check_copy(self) -> None:
        """Check queries and labels of the copy; `content` is for the documents. Older folders have no `files`."""
        from rankgrad.atomic_files import check_unchanged

        known = {"documents.jsonl": None, **self.about.get("files", {})}
        again = f"run `rankgrad text index ... --out {self.path} --overwrite`"
        check_unchanged(self.path / COPY, known, f"restore it, or {again}")


def write_index(out: Path, collection: "Collection", index: "BM25Index", source: dict[str, Any], copy: bool) -> None:
    """Write an index folder. At the end, `index.json` is written again and marks the folder as complete.

    Args:
        out: folder; an index in it is replaced.
        collection: documents, queries and labels.
        index: BM25 index of the documents.
        source: arguments of `rankgrad.text.load`.
        copy: True to write a copy of the collection; False if later commands will read the files of `source`.
    """
    from rankgrad.atomic_files import hash_of_file, write_json
    from rankgrad.lock import locked

    about = {
        "format": FORMAT,
        "version": VERSION,
        "complete": False,
        "name": collection.name,
        "documents": len(collection.documents),
        "queries": len(collection.queries),
        "labels": sum(map(len, collection.qrels.values())),
        "content": collection.documents.content_hash,
        "copy": copy,
        "source": source,
        "notes": list(collection.notes),
    }
    with locked(out):
        write_json(out / ABOUT, about, seal=True)
        for name in (COPY, BM25, EMBEDDINGS):
            if (out / name).is_dir() and not (out / name).is_symlink():
                shutil.rmtree(out / name)
        if copy:
            collection.save(out / COPY)
            names = ("queries.jsonl", "qrels.txt", "excluded.txt")
            about["files"] = {name: hash_of_file(out / COPY / name) for name in names if (out / COPY / name).is_file()}
        index.save(out / BM25)
        write_json(out / ABOUT, {**about, "complete": True}, seal=True)


def check_out(out: Path, source: str, overwrite: bool) -> None:
    """Check that an index can be written to a folder."""
    if out.exists() and not out.is_dir():
        bad_value("out", "be a folder", f"the file {out}")
    if not source.startswith(REMOTE) and out.resolve().is_relative_to(Path(source).resolve()):
        bad_value("out", "be outside of the folder of the collection", out)
    about = _about(out)
    if about is None and out.is_dir() and any(path.name != ".lock" for path in out.iterdir()):
        bad_value("out", "be a new folder, or an index", f"{out}, which contains other files")
    if about is not None and about.get("complete") and not overwrite:
        bad_value("out", "be a new folder (or add --overwrite)", f"{out}, which contains an index")


def without_spaces(collection: "Collection") -> "Collection":
    """Return the collection with `_` instead of white space in ids, because TREC runs cannot contain white space."""

    def plain(id: str) -> str:
        return "_".join(id.split())

    found = (collection.documents, collection.queries)
    if all(plain(id) == id for texts in found for id in texts.ids):
        return collection
    documents, queries = (replace(texts, ids=tuple(map(plain, texts.ids))) for texts in found)
    qrels = {plain(q): {plain(d): label for d, label in each.items()} for q, each in collection.qrels.items()}
    excluded = {plain(q): frozenset(map(plain, each)) for q, each in collection.excluded.items()}
    return replace(collection, documents=documents, queries=queries, qrels=qrels, excluded=excluded)


def fingerprint(ids: "Iterable[str]") -> str:
    """Return a hash of ids of documents, or of other texts; the hash depends on their order."""
    from rankgrad.atomic_files import hash_of

    return hash_of("\n".join(ids).encode("utf-8", "surrogatepass"))[:16]


def absolute(path: str | os.PathLike[str] | None) -> str | None:
    """Return the absolute path of an index, collection or other file, valid in every working directory."""
    return None if path is None else str(path) if str(path).startswith(REMOTE) else os.path.abspath(path)


def size_of(folder: Path) -> int:
    """Return the number of bytes of all files in an index folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _about(path: Path) -> dict[str, Any] | None:
    """Return the content of `index.json`; None if the folder has no such file, or another program wrote the file."""
    from rankgrad.atomic_files import read_json

    if not (path / ABOUT).is_file():
        return None
    about = read_json(path / ABOUT)
    return about if about.get("format") == FORMAT else None
