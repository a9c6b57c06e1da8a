"""Gather the data for the page of a tuning run."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from rankgrad.data import Dataset
from rankgrad.errors import bad_value
from rankgrad.experiments.report import chart_data
from rankgrad.experiments.report.page_content import INTERVALS, Study
from rankgrad.experiments.report.ranker_study import (
    MODEL,
    RankerComparison,
    ScoredRanker,
    baselines,
    compare_rankers,
    lists_of,
    number,
    read_history,
    run_of,
)
from rankgrad.experiments.report.training_study import ranker_name, validation_metric
from rankgrad.experiments.setting_importance import importance
from rankgrad.experiments.tables.footnotes import short
from rankgrad.experiments.tables.plain_table import Field, PlainTable
from rankgrad.experiments.tuning import Trial, read_trials
from rankgrad.metrics import parse_metric
from rankgrad.models.registry import load

DEFAULT = "default settings"  # name of the trial with the default settings
_EVALUATED = 10  # number of trials that are evaluated again, to compute their intervals
_PANELS = 6  # maximum number of settings with a chart
_TRIALS = 10  # minimum number of trials, without the default settings, for the importance of settings


def tuning_study(
    folder: Path,
    search: Mapping[str, Any],
    data: str,
    parts: Mapping[str, Dataset],
    metrics: Sequence[str],
    *,
    warnings: Sequence[str] = (),
    lists: bool = True,
) -> Study:
    """Gather the data for the page of a tuning run: trials on the validation lists, the best trial on the test lists.

    Args:
        folder: folder of the run; its trials are in `trials`.
        search: content of `trials/search.json`: settings and search space.
        data: name of the data.
        parts: train, validation and test lists, as far as they can be read; empty if no list can be read.
        metrics: metrics on the test lists, in addition to the validation metric.
        warnings: sentences about data that could not be read.
        lists: if False, the page has no ranked lists.
    """
    metric = validation_metric(search["settings"])
    ordered, tried = _ordered(read_trials(folder / "trials"), metric)
    best, default = ordered[0], next((trial for trial in ordered if not trial.drawn), None)
    again = list({trial.name: trial for trial in (*ordered[:_EVALUATED], *([default] if default else []))}.values())
    models = {trial.name: load(folder / "trials" / trial.name) for trial in again}
    names = list(dict.fromkeys([metric, *(str(parse_metric(each)) for each in metrics)]))
    # The trial names are unique, so that they identify the rows of charts.
    called = {trial.name: _called(trial) for trial in ordered}
    validation, test = (parts.get(part) for part in ("validation", "test"))
    valued = _compared(data, validation, again, models, called, metric, lists) if validation is not None else None
    tested = None
    if test is not None:
        shown = [best] + ([default] if default is not None and default is not best else [])
        scored = [ScoredRanker(called[t.name], models[t.name].score_lists(test)) for t in shown]
        scored += baselines(parts.get("train"), test, metric)
        title, pair = f"{data}, test lists, which the search did not use", (scored[1].name, scored[0].name)
        tested = compare_rankers(data, test, scored, names, title=title, pair=pair, show_lists=lists)
    shown_metric, unit = short(metric, [metric]), next(iter(models.values())).unit
    logs = {name: read_history(folder / "trials" / name, unit) for name in models}
    runs = [run_of(data, called[name], history, metric) for name, history in logs.items()]
    explored = tested or valued
    return Study(
        name=folder.resolve().name,
        title=f"Tuning run {folder.resolve().name}: {ranker_name(search['settings'])}",
        summary=tuple(_summary(ordered, called, data, shown_metric, metric, tested, tried)),
        warnings=tuple(warnings),
        facts=tuple(_facts(tried, parts)),
        texts=(("Settings and search space", yaml.safe_dump(dict(search), sort_keys=False)),),
        tables=(
            _trial_table(ordered, called, data, shown_metric, unit, list(search.get("space", {}))),
            *([tested.table] if tested else []),
            *_importance(tried, shown_metric, unit),
        ),
        data=(data,),
        models=(MODEL,),
        losses=tuple(called[trial.name] for trial in again),
        metrics=(shown_metric,),
        validation_metric=metric,
        rows={
            "overview": valued.overview if valued else _plain_overview(data, again, called, metric),
            "curves": chart_data.curve_rows(runs),
            "training_loss": chart_data.training_loss_rows(runs),
            "trials": _setting_rows(data, ordered, called),
        },
        explorers={data: explored.explorer} if explored else {},
        measured=f"{len(again)} trials: mean over the validation lists, "
        + (INTERVALS if valued else "as the search recorded it. The best row is first.")
        + " The best trial was chosen on the same lists.",
        queries="test lists" if tested else "validation lists",
        settings=tuple(_scales(search.get("space", {})))[:_PANELS],
        kind="trial",
        step=unit,
    )


def _ordered(tried: list[Trial], metric: str) -> tuple[list[Trial], list[Trial]]:
    """Return each trial of a search after its last round, best first, and all trials of all rounds.

    The trials of the last round are before all other trials. Trials whose loss was not finite are left out.
    """
    sign = -1.0 if parse_metric(metric).higher_is_better else 1.0
    last: dict[str, Trial] = {}
    for trial in sorted(tried, key=lambda trial: trial.epochs):
        last[trial.name] = trial
    finite = [trial for trial in last.values() if not math.isnan(trial.value)]
    if not finite:
        bad_value("trials", "contain at least one trial whose loss is finite", "none")
    longest = max(trial.epochs for trial in finite)
    return sorted(finite, key=lambda trial: (trial.epochs < longest, sign * trial.value)), tried


def _called(trial: Trial) -> str:
    return f"{trial.name}" if trial.drawn else DEFAULT


def _settings_text(trial: Trial) -> str:
    return ", ".join(f"{name} {value}" for name, value in trial.drawn.items()) or "the default"


def _compared(
    data: str,
    validation: Dataset,
    again: list[Trial],
    models: Mapping[str, Any],
    called: Mapping[str, str],
    metric: str,
    lists: bool,
) -> RankerComparison:
    """Evaluate trials on the validation lists, because the page shows an interval for each trial."""
    scored = [ScoredRanker(called[trial.name], models[trial.name].score_lists(validation)) for trial in again]
    pair = scored[-1].name, scored[0].name
    return compare_rankers(data, validation, scored, [metric], title="", pair=pair, kind="trial", show_lists=lists)


def _plain_overview(data: str, again: list[Trial], called: Mapping[str, str], metric: str) -> chart_data.Rows:
    """Return the rows of the overview of trials if the lists cannot be read. The rows have no intervals."""
    rows = []
    for trial in again:
        name = called[trial.name]
        names = {"data": data, "model": MODEL, "loss": name, "metric": short(metric, [metric]), "row": name}
        rows.append(names | {"value": trial.value, "low": trial.value, "high": trial.value})
    return chart_data.place_rows(rows, chart_data.higher_is_better(metric))


def _summary(
    ordered: list[Trial],
    called: Mapping[str, str],
    data: str,
    shown: str,
    metric: str,
    tested: RankerComparison | None,
    tried: list[Trial],
) -> Iterator[str]:
    best, default = ordered[0], next((trial for trial in ordered if not trial.drawn), None)
    count = len({trial.name for trial in tried})
    yield f"The best of {count} trials on {data} has {shown} {best.value:.4f} on the validation lists."
    if tested is not None:
        other = ""
        if default is not None and default is not best:
            other = f"; the default settings have {tested.found[DEFAULT][metric]:.4f}"
        yield f"On the test lists, this trial has {number(tested.found[called[best.name]], metric)}{other}."
    yield f"Settings of the best trial: {_settings_text(best)}."


def _facts(tried: list[Trial], parts: Mapping[str, Dataset]) -> Iterator[str]:
    if parts:
        yield lists_of(parts)
    seconds: dict[str, float] = {}
    for trial in tried:
        seconds[trial.name] = max(seconds.get(trial.name, 0.0), trial.seconds)
    yield f"{len(seconds):,} trials, {sum(seconds.values()):.1f} s of training and validation in total."
    failed = {trial.name for trial in tried if math.isnan(trial.value)}
    if failed:
        yield f"The loss of {len(failed):,} trials was not finite."


def _trial_table(
    ordered: list[Trial], called: Mapping[str, str], data: str, metric: str, unit: str, settings: list[str]
) -> PlainTable:
    """Return the table of all trials, with one column per setting of the search space."""
    rows = []
    for trial in ordered:
        numbers = (Field(f"{trial.value:.4f}", trial.value), Field(f"{trial.epoch}", float(trial.epoch)))
        spent = (Field(f"{trial.epochs}", float(trial.epochs)), Field(f"{trial.seconds:.1f}", trial.seconds))
        drawn = (trial.drawn.get(name, "") for name in settings)
        own = (Field(str(value), float(value) if _is_number(value) else None) for value in drawn)
        rows.append((Field(called[trial.name]), *numbers, *spent, *own))
    heads = ("trial", metric, f"best {unit}", f"{unit}s", "seconds", *settings)
    notes = (f"{metric} on the validation lists; the trials of the last round are first",)
    return PlainTable(f"{data}, trials", heads, tuple(rows), notes)


def _importance(tried: list[Trial], metric: str, unit: str) -> Iterator[PlainTable]:
    """Yield the table of the importance of settings in the first round of a search, if there are enough trials."""
    first = min(trial.epochs for trial in tried)
    drawn = [trial for trial in tried if trial.drawn and trial.epochs == first]
    if len(drawn) < _TRIALS or len({trial.value for trial in drawn}) < 2:
        return
    weights, fit = importance([trial.drawn for trial in drawn], [trial.value for trial in drawn])
    rows = []
    for each in weights:
        trend = Field("") if each.trend is None else Field(f"{each.trend:+.2f}", each.trend)
        rows.append((Field(each.setting), Field(f"{each.share:.0%}", each.share), trend))
    low = ": do not rely on the importance" if fit < 0.2 else ""
    notes = (
        f"A random forest predicts {metric} of the {len(drawn)} trials after {first} {unit}s from their settings; its "
        f"out-of-bag R² is {fit:.2f}{low}",
        "importance: share of a setting in the drops of R²; R² drops if the values of a setting are shuffled",
        f"trend: rank correlation of a setting with {metric}",
    )
    yield PlainTable("Importance of the settings", ("setting", "importance", "trend"), tuple(rows), notes)


def _setting_rows(data: str, ordered: list[Trial], called: Mapping[str, str]) -> chart_data.Rows:
    rows = []
    for trial in ordered:
        names = {"data": data, "model": MODEL, "loss": called[trial.name]}
        for setting, value in trial.drawn.items():
            at = float(value) if _is_number(value) else 0.0
            rows.append(
                names | {"setting": setting, "text": str(value), "number": at, "value": trial.value}
                | {"epochs": trial.epochs}
            )  # fmt: skip
    return rows


def _scales(space: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each setting of the search space with the scale of its chart."""
    for name, choices in space.items():
        if isinstance(choices, Mapping):
            yield name, "log" if choices.get("log") else "linear"
        else:
            yield name, "linear" if all(map(_is_number, choices)) else "names"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
