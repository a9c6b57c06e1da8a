"""Read and write specs: texts that name losses, rankers, metrics, preprocessing, optimisers, schedules and data sets.

A spec is `name[@k][:key=value,...]` or, with the same meaning, `name(key=value, ...)[@k]`. A value is a number, True,
False, None, numbers joined by `-`, or text. The text may be in quotes, and may itself be a spec: everything inside
brackets or quotes belongs to the value. A bracket or quote that is never closed is an ordinary character. The value of
the key `path` is text up to the next comma, unless the value is in quotes or brackets. Nothing in a spec is evaluated
as code.

`sequence` reads specs separated by commas. `weighted_terms` reads a sum of specs. Text that begins with `native:` is
not a spec: it names an objective of LightGBM or XGBoost.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from rankgrad.errors import bad_value, mistyped

LONGEST = 1000  # maximum number of characters of a spec
DEEPEST = 8  # maximum depth of nested brackets
MOST_TERMS = 20  # maximum number of terms of a sum
LARGEST_CUTOFF = 2**31 - 1  # largest integer that every kernel supports
_FORM = "have the form name[@k][:key=value,...] or name(key=value, ...)[@k]"
_WORDS = {"true": True, "false": False, "none": None}
_DECIMALS = r"(?:[0-9]+[.]?[0-9]*|[.][0-9]+)(?:[eE][+-]?[0-9]+)?"
_NUMBER = re.compile(f"[+-]?{_DECIMALS}")
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")  # a longer number becomes a float, which is not valid as a size
_PART = re.compile(r"[0-9]{1,18}|[0-9]*[.][0-9]+|[0-9]+[.]")
_KEY = re.compile("[a-z0-9_]+")
_NAME = re.compile("[^:(@=]*")
_PATH = re.compile(r"\s*path\s*=\s*", re.IGNORECASE)
_WEIGHT = re.compile(rf"\s*(-?{_DECIMALS})\s*[*]")
_NEXT_TERM = re.compile(rf"[+](?=\s*(?:-?{_DECIMALS}\s*[*]|[A-Za-z_]))")


class Spec(NamedTuple):
    """Content of a spec: name, cutoff (None if there is none) and options."""

    name: str
    k: int | None
    options: dict[str, Any]


def spell(what: str, text: str, *, keep_case: bool = False) -> Spec:
    """Read one spec, and return its name, cutoff and options.

    Args:
        what: name of the argument in errors.
        text: spec `name[@k][:key=value,...]` or `name(key=value, ...)[@k]`, in upper or lower case.
        keep_case: True to keep the upper and lower case of the name, for errors that show the name.

    Example:
        >>> spell("loss", "LambdaLoss@5:scheme=ndcg2++,mu=10")
        Spec(name='lambdaloss', k=5, options={'scheme': 'ndcg2++', 'mu': 10})
        >>> spell("loss", "relaxed(metric=nDCG(gain='linear', ties=trec)@10, operator=neural_sort)").options
        {'metric': "nDCG(gain='linear', ties=trec)@10", 'operator': 'neural_sort'}
        >>> spell("model", "mlp:widths=256-128").options
        {'widths': [256, 128]}
    """
    check_text(what, text)
    text = text.strip()
    name, rest = _head(text)
    bracketed = rest[:1] == "("
    inside = ""
    if bracketed:
        close = _spans(what, text).get(len(name), 0)
        inside, rest = text[len(name) + 1 : close], text[close + 1 :].strip()
    cutoff, colon, after = rest.partition(":")
    # If a bracket is not closed, `rest` still begins with the bracket, and not with @.
    if not name.strip() or cutoff[:1] not in ("", "@") or (colon and (bracketed or not after.strip())):
        bad_value(what, _FORM, show(text))
    name = name.strip() if keep_case else name.strip().lower()
    return Spec(name, _cutoff(what, cutoff, text), _options(what, inside if bracketed else after, text))


def spec_name(text: str) -> str:
    """Return the name at the beginning of a spec, in lower case; the rest of the spec is not read.

    Args:
        text: spec.

    Example:
        >>> spec_name("LightGBM:num_leaves=31")
        'lightgbm'
    """
    return re.split(r"[:(@]", text.strip().lower(), maxsplit=1)[0].strip()


def sequence(what: str, text: str) -> list[Spec]:
    """Read specs separated by commas.

    `name=value` becomes a spec with one option. The key of this option is empty. Several options must be in brackets.

    Args:
        what: name of the argument in errors.
        text: specs, such as `log1p,clip=10,quantile(output=uniform, sample=1000)`.

    Example:
        >>> [(name, options) for name, _, options in sequence("preprocessing", "log1p,clip=10")]
        [('log1p', {}), ('clip', {'': 10})]
    """
    check_text(what, text)
    found: list[Spec] = []
    for part in _split(what, text):
        name, rest = _head(part)
        if rest[:1] != "=":
            found.append(spell(what, part))
        elif not name.strip() or not rest[1:].strip():
            bad_value(what, "have options of the form key=value, separated by commas", f"{show(part)} in {show(text)}")
        else:
            found.append(Spec(name.strip().lower(), None, {"": read_value(rest[1:].strip())}))
    return found


def weighted_terms(what: str, text: str) -> list[tuple[float | None, str]]:
    """Split a weighted sum of specs, `0.7*softmax+0.3*bce`, into weights and specs; a missing weight is None.

    A `+` separates terms if it is outside brackets, quotes and paths, and is followed by `number*` or by a name.

    Args:
        what: name of the argument in errors.
        text: spec or sum of specs; weights must be finite and above 0.

    Example:
        >>> weighted_terms("loss", "softmax + 0.5*lambdaloss:scheme=ndcg2+++0.5*bce")
        [(None, 'softmax'), (0.5, 'lambdaloss:scheme=ndcg2++'), (0.5, 'bce')]
    """
    check_text(what, text)
    spans, found = _spans(what, text), []
    weight = _WEIGHT.match(text)
    body = weight.end() if weight else 0
    for at in [*_outside(text, spans), len(text)]:
        if at < body or (at < len(text) and not _NEXT_TERM.match(text, at)):
            continue
        term = text[body:at].strip()
        if not term and (weight or at < len(text)):
            bad_value(what, "be a loss, or a sum such as 0.7*softmax+0.3*bce", show(text))
        found.append((_positive(what, weight[1], text) if weight else None, term))
        weight = _WEIGHT.match(text, at + 1)
        body = weight.end() if weight else at + 1
    if len(found) > MOST_TERMS:
        bad_value(what, f"be a sum of at most {MOST_TERMS} terms", len(found))
    return found


def no_cutoff(what: str, spec: Spec, text: str) -> Spec:
    """Check that a spec has no cutoff, and return the spec.

    Args:
        what: name of the argument in errors.
        spec: result of `spell`.
        text: text of the spec, for the error.
    """
    if spec.k is not None:
        bad_value(what, "have the form name[:key=value,...], without a cutoff", show(text))
    return spec


def check_text(what: str, text: object) -> None:
    """Check that a spec is text that is printable and not too long.

    Args:
        what: name of the argument in errors.
        text: value to check.
    """
    if not isinstance(text, str):
        bad_value(what, "be text", type(text).__name__)
    if len(text) > LONGEST:
        bad_value(what, f"be at most {LONGEST:,} characters long", f"{len(text):,} characters: {show(text)}")
    if not text.strip().isprintable():
        bad_value(what, "be printable text on one line", show(text))


def show(value: object) -> str:
    """Return the value of an option as text for an error: on one line, with at most about 80 characters.

    Text is in quotes.

    Args:
        value: value to show.
    """
    if isinstance(value, str):
        return repr(value if len(value) <= 80 else value[:77] + "...")
    if isinstance(value, int) and abs(value) >= 10**80:
        return "a number of more than 80 digits"  # Python does not print numbers with thousands of digits
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."


def write(name: str, k: int | None = None, options: Mapping[str, Any] | None = None, *, brackets: bool = False) -> str:
    """Return a spec as text, which `spell` can read.

    Args:
        name, k, options: name, cutoff and options, as in the result of `spell`.
        brackets: True for the form `name(key=value,...)@k`, which can be part of another spec.

    Example:
        >>> write("mlp", options={"widths": [256, 128], "norm": "layer"})
        'mlp:widths=256-128,norm=layer'
        >>> write("quantile", options={"output": "uniform", "sample": 1000}, brackets=True)
        'quantile(output=uniform,sample=1000)'
    """
    pairs = ",".join(f"{key}={_written(value)}" for key, value in (options or {}).items())
    cutoff = f"@{k}" if k else ""
    if brackets:
        return name + (f"({pairs})" if pairs else "") + cutoff
    return name + cutoff + (f":{pairs}" if pairs else "")


def write_sum(terms: Iterable[tuple[float, str]]) -> str:
    """Return a sum of specs as text, which `weighted_terms` can read; the options of each term are in brackets.

    Args:
        terms: pairs of a weight above 0 and a spec.

    Example:
        >>> write_sum([(0.7, "lambdaloss@5:mu=10"), (1.0, "bce")])
        '0.7*lambdaloss(mu=10)@5+1*bce'
    """
    return "+".join(f"{write_number(weight)}*{write(*spell('term', text), brackets=True)}" for weight, text in terms)


def write_number(value: float) -> str:
    """Return a number as short text for a spec, such as `3` instead of `3.0`. Reading the text gives the same number.

    Args:
        value: finite number.

    Example:
        >>> write_number(3.0), write_number(0.1), write_number(1234567.0), write_number(1 / 3)
        ('3', '0.1', '1234567.0', '0.3333333333333333')
    """
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def known_options(what: str, options: Iterable[str], known: Iterable[str]) -> None:
    """Check that a spec contains only known options; the error suggests similar names.

    Args:
        what: name of the loss, ranker, ..., for the error.
        options: names of the options in the spec.
        known: names of the options that exist.
    """
    known = list(known)
    for option in options:
        if not known:
            bad_value("option", f"be left out, because {what} has no options", repr(option))
        if option not in known:
            bad_value("option", f"be an option of {what} ({', '.join(known)})", *mistyped(option, known))


def read_number(text: str) -> int | float | None:
    """Return the number that a text in a spec contains; None if the text is not a decimal number.

    Args:
        text: text that does not begin or end with a space.

    Example:
        >>> read_number("12"), read_number("-1e-3"), read_number("1_000"), read_number("nan")
        (12, -0.001, None, None)
    """
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else None


def read_value(text: str) -> Any:
    """Convert the text of an option's value in a spec to a Python value; nothing in the text is evaluated as code.

    Args:
        text: text that does not begin or end with a space.
    """
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    number = read_number(text)
    if number is not None:
        return number
    parts = text.split("-")
    if len(parts) > 1 and all(map(_PART.fullmatch, parts)):
        return [float(part) if "." in part else int(part) for part in parts]
    return _unquoted(text)


def _head(text: str) -> tuple[str, str]:
    """Split a spec into its name and the rest, which is empty or begins with `:`, `(`, `@` or `=`."""
    name = _NAME.match(text)[0]  # type: ignore[index]
    return name, text[len(name) :]


def _cutoff(what: str, cutoff: str, text: str) -> int | None:
    """Return k of `@k` in a spec; None if there is no cutoff."""
    if not cutoff:
        return None
    # Not `isdigit`, which is also true for digits of other scripts and for superscripts.
    if not (re.fullmatch("[0-9]+", digits := cutoff[1:].strip()) and 1 <= int(digits) <= LARGEST_CUTOFF):
        bad_value(what, f"have an integer from 1 to {LARGEST_CUTOFF} after @", show(text))
    return int(digits)


def _options(what: str, pairs: str, text: str) -> dict[str, Any]:
    """Return the options `key=value,...` of a spec as a dictionary."""
    options: dict[str, Any] = {}
    for pair in _split(what, pairs):
        key, equals, value = (piece.strip() for piece in pair.partition("="))
        key = key.lower()
        if not (_KEY.fullmatch(key) and equals and value):
            bad_value(what, "have options of the form key=value, separated by commas", f"{show(pair)} in {show(text)}")
        if key in options:
            bad_value(what, f"contain the option {key} only once", show(text))
        options[key] = _unquoted(value) if key == "path" else read_value(value)
    return options


def _positive(what: str, number: str, text: str) -> float:
    weight = float(number)
    if not 0 < weight < math.inf:
        bad_value(what, "have finite weights above 0", f"{number[:40]} in {show(text)}")
    return weight


def _unquoted(text: str) -> str:
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if quoted else text


def _written(value: Any) -> str:
    """Return the value of an option as text, in quotes if `spell` would otherwise read several values."""
    if not isinstance(value, str):
        return "-".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    bare = value == value.strip() and value[:1] not in ("", "'", '"')
    for text in (value, f"'{value}'", f'"{value}"')[0 if bare else 1 :]:
        pair = f"x={text}"
        outside = _outside(pair, _spans("value", pair))
        if not any(pair[at] in "()," or _NEXT_TERM.match(pair, at) for at in outside):
            return text
    return value


def _split(what: str, text: str) -> list[str]:
    """Split a spec at the commas that are outside of brackets, quotes and paths. Leave out empty parts."""
    cuts = [-1, *(at for at in _outside(text, _spans(what, text)) if text[at] == ","), len(text)]
    parts = (text[start + 1 : end].strip() for start, end in pairwise(cuts))
    return [part for part in parts if part]


def _outside(text: str, spans: Mapping[int, int]) -> Iterator[int]:
    """Yield the positions in a spec that are outside of all spans, which `_spans` returns."""
    at = 0
    while at < len(text):
        if at in spans:
            at = spans[at]
        else:
            yield at
        at += 1


def _spans(what: str, text: str) -> dict[int, int]:
    """Return the spans of brackets, quotes and paths in a spec: first position -> last position.

    A quote begins only at the start of an option or value.
    """
    spans: dict[int, int] = {}
    opened: list[int] = []
    at, begins = 0, True
    while at < len(text):
        letter = text[at]
        if letter == "(":
            opened.append(at)
        elif letter == ")" and opened:
            if len(opened) > DEEPEST:
                bad_value(what, f"have at most {DEEPEST} nested brackets", show(text))
            spans[opened.pop()] = at
        elif begins and letter in "'\"" and text.find(letter, at + 1) > 0:
            spans[at] = text.find(letter, at + 1)
            at = spans[at]
        elif begins and not opened and (path := _PATH.match(text, at)):
            at = path.end() - 1  # position of a space or of the equals sign
            if text[at + 1 : at + 2] not in ("'", '"', ",", ""):
                end = text.find(",", at)
                spans[at + 1] = (len(text) if end < 0 else end) - 1
                at = spans[at + 1]
            letter = "="
        begins = letter in "=,:(" or (begins and letter.isspace())
        at += 1
    return spans
