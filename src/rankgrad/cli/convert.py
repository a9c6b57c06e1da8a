"""`rankgrad convert`: converts LETOR text to a cache that opens immediately."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rankgrad.data.read_summary import ReadSummary


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
) -> None:
    """Convert LETOR text to a memory-mapped cache, and print a summary.

    If the cache is already up to date, it is not written again.

    Example: `rankgrad convert Fold1/train.txt cache/train`
    """
    from rankgrad.cli.data_source import telling
    from rankgrad.cli.terminal_text import screen
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
    console = screen()
    console.print(str(found[0]), highlight=True, markup=False, soft_wrap=True)
    done = "is up to date" if found[0].cached else "written"
    size = sum(path.stat().st_size for path in cache.iterdir()) / 1e6
    console.print(f"{cache}: {done}, {size:,.1f} MB", markup=False, soft_wrap=True)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"missing must be 'error' or a number that replaces missing values; got {text!r}") from None


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on a terminal, and remove it at the end; yield the function that updates the bar."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("counting, then parsing"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, transient=True) as bar:
        task = bar.add_task("")
        yield lambda done, total: bar.update(task, completed=done, total=total)
