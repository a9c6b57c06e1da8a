"""Find the lists whose labels differ. Only from these lists, a ranker can learn an order."""

import numpy as np
from numpy.typing import NDArray

from rankgrad.data.dataset import Dataset
from rankgrad.data.inspection_checks import only_grade
from rankgrad.errors import bad_value

NOTHING_TO_RANK = "there is nothing to rank in other lists (is the query id the number of a row?)"


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
