"""Distillation: a small ranker learns from the scores of a teacher instead of labels.

The teacher may be a bigger encoder, a fusion of several rankers, or any order, such as the order that a language model
gives. Any loss of `rankgrad.losses` can be used: `listnet:targets=softmax` compares the distributions of the scores,
`margin_mse` the differences of scores, and pairwise losses only use the order.
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

    Differences of labels are those of the teacher's scores, and the lowest label of a list is 0, because most losses
    need labels of at least 0. The scale of a teacher matters for losses that compare scores: with `standardise`, it is
    the same in each list.

    Args:
        data: lists that the student learns from.
        scores: teacher scores, `(documents,)`.
        standardise: `"none"`; `"zscore"` divides the scores of each list by their standard deviation; `"minmax"`
            divides them by their range.
        temperature: T; a small value makes a softmax of the labels sharp.
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
    """Return the data set with labels from an order of documents: the last of n ordered documents has label 1.

    Documents that are not in the order have label 0. Use a loss that only uses the order of labels, such as `ranknet`.

    Args:
        data: lists that the student learns from, with document ids.
        order: document ids per query, best first; for example, the answer of a language model.
    """
    if data.docids is None:
        bad_value("data", "have document ids", "None as docids")
    labels = np.zeros(len(data.labels), dtype=np.float32)
    for number, query in enumerate(data.qids.tolist()):
        rows = range(int(data.offsets[number]), int(data.offsets[number + 1]))
        ranked = list(order.get(str(query), ()))
        if len(set(ranked)) != len(ranked):
            bad_value("order", "contain each document of a query once", f"a repeated id in query {query!r}")
        value = {document: len(ranked) - place for place, document in enumerate(ranked)}
        for row in rows:
            labels[row] = value.get(str(data.docids[row]), 0)
    return replace(data, labels=labels)
