"""A cache of a data set: `.npy` files that are mapped into memory, and a manifest that describes them.

A cache is written to a temporary folder in the same parent folder. Then the temporary folder is renamed, so a cache is
either complete or absent. When a cache is opened, the files of the cache and the source files are checked. The check
compares the size of each file, and a hash of its first and last megabyte. For a file of the cache, it also compares a
hash of the complete file, unless this was done since the last change of the file: its inode and times are those that
the manifest records, or those that this process has seen. With `verify=True`, the check compares a hash of each
complete file. A cache cannot run code, because arrays are loaded without pickle, and the manifest is JSON.
"""

import errno
import hashlib
import logging
import math
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankgrad.atomic_files import aside as name_aside
from rankgrad.atomic_files import clear_leftovers, hash_of_file, naming, read_json, write_json
from rankgrad.data.categories import from_json, to_json
from rankgrad.data.dataset import Categories, Dataset
from rankgrad.data.read_summary import ReadSummary
from rankgrad.errors import Place, Problem, Problems
from rankgrad.roles import ROLES

New: TypeAlias = Callable[[str, tuple[int, ...], Any], NDArray[Any]]  # name, shape and dtype -> an array of zeros
Hashes: TypeAlias = list[Callable[[bytes], object]]
FORMAT, VERSION = "rankgrad cache", 1
MANIFEST = "manifest.json"
_ALWAYS = ("features", "labels", "offsets", "qids")
ARRAYS = (*_ALWAYS, *(role.values for role in ROLES if role.values not in _ALWAYS), "rows")
_COLUMN = re.compile(r"column-\d+")  # array of a column that is used in training only; the manifest has the names
_END = 1 << 20
_SETTLED = 10**8  # nanoseconds; a file that has just changed can change again without a new modification time
_LARGEST_MANIFEST = 64 << 20
_KINDS = {"features": "f4", "offsets": "i8", "rows": "i8"}  # dtypes of each array
_KINDS |= {role.values: "f4" if role.numbers else "i8 U" if role.of_lists else "U" for role in ROLES}
_ADVICE = "a folder that `rankgrad convert`, `read_letor` or `read_table` wrote"
_log = logging.getLogger(__name__)
_checked: set[tuple[Any, ...]] = set()  # path, state and hash of files that this process has compared completely


class CacheError(Problems, ValueError):
    """Error about a folder that is not a cache, or about a cache that is damaged or out of date.

    The message has the form `<folder>: <problem>; expected <what>`.
    """

    def __init__(self, folder: Path, wrong: str, expected: str = _ADVICE) -> None:
        super().__init__(Problem("", expected, wrong, where=(Place(str(folder)),)))


def open_cache(folder: str | os.PathLike[str], *, verify: bool = False) -> Dataset:
    """Open a cache that `rankgrad convert` or `read_letor(..., cache=...)` wrote; its arrays are mapped into memory.

    A source file must be unchanged since the conversion. A missing source file is not an error.

    Args:
        folder: path of the cache.
        verify: True to compare a hash of each complete file. With False, only the first and last megabyte are compared
            of a source file, and of a file of the cache that has not changed since it was compared completely.

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
            raise CacheError(
                folder, f"{path} has changed since the conversion", "the original file (or convert the changed file)"
            )
    return load_cache(folder, manifest, verify)[0]


def through_cache(
    folder: Path,
    files: Sequence[Path],
    options: dict[str, Any],
    name: str,
    verify: bool,
    read: Callable[[New, Hashes], tuple[ReadSummary, dict[str, Any]]],
) -> tuple[Dataset, ReadSummary]:
    """Return the data set and the summary of a cache. An absent, damaged or outdated cache is first written again.

    Args:
        folder: path of the cache.
        files: source files.
        options: options of the reader, as JSON values.
        name: name of the data set.
        verify: True to compare a hash of each complete file.
        read: function `read(new, hashes)`, which reads the files and returns a summary, and the names of the features
            and of the columns that are used in training only, if they have names.
            `new` allocates the arrays. `hashes` contains one function per file. If `read` calls this function with each
            piece of the file, the hash of the file is computed; otherwise, the file is read again for the hash.
    """
    begun = time.perf_counter()
    try:
        manifest = read_manifest(folder)
        if manifest["options"] != options:
            raise CacheError(folder, "the cache was written with other options", "the options of this call")
        if not all_match(files, manifest["sources"], verify):
            raise CacheError(folder, "the cache is of other files, or the files have changed", "a cache of these files")
        data, summary = load_cache(folder, manifest, verify)
        return data, replace(summary, seconds=time.perf_counter() - begun)
    except (CacheError, FileNotFoundError) as why:
        if folder.exists():
            _log.warning("%s; writing the cache again", why)
    with writing_cache(folder) as writer:
        hashes = [hashlib.sha256() for _ in files]
        empty = hashlib.sha256().digest()
        summary, names = read(writer.new, [digest.update for digest in hashes])
        whole = [None if digest.digest() == empty else digest.hexdigest() for digest in hashes]
        sources = [
            {"path": str(path.absolute()), **file_fingerprint(path, known)}
            for path, known in zip(files, whole, strict=True)
        ]
        writer.finish(name, options, sources, summary, **names)
        # Map the arrays before the rename. Afterwards, another process could replace the cache; a map remains valid.
        data, _ = load_cache(writer.folder, read_manifest(writer.folder), verify=False)
    return data, summary


def load_cache(folder: Path, manifest: dict[str, Any], verify: bool) -> tuple[Dataset, ReadSummary]:
    """Check and map the arrays of a cache; return the data set and its summary."""
    arrays: dict[str, Any] = {}
    for name, fingerprint in manifest["arrays"].items():
        path = folder / f"{name}.npy"
        if not path.is_file():
            raise CacheError(folder, f"{path.name} is missing")
        if not _is_whole(path, fingerprint, verify):
            raise CacheError(folder, f"{path.name} is damaged", "the content that the manifest describes")
        arrays[name] = _map(folder, name)
    names = manifest.get("feature_names")
    try:
        arrays = with_columns(arrays, manifest.get("columns", ()))
        known = from_json(manifest.get("categories"), arrays["features"].shape[1], MANIFEST)
        names = None if names is None else tuple(names)
        data = Dataset(**arrays, name=manifest["name"], feature_names=names, categories=known)
    except ValueError as error:
        raise CacheError(folder, f"the arrays are inconsistent ({error})") from error
    return data, ReadSummary.from_json({**manifest["summary"], "cached": True})


def kinds_of(name: str) -> list[str]:
    """Return the dtypes that an array of a cache may have; a column that only training uses has numbers."""
    return _KINDS.get(name, "f4").split()


def column_arrays(names: Sequence[str]) -> list[str]:
    """Return the names of the arrays of a cache that contain the columns which are used in training only."""
    return [f"column-{number}" for number in range(len(names))]


def with_columns(arrays: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the attributes of a data set, from arrays that include those of columns which are used in training only.

    Args:
        arrays: arrays by name, as in a cache.
        names: names of the columns.
    """
    columns = {name: arrays[key] for name, key in zip(names, column_arrays(names), strict=True)}
    others = {name: array for name, array in arrays.items() if not _COLUMN.fullmatch(name)}
    return others | ({"columns": columns} if columns else {})


