"""Use any function as a metric. `as_metric` gives it the same interface as a metric that is made from a spec."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rankgrad.custom_objects import CUSTOM_PREFIX, CallSignature, check_callable, describe, only_described
from rankgrad.errors import bad_type, bad_value
from rankgrad.lists import as_lists, reduce
from rankgrad.metrics.metric import Metric, parse_metric


class CustomMetric:
    """A custom metric with the interface of `Metric`; `str(metric)` is only a description, not a spec.

    Args:
        function: function that returns a number for the scores and labels of one list, both `(n,)` on the CPU. If the
            number is NaN, the list is excluded from the mean, like a list without documents. If lower values are
            better, set `function.higher_is_better` to False.
    """

    def __init__(self, function: Callable[[Tensor, Tensor], Any]) -> None:
        takes = CallSignature(function)
        if takes.swapped or not takes.fits(2):
            bad_value("metric", "be a function of (scores, labels), in this order", f"{describe(function)}{takes}")
        self.function = function
        self.higher_is_better = bool(getattr(function, "higher_is_better", True))

    @property
    def conventions(self) -> dict[str, str]:
        """Gain, empty, ties and k. All have the value `own`: only the author of the metric knows its conventions."""
        return dict.fromkeys(("gain", "empty", "ties", "k"), "own")

    def measure(
        self,
        scores: Any,
        labels: Any,
        *,
        mask: Any = None,
        offsets: Any = None,
        ids: Any = None,
        reduction: str = "mean",
    ) -> Tensor:
        """Return the reduced values of a custom metric on the lists. A list without documents has the value NaN.

        Args:
            scores, labels, mask, offsets: the lists; see `rankgrad.metrics`.
            ids: ignored.
            reduction: `"none"`, or `"sum"` or `"mean"` over the lists whose value is not NaN.
        """
        lists = as_lists(scores, labels, mask=mask, offsets=offsets)
        parts = [part.detach().cpu() for part in (lists.scores, lists.labels, lists.mask)]
        rows = zip(*(part.reshape(-1, part.shape[-1]) for part in parts), strict=True)
        values = torch.tensor([self._of_one(row[real], label[real]) for row, label, real in rows], dtype=torch.float64)
        values = values.reshape(lists.scores.shape[:-1]).to(lists.scores.device)
        if reduction == "none":
            return values
        counted = ~values.isnan()
        if reduction == "mean" and not bool(counted.any()):
            return values.new_full((), math.nan)
        return reduce(torch.where(counted, values, 0.0), counted, reduction)

    def _of_one(self, scores: Tensor, labels: Tensor) -> float:
        if len(scores) == 0:
            return math.nan
        value = self.function(scores, labels)
        must = "return one number per list"
        size = value.numel() if isinstance(value, Tensor) else np.size(value)
        try:
            return float(value) if size == 1 else bad_value("metric", must, f"{size} numbers from {self}")
        except TypeError:
            bad_type("metric", must, f"{type(value).__name__} from {self}")

    def __repr__(self) -> str:
        return f"{CUSTOM_PREFIX}{describe(self.function)}"


def as_metric(metric: Any) -> Metric | CustomMetric:
    """Make a metric from a spec or from a function; a metric is returned unchanged.

    Args:
        metric: a spec such as `"nDCG@10"`, a `Metric`, or a function of the scores and labels of one list.

    Example:
        >>> def first_is_relevant(scores, labels):
        ...     return float(labels[scores.argmax()] > 0)
        >>> as_metric(first_is_relevant).measure(torch.tensor([[2.0, 1.0], [0.0, 1.0]]), torch.tensor([[1, 0], [1, 0]]))
        tensor(0.5000, dtype=torch.float64)
    """
    if isinstance(metric, Metric | CustomMetric):
        return metric
    if isinstance(metric, str):
        only_described("metric", metric)
        return parse_metric(metric)
    if isinstance(metric, type):
        bad_type("metric", "be an object or a function", f"the class {metric.__name__}")
    check_callable("metric", metric, "a spec such as 'nDCG@10', a Metric, or a function of (scores, labels)")
    return CustomMetric(metric)


def metric_text(metric: Any) -> str:
    """Return the spec of a metric, or a description if the metric is custom and cannot be made from a spec.

    Args:
        metric: a spec, a `Metric` or a function; see `as_metric`.
    """
    if isinstance(metric, str):
        return metric
    text = str(as_metric(metric))
    if isinstance(metric, Metric):
        try:
            same = parse_metric(text) == metric
        except (ValueError, TypeError):  # the name of a gain function cannot be parsed
            same = False
        return text if same else CUSTOM_PREFIX + text
    return text
