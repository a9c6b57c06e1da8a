"""Check labels and weights before training. Equal labels are an error; other labels and weights cause a warning."""

import re
import warnings
from typing import Any

import numpy as np

from rankgrad.data.dataset import Dataset
from rankgrad.data.inspection_checks import LARGEST_GRADE, only_grade
from rankgrad.errors import bad_value

# Specs of losses and metrics that use the gain 2^y - 1. A description of a custom loss or metric begins with `own:`.
_GAINS = re.compile(r"^(?!own:)(?!.*gain=.?linear).*(dcg|lambda|unique_softmax|\berr\b)")
# Specs of losses that divide the targets of a list by their sum.
_DIVIDED = re.compile(r"^(listnet|xe_ndcg)\b", re.IGNORECASE)


def check_labels_differ(data: Dataset) -> None:
    """Raise an error if all training labels are equal, because nothing can be learned from such lists.

    A single document is accepted. The reason: scikit-learn requires that `fit` accepts one row, or that the error of
    `fit` contains the number of rows.
    """
    if (grade := only_grade(data.labels)) is not None and len(data.labels) > 1:
        got = f"{grade:g} for every document of {data.name or 'the training lists'}"
        bad_value("labels", "differ, because otherwise nothing can be learned", got)


def check_training_labels(data: Dataset, loss: str, metric: str | None, weights: Any = None) -> None:
    """Raise an error if all training labels are equal; warn about too large labels, and about weights without effect.

    Args:
        data: training lists.
        loss: spec of the loss, or the description of a custom loss.
        metric: spec of the metric on the validation lists, or the description of a custom metric; None for no metric.
        weights: document weights `(documents,)`; None for the weights of `data`.
    """
    check_labels_differ(data)
    weights = data.weights if weights is None else weights
    if weights is not None and _DIVIDED.match(loss) and _only_of_lists(data, weights):
        why = f"{loss} divides the targets of a list by their sum"
        hint = "weights of lists have an effect in softmax and lambdarank"
        warnings.warn(
            f"each list has one weight for all its documents, which has no effect, because {why}: {hint}", stacklevel=3
        )
    highest = data.labels.max() if len(data.labels) else 0
    if highest <= LARGEST_GRADE:
        return
    users = [text for text in dict.fromkeys((loss, metric or "")) if _GAINS.search(text.lower())]
    if users:
        what = f"the highest label of {data.name or 'the training lists'} is {highest:g}"
        why = f"its gain 2^y - 1 in {' and '.join(users)} is far above all other gains"
        warnings.warn(f"{what}, and {why}: map the labels to grades from 0 to {LARGEST_GRADE}", stacklevel=3)


def _only_of_lists(data: Dataset, weights: Any) -> bool:
    """Return True if the weights differ between the lists, but not inside the lists."""
    lengths = data.lengths
    first = np.asarray(weights)[data.offsets[:-1][lengths > 0]]
    return len({*first.tolist()}) > 1 and bool((np.repeat(first, lengths[lengths > 0]) == weights).all())
