"""Distillation: a small ranker learns from the scores of a teacher instead of labels.

The teacher may be a bigger encoder, a fusion of several rankers, or any ordering of the documents, such as the answer
of a language model. Any loss of `rankgrad.losses` can be used. `listnet:targets=softmax` compares the score
distributions of student and teacher, and `margin_mse` compares score differences. Pairwise losses use only the order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rankgrad.data import Dataset
from rankgrad.errors import bad_value, one_of
from rankgrad.text.fusion import STANDARDISE, standardised


def teacher_labels(
    data: Dataset,
    scores: Any,
    *,
    standardise: str = "none",
    temperature: float = 1.0,
) -> Dataset:
    r"""Return the data set with labels from teacher scores, :math:`y_i = (t_i - \min_j t_j) / T` in each list.

    In each list, the differences between labels are the differences between teacher scores, divided by T. The lowest
    label of a list is 0, because most losses do not allow negative labels. The scale of the teacher's scores has an
    effect on losses that compare scores. With `standardise`, the scale is the same in all lists.

    Args:
        data: lists that the student learns from.
        scores: teacher scores, `(documents,)`.
        standardise: `"none"` to use the scores as they are; `"zscore"` to divide the scores of each list by the
            standard deviation of these scores; `"minmax"` to divide them by their range (maximum minus minimum).
        temperature: T. With a smaller value, a softmax of the labels is sharper.
    """
    one_of("standardise", standardise, STANDARDISE)
    if not isinstance(temperature, int | float) or not 0 < temperature < float("inf"):
        bad_value("temperature", "be above 0 and finite", repr(temperature))
    found = np.asarray(scores, dtype=np.float64)
    if found.shape != data.labels.shape:
        bad_value("scores", f"have one score per document, {data.labels.shape}", found.shape)
    if not np.isfinite(found).all():
        bad_value("scores", "be finite", "NaN or infinity")
    labels = np.empty(len(found), dtype=np.float32)
    for start, end in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        if end > start:
            part = standardised(found[start:end, None], standardise)[:, 0]
            labels[start:end] = (part - part.min()) / temperature
    return replace(data, labels=labels)


def labels_from_order(data: Dataset, order: Mapping[str, Sequence[str]]) -> Dataset:
    """Return the data set with labels from an order of documents: n for the first of n documents, 1 for the last.

    Documents outside of the order have label 0. Choose a loss that only uses the order of labels, such as `ranknet`.

    Args:
        data: lists that the student learns from, with document ids.
        order: document ids of each query, best first; for example, from the answer of a language model.
    """
    if data.docids is None:
        bad_value("data", "have document ids", "docids=None")
    labels = np.zeros(len(data.labels), dtype=np.float32)
    for number, query in enumerate(data.qids.tolist()):
        rows = range(int(data.offsets[number]), int(data.offsets[number + 1]))
        ranked = list(order.get(str(query), ()))
        if len(set(ranked)) != len(ranked):
            bad_value("order", "contain each document of a query at most once", f"a repeated id in query {query!r}")
        value = {document: len(ranked) - place for place, document in enumerate(ranked)}
        for row in rows:
            labels[row] = value.get(str(data.docids[row]), 0)
    return replace(data, labels=labels)
