"""`rankgrad compare`: compares two saved models on the same lists."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankgrad.cli.list_options import ListOptions, with_lists
from rankgrad.cli.option_groups import AsJson, Metrics, SavedModel
from rankgrad.errors import bad_value, one_of

if TYPE_CHECKING:
    from rich.table import Table

    from rankgrad.cli.data_source import DataSource
    from rankgrad.data import Dataset
    from rankgrad.data.sparse_rows import Features
    from rankgrad.experiments.comparison import ComparedQuery, Comparison
    from rankgrad.models.protocol import TrainedModel

CONTEXT_SETTINGS = {"allow_extra_args": True}  # so that the error about a third model names other commands
DEFAULT = ["nDCG@10"]
_ID = 14  # maximum number of characters of a document id, so that two lists fit in 80 columns


@with_lists
def compare(
    context: typer.Context,
    a: SavedModel,
    b: Annotated[Path, typer.Argument(help="Folder of the other model.")],
    lists: ListOptions,
    metric: Metrics = DEFAULT,
    queries: Annotated[
        int, typer.Option(min=0, metavar="<int>", help="Number of queries to show, largest difference first.")
    ] = 3,
    as_json: AsJson = False,
    seed: Annotated[
        int,
        typer.Option(min=0, metavar="<int>", help="Random seed of the bootstrap interval and the randomisation test."),
    ] = 0,
) -> None:
    """Compare the metrics of two models: means, differences with intervals and p-values, and single queries.

    Example: `rankgrad compare runs/a runs/b -m nDCG@10 -m AP --queries 5`
    """
    from rankgrad.cli.argument_checks import check_device, load_model, together
    from rankgrad.cli.data_source import PARTS, DataSource, choose_split, telling
    from rankgrad.cli.list_options import no_columns_from_python
    from rankgrad.experiments.comparison import compare as compared
    from rankgrad.metrics.evaluate import named
    from rankgrad.models.registry import saved_kind

    if context.args:
        more = "for more rankers, use `rankgrad experiment` or `rankgrad.experiments.all_pairs`"
        bad_value("compare", f"get two models ({more})", f"{2 + len(context.args)}")
    source: DataSource | None = None

    def found() -> None:
        nonlocal source
        source = _kept(a, b) if lists.data is None else lists.source(a).with_options_of(b)
        source.check()

    together(
        lambda: saved_kind(a),
        lambda: saved_kind(b),
        found,
        partial(one_of, "split", lists.split or "test", PARTS),
        lambda: named(metric),
        lambda: check_device(lists.device),
    )
    assert source is not None
    ours, theirs = load_model(a, lists.device), load_model(b, lists.device)
    if ours.features != theirs.features:
        bad_value(
            "models", "have the same number of features", f"{ours.features} for {a} and {theirs.features} for {b}"
        )
    sources = [_with_missing_of(folder, source, lists.missing) for folder in (a, b)]
    with telling(f"reading {source.data}"), no_columns_from_python(a, b):
        whole = _read(sources, (ours, theirs))
        parts = [source.hold_out(each) for each in whole]
        split = choose_split(source, parts[0], lists.split, lists.data is not None)
    if lists.data is None and split != "test" and "validation" not in whole[0]:
        _check_held_out(a, b)
    same = [each[split] for each in parts]
    scores_a, scores_b = ours.score_lists(same[0]), theirs.score_lists(same[-1])
    result = compared(scores_a, scores_b, same[0], metric, most=queries, seed=seed)
    notes = list(_warnings(source, split, a, b))
    if as_json:
        on = {"a": str(a), "b": str(b), "data": source.data, "fold": source.fold, "split": split, "notes": notes}
        typer.echo(json.dumps({**on, **result.to_dict()}, indent=2, allow_nan=False))
        return
    part = "" if source.is_single and lists.data is not None else f", {split}"  # a single file has no splits
    _print(result, f"{_label(source)}{part}", a, b, notes)


def _kept(a: Path, b: Path) -> "DataSource":
    """Return the data source that the two compared models recorded during training."""
    from rankgrad.cli.data_source import DataSource

    first, second = DataSource.kept(a), DataSource.kept(b)
    kept = first or second
    if kept is None:
        bad_value("data", f"be given, because neither {a} nor {b} records its training data", None)
    if first and second and _same(first) != _same(second):
        got = f"{_label(first)} for {a} and {_label(second)} for {b}"
        bad_value("data", "be given, because the models were trained on different data", got)
    return kept


def _same(source: "DataSource") -> tuple[Any, ...]:
    """Return the values that determine the lists of a data source, except those of held-out lists.

    Sources with equal values have the same lists.
    """
    found = source.absolute()
    root = None if found.root is None else Path(found.root).resolve()
    return found.data, source.fold, root, source.columns, source.regroup


def _check_held_out(a: Path, b: Path) -> None:
    """Check that two models held out the same lists for validation, if the data has no validation part."""
    from rankgrad.cli.data_source import DataSource

    kept = [found for folder in (a, b) if (found := DataSource.kept(folder)) is not None]
    if len({(found.holdout, found.seed if found.holdout else None) for found in kept}) > 1:
        got = " and ".join(
            f"a share of {found.holdout:g} with seed {found.seed} for {folder}"
            for folder, found in zip((a, b), kept, strict=True)
        )
        bad_value("data", "be given, because the models held out different validation lists", got)


def _with_missing_of(folder: Path, source: "DataSource", given: str | None) -> "DataSource":
    """Return the data source of a comparison with the value of `--missing` of a model's training, if none is given."""
    from rankgrad.cli.data_source import DataSource

    kept = DataSource.kept(folder)
    return source if given is not None or kept is None else replace(source, missing=kept.missing)


