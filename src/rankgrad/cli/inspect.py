"""`rankgrad inspect`: checks a data set before training."""

import json as jsonlib
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from rankgrad.cli.missing_option import NAN, FileMissing
from rankgrad.cli.table_options import TableOptions, with_table_options

if TYPE_CHECKING:
    from rankgrad.data.inspection import Inspection

_COLOURS = {"error": "bold red", "warning": "yellow", "note": "cyan"}


@partial(with_table_options, shown=("label", "query", "docid"))
def inspect(
    table: TableOptions,
    data: str = typer.Argument(..., help="Data set name, folder with a train file, LETOR file, table or cache."),
    fold: int | None = typer.Option(None, help="Fold number, for data sets with folds."),
    data_root: str | None = typer.Option(None, help="Folder of data sets (default: $RANKGRAD_DATA)."),
    missing: FileMissing = None,
    json: bool = typer.Option(False, "--json", help="Print JSON instead of tables."),
    strict: bool = typer.Option(False, "--strict", help="Exit with code 1 if the findings include an error."),
) -> None:
    """Check a data set before training: sizes, labels, duplicates, and queries that are in two splits.

    Example: `rankgrad inspect MQ2008 --fold 1 --data-root data`
    """
    from rankgrad.cli.data_source import DataSource, columns_text
    from rankgrad.data import Splits
    from rankgrad.data.inspection import inspect as inspect_data
    from rankgrad.data.loading import is_benchmark

    read_as = NAN if missing is None and not is_benchmark(data) else missing
    source = DataSource(data, fold, data_root, missing=read_as, columns=table.columns(), regroup=table.regroup)
    source.check()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        parts = source.read()
    name = parts["train"].name.removesuffix(" train")
    splits = Splits(parts["train"], parts.get("validation"), parts.get("test"), name)
    seen = inspect_data(parts["train"] if source.is_single else splits)
    if json:
        found = seen.to_json() | {"feature_names": parts["train"].feature_names}
        typer.echo(jsonlib.dumps(found | {"warnings": [str(warning.message) for warning in caught]}, indent=2))
    else:
        if (columns := columns_text(parts["train"])) is not None:
            typer.echo(columns)
        _print(seen, [warning.message for warning in caught])
    if strict and seen.errors:
        raise typer.Exit(1)


def _print(seen: "Inspection", warned: list[Any]) -> None:
    from rich.markup import escape
    from rich.table import Table

    from rankgrad.cli.option_names import as_typed
    from rankgrad.cli.terminal_text import screen

    console = screen()
    head, *body = seen.rows()
    table = Table(*head, box=None, pad_edge=False)
    for row in body:
        table.add_row(*map(escape, row))
    console.print(table)
    console.print()
    for warning in warned:
        console.print(f"[{_COLOURS['warning']}]warning[/] {escape(as_typed(warning))}")
    for finding in seen.findings:
        colour = _COLOURS[finding.severity]
        console.print(f"[{colour}]{finding.severity}[/] [bold]{escape(finding.where)}[/]: {escape(finding.what)}")
        console.print(f"    {escape(as_typed(finding.do))}", style="dim", highlight=False)
    if not seen.findings and not warned:
        console.print("[green]No problems found.[/]")
    if any(split.sampled for split in seen.splits):
        console.print("Values were checked on samples of 50,000 rows and 50,000 document pairs per split.", style="dim")
