"""A data set on disk as it is in memory: `.npy` files that are mapped, not read, and a manifest of what they are.

A cache is written beside its place and renamed into it, so it is there as a whole or not at all. Opening one compares
sizes and the hashes of first and last megabytes, of its own files and of the files it was made from; `verify=True`
compares whole hashes. Nothing in it can run code: arrays are loaded without pickle, the manifest is JSON.
"""

import errno
import hashlib
import math
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.atomic_files import aside as name_aside
from rankgrad.atomic_files import clear_leftovers, naming, read_json, write_json
from rankgrad.data.dataset import Dataset
from rankgrad.data.letor.summary import ReadSummary

FORMAT, VERSION = "rankgrad cache", 1
MANIFEST = "manifest.json"
ARRAYS = ("features", "labels", "offsets", "qids", "docids")
_END = 1 << 20
_LARGEST_MANIFEST = 64 << 20
_ADVICE = "a folder that `rankgrad convert` or read_letor(..., cache=) wrote"


class CacheError(ValueError):
    """A cache that is damaged, out of date, or not one: `folder: what is wrong; expected what`."""

    def __init__(self, folder: Path, wrong: str, expected: str = _ADVICE) -> None:
        super().__init__(f"{folder}: {wrong}; expected {expected}")


def open_cache(folder: str | os.PathLike[str], *, verify: bool = False) -> Dataset:
    """Open a cache that `rankgrad convert` or `read_letor(..., cache=...)` wrote; the arrays are mapped, not read.

    Source files that are still where they were must not have changed since; ones that are gone are not missed.

    Args:
        folder: the cache.
        verify: compare whole hashes, of the arrays and of the sources, not only of first and last megabytes.

    Example:
        >>> open_cache("no/such/cache")
        Traceback (most recent call last):
        rankgrad.data.cache.CacheError: no/such/cache: no manifest.json; expected a folder that ...
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    for source in manifest["sources"]:
        path = Path(source["path"])
        if os.path.isfile(path) and not matches(path, source, verify):
            raise CacheError(folder, f"{path} has changed since", "its source as it was, or a new conversion")
    return load_cache(folder, manifest, verify)[0]


def load_cache(folder: Path, manifest: dict[str, Any], verify: bool) -> tuple[Dataset, ReadSummary]:
    """Map the arrays of a cache, after a check of each."""
    arrays: dict[str, Any] = {}
    for name, facts in manifest["arrays"].items():
        path = folder / f"{name}.npy"
        if not path.is_file():
            raise CacheError(folder, f"{path.name} is missing")
        if not matches(path, facts, verify):
            raise CacheError(folder, f"{path.name} is damaged", "the bytes that its manifest describes")
        arrays[name] = _map(folder, name)
    try:
        data = Dataset(**arrays, name=manifest["name"])
    except ValueError as error:
        raise CacheError(folder, f"the arrays do not fit together ({error})") from error
    return data, ReadSummary.from_json({**manifest["summary"], "cached": True})


def _map(folder: Path, name: str) -> NDArray[Any]:
    """Map an array, after a look at what its file says of itself: no size in it is trusted."""
    path = folder / f"{name}.npy"
    try:
        with open(path, "rb") as file:
            np.lib.format.read_magic(file)
            shape, by_column, dtype = np.lib.format.read_array_header_1_0(file)
            size = file.tell() + math.prod(shape) * dtype.itemsize
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise CacheError(folder, f"{path.name} is no NumPy array ({error})") from error
    kinds = {"features": "f4", "labels": "f4", "offsets": "i8", "qids": "i8 U", "docids": "U"}[name].split()
    known = dtype.isnative and (dtype.kind in kinds or dtype.str[1:] in kinds)
    flat = len(shape) == 1 + (name == "features") and min(shape) >= 0 and not by_column
    if not (known and flat and size == path.stat().st_size):
        raise CacheError(folder, f"{path.name} holds {path.stat().st_size:,} bytes of {dtype} and shape {shape}")
    return np.load(path, mmap_mode="r", allow_pickle=False)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a cache, of this version."""
    path = folder / MANIFEST
    if not path.is_file():
        raise CacheError(folder, f"no {MANIFEST}")
    if path.stat().st_size > _LARGEST_MANIFEST:
        raise CacheError(folder, f"{MANIFEST} is larger than {_LARGEST_MANIFEST >> 20} MiB")
    try:
        manifest = read_json(path)
    except ValueError as error:
        raise CacheError(folder, f"{MANIFEST} is damaged") from error
    if manifest.get("format") != FORMAT:
        raise CacheError(folder, f"{MANIFEST} is of something else")
    if manifest.get("version") != VERSION:
        raise CacheError(folder, f"cache of version {manifest.get('version')}", f"version {VERSION}; convert it again")
    if not _complete(manifest):
        raise CacheError(folder, f"{MANIFEST} is not complete")
    return manifest


