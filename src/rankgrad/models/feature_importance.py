"""Measure the importance of features: how much worse a metric is if a feature is shuffled, or by other methods.

To shuffle a feature is to put its values in random order. The *loss of a metric* is the decrease of the metric after
the shuffle, or the increase if lower values are better. The permutation importance of a feature is the mean loss over
lists and shuffles, in the units of the metric. The confidence interval treats both lists and shuffles as random
samples. A feature that repeats another feature can have an importance near 0, even if the model uses both features,
because the other feature is not shuffled.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.data import Dataset
from rankgrad.data.categories import recode
from rankgrad.data.evaluation import evaluate_lists
from rankgrad.data.sparse_rows import Features, dense, replace_column
from rankgrad.errors import bad_value
from rankgrad.result_table import ResultTable, frame

if TYPE_CHECKING:
    from rankgrad.models.protocol import TrainedModel

Array = NDArray[np.float64]

METHODS = ("permutation", "gain", "split", "gradient")
CONFIDENCE = 0.95
_UNITS = {
    "gain": "share of the gain of all splits",
    "split": "share of all splits",
    "gradient": "share of the effect on the scores",
}


@dataclass(frozen=True)
class FeatureImportance(ResultTable):
    """Importance of each feature of a model. Arrays have the order of the features; tables are sorted, largest first.

    Example:
        >>> one = FeatureImportance(("bm25", "age"), np.array([0.01, 0.2]), None, None, "gain", "share of the gain")
        >>> print(one)
        feature  share of the gain
        age                 0.2000
        bm25                0.0100
    """

    names: tuple[str, ...]  # names of the features
    values: Array  # importance of each feature, `(features,)`
    low: Array | None  # lower ends of the intervals, `(features,)`; None if there are no intervals
    high: Array | None  # upper ends of the intervals, `(features,)`; None if there are no intervals
    method: str  # name of the method
    unit: str  # meaning of the values, such as `loss of nDCG@10`
    metric: str | None = None  # name of the metric; only for permutation importance
    baseline: float | None = None  # value of the metric if no feature is shuffled; only for permutation importance
    lists: int = 0  # number of lists
    repeats: int = 0  # number of shuffles per feature
    confidence: float = CONFIDENCE  # confidence level of the intervals
    _align = staticmethod(str.rjust)

    def order(self, top: int | None = None) -> list[int]:
        """Return the positions of the features, the most important feature first.

        Args:
            top: maximum number of features; None for all features.
        """
        return [int(place) for place in np.argsort(-self.values, kind="stable")[:top]]

    @property
    def found(self) -> tuple[str, ...]:
        """Names of the features whose importance has an interval above 0, the most important feature first."""
        return tuple(self.names[at] for at in self.order() if (self.values if self.low is None else self.low)[at] > 0)

    def rows(self, top: int | None = None) -> list[tuple[str, ...]]:
        """Return the table of feature importances as text: a header, then one row per feature.

        Args:
            top: maximum number of features; None for all features.
        """
        between = () if self.low is None else (f"{self.confidence:.0%} interval",)
        body = []
        for at in self.order(top):
            ends = () if self.low is None or self.high is None else (f"[{self.low[at]:.4f}, {self.high[at]:.4f}]",)
            body.append((self.names[at], f"{self.values[at]:.4f}", *ends))
        return [("feature", self.unit, *between), *body]

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """Return the feature importances as JSON values, the most important feature first.

        Args:
            top: maximum number of features; None for all features.
        """
        features = []
        for at in self.order(top):
            row: dict[str, Any] = {"feature": self.names[at], "importance": float(self.values[at])}
            if self.low is not None and self.high is not None:
                row["interval"] = [float(self.low[at]), float(self.high[at])]
            features.append(row)
        about = {"method": self.method, "unit": self.unit, "metric": self.metric, "baseline": self.baseline}
        about |= {"lists": self.lists, "repeats": self.repeats, "confidence": self.confidence}
        return {**about, "features": features}

    def to_frame(self) -> Any:
        """Return a data frame (pandas or polars) with one row per feature, the most important feature first."""
        order = self.order()
        columns = {"feature": [self.names[at] for at in order], "importance": self.values[order]}
        if self.low is not None and self.high is not None:
            columns |= {"low": self.low[order], "high": self.high[order]}
        return frame(columns)


def measure_importance(
    model: "TrainedModel",
    data: Dataset | None,
    metric: Any,
    method: str = "permutation",
    *,
    repeats: int = 5,
    seed: int = 0,
    within_lists: bool = False,
) -> FeatureImportance:
    """Measure the importance of the features of a model; see `TrainedModel.feature_importance`.

    Args:
        model: any trained model.
        data: labelled lists, or None for methods that need no lists.
        metric: spec or object of the metric.
        method: one of `METHODS`.
        repeats: number of shuffles per feature, at least 1.
        seed: random seed of the shuffles.
        within_lists: True to shuffle a feature within each list.
    """
    if method not in ("permutation", *model.importance_methods):
        known = " or ".join(map(repr, ("permutation", *model.importance_methods)))
        bad_value("method", f"be {known} for {type(model).__name__}", repr(method))
    if data is None and method not in ("gain", "split"):
        bad_value("data", f"be given for the method {method!r}", None)
    data = None if data is None else recode(data.select_features(model.feature_names), model.categories)
    if method == "permutation" and data is not None:
        return permutation_importance(model, data, metric, repeats=repeats, seed=seed, within_lists=within_lists)
    rows = model.own_importance(method, data)
    values, names, lists = rows.mean(axis=0), feature_names(model, data), 0
    if len(rows) == 1:
        return FeatureImportance(names, values, None, None, method, _UNITS[method])
    low, high = _interval(rows[None])
    total = max(float(values.sum()), np.finfo(np.float64).tiny)  # a score has no unit, so only shares have a meaning
    lists = len(rows)
    return FeatureImportance(
        names, values / total, low / total, high / total, method, _UNITS[method], lists=lists, repeats=1
    )


def permutation_importance(
    model: "TrainedModel",
    data: Dataset,
    metric: Any,
    *,
    repeats: int = 5,
    seed: int = 0,
    within_lists: bool = False,
) -> FeatureImportance:
    """Measure, for each feature, how much worse a metric is on average if the values of the feature are shuffled.

    Args:
        model: any trained model.
        data: labelled lists with the features of the model.
        metric: spec or object of the metric. The loss is its decrease, or its increase if lower values are better.
        repeats: number of shuffles per feature, at least 1.
        seed: random seed of the shuffles.
        within_lists: True to shuffle a feature within each list; False to shuffle it over all documents.
    """
    from rankgrad.metrics.custom import as_metric

    if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1:
        bad_value("repeats", "be at least 1", repeats)
    if not len(data.labels):
        bad_value("data", "contain at least one document", "no documents")
    rng, measured = np.random.default_rng(seed), as_metric(metric)
    sign = 1.0 if measured.higher_is_better else -1.0
    owner = np.repeat(np.arange(len(data)), data.lengths)

    def values(features: Features) -> Array:
        scores = model.score_lists(replace(data, features=features))
        return next(iter(evaluate_lists(scores, data, [measured], bootstrap=0).values.values()))

    whole = values(data.features)
    counted = ~np.isnan(whole)  # lists that the metric skips have no value
    losses = np.zeros((repeats, int(counted.sum()), data.features.shape[1]))
    for column in range(data.features.shape[1]):
        kept = dense(data.features[:, [column]])[:, 0]
        if (kept == kept[:1]).all():
            continue  # shuffling does not change a constant feature
        for repeat in range(repeats):
            order = np.lexsort((rng.random(len(kept)), owner)) if within_lists else rng.permutation(len(kept))
            shuffled = replace_column(data.features, column, kept[order])
            losses[repeat, :, column] = sign * (whole - values(shuffled))[counted]
    low, high = _interval(losses)
    return FeatureImportance(
        feature_names(model, data),
        losses.mean(axis=(0, 1)),
        low,
        high,
        "permutation",
        f"loss of {measured}",
        metric=str(measured),
        baseline=float(whole[counted].mean()),
        lists=int(counted.sum()),
        repeats=repeats,
    )


def feature_names(model: "TrainedModel", data: Dataset | None) -> tuple[str, ...]:
    """Return the names of the features; without names, `feature 1`, `feature 2`, ..., with the numbers of LETOR files.

    Args:
        model: trained model.
        data: lists that the model scores, or None.
    """
    known = model.feature_names or (None if data is None else data.feature_names)
    width = model.features if data is None else data.features.shape[1]
    return tuple(map(str, known)) if known else tuple(f"feature {place + 1}" for place in range(width))


def _interval(losses: NDArray[np.float64]) -> tuple[Array, Array]:
    r"""Return the confidence interval of the mean loss of each feature; `losses` is `(repeats, lists, features)`.

    The model of the loss :math:`\ell_{rq}` of list q in shuffle r has two random effects, of lists and of shuffles:
    :math:`\ell_{rq} = \mu + a_q + b_r + e_{rq}`. The variance of the mean is estimated as
    :math:`S_q^2 / Q + S_r^2 / R - S_e^2 / (QR)`. Here :math:`S_q^2` is the variance of the means per list,
    :math:`S_r^2` the variance of the means per shuffle, and :math:`S_e^2` the variance of the residuals. The degrees of
    freedom are Satterthwaite's.
    """
    from scipy.stats import t

    repeats, lists, _ = losses.shape
    mean, of_lists, of_repeats = losses.mean(axis=(0, 1)), losses.mean(axis=0), losses.mean(axis=1)
    if lists < 2:
        unknown = np.full_like(mean, np.nan)
        return unknown, unknown
    first = of_lists.var(axis=0, ddof=1) / lists
    second = np.zeros_like(first)
    if repeats > 1:
        rest = losses - of_lists[None] - of_repeats[:, None] + mean
        error = (rest**2).sum(axis=(0, 1)) / ((repeats - 1) * (lists - 1)) / (repeats * lists)
        second = np.maximum(of_repeats.var(axis=0, ddof=1) / repeats - error, 0.0)
    variance = first + second
    spread = first**2 / (lists - 1) + second**2 / max(repeats - 1, 1)
    freedom = np.divide(variance**2, spread, out=np.full_like(variance, lists - 1.0), where=spread > 0)
    half = t.ppf(0.5 + CONFIDENCE / 2, freedom) * np.sqrt(variance)
    return mean - half, mean + half
