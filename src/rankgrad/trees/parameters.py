"""Check the parameters of LightGBM and XGBoost, and seed those that are random anew for each segment of a run."""

import inspect
from typing import Any

import numpy as np

from rankgrad.errors import bad_value, mistyped

# Parameters of LightGBM that `TreeRanker` has under another name.
_OURS = {"num_iterations": "trees", "early_stopping_round": "patience", "objective": "loss", "num_threads": "threads"}
# Parameters of XGBoost that its estimator spells otherwise or does not spell out.
_XGBOOST = {
    "eta", "lambda", "alpha", "min_split_loss", "updater", "refresh_leaf", "process_type", "top_k", "feature_selector",
    "sample_type", "normalize_type", "rate_drop", "one_drop", "skip_drop", "seed_per_iteration", "validate_parameters",
    "max_cached_hist_node", "lambdarank_pair_method", "lambdarank_num_pair_per_sample", "lambdarank_normalization",
    "lambdarank_score_normalization", "lambdarank_unbiased", "lambdarank_bias_norm", "ndcg_exp_gain",
}  # fmt: skip
# Seeds of LightGBM that one parameter each may give; where none does, `seed` decides.
_SEEDS = ("seed", "bagging_seed", "feature_fraction_seed", "drop_seed", "objective_seed", "extra_seed")
# Parameters with which a tree depends on more of the past than a new booster takes up, such as the trees before or
# their number; but for the values that are given here.
_PAST: dict[str, dict[str, tuple[Any, ...]]] = {
    "lightgbm": {
        "boosting": ("gbdt", "gbrt"),  # dart drops trees of before, rf averages them, goss begins without sampling
        "data_sample_strategy": ("bagging",),
        "linear_tree": (False,),  # the first tree is not linear
        "cegb_penalty_feature_lazy": (None, "", ()),  # a feature costs something when it is first used
        "cegb_penalty_feature_coupled": (None, "", ()),
    },
    "xgboost": {
        "booster": ("gbtree", None),  # dart drops trees of before
        "lambdarank_unbiased": (False, None),  # the bias of positions is learned on the way
    },
}


def check_params(params: dict[str, Any], framework: str) -> None:
    """Raise where the framework has no parameter of a name, which it would ignore, or where one is ours to give.

    Args:
        params: of the framework.
        framework: `"lightgbm"` or `"xgboost"`.
    """
    if not params:
        return
    try:
        names, said = _lightgbm_names() if framework == "lightgbm" else _xgboost_names()
    except (ImportError, AttributeError):  # not installed: training says so; or a version that keeps no such list
        return
    for name in params:
        if name in said:
            bad_value(name, f"be given as {said[name]}", f"{name}={params[name]!r}")
        if name not in names:
            bad_value("parameter", f"be one that {framework} has", mistyped(name, sorted(names)))


def seed_of(seed: int, segment: int) -> int:
    """Compute the seed of a segment; the first one has the run's own, so a short run is one of plain LightGBM.

    Args:
        seed: of the run.
        segment: its number, from 0.
    """
    return seed if segment == 0 else int(np.random.SeedSequence([seed, segment]).generate_state(1)[0] >> 1)


def seeded(params: dict[str, Any], segment: int) -> dict[str, Any]:
    """LightGBM's parameters with the seeds of a segment.

    Args:
        params: with the seeds of the run.
        segment: its number, from 0.
    """
    seeds = {name for main in _SEEDS for name in aliases(main)}
    return {name: seed_of(int(value), segment) if name in seeds else value for name, value in params.items()}


def in_segments(params: dict[str, Any], framework: str) -> bool:
    """Whether a run can be cut into segments without a change to what its trees learn.

    Args:
        params: of the framework.
        framework: `"lightgbm"` or `"xgboost"`.
    """
    plain = _PAST[framework]
    names = {name: main for main in plain for name in (aliases(main) if framework == "lightgbm" else {main})}
    return all(value in plain[names[name]] for name, value in params.items() if name in names)


def aliases(name: str) -> set[str]:
    """A parameter of LightGBM and its other names, as far as they are known here.

    Args:
        name: of the parameter.
    """
    try:
        from lightgbm.basic import _ConfigAliases
    except ImportError:  # not installed, or a version that keeps no such list
        return {name}
    return {name, *_ConfigAliases.get(name)}


def _lightgbm_names() -> tuple[set[str], dict[str, str]]:
    """All names of LightGBM's parameters; and those for which there is another here."""
    from lightgbm.basic import _ConfigAliases

    known = _ConfigAliases._get_all_param_aliases()
    said = {alias: ours for theirs, ours in _OURS.items() for alias in (theirs, *known.get(theirs, ()))}
    return {*known, *(name for others in known.values() for name in others)}, said


def _xgboost_names() -> tuple[set[str], dict[str, str]]:
    """The names that XGBoost's own estimator takes, and those that only `xgboost.train` knows."""
    import xgboost

    return {*inspect.signature(xgboost.XGBModel.__init__).parameters, *_XGBOOST}, {}
