"""Check the parameters of LightGBM and XGBoost, and set their random seeds for each segment of a run."""

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from rankgrad.errors import bad_value, mistyped, name_settings

# Names that LightGBM, XGBoost and their estimators use for settings of `TreeRanker`.
ALIASES = {
    "n_estimators": "trees", "num_boost_round": "trees", "num_iterations": "trees", "num_iteration": "trees",
    "num_trees": "trees", "num_tree": "trees", "num_round": "trees", "num_rounds": "trees", "nrounds": "trees",
    "early_stopping_rounds": "patience", "early_stopping_round": "patience", "early_stopping": "patience",
    "random_state": "seed", "random_seed": "seed",
    "n_jobs": "threads", "num_threads": "threads", "num_thread": "threads", "nthread": "threads", "nthreads": "threads",
}  # fmt: skip
# Parameters of LightGBM that have a different name in `TreeRanker`.
_OURS = {
    "num_iterations": "trees", "early_stopping_round": "patience", "objective": "loss", "num_threads": "threads",
    "categorical_feature": "categorical", "eval_at": name_settings("metric (such as {metric='nDCG@5'})"),
}  # fmt: skip
# Parameters of XGBoost's estimator that have a different name in `TreeRanker`.
_OURS_OF_XGBOOST = {"enable_categorical": "categorical", "feature_types": "categorical"}
# Parameters that only objectives of the framework use.
_OBJECTIVE = {
    "lightgbm": {
        "label_gain", "lambdarank_truncation_level", "lambdarank_norm", "lambdarank_position_bias_regularization",
        "sigmoid", "is_unbalance", "scale_pos_weight", "reg_sqrt", "boost_from_average",
    },
    "xgboost": {
        "lambdarank_pair_method", "lambdarank_num_pair_per_sample", "lambdarank_normalization",
        "lambdarank_score_normalization", "lambdarank_unbiased", "lambdarank_bias_norm", "ndcg_exp_gain",
        "scale_pos_weight",
    },
}  # fmt: skip
# Parameters of XGBoost that XGBoost's estimator does not have, or that have a different name there.
_XGBOOST = {
    "eta", "lambda", "alpha", "min_split_loss", "updater", "refresh_leaf", "process_type", "top_k", "feature_selector",
    "sample_type", "normalize_type", "rate_drop", "one_drop", "skip_drop", "seed_per_iteration", "validate_parameters",
    "max_cached_hist_node", "lambdarank_pair_method", "lambdarank_num_pair_per_sample", "lambdarank_normalization",
    "lambdarank_score_normalization", "lambdarank_unbiased", "lambdarank_bias_norm", "ndcg_exp_gain",
}  # fmt: skip
# Two names of one parameter of XGBoost.
_SAME_IN_XGBOOST = {"eta": "learning_rate", "lambda": "reg_lambda", "alpha": "reg_alpha", "min_split_loss": "gamma"}
# Parameters that could have no effect, or that would make another model than a ranker.
_REFUSED = {
    "missing": "not be given, because NaN is the missing value (replace other values in the features by NaN)",
    "importance_type": "be given as method of feature_importance",
    "num_class": "not be given, because a ranker has one score per document",
    "multi_strategy": "not be given, because a ranker has one score per document",
}
# Parameters of LightGBM that are random seeds. LightGBM computes the seeds that are not given from `seed`.
_SEEDS = ("seed", "bagging_seed", "feature_fraction_seed", "drop_seed", "objective_seed", "extra_seed")
# With some values of these parameters, a tree depends on earlier trees or on the number of earlier trees. With the
# values in this table, a tree depends only on the current scores.
_PAST: dict[str, dict[str, tuple[Any, ...]]] = {
    "lightgbm": {
        "boosting": ("gbdt", "gbrt"),  # dart drops earlier trees, rf averages all trees, goss starts without sampling
        "data_sample_strategy": ("bagging",),
        "linear_tree": (False,),  # the first tree is not linear
        "cegb_penalty_feature_lazy": (None, "", ()),  # the first use of a feature has a cost
        "cegb_penalty_feature_coupled": (None, "", ()),
    },
    "xgboost": {
        "booster": ("gbtree", None),  # dart drops earlier trees
        "lambdarank_unbiased": (False, None),  # the position bias is learned during training
    },
}


def own_names(given: Mapping[str, Any]) -> dict[str, Any]:
    """Rename settings to their names in `TreeRanker`. It is an error if a setting occurs twice, by different names.

    `random_state=None` is ignored, because `TreeRanker` always has a random seed.

    Args:
        given: settings of `TreeRanker` and parameters of the framework, by any of their names.

    Example:
        >>> own_names({"n_estimators": 100, "random_state": None, "num_leaves": 15})
        {'trees': 100, 'num_leaves': 15}
    """
    found: dict[str, Any] = {}
    names: dict[str, str] = {}
    for name, value in given.items():
        own = ALIASES.get(name, name)
        if own in names:
            bad_value(own, "be given only once", f"{names[own]}={found[own]!r} and {name}={value!r}")
        if not (name != own == "seed" and value is None):
            found[own], names[own] = value, name
    return found


