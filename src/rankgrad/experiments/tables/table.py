"""Compute the table of an experiment: our numbers, the paper's numbers, spread over seeds, tests and marks."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from rankgrad.data.evaluation import conventions_of
from rankgrad.errors import bad_value, one_of
from rankgrad.experiments import statistics
from rankgrad.experiments.recipes.data_sets import RecipeData
from rankgrad.experiments.seed_variance import RunComparison, RunValues, compare_runs, swapped
from rankgrad.experiments.tables import published
from rankgrad.experiments.tables.footnotes import footnotes, short
from rankgrad.metrics import parse_metric

if TYPE_CHECKING:
    from rich.console import RenderableType

    from rankgrad.experiments.recipes.reader import Significance
    from rankgrad.experiments.recipes.recipe import Recipe
    from rankgrad.experiments.runs.results import CellResult, Results

WORSE_THAN_BEST, BETTER, WORSE = "†", "▲", "▼"  # marks of the papers on SmoothI (the first) and LambdaLoss@K


@dataclass(frozen=True)
class TableEntry:
    """One number of a table. Values are not scaled; they are multiplied by `Table.scale` only when they are shown."""

    mean: float | None = None  # mean over seeds and folds; the value of one run is a mean over queries
    runs: int = 0  # number of runs that are done
    wanted: int = 0  # number of seeds times number of folds; 0 if only the paper has this row
    queries: int = 0  # number of queries that are not skipped, over all folds
    spread: float | None = None  # over the seeds' means: standard deviation, or half of the 95% interval
    best: bool = False  # True for the best row among the rows with the same model
    difference: float | None = None  # mean over queries of the difference from the reference row
    interval: tuple[float, float] | None = None  # interval of the difference, with confidence 1 - level of the tests
    detectable: float | None = None  # smallest difference that the test finds with 80% power
    p: float | None = None  # p-value of the test against the reference row
    adjusted: float | None = None  # p-value after adjustment for all comparisons of the column
    comparisons: int = 0  # number of comparisons for which the p-value is adjusted
    mark: str = ""  # mark of significance
    printed: float | None = None  # number of the paper
    gap: float | None = None  # mean - printed

    @property
    def complete(self) -> bool:
        """True if all runs are done. Only complete entries are compared."""
        return self.mean is not None and self.runs == self.wanted


@dataclass(frozen=True)
class TableRow:
    """Row of a table: the results of a model with a loss."""

    model: str
    loss: str
    entries: Mapping[str, TableEntry]  # numbers by metric
    trials: tuple[int, ...] = (1,)  # numbers of settings that were tried per fold and variant, without duplicates
    variants: tuple[str, ...] = ()  # variants of the loss, from which validation chose
    chosen: tuple[str, ...] = ()  # variant that validation chose, one per fold
    effective: int = 1  # number of tried settings that can have an effect, over all variants; see `_effective`


@dataclass(frozen=True)
class Table:
    """Table of one data set. `str` returns Markdown; `rich`, `latex` and `to_dict` return other forms."""

    title: str
    data: str
    metrics: tuple[str, ...]
    rows: tuple[TableRow, ...]
    folds: tuple[int | None, ...]
    seeds: tuple[int, ...]
    conventions: Mapping[str, Mapping[str, str]]  # conventions of each metric
    notes: tuple[str, ...] = ()  # footnotes
    scale: float = 1.0  # factor by which numbers are multiplied when shown
    digits: int = 4  # number of digits shown after the decimal point
    form: str | None = None  # "quick" or "smoke": the recipe was reduced, and its numbers are only a test of the recipe

    def __str__(self) -> str:
        return self.markdown()

    def rich(self, width: int = 80) -> "RenderableType":
        """Return the table of an experiment for the terminal, in parts with at most `width` characters if possible."""
        from rankgrad.experiments.tables.text import rich

        return rich(self, width)

    def markdown(self) -> str:
        """Return the table of an experiment in Markdown, with the notes as a list."""
        from rankgrad.experiments.tables.text import markdown

        return markdown(self)

    def latex(self) -> str:
        r"""Return the table of an experiment in LaTeX, which needs `\usepackage{booktabs}`.

        A long table has several parts, each at most one page; the last part has the notes.
        """
        from rankgrad.experiments.tables.latex import latex

        return latex(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the table of an experiment as a dictionary that can be written as JSON."""
        return _plain(asdict(self))

    def short(self, metric: str) -> str:
        """Return the name of a metric of the table: without its options if this name is unique, otherwise with them."""
        return short(metric, self.metrics)


@dataclass(frozen=True)
class _Line:
    """Runs of a row of a table, by fold and seed."""

    model: str
    loss: str
    seeds: tuple[int, ...]
    runs: dict[tuple[int | None, int], "CellResult"] = field(default_factory=dict)


