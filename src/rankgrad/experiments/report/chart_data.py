"""Compute the rows of the charts: overview, learning curves, learned parameters, cost, sensitivity to settings."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from rankgrad.experiments import statistics
from rankgrad.metrics import parse_metric
from rankgrad.models.registry import kinds

Rows = list[dict[str, Any]]

_ROUNDS = 1000  # number of bootstrap samples
_RIGHT = 420  # a name that ends to the right of this place is put to the left of its point; points end at 400
_POINTS = 120  # maximum number of points of a line; longer lines keep every n-th epoch and the last epoch


def overview_rows(table: Any, found: Any) -> Rows:
    """Return the rows of the overview: numbers of a table with intervals, by model, loss and metric; best `place` is 1.

    Args:
        table: table of one data set.
        found: return value of `query_values`, or None; the intervals are bootstrap intervals over these queries.
    """
    several, rows = len({row.model for row in table.rows}) > 1, []
    for m, metric in enumerate(table.metrics):
        column = []
        for line in table.rows:
            entry, system = line.entries[metric], (line.model, line.loss)
            if entry.mean is None:
                continue
            value = low = high = entry.mean * table.scale
            if found is not None and system in found.systems:
                values = found.values[m, found.systems.index(system)]
                low, high = statistics.bootstrap(values, rounds=_ROUNDS)
            name = f"{line.loss}, {line.model}" if several else line.loss
            names = table.data, *system
            column.append(_row(names, metric=table.short(metric), row=name, value=value, low=low, high=high))
        rows += place_rows(column, higher_is_better(metric))
    return rows


def place_rows(rows: Rows, higher: bool) -> Rows:
    """Add the place of each row of a chart, from 1 for the best value; all rows must have the same metric."""
    order = sorted(range(len(rows)), key=lambda at: -rows[at]["value"] if higher else rows[at]["value"])
    for place, at in enumerate(order, 1):
        rows[at] |= {"place": place}
    return rows


def curve_rows(results: Iterable[Any]) -> Rows:
    """Return the rows of the learning curves: the validation metric by data set, model, loss and epoch.

    Values are means over folds and seeds. `best` is the best value up to the epoch; a run that stopped early keeps its
    best value. `own` is the value at the epoch; only runs that have not stopped count. `runs` is the number of runs
    that have not stopped.
    """
    groups: dict[tuple[str, str, str], list[Any]] = defaultdict(list)
    for run in results:
        metric = validation_metric(run)
        values = np.array([row[metric] for row in run.history if _finite(row.get(metric))], dtype=np.float64)
        if len(values):
            best = np.maximum if higher_is_better(metric) else np.minimum
            groups[_names(run)].append((values, best.accumulate(values)))
    rows: Rows = []
    for names, runs in groups.items():
        length = max(len(values) for values, _ in runs)
        for epoch in _thinned(length):
            running = [values[epoch] for values, _ in runs if len(values) > epoch]
            best = np.mean([so_far[min(epoch, len(so_far) - 1)] for _, so_far in runs])
            rows.append(_row(names, epoch=epoch + 1, best=best, own=np.mean(running), runs=len(running)))
    return rows


def training_loss_rows(results: Iterable[Any]) -> Rows:
    """Return the rows of the chart of the training loss: one row per run and epoch."""
    rows = []
    for run in results:
        known = [row for row in run.history if _finite(row.get("loss"))]
        for at in _thinned(len(known)):
            rows.append(
                _row(_names(run), epoch=known[at]["epoch"], best=known[at]["loss"], own=known[at]["loss"], runs=1)
            )
    return rows


def learned_rows(results: Iterable[Any]) -> Rows:
    """Return the rows of the chart of learned parameters of losses: one row per run, parameter and epoch."""
    rows = []
    for run in results:
        cell = run.cell
        for epoch in _thinned(len(run.history)):
            row = run.history[epoch]
            for name in run.learned:
                if _finite(row.get(name)):
                    which = {"fold": "all" if cell.fold is None else str(cell.fold), "seed": cell.seed}
                    rows.append(_row(_names(run), parameter=name, **which, epoch=row["epoch"], value=row[name]))
    return rows


def cost_rows(results: Iterable[Any], tables: Sequence[Any]) -> Rows:
    """Return the rows of the chart of cost: test metric and seconds of training, for each value in the tables."""
    groups: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    results = list(results)
    curves = {_names(run) for run in results if run.history}
    for run in results:
        if run.history or _names(run) not in curves:  # times with and without validation are not mixed
            groups[_names(run)].append(trained_seconds(run))
    rows = []
    for table in tables:
        for line in table.rows:
            seconds = groups.get((table.data, line.model, line.loss))
            for metric, entry in line.entries.items():
                if seconds and entry.mean is not None:
                    value, spread = entry.mean * table.scale, (entry.spread or 0.0) * table.scale
                    names = table.data, line.model, line.loss
                    ends = {"low": value - spread, "high": value + spread}
                    rows.append(_row(names, metric=table.short(metric), seconds=np.mean(seconds), value=value, **ends))
    for panel in {(row["data"], row["model"], row["metric"]) for row in rows}:
        _name([row for row in rows if (row["data"], row["model"], row["metric"]) == panel])
    return rows


def sensitivity_rows(results: Iterable[Any]) -> Rows:
    """Return the rows of the chart of sensitivity: the validation metric by data set, model, loss and learning rate.

    As in tuning, only the best variant of a loss counts for each fold and trial. `value` is the mean over folds and
    trials with this learning rate; `low` and `high` are the smallest and the largest of these values.
    """
    rates = [kind.rate for kind in kinds() if kind.rate is not None]
    best: dict[tuple[Any, ...], float] = {}
    for run in results:
        cell, metric = run.cell, validation_metric(run)
        value = run.validation.get(metric)
        rate = next((cell.settings[name] for name in rates if name in cell.settings), None)
        if not _finite(value) or rate is None:
            continue
        sign = 1.0 if higher_is_better(metric) else -1.0
        place = (*_names(run), float(rate), cell.fold, cell.trial)
        best[place] = value if place not in best else sign * max(sign * best[place], sign * value)
    groups: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for place, value in best.items():
        groups[place[:4]].append(value)
    tried = defaultdict(set)
    for *names, rate in groups:
        tried[tuple(names)].add(rate)
    return [
        _row(names, lr=rate, value=np.mean(values), low=min(values), high=max(values), runs=len(values))
        for (*names, rate), values in sorted(groups.items())
        if len(tried[tuple(names)]) > 1
    ]


def validation_metric(run: Any) -> str:
    """Return the metric by which the epoch of a run was chosen on the validation lists."""
    return str(run.cell.settings.get("metric", "nDCG@10"))


def trained_seconds(run: Any) -> float:
    """Return the seconds of training of a run, without validation; if these are unknown, validation is included."""
    seconds = [row["seconds"] for row in run.history if "seconds" in row]
    return float(sum(seconds)) if seconds else float(run.seconds)


def by_column(rows: Rows) -> dict[str, Any]:
    """Convert the rows of a chart to columns. Texts become indices. Numbers are rounded to seven significant digits.

    Example:
        >>> by_column([{"loss": "RMSE", "lr": 0.12345674}, {"loss": "RMSE", "lr": 1.0}])
        {'loss': {'of': ['RMSE'], 'at': [0, 0]}, 'lr': [0.1234567, 1]}
    """
    packed: dict[str, Any] = {}
    for name in rows[0] if rows else ():
        values = [row[name] for row in rows]
        if isinstance(values[0], str):
            places = {value: place for place, value in enumerate(dict.fromkeys(values))}
            packed[name] = {"of": list(places), "at": [places[value] for value in values]}
        else:
            packed[name] = [_short(value) for value in values]
    return packed


def _name(rows: Rows) -> None:
    """Set the name of each point in the chart of cost: `name` is to the right of the point, `name_left` to the left.

    If a point is near the right edge of the chart, its name is on the left of the point. A name that would overlap
    another name or a point becomes empty; tooltips show all names.
    """
    x, y = np.log([max(row["seconds"], 1e-9) for row in rows]), np.array([row["value"] for row in rows])
    across, down = ((v - v.min()) / (np.ptp(v) or 1.0) for v in (x, y))
    # Positions in pixels. A name is a box beside its point; a point is a box around its centre.
    points = [(left - 6, left + 6, height - 7) for left, height in zip(400 * across, 260 * down, strict=True)]
    taken = list(points)
    for row, point in sorted(zip(rows, points, strict=True), key=lambda one: -one[1][2]):
        width, height = 6.5 * len(row["loss"]), point[2]
        left, right = point[0] + 14, point[0] + 14 + width
        beside = "name"
        if right > _RIGHT:
            left, right, beside = point[1] - 14 - width, point[1] - 14, "name_left"
        others = (box for box in taken if box is not point)
        free = all(abs(height - other) > 13 or right < start or left > end for start, end, other in others)
        row |= {"name": "", "name_left": ""} | ({beside: row["loss"]} if free else {})
        taken += [(left, right, height)] if free else []


def _short(value: float) -> float:
    rounded = float(f"{value:.7g}")
    return int(rounded) if rounded == int(rounded) else rounded


def _finite(value: float | None) -> bool:
    return value is not None and abs(value) < float("inf")


@cache
def higher_is_better(metric: str) -> bool:
    """Return True if higher values of the metric are better."""
    return parse_metric(metric).higher_is_better


def _names(run: Any) -> tuple[str, str, str]:
    return run.cell.label, run.cell.model, run.cell.loss


def _row(names: Sequence[Any], **numbers: Any) -> dict[str, Any]:
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in numbers.items()}
    return {**dict(zip(("data", "model", "loss"), names, strict=True)), **plain}


def _thinned(length: int) -> Iterator[int]:
    """Yield the epochs that a line of a chart shows: 0 to length - 1, or only every n-th epoch and the last epoch."""
    step = -(-length // _POINTS)
    yield from (place for place in range(length) if place % step == 0 or place == length - 1)