def check_params(params: dict[str, Any], framework: str, native: bool) -> None:
    """Check that all parameters exist in LightGBM or XGBoost, have an effect, and are not settings of `TreeRanker`.

    This check is necessary because the frameworks ignore unknown parameters.

    Args:
        params: parameters of the framework.
        framework: `"lightgbm"` or `"xgboost"`.
        native: True if the loss is an objective of the framework.
    """
    if not params:
        return
    try:
        names, settings, mains = _lightgbm_names() if framework == "lightgbm" else _xgboost_names()
    # The framework is not installed, or its version has no list of parameters. Training raises an error if necessary.
    except (ImportError, AttributeError):
        return
    first: dict[str, str] = {}
    for name in params:
        if name in settings:
            bad_value(name, "be given as " + settings[name], f"{name}={params[name]!r}")
        main = mains.get(name, name)
        if main in _REFUSED and params[name] is not None and params[name] == params[name]:  # NaN is XGBoost's default
            bad_value(name, _REFUSED[main], f"{name}={params[name]!r}")
        if name == "booster" and params[name] not in ("gbtree", "dart", None):
            bad_value(name, "be gbtree or dart", f"{name}={params[name]!r}")
        same = first.setdefault(main, name)
        if same != name:
            bad_value(same, "be given only once", f"{same}={params[same]!r} and {name}={params[name]!r}")
        if name not in names:
            bad_value("parameter", f"be a parameter of {framework}", *mistyped(name, sorted(names)))
        used_by = {
            alias for each in _OBJECTIVE[framework] for alias in (aliases(each) if framework == "lightgbm" else {each})
        }
        if name in used_by and not native:
            must = "not be given with a loss of rankgrad, which has no such parameter (a loss `native:...` may have it)"
            bad_value(name, must, f"{name}={params[name]!r}")


def seed_of(seed: int, segment: int) -> int:
    """Return the value of the framework's parameter `seed` for a segment. The first segment has the seed of the run.

    Args:
        seed: random seed of the run.
        segment: number of the segment, from 0.
    """
    return seed if segment == 0 else int(np.random.SeedSequence([seed, segment]).generate_state(1)[0] >> 1)


def seeded(params: dict[str, Any], segment: int) -> dict[str, Any]:
    """Return a copy of LightGBM's parameters that has the random seeds of a segment.

    Args:
        params: parameters with the random seeds of the run.
        segment: number of the segment, from 0.
    """
    seeds = {name for main in _SEEDS for name in aliases(main)}
    return {name: seed_of(int(value), segment) if name in seeds else value for name, value in params.items()}


def in_segments(params: dict[str, Any], framework: str) -> bool:
    """Return True if a run with these parameters can be split into segments.

    With such parameters, a tree depends only on the current scores. It does not depend on earlier trees.

    Args:
        params: parameters of the framework.
        framework: `"lightgbm"` or `"xgboost"`.
    """
    plain = _PAST[framework]
    names = {name: main for main in plain for name in (aliases(main) if framework == "lightgbm" else {main})}
    return all(value in plain[names[name]] for name, value in params.items() if name in names)


def drops_trees(params: dict[str, Any], framework: str) -> bool:
    """Return True if the parameters choose DART, which drops and rescales earlier trees.

    Args:
        params: parameters of the framework.
        framework: `"lightgbm"` or `"xgboost"`.
    """
    names = aliases("boosting") if framework == "lightgbm" else {"booster"}
    return any(params.get(name) == "dart" for name in names)


def aliases(name: str) -> set[str]:
    """Return the name and all aliases of a parameter of LightGBM.

    Args:
        name: name of the parameter.
    """
    try:
        from lightgbm.basic import _ConfigAliases
    except ImportError:  # LightGBM is not installed, or its version has no list of aliases
        return {name}
    return {name, *_ConfigAliases.get(name)}


def _lightgbm_names() -> tuple[set[str], dict[str, str], dict[str, str]]:
    """Return the names of all parameters of LightGBM, and two mappings.

    The first maps parameters that `TreeRanker` sets to the settings of `TreeRanker`, the second maps each alias to the
    main name of the parameter.
    """
    from lightgbm.basic import _ConfigAliases

    known = _ConfigAliases._get_all_param_aliases()
    settings = {alias: ours for theirs, ours in _OURS.items() for alias in (theirs, *known.get(theirs, ()))}
    mains = {alias: main for main, others in known.items() for alias in others}
    return {*known, *mains}, settings, mains


def _xgboost_names() -> tuple[set[str], dict[str, str], dict[str, str]]:
    """Return the names of all parameters of XGBoost, and two mappings as in `_lightgbm_names`."""
    import xgboost

    return {*inspect.signature(xgboost.XGBModel.__init__).parameters, *_XGBOOST}, _OURS_OF_XGBOOST, _SAME_IN_XGBOOST
