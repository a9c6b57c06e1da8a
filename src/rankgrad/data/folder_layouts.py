"""Where the files of a data set lie: the folder layouts of the benchmark sets, and of users' own."""

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
# Plain files first: where a set lies both packed and unpacked, the unpacked one reads faster.
_ENDINGS = tuple(ending + packed for packed in ("", ".gz", ".xz") for ending in (".txt", ".letor", ".svm", ".dat", ""))
_PARTS = range(1, 6)


@dataclass(frozen=True)
class SplitFiles:
    """The files of each split; those of one split are read as one. No validation files: the set has none."""

    train: tuple[Path, ...]
    validation: tuple[Path, ...]
    test: tuple[Path, ...]


def find_files(folder: Path, *, fold: int | None = None, depth: int = 0) -> SplitFiles | None:
    """The files of a set in `folder` or, `depth` levels down, in a folder inside it; the nearest match, or None.

    With `fold`: `Fold1/train.txt, vali.txt, test.txt` (also OHSUMED's `trainingset.txt, ...`) or `S1.txt` to `S5.txt`.
    Without: `train.txt, vali.txt, test.txt` (also Yahoo's `set1.train.txt, ...`), the validation part optional.
    Every file may be plain, `.gz` or `.xz`; upper and lower case are one.
    """
    for here in folders(folder, depth):
        found = _splits_in(here) if fold is None else _fold_in(here, fold)
        if found is not None:
            return found
    return None


def has_folds(folder: Path) -> bool:
    """Whether a folder holds folds (`Fold1`, ... or `S1` to `S5`) rather than one set of splits."""
    return _splits_in(folder) is None and _fold_in(folder, 1) is not None


def folders(top: Path, depth: int) -> Iterator[Path]:
    """`top` and the folders inside it, nearest first, down to `depth` levels; hidden ones are left out."""
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
