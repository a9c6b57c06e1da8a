"""`rankgrad convert`: converts LETOR text or a table to a cache, which opens immediately."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankgrad.cli.missing_option import FileMissing, file_fill
from rankgrad.cli.option_groups import AsJson
from rankgrad.cli.table_options import TableOptions, with_table_options
from rankgrad.errors import bad_value

if TYPE_CHECKING:
    from rankgrad.data.read_summary import ReadSummary


@with_table_options
def convert(
    table: TableOptions,
    files: Annotated[
        list[Path], typer.Argument(help="LETOR files (plain, gzip or xz), which are joined, or one table.")
    ],
    cache: Annotated[Path, typer.Argument(help="Folder to write; an existing cache is replaced.")],
    width: Annotated[
        int | None, typer.Option(help="Number of features of LETOR text (default: the largest feature id).")
    ] = None,
    missing: FileMissing = None,
    docids: Annotated[bool, typer.Option(help="Use comments as document ids.")] = True,
    as_json: AsJson = False,
) -> None:
    """Convert LETOR text or a table to a memory-mapped cache, and print a summary.

    A cache that is already up to date is not written again.

    Example: `rankgrad convert Fold1/train.txt cache/train`
    """
    from rankgrad.cli.data_source import telling
    from rankgrad.cli.json_output import messages, print_json
    from rankgrad.cli.shared_options import options as shared
    from rankgrad.data.letor.reader import read_letor
    from rankgrad.data.tables.files import format_of
    from rankgrad.data.tables.reader import read_columns

    tables = [file for file in files if format_of(file) is not None]
    if tables and len(files) > 1:
        bad_value(
            "files", "be LETOR text, or one table (a folder of Parquet files is one table)", f"{len(files)} files"
        )
    columns = table.columns() if tables else replace(table.columns(), features=None)
    if columns and not tables:
        bad_value("options of columns", "be given only for a table", f"the LETOR file {files[0]}")
    with telling(), _progress() as progress:
        found: list[ReadSummary] = []
        options: dict[str, Any] = {
            "regroup": table.regroup,
            "missing": file_fill(missing),
            "cache": cache,
            "verify": shared.verify,
        }
        options |= {"report": found.append, "progress": progress}
        if tables:
            read_columns(tables[0], columns, **options)
        else:
            read_letor(files, features=_width(table, width), docids=docids, **options)
    size = sum(path.stat().st_size for path in cache.iterdir())
    if as_json:
        print_json({"cache": cache, "cache_bytes": size, **asdict(found[0])})
        return
    console = messages()
    console.print(str(found[0]), highlight=True, markup=False)
    done = "is up to date" if found[0].cached else "written"
    console.print(f"{cache}: {done}, {size / 1e6:,.1f} MB", markup=False)


def _width(table: TableOptions, width: int | None) -> int | None:
    """Return the number of features of LETOR text, from `--width`; from `--features`, as in version 0.1."""
    if width is not None and width < 1:
        bad_value("width", "be at least 1", width)
    if width is not None or not (features := table.columns().features):
        return width
    text, *others = features
    if others or not text.isdecimal():
        bad_value("features", "be names of columns of a table, or the number of features of LETOR text", repr(text))
    return int(text)


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar of `rankgrad convert` on a terminal; yield the function that updates the bar."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from rankgrad.cli.shared_options import options
    from rankgrad.cli.terminal_text import screen

    columns = (TextColumn("counting, then parsing"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    silent = options.quiet or not sys.stderr.isatty()
    with Progress(*columns, console=screen(stderr=True), transient=True, disable=silent) as bar:
        task = bar.add_task("")
        yield lambda done, total: bar.update(task, completed=done, total=total)
