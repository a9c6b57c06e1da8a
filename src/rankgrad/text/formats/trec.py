"""Read documents and topics in TREC's format: `<DOC><DOCNO>1</DOCNO> ... </DOC>` and `<top> ... </top>`."""

import html
import re
from collections.abc import Iterator
from pathlib import Path

from rankgrad.errors import bad_value
from rankgrad.text.formats.records import Record
from rankgrad.text.formats.text_files import TextFiles, bad_file

# Only real tags, so that text such as `a < b and c > d` is kept.
_TAG = re.compile(r"""</?[a-z][\w.:-]*(\s+[\w.:-]+\s*=\s*("[^"]*"|'[^']*'|[^\s<>"']+))*\s*/?>""", re.I | re.S)
_DOC = re.compile(r"(</?doc>)", re.I)
_IDS = {"docno", "docid", "docoldno", "dochdr"}
_TITLES = {"title", "head", "headline", "hl", "ti", "ttl"}
_TEXTS = {"text", "lp", "leadpara"}
_PART = re.compile(rf"<(/?)({'|'.join(sorted(_IDS | _TITLES | _TEXTS))})>", re.I)
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
    """Return TREC text without tags, with characters instead of entities, and with single spaces.

    Example:
        >>> plain("<P>Profit &amp; loss,\\n if p < 0.5</P>")
        'Profit & loss, if p < 0.5'
    """
    if "<" in text:
        text = _TAG.sub(" ", _without_comments(text))
    if "&" in text:
        for entity, character in _ENTITIES.items():
            text = text.replace(entity, character)
        text = html.unescape(text)
    return " ".join(text.split())


def _without_comments(text: str) -> str:
    """Return TREC text without `<!-- ... -->`. A comment without an end remains. The time is linear in the length."""
    kept, place = [], 0
    while (start := text.find("<!--", place)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        kept += [text[place:start], " "]
        place = end + 3
    return "".join([*kept, text[place:]])


def documents(path: Path, files: TextFiles) -> Iterator[Record]:
    """Yield the documents of a file in TREC's format.

    The title is in `<TITLE>`, `<HEAD>`, `<HEADLINE>`, `<HL>`, `<TI>` or `<TTL>`. The text is in `<TEXT>`, `<LP>` and
    `<LEADPARA>`; in a document without these tags, the text is everything except id and title.
    """
    begin = 0
    parts: list[str] = []
    outside: list[int] = []  # numbers of lines
    for number, line in files.lines(path):
        for piece in _DOC.split(line) if "<" in line else (line,):
            mark = piece.lower() if len(piece) < 7 else ""
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
        last = "".join(parts)
        known = "</docno>" in last.lower()
        lost = "is read up to the end of the file" if known else "has no id and is left out"
        files.notes.append(
            f"A file is perhaps cut: the document that begins at {path}:{begin} has no </DOC>; the document {lost}."
        )
        if known:
            yield _document(last, path, begin)
    if outside:
        files.notes.append(f"Lines outside of <DOC> and </DOC> are not read: {len(outside):,} ({path}:{outside[0]}).")


def _document(source: str, path: Path, line: int) -> Record:
    ids: list[str] = []
    titles: list[str] = []
    texts: list[str] = []
    rest: list[str] = []
    opened, start, end = "", 0, 0  # name and start of the element that is open, end of the last one
    for tag in _PART.finditer(source):
        name = tag[2].lower()
        if not opened and not tag[1]:
            opened, start = name, tag.end()
            rest.append(source[end : tag.start()])
        elif tag[1] and name == opened:
            inner = source[start : tag.start()]
            if name == "docno":
                ids.append(inner.strip())
            elif name not in _IDS:
                (titles if name in _TITLES else texts).append(inner)
            opened, end = "", tag.end()
    if not ids or not ids[0]:
        bad_file(path, line, "a document without <DOCNO>", "<DOCNO>ID</DOCNO> in each document")
    if opened:  # an element without an end, as in a file that is cut: all that follows is text
        texts = [*(rest if opened not in _TEXTS else ()), *texts, source[start:]]
    else:
        rest.append(source[end:])
    return Record(ids[0], plain(" ".join(texts or rest)), plain(" ".join(titles)), path, line)


def topics(path: Path, files: TextFiles, fields: str = "title") -> Iterator[Record]:
    """Yield queries from TREC's topics of a file, such as `<top><num> Number: 301 <title> ... <desc> Description: ...`.

    Args:
        path: the file.
        files: reader of the file.
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
    """Return the names of the TREC topic fields that form the text of the query."""
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
