"""Compute the data of the query explorer: metrics and first documents of each query, for each model."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.experiments.recipes.data_sets import read_cell_data
from rankgrad.experiments.statistics import over_seeds

FIRST = 10  # number of documents shown per list
SKIPPED = 0xFFFF  # code of a missing value, for example of a skipped query
_IDS = 300_000  # maximum number of characters of document ids; if there are more, the page shows document numbers

Key = tuple[int | None, str]  # fold and query
System = tuple[str, str]  # model and loss


def explorer(
    table: Any, results: Sequence[Any], *, root: Any = None, lists: bool = True, limit: int = 1_200_000
) -> Any:
    """Return the queries of one data set for the page; None if the results have no values per query.

    Values are means over seeds. The ranked lists are from the first seed. If all queries need more than `limit`
    characters, only the queries whose values differ most between models are kept.

    Args:
        table: table of the data set; its rows are the models to choose from.
        results: results of the final cells.
        root: folder of the data sets, for the labels of the documents.
        lists: if False, the ranked lists are left out.
        limit: maximum number of characters of the queries.
    """
    runs_here = [run for run in results if run.cell.label == table.data]
    systems = {(row.model, row.loss): _by_fold(runs_here, row.model, row.loss) for row in table.rows}
    systems = {name: folds for name, folds in systems.items() if folds}
    places = _places(systems)
    if not places:
        return None
    metrics = list(table.metrics)
    values = np.full((len(metrics), len(systems), len(places)), np.nan)
    for s, folds in enumerate(systems.values()):
        for fold, runs in folds.items():
            for m, metric in enumerate(metrics):
                queries, means = over_seeds([run.queries for run in runs], [run.values(metric) for run in runs])
                values[m, s, [places[fold, query] for query in queries.tolist()]] = means * table.scale
    ranked, why = _lists(systems, places, root) if lists else (None, "They were left out of this page.")
    each = len(systems) * (len(metrics) * 8 / 3 + (0 if ranked is None else FIRST * 4 / 3))
    kept = _most_different(values[0], max(1, int(limit / each)))
    keys = list(places)
    return {
        "systems": [{"model": model, "loss": loss} for model, loss in systems],
        "metrics": [table.short(metric) for metric in metrics],
        "queries": [keys[place][1] for place in kept],
        "all": len(places),
        "values": [_coded(one[:, kept]) for one in values],
        "lists": None if ranked is None else _packed(ranked, kept),
        "why": why,
    }


def _by_fold(runs: Sequence[Any], model: str, loss: str) -> dict[int | None, list[Any]]:
    """Return the runs of a row that have values per query, by fold, sorted by seed."""
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
) -> tuple[dict[str, Any] | None, str]:
    """Return labels, ids and first documents of each query, and an empty text; if this fails, None and the reason."""
    cell = next(iter(next(iter(systems.values())).values()))[0].cell
    labels: list[Any] = [()] * len(places)
    ids: list[Any] = [None] * len(places)
    top = np.zeros((len(systems), len(places), FIRST), dtype=np.uint16)
    for fold in dict.fromkeys(fold for folds in systems.values() for fold in folds):
        try:
            test = read_cell_data(cell.data, binary=cell.binary, fold=fold, root=root).test
        except (OSError, ValueError):
            return None, f"The data set {cell.data} was not found when the page was made; --data-root sets its folder."
        assert test is not None  # `read_cell_data` checks it
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
                return None, "The results do not contain the scores of documents; packed results leave them out."
            if len(scores) != len(test.labels) or run.queries.tolist() != test.qids.astype(str).tolist():
                return (
                    None,
                    f"The data set {cell.data} on disk differs from the data used to test these models.",
                )
            for place, start, end in zip(where, test.offsets[:-1], test.offsets[1:], strict=True):
                order = np.argsort(-scores[start:end], kind="stable")[:FIRST]
                top[s, place, : len(order)] = order
    return {"labels": labels, "ids": ids, "top": top}, ""


def _most_different(values: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """Return the sorted indices of the queries that differ most; `values` is `(systems, queries)`."""
    if values.shape[1] <= most:
        return np.arange(values.shape[1])
    apart = np.where(np.isnan(values), -np.inf, values).max(0) - np.where(np.isnan(values), np.inf, values).min(0)
    return np.sort(np.argsort(-apart, kind="stable")[:most])


def _coded(values: NDArray[np.float64]) -> dict[str, Any]:
    """Encode values `(systems, queries)` as 16-bit numbers on the scale from lowest to highest; one text per system."""
    known = values[~np.isnan(values)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
    step = (high - low) / (SKIPPED - 1) or 1.0
    codes = np.where(np.isnan(values), SKIPPED, np.round((np.nan_to_num(values) - low) / step)).astype("<u2")
    return {"low": low, "step": step, "codes": [_text(row) for row in codes]}


def _packed(ranked: Mapping[str, Any], kept: NDArray[np.int64]) -> dict[str, Any]:
    labels = [ranked["labels"][place] for place in kept]
    ids = [ranked["ids"][place] for place in kept]
    named = all(one is not None for one in ids) and sum(len(name) + 3 for one in ids for name in one) <= _IDS
    top = ranked["top"][:, kept]
    narrow = max(map(len, labels)) <= 0xFF
    shown = [[int(value) if value == int(value) else round(float(value), 3) for value in one] for one in labels]
    return {
        "first": FIRST,
        "bytes": 1 if narrow else 2,
        "labels": shown,
        "ids": ids if named else None,
        "top": [_text(row.astype("u1" if narrow else "<u2")) for row in top],
    }


def _text(array: NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
