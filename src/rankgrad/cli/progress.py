"""Show the progress of many runs: a bar with the remaining time on a terminal, otherwise one line per run."""

import sys
import time
from typing import Any

import typer

from rankgrad.cli.shared_options import options
from rankgrad.cli.terminal_text import screen, shown


class Progress:
    """Context manager that shows progress on standard error; `at` must be called after each run.

    Args:
        what: name of the runs, which the bar shows until the first call of `at`.
        every: number of seconds between two lines, if there is no bar.
    """

    def __init__(self, what: str, every: float = 0.0) -> None:
        self.what, self.every = what, every
        self._began, self._finished = time.monotonic(), 0
        self._printed = self._began
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> "Progress":
        if sys.stderr.isatty() and not options.quiet:
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
            self._bar = Bar(*columns, console=screen(stderr=True), transient=True)
            self._task = self._bar.add_task(f"starting {self.what}", total=None)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def at(self, text: str, done: int, total: int, *, failed: bool = False) -> None:
        """Show that one more run is done. `done` also counts the runs that were done before an interruption."""
        self._finished += 1
        left = (time.monotonic() - self._began) / self._finished * (total - done)
        when = f"about {span(left)} left" if done < total else "done"
        if self._bar is None:
            if failed or (not options.quiet and time.monotonic() - self._printed >= self.every):
                self._printed = time.monotonic()
                typer.echo(shown(f"{done}/{total} {text}; {when}"), err=True)
            return
        self._bar.update(self._task, completed=done, total=total, description=when)
        if failed:
            self._bar.console.print(text, markup=False, highlight=False, style="red")


def span(seconds: float) -> str:
    """Return the remaining time of a command as text, with its unit.

    Example:
        >>> span(5), span(200), span(9000)
        ('5 s', '3 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
