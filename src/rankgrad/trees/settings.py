"""Check the settings of boosted trees. The names are the same in Python, on the command line and in recipes."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from rankgrad import losses
from rankgrad.errors import bad_value, one_of
from rankgrad.losses.custom import loss_text
from rankgrad.metrics.custom import as_metric, metric_text
from rankgrad.spec import spell
from rankgrad.tree_frameworks import FRAMEWORKS
from rankgrad.trees.frameworks import framework_named
from rankgrad.trees.objective import objective
from rankgrad.trees.parameters import ALIASES, check_params

PREFIX = "native:"

# Names of settings whose values mean something else in other libraries.
_OTHER_NAMES = {"epochs": "trees", "eval_metric": "metric", "objective": "loss"}
_OF_ROWS = ("holdout", "categorical")  # settings of `TreeRanker` that choose lists and columns, before the training


class TreeSpec(NamedTuple):
    """The settings with which boosted trees are trained; `tree_spec` checks them."""

    framework: str = "lightgbm"
    loss: Any = "lambdarank"  # a spec, `native:NAME` for an objective of the framework, or an object (see `as_loss`)
    hessian: str | float = "auto"
    loss_lr: float | None = None
    smooth: str | float | None = None
    trees: int = 500
    patience: int | None = 50
    metric: Any = "nDCG@10"  # a spec, a metric, or a function of the scores and labels of one list
    seed: int = 0
    threads: int = 1
    params: dict[str, Any] = {}  # parameters of the framework, by the framework's names  # noqa: RUF012

    @property
    def native(self) -> str | None:
        """Name of the framework's objective if the loss is native, otherwise None."""
        native = isinstance(self.loss, str) and self.loss.startswith(PREFIX)
        return self.loss.removeprefix(PREFIX) if native else None

    def to_json(self) -> dict[str, Any]:
        """Return all settings of boosted trees as JSON values; loss and metric are text."""
        return {**self._asdict(), "loss": loss_text(self.loss), "metric": metric_text(self.metric)}


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


def tree_spec(arguments: Mapping[str, Any]) -> TreeSpec:
    """Check the settings of boosted trees, and return them as a `TreeSpec`.

    Args:
        arguments: arguments of `rankgrad.trees.TreeRanker`, including parameters of the framework.
    """
    given = {**TreeSpec._field_defaults, "threads": None, "holdout": 0.2, **arguments}
    one_of("framework", given["framework"], FRAMEWORKS)
    params = {name: value for name, value in given.items() if name not in (*TreeSpec._fields, *_OF_ROWS)}
    for name in params:
        if name in _OTHER_NAMES:
            bad_value(name, f"be given as {_OTHER_NAMES[name]}", f"{name}={params[name]!r}")
    for name in ("trees", "patience"):
        value = given[name]
        none = name == "patience" and value is None
        if not none and (not hasattr(value, "__index__") or int(value) < 1):
            bad_value(name, "be an integer of at least 1", repr(value))
    if not hasattr(given["seed"], "__index__"):
        bad_value("seed", "be an integer", repr(given["seed"]))
    if not isinstance(given["holdout"], int | float) or not 0 <= given["holdout"] < 1:
        bad_value("holdout", "be a number of at least 0 and below 1", repr(given["holdout"]))
    as_metric(given["metric"])
    if given["threads"] is None:
        given["threads"] = torch.get_num_threads()
    own = {name: given[name] for name in TreeSpec._fields if name != "params"}
    spec = TreeSpec(**_plain(own), params=_plain(params))
    check_tree_loss(spec)
    check_params(spec.params, spec.framework, spec.native is not None)
    # `missing` is NaN here, which has no effect, and which JSON cannot contain.
    return spec._replace(params={name: value for name, value in spec.params.items() if name != "missing"})


def check_tree_loss(spec: TreeSpec) -> None:
    """Check the loss of boosted trees: a spec must be valid, and a native objective must exist in the framework.

    Args:
        spec: settings of the run.
    """
    if spec.native is None:
        natives = {native for name in FRAMEWORKS for native in framework_named(name).native}
        if isinstance(spec.loss, str) and spec.loss in natives.difference(losses.__all__):
            bad_value("loss", f"be given as {PREFIX + spec.loss!r}, because it is no loss of rankgrad", repr(spec.loss))
        objective(spec.loss, spec.framework, hessian=spec.hessian, loss_lr=spec.loss_lr, smooth=spec.smooth)
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