def tables(results: "Results", metrics: Iterable[str] | str | None = None) -> list[Table]:
    """Compute one table per data set from the results of a recipe, in the order of the recipe."""
    return [table(results, source.label, metrics) for source in _recipe(results).data]


def table(results: "Results", data: str, metrics: Iterable[str] | str | None = None) -> Table:
    """Compute the table of one data set: one row per model and loss, one number per metric.

    A number is the mean over seeds and folds. If runs are missing, the mean is shown with the number of runs, and is
    neither tested nor compared. All pairs of rows with the same model are tested. If the recipe names a loss in
    `tests.against`, only the pairs of this loss and another loss are tested. Queries and training runs are both random
    samples (see `rankgrad.experiments.seed_variance`). p-values are adjusted for all comparisons of a column. Rows that
    exist only in the paper are last. The numbers of a reduced recipe are neither tested nor compared with the paper.

    Args:
        results: return value of `rankgrad.experiments.runs.results.read_results`.
        data: name of a data set in the recipe; `WEB30K-b` is WEB30K with binary labels.
        metrics: metrics to show; None: all metrics of the recipe.
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
        columns[name] = found if recipe.form else _tested(lines, found, name, recipe.tests)
    tried, losses = _trials(results, recipe, data), {row[:2]: row.variants for row in recipe.rows(source)}
    rows = []
    for place, line in enumerate(lines):
        entries = {name: columns[name][place] for name in names}
        if not recipe.form:
            entries = {name: _with_published(entry, recipe, data, line, name) for name, entry in entries.items()}
        variants = [each.variant for each in losses[line.model, line.loss] if each.variant is not None]
        folds = {fold: run.cell.variant for (fold, _), run in line.runs.items() if run.cell.variant is not None}
        chosen = tuple(folds[fold] for fold in source.folds if fold in folds)
        trials = tried.get((line.model, line.loss), (1,))
        effective = _effective(results, recipe, data, line, chosen)
        rows.append(TableRow(line.model, line.loss, entries, trials, tuple(variants), chosen, effective))
    if not recipe.form:
        rows += _only_published(recipe, data, names, {(line.model, line.loss) for line in lines})
    conventions = {name: conventions_of(parse_metric(name), source.has_texts) for name in names}
    made = Table(str(recipe.title), data, names, tuple(rows), tuple(source.folds), tuple(source.seeds), conventions)
    made = replace(made, form=recipe.form)
    if recipe.answers:
        scale = float(published.load_published(recipe.answers).scale)
        made = replace(made, scale=scale, digits=2 if scale == 100 else 3)
    return replace(made, notes=tuple(footnotes(made, recipe)))


def _recipe(results: "Results") -> "Recipe":
    if results.recipe is None:
        bad_value("results", "contain a recipe", "none")
    return results.recipe


def _lines(results: "Results", recipe: "Recipe", source: RecipeData) -> list[_Line]:
    """Return the rows of a table, with the runs of each row."""
    lines = {(row.model, row.loss): _Line(row.model, row.loss, row.seeds(source)) for row in recipe.rows(source)}
    for run in results.final():
        cell = run.cell
        line = lines.get((cell.model, cell.loss))
        if line is not None and cell.label == source.label and cell.fold in source.folds and cell.seed in line.seeds:
            line.runs[cell.fold, cell.seed] = run
    return list(lines.values())


def _entry(line: _Line, metric: str, source: RecipeData, spread: str) -> TableEntry:
    """Compute the table entry of a row for a metric; the results of tests are added later."""
    folds, seeds = source.folds, line.seeds
    means, counted = {}, {}
    for place, run in line.runs.items():
        values = run.values(metric)
        values = values[~np.isnan(values)]
        counted[place[0]] = len(values)
        means[place] = float(values.mean()) if len(values) else 0.0  # 0 if all lists are skipped
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


def _tested(lines: list[_Line], column: list[TableEntry], metric: str, tests: "Significance") -> list[TableEntry]:
    """Return the entries of a table column, with the best rows marked and with the tests against the reference rows."""
    higher = parse_metric(metric).higher_is_better
    column = list(column)
    values = {i: RunValues.of([*line.runs.values()], metric) for i, line in enumerate(lines) if column[i].complete}
    found: dict[tuple[int, int], RunComparison] = {}
    references: dict[int, int] = {}  # reference row of each row
    for places in _blocks(lines, column):
        best = (max if higher else min)(column[i].mean or 0.0 for i in places)
        for i in places:
            column[i] = replace(column[i], best=column[i].mean == best)
        named = [i for i in places if (column[i].best if tests.against == "best" else lines[i].loss == tests.against)]
        if named:
            references |= {i: named[0] for i in places if i != named[0]}
            pairs = combinations(places, 2) if tests.against == "best" else ((i, named[0]) for i in places)
            found |= {(i, j): compare_runs(values[i], values[j], **_options(tests)) for i, j in pairs if i != j}
    found |= {(j, i): swapped(one) for (i, j), one in found.items()}
    once = [pair for pair in found if pair[0] < pair[1]]
    p = dict(zip(once, statistics.adjust([found[pair].p for pair in once], tests.correction).tolist(), strict=True))
    p |= {(j, i): value for (i, j), value in p.items()}

    def significant(i: int, j: int, better: bool) -> bool:
        return p[i, j] < tests.level and ((found[i, j].difference > 0) == higher) == better

    for i, reference in references.items():
        one = found[i, reference]
        if tests.against == "best":
            mark = WORSE_THAN_BEST if any(significant(a, b, False) for a, b in found if a == i) else ""
        else:
            mark = BETTER if significant(i, reference, True) else WORSE if significant(i, reference, False) else ""
        column[i] = replace(
            column[i],
            difference=one.difference,
            interval=one.interval if one.queries > 1 else None,  # one query says nothing about others
            detectable=one.detectable if one.queries > 1 else None,
            p=one.p,
            adjusted=p[i, reference],
            comparisons=len(once),
            mark=mark,
        )
    return column


def _options(tests: "Significance") -> dict[str, Any]:
    return {"test": tests.test, "level": tests.level}


def _blocks(lines: list[_Line], column: list[TableEntry]) -> Iterator[list[int]]:
    """Yield the indices of the complete table rows of each model; only losses of the same model are compared."""
    for model in dict.fromkeys(line.model for line in lines):
        places = [i for i, line in enumerate(lines) if line.model == model and column[i].complete]
        if places:
            yield places


def _with_published(entry: TableEntry, recipe: "Recipe", data: str, line: _Line, metric: str) -> TableEntry:
    """Return a table entry with the number of the paper, and with the difference of our number from this number."""
    theirs = _published(recipe, data, line.model, line.loss, metric)
    gap = None if theirs is None or entry.mean is None or not entry.complete else entry.mean - theirs
    return replace(entry, printed=theirs, gap=gap)


def _only_published(
    recipe: "Recipe", data: str, metrics: Sequence[str], ours: set[tuple[str, str]]
) -> Iterator[TableRow]:
    """Yield the table rows that are in the paper but not in the recipe."""
    rows = published.load_published(recipe.answers).rows if recipe.answers else ()
    for model, loss in dict.fromkeys((row.model, row.loss) for row in rows if row.data == data):
        values = {name: _published(recipe, data, model, loss, name) for name in metrics}
        if (model, loss) not in ours and any(value is not None for value in values.values()):
            yield TableRow(model, loss, {name: TableEntry(printed=value) for name, value in values.items()})


def _published(recipe: "Recipe", data: str, model: str, loss: str, metric: str) -> float | None:
    """Return the number of the paper on the scale of our metric; None if the paper has no such number."""
    value = published.value(recipe.answers, data, model, loss, metric) if recipe.answers else None
    return None if value is None else value / published.load_published(recipe.answers).scale


def _trials(results: "Results", recipe: "Recipe", data: str) -> dict[tuple[str, str], tuple[int, ...]]:
    """Return the numbers of tried settings by model and loss; rows without tuning cells are left out."""
    wanted = [cell for cell in recipe.cells_to_tune() if cell.label == data]
    found = Counter((run.cell.group, run.cell.variant) for run in results.tuned())
    counts: dict[tuple[str, str], set[int]] = {}
    for cell in wanted:
        counts.setdefault((cell.model, cell.loss), set()).add(found[cell.group, cell.variant])
    return {row: tuple(sorted(numbers)) for row, numbers in counts.items()}


def _effective(results: "Results", recipe: "Recipe", data: str, line: _Line, chosen: Sequence[str]) -> int:
    """Return the number of tried settings that can have an effect on a row.

    A variant that validation never chose is left out. Settings with the same validation values on all folds count once.
    """
    values: dict[Any, list[tuple[str, float | None]]] = {}
    for run in results.tuned():
        cell = run.cell
        if (cell.label, cell.model, cell.loss) == (data, line.model, line.loss) and (
            cell.variant in chosen or not chosen
        ):
            fold = (str(cell.fold), run.validation.get(recipe.choose))
            values.setdefault((cell.variant, cell.trial), []).append(fold)
    return max(1, len({tuple(sorted(folds)) for folds in values.values()}))


def _plain(value: Any) -> Any:
    """Convert the mappings of a table to dictionaries and the sequences to lists, also inside other values."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
