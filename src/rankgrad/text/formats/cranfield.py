"""Read the Cranfield collection from its original files: `cran.all.1400`, `cran.qry` and `cranqrel`.

Each document begins with a line `.I ID`. Title, authors, source and text begin with lines `.T`, `.A`, `.B`, `.W`.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from rankgrad.errors import one_of
from rankgrad.metrics.trec import Qrels
from rankgrad.text.formats.records import Record, such_as
from rankgrad.text.formats.text_files import TextFiles, bad_file

_MARK = re.compile(r"\.[A-Z]\s*")
SIMILAR = ("exclude", "relevant")  # what a label of -1 means
_BEST = 4  # label of a complete answer


def documents(path: Path, files: TextFiles) -> Iterator[Record]:
    """Yield the documents of the Cranfield collection. Authors and source are not part of the text.

    Args:
        path: the file.
        files: reader of the file.
    """
    id, begin, part = "", 0, ""
    parts: dict[str, list[str]] = {}
    without: list[Record] = []

    def record() -> Record:
        title, text = (" ".join(" ".join(parts.get(name, ())).split()) for name in "TW")
        made = Record(id, text, title, path, begin)
        if "W" not in parts:
            without.append(made)
        return made

    for number, line in files.lines(path):
        if line.startswith(".I "):
            if begin:
                yield record()
            id, begin, part, parts = line[3:].strip(), number, "", {}
        elif begin and _MARK.fullmatch(line):
            # Three documents of the published file contain these marks within their text.
            part = "W" if part == "W" and line[1] in "TABW" else line[1]
            parts.setdefault(part, [])
        elif part:
            parts[part].append(line)
        elif line.strip():
            bad_file(path, number, f"the line {line.strip()[:60]!r}", "a line `.I ID`, then .T or .W")
    if begin:
        yield record()
    if without:
        shown = such_as([record.id for record in without])
        files.notes.append(f"Some records have no .W: {shown} ({path}:{without[0].line}). Perhaps the file is cut.")


def queries(path: Path, files: TextFiles) -> Iterator[Record]:
    """Yield the queries of Cranfield. The id of a query is its position from 1, as in the qrels, not the id of `.I`.

    Args:
        path: the file.
        files: reader of the file.
    """
    for position, record in enumerate(documents(path, files), 1):
        yield record._replace(id=str(position), title=None)


def qrels(path: Path, files: TextFiles, similar: str = "exclude") -> tuple[Qrels, dict[str, frozenset[str]]]:
    """Return Cranfield's labels and excluded documents. The label is 5 - code, from 4 (complete answer) to 1.

    Args:
        path: file with lines of `query document code`.
        files: reader of the file.
        similar: use of the document with code -1. Each query has one such document, probably the source of the
            question. `"exclude"`: the document is excluded. `"relevant"`: its label is 4.
    """
    one_of("similar", similar, SIMILAR)
    labels: Qrels = {}
    excluded: dict[str, frozenset[str]] = {}
    for number, line in files.lines(path):
        fields = line.split()
        if not fields:
            continue
        if len(fields) != 3 or fields[2] not in ("1", "2", "3", "4", "-1"):
            bad_file(path, number, f"the line {line.strip()[:60]!r}", "query, document and a code of 1 to 4 or -1")
        query, document, code = fields
        if code == "-1" and similar == "exclude":
            excluded[query] = excluded.get(query, frozenset()) | {document}
        else:
            labels.setdefault(query, {})[document] = _BEST if code == "-1" else 5 - int(code)
    return labels, excluded
