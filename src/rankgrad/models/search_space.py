"""Sample random combinations of settings from a search space, for the cells of a recipe and for `rankgrad tune`."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rankgrad.errors import bad_value
from rankgrad.spec import known_options


def draws(space: Mapping[str, Any], trials: int, seed: int) -> list[dict[str, Any]]:
    """Return `trials` random combinations of settings from a search space.

    If the space contains only lists of choices, and at most `trials` combinations, all combinations are returned.

    Args:
        space: mapping from each setting to a list of choices, or to a range `{low, high, log}`.
        trials: number of random combinations.
        seed: random seed of the combinations.

    Example:
        >>> draws({"lr": [0.01, 0.1], "clip": [1.0]}, trials=4, seed=0)
        [{'lr': 0.01, 'clip': 1.0}, {'lr': 0.1, 'clip': 1.0}]
        >>> [setting["epochs"] for setting in draws({"epochs": {"low": 1, "high": 9}}, trials=3, seed=0)]
        [8, 6, 5]
    """
    generator = np.random.default_rng(seed)
    if any(isinstance(choices, Mapping) for choices in space.values()):
        return [{name: _draw(choices, generator) for name, choices in space.items()} for _ in range(trials)]
    sizes = [len(choices) for choices in space.values()]
    places: Sequence[int] = range(math.prod(sizes))
    if trials < len(places):
        places = sorted(generator.choice(len(places), trials, replace=False).tolist())
    # These are indices into a grid in which the last setting changes fastest.
    grids = (np.unravel_index(place, sizes) if sizes else () for place in places)
    return [{name: space[name][at] for name, at in zip(space, grid, strict=True)} for grid in grids]


def count_draws(space: Mapping[str, Any], trials: int) -> int:
    """Return the number of combinations of settings that `draws` would return. No combination is sampled."""
    if any(isinstance(choices, Mapping) for choices in space.values()):
        return trials
    return min(trials, math.prod(map(len, space.values())))


def boundary_values(choices: Any) -> list[Any]:
    """Return the values to check for a setting of a search space: all choices, or both ends of a range."""
    if isinstance(choices, list):
        if not choices:
            bad_value("choices", "have at least one value", "[]")
        return choices
    if not isinstance(choices, Mapping):
        bad_value("choices", "be a list, or a range {low, high, log}", repr(choices))
    known_options("a range", map(str, choices), ("low", "high", "log"))
    low: Any = choices.get("low")
    high: Any = choices.get("high")
    log = choices.get("log", False)
    if not _is_number(low) or not _is_number(high) or not low < high:
        bad_value("range", "have two finite numbers, low < high", dict(choices))
    if not isinstance(log, bool):
        bad_value("log", "be true or false", repr(log))
    if log and low <= 0:
        bad_value("low", "be above 0 in a range with log", low)
    return [low, high]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _draw(choices: Any, generator: np.random.Generator) -> Any:
    if isinstance(choices, list):
        return choices[generator.integers(len(choices))]
    low, high, whole = choices["low"], choices["high"], isinstance(choices["low"] + choices["high"], int)
    if choices.get("log", False):
        value = math.exp(generator.uniform(math.log(low), math.log(high)))
    elif whole:
        return int(generator.integers(low, high + 1))
    else:
        value = float(generator.uniform(low, high))
    # Four significant digits are easy to read and to type.
    return round(value) if whole else min(max(float(f"{value:.4g}"), low), high)
