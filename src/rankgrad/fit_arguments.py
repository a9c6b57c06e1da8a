"""Explain how to give the arguments that `fit` has in LightGBM and XGBoost, and not in rankgrad."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from rankgrad.errors import bad_type, mistyped

# Arguments of `fit` in LightGBM, XGBoost and CatBoost, and what to use instead: an argument of `fit` or a setting of
# the ranker, if it exists for the ranker.
_INSTEAD = {
    **dict.fromkeys(("eval_metric", "eval_at"), "metric='nDCG@5'"),
    **dict.fromkeys(("early_stopping_rounds", "early_stopping"), "patience=..."),
    **dict.fromkeys(("categorical_feature", "categorical_features", "cat_features"), "categorical=[...]"),
    "feature_types": "categorical=[...]",
    **dict.fromkeys(("feature_name", "feature_names"), "the columns of a data frame X"),
    **dict.fromkeys(("eval_X", "eval_y"), "eval_set=(X, y)"),
    **dict.fromkeys(("xgb_model", "base_model"), "init_model"),
    **dict.fromkeys(("weight", "weights"), "sample_weight"),
    "trackers": "callbacks=[...], functions that receive each row of the log",  # for rankers without trackers
}
_POSITION = "be left out, because position bias is not estimated yet (a weight per row can correct it: sample_weight)"


def with_hints(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Return `fit` of an estimator with an error that says how to give an argument that it does not have.

    Args:
        fit: method of an estimator.
    """
    known = inspect.signature(fit).parameters

    @functools.wraps(fit)
    def checked(self: Any, *arguments: Any, **options: Any) -> Any:
        for name in sorted(options.keys() - known.keys()):
            got = f"the argument {name} of fit"
            if name in ("position", "positions"):
                bad_type(name, _POSITION, got)
            settings = inspect.signature(type(self)).parameters
            instead = f"{name}=..." if name in settings else _INSTEAD.get(name, "")
            target = instead.partition("=")[0]
            if target in settings:
                bad_type(name, f"be given as a setting of the ranker: {instead}", got)
            if instead and (target in known or " " in target):
                bad_type(name, f"be given as {instead}", got)
            bad_type("arguments of fit", f"be among {', '.join([*known][1:])}", *mistyped(name, known))
        return fit(self, *arguments, **options)

    return checked
