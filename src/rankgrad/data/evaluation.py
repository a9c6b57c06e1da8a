"""Compute metrics of scores on a data set. For a text data set, they are computed as in trec_eval, with all qrels."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from rankgrad.data.dataset import Dataset
from rankgrad.errors import bad_value
from rankgrad.metrics.evaluate import Evaluation, chosen_metrics, evaluate, summarise
from rankgrad.metrics.metric import Metric
from rankgrad.metrics.trec import measure_run, to_run

AS_TREC_EVAL = (
    "Computed as in trec_eval, with all qrels: relevant documents that are not among the candidates also count, "
    "and documents with equal scores are ordered by id"
)


def evaluate_lists(
    scores: Any,
    data: Dataset,
    metrics: Iterable[Any] | str,
    *,
    bootstrap: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
    by_query: bool = True,
) -> Evaluation:
    """Compute metrics of scores on a data set. The values per query are in the order of the lists.

    If queries have several lists, the value of a query is the mean over its lists. So intervals and tests treat the
    queries, and not their lists, as the sample.

    For a text data set, metrics are computed as in trec_eval, with the qrels of the collection: see
    `rankgrad.metrics.measure_run`. Queries without qrels are skipped. `rankgrad.metrics.evaluate` would return higher
    values, because it ignores relevant documents that the first stage did not find. A custom metric also ignores
    these documents, because it is a function of one list. For any other data set, the labels of the lists are used.

    Args:
        scores: one score per document, `(documents,)`.
        data: labelled lists.
        metrics: specs of metrics, or metric objects.
        bootstrap, seed, confidence: options of the bootstrap interval, as in `rankgrad.metrics.evaluate`.
        by_query: False for one value per list, also if queries have several lists.
    """
    options: dict[str, Any] = {"bootstrap": bootstrap, "seed": seed, "confidence": confidence}
    labels = np.asarray(data.labels)
    if data.texts is None or data.docids is None:
        if data.list_ids is not None and by_query:
            found = evaluate(scores, labels, metrics, offsets=data.offsets, bootstrap=0)
            return _of_queries(found, data, chosen_metrics(metrics), **options)
        found = evaluate(scores, labels, metrics, offsets=data.offsets, **options)
        return replace(found, queries=tuple(data.qids.tolist()))
    chosen = chosen_metrics(metrics)
    known = {name: metric for name, metric in chosen.items() if isinstance(metric, Metric)}
    own = {name: metric for name, metric in chosen.items() if name not in known}
    queries = tuple(map(str, data.qids.tolist()))
    places = [place for place, query in enumerate(queries) if query in data.texts.qrels]
    if not places:
        bad_value("data", "contain a query that is in the qrels of the collection", f"none in {len(queries)} queries")
    values, missing = {}, 0
    if known:
        run = to_run(scores, data.offsets, queries, data.docids.tolist())
        qrels = {queries[place]: data.texts.qrels[queries[place]] for place in places}
        found = measure_run(run, qrels, list(known.values()), bootstrap=0)
        missing = found.nan_scores
        for name in known:
            values[name] = np.full(len(queries), np.nan)
            values[name][places] = found.values[name]
    if own:
        values |= evaluate(scores, labels, list(own.values()), offsets=data.offsets, bootstrap=0).values
    used = {name: _with_trec_ties(metric) if isinstance(metric, Metric) else metric for name, metric in chosen.items()}
    values = {name: values[name] for name in chosen}
    result = summarise(values, used, bootstrap, seed, confidence, queries=queries, missing=missing)
    return replace(result, about=AS_TREC_EVAL if known else "")


def _of_queries(found: Evaluation, data: Dataset, metrics: dict[str, Any], **options: Any) -> Evaluation:
    """Return the evaluation whose values are the means over the lists of each query. Skipped lists do not count."""
    first, query = np.unique(data.first_lists, return_inverse=True)
    values = {}
    for name, each in found.values.items():
        known = ~np.isnan(each)
        sums, counts = np.bincount(query[known], each[known], len(first)), np.bincount(query[known], None, len(first))
        values[name] = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    queries = tuple(data.qids[first].tolist())
    result = summarise(values, metrics, **options, queries=queries, missing=found.nan_scores)
    return replace(result, about=f"The value of a query is the mean over its lists ({len(data):,} lists)")


def conventions_of(metric: Metric, text: bool) -> dict[str, str]:
    """Return the conventions of a metric on a data set.

    Args:
        metric: the metric.
        text: True for a text data set; documents with equal scores are then ordered as in trec_eval.
    """
    return (_with_trec_ties(metric) if text else metric).conventions


def _with_trec_ties(metric: Metric) -> Metric:
    return metric(ties=metric.options.get("ties", "trec"))
