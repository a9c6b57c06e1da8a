"""Lock a folder: only one run can use the folder. The system releases the lock when the process ends."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from rankgrad.atomic_files import clear_leftovers, naming
from rankgrad.errors import bad_value

LOCK = ".lock"
_PATIENCE = 1.0  # seconds to wait for the lock: processes of a killed run may end a little later than the run
_held: ContextVar[frozenset[Path]] = ContextVar("held", default=frozenset())


@contextmanager
def locked(folder: Path, *, again: bool = False) -> Iterator[None]:
    """Lock a folder for this run. Create the folder if necessary, and remove incomplete files of a killed run.

    A second run in the folder is an error. On Windows, and on file systems without locks, the folder is not locked.

    Args:
        folder: folder of the run.
        again: True if the caller may already have the lock, such as a command that calls the training.
    """
    place = folder.resolve()
    if again and place in _held.get():
        yield
        return
    new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    file = _take(folder)
    token = _held.set(_held.get() | {place})
    try:
        if file is not None:
            clear_leftovers(folder)
        yield
    finally:
        _held.reset(token)
        if file is not None:
            (folder / LOCK).unlink(missing_ok=True)
            os.close(file)
        if new:
            with suppress(OSError):  # the folder is not empty
                folder.rmdir()


def is_locked(folder: Path) -> bool:
    """Return True if the current run has locked a folder.

    Args:
        folder: folder to check.
    """
    return folder.resolve() in _held.get()


def _take(folder: Path) -> int | None:
    """Lock a folder, and return the descriptor of its lock file; None if locks are not supported."""
    try:
        import fcntl
    except ModuleNotFoundError:
        return None
    path, until = folder / LOCK, time.monotonic() + _PATIENCE
    while True:
        with naming(path):
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A run that ended may have removed this file, and another run may have locked a new file.
            if os.path.samestat(os.fstat(file), path.stat()):
                return file
        except BlockingIOError:
            if time.monotonic() > until:
                os.close(file)
                bad_value("out", "be a folder that no other run uses", folder)
            time.sleep(0.02)
        except FileNotFoundError:  # another run removed the file in the meantime
            pass
        except OSError:
            os.close(file)
            return None
        os.close(file)
