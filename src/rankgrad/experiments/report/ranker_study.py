"""Compare rankers that scored the same lists, for the page of a demo, a training run or a tuning run."""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrad.data import Dataset
from rankgrad.data.evaluation import conventions_of, evaluate_lists
from rankgrad.experiments.report import chart_data
from rankgrad.experiments.report.query_explorer import QueryValues, explorer, rank_lists
from rankgrad.experiments.runs.cell import Cell
from rankgrad.experiments.tables.footnotes import short
from rankgrad.experiments.tables.plain_table import Field, PlainTable
from rankgrad.metrics import parse_metric
from rankgrad.metrics.evaluate import Evaluation

MODEL = "ranker"  # model of all rows, because a page of rankers has no selection of models
FEATURE = "best single feature"  # name of the ranker that sorts by one feature
LOG = "log.jsonl"  # log of a training run, in its folder
LEFT_OUT = "The page was written without lists."
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_TRAINING_LISTS = 1000  # maximum number of training lists by which the best single feature is chosen


class ScoredRanker(NamedTuple):
    """A ranker of a page, with its scores of the documents."""

    name: str
    scores: NDArray[Any]  # (documents,)
    more: tuple[Field, ...] = ()  # fields of additional columns of the table


class RankerRun(NamedTuple):
    """Training run of a ranker, in the form that `chart_data` reads."""

    cell: Cell
    history: list[dict[str, float]]  # one row per epoch; the key `epoch` has the number of the epoch or tree
    learned: Mapping[str, Any]  # parameters that the loss has learned


class RankerComparison(NamedTuple):
    """Rankers on the same lists: numbers, rows of the overview, a table, and the data of the query explorer."""

    found: dict[str, Evaluation]  # evaluation by name of the ranker
    lists: dict[str, Evaluation]  # the same with one value per list
    overview: chart_data.Rows
    table: PlainTable
    explorer: dict[str, Any]


def compare_rankers(
    data: str,
    lists: Dataset,
    rankers: Sequence[ScoredRanker],
    metrics: Sequence[str],
    *,
    title: str,
    pair: tuple[str, str],
    kind: str = "ranker",
    heads: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
    show_lists: bool = True,
) -> RankerComparison:
    """Evaluate rankers on the same lists, for the page of a demo or of a run.

    Args:
        data: name of the data set.
        lists: labelled lists.
        rankers: rankers with their scores.
        metrics: metrics; intervals are shown for the first metric.
        title: title of the table.
        pair: names of the rankers A and B that the query explorer shows at first; the worst query of B is first, and
            queries without a relevant document are last.
        kind: kind of the rows, such as `ranker` or `trial`.
        heads: headings of additional columns.
        notes: additional notes of the table.
        show_lists: if False, the page has no ranked lists.
    """
    names = [str(parse_metric(metric)) for metric in metrics]
    found = {each.name: evaluate_lists(each.scores, lists, names) for each in rankers}
    shown = [short(name, names) for name in names]
    overview, rows = [], []
    for name, text in zip(names, shown, strict=True):
        column = [_overview_row(data, ranker.name, text, found[ranker.name], name) for ranker in rankers]
        overview += chart_data.place_rows(column, chart_data.higher_is_better(name))
    for ranker in rankers:
        result = found[ranker.name]
        fields = [Field(f"{result.means[name]:.4f}", result.means[name]) for name in names]
        low, high = result.intervals[names[0]]
        fields.insert(1, Field(f"{low:.4f} to {high:.4f}", low))
        rows.append((Field(ranker.name), *fields, *ranker.more))
    about = dict.fromkeys(each.about for each in found.values() if each.about)
    notes = (*conventions(names, lists.texts is not None), *about, *notes)
    table = PlainTable(title, (kind, shown[0], "95% interval", *shown[1:], *heads), tuple(rows), notes)
    # The page shows each list, also if queries have several lists.
    each = (
        found
        if lists.list_ids is None
        else {
            ranker.name: evaluate_lists(ranker.scores, lists, names, bootstrap=0, by_query=False) for ranker in rankers
        }
    )
    values = np.array([[each[ranker.name].values[name] for ranker in rankers] for name in names])
    systems = [(MODEL, ranker.name) for ranker in rankers]
    empty = [not (lists.labels[start:end] > 0).any() for start, end in pairwise(lists.offsets.tolist())]
    queries = QueryValues(systems, shown, lists.list_names, values, empty)
    ranked = rank_lists(lists, [ranker.scores for ranker in rankers]) if show_lists else None
    places = [[ranker.name for ranker in rankers].index(name) for name in pair]
    explored = explorer(queries, ranked, "" if show_lists else LEFT_OUT, order="worst") | {"pair": places}
    return RankerComparison(found, each, overview, table, explored)


