"""Find the files of a data set. The folder has the layout of a benchmark set or of a custom set."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rankgrad.data.benchmarks import FOLD_PARTS
from rankgrad.data.cache import MANIFEST
from rankgrad.data.tables.files import ENDINGS as TABLES
from rankgrad.errors import bad_value

SPLITS = ("train", "validation", "test")
_STEMS = {
    "train": ("train", "training", "trainingset", "set1.train"),
    "validation": ("vali", "valid", "val", "validation", "validationset", "dev", "set1.valid", "set1.vali"),
    "test": ("test", "testset", "set1.test"),
}
_ENDINGS = (".txt", ".letor", ".svm", ".dat", "", *TABLES)
_COMPRESSED = ("", ".gz", ".xz", ".bz2", ".zst")  # plain files come first: they are faster to read
_PARTS = range(1, 6)


@dataclass(frozen=True)
class SplitFiles:
    """Files of each split. Several files of one split are read as one file. An absent split has no files."""

    train: tuple[Path, ...]
    validation: tuple[Path, ...]
    test: tuple[Path, ...]


def find_files(folder: Path, *, fold: int | None = None, depth: int = 0, needs_test: bool = False) -> SplitFiles | None:
    """Return the files of a data set in `folder` or in its subfolders, down to `depth` levels; None if no set is found.

    The upper levels are searched first. With `fold`, the files are `train.txt`, `vali.txt` and `test.txt` in `Fold1`
    (`trainingset.txt`, ... in OHSUMED), or `S1.txt` to `S5.txt`. Without `fold`, the files are `train.txt`, `vali.txt`
    and `test.txt` (`set1.train.txt`, ... in Yahoo). The validation file may also be called `valid.txt`, `val.txt`,
    `validation.txt` or `dev.txt`. This file is optional. The test file is optional if `needs_test` is False. Every file
    may be plain, `.gz` or `.xz`, or a table such as `train.csv` or `train.parquet`, or a cache, which is a folder
    `train`. Names may be in upper or lower case. Two files of one split are an error.
    """
    for here in folders(folder, depth):
        found = _splits_in(here) if fold is None else _fold_in(here, fold)
        if found is not None and (found.test or not needs_test):
            return found
    return None


def has_folds(folder: Path) -> bool:
    """Return True if a folder contains folds (`Fold1`, ... or `S1` to `S5`), but no train and test files."""
    found = _splits_in(folder)
    return (found is None or not found.test) and _fold_in(folder, 1) is not None


def folders(top: Path, depth: int) -> Iterator[Path]:
    """Yield the folders to search: `top` and its subfolders, `depth` levels, upper levels first, no hidden folders."""
    level = [top] if top.is_dir() else []
    for _ in range(depth + 1):
        yield from level
        level = [inner for outer in level for inner in _inside(outer)]


def _inside(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return sorted(Path(e.path) for e in entries if e.is_dir() and not e.name.startswith("."))
    except PermissionError:
        return []


def _fold_in(folder: Path, fold: int) -> SplitFiles | None:
    for inner in _inside(folder):
        if inner.name.lower() == f"fold{fold}":
            found = _splits_in(inner)
            if found is not None:
                return found
    names = _files_in(folder)
    parts = {number: _pick(names, f"S{number}", [f"s{number}"]) for number in _PARTS}
    if not all(parts.values()) or fold not in FOLD_PARTS:
        return None
    return SplitFiles(*(tuple(path for number in numbers for path in parts[number]) for numbers in FOLD_PARTS[fold]))


def _splits_in(folder: Path) -> SplitFiles | None:
    names = _files_in(folder)
    found = SplitFiles(*(_pick(names, split, _STEMS[split]) for split in SPLITS))
    return found if found.train else None


def _files_in(folder: Path) -> dict[str, Path]:
    try:
        with os.scandir(folder) as entries:
            # Spark writes a Parquet table as a folder `train.parquet`; a cache is a folder `train`.
            paths = {e.name.lower(): Path(e.path) for e in entries}
            return {
                name: path
                for name, path in paths.items()
                if path.is_file() or name.endswith(".parquet") or (path / MANIFEST).is_file()
            }
    except PermissionError:
        return {}


def _pick(names: dict[str, Path], split: str, stems: Iterable[str]) -> tuple[Path, ...]:
    """Return the file of a split in a folder, or no file. Two files are an error, except a compressed copy."""
    found: list[Path] = []
    for name in (stem + ending for stem in stems for ending in _ENDINGS):
        found += [names[name + suffix] for suffix in _COMPRESSED if name + suffix in names][:1]
    if len(found) > 1:
        bad_value(str(found[0].parent), f"contain one {split} file", " and ".join(path.name for path in found))
    return tuple(found)
