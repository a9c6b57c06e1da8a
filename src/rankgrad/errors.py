"""One form for every error about an argument: `<name> must <be what>; got <what>`."""

import difflib
from collections.abc import Iterable
from typing import NoReturn


def bad_value(name: str, must: str, got: object) -> NoReturn:
    """Raise the `ValueError` of the house: `k must be at least 1; got 0`."""
    raise ValueError(f"{name} must {must}; got {got}")


def bad_type(name: str, must: str, got: object) -> NoReturn:
    """Raise the `TypeError` of the house: `scores must be real numbers; got torch.complex64`."""
    raise TypeError(f"{name} must {must}; got {got}")


def one_of(name: str, value: object, choices: Iterable[str]) -> None:
    """Check that `value` is one of `choices`; the error names the nearest ones when there are many."""
    choices = list(choices)
    if value in choices:
        return
    if len(choices) <= 6:
        bad_value(name, f"be one of {', '.join(map(repr, choices))}", repr(value))
    bad_value(name, "be a known name", mistyped(value, choices))


def mistyped(value: object, choices: Iterable[str], otherwise: str = "") -> str:
    """An unknown name for the end of an error: `'mpl'; did you mean 'mlp'?`; `otherwise` follows where none is near."""
    near = nearest(str(value), choices)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else otherwise
    return f"{value!r}; {hint}" if hint else repr(value)


def nearest(name: str, choices: Iterable[str], most: int = 3) -> list[str]:
    """The known names closest to a mistyped one, best first, whatever their case.

    Example:
        >>> nearest("lamdaloss", ["lambdaloss", "ranknet", "lambdarank"])
        ['lambdaloss']
    """
    known = {choice.lower(): choice for choice in choices}
    return [known[match] for match in difflib.get_close_matches(name.lower(), known, n=most, cutoff=0.6)]
