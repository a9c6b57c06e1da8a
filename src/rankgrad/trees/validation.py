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
    """The metric on the validation lists after each tree."""

    def __init__(self, data: Dataset, metric: Any) -> None:
        self.data, self.metric = data, validation_metric(metric)[1]

    def value(self, scores: NDArray[Any]) -> float:
        """Return the metric of the trees on the validation lists.

        Args:
            scores: scores of the validation lists, `(documents,)`.
        """
        scores = np.asarray(scores, dtype=np.float32)  # float32 as in `predict`, so that the ties are the same
        values = self.metric.measure(scores, self.data.labels, offsets=self.data.offsets, reduction="none")
        return float(values.double().nanmean())
