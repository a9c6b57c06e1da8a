"""Find the files of a data set, in the folder layouts of benchmark sets and custom sets."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rankgrad.data.benchmarks import FOLD_PARTS

SPLITS = ("train", "validation", "test")
_STEMS = {
    "train": ("train", "training", "trainingset", "set1.train"),
    "validation": ("vali", "valid", "validation", "validationset", "dev", "set1.valid", "set1.vali"),
    "test": ("test", "testset", "set1.test"),
}
# Plain files come first: if a file exists both plain and compressed, the plain file is faster to read.
_ENDINGS = tuple(ending + suffix for suffix in ("", ".gz", ".xz") for ending in (".txt", ".letor", ".svm", ".dat", ""))
_PARTS = range(1, 6)


@dataclass(frozen=True)
class SplitFiles:
    """Files of each split; several files of a split are read as one. `validation` is empty if there is no such part."""

    train: tuple[Path, ...]
    validation: tuple[Path, ...]
    test: tuple[Path, ...]


def find_files(folder: Path, *, fold: int | None = None, depth: int = 0) -> SplitFiles | None:
    """Return the files of a set in `folder` or in its subfolders, down to `depth` levels; None if no set is found.

    The upper levels are searched first. With `fold`, the files are `train.txt`, `vali.txt` and `test.txt` in `Fold1`
    (`trainingset.txt`, ... in OHSUMED), or `S1.txt` to `S5.txt`. Without `fold`, the files are `train.txt`, `vali.txt`
    and `test.txt` (`set1.train.txt`, ... in Yahoo). The validation file is optional. Every file may be plain, `.gz` or
    `.xz`. Names may be in upper or lower case.
    """
    for here in folders(folder, depth):
        found = _splits_in(here) if fold is None else _fold_in(here, fold)
        if found is not None:
            return found
    return None


def has_folds(folder: Path) -> bool:
    """Return True if a folder contains folds (`Fold1`, ... or `S1` to `S5`), but no train and test files."""
    return _splits_in(folder) is None and _fold_in(folder, 1) is not None


def folders(top: Path, depth: int) -> Iterator[Path]:
    """Yield `top` and its subfolders down to `depth` levels, the upper levels first; hidden folders are skipped."""
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
    parts = {number: path for number in _PARTS if (path := _pick(names, [f"s{number}"])) is not None}
    if set(parts) != set(_PARTS) or fold not in FOLD_PARTS:
        return None
    return SplitFiles(*(tuple(parts[number] for number in numbers) for numbers in FOLD_PARTS[fold]))


def _splits_in(folder: Path) -> SplitFiles | None:
    names = _files_in(folder)
    train, validation, test = (_pick(names, _STEMS[split]) for split in SPLITS)
    if train is None or test is None:
        return None
    return SplitFiles((train,), (validation,) if validation is not None else (), (test,))


def _files_in(folder: Path) -> dict[str, Path]:
    try:
        with os.scandir(folder) as entries:
            return {entry.name.lower(): Path(entry.path) for entry in entries if entry.is_file()}
    except PermissionError:
        return {}


def _pick(names: dict[str, Path], stems: Iterable[str]) -> Path | None:
    return next((names[stem + end] for stem in stems for end in _ENDINGS if stem + end in names), None)
