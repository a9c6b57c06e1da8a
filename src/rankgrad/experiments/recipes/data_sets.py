"""The data sets of a recipe: which there are, where they lie, and how they are read."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rankgrad.data import Dataset, Splits, datasets, loading
from rankgrad.data.benchmarks import BenchmarkFacts
from rankgrad.data.splitting import HOLDOUT, hold_out
from rankgrad.errors import bad_value, mistyped
from rankgrad.experiments.runs.cell import label


@dataclass(frozen=True)
class RecipeData:
    """A data set of a recipe, with what holds for it alone."""

    name: str  # a name of `rankgrad.data.load`, or a folder in the data root
    binary: bool = False
    folds: tuple[int | None, ...] = (None,)
    seeds: tuple[int, ...] = (0,)
    settings: Mapping[str, Any] = field(default_factory=dict)  # over the recipe's
    models: Mapping[str, Any] = field(default_factory=dict)  # label -> instead of the recipe's
    losses: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Its name in tables."""
        return label(self.name, self.binary)


def published(name: str) -> BenchmarkFacts | None:
    """The facts about a set that `rankgrad.data.load` knows by name; None for any other name."""
    kind = name.partition(":")[0].lower()
    return next((each for each in datasets() if kind in map(str.lower, (each.name, *each.aliases))), None)


def known(name: str) -> BenchmarkFacts:
    """The facts of a name, which must be a known one."""
    found = published(name)
    if found is None:
        names = [known for each in datasets() for known in (each.name, *each.aliases)]
        bad_value("name", "be a known data set (a folder is written {folder: NAME})", mistyped(name, names))
    if ":" in name:
        loading.check_source(name)
    return found


def place(data: str, root: str | os.PathLike[str] | None = None) -> str:
    """What `rankgrad.data.load` takes for a cell's data: the name, or the folder of that name in the data root."""
    if published(data) is not None:
        return data
    folder = Path(root if root is not None else os.environ.get("RANKGRAD_DATA", ".")) / data
    return str(folder if folder.is_dir() else data)


def missing(source: RecipeData, root: str | os.PathLike[str] | None = None) -> str | None:
    """Where to put a set that is not there, in a sentence; None for one that is."""
    where = place(source.name, root)
    try:
        for fold in source.folds:
            loading.check_source(where, fold=fold, root=root)
    except FileNotFoundError as error:
        return str(error)
    except ValueError:  # no name that is known, and no folder
        return f"{where} must hold train.txt and test.txt (plain, .gz or .xz); got no such folder in the data root"
    return None


def read_cell_data(
    data: str,
    *,
    binary: bool = False,
    fold: int | None = None,
    root: str | os.PathLike[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
) -> Splits:
    """A cell's data: loaded, with a validation part held out where there is none, labels made binary on demand.

    Example:
        >>> splits = read("synthetic:lists=30,features=12", binary=True)
        >>> sorted(set(splits.test.labels.tolist()))
        [0.0, 1.0]
    """
    splits = loading.load(place(data, root), fold=fold, root=root, cache=cache)
    splits = hold_out(splits, HOLDOUT)
    if not binary:
        return splits
    held = splits.validation
    return replace(splits, train=_binary(splits.train), validation=held and _binary(held), test=_binary(splits.test))


def _binary(part: Dataset) -> Dataset:
    return replace(part, labels=(part.labels > 0).astype(part.labels.dtype))
