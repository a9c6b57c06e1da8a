"""Compute the data of the query explorer: for each query and model, the metrics and the first documents."""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrad.data import Dataset
from rankgrad.experiments.recipes.data_sets import read_recipe_data
from rankgrad.experiments.statistics import over_seeds

FIRST = 10  # number of documents shown per list
SKIPPED = 0xFFFF  # code of a missing value, for example of a skipped query
_IDS = 300_000  # maximum number of characters of document ids; if there are more, the page shows document numbers
_TEXT = 200  # maximum number of characters of a text; more are cut

Key = tuple[int | None, str]  # fold and query
System = tuple[str, str]  # model and loss


class QueryValues(NamedTuple):
    """Values of each query for each system (model and loss); queries of different folds are different queries."""

    systems: list[System]
    metrics: list[str]  # names of the metrics as shown
    queries: list[str]
    values: NDArray[np.float64]  # `(metrics, systems, queries)`; NaN for a missing value
    empty: Sequence[bool] | None = None  # True for a query without a relevant document; None: see the labels


class RankedLists(NamedTuple):
    """Documents of each query, and the first documents in the ranking of each system."""

    labels: list[Any]  # labels of the documents, per query
    ids: list[Any]  # ids of the documents, per query; None if the data has no ids
    top: NDArray[np.uint16]  # `(systems, queries, FIRST)`: numbers of the first documents in the list, from 0
    texts: list[Any]  # per query, the beginnings of its text and of the texts of its first documents; None: no texts


def query_values(table: Any, results: Sequence[Any]) -> QueryValues | None:
    """Return the values of each query of one data set, averaged over seeds; None if the results have no such values.

    Args:
        table: table of the data set; its rows are the systems.
        results: results of the final cells.
    """
    systems = _systems(table, results)
    places = _places(systems)
    if not places:
        return None
    values = np.full((len(table.metrics), len(systems), len(places)), np.nan)
    for s, folds in enumerate(systems.values()):
        for fold, runs in folds.items():
            for m, metric in enumerate(table.metrics):
                queries, means = over_seeds([run.queries for run in runs], [run.values(metric) for run in runs])
                values[m, s, [places[fold, query] for query in queries.tolist()]] = means * table.scale
    names = [table.short(metric) for metric in table.metrics]
    return QueryValues(list(systems), names, [query for _, query in places], values)


def ranked_lists(table: Any, results: Sequence[Any], root: Any = None) -> tuple[RankedLists | None, str]:
    """Return the ranked lists of the first seed, and an empty text; if this fails, return None and the reason.

    Args:
        table, results: as for `query_values`.
        root: folder of the data sets, for the labels of the documents.
    """
    systems = _systems(table, results)
    return _lists(systems, _places(systems), root)


def rank_lists(lists: Dataset, scores: Sequence[Any]) -> RankedLists:
    """Return the documents of the lists, ranked by the scores of each system, for the query explorer."""
    spans = list(zip(lists.offsets[:-1], lists.offsets[1:], strict=True))
    top = np.zeros((len(scores), len(spans), FIRST), dtype=np.uint16)
    for s, own in enumerate(scores):
        for place, (start, end) in enumerate(spans):
            order = _first(own[start:end])
            top[s, place, : len(order)] = order
    labels = [lists.labels[start:end] for start, end in spans]
    ids = [None if lists.docids is None else lists.docids[start:end].astype(str).tolist() for start, end in spans]
    texts = [_texts(lists.texts, str(q), ids[place], top[:, place]) for place, q in enumerate(lists.qids.tolist())]
    return RankedLists(labels, ids, top, texts)


def explorer(
    found: QueryValues,
    ranked: RankedLists | None,
    why: str = "",
    *,
    order: str = "difference",
    limit: int = 1_200_000,
) -> dict[str, Any]:
    """Return the data of the query explorer of one data set.

    Args:
        found: values of the queries.
        ranked: documents of the queries; None to show no ranked lists.
        why: reason why there are no ranked lists.
        order: order of the queries at first: `difference` (largest first) or `worst` (lowest value of B first).
        limit: maximum number of characters; if all queries need more, only the queries whose values differ most
            between systems are included.
    """
    each = len(found.systems) * (len(found.metrics) * 8 / 3 + (0 if ranked is None else FIRST * 4 / 3))
    if ranked is not None:
        each += len(json.dumps(ranked.texts)) / len(ranked.texts)
    kept = _most_different(found.values[0], max(1, int(limit / each)))
    empty = found.empty
    if empty is None and ranked is not None:
        empty = [max(labels, default=0) <= 0 for labels in ranked.labels]
    return {
        "systems": [{"model": model, "loss": loss} for model, loss in found.systems],
        "metrics": found.metrics,
        "queries": [found.queries[place] for place in kept],
        "all": len(found.queries),
        "empty": [] if empty is None else [place for place, query in enumerate(kept) if empty[query]],
        "values": [_coded(one[:, kept]) for one in found.values],
        "lists": None if ranked is None else _packed(ranked, kept),
        "why": why,
        "order": order,
    }


def _systems(table: Any, results: Sequence[Any]) -> dict[System, dict[int | None, list[Any]]]:
    """Return, for each system of the query explorer, the runs that have values per query, by fold."""
    here = [run for run in results if run.cell.label == table.data]
    systems = {(row.model, row.loss): _by_fold(here, row.model, row.loss) for row in table.rows}
    return {name: folds for name, folds in systems.items() if folds}


