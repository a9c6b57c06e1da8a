"""Measure the importance of features for the chart of a page: the drop of the metric per shuffled feature."""

import time
from typing import NamedTuple

import numpy as np

from rankgrad.data import Dataset
from rankgrad.experiments.report import chart_data
from rankgrad.experiments.report.ranker_study import MODEL
from rankgrad.experiments.tables.footnotes import short
from rankgrad.models.protocol import TrainedModel

IMPORTANCE_SECONDS = 20.0  # the importance of features is left out if it takes longer
_FEATURES = 15  # maximum number of features in the chart
_SHUFFLES = 3  # number of shuffles of each feature, if there is enough time
_LISTS = 200  # maximum number of lists on which the importance of features is measured


class Importance(NamedTuple):
    """Importance of features on the page: rows and caption of the chart, or the reason why there is no chart."""

    rows: chart_data.Rows
    caption: str = ""
    why: str = ""


def shuffled_importance(
    model: TrainedModel, data: str, lists: Dataset | None, metric: str, part: str = "test"
) -> Importance:
    """Measure, for the page, how much the metric drops per shuffled feature, if this takes little time.

    A ranker of texts has no features.

    Args:
        model: trained model.
        data: name of the data set.
        lists: labelled lists; None if there are none.
        metric: spec of the metric.
        part: part of the data that contains the lists.
    """
    if lists is None:
        return Importance([], why="The importance of features is left out, because it needs test lists.")
    some = lists.take(slice(_LISTS)) if len(lists) > _LISTS else lists
    some = some.select_features(model.feature_names)
    if some.numbered:
        return Importance([])
    begun = time.perf_counter()
    model.score(some.features, some.offsets)
    cost = (time.perf_counter() - begun) * some.features.shape[1]
    if cost > IMPORTANCE_SECONDS:
        limit = f"about {cost:,.0f} s, and the limit is {IMPORTANCE_SECONDS:.0f} s"
        return Importance([], why=f"The importance of features is left out, because it takes too long: {limit}.")
    drops, begun = [], time.perf_counter()
    for seed in range(_SHUFFLES):
        drops.append(model.feature_importance(some, metric, repeats=1, seed=seed).values)
        spent = time.perf_counter() - begun
        if spent * (seed + 2) / (seed + 1) > IMPORTANCE_SECONDS:
            break
    values, shown = np.stack(drops), short(metric, [metric])  # (shuffles, features)
    means = values.mean(axis=0)
    order = [at for at in np.argsort(-means, kind="stable")[:_FEATURES] if means[at] > 0]
    if not order:
        return Importance(
            [], why=f"No feature is important: {shown} on the {part} lists does not drop for any feature."
        )
    names = model.feature_names or tuple(f"feature {place + 1}" for place in range(model.features))
    rows = []
    for at in order:
        numbers = {"value": values[:, at].mean(), "low": values[:, at].min(), "high": values[:, at].max()}
        row = {"data": data, "model": MODEL, "loss": str(names[at]), "metric": shown, "row": str(names[at])}
        rows.append(row | {key: float(each) for key, each in numbers.items()})
    several = len(drops) > 1
    caption = (
        f"Drop of {shown} on {len(some):,} {part} lists when the values of one feature are shuffled"
        + (f": mean of {len(drops)} shuffles, with the smallest and the largest drop" if several else "")
        + (". A drop can be due to chance if its bar contains 0" if several else "")
        + f". The chart shows the {len(order)} most important feature{'s' if len(order) > 1 else ''} of {len(means)}."
    )
    return Importance(chart_data.place_rows(rows, higher=True), caption)
