"""Write the notes of a table: conventions, folds and seeds, tuning, tests, and missing runs."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rankgrad.data.evaluation import AS_TREC_EVAL
from rankgrad.metrics import Metric, parse_metric

if TYPE_CHECKING:
    from rankgrad.experiments.recipes.reader import Significance
    from rankgrad.experiments.recipes.recipe import Recipe
    from rankgrad.experiments.tables.table import Table, TableRow


def footnotes(table: "Table", recipe: "Recipe") -> Iterator[str]:
    """Yield the notes of a table; each note has one or two sentences."""
    same: dict[str, list[str]] = {}
    for metric, conventions in table.conventions.items():
        text = ", ".join(f"{key} {value}" for key, value in conventions.items() if key != "k")
        same.setdefault(text, []).append(table.short(metric))
    for text, metrics in same.items():
        yield f"{', '.join(metrics)}: {text}"
    data = next(source for source in recipe.data if source.label == table.data)
    if data.has_texts:
        yield AS_TREC_EVAL
    if table.form:
        yield f"The recipe was reduced (--{table.form}): rows are neither tested nor compared with a paper"
    seeds = {row.model: row.seeds(data) for row in recipe.rows(data)}
    yield _averaged(table, recipe.spread, seeds)
    yield from _tuned(table, recipe)
    if recipe.refit:
        units = " or ".join(dict.fromkeys(f"{each.kind.unit}s" for each in recipe.models.values()))
        yield (
            "After tuning, rankers were trained again on the train and validation lists "
            f"for the chosen number of {units}"
        )
    yield from _tested(table, recipe.tests, seeds)
    yield from _missing(table, recipe.tests)
    if recipe.answers and any(entry.printed is not None for row in table.rows for entry in row.entries.values()):
        from rankgrad.experiments.tables import published

        source = published.load_published(recipe.answers)
        yield f"paper: as printed in {source.paper}, {source.table}; diff: ours minus paper"
    for row, why in recipe.later.items():
        yield f"Not run: {row}: {why}"


def short(metric: str, among: Sequence[str]) -> str:
    """Return the name of a metric for notes and tables, with its gain but without its other options.

    If another metric has the same name, the name with all options is returned.

    Example:
        >>> short("nDCG(gain='linear', ties='trec')@10", ["nDCG(gain='linear', ties='trec')@10", "nDCG@10"])
        "nDCG(gain='linear')@10"
    """
    names = [str(_with_gain_only(parse_metric(each))) for each in (metric, *among)]
    return names[0] if names[1:].count(names[0]) == 1 else metric


def _with_gain_only(metric: Metric) -> Metric:
    """Return the metric without options other than the gain: with another gain, nDCG has very different values."""
    return replace(metric, settings=tuple(each for each in metric.settings if each[0] == "gain"))


def _averaged(table: "Table", kind: str, seeds: Mapping[str, tuple[int, ...]]) -> str:
    folds = "" if table.folds == (None,) else f", {_count(len(table.folds), 'fold')} ({_listed(table.folds)})"
    what = "the standard deviation over seeds" if kind == "deviation" else "the 95% interval over seeds (Student's t)"
    spread = f"; ± is {what}" if any(len(each) > 1 for each in seeds.values()) else ""
    usual = Counter(seeds.values()).most_common(1)[0][0]
    others = [f"; {model}: {_seeds(each)}" for model, each in seeds.items() if each != usual]
    return f"Means over test queries{folds} and {_seeds(usual)}{''.join(others)}{spread}"


def _tuned(table: "Table", recipe: "Recipe") -> Iterator[str]:
    ours = [row for row in table.rows if any(entry.wanted for entry in row.entries.values())]
    tried = [tuple(trials * max(1, len(row.variants)) for trials in row.trials) for row in ours]
    usual, _ = Counter(tried).most_common(1)[0]
    where = "" if table.folds == (None,) else " on each fold"
    if set(tried) == {(1,)}:
        yield "Tuning: none; settings are those of the recipe"
        return
    variants = " (with the variants of the loss)" if any(row.variants for row in ours) else ""
    chosen = f"chosen by {recipe.choose} on the validation lists with seed {table.seeds[0]}"
    yield f"Tuning: {_span(usual)} tried for each row{where}{variants}, {chosen}"
    if odd := [f"{_span(each)} for {_row(row)}" for row, each in zip(ours, tried, strict=True) if each != usual]:
        yield f"Tuning is not equal: {', '.join(odd)}"
    yield from _chosen_variants(ours)
    fewer: dict[int, list[str]] = {}
    for row, each in zip(ours, tried, strict=True):
        if row.effective < each[0]:
            fewer.setdefault(row.effective, []).append(_row(row))
    if fewer:
        counts = "; ".join(f"{_span((count,))} for {', '.join(rows)}" for count, rows in sorted(fewer.items()))
        why = "a variant that validation never chose, or a setting with the same validation values as another"
        yield f"Some settings had no effect ({why}). Without them: {counts}"


def _chosen_variants(rows: Sequence["TableRow"]) -> Iterator[str]:
    """Yield a note that says how often validation chose each variant of a loss, over the folds of all models."""
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        if row.variants:
            found = counts.setdefault(row.loss, Counter(dict.fromkeys(row.variants, 0)))
            found.update(row.chosen)
    if counts:
        losses = [
            f"{loss}: {', '.join(f'{variant} {count}' for variant, count in found.most_common())}"
            for loss, found in counts.items()
        ]
        yield f"Number of times that validation chose each variant, over folds and models: {'; '.join(losses)}"


def _row(row: "TableRow") -> str:
    return f"{row.loss} ({row.model})"


def _tested(table: "Table", tests: "Significance", seeds: Mapping[str, tuple[int, ...]]) -> Iterator[str]:
    columns = [[row.entries[name] for row in table.rows if row.entries[name].p is not None] for name in table.metrics]
    if not any(columns):
        return
    kind = {"t": "t-test", "bootstrap": "bootstrap test"}.get(tests.test, "randomisation test")
    queries = _span(sorted({entry.queries for column in columns for entry in column}), "query", "queries")
    single = [model for model, each in seeds.items() if len(each) < 2]
    runs = "only queries are random" if len(single) == len(seeds) else "queries and training runs are random"
    same = " of one model" if len({row.model for row in table.rows}) > 1 else ""
    compared = _span(sorted({entry.comparisons for column in columns for entry in column}), "comparison", "comparisons")
    corrected = "not corrected" if tests.correction == "none" else f"{tests.correction.capitalize()}'s correction"
    if tests.against == "best":
        pairs, marks = (
            f"all pairs of rows{same} are tested, and p against the best row is shown",
            "† worse than another row",
        )
    else:
        pairs, marks = f"rows{same} are tested against {tests.against}", "▲ better, ▼ worse"
    marks = f"{marks} at {tests.level:g}"
    reference = "the best row" if tests.against == "best" else tests.against
    yield f"Difference in {table.short(table.metrics[0])} from {reference}, with its {1 - tests.level:.0%} interval"
    yield f"p: {kind} over {queries} ({runs}); {pairs}; {corrected} for {compared} per column; {marks}"
    first = [entry.detectable for entry in columns[0] if entry.detectable is not None]
    if first:
        ends = dict.fromkeys(f"{value * table.scale:.{table.digits}f}" for value in (min(first), max(first)))
        what = f"a true difference of {' to '.join(ends)} in {table.short(table.metrics[0])}"
        yield f"Detectable: one uncorrected test finds {what} with 80% power"
    if single:
        whose = "" if len(single) == len(seeds) else f" ({', '.join(single)})"
        yield f"One seed{whose}: the tests compare these trained models; models with another seed may differ"


def _missing(table: "Table", tests: "Significance") -> Iterator[str]:
    incomplete = [row for row in table.rows if any(each.runs < each.wanted for each in row.entries.values())]
    if incomplete:
        yield "(n/m): only n of m runs are done; the number covers fewer folds or seeds, and is not compared"
    if any(row.loss == tests.against for row in incomplete):
        yield f"Runs of {tests.against} are missing: no row can be tested against this loss"


def _count(n: int, one: str, many: str | None = None) -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def _seeds(seeds: Sequence[int]) -> str:
    return f"{_count(len(seeds), 'seed')} ({_listed(seeds)})"


def _listed(numbers: Sequence[Any]) -> str:
    return ", ".join(map(str, numbers))


def _span(numbers: Sequence[int], one: str = "setting", many: str = "settings") -> str:
    return _count(numbers[0], one, many) if len(numbers) == 1 else f"{numbers[0]:,} to {numbers[-1]:,} {many}"
