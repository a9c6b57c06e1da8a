"""Raise errors about arguments in one form: `<name> must <condition>; got <value>`. Warn at the line of the caller.

An error keeps its parts as fields: `error.problems` is a tuple of `Problem`. So another layer can rename an argument or
add a place without reading the text. The command line writes its options instead of the arguments: see `Named`.
"""

import difflib
import re
import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

if TYPE_CHECKING:
    from typing_extensions import Self

_LISTED = 20  # maximum number of names that an error lists


@dataclass(frozen=True)
class Setting:
    """Setting that a text names: as the Python argument `regroup=True`, unless a front writes its own form.

    Example:
        >>> str(Setting("regroup", "True")), str(Setting("width", "", "(or set ", ")")), str(Setting("lr"))
        ('regroup=True', '(or set width=)', 'lr')
    """

    name: str
    value: str | None = None  # value that the text recommends; None if the text has only the name
    before: str = ""  # text before and after the setting, which has no meaning without the setting
    after: str = ""

    def __str__(self) -> str:
        return f"{self.before}{self.name}{'' if self.value is None else f'={self.value}'}{self.after}"


class Named(str):
    """Text that names settings: see `name_settings`. Join it with `+`, because an f-string makes plain text of it.

    Example:
        >>> text = "be sorted, " + name_settings("or {regroup=True}")
        >>> text, text.written(lambda setting: f"--{setting.name}")
        ('be sorted, or regroup=True', 'be sorted, or --regroup')
    """

    parts: tuple["str | Setting", ...]

    def __new__(cls, *parts: "str | Setting") -> "Self":
        flat = tuple(each for part in parts for each in (part.parts if isinstance(part, Named) else (part,)))
        made = super().__new__(cls, "".join(map(str, flat)))
        made.parts = flat
        return made

    def __add__(self, other: str) -> "Named":
        return Named(self, other)

    def __radd__(self, other: str) -> "Named":
        return Named(other, self)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.parts

    def written(self, write: Callable[[Setting], str]) -> str:
        """Return the text with each setting as the function `write` writes it."""
        return "".join(write(part) if isinstance(part, Setting) else str(part) for part in self.parts)


def name_settings(text: str) -> Named:
    """Return a text whose settings in braces are named: `use {sparse=True}, or set {missing=}`."""
    before, *found = re.split(r"\{(\w+)=([^}]*)\}", text)
    settings = map(Setting, found[::3], found[1::3])
    return Named(before, *(part for pair in zip(settings, found[2::3], strict=True) for part in pair))


class Place(NamedTuple):
    """Place of a problem in a file. Lines, rows and columns are counted from 1."""

    file: str
    line: int | None = None
    column: int | None = None
    row: int | None = None  # row of a table, instead of a line

    def __str__(self) -> str:
        row = "" if self.row is None else f": row {self.row}"
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part) + row


@dataclass(frozen=True)
class Problem:
    """One problem. As text: `<where>: <argument> must <must>; got <got>; <hint>`.

    Without an argument, the text is `<where>: <got>; expected <must>`; without a condition, only `<where>: <got>`.
    """

    argument: str | Setting  # name of the argument, or the file or thing that is wrong
    must: str  # condition that the argument must meet
    got: Any  # what it was; it becomes text
    hint: str = ""  # likely correction
    where: tuple[str | Place, ...] = ()  # places that contain the problem, the largest first

    def __post_init__(self) -> None:
        if not isinstance(self.got, str):
            object.__setattr__(self, "got", f"{self.got}")

    @property
    def text(self) -> Named:
        """Text of the problem; the argument and the settings in the other fields are named in it."""
        name = self.argument if isinstance(self.argument, Setting) else Setting(self.argument)
        expected = ("; expected ", self.must) if self.must else ()
        body = (name, " must ", self.must, "; got ", self.got) if name.name else (self.got, *expected)
        return Named(*(f"{place}: " for place in self.where), *body, "; " if self.hint else "", self.hint)

    def elsewhere(self, file: str, new: str) -> "Problem":
        """Return the problem with another name of a file, such as that of a file which has been copied."""

        def moved(place: str | Place) -> str | Place:
            if isinstance(place, Place):
                return place._replace(file=new) if place.file == file else place
            return new if place == file else place

        argument = new if self.argument == file else self.argument
        return replace(self, argument=argument, got=self.got.replace(file, new), where=tuple(map(moved, self.where)))

    def at(self, *where: str | Place) -> "Problem":
        """Return the problem inside of another place."""
        return replace(self, where=(*where, *self.where))