def _map(folder: Path, name: str) -> NDArray[Any]:
    """Map an array of a cache; first check that the header of the file is valid and agrees with the file's size."""
    path = folder / f"{name}.npy"
    try:
        with open(path, "rb") as file:
            np.lib.format.read_magic(file)
            shape, by_column, dtype = np.lib.format.read_array_header_1_0(file)
            size = file.tell() + math.prod(shape) * dtype.itemsize
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise CacheError(folder, f"{path.name} is not a NumPy array ({error})") from error
    kinds = kinds_of(name)
    known = dtype.isnative and (dtype.kind in kinds or dtype.str[1:] in kinds)
    flat = len(shape) == 1 + (name == "features") and min(shape) >= 0 and not by_column
    if not (known and flat and size == path.stat().st_size):
        raise CacheError(folder, f"{path.name} has {path.stat().st_size:,} bytes, dtype {dtype} and shape {shape}")
    return np.load(path, mmap_mode="r", allow_pickle=False)


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a cache; raise an error if the manifest is damaged or has a different version."""
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
        raise CacheError(folder, f"{MANIFEST} is not the manifest of a cache")
    if manifest.get("version") != VERSION:
        raise CacheError(
            folder,
            f"the cache has version {manifest.get('version')}",
            f"version {VERSION} (convert the source files again)",
        )
    if not _complete(manifest):
        raise CacheError(folder, f"{MANIFEST} is not complete")
    return manifest


def _complete(manifest: dict[str, Any]) -> bool:
    keys = {"size", "ends", "sha256"}
    try:
        str(ReadSummary.from_json(manifest["summary"]))  # fails if a count is not a number
        return (
            {"name", "options"} <= manifest.keys()
            and isinstance(manifest["name"], str)
            and all(isinstance(name, str) for name in manifest.get("feature_names") or ())
            and all(isinstance(name, str) for name in manifest.get("columns", ()))
            and {*_ALWAYS} <= manifest["arrays"].keys() <= {*ARRAYS, *column_arrays(manifest.get("columns", ()))}
            and {*column_arrays(manifest.get("columns", ()))} <= manifest["arrays"].keys()
            and all(keys <= array.keys() for array in manifest["arrays"].values())
            and all(keys | {"path", "mtime_ns"} <= source.keys() for source in manifest["sources"])
            and all(isinstance(source["path"], str) and "\0" not in source["path"] for source in manifest["sources"])
        )
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return False


def file_fingerprint(path: Path, whole: str | None = None) -> dict[str, Any]:
    """Return the size and the modification time of a file, the hash of its ends, and the hash of the complete file.

    The ends are the first and the last megabyte. `whole` is the hash of the complete file; with None, it is computed.
    """
    status = path.stat()
    fingerprint = {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "ends": _hash_ends(path)}
    return {**fingerprint, "sha256": whole or hash_of_file(path)}


def matches(path: Path, fingerprint: dict[str, Any], verify: bool) -> bool:
    """Return True if a source file of a cache has this fingerprint (any time if this has no modification time)."""
    status = path.stat()
    if status.st_size != fingerprint["size"] or fingerprint.get("mtime_ns", status.st_mtime_ns) != status.st_mtime_ns:
        return False
    return bool(_hash_ends(path) == fingerprint["ends"] and (not verify or hash_of_file(path) == fingerprint["sha256"]))


def all_match(paths: Sequence[Path], known: Sequence[dict[str, Any]], verify: bool) -> bool:
    """Return True if the source files `paths` of a cache have the fingerprints `known`, in the same order."""
    return len(paths) == len(known) and all(matches(*pair, verify) for pair in zip(paths, known, strict=True))


def _hash_ends(path: Path) -> str:
    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read(_END))
        file.seek(max(file.tell(), os.fstat(file.fileno()).st_size - _END))
        digest.update(file.read(_END))
    return digest.hexdigest()


def _is_whole(path: Path, fingerprint: dict[str, Any], verify: bool) -> bool:
    """Return True if a file of a cache has this fingerprint; compare all of it once after each change of the file."""
    state = _state(path)
    known = (str(path.absolute()), *(state or ()), fingerprint["sha256"])
    compared = state is not None and (fingerprint.get("state") == state or known in _checked)
    if not matches(path, fingerprint, verify or not compared):
        return False
    if state is not None:
        _checked.add(known)
    return True


def _state(path: Path) -> list[int] | None:
    """Return numbers that change with the content of a file; None if it changed too recently to rely on its times."""
    status = path.stat()
    settled = time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > _SETTLED
    return [status.st_ino, status.st_mtime_ns, status.st_ctime_ns] if settled else None


class Writer:
    """Writer of the files of a cache. It writes to a temporary folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._names: list[str] = []

    def new(self, name: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """Return an array of zeros that is mapped to a new file of the cache; raise an error if the disk is full."""
        path = self.folder / f"{name}.npy"
        with naming(path):
            array = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
            if hasattr(os, "posix_fallocate"):
                with open(path, "r+b") as file:
                    os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
        self._names.append(name)
        return np.asarray(array)

    def finish(
        self,
        name: str,
        options: dict[str, Any],
        sources: Sequence[Any],
        summary: ReadSummary,
        feature_names: Sequence[str] | None = None,
        columns: Sequence[str] = (),
        categories: Categories | None = None,
    ) -> None:
        """Write the manifest of the cache. This is the last step: a folder without a manifest is not a cache."""
        arrays = {}
        for key in self._names:
            path = self.folder / f"{key}.npy"
            large = path.stat().st_size > 2 * _END  # the hash of the ends does not cover all of it
            if large:
                with open(path, "rb") as file:
                    os.fsync(file.fileno())  # otherwise a power failure could change the content, but not the state
            arrays[key] = file_fingerprint(path)
            del arrays[key]["mtime_ns"]  # a copy of a cache has new modification times, but is valid
            if large and (state := _state(path)) is not None:
                arrays[key]["state"] = state
        contents = {"options": options, "sources": sources, "arrays": arrays, "summary": summary.to_json()}
        if feature_names is not None:
            contents["feature_names"] = [*feature_names]
        contents |= {"columns": [*columns]} if columns else {}
        contents |= {"categories": to_json(categories)} if categories else {}
        write_json(self.folder / MANIFEST, {"format": FORMAT, "version": VERSION, "name": name, **contents}, seal=True)


@contextmanager
def writing_cache(folder: Path) -> Iterator[Writer]:
    """Write a cache in a temporary folder. At the end, rename this folder to `folder`; after an error, remove it."""
    check_place(folder)
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    clear_leftovers(folder.parent, folder.name)
    temporary = name_aside(folder)
    temporary.mkdir()
    old = Path(f"{temporary}.old")
    try:
        yield Writer(temporary)
        while temporary.exists():
            try:
                temporary.rename(folder)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                # A cache exists, perhaps from another process. Processes that have mapped it can still use the maps.
                with suppress(FileNotFoundError):
                    folder.rename(old)
                shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def check_place(folder: Path) -> None:
    """Check that a cache can be written to `folder`: the folder must be absent, empty, or a cache to replace."""
    expected = "a new folder, an empty folder, or a cache to replace"
    if folder.is_symlink():  # a rename cannot replace a link, and the target of the link may not exist
        raise CacheError(folder, f"is a symbolic link to {os.readlink(folder)}", expected)
    try:
        inside = os.listdir(folder)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise CacheError(folder, "is a file", expected) from None
    known = {MANIFEST, *(f"{name}.npy" for name in ARRAYS)}
    if foreign := [name for name in inside if name not in known and not _COLUMN.fullmatch(name.removesuffix(".npy"))]:
        raise CacheError(folder, f"contains {min(foreign)!r}, which is not part of a cache", expected)
