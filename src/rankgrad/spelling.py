"""How losses, rankers, optimisers and schedules are written as text: `name[@k][:key=value,...]`."""

import ast
from collections.abc import Iterable
from typing import Any, NamedTuple

from rankgrad.errors import bad_value, mistyped


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
    if not isinstance(text, str):
        bad_value(what, "be text", type(text).__name__)
    head, colon, tail = text.strip().partition(":")
    name, at, cutoff = head.strip().lower().partition("@")
    if not name or (colon and not tail.strip()):
        bad_value(what, "be written name[@k][:key=value,...]", repr(text))
    if at and (not cutoff.isdigit() or int(cutoff) < 1):
        bad_value(what, "have a whole number of at least 1 after @", repr(text))
    options: dict[str, Any] = {}
    for pair in filter(None, (part.strip() for part in tail.split(","))):
        key, equals, value = (piece.strip() for piece in pair.partition("="))
        if not (key and equals and value):
            bad_value(what, "give options as key=value, with commas between", f"{pair!r} in {text!r}")
        if key.lower() in options:
            bad_value(what, f"give {key.lower()} once", repr(text))
        options[key.lower()] = value if key.lower() == "path" else _value(value)
    return Spelling(name, int(cutoff) if at else None, options)


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


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text.capitalize() if text.lower() in ("true", "false", "none") else text)
    except (ValueError, SyntaxError):
        pass
    parts = text.split("-")
    if len(parts) > 1 and all(part.replace(".", "", 1).isdigit() for part in parts):
        return [float(part) if "." in part else int(part) for part in parts]
    return text
