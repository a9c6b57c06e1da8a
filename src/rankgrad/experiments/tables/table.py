"""The table of an experiment: ours and the paper's numbers, spread over seeds, tests and marks."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rankgrad.errors import bad_value, one_of
from rankgrad.experiments import statistics
from rankgrad.experiments.recipes.data_sets import RecipeData
from rankgrad.experiments.tables import published
from rankgrad.experiments.tables.footnotes import footnotes, short
from rankgrad.metrics import parse_metric as parse_metric

if TYPE_CHECKING:
    from rich.console import RenderableType

    from rankgrad.experiments.recipes.reader import Significance
    from rankgrad.experiments.recipes.recipe import Recipe
    from rankgrad.experiments.runs.results import CellResult, Results

WORSE_THAN_BEST, BETTER, WORSE = "†", "▲", "▼"  # as in SmoothI's tables, and as in those of LambdaLoss@K
_ROUNDS = 1000  # of the bootstrap


@dataclass(frozen=True)
class TableEntry:
    """One number of a table. All are as the metric gives them; a table's `scale` is for showing them."""

    mean: float | None = None  # over seeds and folds, of the means over queries
    runs: int = 0  # that are done
    wanted: int = 0  # seeds times folds; 0 in a row that only the paper has
    queries: int = 0  # that count, pooled over folds
    spread: float | None = None  # over seeds, of the mean over folds: a deviation, or half an interval
    best: bool = False  # of the rows with its model
    difference: float | None = None  # to the reference row, mean over queries
    interval: tuple[float, float] | None = None  # of the difference, 95% bootstrap
    p: float | None = None  # of the test against the reference row
    adjusted: float | None = None  # for all comparisons of the column
    mark: str = ""
    printed: float | None = None  # in the paper
    gap: float | None = None  # mean - printed

    @property
    def complete(self) -> bool:
        """Whether all runs are there, so that it can be compared."""
        return self.mean is not None and self.runs == self.wanted


@dataclass(frozen=True)
class TableRow:
    """A model with a loss."""

    model: str
    loss: str
    entries: Mapping[str, TableEntry]  # by metric
    trials: tuple[int, ...] = (1,)  # settings tried, on a fold and of a variant; several numbers where these differ
    variants: tuple[str, ...] = ()  # of the loss, from which validation chose
    chosen: tuple[str, ...] = ()  # the variants that it chose, over folds


@dataclass(frozen=True)
class Table:
    """All rows on one data set. Printed, it is Markdown; `rich`, `latex` and `to_dict` are its other forms."""

    title: str
    data: str
    metrics: tuple[str, ...]
    rows: tuple[TableRow, ...]
    folds: tuple[int | None, ...]
    seeds: tuple[int, ...]
    conventions: Mapping[str, Mapping[str, str]]  # of each metric
    notes: tuple[str, ...] = ()  # what a reader of the numbers must know
    scale: float = 1.0  # what numbers are multiplied by to be shown
    digits: int = 4  # that are shown after the point

    def __str__(self) -> str:
        return self.markdown()

    def rich(self, width: int = 80) -> "RenderableType":
        """For the terminal, cut into tables of some metrics each that fit the width."""
        from rankgrad.experiments.tables.text import rich

        return rich(self, width)

    def markdown(self) -> str:
        """A Markdown table, with the notes as a list."""
        from rankgrad.experiments.tables.text import markdown

        return markdown(self)

    def latex(self) -> str:
        r"""LaTeX that needs `\usepackage{booktabs}`: in parts that fit a page each, with the notes below the last."""
        from rankgrad.experiments.tables.latex import latex

        return latex(self)

    def to_dict(self) -> dict[str, Any]:
        """What JSON can hold."""
        return _plain(asdict(self))

    def short(self, metric: str) -> str:
        """The metric without its options, where that says which it is; the notes have its conventions."""
        return short(metric, self.metrics)


@dataclass(frozen=True)
class _Line:
    """A row in the making: its runs by fold and seed."""

    model: str
    loss: str
    runs: dict[tuple[int | None, int], "CellResult"] = field(default_factory=dict)


def tables(results: "Results", metrics: Iterable[str] | str | None = None) -> list[Table]:
    """A table for each data set of the recipe, in its order."""
    return [table(results, source.label, metrics) for source in _recipe(results).data]


