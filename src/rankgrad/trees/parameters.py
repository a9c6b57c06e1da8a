"""Check the parameters of a framework of boosted trees, and choose its random seed for each segment of a run."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from rankgrad.errors import bad_value, mistyped
from rankgrad.trees.frameworks import framework_named

# Names that LightGBM, XGBoost and their estimators use for settings of `TreeRanker`.
ALIASES = {
    "n_estimators": "trees", "num_boost_round": "trees", "num_iterations": "trees", "num_iteration": "trees",
    "num_trees": "trees", "num_tree": "trees", "num_round": "trees", "num_rounds": "trees", "nrounds": "trees",
    "early_stopping_rounds": "patience", "early_stopping_round": "patience", "early_stopping": "patience",
    "random_state": "seed", "random_seed": "seed",
    "n_jobs": "threads", "num_threads": "threads", "num_thread": "threads", "nthread": "threads", "nthreads": "threads",
}  # fmt: skip
# Parameters that could have no effect, or that would make another model than a ranker.
_REFUSED = {
    "missing": "not be given, because NaN is the missing value (replace other values in the features by NaN)",
    "importance_type": "be given as method of feature_importance",
    "num_class": "not be given, because a ranker has one score per document",
    "multi_strategy": "not be given, because a ranker has one score per document",
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
    """Check that all parameters exist in the framework, have an effect, and are not settings of `TreeRanker`.

    This check is necessary because the frameworks ignore unknown parameters.

    Args:
        params: parameters of the framework.
        framework: name of the framework.
        native: True if the loss is an objective of the framework.
    """
    if not params:
        return
    described = framework_named(framework)
    try:
        names, settings, mains = described.parameters()
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
        if not native and name in {alias for each in described.of_objectives for alias in described.aliases(each)}:
            must = "not be given with a loss of rankgrad, which has no such parameter (a loss `native:...` may have it)"
            bad_value(name, must, f"{name}={params[name]!r}")


def seed_of(seed: int, segment: int) -> int:
    """Return the value of the framework's parameter `seed` for a segment. The first segment has the seed of the run.

    Args:
        seed: random seed of the run.
        segment: number of the segment, from 0.
    """
    return seed if segment == 0 else int(np.random.SeedSequence([seed, segment]).generate_state(1)[0] >> 1)


def in_segments(params: dict[str, Any], framework: str) -> bool:
    """Return True if a run with these parameters can be split into segments.

    With such parameters, a tree depends only on the current scores. It does not depend on earlier trees.

    Args:
        params: parameters of the framework.
        framework: name of the framework.
    """
    described = framework_named(framework)
    plain = described.past
    names = {name: main for main in plain for name in described.aliases(main)}
    return all(value in plain[names[name]] for name, value in params.items() if name in names)


def drops_trees(params: Mapping[str, Any]) -> bool:
    """Return True if the parameters choose DART, which drops and rescales earlier trees.

    Args:
        params: parameters of a framework; only the parameter that chooses the booster has the value `dart`.
    """
    return any(isinstance(value, str) and value == "dart" for value in params.values())
