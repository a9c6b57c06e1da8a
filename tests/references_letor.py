"""LETOR text read in plain Python, a line at a time, as the format reads: what the fast reader is compared with."""

import math
import re
from dataclasses import dataclass

import numpy as np

NUMBER = re.compile(rb"[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?")
NOT_FINITE = re.compile(rb"[+-]?(nan|inf|infinity)", re.IGNORECASE)


class BadLine(Exception):
    """The number of the first line that is wrong; None where it is the file as a whole."""


@dataclass
class Document:
    label: float
    qid: bytes
    pairs: dict[int, float]
    docid: str
    commented: bool
    line: int


def number(token: bytes, missing: float | None) -> float:
    if NOT_FINITE.fullmatch(token):
        value = math.inf
    elif NUMBER.fullmatch(token):
        with np.errstate(over="ignore"):
            value = float(np.float32(float(token)))
    else:
        raise ValueError(token)
    if not math.isfinite(value):
        if missing is None:
            raise ValueError(token)
        return missing
    return value


def document(text: bytes, line: int, features: int, missing: float | None) -> Document | None:
    """The document of a line, None if it has none; ValueError if it is not one."""
    if text.endswith(b"\r"):
        text = text[:-1]
    if b"\r" in text or b"\0" in text:
        raise ValueError("not a line of text")
    body, hash_sign, comment = text.partition(b"#")
    tokens = body.split()
    if not tokens:
        return None
    label = number(tokens[0], None)
    if label < 0 or len(tokens) < 2 or not tokens[1].startswith(b"qid:"):
        raise ValueError("no label or no qid")
    qid = tokens[1][4:]
    if not 1 <= len(qid) <= 255 or any(ord(c) < 33 or ord(c) == 127 for c in qid.decode()):
        raise ValueError("no proper qid")
    pairs: dict[int, float] = {}
    for token in tokens[2:]:
        name, value = token.split(b":", 1)
        if not re.fullmatch(rb"[0-9]{1,18}", name) or not max(pairs, default=0) < int(name) <= features:
            raise ValueError("no proper feature id")
        pairs[int(name)] = number(value, missing)
    comment = comment.strip()
    named = re.match(rb"docid\s*=\s*(\S+)", comment, re.IGNORECASE)
    docid = (named.group(1) if named else comment).decode("utf-8", "surrogateescape")
    docid = "".join("\ufffd" if "\udc80" <= c <= "\udcff" else c for c in docid)
    if len(docid) > 255:
        raise ValueError("too long a document id")
    return Document(label, qid, pairs, docid, bool(hash_sign), line)


def read(data: bytes, features: int | None = None, missing: float | None = None) -> list[Document]:
    """The documents of a file; `BadLine` with the first line that is wrong."""
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    ended = lines[-1] == b""
    if ended:
        lines.pop()
    if not lines:
        raise BadLine(1)
    documents: list[Document] = []
    seen: set[bytes] = set()
    for place, text in enumerate(lines, 1):
        try:
            found = document(text, place, features or 1_000_000, missing)
        except ValueError as error:
            raise BadLine(place) from error
        if found is None:
            continue
        if place == len(lines) and not ended and looks_cut(documents, found):
            raise BadLine(place)
        if found.qid in seen and found.qid != documents[-1].qid:
            raise BadLine(place)
        seen.add(found.qid)
        documents.append(found)
    if not documents:
        raise BadLine(len(lines))
    if not features and not any(found.pairs for found in documents):
        raise BadLine(None)
    return documents


def looks_cut(documents: list[Document], last: Document) -> bool:
    """Whether a last line without a newline says less than lines before it that are all alike, and enough of them."""
    if not documents or last.commented:
        return False
    full = set(documents[0].pairs)
    dense = [*full] == [*range(1, len(full) + 1)] and all(set(found.pairs) == full for found in documents)
    short = [*last.pairs] == [*range(1, len(last.pairs) + 1)] and len(last.pairs) < len(full)
    if dense and short:
        return len(documents) * len(full) >= 10
    return len(documents) >= 10 and all(found.commented for found in documents)


def matrix(documents: list[Document], width: int) -> np.ndarray:
    """The features as one float32 matrix; -0.0 is 0.0."""
    rows = np.zeros((len(documents), width), dtype=np.float32)
    for row, found in zip(rows, documents, strict=True):
        for feature, value in found.pairs.items():
            row[feature - 1] = value
    return rows + np.float32(0)