def table(results: "Results", data: str, metrics: Iterable[str] | str | None = None) -> Table:
    """The table of one data set: a row for each model and loss, a number for each metric.

    A number is the mean over seeds and folds. Where runs are missing it says how many there are, and is neither tested
    nor compared. Rows are tested against the best row with their model, or against the row with the loss that the
    recipe names; p-values are adjusted for all comparisons of a column. Rows that only the paper has come last.

    Args:
        results: of `rankgrad.experiments.runs.results.read`.
        data: label of a set in the recipe; `WEB30K-b` is WEB30K with binary labels.
        metrics: some of the recipe's; None: all.
    """
    recipe = _recipe(results)
    one_of("data", data, [source.label for source in recipe.data])
    source = next(source for source in recipe.data if source.label == data)
    wanted = [metrics] if isinstance(metrics, str) else recipe.metrics if metrics is None else metrics
    names = tuple(str(parse_metric(metric)) for metric in wanted)
    for name in names:
        one_of("metrics", name, [str(parse_metric(metric)) for metric in recipe.metrics])
    lines = _lines(results, recipe, source)
    columns = {}
    for name in names:
        found = [_entry(line, name, source, recipe.spread) for line in lines]
        columns[name] = _tested(lines, found, name, recipe.tests, source.folds)
    tried, candidates = _trials(results, recipe, data), {row[:2]: row.candidates for row in recipe.rows(source)}
    rows = []
    for place, line in enumerate(lines):
        entries = {name: _beside(columns[name][place], recipe, data, line, name) for name in names}
        variants = [own.variant for own in candidates[line.model, line.loss] if own.variant is not None]
        chosen = {run.cell.variant for run in line.runs.values() if run.cell.variant is not None}
        trials = tried.get((line.model, line.loss), (1,))
        rows.append(TableRow(line.model, line.loss, entries, trials, tuple(variants), tuple(sorted(chosen))))
    rows += _only_printed(recipe, data, names, {(line.model, line.loss) for line in lines})
    conventions = {name: parse_metric(name).conventions for name in names}
    made = Table(str(recipe.title), data, names, tuple(rows), tuple(source.folds), tuple(source.seeds), conventions)
    if recipe.answers:
        scale = float(published.load_published(recipe.answers).scale)
        made = replace(made, scale=scale, digits=2 if scale == 100 else 3)
    return replace(made, notes=tuple(footnotes(made, recipe)))


def _recipe(results: "Results") -> "Recipe":
    if results.recipe is None:
        bad_value("results", "have a recipe", "none")
    return results.recipe


def _lines(results: "Results", recipe: "Recipe", source: RecipeData) -> list[_Line]:
    """The rows with their runs."""
    lines = {(row.model, row.loss): _Line(row.model, row.loss) for row in recipe.rows(source)}
    for outcome in results.final():
        cell = outcome.cell
        line = lines.get((cell.model, cell.loss))
        own = cell.label == source.label and cell.fold in source.folds and cell.seed in source.seeds
        if line is not None and own:
            line.runs[cell.fold, cell.seed] = outcome
    return list(lines.values())


def _entry(line: _Line, metric: str, source: RecipeData, spread: str) -> TableEntry:
    """The number of a row, not yet compared with others."""
    folds, seeds = source.folds, source.seeds
    means, counted = {}, {}
    for place, run in line.runs.items():
        values = run.values(metric)
        values = values[~np.isnan(values)]
        counted[place[0]] = len(values)
        means[place] = float(values.mean()) if len(values) else 0.0  # as everywhere: 0 where no list counts
    entry = TableEntry(runs=len(means), wanted=len(folds) * len(seeds), queries=sum(counted.values()))
    if not means:
        return entry
    entry = replace(entry, mean=float(np.mean(list(means.values()))))
    if not entry.complete or len(seeds) < 2:
        return entry
    by_seed = [np.mean([means[fold, seed] for fold in folds]) for seed in seeds]
    deviation = float(np.std(by_seed, ddof=1))
    return replace(
        entry, spread=deviation * statistics.half_interval(len(seeds)) if spread == "interval" else deviation
    )


