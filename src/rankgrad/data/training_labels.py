"""Check labels and weights before training. Equal labels are an error; other labels and weights cause a warning."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.custom_objects import CUSTOM_PREFIX
from rankgrad.data.dataset import Dataset
from rankgrad.data.inspection_checks import LARGEST_GRADE, only_grade
from rankgrad.data.tables.errors import warn_identifying
from rankgrad.errors import bad_value, warn_caller
from rankgrad.spec import weighted_terms

# Specs of losses and metrics that use the gain 2^y - 1. A description of a custom loss or metric begins with `own:`.
_GAINS = re.compile(r"^(?!own:)(?!.*gain=.?linear).*(dcg|lambda|unique_softmax|\berr\b)")
NOTHING_TO_RANK = "there is nothing to rank in other lists (is the query id the number of a row?)"
# Specs of losses that divide the targets of a list by their sum.
_DIVIDED = re.compile(r"^(listnet|xe_ndcg)\b", re.IGNORECASE)


def lists_with_different_labels(data: Dataset) -> NDArray[np.int64]:
    """Return the indices of the lists in which the labels differ.

    Args:
        data: labelled lists.
    """
    labels, owner = np.asarray(data.labels), np.repeat(np.arange(len(data)), data.lengths)
    if not len(owner):
        return np.zeros(0, np.int64)
    first = labels[np.minimum(data.offsets[:-1], len(owner) - 1)]
    return np.unique(owner[labels != first[owner]])


def check_labels_differ(data: Dataset) -> None:
    """Raise an error if all training labels are equal, because nothing can be learned from such lists.

    A single document is accepted. The reason: scikit-learn requires that `fit` accepts one row, or that the error of
    `fit` contains the number of rows.
    """
    if (grade := only_grade(data.labels)) is not None and len(data.labels) > 1:
        got = f"{grade:g} for every document of {data.name or 'the training lists'}"
        bad_value("labels", "differ, because otherwise nothing can be learned", got)


def useful_validation(validation: Dataset | None, metric: str) -> Dataset | None:
    """Return the validation lists; None, with a warning, if all orders of their documents have the same metric.

    Otherwise, a run would keep its first epoch or tree.

    Args:
        validation: validation lists, or None.
        metric: spec of the metric on the validation lists, or the description of a custom metric, which may differ.
    """
    if validation is None or metric.startswith("own:") or len(lists_with_different_labels(validation)):
        return validation
    told = f"{validation.name or 'the validation data'} has no list whose labels differ"
    warn_caller(f"{told}, so no epoch or tree is chosen by {metric}: the last one is kept")
    return None


def check_training_labels(data: Dataset, loss: str, metric: str | None, weights: Any = None) -> None:
    """Raise an error if all training labels are equal; warn about other labels, weights and features that teach little.

    Args:
        data: training lists.
        loss: spec of the loss, or the description of a custom loss.
        metric: spec of the metric on the validation lists, or the description of a custom metric; None for no metric.
        weights: document weights `(documents,)`; None for the weights of `data`.
    """
    check_labels_differ(data)
    warn_identifying(data)
    if len(data.labels) > 1 and not len(lists_with_different_labels(data)):
        name = data.name or "the training data"
        warn_caller(f"{name} has no list whose labels differ, and {NOTHING_TO_RANK}")
    weights = data.weights if weights is None else weights
    if weights is not None and _divides(loss) and _only_of_lists(data, weights):
        why = f"{loss} divides the targets of a list by their sum"
        hint = "weights of lists have an effect in softmax and lambdarank"
        warn_caller(f"each list has one weight for all its documents, which has no effect, because {why}: {hint}")
    highest = data.labels.max() if len(data.labels) else 0
    if highest <= LARGEST_GRADE:
        return
    users = [text for text in dict.fromkeys((loss, metric or "")) if _GAINS.search(text.lower())]
    if users:
        what = f"the highest label of {data.name or 'the training lists'} is {highest:g}"
        why = f"its gain 2^y - 1 in {' and '.join(users)} is far above all other gains"
        warn_caller(f"{what}, and {why}: map the labels to grades from 0 to {LARGEST_GRADE}")


def _divides(loss: str) -> bool:
    """Return True if the loss divides the targets of a list by their sum; of a weighted sum, all terms must do so."""
    if loss.startswith(CUSTOM_PREFIX):
        return False
    return all(_DIVIDED.match(term) for _, term in weighted_terms("loss", loss))


def _only_of_lists(data: Dataset, weights: Any) -> bool:
    """Return True if the weights differ between the lists, but not inside the lists."""
    lengths = data.lengths
    first = np.asarray(weights)[data.offsets[:-1][lengths > 0]]
    return len({*first.tolist()}) > 1 and bool((np.repeat(first, lengths[lengths > 0]) == weights).all())
