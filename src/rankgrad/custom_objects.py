"""Describe objects that a caller gives in place of text: an own loss, network or metric.

A description, `own:module.name`, stands for the object in checkpoints and saved models. It is shown and compared, and
never imported.
"""

import copy
import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any

from rankgrad.errors import bad_type, bad_value

OWN = "own:"  # before a description
_LONGEST = 300  # characters of a description


def describe(part: Any) -> str:
    """The name of an object's function or class with its module, and the options where these are known.

    Args:
        part: a function, `functools.partial`, class or object.

    Example:
        >>> describe(functools.partial(sorted, reverse=True)), describe(dict)
        ('builtins.sorted(reverse=True)', 'builtins.dict')
    """
    if isinstance(part, functools.partial):
        given = [*map(repr, part.args), *(f"{name}={value!r}" for name, value in part.keywords.items())]
        return on_one_line(f"{describe(part.func)}({', '.join(given)})")
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        return on_one_line(f"{type(part).__module__}.{part!r}")
    named = part if hasattr(part, "__qualname__") else type(part)
    return on_one_line(f"{named.__module__}.{named.__qualname__}")


def only_described(what: str, text: str, must: str = "be given as an object again") -> None:
    """Raise where a text is only the description of an object.

    Args:
        what: the name of the setting.
        text: of it.
        must: what is to be done.
    """
    if text.strip().lower().startswith(OWN):
        bad_value(what, must, f"{on_one_line(text.strip())!r}, which is only a description")


def own_copy(what: str, part: Any) -> Any:
    """Copy an object deeply, so that training changes nothing in the one that was given.

    Args:
        what: the name of the setting.
        part: the object.
    """
    try:
        return copy.deepcopy(part)
    except Exception as error:
        got = str(error).strip().partition("\n")[0]
        raise TypeError(f"{what} must be an object that can be copied; got {describe(part)}: {got}") from error


class CallSignature:
    """The parameters that a callable takes, by its signature; a callable without one takes what it is given."""

    def __init__(self, function: Callable[..., Any]) -> None:
        try:
            self.signature: inspect.Signature | None = inspect.signature(function)
        except ValueError:  # of some built-in functions
            self.signature = None
        known = () if self.signature is None else self.signature.parameters.values()
        kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        self.named = frozenset(each.name for each in known if each.kind in kinds)
        self.any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in known)

    def fits(self, positional: int, *names: str) -> bool:
        """Whether so many positional arguments and these keywords are a call.

        Args:
            positional: how many.
            names: of keywords.
        """
        try:
            if self.signature is not None:
                self.signature.bind(*range(positional), **dict.fromkeys(names))
        except TypeError:
            return False
        return True

    def __str__(self) -> str:
        return "(...)" if self.signature is None else on_one_line(str(self.signature))


def check_callable(what: str, part: Any, kinds: str) -> None:
    """Raise where something is neither text nor can be called.

    Args:
        what: the name of the setting.
        part: what was given.
        kinds: of things that are accepted.
    """
    if not callable(part):
        bad_type(what, f"be {kinds}", type(part).__name__)


def on_one_line(text: str) -> str:
    """Make a text printable and short.

    Args:
        text: of a description.
    """
    shown = "".join(each if each.isprintable() else " " for each in text)
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 3] + "..."
