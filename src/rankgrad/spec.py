"""How losses, rankers, optimisers and schedules are written as text: `name[@k][:key=value,...]`."""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from rankgrad.errors import bad_value, mistyped

LONGEST = 1000  # characters of a text
LARGEST_CUTOFF = 2**31 - 1  # what every kernel can count to
_WORDS = {"true": True, "false": False, "none": None}
_NUMBER = re.compile(r"[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?")
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")  # a longer one is read as a float, which cannot be a size
_PART = re.compile(r"[0-9]{1,18}|[0-9]*[.][0-9]+|[0-9]+[.]")


class Spelling(NamedTuple):
    """What a text says: a name in lower case, a cutoff, options."""

    name: str
    k: int | None
    options: dict[str, Any]


def spell(what: str, text: str) -> Spelling:
    """Read `name[@k][:key=value,...]`, in any case; `what` is the word for it in errors.

    A value is a number, True, False or None; numbers joined by `-` are a list (`widths=256-128`); the rest is text, and
    so is every `path`.

    Example:
        >>> spell("loss", "LambdaLoss@5:scheme=ndcg2++,mu=10")
        Spelling(name='lambdaloss', k=5, options={'scheme': 'ndcg2++', 'mu': 10})
        >>> spell("model", "mlp:widths=256-128").options
        {'widths': [256, 128]}
    """
    check_text(what, text)
    head, colon, tail = text.strip().partition(":")
    name, at, cutoff = head.strip().lower().partition("@")
    if not name or (colon and not tail.strip()):
        bad_value(what, "be written name[@k][:key=value,...]", show(text))
    # Not `isdigit`, which is true for digits of all scripts and for a superscript two.
    if at and not (re.fullmatch("[0-9]+", cutoff) and 1 <= int(cutoff) <= LARGEST_CUTOFF):
        bad_value(what, f"have a whole number of at least 1 after @, at most {LARGEST_CUTOFF}", show(text))
    options: dict[str, Any] = {}
    for pair in filter(None, (part.strip() for part in tail.split(","))):
        key, equals, value = (piece.strip() for piece in pair.partition("="))
        key = key.lower()
        if not (re.fullmatch("[a-z0-9_]+", key) and equals and value):
            bad_value(what, "give options as key=value, with commas between", f"{show(pair)} in {show(text)}")
        if key in options:
            bad_value(what, f"give {key} once", show(text))
        options[key] = value if key == "path" else read_value(value)
    return Spelling(name, int(cutoff) if at else None, options)


def no_cutoff(what: str, said: Spelling, text: str) -> Spelling:
    """What was said, of something that has no cutoff."""
    if said.k is not None:
        bad_value(what, "be written name[:key=value,...], without a cutoff", show(text))
    return said


def check_text(what: str, text: object) -> None:
    """Check that this is text, and not longer than anything that is meant."""
    if not isinstance(text, str):
        bad_value(what, "be text", type(text).__name__)
    if len(text) > LONGEST:
        bad_value(what, f"be at most {LONGEST:,} characters long", f"{len(text):,}: {show(text)}")
    if not text.strip().isprintable():
        bad_value(what, "be printable text on one line", show(text))


def show(value: object) -> str:
    """A value for an error: text quoted, on one line, not longer than a reader wants."""
    if isinstance(value, str):
        return repr(value if len(value) <= 80 else value[:77] + "...")
    if isinstance(value, int) and abs(value) >= 10**80:
        return "a number of more than 80 digits"  # Python does not print one of thousands
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."


def write(name: str, k: int | None = None, options: dict[str, Any] | None = None) -> str:
    """The text that `spell` reads.

    Example:
        >>> write("mlp", options={"widths": [256, 128], "norm": "layer"})
        'mlp:widths=256-128,norm=layer'
    """
    pairs = []
    for key, value in (options or {}).items():
        pairs.append(f"{key}={'-'.join(map(str, value)) if isinstance(value, list | tuple) else value}")
    return name + (f"@{k}" if k else "") + (":" + ",".join(pairs) if pairs else "")


def known_options(what: str, options: Iterable[str], known: Iterable[str]) -> None:
    """Check that options are ones that `what` has; the error names the nearest."""
    known = list(known)
    for option in options:
        if option not in known:
            bad_value("option", f"be one that {what} has ({', '.join(known) or 'none'})", mistyped(option, known))


def read_number(text: str) -> int | float | None:
    """The number that a text is, in plain decimals; None for any other text.

    Example:
        >>> read_number("12"), read_number("-1e-3"), read_number("1_000"), read_number("nan")
        (12, -0.001, None, None)
    """
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else None


def read_value(text: str) -> Any:
    """What the value of an option says; nothing in it is evaluated."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    number = read_number(text)
    if number is not None:
        return number
    parts = text.split("-")
    if len(parts) > 1 and all(map(_PART.fullmatch, parts)):
        return [float(part) if "." in part else int(part) for part in parts]
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if quoted else text
