"""Check labels and weights before training. Equal labels are an error; other labels and weights cause a warning."""

from typing import Any

import numpy as np

from rankgrad.data.dataset import Dataset
from rankgrad.data.inspection_checks import LARGEST_GRADE
from rankgrad.data.tables.errors import warn_identifying
from rankgrad.data.training_labels import NOTHING_TO_RANK, check_labels_differ, lists_with_different_labels
from rankgrad.errors import warn_caller
from rankgrad.losses.metric_formula import formula
from rankgrad.losses.traits import Traits
from rankgrad.metrics.custom import CustomMetric


def check_lists(
    data: Dataset, validation: Dataset | None, loss: str, traits: Traits, metric: Any, weights: Any = None
) -> Dataset | None:
    """Raise an error if all training labels are equal; warn about other labels, weights and features that teach little.

    Return the validation lists; None, with a warning, if all orders of their documents have the same metric. Otherwise,
    a run would keep its first epoch or tree.

    Args:
        data: training lists.
        validation: validation lists, or None.
        loss: spec or description of the loss.
        traits: traits of the loss.
        metric: metric on the validation lists; a custom metric may differ although all labels are equal.
        weights: document weights `(documents,)`, or None.
    """
    custom = isinstance(metric, CustomMetric)
    if validation is not None and not custom and not len(lists_with_different_labels(validation)):
        told = f"{validation.name or 'the validation data'} has no list whose labels differ"
        warn_caller(f"{told}, so no epoch or tree is chosen by {metric}: the last one is kept")
        validation = None
    check_labels_differ(data)
    warn_identifying(data)
    if len(data.labels) > 1 and not len(lists_with_different_labels(data)):
        name = data.name or "the training data"
        warn_caller(f"{name} has no list whose labels differ, and {NOTHING_TO_RANK}")
    if weights is not None and traits.divides and _only_of_lists(data, weights):
        why = f"{loss} divides the targets of a list by their sum"
        hint = "weights of lists have an effect in softmax and lambdarank"
        warn_caller(f"each list has one weight for all its documents, which has no effect, because {why}: {hint}")
    highest = data.labels.max() if len(data.labels) else 0
    if highest <= LARGEST_GRADE:
        return validation
    users = [loss] if traits.gain else []
    if validation is not None and not custom and formula(metric, (metric.name,)).exp_gain:
        users.append(str(metric))
    if users:
        what = f"the highest label of {data.name or 'the training lists'} is {highest:g}"
        why = f"its gain 2^y - 1 in {' and '.join(users)} is far above all other gains"
        warn_caller(f"{what}, and {why}: map the labels to grades from 0 to {LARGEST_GRADE}")
    return validation


def _only_of_lists(data: Dataset, weights: Any) -> bool:
    """Return True if the weights differ between the lists, but not inside the lists."""
    lengths = data.lengths
    first = np.asarray(weights)[data.offsets[:-1][lengths > 0]]
    return len({*first.tolist()}) > 1 and bool((np.repeat(first, lengths[lengths > 0]) == np.asarray(weights)).all())
