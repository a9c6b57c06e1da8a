"""Find the files of a collection in a folder."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rankgrad.text.formats import tables, text_folder
from rankgrad.text.formats.records import such_as
from rankgrad.text.formats.text_files import TextFiles, bad_file

LAYOUTS = (
    "files of SMART such as MED.ALL, MED.QRY and MED.REL, files with <DOC>, a table documents.* or corpus.* "
    "(.jsonl, .csv, .tsv, .parquet), or text files (.txt)"
)
_DOCUMENTS = ("documents", "corpus", "docs", "collection")
_IGNORED = (".md", ".dtd", ".readme")


@dataclass(frozen=True)
class CollectionFiles:
    """Files of a collection in a folder."""

    documents: Sequence[Path]
    queries: Path | None = None
    qrels: Path | None = None
    excluded: Path | None = None
    root: Path | None = None  # folder of a collection of plain text files


def kind_of(path: Path, files: TextFiles) -> str | None:
    """Return a collection file's format: `table`, `smart`, or for TREC `documents` or `topics`; None if unknown."""
    if tables.format_of(path):
        return "table"
    start = files.start(path).lower()
    if start.startswith(".i "):
        return "smart"
    if start.startswith("<"):
        tags = {"<doc>": "documents", "<top>": "topics", "<topic": "topics"}
        found = {start.find(tag): kind for tag, kind in tags.items() if tag in start}
        return found[min(found)] if found else None
    return None


def find_files(folder: Path, files: TextFiles, *, queries: Path | None, qrels: Path | None) -> CollectionFiles:
    """Return the files of a collection in a folder.

    Args:
        folder: the folder.
        files: reader of the files.
        queries: file of queries from the user; None to search for it in the folder.
        qrels: file of qrels from the user; None to search for it in the folder.
    """
    top = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    queries = queries or _queries(folder, top, files)
    qrels = qrels or _qrels(folder, top, files)
    named = [path for path in top if _stem(path) in _DOCUMENTS and tables.format_of(path)]
    named = named or _smart(top, files, r".*\.all(\..*)?|cran\.1400.*")
    if named:
        excluded = folder / "excluded.txt"
        document = _only(named, "files of documents", "the file of documents instead of the folder", folder)
        return CollectionFiles([document], queries, qrels, excluded if excluded.is_file() else None)
    return _many_files(folder, queries, qrels, files)


def _many_files(folder: Path, queries: Path | None, qrels: Path | None, files: TextFiles) -> CollectionFiles:
    """Find documents in many files, also in subfolders: files with `<DOC>`; without such files, text files."""
    known = {path.resolve() for path in (queries, qrels) if path is not None}
    other = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
        and not path.name.lower().startswith("read")  # README, and READCHG on TREC's disks
        and not path.name.lower().endswith(_IGNORED)
        and path.resolve() not in known
    ]
    trec = [path for path in other if _scan(path, files) == "documents"]
    text = [] if trec else [path for path in other if text_folder.is_text(path)]
    if not trec and not text:
        bad_file(folder, None, "no documents", LAYOUTS)
    read = set(trec or text)
    unread = [path for path in other if path not in read and "qrel" not in path.name.lower()]
    if unread:
        why = "do not begin with <DOC>" if trec else "do not end in .txt"
        shown = such_as([path.relative_to(folder).as_posix() for path in unread])
        files.notes.append(f"Files of {folder} that {why} are not read: {shown}.")
    return CollectionFiles(trec or text, queries, qrels, root=None if trec else folder)


def _queries(folder: Path, top: Sequence[Path], files: TextFiles) -> Path | None:
    table = [path for path in top if tables.format_of(path) or text_folder.is_text(path)]
    for found in (
        _smart(top, files, r".*\.qry|query\.text"),
        [path for path in table if _stem(path) == "queries"],
        [path for path in table if path.name.lower().startswith("queries.")],
        [path for path in top if path not in table and _scan(path, files) == "topics"],
        [path for path in top if text_folder.is_text(path) and _scan(path, files) == "topics"],
    ):
        if found:
            return _only(found, "files of queries", "one of them in the option `queries`", folder)
    return None


def _qrels(folder: Path, top: Sequence[Path], files: TextFiles) -> Path | None:
    plain = [path for path in top if not path.is_dir() and not path.name.lower().endswith(_IGNORED)]
    exact = [path for path in plain if _stem(path) in ("qrels", "cranqrel")]
    inside = sorted(path for path in (folder / "qrels").glob("*.*") if not path.name.startswith("."))
    if inside and not exact:
        test = [path for path in inside if _stem(path) == "test"]
        others = [path.name for path in inside if path not in test]
        found = _only(test or inside, "files of qrels", "one of them in the option `qrels`", folder / "qrels")
        if others and test:
            files.notes.append(
                f"Only the qrels in {found} are read, not the other files: {such_as(others)} (use the option `qrels`)."
            )
        return found
    near = [path for path in plain if "qrel" in path.name.lower()]
    near = near or [path for path in plain if _name(path).endswith(".rel")]
    return _only(exact or near, "files of qrels", "one of them in the option `qrels`", folder) if near else None


def _smart(top: Sequence[Path], files: TextFiles, names: str) -> list[Path]:
    """Return the files of SMART with such names: a regular expression, for lower case and without `.gz`."""
    return [path for path in top if re.fullmatch(names, _name(path)) and _scan(path, files) == "smart"]


def _scan(path: Path, files: TextFiles) -> str | None:
    return None if not path.is_file() or files.is_archive(path) else kind_of(path, files)


def _name(path: Path) -> str:
    return path.name.lower().removesuffix(".gz")


def _stem(path: Path) -> str:
    return _name(path).rpartition(".")[0] or _name(path)


def _only(found: Sequence[Path], what: str, expected: str, folder: Path) -> Path:
    if len(found) > 1:
        names = ", ".join(path.name for path in found[:5])
        bad_file(folder, None, f"{len(found)} {what} ({names})", expected)
    return found[0]
