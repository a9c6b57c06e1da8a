"""Raise errors about arguments in one form: `<name> must <condition>; got <value>`. Warn at the line of the caller."""

import difflib
import sys
import warnings
from collections.abc import Iterable
from typing import NoReturn

_LISTED = 20  # maximum number of names that an error lists


def bad_value(name: str, must: str, got: object) -> NoReturn:
    """Raise a `ValueError` in the common form: `k must be at least 1; got 0`."""
    raise ValueError(f"{name} must {must}; got {got}")


def bad_type(name: str, must: str, got: object) -> NoReturn:
    """Raise a `TypeError` in the common form: `scores must be real numbers; got torch.complex64`."""
    raise TypeError(f"{name} must {must}; got {got}")


def warn_caller(text: str) -> None:
    """Give a warning that shows the line outside of this package and of PyTorch from which the call came.

    Args:
        text: text of the warning.
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in ("rankgrad", "torch"):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, stacklevel=level)


def one_of(name: str, value: object, choices: Iterable[str]) -> None:
    """Check that `value` is one of `choices`; if there are many choices, the error suggests similar ones.

    If no choice is similar, the error lists all of them, unless there are very many.
    """
    choices = list(choices)
    if value in choices:
        return
    if len(choices) <= 6:
        bad_value(name, f"be one of {', '.join(map(repr, choices))}", repr(value))
    known = f"known: {', '.join(choices)}" if len(choices) <= _LISTED else ""
    bad_value(name, "be a known name", mistyped(value, choices, known))


def mistyped(value: object, choices: Iterable[str], otherwise: str = "") -> str:
    """Return an unknown name and a hint, for the end of an error: `'mpl'; did you mean 'mlp'?`.

    If no known name is similar, the hint is `otherwise`.
    """
    near = nearest(str(value), choices)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else otherwise
    return f"{value!r}; {hint}" if hint else repr(value)


def nearest(name: str, choices: Iterable[str], most: int = 3) -> list[str]:
    """Return the known names that are closest to a mistyped name, best first; case is ignored.

    Example:
        >>> nearest("lamdaloss", ["lambdaloss", "ranknet", "lambdarank"])
        ['lambdaloss']
    """
    known = {choice.lower(): choice for choice in choices}
    return [known[match] for match in difflib.get_close_matches(name.lower(), known, n=most, cutoff=0.6)]
