"""Explain how to give the arguments that `fit` has in LightGBM and XGBoost, and not in rankgrad."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from rankgrad.errors import bad_type, mistyped

# Arguments of `fit` in LightGBM and XGBoost, and what to use instead.
_FIT = {
    **dict.fromkeys(("eval_metric", "eval_at"), "a setting of the ranker: metric='nDCG@5'"),
    **dict.fromkeys(("early_stopping_rounds", "early_stopping"), "a setting of the ranker: patience=..."),
    **dict.fromkeys(("categorical_feature", "feature_types"), "a setting of the ranker: categorical=[...]"),
    **dict.fromkeys(("feature_name", "feature_names"), "the columns of a data frame X"),
    **dict.fromkeys(("eval_X", "eval_y"), "eval_set=(X, y)"),
    **dict.fromkeys(("xgb_model", "base_model"), "init_model"),
    **dict.fromkeys(("weight", "weights"), "sample_weight"),
}


def with_hints(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Return `fit` of an estimator with an error that says how to give an argument that it does not have.

    Args:
        fit: method of an estimator.
    """
    known = inspect.signature(fit).parameters

    @functools.wraps(fit)
    def checked(self: Any, *arguments: Any, **options: Any) -> Any:
        for name in sorted(options.keys() - known.keys()):
            if name in _FIT:
                bad_type(name, f"be given as {_FIT[name]}", f"the argument {name} of fit")
            bad_type("arguments of fit", f"be among {', '.join([*known][1:])}", mistyped(name, known))
        return fit(self, *arguments, **options)

    return checked