def _by_fold(runs: Sequence[Any], model: str, loss: str) -> dict[int | None, list[Any]]:
    """Return the runs of a system that have values per query: by fold, and sorted by seed."""
    folds: dict[int | None, list[Any]] = {}
    for run in sorted(runs, key=lambda run: run.cell.seed):
        if (run.cell.model, run.cell.loss) == (model, loss) and _kept_values(run):
            folds.setdefault(run.cell.fold, []).append(run)
    return folds


def _kept_values(run: Any) -> bool:
    try:
        return len(run.queries) > 0
    except ValueError:
        return False


def _places(systems: Mapping[System, Mapping[int | None, Sequence[Any]]]) -> dict[Key, int]:
    keys = ((fold, q) for folds in systems.values() for fold, runs in folds.items() for q in runs[0].queries.tolist())
    return {key: place for place, key in enumerate(dict.fromkeys(keys))}


def _lists(
    systems: Mapping[System, Mapping[int | None, Sequence[Any]]], places: Mapping[Key, int], root: Any
) -> tuple[RankedLists | None, str]:
    """Return the ranked lists of each query, and an empty text; if this fails, return None and the reason."""
    cell = next(iter(next(iter(systems.values())).values()))[0].cell
    labels: list[Any] = [()] * len(places)
    ids: list[Any] = [None] * len(places)
    top = np.zeros((len(systems), len(places), FIRST), dtype=np.uint16)
    collection = None
    for fold in dict.fromkeys(fold for folds in systems.values() for fold in folds):
        try:
            test = read_recipe_data(cell.data, binary=cell.binary, fold=fold, root=root).test
        except (OSError, ValueError):
            return None, f"The data set {cell.data} was not found when the page was written; try --data-root."
        assert test is not None  # `read_recipe_data` checks it
        collection = test.texts
        where = [places.get((fold, str(query))) for query in test.qids.tolist()]
        for place, start, end in zip(where, test.offsets[:-1], test.offsets[1:], strict=True):
            if place is not None:
                labels[place] = test.labels[start:end]
                ids[place] = None if test.docids is None else test.docids[start:end].astype(str).tolist()
        for s, folds in enumerate(systems.values()):
            if fold not in folds:
                continue
            run = folds[fold][0]
            try:
                scores = run.scores
            except ValueError:
                return None, "The results do not contain the scores of documents. Packed results contain no scores."
            if len(scores) != len(test.labels) or run.queries.tolist() != test.qids.astype(str).tolist():
                return (
                    None,
                    f"The data set {cell.data} on disk differs from the data used to test these models.",
                )
            for place, start, end in zip(where, test.offsets[:-1], test.offsets[1:], strict=True):
                order = _first(scores[start:end])
                top[s, place, : len(order)] = order
    texts = [_texts(collection, query, ids[place], top[:, place]) for (_, query), place in places.items()]
    return RankedLists(labels, ids, top, texts), ""


def _first(scores: NDArray[Any]) -> NDArray[np.int64]:
    return np.argsort(-scores, kind="stable")[:FIRST]


def _texts(collection: Any, query: str, ids: Any, top: NDArray[np.uint16]) -> dict[str, Any] | None:
    """Return the beginning of the text of a query, and of each document in `top`; None if there are no texts.

    Args:
        collection: the `texts` of a data set.
        query: id of the query.
        ids: ids of the documents of the list.
        top: for each system, the positions (in the list) of the documents that it ranks first.
    """
    if collection is None or ids is None:
        return None
    shown = [number for number in np.unique(top).tolist() if number < len(ids)]
    documents = {number: _beginning(collection.documents, ids[number]) for number in shown}
    return {"query": _beginning(collection.queries, query), "documents": documents}


def _beginning(texts: Any, name: str) -> str:
    """Return the beginning of the text with this id, on one line; for an unknown id, return an empty text."""
    whole = texts.full(texts.numbers[name]) if name in texts.numbers else ""
    text = " ".join(whole[: 10 * _TEXT].split())
    return text if len(text) <= _TEXT else f"{text[:_TEXT].rstrip()}…"


def _most_different(values: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """Return the sorted indices of the queries whose `values`, `(systems, queries)`, differ most between systems."""
    if values.shape[1] <= most:
        return np.arange(values.shape[1])
    apart = np.where(np.isnan(values), -np.inf, values).max(0) - np.where(np.isnan(values), np.inf, values).min(0)
    return np.sort(np.argsort(-apart, kind="stable")[:most])


def _coded(values: NDArray[np.float64]) -> dict[str, Any]:
    """Encode values of queries, `(systems, queries)`, as 16-bit numbers from the lowest to the highest value.

    The result has one text per system.
    """
    known = values[~np.isnan(values)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
    step = (high - low) / (SKIPPED - 1) or 1.0
    codes = np.where(np.isnan(values), SKIPPED, np.round((np.nan_to_num(values) - low) / step)).astype("<u2")
    return {"low": low, "step": step, "codes": [_text(row) for row in codes]}


def _packed(ranked: RankedLists, kept: NDArray[np.int64]) -> dict[str, Any]:
    labels = [ranked.labels[place] for place in kept]
    ids = [ranked.ids[place] for place in kept]
    named = all(one is not None for one in ids) and sum(len(name) + 3 for one in ids for name in one) <= _IDS
    top = ranked.top[:, kept]
    narrow = max(map(len, labels)) <= 0xFF
    shown = [[int(value) if value == int(value) else round(float(value), 3) for value in one] for one in labels]
    return {
        "first": FIRST,
        "bytes": 1 if narrow else 2,
        "labels": shown,
        "ids": ids if named else None,
        "texts": [ranked.texts[place] for place in kept],
        "top": [_text(row.astype("u1" if narrow else "<u2")) for row in top],
    }


def _text(array: NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
