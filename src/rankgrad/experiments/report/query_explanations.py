"""Explain the worst lists of a trained ranker, for the query explorer.

An explanation names the features that put one document above another document.
"""

import time
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.data import Dataset
from rankgrad.data.categories import recode
from rankgrad.data.sparse_rows import dense
from rankgrad.metrics import parse_metric
from rankgrad.models.feature_importance import feature_names
from rankgrad.models.protocol import TrainedModel

SECONDS = 5.0  # after this time, no more lists are explained
_LISTS = 200  # maximum number of explained lists
_TERMS = 4  # number of features per explanation


def explain_queries(
    model: TrainedModel, lists: Dataset, scores: NDArray[Any], values: NDArray[np.float64], metric: str
) -> dict[str, Any]:
    """Return explanations by query id, worst list first; empty if the ranker cannot compute contributions of features.

    Lists without a relevant document are last.

    Args:
        model: trained model.
        lists: labelled lists.
        scores: scores of the model, `(documents,)`.
        values: metric of each list, `(lists,)`; NaN for a list without a value.
        metric: spec of the metric.
    """
    empty = [not (lists.labels[start:end] > 0).any() for start, end in pairwise(lists.offsets.tolist())]
    worst_first = np.lexsort((values if parse_metric(metric).higher_is_better else -values, np.array(empty)))
    lists = recode(lists.select_features(model.feature_names), model.categories)
    names, found = feature_names(model, lists), dict[str, Any]()
    begun = time.perf_counter()
    for place in worst_first[:_LISTS]:
        rows = slice(int(lists.offsets[place]), int(lists.offsets[place + 1]))
        pair = _pair(np.asarray(scores[rows]), np.asarray(lists.labels[rows]))
        if pair is None or np.isnan(values[place]):
            continue
        try:
            parts = model.contributions(dense(lists.features[rows]), *pair)
        except ValueError:  # a kind without contributions, or a model that has none
            return {}
        order = np.argsort(-np.abs(parts.values), kind="stable")
        terms = [[names[at], float(parts.values[at])] for at in order[:_TERMS]]
        if len(order) > _TERMS:
            terms.append([f"{len(order) - _TERMS} other features", float(parts.values[order[_TERMS:]].sum())])
        terms += [[name, value] for name, value in parts.others.items()]
        gap = sum(value for _, value in terms)
        found[lists.list_names[place]] = {"documents": [*pair], "gap": gap, "terms": terms}
        if time.perf_counter() - begun > SECONDS:
            break
    return found


def _pair(scores: NDArray[Any], labels: NDArray[Any]) -> tuple[int, int] | None:
    """Return the two documents of a list to explain: those of the first mistake, or the first two documents.

    A mistake is a document above another document with a higher label. For a list with one document, return None.
    """
    order = np.argsort(-scores, kind="stable")
    if len(order) < 2:
        return None
    ranked = labels[order]
    for rank in range(len(order) - 1):
        best = rank + 1 + int(ranked[rank + 1 :].argmax())
        if ranked[best] > ranked[rank]:
            return int(order[rank]), int(order[best])
    return int(order[0]), int(order[1])
