"""The data of a page on one experiment or run: sentences, tables, rows of charts, and queries."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from rankgrad.experiments.report import chart_data, charts
from rankgrad.experiments.report.charts import ChartSelection
from rankgrad.experiments.tables.footnotes import short
from rankgrad.experiments.tables.plain_table import PlainTable
from rankgrad.experiments.tables.table import Table

# End of a caption.
INTERVALS = "with 95% intervals over the queries (rough for fewer than 10 queries). The best row is first."
_ROWS = 60  # maximum number of rows for which the overview shows all models; otherwise it shows the selected model


class ChartPanel(NamedTuple):
    """A chart of a page, with its heading and caption."""

    chart: str  # name of the chart
    rows: str  # name of the rows that the chart shows
    heading: str
    caption: str
    draw: Callable[[ChartSelection], Any]  # function that draws the chart
    every_model: bool = False  # True: the chart shows the rows of all models, not only of the selected model
    by_row: bool = False  # True: one line per row, with its name and its interval


@dataclass(frozen=True)
class Study:
    """Data of a page, or of a part of a page: an experiment, a demo, or a run of train, tune or auto."""

    name: str  # name used for files
    title: str
    summary: tuple[str, ...]  # some sentences about the results
    warnings: tuple[str, ...]  # sentences about missing and failed runs
    facts: tuple[str, ...]  # sentences about runs, machine, commit and versions
    texts: tuple[tuple[str, str], ...]  # headings and long texts, such as the recipe
    tables: tuple[Table | PlainTable, ...]
    data: tuple[str, ...]  # names of the data sets
    models: tuple[str, ...]
    losses: tuple[str, ...]  # names of the rows: losses, rankers or trials
    metrics: tuple[str, ...]  # names of metrics as shown
    validation_metric: str  # metric by which settings or epochs are chosen on the validation lists
    rows: dict[str, chart_data.Rows]  # rows of the charts, by name
    explorers: dict[str, Any]  # data of the query explorer, by data set
    measured: str  # caption of the overview: what it shows, and what the intervals are
    heading: str = ""  # text after the metric and the data set in the heading of the overview
    queries: str = "test queries"  # name of the lists in the query explorer
    curves: str = ""  # addition to the caption of the learning curves
    spread: str = ""  # meaning of the bars in the chart of cost; empty if there are none
    settings: tuple[tuple[str, str], ...] = ()  # settings of a tuning run, each with its scale in charts
    kind: str = "loss"  # kind of the rows: loss, ranker, trial or candidate
    step: str = "epoch"  # unit of progress along a learning curve: epoch or tree
    tested: str = ""  # caption of the chart `tested`, which shows rankers on other lists than the overview
    importance: str = ""  # caption of the chart `importance`
    digits: int = 4  # number of digits of metrics after the decimal point

    def choice(self, data: str | None = None, model: str | None = None, metric: str | None = None) -> ChartSelection:
        """Return what the charts of the page show; by default the first data set, model and metric."""
        first = data or self.data[0], model or self.models[0], metric or self.metrics[0]
        return ChartSelection(*first, self.losses, self.kind)

    def panels(self) -> list[ChartPanel]:
        """Return the charts of the page for which there is data."""
        rows = {name: rows for name, rows in self.rows.items() if rows}
        metric = short(self.validation_metric, [self.validation_metric])
        found = [self._by_row("tested", f"{metric} on the {self.queries}", self.tested)] if "tested" in rows else []
        found += [self._overview()] if "overview" in rows else []
        draw: Callable[[ChartSelection], Any]
        if "curves" in rows:
            caption = f"{metric} on the validation lists{self.curves}."
            averaged = max(row["runs"] for row in rows["curves"]) > 1
            draw = partial(
                charts.curves, metric=f"{metric}, validation", dots=_few(rows["curves"]), step=self.step,
                shown="best" if averaged else "own",
            )  # fmt: skip
            found.append(ChartPanel("curves", "curves", "Learning curves", caption, draw))
        if "training_loss" in rows:
            caption = f"Value of the loss on the training lists, by {self.step}."
            draw = partial(
                charts.curves, metric="training loss", dots=_few(rows["training_loss"]), step=self.step,
                rows="training_loss", shown="own",
            )  # fmt: skip
            found.append(ChartPanel("training-loss", "training_loss", "Training loss", caption, draw))
        found += self._learned(rows.get("learned", []))
        if "cost" in rows:
            bars = f" Bars show {self.spread}." if self.spread else ""
            where = "the machine that is named at the end of the page"
            caption = f"The best rows are at the top left. Seconds of training on {where}.{bars}"
            draw = partial(charts.cost, spread=bool(self.spread))
            found.append(ChartPanel("cost", "cost", "Quality and training cost", caption, draw))
        if "sensitivity" in rows:
            caption = f"{metric} on the validation lists in tuning, mean over folds and over the other settings."
            draw = partial(charts.sensitivity, metric=metric)
            found.append(ChartPanel("sensitivity", "sensitivity", "Sensitivity to the learning rate", caption, draw))
        for place, (setting, scale) in enumerate(self.settings if "trials" in rows else ()):
            caption = f"{metric} on the validation lists for the values of the setting {setting}, one point per trial."
            draw = partial(charts.trials, setting=setting, metric=metric, scale=scale, step=self.step)
            found.append(ChartPanel(f"trials-{place}", "trials", f"Setting: {setting}", caption, draw))
        if "progress" in rows:
            caption = f"Best {metric} so far, among the candidates that were trained on all folds."
            draw = partial(charts.progress, metric=metric)
            found.append(ChartPanel("progress", "progress", "Progress of the search", caption, draw))
        if "importance" in rows:
            drop = f"drop of {metric}"
            found.append(
                self._by_row(
                    "importance", "Importance of the features", self.importance, measured=drop, label_limit=180
                )
            )
        return found

    def _by_row(self, rows: str, heading: str, caption: str, **options: Any) -> ChartPanel:
        draw = partial(charts.overview, rows=rows, digits=self.digits, **options)
        return ChartPanel(rows, rows, heading, caption, draw, every_model=True, by_row=True)

    def _overview(self) -> ChartPanel:
        largest = max(sum(row["data"] == data for row in self.rows["overview"]) for data in self.data)
        every = largest <= _ROWS * len(self.metrics)
        draw = partial(charts.overview, every_model=every, digits=self.digits)
        return ChartPanel("overview", "overview", self.heading, self.measured, draw, every, by_row=True)

    def _learned(self, rows: chart_data.Rows) -> list[ChartPanel]:
        folds, losses = (sorted({row[key] for row in rows}) for key in ("fold", "loss"))
        which = ", ".join(f"{loss} {dash}" for loss, dash in zip(losses, charts.DASHED, strict=False))
        found = []
        for name in dict.fromkeys(row["parameter"] for row in rows):
            heading = f"Learned: {charts.PARAMETERS.get(name, name)}"
            one = "One line per fold and seed" if len(folds) > 1 or len({row["seed"] for row in rows}) > 1 else "Value"
            caption = f"{one}{f' ({which})' if len(losses) > 1 else f' of {losses[0]}'}."
            draw = partial(charts.learned, parameter=name, dots=_few(rows), folds=folds, losses=losses, step=self.step)
            found.append(ChartPanel(f"learned-{name}", "learned", heading, caption, draw))
        return found


def _few(rows: chart_data.Rows) -> bool:
    """Return True if all lines of a chart have at most 10 epochs; then the points of the lines are also drawn."""
    return max(row["epoch"] for row in rows) <= 10
