"""Find the kind of a ranker by its name, and the kind that loads a saved model.

Kinds of the package are imported when they are first used. Other packages can add a custom kind in two ways:

- A module calls `register`. The option `--import` or the variable `RANKGRAD_IMPORT` contains the name of the module.
- A package has an entry point in the group `rankgrad.models`. It is imported when the name of the entry point is used.

Nothing in a model folder is imported.
"""

import os
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from rankgrad.errors import bad_type, bad_value, mistyped
from rankgrad.models.calibration import read_calibration
from rankgrad.models.folder import CONFIG, feature_names_of, read_config
from rankgrad.models.protocol import RankerKind, TrainedModel
from rankgrad.spec import spec_name
from rankgrad.tree_frameworks import FRAMEWORKS

DEFAULT = "neural"
IMPORTS = "RANKGRAD_IMPORT"  # environment variable: modules that register kinds, separated by commas
GROUP = "rankgrad.models"  # group of entry points
# Module and name of each kind, so that a kind is imported only when it is used. A class makes the kind of each name.
_BUILT_IN = {
    "neural": "rankgrad.models.neural:NEURAL",
    **dict.fromkeys(FRAMEWORKS, "rankgrad.models.trees:TreeKind"),
    "blend": "rankgrad.models.blend:BLEND",
    "bi_encoder": "rankgrad.models.text:BI_ENCODER",
    "cross_encoder": "rankgrad.models.text:CROSS_ENCODER",
}
# `kind` in `config.json` -> the kind that reads it
_SAVED_AS = {None: "neural", "trees": "lightgbm", "blend": "blend", "text": "bi_encoder"}
_IMPORT = "for a custom kind, use --import with the module that registers the kind"  # advice in errors
_registered: dict[str, RankerKind] = {}


def register(kind: RankerKind) -> RankerKind:
    """Add a kind of ranker. After this, `kind_of`, `load` and the command line find the kind by its name.

    Args:
        kind: new kind; it replaces a registered kind with the same name.
    """
    if not isinstance(kind, RankerKind):
        bad_type("kind", "be a RankerKind", type(kind).__name__)
    taken = {*_BUILT_IN, *_SAVED_AS, *kind_named(DEFAULT).models}
    for name in (kind.name, *([kind.saved_as] if kind.saved_as else []), *kind.models):
        if name in taken:
            bad_value("name of a kind", "not be a name that rankgrad itself uses", repr(name))
    _registered[kind.name] = kind
    return kind


def kind_of(model: Any) -> RankerKind:
    """Return the kind of a ranker; for a model that is not a text, return the neural kind.

    Args:
        model: spec `name[:key=value,...]`, a module, or a function that returns a module.

    Example:
        >>> kind_of("mlp:widths=64-32").name, kind_of("lightgbm:num_leaves=31").name
        ('neural', 'lightgbm')
        >>> kind_of("lightgmb")
        Traceback (most recent call last):
        ValueError: model must be a known name; got 'lightgmb'; did you mean 'lightgbm'?
    """
    if not isinstance(model, str):
        return kind_named(DEFAULT)
    name = spec_name(model)
    if name in _BUILT_IN and name != DEFAULT:
        return kind_named(name)
    plain = {each.replace("-", "_") for each in kind_named(DEFAULT).models}
    if name.replace("-", "_") in plain:
        return kind_named(DEFAULT)
    for kind in _custom(name):
        if name in kind.models:
            return kind
    known = [each for kind in kinds() for each in kind.models]
    bad_value("model", "be a known name", *mistyped(name[:80], known, f"see `rankgrad list models`; {_IMPORT}"))


def kind_or_default(model: Any) -> RankerKind:
    """Return the kind of a ranker; for None and for unknown names, return the neural kind.

    The checks of the neural kind reject unknown names.

    Args:
        model: model as in `kind_of`, or None.
    """
    try:
        return kind_named(DEFAULT) if model is None else kind_of(model)
    except ValueError:
        return kind_named(DEFAULT)


def kinds() -> list[RankerKind]:
    """Return all kinds of rankers: first built-in kinds, then registered kinds, then kinds from entry points."""
    found = [kind_named(name) for name in _BUILT_IN]
    return [*found, *_custom(None)]


def load(folder: str | os.PathLike[str], device: str = "cpu") -> TrainedModel:
    """Return a saved model of any kind. Nothing in the folder is run, imported or unpickled.

    Args:
        folder: folder that `save` or a training run wrote; or a model file of LightGBM (text) or XGBoost (JSON), which
            may have been trained without rankgrad.
        device: device to compute on, for kinds that have a choice of device.
    """
    model = saved_kind(folder).load(Path(folder), device)
    if Path(folder).is_file():
        return model
    if model.feature_names is None:  # a custom kind may not know about names
        model.feature_names = feature_names_of(folder, model.features)
    model.calibration = read_calibration(folder)
    return model


def saved_kind(folder: str | os.PathLike[str]) -> RankerKind:
    """Return the kind of a saved model.

    Args:
        folder: folder of the model, or a model file of LightGBM or XGBoost.
    """
    if Path(folder).is_file():
        return kind_named(_SAVED_AS["trees"])
    name = read_config(Path(folder)).get("kind")
    if name is None or (isinstance(name, str) and name in _SAVED_AS):
        return kind_named(_SAVED_AS[name])
    for kind in _custom(None):
        if (kind.saved_as or kind.name) == name:
            return kind
    must = f"have a known kind ({_IMPORT})"
    bad_value(str(Path(folder) / CONFIG), must, repr(name)[:80])


@cache
def kind_named(name: str) -> RankerKind:
    """Return a built-in kind of ranker by its name.

    Args:
        name: name of the kind, not of a model.
    """
    module, _, attribute = _BUILT_IN[name].partition(":")
    found = getattr(import_module(module), attribute)
    kind: RankerKind = found(name) if isinstance(found, type) else found
    return kind


def _custom(name: str | None) -> Iterator[RankerKind]:
    """Yield the custom kinds of rankers; if a name is given, import only the entry point with this name."""
    import_kinds()
    yield from list(_registered.values())
    for point in entry_points(group=GROUP):
        if name is None or point.name == name:
            kind = point.load()
            kind = kind() if isinstance(kind, type) else kind
            if not isinstance(kind, RankerKind):
                bad_type(f"entry point {point.name} of {GROUP}", "be a RankerKind", type(kind).__name__)
            if kind.name not in _registered:
                yield kind


def import_kinds() -> None:
    """Import the modules in the variable `RANKGRAD_IMPORT`; these modules register kinds of rankers."""
    for module in filter(None, (part.strip() for part in os.environ.get(IMPORTS, "").split(","))):
        _imported(module)


@cache
def _imported(module: str) -> None:
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # the current folder is last, so that an installed module is found first
    try:
        import_module(module)
    except ImportError as error:
        raise ModuleNotFoundError(
            f"--import must name a module that can be imported; got {module!r} and the error: {error}"
        ) from error
