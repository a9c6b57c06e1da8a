"""`rankgrad convert`: converts LETOR text to a cache that opens immediately."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rankgrad.data.letor.summary import ReadSummary


def convert(
    files: Annotated[
        list[Path], typer.Argument(help="LETOR files (plain, gzip or xz); several files are read as one.")
    ],
    cache: Annotated[Path, typer.Argument(help="Folder to write; an existing cache is replaced.")],
    features: Annotated[int | None, typer.Option(help="Number of features (default: the largest feature id).")] = None,
    regroup: Annotated[bool, typer.Option("--regroup", help="Join the rows of a query that are not adjacent.")] = False,
    missing: Annotated[
        str, typer.Option(help="Number that replaces NaN and infinity; 'error' rejects them.")
    ] = "error",
    docids: Annotated[bool, typer.Option(help="Use comments as document ids.")] = True,
    verify: Annotated[bool, typer.Option("--verify", help="Hash complete files to check an existing cache.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Convert LETOR text to a memory-mapped cache, and print a summary.

    If the cache is already up to date, it is not written again.

    Example: `rankgrad convert Fold1/train.txt cache/train`
    """
    from rankgrad.cli.data_source import telling
    from rankgrad.cli.json_output import messages, print_json
    from rankgrad.data.letor.reader import read_letor

    with telling(), _progress() as progress:
        found: list[ReadSummary] = []
        read_letor(
            files,
            features=features,
            regroup=regroup,
            missing="error" if missing == "error" else _number(missing),
            docids=docids,
            cache=cache,
            verify=verify,
            report=found.append,
            progress=progress,
        )
    size = sum(path.stat().st_size for path in cache.iterdir())
    if as_json:
        print_json({"cache": cache, "cache_bytes": size, **asdict(found[0])})
        return
    console = messages()
    console.print(str(found[0]), highlight=True, markup=False)
    done = "is up to date" if found[0].cached else "written"
    console.print(f"{cache}: {done}, {size / 1e6:,.1f} MB", markup=False)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"missing must be 'error' or a number that replaces missing values; got {text!r}") from None


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on a terminal, and remove it at the end; yield the function that updates the bar."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from rankgrad.cli.shared_options import options
    from rankgrad.cli.terminal_text import screen

    columns = (TextColumn("counting, then parsing"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    silent = options.quiet or not sys.stderr.isatty()
    with Progress(*columns, console=screen(stderr=True), transient=True, disable=silent) as bar:
        task = bar.add_task("")
        yield lambda done, total: bar.update(task, completed=done, total=total)
