"""Check the settings of boosted trees, which a caller gives together with parameters of the framework."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from rankgrad.errors import bad_value, one_of
from rankgrad.settings.schema import Checked, check_share
from rankgrad.settings.trees import TreeSpec
from rankgrad.spec import spell
from rankgrad.trees.frameworks import framework_named
from rankgrad.trees.objective import objective
from rankgrad.trees.parameters import ALIASES, check_params

# Names of settings whose values mean something else in other libraries.
_OTHER_NAMES = {"epochs": "trees", "eval_metric": "metric", "objective": "loss"}


def spelled_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of the command line or of a recipe as arguments of `rankgrad.trees.TreeRanker`.

    Args:
        settings: settings by name. `model` is a spec such as `"lightgbm"` or `"xgboost:max_depth=3"`. The other
            settings are `loss`, `trees`, `seed` and so on, and parameters of the framework, by the framework's names.

    Example:
        >>> spelled_settings({"model": "lightgbm:num_leaves=15", "loss": "softmax", "trees": 100, "max_bin": 63})
        {'framework': 'lightgbm', 'num_leaves': 15, 'loss': 'softmax', 'trees': 100, 'max_bin': 63}
    """
    given = dict(settings)
    text = given.pop("model", "lightgbm")
    framework, k, options = spell("model", text)
    if k is not None:
        bad_value("model", "have no cutoff", repr(text))
    for name in options:
        if name in given:
            bad_value(name, f"be given only once, but model also has {name}={options[name]}", repr(given[name]))
    given = {**options, **given}
    for name in ALIASES.keys() & given.keys():  # a search or a recipe adds settings by the names of `TreeRanker`
        bad_value(name, f"be given as {ALIASES[name]}", f"{name}={given[name]!r}")
    return {"framework": framework, **given}


def checked_trees(arguments: Mapping[str, Any]) -> Checked:
    """Check the settings of boosted trees.

    Args:
        arguments: arguments of `rankgrad.trees.TreeRanker`, including parameters of the framework.
    """
    given = _plain({"threads": None, "holdout": 0.2, **arguments})
    check_share("holdout", given.pop("holdout"))
    given.pop("categorical", None)
    if given["threads"] is None:
        given["threads"] = torch.get_num_threads()
    params = {name: given.pop(name) for name in tuple(given) if name == "params" or name not in TreeSpec.names()}
    for name in params:
        if name in _OTHER_NAMES:
            bad_value(name, f"be given as {_OTHER_NAMES[name]}", f"{name}={params[name]!r}")
    # `missing` is NaN here, which has no effect, and which JSON cannot contain.
    used = {name: value for name, value in params.items() if name != "missing"}
    checked = TreeSpec(**given, params=used).read()
    spec = checked.settings
    _check_tree_loss(spec, checked.parts["loss"])
    check_params(params, spec.framework, spec.native is not None)
    return checked


def _check_tree_loss(spec: TreeSpec, loss: Any) -> None:
    """Check the settings of the loss of boosted trees; a native objective must exist in the framework."""
    if spec.native is None:
        objective(loss, spec.framework, hessian=spec.hessian, loss_lr=spec.loss_lr, smooth=spec.smooth)
        return
    one_of("native objective", spec.native, framework_named(spec.framework).native)
    for name in ("loss_lr", "smooth"):
        if (given := getattr(spec, name)) is not None:
            bad_value(name, "be None for a native objective", repr(given))


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Convert NumPy numbers in settings to Python numbers, because JSON cannot contain NumPy numbers.

    The settings contain NumPy numbers if a random search chooses them.
    """
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}