def baselines(
    train: Dataset | None, lists: Dataset, metric: str, seed: int = 0, first_stage: str = "BM25"
) -> list[ScoredRanker]:
    """Return rankers that need no training: a random order and, if there are training lists, the best single feature.

    The feature and its sign are chosen by the metric on at most 1,000 training lists. For a text data set, the first
    stage (the run whose documents are ranked again) replaces this feature.
    """
    found = [ScoredRanker("random order", np.random.default_rng(seed).random(len(lists.labels)))]
    if lists.numbered and lists.feature_names is not None:
        runs = lists.feature_names[2:]
        names = (first_stage,) if len(runs) == 1 else runs
        return found + [ScoredRanker(name, lists.features[:, place]) for place, name in enumerate(names, 2)]
    if train is None or train.features.shape[1] != lists.features.shape[1]:
        return found
    some = train.take(slice(_TRAINING_LISTS)) if len(train) > _TRAINING_LISTS else train
    better = 1 if parse_metric(metric).higher_is_better else -1

    def quality(column: NDArray[Any]) -> float:
        result = evaluate_lists(column, some, [metric], bootstrap=0)
        return better * next(iter(result.means.values()))

    features = range(some.features.shape[1])
    best = max(((sign, place) for sign in (1, -1) for place in features), key=lambda one: quality(
        _missing_last(one[0] * np.asarray(some.features[:, one[1]]))
    ))  # fmt: skip
    return [*found, ScoredRanker(FEATURE, _missing_last(best[0] * np.asarray(lists.features[:, best[1]])))]


def _missing_last(column: NDArray[Any]) -> NDArray[Any]:
    """Return the values of a feature as scores; a missing value is below all other values."""
    missing = np.isnan(column)
    if not missing.any():
        return column
    lowest = column.min(where=~missing, initial=np.inf)
    below = np.nextafter(lowest, -np.inf) if np.isfinite(lowest) else 0.0
    return np.where(missing, below, column)


def conventions(metrics: Sequence[str], text: bool = False) -> tuple[str, ...]:
    """Return notes of a table about the conventions of metrics; metrics with the same conventions share a note.

    Args:
        metrics: specs of the metrics.
        text: True for a text data set.
    """
    same: dict[str, list[str]] = {}
    for metric in metrics:
        known = {key: value for key, value in conventions_of(parse_metric(metric), text).items() if key != "k"}
        empty = " (lists without a relevant document are skipped)" if known.get("empty") == "skip" else ""
        sentence = ", ".join(f"{key} {value}" for key, value in known.items()) + empty
        same.setdefault(sentence, []).append(short(metric, metrics))
    return tuple(f"{', '.join(names)}: {sentence}" for sentence, names in same.items())


def read_history(folder: Path, unit: str) -> list[dict[str, float]]:
    """Read the log of a training run: one row of numbers per epoch or tree; empty if there is no log.

    Args:
        folder: folder of the run.
        unit: key in the log that has the number of the epoch or tree; in the rows, this key is `epoch`.
    """
    rows: list[dict[str, float]] = []
    path = folder / LOG
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            found = json.loads(line)
        except ValueError:  # a run that was killed may leave an incomplete line
            break
        numbers = {key: value for key, value in found.items() if type(value) in (int, float)}
        if unit in numbers:
            rows.append({"epoch" if key == unit else key: value for key, value in numbers.items()})
    return rows


def run_of(
    data: str, name: str, history: list[dict[str, float]], metric: str, learned: Mapping[str, Any] = _NOTHING
) -> RankerRun:
    """Return the training run of a ranker in the form that the learning curves need.

    Args:
        data: name of the data set.
        name: name of the row.
        history: return value of `read_history`.
        metric: metric on the validation lists.
        learned: parameters that the loss has learned.
    """
    cell = Cell(data, False, None, MODEL, name, None, {"metric": metric}, (), "final", False, 0)
    return RankerRun(cell, history, learned)


def lists_of(parts: Mapping[str, Dataset]) -> str:
    """Return a sentence for the page: the number of lists and documents of each part of the data.

    Example:
        >>> from rankgrad.data import synthetic
        >>> data = synthetic(30)
        >>> lists_of({"train": data.train, "test": data.test})
        'Data: 30 lists with 907 documents (train), 10 lists with 273 documents (test); 46 features.'
    """
    counts = [f"{len(part):,} lists with {len(part.labels):,} documents ({name})" for name, part in parts.items()]
    features = next(iter(parts.values())).features.shape[1]
    return f"Data: {', '.join(counts)}; {features} features."


def number(result: Evaluation, metric: str) -> str:
    """Return the mean of a metric with its interval as text: `0.5012 (95% interval 0.4870 to 0.5151)`."""
    name = str(parse_metric(metric))
    low, high = result.intervals[name]
    return f"{result.means[name]:.4f} (95% interval {low:.4f} to {high:.4f})"


def _overview_row(data: str, ranker: str, text: str, result: Evaluation, metric: str) -> dict[str, Any]:
    low, high = result.intervals[metric]
    names = {"data": data, "model": MODEL, "loss": ranker, "metric": text, "row": ranker}
    return names | {"value": result.means[metric], "low": low, "high": high}
