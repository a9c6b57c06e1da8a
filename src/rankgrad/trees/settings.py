"""Make a `TreeRanker` from text and settings, which are the same on the command line and in recipes."""

from collections.abc import Mapping
from typing import Any

from rankgrad.errors import bad_value
from rankgrad.spec import spell
from rankgrad.trees.estimator import TreeRanker


def ranker(settings: Mapping[str, Any]) -> TreeRanker:
    """Return the ranker of these settings: `model` is the framework and its options, the others are of `TreeRanker`.

    Args:
        settings: `model` such as `"lightgbm"` or `"xgboost:max_depth=3"`; `loss`, `trees`, `seed` and so on, and the
            parameters of the framework by its names.

    Example:
        >>> made = ranker({"model": "lightgbm:num_leaves=15", "loss": "softmax", "trees": 100, "max_bin": 63})
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
            bad_value(name, f"be given once; model has {name}={options[name]}", repr(given[name]))
    return TreeRanker(framework, **{**options, **given})
