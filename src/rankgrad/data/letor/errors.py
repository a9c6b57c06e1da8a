"""Explain the error in a bad line of LETOR text. This code may be slow, because it reads only one line."""

import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rankgrad.data.tables.errors import FILL_ADVICE
from rankgrad.errors import Place, Problem, Problems, name_settings

LONGEST_ID = 255  # maximum length of a query or document id: ids are stored in arrays of fixed width
SHAPE = "`label qid:ID feature:value ...`"
SET_FEATURES = name_settings(" (or set {features=} to the number of features)")
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_NOT_FINITE = re.compile(rb"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_DOCID = re.compile(rb"docid\s*=\s*(\S+)", re.IGNORECASE)


class LetorError(Problems, ValueError):
    """Error in LETOR text. The message has the form `<file>:<line>: <problem>; expected <what>`."""

    def __init__(self, path: Path, line: int | None, wrong: str, expected: str) -> None:
        self.path, self.line = path, line
        super().__init__(Problem("", expected, wrong, where=(Place(str(path), line),)))


@dataclass(frozen=True)
class ParserLimits:
    """Limits on the LETOR text that the parser accepts."""

    width: int  # largest feature id
    stated: bool  # True if the caller set the width with the option `features`
    missing: bool  # True if values that are not finite are replaced, False if they are an error


def explain(line: bytes, limits: ParserLimits) -> tuple[str, str]:
    """Return the problem of a line of LETOR text, and the expected text; `line` does not contain the newline.

    Example:
        >>> explain(b"2 qid:7 1:0.5 1:0.25", ParserLimits(136, True, False))
        ('feature 1 is given twice', 'ids in increasing order')
    """
    line = line.removesuffix(b"\r")
    body, _, comment = line.partition(b"#")
    error = _not_text(line, body)
    if error:
        return error
    tokens = body.split()
    if not tokens:
        return "line cannot be read", SHAPE
    error = _label(tokens[0]) or _qid(tokens)
    if error:
        return error
    last = 0
    for place, token in enumerate(tokens[2:], 2):
        error = _pair(token, tokens[place + 1 : place + 2], last, limits)
        if error:
            return error
        last = int(token.partition(b":")[0])
    characters = len(docid(comment))
    if characters > LONGEST_ID:
        expected = f"a document id of at most {LONGEST_ID} characters, " + name_settings("or {docids=False}")
        return f"comment is {characters} characters long", expected
    return "line cannot be read", SHAPE


def docid(comment: bytes) -> str:
    """Return the document id in a comment of LETOR text: the value of `docid =`; without it, the complete comment.

    Example:
        >>> docid(b"docid = GX000-00-0000000 inc = 1 prob = 0.02"), docid(b" page 7 ")
        ('GX000-00-0000000', 'page 7')
    """
    comment = comment.strip()
    named = _DOCID.match(comment)
    return (named[1] if named else comment).decode("utf-8", "replace")


def _not_text(line: bytes, body: bytes) -> tuple[str, str] | None:
    for column, byte in enumerate(line, 1):
        if byte == 0 or (column <= len(body) and (byte < 32 or byte == 127) and not bytes([byte]).isspace()):
            return f"byte 0x{byte:02x} at column {column} looks like binary data", "lines of text"
    column = line.find(b"\r") + 1
    if column:
        return f"carriage return inside the line, at column {column}", r"lines that end in \n or \r\n"
    try:
        body.decode()
    except UnicodeDecodeError as error:
        return f"byte 0x{body[error.start]:02x} at column {error.start + 1} is not UTF-8", "UTF-8 or ASCII text"
    return None


def _label(token: bytes) -> tuple[str, str] | None:
    if token.startswith(b"qid:"):
        return f"no label before {_show(token)}", SHAPE
    expected = "a finite number, 0 or more"
    kind = _kind(token)
    if kind != "a number":
        return f"label {_show(token)} is {kind}", expected
    if float(token) < 0:
        return f"label {_show(token)} is negative", expected
    return None


def _qid(tokens: list[bytes]) -> tuple[str, str] | None:
    if len(tokens) < 2 or not tokens[1].startswith(b"qid:"):
        late = [token for token in tokens[2:] if token.startswith(b"qid:")]
        if late:
            return f"{_show(late[0])} is after {_show(tokens[1])}", SHAPE
        return "no qid after the label", SHAPE
    size = len(tokens[1]) - len("qid:")
    if size == 0:
        return "qid is empty", "`qid:ID` without spaces"
    if size > LONGEST_ID:
        return f"qid is {size} bytes long", f"at most {LONGEST_ID} bytes"
    return None


def _pair(token: bytes, following: list[bytes], last: int, limits: ParserLimits) -> tuple[str, str] | None:
    name, colon, value = token.partition(b":")
    if name == b"qid" and colon:
        return f"a second qid, {_show(token)}", "one qid per line"
    if not colon:
        return f"{_show(token)} has no colon", "`feature:value` without spaces"
    if not re.fullmatch(rb"-?\d+", name):
        return f"feature id {_show(name)} is not an integer", "ids from 1"
    if len(name) > 18:
        return f"feature id {_show(name)} is longer than 18 digits", "ids from 1"
    feature = int(name)
    if feature < 1:
        return f"feature id {feature} is below 1", "ids from 1"
    if feature == last:
        return f"feature {feature} is given twice", "ids in increasing order"
    if feature < last:
        return f"feature {feature} comes after feature {last}", "ids in increasing order"
    if feature > limits.width and limits.stated:
        return f"feature id {feature} is above the number of features, {limits.width}", f"ids from 1 to {limits.width}"
    if feature > limits.width:
        return (
            f"feature id {feature} is above {limits.width}",
            "smaller ids" + SET_FEATURES,
        )
    if not value:
        apart = following and b":" not in following[0]
        return (
            f"feature {feature} has {'a space before its' if apart else 'no'} value",
            "`feature:value` without spaces",
        )
    kind = _kind(value)
    if kind == "not a number":
        return f"value {_show(value)} of feature {feature} is not a number", "a decimal number"
    if kind != "a number" and not limits.missing:
        return (
            f"value {_show(value)} of feature {feature} is {kind}",
            "a finite number " + FILL_ADVICE,
        )
    return None


def _kind(token: bytes) -> str:
    """Return a description of the number in a token of LETOR text, for a message."""
    if _NOT_FINITE.fullmatch(token):
        return "not finite"
    if not _NUMBER.fullmatch(token):
        return "not a number"
    with np.errstate(over="ignore"):
        return "a number" if math.isfinite(np.float32(float(token))) else "too large for float32"


def _show(token: bytes) -> str:
    text = token.decode("utf-8", "backslashreplace")
    return repr(text if len(text) <= 40 else text[:37] + "...")
