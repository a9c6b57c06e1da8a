"""Gather the data for the page of an automatic search."""

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
)
from rankgrad.experiments.report.shuffled_importance import Importance, shuffled_importance
from rankgrad.experiments.report.training_study import recorded_means
from rankgrad.experiments.tables.footnotes import short
from rankgrad.experiments.tables.plain_table import Field, PlainTable
from rankgrad.metrics import parse_metric
from rankgrad.models.auto import ensemble
from rankgrad.models.auto.ensemble import FORMS
from rankgrad.models.auto.final_model import LATENCY_DOCUMENTS
from rankgrad.models.auto.saved_search import SavedSearch
from rankgrad.models.auto.stored_lists import joined
from rankgrad.models.auto.students import STUDENT
from rankgrad.models.protocol import TrainedModel
from rankgrad.models.registry import load

FINAL, BEST = "final model", "best candidate alone"
_TAUGHT = "The value of the student is too high, because its teacher was trained on the held-out lists"
_CANDIDATES = 30  # maximum number of candidates in the chart
_HELD_OUT = (
    "Each list was scored by a model that was not trained on this list. But the list also determined when the training "
    "of this model stopped, so the values are slightly too high."
)


def auto_study(
    folder: Path,
    search: Path,
    data: str,
    parts: Mapping[str, Dataset],
    metrics: Sequence[str],
    *,
    warnings: Sequence[str] = (),
    lists: bool = True,
) -> Study:
    """Gather the data for the page of an automatic search: its candidates, and the final model on the test lists.

    Without test lists, the final model is shown on the lists of the search. Each list is then scored by models that
    were not trained on this list.

    Args:
        folder: folder of the final model.
        search: folder of the search.
        data: name of the data.
        parts: train, validation and test lists, as far as they can be read; empty if no list can be read.
        metrics: metrics of the final model, in addition to the metric of the search.
        warnings: sentences about data that could not be read.
        lists: if False, the page has no ranked lists.
    """
    saved, model = SavedSearch.read(search), load(folder)
    result, metric = saved.result, str(parse_metric(saved.result["metric"]))
    names = list(dict.fromkeys([metric, *(str(parse_metric(each)) for each in metrics)]))
    shown, candidates = short(metric, [metric]), result["leaderboard"]
    tested = _tested(saved, model, data, parts, names, lists) if "test" in parts else None
    held_out, caution = (None, ()) if tested or not parts else _held_out(saved, data, parts, names, lists)
    compared = tested or held_out
    recorded = recorded_means(data, FINAL, model.metrics.get("test", {}))
    measured = shuffled_importance(model, data, parts.get("test"), metric)
    where = "test lists, which the search did not use" if tested else "held-out lists"
    tables = [compared.table] if compared else [recorded] if recorded.rows else []
    tables += [_leaderboard(data, result, shown), _members(result, candidates, shown)]
    tables += [_nested(result, shown)] if result["nested"] else []
    return Study(
        name=folder.resolve().name,
        title=f"Automatic search {folder.resolve().name}: {_form(result)}",
        summary=tuple(_summary(result, data, metric, compared, where, recorded)),
        warnings=(*warnings, *caution, *_failures(candidates)),
        facts=tuple(_facts(result, parts, measured)),
        texts=(
            ("Settings of the search", yaml.safe_dump(saved.settings, sort_keys=False)),
            ("Settings of the candidates", _settings_text(candidates)),
        ),
        tables=tuple(tables),
        data=(data,),
        models=(MODEL,),
        losses=tuple(dict.fromkeys(_called(row) for row in candidates)),
        metrics=(shown,),
        validation_metric=metric,
        rows={
            "overview": _overview(data, result, shown, metric),
            "tested": [row for row in compared.overview if row["metric"] == shown] if compared else [],
            "progress": _progress(data, result["learning"]),
            "importance": measured.rows,
        },
        explorers={data: compared.explorer} if compared else {},
        measured=_measured(result),
        queries="test lists" if tested else "held-out lists",
        tested=f"Mean, {INTERVALS}",
        importance=measured.caption,
        heading=", held-out lists of the search",
        kind="name",
    )


