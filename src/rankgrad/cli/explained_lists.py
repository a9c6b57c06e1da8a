"""Functions of `rankgrad importance` and `rankgrad explain`: they read the lists and print bars."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankgrad.cli.data_source import DataSource
    from rankgrad.data import Dataset
    from rankgrad.models.protocol import TrainedModel

_WIDTH = 16  # width of the longest bar, in letters
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def check_source(model: Path, given: "DataSource | None", split: str | None) -> None:
    """Check that the lists of a model exist; no list is read.

    Args:
        model: folder of the model.
        given: data that is given on the command line; None for the training data of the model.
        split: name of the split, or None.
    """
    from rankgrad.cli.data_source import PARTS
    from rankgrad.errors import bad_value, one_of

    one_of("split", split or "test", PARTS)
    source = _source(model, given)
    if source is None:
        bad_value("data", f"be given, because {model} does not record its training data", None)
    source.check(model if given is None else None)


def check_top(top: int) -> None:
    """Check the number of features to print."""
    from rankgrad.errors import bad_value

    if top < 1:
        bad_value("top", "be at least 1", top)


def read_lists(
    scorer: "TrainedModel", model: Path, given: "DataSource | None", split: str | None, regroup: bool
) -> "Dataset":
    """Read the lists of a split.

    Args:
        scorer: model that scores the lists.
        model: folder of the model.
        given: data that is given on the command line; None for the training data of the model.
        split: name of the split; None for test lists, or for validation lists if there are no test lists.
        regroup: True to accept the rows of a query in any order.
    """
    from dataclasses import replace

    from rankgrad.cli.data_source import choose_split, telling

    source = _source(model, None if given is None else replace(given, regroup=regroup))
    assert source is not None
    with telling(f"reading {source.data}"):
        parts = source.hold_out(source.read(scorer))
        return parts[choose_split(source, parts, split, given is not None)]


def _source(model: Path, given: "DataSource | None") -> "DataSource | None":
    from rankgrad.cli.data_source import DataSource

    return DataSource.kept(model) if given is None else given.with_options_of(model)


def print_bars(header: Sequence[str], rows: Sequence[Sequence[str]], values: Sequence[float]) -> None:
    """Print a table with one bar per row; a bar of a negative value is red.

    Args:
        header: names of the columns.
        rows: cells of each row, as text.
        values: number of each row, which the bar shows.
    """
    from rich import box
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    from rankgrad.cli.terminal_text import screen

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for place, name in enumerate(header):
        looks: dict[str, Any] = {"min_width": 10} if place == 0 else {"justify": "right", "no_wrap": True}
        table.add_column(escape(name), overflow="fold", **looks)
    table.add_column("", no_wrap=True, overflow="crop")
    most = max((abs(value) for value in values), default=0.0)
    for row, value in zip(rows, values, strict=True):
        table.add_row(*map(escape, row), Text(bar(value, most), style="red" if value < 0 else "green"))
    screen().print(table)


def bar(value: float, most: float) -> str:
    """Return a bar whose length is the absolute value, relative to the largest value.

    Example:
        >>> bar(-0.5, 1.0), bar(0.0, 0.0)
        ('████████', '')
    """
    eighths = round(abs(value) / most * 8 * _WIDTH) if most > 0 else 0
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
