"""Gather the data of an experiment, for its page, tables and figures."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from rankgrad.experiments.report import chart_data
from rankgrad.experiments.report.page_content import INTERVALS, Study
from rankgrad.experiments.report.query_explorer import explorer, query_values, ranked_lists
from rankgrad.experiments.tables.table import BETTER, WORSE, Table, tables
from rankgrad.experiments.tables.text import form_label

_SENTENCES = 3  # maximum number of data sets that the summary names


def study(results: Any, name: str, *, root: Any = None, lists: bool = True, limit: int = 1_200_000) -> Study:
    """Gather the data of the page of an experiment from its results.

    Args:
        results: return value of `rankgrad.experiments.runs.results.read_results`, with a recipe.
        name: name of the study, used for its files.
        root: folder of the data sets, for the labels of the documents.
        lists: if False, the page has no ranked lists.
        limit: maximum number of characters of all query explorers together; queries above this limit are left out.
    """
    recipe, final = results.recipe, results.final()
    # A refit has no validation lists, so the curves of the chosen tuning runs are shown.
    validated = [run for run in final if any(chart_data.validation_metric(run) in row for row in run.history)]
    made = [table for table in tables(results) if any(e.runs for row in table.rows for e in row.entries.values())]
    found = {table.data: query_values(table, final) for table in made}
    explorers = {}
    for table in made:
        if (values := found[table.data]) is not None:
            ranked, why = ranked_lists(table, final, root) if lists else (None, "The page was written without lists.")
            explorers[table.data] = explorer(values, ranked, why, limit=limit // len(made))
    overview = [row for table in made for row in chart_data.overview_rows(table, found[table.data])]
    spread = any(entry.spread is not None for table in made for row in table.rows for entry in row.entries.values())
    averaged = _averaged(recipe)
    seeds = any(len(source.seeds) > 1 for source in recipe.data)
    meaning = "standard deviation" if recipe.spread == "deviation" else "95% interval"
    return Study(
        name=name,
        title=recipe.title,
        summary=tuple(_summary(made, overview, recipe.tests.against)),
        warnings=tuple(_warnings(results, made)),
        facts=tuple(_facts(results)),
        texts=(("Notes of the recipe", recipe.notes), ("The recipe as it was run", recipe.dump())),
        tables=tuple(made),
        data=tuple(table.data for table in made),
        models=tuple(recipe.models),
        losses=tuple(dict.fromkeys(row.loss for source in recipe.data for row in recipe.rows(source))),
        metrics=tuple(made[0].short(metric) for metric in made[0].metrics) if made else (),
        validation_metric=recipe.choose,
        rows={
            "overview": overview,
            "curves": chart_data.curve_rows(validated or recipe.chosen(results.tuned())),
            "learned": chart_data.learned_rows(final),
            "cost": chart_data.cost_rows(final, made),
            "sensitivity": chart_data.sensitivity_rows(results.tuned()),
        },
        explorers=explorers,
        measured=f"Mean over the test queries{f' and over {averaged}' if averaged else ''}, {INTERVALS}",
        queries="test queries, mean over seeds; ranked lists are of the first seed" if seeds else "test queries",
        curves=f", mean over {averaged}. A stopped run keeps its best value" if averaged else "",
        spread=f"the {meaning} over seeds, as ± in the table" if spread else "",
        step=" or ".join(dict.fromkeys(model.kind.unit for model in recipe.models.values())),
        digits=made[0].digits if made else 4,
    )


def _averaged(recipe: Any) -> str:
    """Name what the means of an experiment are computed over: `folds`, `seeds`, `folds and seeds` or an empty text."""
    several = [("folds", any(len(source.folds) > 1 for source in recipe.data))]
    several += [("seeds", any(len(source.seeds) > 1 for source in recipe.data))]
    return " and ".join(name for name, some in several if some)


def _summary(made: list[Table], overview: chart_data.Rows, against: str) -> Iterator[str]:
    """Yield sentences about an experiment: best row of each data set, tests, and differences from the paper."""
    if any(table.form for table in made):
        yield f"The reduced recipe ran: {len({(row['data'], row['row']) for row in overview})} rows have numbers."
        return
    for table in made[:_SENTENCES]:
        metric = table.short(table.metrics[0])
        rows = [row for row in overview if (row["data"], row["metric"]) == (table.data, metric)]
        best = next((row for row in rows if row["place"] == 1), None)
        if best is not None:
            number, low, high = (f"{best[name]:.{table.digits}f}" for name in ("value", "low", "high"))
            count = f" of {len(rows)} rows" if len(rows) > 1 else ""
            interval = f" (95% interval {low} to {high})" if best["low"] < best["high"] else ""
            yield f"On {table.data}, {best['row']} has the best {metric}{count}: {number}{interval}."
    if len(made) > _SENTENCES:
        yield f"The tables show {len(made) - _SENTENCES} more data sets."
    entries = [row.entries[table.metrics[0]] for table in made for row in table.rows]
    tested = [entry for entry in entries if entry.p is not None]
    if tested and against == "best":
        worse = sum(bool(entry.mark) for entry in tested)
        models = (
            "the best row"
            if len({row.model for table in made for row in table.rows}) == 1
            else ("the best row with the same model")
        )
        yield f"{worse} of {len(tested)} other rows are significantly worse than {models} (marked †)."
    elif tested:
        better, worse = (sum(entry.mark == mark for entry in tested) for mark in (BETTER, WORSE))
        yield (
            f"Of {len(tested)} rows tested against {against}, {better} are significantly better ({BETTER}) and {worse} "
            f"significantly worse ({WORSE})."
        )
    gaps = [entry.gap for entry in entries if entry.gap is not None]
    if gaps:
        mean = sum(gaps) / len(gaps) * made[0].scale
        yield (f"Our numbers differ from the paper's by {mean:+.{made[0].digits}f} on average over {len(gaps)} rows.")


def _facts(results: Any) -> Iterator[str]:
    cells = results.cells
    final, tuned = len(results.final()), len(results.tuned())
    hours = sum(run.seconds for run in cells) / 3600
    spent = f"{hours:.1f} hours" if hours >= 1 else f"{60 * hours:.1f} minutes"
    tuning = f" and {tuned:,} for tuning" if tuned else ""
    yield f"{final:,} final runs{tuning}, {spent} of training in total."
    for what, values in (
        ("Machine", [run.machine for run in cells]),
        ("Commit", [run.commit for run in cells]),
        ("Versions", [", ".join(f"{key} {value}" for key, value in run.versions.items()) for run in cells]),
    ):
        counts = Counter(values).most_common()
        if len(counts) == 1:
            yield f"{what}: {counts[0][0]}."
        elif counts:
            yield f"{what}: " + "; ".join(f"{value} ({count:,} runs)" for value, count in counts) + "."


def _warnings(results: Any, made: list[Table]) -> Iterator[str]:
    if results.recipe.form:
        how = "its rows are neither tested nor compared with a paper"
        yield f"{form_label(results.recipe.form)} The recipe was reduced, and {how}."
    if results.missing:
        count = f" ({len(results.failed):,} of them failed)" if results.failed else ""
        yield f"{len(results.missing):,} runs of the recipe are missing{count}: the study is not complete."
    absent = [source.label for source in results.recipe.data if source.label not in {table.data for table in made}]
    if absent:
        yield f"No results yet on {', '.join(absent)}."
    failed = [run for run in results.cells if getattr(run, "error", None)]
    if failed:
        yield f"Training failed in {len(failed):,} runs. Their settings are not chosen. First error: {failed[0].error}"
