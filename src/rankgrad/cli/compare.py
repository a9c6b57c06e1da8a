"""`rankgrad compare`: two saved models on the same lists."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from rankgrad.cli.data_source import DataSource
    from rankgrad.experiments.comparison import ComparedQuery, Comparison

DEFAULT = ["nDCG@10"]
_ID = 14  # letters of a document's id, so that two lists fit 80 columns


def compare(
    a: Annotated[Path, typer.Argument(help="Folder of a model.")],
    b: Annotated[Path, typer.Argument(help="Folder of another.")],
    data: Annotated[str | None, typer.Option(help="Known set, folder, file or cache; else theirs.")] = None,
    fold: Annotated[int | None, typer.Option(help="Fold, for sets that have some.")] = None,
    data_root: Annotated[str | None, typer.Option(help="Where known sets lie; else RANKGRAD_DATA.")] = None,
    split: Annotated[str, typer.Option(help="train, validation or test; a file is all one.")] = "test",
    metric: Annotated[list[str], typer.Option("--metric", "-m", help="A metric, by its text; repeatable.")] = DEFAULT,
    queries: Annotated[int, typer.Option(min=0, help="Queries to show, those that differ most.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of the interval and the randomisation test.")] = 0,
    missing: Annotated[str | None, typer.Option(help="What NaN and infinities become.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Compare two models: means, difference with its interval and p-values, and the queries that differ most.

    Example: `rankgrad compare runs/a runs/b -m nDCG@10 -m AP --queries 5`
    """
    from rankgrad.cli.argument_checks import check_device, load_model, together
    from rankgrad.cli.data_source import PARTS, DataSource, telling
    from rankgrad.errors import bad_value, one_of
    from rankgrad.experiments.comparison import compare as compared
    from rankgrad.metrics.evaluate import named
    from rankgrad.models.folder import read_config

    source: DataSource | None = None

    def found() -> None:
        nonlocal source
        source = _kept(a, b) if data is None else DataSource(data, fold, data_root, missing=missing)
        source.check()

    together(
        lambda: read_config(a),
        lambda: read_config(b),
        found,
        lambda: one_of("split", split, PARTS),
        lambda: named(metric),
        lambda: check_device(device),
    )
    assert source is not None
    ours, theirs = load_model(a, device), load_model(b, device)
    if ours.features != theirs.features:
        bad_value("models", "take the same features", f"{ours.features} for {a} and {theirs.features} for {b}")
    with telling(f"reading {source.data}"):
        parts = source.hold_out(source.read(ours.features))
    if split not in parts and (len(parts) > 1 or data is None):
        bad_value("split", f"be one that {source.data} has ({', '.join(parts)})", repr(split))
    lists = parts[split] if split in parts else parts["train"]
    scores_a, scores_b = (model.score(lists.features, lists.offsets) for model in (ours, theirs))
    result = compared(scores_a, scores_b, lists, metric, most=queries, seed=seed)
    notes = list(_warnings(source, split, a, b))
    if as_json:
        on = {"a": str(a), "b": str(b), "data": source.data, "fold": source.fold, "split": split, "notes": notes}
        typer.echo(json.dumps({**on, **result.to_dict()}, indent=2, allow_nan=False))
        return
    _print(result, f"{source.data}{'' if source.fold is None else f' fold {source.fold}'}, {split}", a, b, notes)


def _kept(a: Path, b: Path) -> "DataSource":
    """The data that both models were trained on."""
    from rankgrad.cli.data_source import DataSource
    from rankgrad.errors import bad_value

    first, second = DataSource.kept(a), DataSource.kept(b)
    kept = first or second
    if kept is None:
        bad_value("data", f"be given: neither {a} nor {b} says what it was trained on", "nothing")
    if first and second and _same(first) != _same(second):
        said = f"{_said(first)} for {a} and {_said(second)} for {b}"
        bad_value("data", "be given, where models were trained on different data", said)
    return kept


def _same(source: "DataSource") -> tuple[Any, ...]:
    """What must be equal for the lists to be the same."""
    root = None if source.root is None else Path(source.root).resolve()
    return source.data, source.fold, root, source.missing, source.holdout, source.seed


def _said(source: "DataSource") -> str:
    return source.data if source.fold is None else f"{source.data} fold {source.fold}"


def _warnings(source: "DataSource", split: str, a: Path, b: Path) -> Iterator[str]:
    """Where a model may have been trained on the lists that it is judged on."""
    from rankgrad.cli.data_source import DataSource

    for folder in (a, b):
        kept = DataSource.kept(folder)
        if kept is None or kept.data != source.data:
            continue
        if kept.fold != source.fold:
            yield f"{folder} was trained on fold {kept.fold}, so it may know {split} lists of fold {source.fold}"
        elif split != "test":
            what = "trained on" if split == "train" else "chosen by"
            yield f"{folder} was {what} these lists"


def _print(result: "Comparison", where: str, a: Path, b: Path, notes: list[str]) -> None:
    from rankgrad.cli.terminal_text import screen

    console = screen(highlight=False)
    for name, folder in (("a", a), ("b", b)):
        console.print(f"{name}: {folder}", markup=False, soft_wrap=True)
    console.print(f"{result.lists:,} lists of {where}", markup=False, soft_wrap=True)
    console.print(_means(result))
    for own in result.metrics:
        said = ", ".join(f"{key} {value}" for key, value in own.conventions.items() if key != "k")
        tied = own.queries - own.wins - own.losses
        console.print(
            f"{own.metric}: {said}; a better on {own.wins:,} queries, b on {own.losses:,}, {tied:,} equal", markup=False
        )
    for note in notes:
        console.print(f"warning: {note}", style="yellow", markup=False)
    if result.queries:
        console.print(f"\nqueries that differ most in {result.metrics[0].metric}:", markup=False)
    for query in result.queries:
        console.print(
            f"\nquery {query.query}, {query.documents} documents: a {query.a:.4f}, b {query.b:.4f}, "
            f"a - b {query.a - query.b:+.4f}",
            markup=False,
        )
        console.print(_lists(query))


def _table() -> "Table":
    from rich import box
    from rich.table import Table

    return Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))


def _means(result: "Comparison") -> "Table":
    from rich.markup import escape

    table = _table()
    table.add_column("metric", overflow="fold")
    for head in ("a", "b", "a - b", f"{result.confidence:.0%} interval", "p (t)", "p (random.)"):
        table.add_column(head, justify="right", no_wrap=True)
    for own in result.metrics:
        low, high = own.interval
        numbers = [f"{own.a:.4f}", f"{own.b:.4f}", f"{own.difference:+.4f}", f"[{low:+.4f}, {high:+.4f}]"]
        table.add_row(escape(own.metric), *map(escape, numbers), _p(own.t), _p(own.randomisation))
    return table


def _lists(query: "ComparedQuery") -> "Table":
    """Both lists side by side: label, score, and where the other has the document."""
    from rich.markup import escape

    table = _table()
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
    """A document's id with its middle left out where it is long: ids of one list begin alike, and some end alike."""
    return name if len(name) <= _ID else f"{name[: _ID // 3]}…{name[-(_ID - _ID // 3 - 1) :]}"


def _p(p: float) -> str:
    return "<0.001" if p < 0.001 else f"{p:.3f}"
