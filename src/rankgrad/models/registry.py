"""Find the kind of a ranker by its name, and the loader of a saved folder.

Kinds of the package are loaded when they are first asked for. A foreign kind is known after `register`, which a module
named by `--import` or `RANKGRAD_IMPORT` calls, or through an entry point of the group `rankgrad.models`, which is
loaded when its name is asked for. Nothing that stands in a model folder is imported.
"""

import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from rankgrad.errors import bad_type, bad_value, mistyped
from rankgrad.models.folder import CONFIG, read_config
from rankgrad.models.protocol import RankerKind, TrainedModel

DEFAULT = "neural"
IMPORTS = "RANKGRAD_IMPORT"  # modules to import before a kind is looked up, with commas between
GROUP = "rankgrad.models"  # of entry points
# By name, so that a kind costs nothing until it is used: a module and the name in it.
_BUILT_IN = {
    "neural": "rankgrad.models.neural:NEURAL",
    "lightgbm": "rankgrad.models.trees:LIGHTGBM",
    "xgboost": "rankgrad.models.trees:XGBOOST",
    "blend": "rankgrad.models.blend:BLEND",
}
_SAVED_AS = {None: "neural", "trees": "lightgbm", "blend": "blend"}  # what `config.json` says -> the kind that reads it
_registered: dict[str, RankerKind] = {}


def register(kind: RankerKind) -> RankerKind:
    """Add a kind of ranker under its name; it is then known to `kind_of`, `load` and the command line.

    Args:
        kind: a new one, or another of a name that was registered before, which it replaces.
    """
    if not isinstance(kind, RankerKind):
        bad_type("kind", "be a RankerKind", type(kind).__name__)
    taken = {*_BUILT_IN, *_SAVED_AS, *kind_named(DEFAULT).models}
    for name in (kind.name, *([kind.saved_as] if kind.saved_as else []), *kind.models):
        if name in taken:
            bad_value("name of a kind", "not be one of the package's own", repr(name))
    _registered[kind.name] = kind
    return kind


def kind_of(model: Any) -> RankerKind:
    """The kind of a model's text; an object that is no text is a neural network.

    Args:
        model: `name[:key=value,...]`, or a module or what makes one.

    Example:
        >>> kind_of("mlp:widths=64-32").name, kind_of("lightgbm:num_leaves=31").name
        ('neural', 'lightgbm')
        >>> kind_of("lightgmb")
        Traceback (most recent call last):
        ValueError: model must be a known name; got 'lightgmb'; did you mean 'lightgbm'?
    """
    if not isinstance(model, str):
        return kind_named(DEFAULT)
    name = re.split(r"[:(@]", model.strip().lower(), maxsplit=1)[0].strip()
    if name in _BUILT_IN and name != DEFAULT:
        return kind_named(name)
    plain = {each.replace("-", "_") for each in kind_named(DEFAULT).models}
    if name.replace("-", "_") in plain:
        return kind_named(DEFAULT)
    for kind in _foreign(name):
        if name in kind.models:
            return kind
    known = [each for kind in kinds() for each in kind.models]
    bad_value("model", "be a known name", mistyped(name[:80], known))


def kind_or_default(model: Any) -> RankerKind:
    """The kind of a model's text; for none, and one that is not known, neural rankers, whose checks complain of it.

    Args:
        model: as in `kind_of`, or None.
    """
    try:
        return kind_named(DEFAULT) if model is None else kind_of(model)
    except ValueError:
        return kind_named(DEFAULT)


def kinds() -> list[RankerKind]:
    """All kinds: those of the package, then the registered ones, then those of entry points."""
    found = [kind_named(name) for name in _BUILT_IN]
    return [*found, *_foreign(None)]


def load(folder: str | os.PathLike[str], device: str = "cpu") -> TrainedModel:
    """Read a saved model of any kind. Nothing in the folder is run, imported or unpickled.

    Args:
        folder: that `save` or a training run wrote.
        device: where it is to compute, for kinds that have a choice.
    """
    return saved_kind(folder).load(Path(folder), device)


def saved_kind(folder: str | os.PathLike[str]) -> RankerKind:
    """The kind that reads a saved folder.

    Args:
        folder: of a model.
    """
    said = read_config(Path(folder)).get("kind")
    if said is None or (isinstance(said, str) and said in _SAVED_AS):
        return kind_named(_SAVED_AS[said])
    for kind in _foreign(None):
        if (kind.saved_as or kind.name) == said:
            return kind
    must = "say a kind that is known here (name the module that registers it with --import)"
    bad_value(str(Path(folder) / CONFIG), must, repr(said)[:80])


@cache
def kind_named(name: str) -> RankerKind:
    """A kind of the package by its own name.

    Args:
        name: of the kind, not of a model.
    """
    module, _, attribute = _BUILT_IN[name].partition(":")
    kind: RankerKind = getattr(import_module(module), attribute)
    return kind


def _foreign(name: str | None) -> Iterator[RankerKind]:
    """Kinds from elsewhere; with a name, of the entry points only the one of that name is loaded."""
    import_kinds()
    yield from list(_registered.values())
    for point in entry_points(group=GROUP):
        if name is None or point.name == name:
            kind = point.load()
            kind = kind() if isinstance(kind, type) else kind
            if not isinstance(kind, RankerKind):
                bad_type(f"entry point {point.name} of {GROUP}", "name a RankerKind", type(kind).__name__)
            if kind.name not in _registered:
                yield kind


def import_kinds() -> None:
    """Import the modules that `RANKGRAD_IMPORT` names, which register kinds of rankers."""
    for module in filter(None, (part.strip() for part in os.environ.get(IMPORTS, "").split(","))):
        _imported(module)


@cache
def _imported(module: str) -> None:
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # last: a module of one's own stands in for no other
    try:
        import_module(module)
    except ImportError as error:
        raise ModuleNotFoundError(
            f"--import must name a module that can be imported; got {module!r}: {error}"
        ) from error
