"""Boosted trees as rankers of a recipe: which models they are, and what is wrong with their settings."""

from collections.abc import Mapping
from typing import Any

from rankgrad.errors import bad_value

# Named here once more, for `rankgrad.trees` takes a second to load, which recipes without trees need not wait for.
FRAMEWORKS = ("lightgbm", "xgboost")
RATES = ("learning_rate", "eta")
ELSEWHERE = {"seed": "`seeds`", "metric": "`choose`", "threads": "`--jobs`", "holdout": "the data set"}


def is_tree(model: Any) -> bool:
    """Whether a model's text names a framework of trees.

    Example:
        >>> is_tree("lightgbm:num_leaves=31"), is_tree("mlp")
        (True, False)
    """
    return isinstance(model, str) and model.partition(":")[0].strip().lower() in FRAMEWORKS


def check(settings: Mapping[str, Any]) -> None:
    """Raise what is wrong with the settings of trees, `model` among them; needs no data and no framework."""
    from rankgrad.trees.settings import ranker

    for name, place in ELSEWHERE.items():
        if name in settings:
            bad_value(name, f"be left to {place}", repr(settings[name]))
    ranker(settings).plan()
