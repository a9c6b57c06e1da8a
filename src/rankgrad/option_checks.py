"""Check the values of options against the annotations of the parameters, before the values are used."""

import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rankgrad.errors import bad_value
from rankgrad.spec import LARGEST_CUTOFF, show

# Largest integer of an option in a spec. A larger number is probably a typo, and could need hours or all memory.
LARGEST = 1_000_000
_LARGEST_OF = {
    "k": LARGEST_CUTOFF,
    "bins": 10_000,
    "blocks": 100,
    "gumbel": 1_000,
    "heads": 1_000,
    "layers": 100,
    "rounds": 10_000,
    "seed": 2**63 - 1,
    "sinkhorn_rounds": 10_000,
}
_MOST = 100  # maximum number of values of an option, such as the widths of a network's layers


def fit_options(what: str, options: Mapping[str, Any], taker: Callable[..., Any]) -> dict[str, Any]:
    """Check that each option has the type that the parameter of `taker` requires, and return the options.

    The type is the annotation of the parameter. `what` is the name of `taker` in errors. A number is converted to text
    if the annotation accepts text but no number. If the annotation is `Any`, the value must have the type of the
    default.

    Example:
        >>> def loss(scores, *, sigma: float = 1.0, scheme: str = "ndcg2"): ...
        >>> fit_options("loss", {"sigma": 2, "scheme": 5}, loss)
        {'sigma': 2, 'scheme': '5'}
        >>> fit_options("loss", {"sigma": "abc"}, loss)
        Traceback (most recent call last):
        ValueError: sigma of loss must be a finite number; got 'abc'
    """
    check_sizes(what, options)
    parameters, fitted = inspect.signature(taker).parameters, {}
    for name, value in options.items():
        kinds = _kinds(parameters[name])
        taken = any(_is(kind, value) for kind in kinds)
        if not taken and str in kinds and isinstance(value, bool | int | float | list):
            value, taken = "-".join(map(str, value)) if isinstance(value, list) else str(value), True
        if not taken:
            bad_value(f"{name} of {what}", f"be {_words(kinds)}", show(value))
        fitted[name] = value
    return fitted


def check_sizes(what: str, options: Mapping[str, Any]) -> None:
    """Check that no option has too many values or a very large number, which could need hours or all memory."""
    for name, value in options.items():
        values = value if isinstance(value, list | tuple) else [value]
        if len(values) > _MOST:
            bad_value(f"{name} of {what}", f"have at most {_MOST} values", len(values))
        most = _LARGEST_OF.get(name, LARGEST)
        for each in values:
            if isinstance(each, int) and abs(each) > most:
                bad_value(f"{name} of {what}", f"be at most {most:,}", show(each))


def _kinds(parameter: inspect.Parameter) -> list[Any]:
    """Return the types that the annotation of an option's parameter accepts."""
    kind = parameter.annotation
    if kind in (Any, parameter.empty):
        kind = type(parameter.default)
    union = typing.get_origin(kind) in (typing.Union, types.UnionType)
    return list(typing.get_args(kind)) if union else [kind]


def _is(kind: Any, value: Any) -> bool:
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        # False for NaN, and for an int that is too large for a float.
        return number and abs(value) <= sys.float_info.max
    if isinstance(kind, type) and not typing.get_args(kind):
        return isinstance(value, kind)
    if typing.get_origin(kind) is Callable:
        return callable(value)
    return isinstance(value, list | tuple) and len(value) == (_length(kind) or len(value)) and _all(kind, value)


def _all(kind: Any, values: Sequence[Any]) -> bool:
    return all(any(_is(each, value) for each in _items(kind)) for value in values)


def _items(kind: Any) -> tuple[Any, ...]:
    """Return the types that the annotation of an option accepts for the values of a list or tuple."""
    first = typing.get_args(kind)[0]
    return typing.get_args(first) or (first,)


def _length(kind: Any) -> int | None:
    """Return the number of values that the annotation of an option requires; None if any number is accepted."""
    fixed = typing.get_origin(kind) is tuple and ... not in typing.get_args(kind)
    return len(typing.get_args(kind)) if fixed else None


def _words(kinds: list[Any]) -> str:
    """Return the accepted types of an option as text for an error, such as `an integer or none`."""
    known = {bool: "true or false", int: "an integer", float: "a finite number", str: "text"}
    words = [known[kind] for kind in kinds if kind in known]
    for kind in kinds:
        if typing.get_origin(kind) in (tuple, Sequence):
            number = "integers" if int in _items(kind) else "numbers"
            words.append(f"{_length(kind) or ''} {number} joined by -".strip())
    return " or ".join(words + ["none"] * (types.NoneType in kinds))