def _read(sources: list["DataSource"], models: "tuple[TrainedModel, TrainedModel]") -> list[dict[str, "Dataset"]]:
    """Read the compared lists: once, or once per model if missing values are treated in different ways."""
    fills = [source.fill_for(model) for source, model in zip(sources, models, strict=True)]
    keeps_nan = [fill != fill for fill in fills]
    first = keeps_nan.index(True) if any(keeps_nan) else 0
    found = sources[first].read(models[first])
    same = repr(fills[0]) == repr(fills[1])
    if same or (keeps_nan[first] and not any(_has_nan(part.features) for part in found.values())):
        return [found]
    other = sources[1 - first].read(models[1 - first])
    return [other, found] if first else [found, other]


def _has_nan(features: "Features") -> bool:
    import numpy as np

    from rankgrad.data.sparse_rows import is_sparse

    values = features.data if is_sparse(features) else features
    return bool(np.isnan(np.sum(values, dtype=np.float64)))


def _label(source: "DataSource") -> str:
    return source.data if source.fold is None else f"{source.data} fold {source.fold}"


def _warnings(source: "DataSource", split: str, a: Path, b: Path) -> Iterator[str]:
    """Yield a warning for each compared model whose training may have used the evaluated lists."""
    from rankgrad.cli.data_source import DataSource
    from rankgrad.cli.list_options import training_use

    for folder in (a, b):
        use = training_use(folder, source, split)
        if use == "other fold":
            fold = getattr(DataSource.kept(folder), "fold", None)
            yield f"{folder} was trained on fold {fold}, which may contain {split} lists of fold {source.fold}"
        elif use is not None:
            yield f"the model {folder} was {use} on these lists"


def _print(result: "Comparison", where: str, a: Path, b: Path, notes: list[str]) -> None:
    from rankgrad.cli.terminal_text import screen

    console = screen(highlight=False)
    for name, folder in (("a", a), ("b", b)):
        console.print(f"{name}: {folder}", markup=False, soft_wrap=True)
    console.print(f"{result.lists:,} lists of {where}", markup=False, soft_wrap=True)
    console.print(_means(result))
    for row in result.metrics:
        conventions = ", ".join(f"{key} {value}" for key, value in row.conventions.items() if key != "k")
        tied = row.queries - row.wins - row.losses
        wins = f"a is better on {row.wins:,} queries, b on {row.losses:,}, {tied:,} equal"
        console.print(f"{row.metric}: {conventions}; {wins}", markup=False)
    if result.about:
        console.print(result.about, markup=False)
    for note in notes:
        console.print(f"warning: {note}", style="yellow", markup=False)
    if result.queries:
        console.print(f"\nqueries with the largest difference in {result.metrics[0].metric}:", markup=False)
    for query in result.queries:
        name = str(query.query)
        name = name if name.lower().startswith("query") else f"query {name}"
        console.print(
            f"\n{name}, {query.documents} documents: a {query.a:.4f}, b {query.b:.4f}, a - b {query.a - query.b:+.4f}",
            markup=False,
        )
        console.print(_lists(query))


def _means(result: "Comparison") -> "Table":
    from rich.markup import escape

    from rankgrad.cli.terminal_tables import plain_table
    from rankgrad.experiments.comparison import p_value

    table = plain_table()
    table.add_column("metric", overflow="fold")
    for head in ("a", "b", "a - b", f"{result.confidence:.0%} interval", "p (t)", "p (random.)"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in result.metrics:
        low, high = row.interval
        numbers = [f"{row.a:.4f}", f"{row.b:.4f}", f"{row.difference:+.4f}", f"[{low:+.4f}, {high:+.4f}]"]
        table.add_row(escape(row.metric), *map(escape, numbers), p_value(row.t), p_value(row.randomisation))
    return table


def _lists(query: "ComparedQuery") -> "Table":
    """Return a table of both rankings of a query: label, score, and the rank of the document in the other ranking."""
    from rich.markup import escape

    from rankgrad.cli.terminal_tables import plain_table

    table = plain_table()
    table.add_column("rank", justify="right", no_wrap=True)
    for name, other in (("a", "b"), ("b", "a")):
        table.add_column(f"{name}: document", no_wrap=True)
        for head in ("label", "score", f"in {other}"):
            table.add_column(head, justify="right", no_wrap=True)
    for left, right in zip(query.list_a, query.list_b, strict=True):
        fields: list[Any] = [str(left.rank)]
        for place in (left, right):
            fields += [escape(_brief(place.document)), f"{place.label:g}", f"{place.score:.3g}", str(place.other)]
        table.add_row(*fields)
    return table


def _brief(name: str) -> str:
    """Shorten a long document id in the middle. More of the end remains, because ids often begin in the same way."""
    return name if len(name) <= _ID else f"{name[: _ID // 3]}…{name[-(_ID - _ID // 3 - 1) :]}"