def _tested(
    saved: SavedSearch, model: TrainedModel, data: str, parts: Mapping[str, Dataset], names: list[str], lists: bool
) -> RankerComparison:
    """Compare the final model of a search with its best candidate and with simple rankers, on the test lists."""
    test = parts["test"]
    scored = [ScoredRanker(FINAL, model.score_lists(test))]
    if (best := _best_apart(saved.result)) is not None:
        scored.append(ScoredRanker(BEST, saved.bag(best["candidate"]).score_lists(test)))
    scored += baselines(parts.get("train"), test, names[0])
    title, pair = f"{data}, test lists, which the search did not use", (scored[1].name, FINAL)
    notes = tuple(_comparison_notes(scored, saved.result, "training lists"))
    compared = compare_rankers(data, test, scored, names, title=title, pair=pair, notes=notes, show_lists=lists)
    if lists:
        explained = explain_queries(model, test, scored[0].scores, compared.found[FINAL].values[names[0]], names[0])
        compared.explorer["explanations"] = {"system": 0, "queries": explained}
    return compared


def _held_out(
    saved: SavedSearch, data: str, parts: Mapping[str, Dataset], names: list[str], lists: bool
) -> tuple[RankerComparison | None, tuple[str, ...]]:
    """Compare rankers on held-out lists of a search; each list is scored by models not trained on this list.

    The second result contains a warning if the data has changed since the search.
    """
    found = saved.held_out(joined(parts["train"], parts.get("validation")))
    if found is None:
        return None, ("The data has changed since the search. Intervals, baselines and queries are left out.",)
    scored = [ScoredRanker(FINAL, found.scores(saved.result["members"]))]
    if (best := _best_apart(saved.result)) is not None:
        scored.append(ScoredRanker(BEST, found.scores([{**best, "weight": 1.0}])))
    scored += baselines(found.data, found.data, names[0])
    title, pair = f"{data}, held-out lists of the search", (scored[1].name, FINAL)
    notes = (*_comparison_notes(scored, saved.result, "same lists"), f"There are no test lists. {_HELD_OUT}")
    if saved.result["members"][0]["candidate"] == STUDENT:
        notes = (*notes, _TAUGHT)
    compared = compare_rankers(data, found.data, scored, names, title=title, pair=pair, notes=notes, show_lists=lists)
    return compared, ()