def _complete(manifest: dict[str, Any]) -> bool:
    file = {"size", "ends", "sha256"}
    try:
        str(ReadSummary.from_json(manifest["summary"]))  # which needs numbers
        return (
            {"name", "options"} <= manifest.keys()
            and isinstance(manifest["name"], str)
            and {*ARRAYS[:4]} <= manifest["arrays"].keys() <= {*ARRAYS}
            and all(file <= facts.keys() for facts in manifest["arrays"].values())
            and all(file | {"path", "mtime_ns"} <= facts.keys() for facts in manifest["sources"])
            and all(isinstance(facts["path"], str) and "\0" not in facts["path"] for facts in manifest["sources"])
        )
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return False


def file_fingerprint(path: Path, whole: str | None = None) -> dict[str, Any]:
    """Size, time of change, and hashes of a file: of its first and last megabyte, and of the whole."""
    status = path.stat()
    facts = {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "ends": _hash_ends(path)}
    return {**facts, "sha256": whole or _hash(path)}


def matches(path: Path, facts: dict[str, Any], verify: bool) -> bool:
    """Whether a file is still the one that `fingerprint` saw; facts without an mtime leave it open."""
    status = path.stat()
    if status.st_size != facts["size"] or facts.get("mtime_ns", status.st_mtime_ns) != status.st_mtime_ns:
        return False
    return bool(_hash_ends(path) == facts["ends"] and (not verify or _hash(path) == facts["sha256"]))


def all_match(paths: Sequence[Path], known: Sequence[dict[str, Any]], verify: bool) -> bool:
    """Whether these are the files that were seen, in this order."""
    return len(paths) == len(known) and all(matches(*pair, verify) for pair in zip(paths, known, strict=True))


def _hash_ends(path: Path) -> str:
    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read(_END))
        file.seek(max(file.tell(), os.fstat(file.fileno()).st_size - _END))
        digest.update(file.read(_END))
    return digest.hexdigest()


def _hash(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(_END):
            digest.update(piece)
    return digest.hexdigest()


class Writer:
    """A cache being written, in a folder beside its place."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._names: list[str] = []

    def new(self, name: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """An array of zeros, mapped to its file. A full disk is an error now; later it would be a crash."""
        path = self.folder / f"{name}.npy"
        with naming(path):
            array = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
            if hasattr(os, "posix_fallocate"):
                with open(path, "r+b") as file:
                    os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
        self._names.append(name)
        return np.asarray(array)

    def finish(self, name: str, options: dict[str, Any], sources: Sequence[Any], summary: ReadSummary) -> None:
        """Write the manifest, last: a folder without one is no cache."""
        arrays = {}
        for key in self._names:
            arrays[key] = file_fingerprint(self.folder / f"{key}.npy")
            del arrays[key]["mtime_ns"]  # copying a cache is no damage
        facts = {"options": options, "sources": sources, "arrays": arrays, "summary": summary.to_json()}
        write_json(self.folder / MANIFEST, {"format": FORMAT, "version": VERSION, "name": name, **facts}, seal=True)


@contextmanager
def writing_cache(folder: Path) -> Iterator[Writer]:
    """Write a cache aside; when the block ends well it takes its place by a rename, else nothing is left."""
    check_place(folder)
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    clear_leftovers(folder.parent, folder.name)
    aside = name_aside(folder)
    aside.mkdir()
    old = Path(f"{aside}.old")
    try:
        yield Writer(aside)
        while aside.exists():
            try:
                aside.rename(folder)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                # A cache is there, and maybe another writer too; who has it mapped keeps it until they let go.
                with suppress(FileNotFoundError):
                    folder.rename(old)
                shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def check_place(folder: Path) -> None:
    """See that writing a cache here would replace nothing but a cache."""
    expected = "a new folder, an empty one, or a cache to replace"
    if folder.is_symlink():  # it cannot be replaced by a rename, or leads nowhere
        raise CacheError(folder, f"is a symbolic link to {os.readlink(folder)}", expected)
    if not folder.exists():
        return
    if not folder.is_dir():
        raise CacheError(folder, "is a file", expected)
    foreign = sorted({path.name for path in folder.iterdir()} - {MANIFEST, *(f"{name}.npy" for name in ARRAYS)})
    if foreign:
        raise CacheError(folder, f"holds {foreign[0]!r}, which is no part of a cache", expected)
