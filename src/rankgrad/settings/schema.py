"""Declare a setting once. Its checks, its option, its JSON value and its documentation follow from the declaration.

A class of settings is a frozen dataclass with the base class `Schema`. A line such as `epochs: int = setting(100,
"maximum number of epochs", least=1)` has the name, the type, the default, one sentence and the limits of a setting.
This module does not import PyTorch, so that `--help` is fast.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass, field, fields
from functools import partial
from importlib import import_module
from operator import attrgetter
from types import NoneType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, get_args

from rankgrad.errors import Problems, bad_value, collected, one_of
from rankgrad.spec import known_options

if TYPE_CHECKING:
    from typing_extensions import Self

_Class = TypeVar("_Class", bound=type)


class SettingsError(Problems, ValueError):
    """All errors in the settings of a training, one per line."""


@dataclass(frozen=True)
class Declaration:
    """Declaration of a setting: all except its name, type and default, which are those of the field."""

    about: str  # one sentence for help and documentation, which begins with a small letter and has no full stop
    least: float | None = None  # minimum of a number; None: a number must be above 0 and finite
    below: float | None = None  # limit that a number must not reach
    why: str = ""  # reason of the limit, for the error
    choices: Iterable[str] = ()  # allowed values; empty if there are others
    reads: Callable[[Any], Any] | str | None = None  # function that reads the value; it raises an error if it is wrong
    writes: Callable[[Any], Any] | str | None = None  # function that returns the value as a JSON value
    search: Any = None  # choices, or a range {low, high, log}, of a random search
    on_resume: bool = False  # True if the setting may change when a run is resumed
    added: bool = False  # True for a setting that earlier versions do not know: its default is not written to files
    shown: bool = False  # True if `--help` shows the option, and not only `--help-all`
    option: tuple[str, ...] = ()  # other spellings of the option


def setting(default: Any, about: str, **more: Any) -> Any:
    """Declare a setting, as the value of a field of a `Schema`.

    Args:
        default: default value; `dict` for an empty dictionary.
        about: sentence for help and documentation.
        more: fields of `Declaration`.
    """
    how: dict[str, Any] = {"default_factory": dict} if default is dict else {"default": default}
    return field(**how, metadata={"declaration": Declaration(about, **more)})


def declaration(declared: "Field[Any]") -> Declaration:
    """Return what a class of settings says about one of its fields.

    Args:
        declared: field of the class.
    """
    found: Declaration = declared.metadata["declaration"]
    return found


@dataclass(frozen=True)
class Checked:
    """Settings that are checked."""

    settings: Any
    parts: dict[str, Any]  # values of the settings by name: of a spec, what the spec means, such as a loss


@dataclass(frozen=True)
class Schema:
    """Base class of settings: checks, conversion from and to JSON values."""

    what: ClassVar[str]  # what has these settings, for the error about an unknown name
    searched: ClassVar[tuple[str, ...]] = ()  # settings that a random search varies, in the order in which it draws

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of all settings."""
        return tuple(each.name for each in fields(cls))

    @classmethod
    def of(cls, values: "Mapping[str, Any] | Self") -> "Self":
        """Make settings from a mapping. If a name is unknown, the error shows similar names.

        Args:
            values: settings by name; or settings, which are returned.
        """
        if isinstance(values, cls):
            return values
        assert isinstance(values, Mapping)
        known_options(cls.what, values, cls.names())
        several = {each.name: _several(values[each.name]) for each in fields(cls) if _is_several(each, values)}
        return cls(**{**values, **several})

    @classmethod
    def changeable(cls) -> tuple[str, ...]:
        """Return the names of the settings that may change when a run is resumed: they do not affect a step."""
        return tuple(each.name for each in fields(cls) if declaration(each).on_resume)

    @classmethod
    def space(cls) -> dict[str, Any]:
        """Return the search space of the settings: choices, or a range `{low, high, log}`, per setting."""
        known = {each.name: declaration(each).search for each in fields(cls)}
        return {name: known[name] for name in cls.searched}

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON values. Instead of an object, the result contains the text `own:module.name`."""
        found = {}
        for each in fields(self):
            written = _written(each, getattr(self, each.name))
            if not (declaration(each).added and written == _written(each, each.default)):
                found[each.name] = written
        return found

    def check(self, *, files: bool = True) -> None:
        """Raise one error that contains all problems of the settings.

        Args:
            files: False to accept a folder that does not exist here, such as a folder of another machine.
        """
        self.read(files=files)

    @classmethod
    def checked(cls, values: "Mapping[str, Any] | Self | Checked") -> Checked:
        """Check settings, unless they are checked.

        Args:
            values: settings by name, as an object, or checked.
        """
        return values if isinstance(values, Checked) else cls.of(values).read()

    def read(self, *, files: bool = True) -> Checked:
        """Check all settings, and return what they mean. An error contains all problems.

        Args:
            files: False to accept a folder that does not exist here.
        """
        found: dict[str, Any] = {}
        checks = [partial(_read, each, self, found) for each in fields(self)]
        if problems := collected([*checks, *self._checks(files)], ValueError, TypeError):
            raise SettingsError(*problems)
        return Checked(self, found)

    def _checks(self, files: bool) -> Iterable[Callable[[], Any]]:
        """Yield checks that need several settings or files."""
        return ()


def _read(declared: "Field[Any]", settings: Any, found: dict[str, Any]) -> None:
    """Check a setting, and add its value to `found`."""
    name, about, value = declared.name, declaration(declared), getattr(settings, declared.name)
    kinds = get_args(declared.type) or (declared.type,)
    optional = NoneType in kinds
    if value is None and optional:
        found[name] = value
        return
    if about.reads is not None and str in kinds and not isinstance(value, str):
        bad_value(name, "be text", repr(value))
    if about.reads is not None:
        value = _function(about.reads)(value)
    elif about.choices:
        for one in _several(value) if ... in kinds else (value,):
            one_of(name, one, about.choices)
    elif bool in kinds and not isinstance(value, bool):
        bad_value(name, "be True or False", repr(value))
    elif int in kinds or float in kinds:
        limits: dict[str, Any] = {"least": about.least, "below": about.below, "why": about.why}
        check_number(name, value, whole=int in kinds, optional=optional, **limits)
    found[name] = value


def _written(declared: "Field[Any]", value: Any) -> Any:
    if ... in get_args(declared.type):
        return [*_several(value)]
    writes = declaration(declared).writes
    return value if writes is None else _function(writes)(value)


def _is_several(declared: "Field[Any]", values: Mapping[str, Any]) -> bool:
    return ... in get_args(declared.type) and declared.name in values


def _several(value: Any) -> tuple[Any, ...]:
    """Return several values as a tuple. They may be one text, a list as in JSON, or None for no value."""
    return (value,) if isinstance(value, str) else tuple(value or ())


def _function(name: Callable[[Any], Any] | str) -> Callable[[Any], Any]:
    """Return a function. Its name `module:function` delays the import of the module, which may import PyTorch."""
    if callable(name):
        return name
    module, _, path = name.partition(":")
    found: Callable[[Any], Any] = attrgetter(path)(import_module(module))
    return found


def check_device(device: str) -> str:
    """Check the name of a device, and return it.

    Args:
        device: auto, cpu, cuda or cuda:N.
    """
    one_of("device", device.partition(":")[0], ("auto", "cpu", "cuda"))
    return device


def check_share(name: str, value: Any) -> None:
    """Check a share of lists, such as `holdout`.

    Args:
        name: name of the setting.
        value: value of the setting.
    """
    if not isinstance(value, int | float) or not 0 <= value < 1:
        bad_value(name, "be a number of at least 0 and below 1", repr(value))


def check_number(
    name: str,
    value: Any,
    *,
    whole: bool = False,
    least: float | None = None,
    above: float = 0,
    below: float | None = None,
    optional: bool = False,
    why: str = "",
) -> None:
    """Check a setting that is a number.

    Args:
        name: name of the setting.
        value: value of the setting.
        whole: True if it must be an integer.
        least: minimum value; with None, `above` is the limit.
        above: if `least` is None, the value must be above this number and finite.
        below: limit that the value must not reach; None for no limit.
        optional: True if the value may be None.
        why: reason of the limit.
    """
    if value is None and optional:
        return
    kinds = int if whole else int | float
    must = ("be an integer" if whole else "be a number") + (" or None" if optional else "")
    if isinstance(value, bool) or (not isinstance(value, kinds) and not hasattr(value, "__index__")):
        bad_value(name, must, repr(value))
    if least is not None and not value >= least:
        bad_value(name, f"be at least {least:g}{why and f', {why}'}", value)
    if least is None and not (value > above and value < float("inf")):
        bad_value(name, f"be above {above:g} and finite", value)
    if below is not None and value >= below:
        bad_value(name, f"be below {below:g}", value)


def store(made: object, given: Mapping[str, Any]) -> None:
    """Set the arguments of `__init__` as attributes of an estimator, as scikit-learn requires.

    Args:
        made: the estimator.
        given: `locals()` of `__init__`.
    """
    vars(made).update({name: value for name, value in given.items() if name != "self"})


def documented(*schemas: type[Schema]) -> Callable[[_Class], _Class]:
    """Return a decorator that adds the descriptions of settings to `Args:` in the docstring of a class.

    The docstring itself has the descriptions of other parameters.

    Args:
        schemas: classes of settings; none for the settings of the decorated class itself.
    """

    def decorate(made: _Class) -> _Class:
        text, parameters = inspect.cleandoc(made.__doc__ or ""), inspect.signature(made).parameters
        head, args, rest = text.partition("\nArgs:\n")
        own, gap, rest = rest.partition("\n\n") if args else ("", "", "")
        if not args:
            head, gap, rest = text.partition("\nExample:\n")
        described = {name for line in re.findall(r"^ {4}([\w, ]+):", own, re.MULTILINE) for name in line.split(", ")}
        for each in (each for schema in schemas or (made,) for each in fields(schema)):
            if each.name in parameters and each.name not in described:
                own += f"\n    {each.name}: {declaration(each).about}."
        made.__doc__ = "\n".join([head.rstrip(), "", "Args:", own.strip("\n")]) + ("" if args else "\n") + gap + rest
        return made

    return decorate
