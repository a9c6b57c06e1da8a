"""What a report's query explorer shows: each query's metrics under each model, and the first documents of its lists."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.experiments.recipes.data_sets import read_cell_data
from rankgrad.experiments.statistics import over_seeds

FIRST = 10  # documents of a list that are shown
SKIPPED = 0xFFFF  # the code of a value that is not there
_IDS = 300_000  # characters of document ids that a page carries; beyond them documents go by their number

Key = tuple[int | None, str]  # fold and query
System = tuple[str, str]  # model and loss


def explorer(
    table: Any, outcomes: Sequence[Any], *, root: Any = None, lists: bool = True, limit: int = 1_200_000
) -> Any:
    """The queries of one data set, for the page; None where no value of a query was kept.

    Values are means over seeds, the lists are those of the first seed. Where all queries would take more than `limit`
    characters, those are kept whose values differ most between models.

    Args:
        table: of the data set; its rows are the models to choose from.
        outcomes: the final ones of the study.
        root: the folder that data sets lie in, for the labels of the documents.
        lists: False leaves the ranked lists out.
    """
    own = [each for each in outcomes if each.cell.label == table.data]
    systems = {(row.model, row.loss): _by_fold(own, row.model, row.loss) for row in table.rows}
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


def _by_fold(outcomes: Sequence[Any], model: str, loss: str) -> dict[int | None, list[Any]]:
    """The runs of a row that kept their values, by fold, the first seed first."""
    folds: dict[int | None, list[Any]] = {}
    for outcome in sorted(outcomes, key=lambda outcome: outcome.cell.seed):
        if (outcome.cell.model, outcome.cell.loss) == (model, loss) and _kept_values(outcome):
            folds.setdefault(outcome.cell.fold, []).append(outcome)
    return folds


def _kept_values(outcome: Any) -> bool:
    try:
        return len(outcome.queries) > 0
    except ValueError:
        return False


def _places(systems: Mapping[System, Mapping[int | None, Sequence[Any]]]) -> dict[Key, int]:
    keys = ((fold, q) for folds in systems.values() for fold, runs in folds.items() for q in runs[0].queries.tolist())
    return {key: place for place, key in enumerate(dict.fromkeys(keys))}


def _lists(
    systems: Mapping[System, Mapping[int | None, Sequence[Any]]], places: Mapping[Key, int], root: Any
) -> tuple[dict[str, Any] | None, str]:
    """Labels and ids of each query's documents, and the first documents of each system; or why there are none."""
    cell = next(iter(next(iter(systems.values())).values()))[0].cell
    labels: list[Any] = [()] * len(places)
    ids: list[Any] = [None] * len(places)
    top = np.zeros((len(systems), len(places), FIRST), dtype=np.uint16)
    for fold in dict.fromkeys(fold for folds in systems.values() for fold in folds):
        try:
            test = read_cell_data(cell.data, binary=cell.binary, fold=fold, root=root).test
        except (OSError, ValueError):
            return None, f"The data set {cell.data} was not found when the page was made; --data-root says where it is."
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
                return None, "The results do not hold the scores of documents; packed results leave them out."
            if len(scores) != len(test.labels) or run.queries.tolist() != test.qids.astype(str).tolist():
                return None, f"The data set {cell.data} on disk is not the one that these models were tested on."
            for place, start, end in zip(where, test.offsets[:-1], test.offsets[1:], strict=True):
                order = np.argsort(-scores[start:end], kind="stable")[:FIRST]
                top[s, place, : len(order)] = order
    return {"labels": labels, "ids": ids, "top": top}, ""


def _most_different(values: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """Places of the queries that are kept, in their order; `values` is `(systems, queries)`."""
    if values.shape[1] <= most:
        return np.arange(values.shape[1])
    apart = np.where(np.isnan(values), -np.inf, values).max(0) - np.where(np.isnan(values), np.inf, values).min(0)
    return np.sort(np.argsort(-apart, kind="stable")[:most])


def _coded(values: NDArray[np.float64]) -> dict[str, Any]:
    """Values as 16-bit steps between the lowest and the highest, a text a system; `(systems, queries)`."""
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
