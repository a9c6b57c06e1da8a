"""Combine runs: make features from their scores, or sum their weighted scores or reciprocal ranks."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.data.dataset import Dataset
from rankgrad.errors import bad_value, one_of
from rankgrad.metrics.trec import Run
from rankgrad.text.candidates import NUMBERS, AnyRun, candidate_lists, fill_missing, pool, scores_of, top_documents
from rankgrad.text.collection import Collection

STANDARDISE = ("none", "zscore", "minmax")


def features(
    collection: Collection,
    runs: Mapping[str, AnyRun],
    *,
    columns: Mapping[str, Mapping[str, Any]] | None = None,
    standardise: str = "none",
    depth: int | None = None,
) -> Dataset:
    """Make a data set whose features are the scores of runs, for `rankgrad.Ranker`, trees and blends.

    A list contains the documents of all runs for its query. If a run does not contain a document, the document gets the
    lowest score of this query in the run. If a run does not contain the query, the score is 0. The scores of a trained
    ranker are too good on its own training queries. So fit the new ranker on other queries.

    Args:
        collection: documents, queries and qrels.
        runs: `{name: run}`; each run has the form `{query: {document: score}}`.
        columns: other features by name. These features do not add documents to the lists. A feature is
            `{document: value}`, with a value for each document of the lists, or `{query: {document: value}}`. In the
            second form, missing values are filled as in runs.
        standardise: `"zscore"` to give each feature mean 0 and standard deviation 1 in each list; `"minmax"` to give
            each feature the range from 0 to 1 in each list; `"none"` to leave the values unchanged. With `"zscore"` and
            `"minmax"`, a feature that is constant in a list becomes 0 in this list.
        depth: maximum number of documents per query that each run adds; None for all.

    Example:
        >>> from rankgrad.text import Collection, Texts
        >>> documents, queries = Texts(("d1", "d2"), ("wing", "flap")), Texts(("q1",), ("wings",))
        >>> collection = Collection(documents, queries, qrels={"q1": {"d1": 2}})
        >>> runs = {"bm25": {"q1": {"d1": 3.0}}, "dense": {"q1": {"d2": 0.5, "d1": 0.25}}}
        >>> data = features(collection, runs, columns={"length": {"d1": 4, "d2": 7}})
        >>> data.feature_names, data.docids.tolist(), data.features.tolist()
        (('bm25', 'dense', 'length'), ['d1', 'd2'], [[3.0, 0.25, 4.0], [3.0, 0.5, 7.0]])
    """
    one_of("standardise", standardise, STANDARDISE)
    columns = columns or {}
    if both := set(_named(runs)) & set(columns):
        bad_value("columns", "have names that no run has", repr(min(both)))
    data = candidate_lists(collection, runs, depth=depth)
    values = np.column_stack([data.features[:, len(NUMBERS) :], *(_column(data, *each) for each in columns.items())])
    for start, end in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        values[start:end] = standardised(values[start:end], standardise)
    names = (*runs, *columns)
    return replace(data, features=values.astype(np.float32), feature_names=names, texts=None)


def fuse(
    runs: Mapping[str, AnyRun] | Sequence[AnyRun],
    weights: Mapping[str, float] | Sequence[float] | None = None,
    *,
    standardise: str = "zscore",
) -> Run:
    """Return a run whose scores are weighted sums of the standardised scores of several runs, best documents first.

    Missing scores are filled as in `features`: a document gets the lowest score of the query in that run.

    Args:
        runs: runs, with or without names.
        weights: weight of each run, by name if the runs have names; None for equal weights.
        standardise: `"zscore"`, `"minmax"` or `"none"`, applied per query and run, as in `features`.

    Example:
        >>> fuse([{"q1": {"a": 9.0, "b": 5.0}}, {"q1": {"c": 0.5, "a": 0.25}}], standardise="minmax")
        {'q1': {'a': 1.0, 'c': 1.0, 'b': 0.0}}
    """
    one_of("standardise", standardise, STANDARDISE)
    named = _named(runs)
    factors = _weights(named, weights)
    fused = {}
    for query, documents in pool(named, depth=None).items():
        scores = np.array([fill_missing(run, query, documents) for run in named.values()], dtype=np.float64).T
        if not np.isfinite(scores).all():
            bad_value("runs", "have finite scores", f"NaN or infinity in query {query!r}")
        sums = dict(zip(documents, (standardised(scores, standardise) @ factors).tolist(), strict=True))
        fused[query] = {document: sums[document] for document in top_documents(sums)}
    return fused


def reciprocal_rank_fusion(runs: Mapping[str, AnyRun] | Sequence[AnyRun], k: float = 60) -> Run:
    """Return a run whose scores are sums of 1 / (k + rank) over several runs, best documents first.

    The rank of a document is its position in a run that is sorted by score. So only the order of the scores has an
    effect, not their values.

    Args:
        runs: runs, with or without names.
        k: constant of the formula. With a larger k, the first ranks have less weight compared with later ranks.

    Example:
        >>> reciprocal_rank_fusion([{"q1": {"a": 9.0, "b": 5.0}}, {"q1": {"b": 0.5}}], k=1)
        {'q1': {'b': 0.8333333333333333, 'a': 0.5}}

    References:
        Cormack et al., "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning Methods", SIGIR 2009.
    """
    if not 0 <= k < math.inf:
        bad_value("k", "be a finite number of at least 0", k)
    named = _named(runs)
    fused = {}
    for query, documents in pool(named, depth=None).items():
        sums = dict.fromkeys(documents, 0.0)
        for run in named.values():
            for rank, document in enumerate(top_documents(run.get(query, {})), 1):
                sums[document] += 1 / (k + rank)
        fused[query] = {document: sums[document] for document in top_documents(sums)}
    return fused


def _column(data: Dataset, name: str, values: Mapping[str, Any]) -> list[float]:
    """Return the values of an additional column, next to the runs, for each document of the lists."""
    assert data.docids is not None
    if any(isinstance(value, Mapping) for value in values.values()):
        return scores_of(data, values)
    documents = data.docids.tolist()
    if missing := [document for document in documents if document not in values]:
        bad_value(f"column {name!r}", "have a value for each document of the lists", f"none for {missing[0]!r}")
    return [values[document] for document in documents]


def standardised(values: NDArray[Any], how: str) -> NDArray[Any]:
    """Standardise the scores of each run in one list, `(n, f)`."""
    if how == "none" or not len(values):
        return values
    values = values.astype(np.float64)
    low, high = values.min(0), values.max(0)
    constant = low == high  # rounding can make the standard deviation of equal values larger than 0
    centre, scale = (values.mean(0), values.std(0)) if how == "zscore" else (low, high - low)
    return np.where(constant, 0.0, (values - centre) / np.where(constant, 1.0, scale))


def _named(runs: Mapping[str, AnyRun] | Sequence[AnyRun]) -> dict[str, AnyRun]:
    named = dict(runs) if isinstance(runs, Mapping) else {str(place): run for place, run in enumerate(runs)}
    if not named:
        bad_value("runs", "contain at least one run", "none")
    for name, run in named.items():
        if not all(isinstance(scores, Mapping) for scores in run.values()):
            bad_value("runs", "be several runs, each {query: {document: score}}", f"another form for {name!r}")
    return named


def _weights(runs: Mapping[str, AnyRun], weights: Mapping[str, float] | Sequence[float] | None) -> NDArray[np.float64]:
    if weights is None:
        return np.ones(len(runs))
    if isinstance(weights, Mapping):
        if set(weights) != set(runs):
            bad_value("weights", f"have the names of the runs, {', '.join(map(repr, runs))}", list(weights))
        weights = [weights[name] for name in runs]
    factors = np.asarray(weights, dtype=np.float64)
    if factors.shape != (len(runs),) or not np.isfinite(factors).all():
        bad_value("weights", f"be {len(runs)} finite numbers, one per run", weights)
    return factors
