"""Compute the metric of boosted trees on the validation lists after every tree."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.data import Dataset
from rankgrad.metrics.custom import as_metric, metric_text


def validation_metric(metric: Any) -> tuple[str, Any]:
    """Return the name and the object of the validation metric of boosted trees.

    The history and the settings contain this name.

    Args:
        metric: spec, metric object, or function of the scores and labels of one list.
    """
    return metric_text(metric), as_metric(metric)


class TreeValidator:
    """The metric on the validation lists after each tree, and the best number of trees."""

    def __init__(self, data: Dataset, metric: Any) -> None:
        self.data, (self.name, self.metric) = data, validation_metric(metric)
        self.values: list[float] = []

    def __call__(self, scores: NDArray[Any]) -> float:
        """Compute the metric of the trees on the validation lists. Store and return the value.

        Args:
            scores: scores of the validation lists, `(documents,)`.
        """
        scores = np.asarray(scores, dtype=np.float32)  # float32 as in `predict`, so that the ties are the same
        values = self.metric.measure(scores, self.data.labels, offsets=self.data.offsets, reduction="none")
        self.values.append(float(values.double().nanmean()))
        return self.values[-1]

    @property
    def best(self) -> int:
        """Best number of boosted trees; 0 before the first tree. If the metric has no value, the last tree is best."""
        if not self.values or np.isnan(self.values).all():
            return len(self.values)
        return 1 + int(np.nanargmax(self.values) if self.metric.higher_is_better else np.nanargmin(self.values))
