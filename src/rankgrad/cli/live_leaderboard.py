"""Show the progress of `rankgrad auto`: on a terminal the leaderboard and a bar, otherwise one line per training."""

import sys
from typing import TYPE_CHECKING, Any

import typer

from rankgrad.cli.progress import span
from rankgrad.cli.shared_options import options
from rankgrad.cli.terminal_text import screen, shown

if TYPE_CHECKING:
    from rankgrad.models.auto.search import AutoSearch, Entry

_ROWS = 8  # number of candidates on the terminal


class LiveLeaderboard:
    """Context manager that shows the best candidates while a search runs; `at` must be called after each training."""

    def __init__(self) -> None:
        self._live: Any = None

    def __enter__(self) -> "LiveLeaderboard":
        if sys.stderr.isatty() and not options.quiet:
            from rich.live import Live

            self._live = Live(console=screen(stderr=True), transient=True, auto_refresh=False)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def at(self, search: "AutoSearch", entry: "Entry") -> None:
        """Show the leaderboard of the search after a training.

        Args:
            search: the search.
            entry: candidate that was trained.
        """
        from rankgrad.models.auto.leaderboard import progress_line

        done, total = search.trainings()
        limit = search.settings.seconds
        when = f"{done}/{total} trainings" if limit is None else f"about {span(max(0.0, search.left()))} left"
        if self._live is not None:
            self._live.update(_table(search, when), refresh=True)
        elif not options.quiet:
            typer.echo(shown(f"{progress_line(search, entry)}; {when}"), err=True)


def _table(search: "AutoSearch", when: str) -> Any:
    """Return the live leaderboard: a table of the best candidates so far, and a bar below the table."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    from rankgrad.models.auto.leaderboard import entry_rows
    from rankgrad.parallel.clock import now

    limit, (done, total) = search.settings.seconds, search.trainings()
    table = Table(box=None)
    for head in LEADERBOARD:
        table.add_column(head.format(metric=search.settings.metric))
    for row in entry_rows(search)[:_ROWS]:
        table.add_row(*(Text(cell) for cell in leaderboard_row(row)))
    share = (now() - search.begun) / limit if limit else done / max(1, total)
    return Group(table, ProgressBar(total=1.0, completed=min(1.0, share), width=40), Text(when))


LEADERBOARD = ("candidate", "model", "loss", "{metric}", "folds", "seconds", "note")  # heads of the table


def leaderboard_row(row: dict[str, Any]) -> tuple[str, ...]:
    """Return a row of the leaderboard as text; the number after ± is half of the 95% interval.

    Args:
        row: row of `rankgrad.models.auto.leaderboard.entry_rows`.
    """
    value = "" if row["value"] is None else f"{row['value']:.4f} ± {(row['interval'][1] - row['interval'][0]) / 2:.4f}"
    numbers = (value, str(row["folds"]), f"{row['seconds']:.1f}")
    return (row["candidate"], row["model"], row["loss"], *numbers, row["note"])
