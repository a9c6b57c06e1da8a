"""Keeps compiled code on disk, in a folder that only this user can write to, each entry with a checksum.

To load compiled code is to run it. So a folder that belongs to another user, that others can write to, or that is a
symbolic link is not used. An entry whose checksum is wrong is absent: it is compiled again and replaced. Where nothing
can be kept, every process compiles for itself, and one sentence on stderr says why.

The folder is in `RANKGRAD_CACHE`, or in `$XDG_CACHE_HOME/rankgrad`, or in `~/.cache/rankgrad`. This file imports
nothing but the standard library: `native` runs it as a program, which compiles a file and keeps it.
"""

import hashlib
import os
import stat
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

_said = False


class CacheFolder:
    """A folder of entries, each a name and bytes. No method raises `OSError`: what cannot be kept is compiled again."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.kept = False  # whether the latest write succeeded

    @classmethod
    def of(cls, kind: str, *contents: bytes) -> "CacheFolder":
        """The folder for what is compiled from these contents."""
        digest = hashlib.sha256(b"".join(hashlib.sha256(content).digest() for content in contents)).hexdigest()
        try:
            return cls(_root() / f"{kind}-{digest[:16]}")
        except (OSError, RuntimeError) as error:  # no home folder, or no working folder
            _say(error)
            return cls(None)

    def read(self, name: str) -> bytes | None:
        """The entry of this name; None where there is none, or it is damaged."""
        if self.path is None:
            return None
        try:
            with _opened(self.path) as parent:
                content = _content(self.path, name, parent)
        except FileNotFoundError:  # nothing was kept yet
            return None
        except OSError as error:
            _say(error)
            return None
        content, digest = content[:-32], content[-32:]
        return content if digest == _digest(name, content) else None

    def write(self, name: str, content: bytes) -> None:
        """Keep an entry, whole or not at all, in the place of any earlier one of this name."""
        self.kept = False
        if self.path is None:
            return
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.mkdir(mode=0o700, exist_ok=True)
            with _opened(self.path) as parent:
                _replace(self.path, name, content + _digest(name, content), parent)
            self.kept = True
        except OSError as error:
            _say(error)


def _root() -> Path:
    if chosen := os.environ.get("RANKGRAD_CACHE"):
        return Path(chosen).absolute()
    caches = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (caches if caches.is_absolute() else Path.home() / ".cache") / "rankgrad"


def _digest(name: str, content: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\0" + content).digest()


@contextmanager
def _opened(path: Path) -> Iterator[int | None]:
    """A descriptor of the folder, which stays the same folder whatever others put at its path meanwhile.

    None on Windows, where folders have no such descriptors and a user's profile is private.
    """
    if os.name != "posix":
        yield None
        return
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        facts = os.fstat(folder)
        if facts.st_uid != os.geteuid():
            raise PermissionError(f"{path} belongs to another user")
        if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(f"other users can write to {path}")
        yield folder
    finally:
        os.close(folder)


def _content(path: Path, name: str, parent: int | None) -> bytes:
    """What a file holds; empty where it is no file, or cannot be read."""

    def opener(place: str, flags: int) -> int:
        # A link is not followed, and nobody waits for the writer of a pipe.
        return os.open(place, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), dir_fd=parent)

    with suppress(OSError), open(_place(path, name, parent), "rb", opener=opener) as file:
        return file.read()
    return b""


def _replace(path: Path, name: str, content: bytes, parent: int | None) -> None:
    """Write a file aside, and rename it."""
    part = _place(path, f"{uuid.uuid4().hex}.part", parent)
    try:
        with open(part, "xb", opener=partial(os.open, mode=0o600, dir_fd=parent)) as file:
            file.write(content)
        os.replace(part, _place(path, name, parent), src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        with suppress(OSError):
            os.unlink(part, dir_fd=parent)
        raise


def _place(path: Path, name: str, parent: int | None) -> str:
    return str(path / name) if parent is None else name


def _say(error: Exception) -> None:
    """Say once in this process why code is not kept."""
    global _said
    if not _said:
        _said = True
        told = "rankgrad: compiled code cannot be kept, so every process compiles it again"
        print(f"{told}: {error} (RANKGRAD_CACHE chooses another folder)", file=sys.stderr)


def main() -> None:
    """Run a compiler, whose command lacks the path to write to, and keep what it makes: FOLDER NAME COMMAND..."""
    folder, name, *command = sys.argv[1:]
    with tempfile.TemporaryDirectory() as made:
        built = Path(made) / name
        if subprocess.run([*command, "-o", str(built)], check=False).returncode == 0:
            CacheFolder(Path(folder)).write(name, built.read_bytes())


if __name__ == "__main__":
    main()
