"""Measure the importance of features: the drop of a metric when the values of one feature are shuffled."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rankgrad.data import Dataset
from rankgrad.errors import bad_value
from rankgrad.metrics.evaluate import evaluate


class Scores(Protocol):
    """Model with a method `score`."""

    def score(self, features: Any, offsets: Any = None) -> NDArray[np.float32]: ...


def permutation_importance(
    model: Scores, data: Dataset, metric: Any, *, repeats: int = 3, seed: int = 0
) -> NDArray[np.float64]:
    """Return the drop of a metric for each feature, `(features,)`, when the feature is shuffled over all documents.

    Args:
        model: any trained model.
        data: labelled lists.
        metric: spec or object of the metric.
        repeats: number of shuffles per feature, at least 1.
        seed: random seed of the shuffles.
    """
    from rankgrad.metrics.custom import as_metric

    if repeats < 1:
        bad_value("repeats", "be at least 1", repeats)
    rng, measured = np.random.default_rng(seed), as_metric(metric)
    labels, sign = np.asarray(data.labels), 1.0 if measured.higher_is_better else -1.0

    def value(features: NDArray[np.float32]) -> float:
        scores = model.score(features, data.offsets)
        return sign * next(iter(evaluate(scores, labels, [measured], offsets=data.offsets, bootstrap=0).means.values()))

    shuffled = np.array(data.features, dtype=np.float32)
    whole, drops = value(shuffled), np.zeros(shuffled.shape[1])
    for column in range(shuffled.shape[1]):
        values = shuffled[:, column].copy()
        if (values == values[:1]).all():
            continue  # shuffling does not change a constant feature
        for _ in range(repeats):
            shuffled[:, column] = rng.permutation(values)
            drops[column] += (whole - value(shuffled)) / repeats
        shuffled[:, column] = values
    return drops