def _tested(
    lines: list[_Line], column: list[TableEntry], metric: str, tests: "Significance", folds: Sequence[int | None]
) -> list[TableEntry]:
    """The column with its best rows, and each row tested against its reference."""
    higher = parse_metric(metric).higher_is_better
    column, pairs = list(column), {}
    for places in _blocks(lines, column):
        best = (max if higher else min)(column[i].mean or 0.0 for i in places)
        for i in places:
            column[i] = replace(column[i], best=column[i].mean == best)
        chosen = [i for i in places if (column[i].best if tests.against == "best" else lines[i].loss == tests.against)]
        for i in places:
            if chosen and i != chosen[0]:
                ours, reference = (_per_query(lines[j], metric, folds) for j in (i, chosen[0]))
                pairs[i] = statistics.align(*ours, *reference)
    test = statistics.paired_t if tests.test == "t" else statistics.randomisation
    found = {i: test(*pair) for i, pair in pairs.items()}
    adjusted = statistics.adjust([one.p for one in found.values()], tests.correction).tolist()
    for (i, one), p in zip(found.items(), adjusted, strict=True):
        better = (one.difference > 0) == higher
        marks = ("", WORSE_THAN_BEST) if tests.against == "best" else (BETTER, WORSE)
        column[i] = replace(
            column[i],
            difference=one.difference,
            interval=statistics.bootstrap(statistics.differences(*pairs[i]), rounds=_ROUNDS),
            p=one.p,
            adjusted=p,
            mark=marks[0 if better else 1] if p < tests.level else "",
        )
    return column


def _blocks(lines: list[_Line], column: list[TableEntry]) -> Iterator[list[int]]:
    """The complete rows of each model: losses are compared with the ranker held fixed."""
    for model in dict.fromkeys(line.model for line in lines):
        places = [i for i, line in enumerate(lines) if line.model == model and column[i].complete]
        if places:
            yield places


def _per_query(line: _Line, metric: str, folds: Sequence[int | None]) -> tuple[Any, Any]:
    """The queries of all folds, with their values averaged over seeds."""
    parts = []
    for fold in folds:
        runs = [run for (own, _), run in sorted(line.runs.items(), key=lambda item: item[0][1]) if own == fold]
        parts.append(statistics.over_seeds([run.queries for run in runs], [run.values(metric) for run in runs]))
    return statistics.over_folds([queries for queries, _ in parts], [values for _, values in parts])


def _beside(entry: TableEntry, recipe: "Recipe", data: str, line: _Line, metric: str) -> TableEntry:
    """The number with the paper's beside it."""
    theirs = _printed(recipe, data, line.model, line.loss, metric)
    gap = None if theirs is None or entry.mean is None or not entry.complete else entry.mean - theirs
    return replace(entry, printed=theirs, gap=gap)


def _only_printed(
    recipe: "Recipe", data: str, metrics: Sequence[str], ours: set[tuple[str, str]]
) -> Iterator[TableRow]:
    """The rows that the paper has and the recipe has not."""
    rows = published.load_published(recipe.answers).rows if recipe.answers else ()
    for model, loss in dict.fromkeys((row.model, row.loss) for row in rows if row.data == data):
        values = {name: _printed(recipe, data, model, loss, name) for name in metrics}
        if (model, loss) not in ours and any(value is not None for value in values.values()):
            yield TableRow(model, loss, {name: TableEntry(printed=value) for name, value in values.items()})


def _printed(recipe: "Recipe", data: str, model: str, loss: str, metric: str) -> float | None:
    """The paper's number as our metric would say it."""
    value = published.value(recipe.answers, data, model, loss, metric) if recipe.answers else None
    return None if value is None else value / published.load_published(recipe.answers).scale


def _trials(results: "Results", recipe: "Recipe", data: str) -> dict[tuple[str, str], tuple[int, ...]]:
    """How many settings were tried for each model and loss; where there was no choice, nothing."""
    wanted = [cell for cell in recipe.cells_to_tune() if cell.label == data]
    found = Counter((outcome.cell.group, outcome.cell.variant) for outcome in results.tuned())
    counts: dict[tuple[str, str], set[int]] = {}
    for cell in wanted:
        counts.setdefault((cell.model, cell.loss), set()).add(found[cell.group, cell.variant])
    return {row: tuple(sorted(numbers)) for row, numbers in counts.items()}


def _plain(value: Any) -> Any:
    """Mappings as dictionaries and sequences as lists, all the way down."""
    if isinstance(value, Mapping):
        return {key: _plain(own) for key, own in value.items()}
    return [_plain(own) for own in value] if isinstance(value, list | tuple) else value
