"""Gather the data for the page of a training run."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from rankgrad.data import Dataset
from rankgrad.experiments.report import chart_data
from rankgrad.experiments.report.page_content import INTERVALS, Study
from rankgrad.experiments.report.query_explanations import explain_queries
from rankgrad.experiments.report.ranker_study import (
    FEATURE,
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
from rankgrad.experiments.report.shuffled_importance import Importance, shuffled_importance
from rankgrad.experiments.tables.footnotes import short
from rankgrad.experiments.tables.plain_table import Field, PlainTable
from rankgrad.metrics import parse_metric
from rankgrad.models.protocol import TrainedModel
from rankgrad.models.registry import load

PARTS = ("test", "validation", "train")  # the first of these parts that exists is evaluated


def training_study(
    folder: Path,
    data: str,
    parts: Mapping[str, Dataset],
    metrics: Sequence[str],
    *,
    warnings: Sequence[str] = (),
    lists: bool = True,
    first_stage: str = "BM25",
) -> Study:
    """Gather the data for the page of a training run; the ranker is compared with rankers that need no training.

    Args:
        folder: folder of the run.
        data: name of the data.
        parts: train, validation and test lists, as far as they can be read; empty if no list can be read.
        metrics: metrics to show, in addition to the validation metric.
        warnings: sentences about data that could not be read.
        lists: if False, the page has no ranked lists.
        first_stage: name of the run that a ranker of texts re-ranks.
    """
    model = load(folder)
    metric = validation_metric(model.settings)
    names = list(dict.fromkeys([metric, *(str(parse_metric(each)) for each in metrics)]))
    ranker = ranker_name(model.settings)
    where = next((part for part in PARTS if part in parts), None)
    compared, measured = None, Importance([])
    if where is not None:
        tested = parts[where]
        measured = shuffled_importance(model, data, tested, metric, where)
        scored = [ScoredRanker(ranker, model.score_lists(tested))]
        scored += baselines(parts.get("train"), tested, metric, first_stage=first_stage)
        title, pair = f"{data}, {where} lists", (scored[-1].name, ranker)
        note = ("The best single feature was chosen on the training lists",) if scored[-1].name == FEATURE else ()
        compared = compare_rankers(data, tested, scored, names, title=title, pair=pair, notes=note, show_lists=lists)
        if lists:
            explained = explain_queries(model, tested, scored[0].scores, compared.lists[ranker].values[metric], metric)
            compared.explorer["explanations"] = {"system": 0, "queries": explained}
    history = read_history(folder, model.unit)
    run = run_of(data, ranker, history, metric, model.metrics.get("loss", {}))
    known = model.metrics.get("test", {})
    table = compared.table if compared else recorded_means(data, ranker, known)
    shown = tuple(short(name, names) for name in names)
    return Study(
        name=folder.resolve().name,
        title=f"Training run {folder.resolve().name}: {ranker}",
        summary=tuple(_summary(model, len(history), ranker, data, metric, where, compared, parts)),
        warnings=(*warnings, *_caution(where)),
        facts=(*_facts(model, history, parts), *filter(None, [measured.why])),
        texts=(("Settings of the run", yaml.safe_dump(dict(model.settings), sort_keys=False)),),
        tables=(table,) if table.rows else (),
        data=(data,),
        models=(MODEL,),
        losses=tuple(row[0].text for row in table.rows) or (ranker,),
        metrics=shown,
        validation_metric=metric,
        rows={
            "overview": compared.overview if compared else [],
            "curves": chart_data.curve_rows([run]),
            "training_loss": chart_data.training_loss_rows([run]),
            "learned": chart_data.learned_rows([run]),
            "importance": measured.rows,
        },
        explorers={data: compared.explorer} if compared else {},
        measured=f"Mean over the {where} lists, {INTERVALS}",
        queries=f"{where} lists",
        importance=measured.caption,
        kind="ranker",
        step=model.unit,
    )


def validation_metric(settings: Mapping[str, Any]) -> str:
    """Return the validation metric of a training run; nDCG@10 if the run has a custom metric."""
    try:
        return str(parse_metric(settings.get("metric", "nDCG@10")))
    except (ValueError, TypeError):
        return "nDCG@10"


def ranker_name(settings: Mapping[str, Any]) -> str:
    """Return the name of a ranker on the page of a run: its model or framework and, if it has one, its loss."""
    model, loss = settings.get("model") or settings.get("framework", "ranker"), settings.get("loss")
    return f"{model}{f', {loss}' if loss else ''}"


def _summary(
    model: TrainedModel,
    total: int,
    ranker: str,
    data: str,
    metric: str,
    where: str | None,
    compared: RankerComparison | None,
    parts: Mapping[str, Dataset],
) -> Iterator[str]:
    shown = short(metric, [metric])
    if compared is not None and where is not None:
        result = compared.found[ranker]
        yield f"{ranker} has {shown} {number(result, metric)} on {len(parts[where]):,} {where} lists of {data}."
        others = [f"{name} has {found[metric]:.4f}" for name, found in compared.found.items() if name != ranker]
        yield f"For comparison: {', '.join(others)}."
    else:
        values = [f"{name} {value:.4f}" for name, value in model.metrics.get("test", {}).items()]
        yield f"{ranker} on the test lists of {data}: {', '.join(values)}." if values else f"{ranker} on {data}."
    validated = model.metrics.get("validation", {}).get(metric)
    if total:
        value = f", with {shown} {validated:.4f} on the validation lists" if validated is not None else ""
        yield f"The final model is the model after {model.unit} {model.kept} of {total}{value}."


def _caution(where: str | None) -> tuple[str, ...]:
    if where == "validation":
        return ("There are no test lists. The numbers are from the validation lists, which also determined the epoch.",)
    if where == "train":
        return ("There are neither test lists nor validation lists. The numbers are from the training lists.",)
    return ()


def _facts(model: TrainedModel, history: list[dict[str, float]], parts: Mapping[str, Dataset]) -> Iterator[str]:
    if parts:
        yield lists_of(parts)
    seconds = sum(row.get("seconds", 0.0) for row in history)
    judged = sum(row.get("judge_seconds", 0.0) for row in history)
    if seconds:
        yield f"Training took {seconds:.1f} s, including the time to compile kernels, and validation {judged:.1f} s."
    if model.size:
        yield f"The ranker has {model.size:,} parameters and {model.features} features."
    if model.metrics.get("loss"):
        learned = ", ".join(f"{name} {value:.4g}" for name, value in model.metrics["loss"].items())
        yield f"Learned parameters of the loss: {learned}."


def recorded_means(data: str, ranker: str, known: Mapping[str, float]) -> PlainTable:
    """Return the table of a training run whose lists cannot be read: the means that the run recorded."""
    fields = tuple(Field(f"{value:.4f}", value) for value in known.values())
    return PlainTable(f"{data}, test lists", ("ranker", *known), ((Field(ranker), *fields),) if known else ())
