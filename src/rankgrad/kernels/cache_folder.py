"""Stores compiled code on disk, in a folder that only this user can write to. Each entry has a checksum.

Code from the folder is run. So a folder is not used if it belongs to another user, if other users can write to it, or
if it is a symbolic link. If an entry has a wrong checksum, the code is compiled again and the entry is replaced. If
code cannot be stored, every process compiles the code again, and prints the reason to stderr once.

The folder is in `$RANKGRAD_CACHE` if this variable is set, otherwise in `$XDG_CACHE_HOME/rankgrad`, otherwise in
`~/.cache/rankgrad`. This file imports only the standard library, because `cuda/native.py` runs this file as a program
that compiles a C++ file and stores the result.
"""

import hashlib
import os
import re
import stat
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

_reported = False


class CacheFolder:
    """Folder of compiled code on disk. An entry of the folder has a name and contains bytes.

    No method raises `OSError`, because code that cannot be read or stored is compiled again.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.kept = False  # True if the latest write succeeded

    @classmethod
    def of(cls, kind: str, *contents: bytes) -> "CacheFolder":
        """Return the cache folder for code that is compiled from sources with these contents."""
        digest = hashlib.sha256(b"".join(hashlib.sha256(content).digest() for content in contents)).hexdigest()
        try:
            return cls(cache_root() / f"{kind}-{digest[:16]}")
        except (OSError, RuntimeError) as error:  # no home folder, or no working folder
            _report(error)
            return cls(None)

    def read(self, name: str) -> bytes | None:
        """Return the compiled code in the entry with this name, or None if the entry is missing or damaged."""
        if self.path is None:
            return None
        try:
            with _opened(self.path) as parent:
                content = _content(self.path, name, parent)
        except FileNotFoundError:  # no entry was stored yet
            return None
        except OSError as error:
            _report(error)
            return None
        content, digest = content[:-32], content[-32:]
        return content if digest == _digest(name, content) else None

    def write(self, name: str, content: bytes) -> None:
        """Store compiled code as an entry, atomically. An earlier entry with the same name is replaced."""
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
            _report(error)


def cache_root() -> Path:
    """Return the folder that contains all cache folders of compiled code."""
    if chosen := os.environ.get("RANKGRAD_CACHE"):
        return Path(chosen).absolute()
    caches = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (caches if caches.is_absolute() else Path.home() / ".cache") / "rankgrad"


def stored_folders() -> list[Path]:
    """Return the folders with compiled code that belong to this user. The result contains no symbolic links."""
    root = cache_root()
    found = []
    for path in sorted(root.iterdir()) if root.is_dir() else ():
        ours = os.name != "posix" or path.lstat().st_uid == os.geteuid()
        if ours and re.fullmatch(r"[a-z_]+-[0-9a-f]{16}", path.name) and path.is_dir() and not path.is_symlink():
            found.append(path)
    return found


def remove_stored() -> int:
    """Remove all compiled code, and return the number of removed files. Running processes are not affected."""
    count = 0
    for folder in stored_folders():
        for path in [*folder.iterdir()]:
            if path.is_file() and not path.is_symlink():
                path.unlink(missing_ok=True)
                count += 1
        with suppress(OSError):  # another process has stored code in the meantime
            folder.rmdir()
    return count


def _digest(name: str, content: bytes) -> bytes:
    """Return the checksum of an entry of compiled code."""
    return hashlib.sha256(name.encode() + b"\0" + content).digest()


@contextmanager
def _opened(path: Path) -> Iterator[int | None]:
    """Check that a cache folder is private, and yield a descriptor of the folder.

    The descriptor always refers to this folder, even if another folder gets the same path later. On Windows, folders
    have no such descriptors, and the profile of a user is private. So on Windows, this function checks nothing and
    yields None.
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
    """Return the content of the file of a cache entry, or empty bytes if the file cannot be read."""

    def opener(file_name: str, flags: int) -> int:
        # Do not follow a link, and do not wait for the writer of a pipe.
        return os.open(file_name, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), dir_fd=parent)

    with suppress(OSError), open(_entry_file(path, name, parent), "rb", opener=opener) as file:
        return file.read()
    return b""


def _replace(path: Path, name: str, content: bytes, parent: int | None) -> None:
    """Write the file of a cache entry: write a temporary file in the cache folder, and rename this file to `name`."""
    part = _entry_file(path, f"{uuid.uuid4().hex}.part", parent)
    try:
        with open(part, "xb", opener=partial(os.open, mode=0o600, dir_fd=parent)) as file:
            file.write(content)
        os.replace(part, _entry_file(path, name, parent), src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        with suppress(OSError):
            os.unlink(part, dir_fd=parent)
        raise


def _entry_file(path: Path, name: str, parent: int | None) -> str:
    """Return the path of the file of a cache entry, or only its name if `parent` is a descriptor of the folder."""
    return str(path / name) if parent is None else name


def _report(error: Exception) -> None:
    """Print the reason why compiled code cannot be stored in a cache folder, once per process."""
    global _reported
    if not _reported:
        _reported = True
        problem = "rankgrad: compiled code cannot be stored, so every process compiles it again"
        print(f"{problem}: {error} (set RANKGRAD_CACHE to use another folder)", file=sys.stderr)


def main() -> None:
    """Run the compiler of `native.cpp` and store its output in a cache folder.

    The arguments of the program are `FOLDER NAME COMMAND ...`. The program runs COMMAND with the additional arguments
    `-o FILE`.
    """
    folder, name, *command = sys.argv[1:]
    with tempfile.TemporaryDirectory() as made:
        built = Path(made) / name
        if subprocess.run([*command, "-o", str(built)], check=False).returncode == 0:
            CacheFolder(Path(folder)).write(name, built.read_bytes())


if __name__ == "__main__":
    main()
