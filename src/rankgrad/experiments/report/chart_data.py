"""What the charts of a report show, as rows: learning curves, learned parameters, cost, sensitivity to the rate."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from rankgrad.metrics import parse_metric as parse_metric
from rankgrad.models.registry import kinds

Rows = list[dict[str, Any]]

_POINTS = 120  # of a line, at most; longer ones keep every n-th epoch and the last


def curve_rows(outcomes: Iterable[Any]) -> Rows:
    """The validation metric over the epochs, mean over folds and seeds: a row for each data set, model, loss and epoch.

    `best` is the best epoch's value so far, which a run that stopped early keeps; `own` is the epoch's own value, over
    the `runs` that are still going.
    """
    groups: dict[tuple[str, str, str], list[Any]] = defaultdict(list)
    for outcome in outcomes:
        metric = judged_by(outcome)
        values = np.array([row[metric] for row in outcome.history if _finite(row.get(metric))], dtype=np.float64)
        if len(values):
            best = np.maximum if _higher_is_better(metric) else np.minimum
            groups[_names(outcome)].append((values, best.accumulate(values)))
    rows = []
    for names, runs in groups.items():
        length = max(len(values) for values, _ in runs)
        for epoch in _thinned(length):
            going = [values[epoch] for values, _ in runs if len(values) > epoch]
            best = np.mean([so_far[min(epoch, len(so_far) - 1)] for _, so_far in runs])
            rows.append(_row(names, epoch=epoch + 1, best=best, own=np.mean(going), runs=len(going)))
    return rows


def learned_rows(outcomes: Iterable[Any]) -> Rows:
    """The parameters that a loss learns, over the epochs: a row for each run, parameter and epoch."""
    rows = []
    for outcome in outcomes:
        cell = outcome.cell
        for epoch in _thinned(len(outcome.history)):
            row = outcome.history[epoch]
            for name in outcome.learned:
                if _finite(row.get(name)):
                    run = {"fold": "all" if cell.fold is None else str(cell.fold), "seed": cell.seed}
                    rows.append(_row(_names(outcome), parameter=name, **run, epoch=row["epoch"], value=row[name]))
    return rows


def cost_rows(outcomes: Iterable[Any], tables: Sequence[Any]) -> Rows:
    """Quality on test against seconds of training: a row for each number of the tables."""
    groups: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for outcome in outcomes:
        groups[_names(outcome)].append(trained_seconds(outcome))
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


def sensitivity_rows(outcomes: Iterable[Any]) -> Rows:
    """The validation metric against the learning rate: a row for each data set, model, loss and rate that was tried.

    Of the variants of a loss the best counts, as in tuning; then the mean over folds and the other settings. `low` and
    `high` are the worst and the best of these.
    """
    rates = [kind.rate for kind in kinds() if kind.rate is not None]
    best: dict[tuple[Any, ...], float] = {}
    for outcome in outcomes:
        cell, metric = outcome.cell, judged_by(outcome)
        value = outcome.validation.get(metric)
        rate = next((cell.settings[name] for name in rates if name in cell.settings), None)
        if not _finite(value) or rate is None:
            continue
        sign = 1.0 if _higher_is_better(metric) else -1.0
        place = (*_names(outcome), float(rate), cell.fold, cell.trial)
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


def judged_by(outcome: Any) -> str:
    """The metric that chose the epoch."""
    return str(outcome.cell.settings.get("metric", "nDCG@10"))


def trained_seconds(outcome: Any) -> float:
    """Seconds of a run in training alone; with its judging where no more is known."""
    seconds = [row["seconds"] for row in outcome.history if "seconds" in row]
    return float(sum(seconds)) if seconds else float(outcome.seconds)


def by_column(rows: Rows) -> dict[str, Any]:
    """The rows by column, for a page: texts are numbered, numbers are rounded to five digits.

    Example:
        >>> by_column([{"loss": "RMSE", "lr": 0.1234567}, {"loss": "RMSE", "lr": 1.0}])
        {'loss': {'of': ['RMSE'], 'at': [0, 0]}, 'lr': [0.12346, 1]}
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
    """Give each point its name, but for those whose name would lie on another's: tooltips have all."""
    x, y = np.log([max(row["seconds"], 1e-9) for row in rows]), np.array([row["value"] for row in rows])
    across, down = ((v - v.min()) / (np.ptp(v) or 1.0) for v in (x, y))
    taken: list[tuple[float, float, float]] = []
    for row, left, height in sorted(zip(rows, 400 * across, 260 * down, strict=True), key=lambda one: -one[2]):
        right = left + 6.5 * len(row["loss"]) + 8
        free = all(abs(height - other) > 13 or right < start or left > end for start, end, other in taken)
        row["name"] = row["loss"] if free else ""
        taken += [(left, right, height)] if free else []


def _short(value: float) -> float:
    rounded = float(f"{value:.5g}")
    return int(rounded) if rounded == int(rounded) else rounded


def _finite(value: float | None) -> bool:
    return value is not None and abs(value) < float("inf")


@cache
def _higher_is_better(metric: str) -> bool:
    return parse_metric(metric).higher_is_better


def _names(outcome: Any) -> tuple[str, str, str]:
    return outcome.cell.label, outcome.cell.model, outcome.cell.loss


def _row(names: Sequence[Any], **numbers: Any) -> dict[str, Any]:
    own = {name: value.item() if isinstance(value, np.generic) else value for name, value in numbers.items()}
    return {**dict(zip(("data", "model", "loss"), names, strict=True)), **own}


def _thinned(length: int) -> Iterator[int]:
    """Places 0 to length - 1, or every n-th of them and the last."""
    step = -(-length // _POINTS)
    yield from (place for place in range(length) if place % step == 0 or place == length - 1)
