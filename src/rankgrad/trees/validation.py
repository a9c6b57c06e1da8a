"""Compute the metric of boosted trees on the validation lists after every tree."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.data import Dataset


class TreeValidator:
    """The metric on the validation lists after each tree."""

    def __init__(self, data: Dataset, metric: Any) -> None:
        self.data, self.metric = data, metric

    def value(self, scores: NDArray[Any]) -> float:
        """Return the metric of the trees on the validation lists.

        Args:
            scores: scores of the validation lists, `(documents,)`.
        """
        scores = np.asarray(scores, dtype=np.float32)  # float32 as in `predict`, so that the ties are the same
        values = self.metric.measure(scores, self.data.labels, offsets=self.data.offsets, reduction="none")
        return float(values.double().nanmean())
