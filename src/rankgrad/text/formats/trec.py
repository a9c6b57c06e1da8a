"""Read documents and topics in TREC's format: `<DOC><DOCNO>1</DOCNO> ... </DOC>` and `<top> ... </top>`."""

import html
import re
from collections.abc import Iterator
from pathlib import Path

from rankgrad.errors import bad_value
from rankgrad.text.formats.records import Record
from rankgrad.text.formats.text_files import TextFiles, bad_file

# Only real tags, so that text such as `a < b and c > d` is kept.
_TAG = re.compile(
    r"""<!--.*?-->|</?[a-z][\w.:-]*(\s+[\w.:-]+\s*=\s*("[^"]*"|'[^']*'|[^\s<>"']+))*\s*/?>""", re.I | re.S
)
_DOC = re.compile(r"(</?doc>)", re.I)
_DOCNO = re.compile(r"<docno>(.*?)</docno>", re.I | re.S)
_IDS = re.compile(r"<(docno|docid|docoldno|dochdr)>.*?</\1>", re.I | re.S)
_TITLE = re.compile(r"<(title|head|headline|hl|ti|ttl)>(.*?)</\1>", re.I | re.S)
_TEXT = re.compile(r"<(text|lp|leadpara)>(.*?)</\1>", re.I | re.S)
_ENTITIES = {"&blank;": " ", "&hyph;": "-"}  # entities of the Federal Register that HTML does not have

_TOPIC = re.compile(r"<(top|topic)\b([^>]*)>(.*?)(</\1>|(?=<\1\b)|\Z)", re.I | re.S)
_FIELD = re.compile(r"<([a-z]+)>", re.I)
_NUMBER = re.compile(r"number\s*=\s*[\"']?([^\"'\s>]+)", re.I)
_LABELS = re.compile(r"\s*(Number|Topic|Description|Narrative)\s*:", re.I)
_FIELDS = {
    "title": ("title", "query"),
    "description": ("desc", "description", "question"),
    "narrative": ("narr", "narrative"),
}


def plain(text: str) -> str:
    """Return text without tags and entities, with single spaces.

    Example:
        >>> plain("<P>Profit &amp; loss,\\n if p < 0.5</P>")
        'Profit & loss, if p < 0.5'
    """
    if "<" in text:
        text = _TAG.sub(" ", text)
    if "&" in text:
        for entity, character in _ENTITIES.items():
            text = text.replace(entity, character)
        text = html.unescape(text)
    return " ".join(text.split())


def documents(path: Path, files: TextFiles) -> Iterator[Record]:
    """Yield the documents of a file.

    The title is in `<TITLE>`, `<HEAD>`, `<HEADLINE>`, `<HL>`, `<TI>` or `<TTL>`. The text is in `<TEXT>`, `<LP>` and
    `<LEADPARA>`; in a document without these, it is all that is neither id nor title.
    """
    begin = 0
    parts: list[str] = []
    outside: list[int] = []  # numbers of lines
    for number, line in files.lines(path):
        for piece in _DOC.split(line) if "<" in line else (line,):
            mark = piece.lower()
            if mark == "<doc>":
                if begin:
                    wrong = f"<DOC> before the </DOC> of the document that begins in line {begin}"
                    bad_file(path, number, wrong, "</DOC> at the end of each document")
                begin, parts = number, []
            elif mark == "</doc>":
                if not begin:
                    bad_file(path, number, "</DOC> without <DOC>", "<DOC> at the start of each document")
                yield _document("".join(parts), path, begin)
                begin = 0
            elif begin:
                parts.append(piece)
            elif piece.strip() and plain(piece):
                outside.append(number)
    if begin:
        record = _document("".join(parts), path, begin)
        cut = f"The file ends without </DOC>, perhaps because it is cut ({path}:{begin})"
        files.notes.append(f"{cut}; the last document, {record.id!r}, is kept up to there.")
        yield record
    if outside:
        files.notes.append(f"Lines outside of <DOC> and </DOC> are not read: {len(outside):,} ({path}:{outside[0]}).")


def _document(source: str, path: Path, line: int) -> Record:
    found = _DOCNO.search(source)
    if found is None or not found[1].strip():
        bad_file(path, line, "a document without <DOCNO>", "<DOCNO>ID</DOCNO> in each document")
    body = _IDS.sub(" ", source)
    parts = [match[2] for match in _TEXT.finditer(body)]
    around = _TEXT.sub(" ", body) if parts else body
    titles = [match[2] for match in _TITLE.finditer(around)]
    text = " ".join(parts) if parts else _TITLE.sub(" ", body) if titles else body
    return Record(found[1].strip(), plain(text), plain(" ".join(titles)), path, line)


def topics(path: Path, files: TextFiles, fields: str = "title") -> Iterator[Record]:
    """Yield the topics of a file as queries, such as `<top><num> Number: 301 <title> ... <desc> Description: ...`.

    Args:
        path: the file.
        files: opens the file.
        fields: `"title"`, `"description"` or `"narrative"`; several are joined by `+`: `"title+description"`.
    """
    wanted = topic_fields(fields)
    source = files.text(path)
    line, before = 1, 0
    for match in _TOPIC.finditer(source):
        line, before = line + source.count("\n", before, match.start()), match.start()
        if not match[4].startswith("</"):
            files.notes.append(f"The topic has no </{match[1]}>, perhaps because the file is cut ({path}:{line}).")
        yield _topic(match[2], match[3], wanted, path, line)


def topic_fields(fields: str) -> tuple[str, ...]:
    """Return the names of the fields of a topic that are the text of the query."""
    wanted = tuple(fields.split("+")) if isinstance(fields, str) else ()
    if not wanted or not all(name in _FIELDS for name in wanted):
        bad_value("topic", f"be {', '.join(map(repr, _FIELDS))} or several of them, joined by +", repr(fields))
    return wanted


def _topic(attributes: str, body: str, wanted: tuple[str, ...], path: Path, line: int) -> Record:
    pieces = _FIELD.split(body)  # text before the first tag, then tag and text in turn
    found: dict[str, str] = {}
    for tag, text in zip(pieces[1::2], pieces[2::2], strict=True):
        found.setdefault(tag.lower(), plain(_LABELS.sub("", text, count=1) if _LABELS.match(text) else text))
    number = _NUMBER.search(attributes)
    id = found.get("num", "") or ("" if number is None else number[1])
    if not id:
        bad_file(path, line, "a topic without a number", "<num>ID</num> in each topic")
    texts = []
    for name in wanted:
        tag = next((tag for tag in _FIELDS[name] if tag in found), None)
        if tag is None:
            known = ", ".join(f"<{tag}>" for tag in found)
            bad_file(path, line, f"topic {id!r} has no {name}, only {known}", f"a topic with <{_FIELDS[name][0]}>")
        texts.append(found[tag])
    return Record(id, " ".join(filter(None, texts)), None, path, line)
