"""Gather the data of a study, from which its page, tables and figures are made."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from rankgrad.experiments.report import chart_data, charts
from rankgrad.experiments.report.charts import ChartSelection
from rankgrad.experiments.report.query_explorer import explorer
from rankgrad.experiments.tables.footnotes import short
from rankgrad.experiments.tables.table import Table, tables


class ChartPanel(NamedTuple):
    """A chart with its heading and caption."""

    chart: str  # name of the chart
    rows: str  # name of the rows that the chart shows
    heading: str
    caption: str
    draw: Callable[[ChartSelection], Any]  # function that draws the chart


@dataclass(frozen=True)
class Study:
    """Data of a report on the results of one recipe."""

    name: str
    title: str
    facts: tuple[str, ...]  # sentences about runs, machine, commit and versions
    warnings: tuple[str, ...]  # sentences about missing and failed runs
    tables: tuple[Table, ...]  # one per data set
    models: tuple[str, ...]
    losses: tuple[str, ...]
    metrics: tuple[str, ...]  # names of metrics as shown
    validation_metric: str  # metric by which settings are chosen on the validation lists
    step: str  # unit of progress along a learning curve: epoch or tree
    rows: dict[str, chart_data.Rows]  # rows of the charts, by name
    explorers: dict[str, Any]  # data of the query explorer, by data set
    notes: str  # notes of the recipe
    recipe: str  # recipe as YAML

    def choice(self, data: str | None = None, model: str | None = None, metric: str | None = None) -> ChartSelection:
        """Return the selection of the charts; by default the first data set, model and metric."""
        return ChartSelection(
            data or self.tables[0].data, model or self.models[0], metric or self.metrics[0], self.losses
        )

    def panels(self) -> list[ChartPanel]:
        """Return the charts for which there is data."""
        metric, rows = short(self.validation_metric, [self.validation_metric]), self.rows
        draw: Callable[[ChartSelection], Any]
        found: list[ChartPanel] = []
        if rows["curves"]:
            caption = (
                f"{metric} on the validation lists, mean over folds and seeds. A stopped run keeps its best value."
            )
            draw = partial(charts.curves, metric=metric, dots=_few(rows["curves"]), step=self.step)
            found.append(ChartPanel("curves", "curves", "Learning curves", caption, draw))
        folds, losses = (sorted({row[key] for row in rows["learned"]}) for key in ("fold", "loss"))
        which = ", ".join(f"{loss} {dash}" for loss, dash in zip(losses, charts.DASHED, strict=False))
        for name in dict.fromkeys(row["parameter"] for row in rows["learned"]):
            heading = f"Learned: {charts.PARAMETERS.get(name, name)}"
            caption = f"One line per fold and seed{f' ({which})' if len(losses) > 1 else f' of {losses[0]}'}."
            draw = partial(
                charts.learned, parameter=name, dots=_few(rows["learned"]), folds=folds, losses=losses, step=self.step
            )
            found.append(ChartPanel(f"learned-{name}", "learned", heading, caption, draw))
        if rows["cost"]:
            caption = "Best is top left. Seconds of training on the machine named above; bars show the ± of the table."
            found.append(ChartPanel("cost", "cost", "Quality against training cost", caption, charts.cost))
        if rows["sensitivity"]:
            caption = f"{metric} on the validation lists in tuning, mean over folds and the other settings tried."
            draw = partial(charts.sensitivity, metric=metric)
            found.append(ChartPanel("sensitivity", "sensitivity", "Sensitivity to the learning rate", caption, draw))
        return found


def study(results: Any, name: str, *, root: Any = None, lists: bool = True, limit: int = 1_200_000) -> Study:
    """Gather the data of a report from results.

    Args:
        results: return value of `rankgrad.experiments.runs.results.read_results`, with a recipe.
        name: name of the study, used for its files.
        root: folder of the data sets, for the labels of the documents.
        lists: if False, the page has no ranked lists.
        limit: maximum number of characters of all query explorers together; queries beyond it are left out.
    """
    recipe, final = results.recipe, results.final()
    # A refit has no validation lists, so the curves of the chosen tuning runs are shown.
    validated = [run for run in final if any(chart_data.validation_metric(run) in row for row in run.history)]
    made = [table for table in tables(results) if any(e.runs for row in table.rows for e in row.entries.values())]
    explorers = {table.data: explorer(table, final, root=root, lists=lists, limit=limit // len(made)) for table in made}
    return Study(
        name=name,
        title=recipe.title,
        facts=tuple(_facts(results)),
        warnings=tuple(_warnings(results, made)),
        tables=tuple(made),
        models=tuple(recipe.models),
        losses=tuple(dict.fromkeys(row.loss for source in recipe.data for row in recipe.rows(source))),
        metrics=tuple(made[0].short(metric) for metric in made[0].metrics) if made else (),
        validation_metric=recipe.choose,
        step=" or ".join(dict.fromkeys(model.kind.unit for model in recipe.models.values())),
        rows={
            "curves": chart_data.curve_rows(validated or recipe.chosen(results.tuned())),
            "learned": chart_data.learned_rows(final),
            "cost": chart_data.cost_rows(final, made),
            "sensitivity": chart_data.sensitivity_rows(results.tuned()),
        },
        explorers={data: found for data, found in explorers.items() if found is not None},
        notes=recipe.notes,
        recipe=recipe.dump(),
    )


def _few(rows: chart_data.Rows) -> bool:
    """Return True if all lines have at most 10 epochs; then the points of the lines are also drawn."""
    return max(row["epoch"] for row in rows) <= 10


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
    if results.missing:
        count = f" ({len(results.failed):,} of them failed)" if results.failed else ""
        yield f"{len(results.missing):,} runs of the recipe are missing{count}: the study is not complete."
    absent = [source.label for source in results.recipe.data if source.label not in {table.data for table in made}]
    if absent:
        yield f"No results yet on {', '.join(absent)}."
    failed = [run for run in results.cells if getattr(run, "error", None)]
    if failed:
        yield f"Training failed in {len(failed):,} runs, whose settings are never chosen: {failed[0].error}"
