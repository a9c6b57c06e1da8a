"""Read collections in the format of SMART, such as Cranfield, CACM, CISI and MED.

A document or query begins with a line `.I ID`. Its title and text follow the lines `.T` and `.W`; other fields, such as
`.A` (authors), are not part of the text. Lines of the qrels are `query document 0 0`, or `query document code` in
Cranfield.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from rankgrad.errors import one_of
from rankgrad.metrics.trec import SMART_LINE, Qrels
from rankgrad.text.collection import Texts
from rankgrad.text.formats.records import Record
from rankgrad.text.formats.tables import format_of
from rankgrad.text.formats.text_files import TextFiles, bad_file

_MARK = re.compile(r"\.[A-Z]\s*")
_CRANFIELD = ("cranqrel", "cran.qry")  # files of Cranfield; its qrels number the queries by position
SIMILAR = ("exclude", "relevant")  # what a label of -1 in Cranfield means
_BEST = 4  # label of a complete answer in Cranfield


def documents(path: Path, files: TextFiles) -> Iterator[Record]:
    """Yield the documents of a file of SMART. Authors, source, keywords and references are not part of the text.

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
            # A field occurs once: three documents of Cranfield contain such lines again, within their text.
            part = "W" if part == "W" and line[1] in parts else line[1]
            parts.setdefault(part, [])
        elif part:
            parts[part].append(line)
        elif line.strip():
            bad_file(path, number, f"the line {line.strip()[:60]!r}", "a line `.I ID`, then .T or .W")
    if begin:
        yield (last := record())
        if without == [last]:  # several are no defect: half of CACM's documents have only a title
            files.notes.append(f"The last record, {id!r}, has no .W ({path}:{begin}). Perhaps the file is cut.")


def queries(path: Path, files: TextFiles, judged: Qrels, qrels: Path | None) -> Iterator[Record]:
    """Yield the queries of SMART. The id of a query is its id in the file, or its position from 1.

    The position is used for Cranfield, and if qrels that do not fit the ids in the file number all queries.

    Args:
        path: the file.
        files: reader of the file.
        judged: content of the qrels; empty if there are none.
        qrels: file of the qrels.
    """
    records = [each._replace(text=each.text or each.title or "", title=None) for each in documents(path, files)]
    ids, asked = ({_number(id) for id in each} for each in ((record.id for record in records), judged))
    positions = {str(place) for place in range(1, len(records) + 1)}
    if is_cranfield(qrels or path):
        if extra := asked - positions:
            wrong = f"{len(records)} queries, but {qrels} numbers them by position and has query {max(extra)!r}"
            bad_file(path, None, wrong, "all queries")
    elif asked == positions and not (ids <= asked or asked <= ids):
        wrong = f"do not fit the ids in {path}, but the positions of the queries"
        files.notes.append(f"The ids in {qrels} {wrong}: the queries are numbered by position.")
    else:
        return iter(records)
    return (record._replace(id=str(place)) for place, record in enumerate(records, 1))


def is_cranfield(path: Path) -> bool:
    """Return True for the qrels or the queries of Cranfield, which have their own rules."""
    return path.name.lower().startswith(_CRANFIELD)


def is_qrels(path: Path, files: TextFiles) -> bool:
    """Return True if all lines of a file are judgements of SMART: `query document 0 0`."""
    if format_of(path):
        return False
    first = files.start(path).partition("\n")[0]
    return bool(SMART_LINE.fullmatch(first)) and all(
        SMART_LINE.fullmatch(line) for _, line in files.lines(path) if line.strip()
    )


def qrels(path: Path, files: TextFiles) -> Qrels:
    """Return the labels of SMART: each document in the file is relevant to its query.

    Args:
        path: file with lines of `query document 0 0`.
        files: reader of the file.
    """
    labels: Qrels = {}
    for _, line in files.lines(path):
        if fields := line.split():
            labels.setdefault(fields[0], {})[fields[1]] = 1
    return labels


def fit_ids(judged: Qrels, documents: Texts, queries: Texts) -> Qrels:
    """Return the labels with the ids of the collection: CACM writes query 1 as `01` in its qrels.

    Args:
        judged: labels.
        documents: the documents.
        queries: the queries.
    """
    known_queries, known_documents = _by_number(queries.ids), _by_number(documents.ids)
    fitted: Qrels = {}
    for query, labels in judged.items():
        found = fitted.setdefault(query if query in queries.numbers else known_queries.get(_number(query), query), {})
        for document, label in labels.items():
            known = document in documents.numbers
            found[document if known else known_documents.get(_number(document), document)] = label
    return fitted


def cranfield_qrels(path: Path, files: TextFiles, similar: str) -> tuple[Qrels, dict[str, frozenset[str]]]:
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


def _number(id: str) -> str:
    return id.lstrip("0") or id


def _by_number(ids: Iterable[str]) -> dict[str, str]:
    return {_number(id): id for id in ids}
