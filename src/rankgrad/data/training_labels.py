"""Check labels before training, as in `inspect`: equal labels are an error, and large labels cause a warning."""

import re
import warnings

from rankgrad.data.dataset import Dataset
from rankgrad.data.inspection_checks import LARGEST_GRADE, only_grade
from rankgrad.errors import bad_value

# Specs of losses and metrics that use the gain 2^y - 1. A description of a custom loss or metric begins with `own:`.
_GAINS = re.compile(r"^(?!own:)(?!.*gain=.?linear).*(dcg|lambda|unique_softmax|\berr\b)")


def check_labels_differ(data: Dataset) -> None:
    """Raise an error if all training labels are equal, because nothing can be learned from such lists.

    A single document is accepted. The reason: scikit-learn requires that `fit` accepts one row, or that the error of
    `fit` contains the number of rows.
    """
    if (grade := only_grade(data.labels)) is not None and len(data.labels) > 1:
        got = f"{grade:g} for every document of {data.name or 'the training lists'}"
        bad_value("labels", "differ, because otherwise nothing can be learned", got)


def check_training_labels(data: Dataset, loss: str, metric: str | None) -> None:
    """Raise an error if all training labels are equal; warn about labels that are too large for the loss or the metric.

    Args:
        data: training lists.
        loss: spec of the loss, or the description of a custom loss.
        metric: spec of the metric on the validation lists, or the description of a custom metric; None for no metric.
    """
    check_labels_differ(data)
    highest = data.labels.max() if len(data.labels) else 0
    if highest <= LARGEST_GRADE:
        return
    users = [text for text in dict.fromkeys((loss, metric or "")) if _GAINS.search(text.lower())]
    if users:
        what = f"the highest label of {data.name or 'the training lists'} is {highest:g}"
        why = f"its gain 2^y - 1 in {' and '.join(users)} is far above all other gains"
        warnings.warn(f"{what}, and {why}: map the labels to grades from 0 to {LARGEST_GRADE}", stacklevel=3)
