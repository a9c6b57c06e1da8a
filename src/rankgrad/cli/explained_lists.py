"""Check the number of features to print, and print bars, for `rankgrad importance` and `rankgrad explain`."""

from collections.abc import Sequence
from typing import Any

from rankgrad.errors import bad_value

_WIDTH = 16  # width of the longest bar, in letters
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def check_top(top: int) -> None:
    """Check the option `--top`, the number of features to print."""
    if top < 1:
        bad_value("top", "be at least 1", top)


def print_bars(header: Sequence[str], rows: Sequence[Sequence[str]], values: Sequence[float]) -> None:
    """Print a table with one bar per feature; a bar of a negative value is red.

    Args:
        header: names of the columns.
        rows: cells of each row, as text.
        values: number that the bar of each row shows.
    """
    from rich.markup import escape
    from rich.text import Text

    from rankgrad.cli.terminal_tables import plain_table
    from rankgrad.cli.terminal_text import screen

    table = plain_table()
    for place, name in enumerate(header):
        looks: dict[str, Any] = {"min_width": 10} if place == 0 else {"justify": "right", "no_wrap": True}
        table.add_column(escape(name), overflow="fold", **looks)
    table.add_column("", no_wrap=True, overflow="crop")
    most = max((abs(value) for value in values), default=0.0)
    for row, value in zip(rows, values, strict=True):
        table.add_row(*map(escape, row), Text(bar(value, most), style="red" if value < 0 else "green"))
    screen().print(table)


def bar(value: float, most: float) -> str:
    """Return the bar of a feature, in block letters. The length is the absolute value relative to the largest value.

    Example:
        >>> bar(-0.5, 1.0), bar(0.0, 0.0)
        ('████████', '')
    """
    eighths = round(abs(value) / most * 8 * _WIDTH) if most > 0 else 0
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
