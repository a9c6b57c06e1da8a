"""The clock of time limits. In contrast to the clock of the machine, nobody sets it while a search runs."""

import time

_ahead = 0.0  # seconds from the clock of this machine to that of the process that follows time limits


def now() -> float:
    """Return the time in seconds. All processes of a machine have the same clock, which begins at any time."""
    return time.monotonic() + _ahead


def reading() -> tuple[float, float]:
    """Return the time of this clock, and the time of day; a process on another machine passes them to `follow`."""
    return now(), time.time()


def follow(theirs: tuple[float, float]) -> None:
    """Set this clock to that of a process on another machine, whose `reading` is given.

    The time of day is the only clock that machines share.
    """
    global _ahead
    clock, day = theirs
    _ahead = clock + time.time() - day - time.monotonic()
