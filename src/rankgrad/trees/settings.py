"""Make a `TreeRanker` from the settings of the command line or of a recipe."""

from collections.abc import Mapping
from typing import Any

from rankgrad.errors import bad_value
from rankgrad.spec import spell
from rankgrad.trees.estimator import TreeRanker
from rankgrad.trees.parameters import ALIASES


def tree_ranker(settings: Mapping[str, Any]) -> TreeRanker:
    """Return a `TreeRanker` with the settings of the command line or of a recipe.

    Args:
        settings: settings by name. `model` is a spec such as `"lightgbm"` or `"xgboost:max_depth=3"`. The other
            settings are `loss`, `trees`, `seed` and so on, and parameters of the framework, by the framework's names.

    Example:
        >>> made = tree_ranker({"model": "lightgbm:num_leaves=15", "loss": "softmax", "trees": 100, "max_bin": 63})
        >>> made.trees, made.get_params()["num_leaves"], made.get_params()["max_bin"]
        (100, 15, 63)
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
    return TreeRanker(framework, **given)