def _best_apart(result: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the row of the best candidate of a search; None if the final model is the bag of this candidate."""
    best, members = result["leaderboard"][0], result["members"]
    same = len(members) == 1 and members[0]["candidate"] == best["candidate"] and members[0]["models"] == best["folds"]
    return None if same else best


def _comparison_notes(scored: Sequence[ScoredRanker], result: Mapping[str, Any], lists: str) -> Iterator[str]:
    best = result["leaderboard"][0]
    if scored[1].name == BEST:
        yield f"{BEST}: mean of the {_count(best['folds'], 'fold model')} of {_called(best)}"
    if scored[-1].name == FEATURE:
        yield f"The best single feature was chosen on the {lists}"


def _form(result: Mapping[str, Any]) -> str:
    """Return the form of a search's final model in words, as in `even blend of 6 candidates (18 models)`."""
    members, form = result["members"], result["form"]
    models = _count(sum(member["models"] for member in members), "model")
    if len(members) > 1:
        return f"{f'{form} of' if form in FORMS else f'{form},'} {len(members)} candidates ({models})"
    if form in FORMS or members[0]["models"] > 1:
        return f"mean of the fold models of {_called(members[0])} ({models})"
    return f"{form} ({members[0]['model']}, {members[0]['loss']})"


def _summary(
    result: Mapping[str, Any],
    data: str,
    metric: str,
    compared: RankerComparison | None,
    where: str,
    recorded: PlainTable,
) -> Iterator[str]:
    shown, candidates = short(metric, [metric]), result["leaderboard"]
    yield f"Final model: {_form(result)}."
    if compared is not None:
        found = compared.found[FINAL]
        yield f"On {len(found.values[metric]):,} {where}, it has {shown} {number(found, metric)}."
        others = [f"{name} {other[metric]:.4f}" for name, other in compared.found.items() if name != FINAL]
        yield f"For comparison: {', '.join(others)}."
    else:
        for row in recorded.rows:
            values = ", ".join(f"{head} {field.text}" for head, field in zip(recorded.heads[1:], row[1:], strict=True))
            yield f"Values of the final model on the test lists, as the search recorded them: {values}."
    kinds = ", ".join(dict.fromkeys(row["family"] for row in candidates))
    yield (
        f"The search tried {_count(len(candidates), 'candidate')} ({kinds}) in {result['seconds']:,.1f} s on {data}, "
        f"and trained {len(_complete(result))} of them on all {_count(result['folds'], 'fold')}."
    )
    best = candidates[0]
    yield f"The best candidate is {_called(best)}, with {shown} {best['value']:.4f} on the held-out lists."
    yield from _reason(result, shown)
    yield from (f"{note[:1].upper()}{note[1:].rstrip('.')}." for note in result["notes"])


def _reason(result: Mapping[str, Any], shown: str) -> Iterator[str]:
    """Yield sentences about the choice of the form of an automatic search."""
    nested, form = result["nested"], result["form"]
    if len(nested) > 1:
        values = ", ".join(f"{name} {value:.4f}" for name, value in nested.items())
        yield f"Nested check, {shown} of each form of ensemble on lists that were not used to choose it: {values}."
    yield ensemble.reason(form, nested, len(result["members"]))


def _failures(candidates: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    failed = [row["candidate"] for row in candidates if row["note"].startswith("failed")]
    if failed:
        yield f"{_count(len(failed), 'candidate')} failed: {', '.join(failed)}. See the notes of the candidates."


def _facts(result: Mapping[str, Any], parts: Mapping[str, Dataset], measured: Importance) -> Iterator[str]:
    if parts:
        yield lists_of(parts)
    spent = sum(row["seconds"] for row in result["leaderboard"])
    yield f"The search took {result['seconds']:,.1f} s; its trainings took {spent:,.1f} s in total."
    yield f"Latency of the final model: {_latency(result)}."
    if measured.why:
        yield measured.why


def _latency(result: Mapping[str, Any]) -> str:
    return f"{1e3 * result['latency']:.3g} ms per {LATENCY_DOCUMENTS} documents on one core"


def _measured(result: Mapping[str, Any]) -> str:
    """Return the caption of the chart of candidates of a search."""
    complete = len(_complete(result))
    which = f"The best {_CANDIDATES} of {complete} candidates" if complete > _CANDIDATES else "Candidates"
    return (
        f"{which} that were trained on all folds: mean over {result['lists']:,} held-out lists, with 95% intervals "
        f"(1.96 standard errors). The best row is first. {_HELD_OUT}"
    )


def _complete(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the rows of the candidates of a search that have a model for each fold, best first."""
    return [row for row in result["leaderboard"] if row["folds"] >= result["folds"] and row["value"] is not None]


def _overview(data: str, result: Mapping[str, Any], shown: str, metric: str) -> chart_data.Rows:
    rows = []
    for row in _complete(result)[:_CANDIDATES]:
        low, high = row["interval"]
        rows.append(_chart_row(data, _called(row), shown) | {"value": row["value"], "low": low, "high": high})
    return chart_data.place_rows(rows, chart_data.higher_is_better(metric))


def _progress(data: str, learning: Sequence[Sequence[float]]) -> chart_data.Rows:
    """Return the rows of the progress chart: each time when the best value changed, and the first and last time."""
    rows = []
    for place, (seconds, value) in enumerate(learning):
        if place in (0, len(learning) - 1) or value != learning[place - 1][1]:
            names = {"data": data, "model": MODEL, "loss": "best so far"}
            rows.append(names | {"seconds": seconds, "value": value})
    return rows


def _leaderboard(data: str, result: Mapping[str, Any], shown: str) -> PlainTable:
    """Return the table of all candidates of an automatic search."""
    rows = []
    for row in result["leaderboard"]:
        value, interval = row["value"], row["interval"]
        rows.append(
            (
                Field(row["candidate"]),
                Field(row["model"]),
                Field(row["loss"]),
                Field("") if value is None else Field(f"{value:.4f}", value),
                Field("") if interval is None else Field(f"{interval[0]:.4f} to {interval[1]:.4f}", interval[0]),
                Field(f"{row['folds']}", float(row["folds"])),
                Field(f"{row['seconds']:.1f}", row["seconds"]),
                Field(row["note"]),
            )
        )
    heads = ("candidate", "model", "loss", shown, "95% interval", "folds", "seconds", "note")
    notes = (
        f"{shown} on the held-out lists of the finished folds. {_HELD_OUT}",
        f"Candidates with fewer than {result['folds']} folds were measured on fewer lists, and are at the end",
    )
    return PlainTable(f"{data}, candidates", heads, tuple(rows), notes)


def _members(result: Mapping[str, Any], candidates: Sequence[Mapping[str, Any]], shown: str) -> PlainTable:
    """Return the table of the members of the final model, with the largest weight first."""
    values = {row["candidate"]: row["value"] for row in candidates}
    rows = []
    for member in sorted(result["members"], key=lambda member: -member["weight"]):
        value = values.get(member["candidate"])
        rows.append(
            (
                Field(member["candidate"]),
                Field(f"{member['weight']:.3f}", member["weight"]),
                Field(member["model"]),
                Field(member["loss"]),
                Field(f"{member['models']}", float(member["models"])),
                Field("") if value is None else Field(f"{value:.4f}", value),
            )
        )
    count = sum(member["models"] for member in result["members"])
    notes = (
        f"{_count(count, 'model')} in total. Latency of the final model: {_latency(result)}",
        "Several models of a candidate are its fold models; their scores are standardised per list and averaged",
    )
    heads = ("candidate", "weight", "model", "loss", "models", f"{shown}, held-out")
    return PlainTable("Members of the final model", heads, tuple(rows), notes)


def _nested(result: Mapping[str, Any], shown: str) -> PlainTable:
    """Return the table of the nested check: the forms of ensemble, on lists that were not used to choose members."""
    rows = []
    for form, value in result["nested"].items():
        chosen = "chosen" if form == result["form"] else ""
        rows.append((Field(form), Field(f"{value:.4f}", value), Field(chosen)))
    notes = (
        "Members and weights of each form were chosen on some of the lists; the form was measured on the other lists",
        "The even blend is chosen unless another form is clearly better: the 95% interval of the difference excludes 0",
    )
    return PlainTable("Forms of ensemble", ("form", shown, "choice"), tuple(rows), notes)


def _chart_row(data: str, name: str, shown: str) -> dict[str, Any]:
    return {"data": data, "model": MODEL, "loss": name, "metric": shown, "row": name}


def _called(row: Mapping[str, Any]) -> str:
    """Return the name of a candidate in charts and sentences, such as `c006 mlp, softmax`."""
    return f"{row['candidate']} {row['model']}, {row['loss']}"


def _settings_text(candidates: Sequence[Mapping[str, Any]]) -> str:
    settings = {row["candidate"]: row["settings"] for row in candidates}
    return yaml.safe_dump(settings, sort_keys=False)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
