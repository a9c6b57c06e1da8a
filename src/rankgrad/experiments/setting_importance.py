"""Compute the importance of each setting from the trials of a search (`rankgrad tune`)."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np


class SettingWeight(NamedTuple):
    """Importance of one setting of a search."""

    setting: str
    share: float  # share in the drops of R²; R² of the forest drops if the values of the setting are shuffled
    trend: float | None  # rank correlation with the metric; None if the values are texts or all equal


def importance(drawn: Sequence[Mapping[str, Any]], values: Sequence[float]) -> tuple[list[SettingWeight], float]:
    """Return the importance of each setting of a search, highest first, and the out-of-bag R² of a random forest.

    The forest predicts the metric of a trial from its settings. If R² is near or below 0, the forest cannot predict the
    metric, because there are too few trials or no setting matters. Then the shares are noise. Shares are valid only
    inside the ranges that were tried. The best value of one setting may depend on the other settings.

    Args:
        drawn: settings of each trial; all trials must have settings with the same names.
        values: metric of each trial after the same number of epochs; NaN counts as the lowest value.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> drawn = [{"lr": float(rng.random()), "norm": "ab"[place % 2]} for place in range(40)]
        >>> weights, r2 = importance(drawn, [each["lr"] for each in drawn])
        >>> weights[0].setting, weights[0].share > 0.9, weights[0].trend, r2 > 0.8
        ('lr', True, 1.0, True)
    """
    from scipy.stats import spearmanr
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.inspection import permutation_importance

    names = list(drawn[0])
    columns = [_column([each[name] for each in drawn]) for name in names]
    x, y = np.stack(columns, axis=1), np.asarray(values, dtype=np.float64)
    y = np.where(np.isnan(y), np.nanmin(y), y)
    forest = RandomForestRegressor(200, min_samples_leaf=2, oob_score=True, random_state=0).fit(x, y)
    lost = permutation_importance(forest, x, y, n_repeats=20, random_state=0).importances_mean.clip(min=0)
    shares = lost / lost.sum() if lost.sum() > 0 else lost
    found = []
    for name, column, share in zip(names, columns, shares.tolist(), strict=True):
        ordered = not any(isinstance(each[name], str) for each in drawn) and len(set(column.tolist())) > 1
        trend = round(float(spearmanr(column, y).statistic), 2) if ordered and len(set(y.tolist())) > 1 else None
        found.append(SettingWeight(name, share, trend))
    return sorted(found, key=lambda weight: -weight.share), float(forest.oob_score_)


def _column(values: list[Any]) -> Any:
    """Return the values of a setting as numbers for the forest; texts become indices in alphabetical order."""
    if any(isinstance(value, str) for value in values):
        places = {word: place for place, word in enumerate(sorted({str(value) for value in values}))}
        return np.array([places[str(value)] for value in values], dtype=np.float64)
    return np.array(values, dtype=np.float64)
