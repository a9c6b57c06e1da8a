"""Describe custom objects: a loss, network or metric that a caller gives instead of a spec.

Checkpoints and saved models contain the description `own:module.name` of the object. The description is only shown, or
compared with another description. The object is never imported.
"""

import copy
import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any

from rankgrad.errors import bad_type, bad_value, first_line

CUSTOM_PREFIX = "own:"  # first characters of the description of a custom object
# Usual names of the arguments of losses and metrics, also in packages that take the labels first.
_LABELS = {"label", "labels", "y_true", "target", "targets", "relevance", "relevances", "ground_truth"}
_SCORES = {"s", "p", "score", "scores", "y_score", "y_pred", "pred", "preds", "prediction", "predictions", "logits"}
_LONGEST = 300  # maximum number of characters of a description


def describe(part: Any) -> str:
    """Return the description of a custom object: module and name of the function or class, and options.

    Args:
        part: function, `functools.partial`, class or other object.

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
    """Raise an error if a setting is only the description of a custom object, and not the object.

    Args:
        what: name of the setting.
        text: value of the setting.
        must: text that follows the word `must` in the error.
    """
    if text.strip().lower().startswith(CUSTOM_PREFIX):
        bad_value(what, must, f"{on_one_line(text.strip())!r}, which is only a description")


def own_copy(what: str, part: Any) -> Any:
    """Return a deep copy of a custom object, so that training does not change the given object.

    Args:
        what: name of the setting.
        part: object to copy.
    """
    try:
        return copy.deepcopy(part)
    except Exception as error:
        got = f"{describe(part)}, and the copy raised the error {first_line(error)}"
        bad_type(what, "be an object that can be copied", got)


class CallSignature:
    """Parameters of a custom callable, from its signature. A callable without a signature accepts everything."""

    def __init__(self, function: Callable[..., Any]) -> None:
        try:
            self.signature: inspect.Signature | None = inspect.signature(function)
        except ValueError:  # some built-in functions have no signature
            self.signature = None
        known = () if self.signature is None else self.signature.parameters.values()
        kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        self.named = frozenset(each.name for each in known if each.kind in kinds)
        self.required = frozenset(each.name for each in known if each.default is each.empty and each.name in self.named)
        self.any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in known)

    def fits(self, positional: int, *names: str) -> bool:
        """Return True if the custom callable accepts this number of positional arguments and these keywords.

        Args:
            positional: number of positional arguments.
            names: names of keyword arguments.
        """
        try:
            if self.signature is not None:
                self.signature.bind(*range(positional), **dict.fromkeys(names))
        except TypeError:
            return False
        return True

    @property
    def swapped(self) -> bool:
        """True if the first two parameters have names of labels and scores, in this order."""
        known = [] if self.signature is None else [*self.signature.parameters][:2]
        return len(known) == 2 and (known[0].lower() in _LABELS or known[1].lower() in _SCORES)

    def __str__(self) -> str:
        return "(...)" if self.signature is None else on_one_line(str(self.signature))


def check_callable(what: str, part: Any, kinds: str) -> None:
    """Raise an error if a custom object is not callable.

    Args:
        what: name of the setting.
        part: value to check.
        kinds: description of the accepted values, for the error.
    """
    if not callable(part):
        bad_type(what, f"be {kinds}", type(part).__name__)


def on_one_line(text: str) -> str:
    """Return the description of a custom object on one line; a long description is shortened.

    Args:
        text: description, or the signature of a custom object.
    """
    shown = "".join(each if each.isprintable() else " " for each in text)
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 3] + "..."