class Problems(Exception):
    """Error with one or several problems; each is one line of the text. It is also a `ValueError`, `TypeError`, ....

    Args:
        problems: the problems. A text is a problem without other fields.
    """

    problems: tuple[Problem, ...]

    def __init__(self, *problems: Problem | str) -> None:
        self.problems = tuple(Problem("", "", each) if isinstance(each, str) else each for each in problems)
        super().__init__("\n".join(problem.text for problem in self.problems))

    def __reduce__(self) -> tuple[Any, ...]:
        own = globals().get(type(self).__name__) is type(self)
        return _restored, (type(self).__name__ if own else type(self), self.problems), vars(self)

    def changed(self, change: Callable[[Problem], Problem]) -> "Self":
        """Return the same error with other problems.

        Args:
            change: function that returns the new problem for each problem.
        """
        made = _restored(type(self), tuple(map(change, self.problems)))
        vars(made).update({name: value for name, value in vars(self).items() if name != "problems"})
        return made

    def renamed(self, name: str, new: str) -> "Self":
        """Return the same error with another name of an argument.

        Args:
            name: name of the argument.
            new: new name.
        """
        return self.changed(lambda problem: replace(problem, argument=new) if problem.argument == name else problem)


class BadValue(Problems, ValueError):
    """Error about the value of an argument or the content of a file."""

    __module__, __qualname__ = "builtins", "ValueError"  # a traceback shows the class that users catch


class BadType(Problems, TypeError):
    """Error about the type of an argument."""

    __module__, __qualname__ = "builtins", "TypeError"


class MissingFile(Problems, FileNotFoundError):
    """Error about files that do not exist."""

    __module__, __qualname__ = "builtins", "FileNotFoundError"


def _restored(kind: Any, problems: tuple[Problem, ...]) -> Any:
    """Return the error that a process has sent; `kind` is a class, or the name of a class of this module."""
    kind = globals()[kind] if isinstance(kind, str) else kind
    made = kind.__new__(kind)
    Problems.__init__(made, *problems)
    return made


def bad_value(name: str | Setting, must: str, got: object, hint: str = "") -> NoReturn:
    """Raise a `ValueError` in the common form: `k must be at least 1; got 0`."""
    raise BadValue(Problem(name, must, got, hint))


def bad_type(name: str | Setting, must: str, got: object, hint: str = "") -> NoReturn:
    """Raise a `TypeError` in the common form: `scores must be real numbers; got torch.complex64`."""
    raise BadType(Problem(name, must, got, hint))


def problems_of(error: Exception) -> tuple[Problem, ...]:
    """Return the problems of an error; each line of an error from elsewhere is a problem without other fields."""
    if isinstance(error, Problems):
        return error.problems
    return tuple(Problem("", "", line) for line in str(error).splitlines())


def named_text(message: object) -> Named:
    """Return the text of an error, a warning or anything else, with the settings that it names."""
    if isinstance(message, Problems):
        lines = [part for problem in message.problems for part in ("\n", problem.text)]
        return Named(*lines[1:])
    text = message.args[0] if isinstance(message, Exception) and message.args else message
    return text if isinstance(text, Named) else Named(str(message))


def located(error: Exception, *where: str | Place) -> Problems:
    """Return the error inside of another place, such as a file: `model.txt: trees must be at least 1; got 0`."""
    if not isinstance(error, Problems):
        error = (BadType if isinstance(error, TypeError) else BadValue)(*problems_of(error))
    return error.changed(lambda problem: problem.at(*where))


def collected(checks: Iterable[Callable[[], object]], *errors: type[Exception]) -> dict[Problem, Exception]:
    """Call all checks, and return the problems that they found, each once, with the error that it came from.

    Args:
        checks: functions that raise an error if they find a problem.
        errors: classes of errors to collect.
    """
    found: dict[Problem, Exception] = {}
    for check in checks:
        try:
            check()
        except errors as error:
            found |= dict.fromkeys(problems_of(error), error)
    return found


def first_line(error: BaseException) -> str:
    """Return the first line of an error of another library, or the name of its class."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


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
    bad_value(name, "be a known name", *mistyped(value, choices, known))


def mistyped(value: object, choices: Iterable[str], otherwise: str = "") -> tuple[str, str]:
    """Return an unknown name and a hint, for the end of an error: `'mpl'`, `did you mean 'mlp'?`.

    If no known name is similar, the hint is `otherwise`.
    """
    near = nearest(str(value), choices)
    return repr(value), f"did you mean {' or '.join(map(repr, near))}?" if near else otherwise


def nearest(name: str, choices: Iterable[str], most: int = 3) -> list[str]:
    """Return the known names that are closest to a mistyped name, best first; case is ignored.

    Example:
        >>> nearest("lamdaloss", ["lambdaloss", "ranknet", "lambdarank"])
        ['lambdaloss']
    """
    known = {choice.lower(): choice for choice in choices}
    return [known[match] for match in difflib.get_close_matches(name.lower(), known, n=most, cutoff=0.6)]
