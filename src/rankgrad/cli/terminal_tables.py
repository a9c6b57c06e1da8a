"""Print tables on the terminal: metrics, and names with descriptions."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from rankgrad.data import Dataset

METRICS = ["nDCG@1", "nDCG@5", "nDCG@10", "AP", "RR"]  # default metrics of an evaluation
TEXT_METRICS = ["nDCG(gain='linear')@10", "nDCG(gain='linear')@20", "AP", "P@10"]  # those of lists of texts


def default_metrics(data: "Dataset") -> list[str]:
    """Return the metrics that are printed about the lists of a data set after a training."""
    return METRICS if data.texts is None else TEXT_METRICS


def plain_table() -> "Table":
    """Return a table without columns, with a line below the header."""
    from rich import box
    from rich.table import Table

    return Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))


def print_metrics(
    rows: Sequence[Sequence[str]], notes: Iterable[str], lists: str = "lists", console: "Console | None" = None
) -> None:
    """Print the rows and notes of an `Evaluation`; `lists` is the header of the column with the number of lists."""
    from rich.markup import escape

    from rankgrad.cli.terminal_text import screen

    header, *body = rows
    table = plain_table()
    for place, name in enumerate(header):
        # On a narrow terminal the text may wrap, but not the numbers (mean and interval).
        table.add_column(lists if name == "lists" else name, overflow="fold", no_wrap=place in (1, 2))
    for row in body:
        table.add_row(*map(escape, row))
    console = console or screen()
    console.print(table)
    for note in notes:
        console.print(note, style="yellow", markup=False)


def print_names(
    header: Sequence[str], rows: Iterable[Sequence[str]], notes: Iterable[str] = (), console: "Console | None" = None
) -> None:
    """Print a table with one row per name. The names never wrap; the text in other columns may wrap."""
    from rich.markup import escape

    from rankgrad.cli.terminal_text import screen

    table = plain_table()
    for place, name in enumerate(header):
        table.add_column(name, no_wrap=place == 0, style="bold" if place == 0 else None, overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    console = console or screen()
    console.print(table)
    for note in notes:
        console.print(note, highlight=False, markup=False)
