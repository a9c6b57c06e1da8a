"""Find the folders of the data sets of a recipe, and read their lists."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rankgrad.data import Dataset, Splits, datasets, loading
from rankgrad.data.benchmarks import BenchmarkFacts
from rankgrad.data.splitting import HOLDOUT, hold_out
from rankgrad.errors import bad_value, mistyped, named_text
from rankgrad.experiments.runs.cell import data_label


@dataclass(frozen=True)
class RecipeData:
    """A data set of a recipe. It can replace settings, rankers and losses of the recipe."""

    name: str  # name of a data set, as in `rankgrad.data.load`, or name of a folder in the data root
    binary: bool = False  # True: all labels above 0 are set to 1
    folds: tuple[int | None, ...] = (None,)
    seeds: tuple[int, ...] = (0,)
    settings: Mapping[str, Any] = field(default_factory=dict)  # settings that replace settings of the recipe
    models: Mapping[str, Any] = field(
        default_factory=dict
    )  # rankers that replace the recipe's rankers of the same name
    losses: Mapping[str, Any] = field(default_factory=dict)  # losses that replace the recipe's losses of the same name

    @property
    def label(self) -> str:
        """Name that tables show for this data set of a recipe."""
        return data_label(self.name, self.binary)

    @property
    def has_texts(self) -> bool:
        """True if this data set of a recipe is a text data set."""
        return loading.is_text(self.name)


def benchmark(name: str) -> BenchmarkFacts | None:
    """Return the facts about the data set that a recipe names; None if `rankgrad.data.load` does not know the name."""
    kind = name.partition(":")[0].lower()
    return next((each for each in datasets() if kind in map(str.lower, (each.name, *each.aliases))), None)


def known_benchmark(name: str) -> BenchmarkFacts:
    """Return the facts about the data set that a recipe names; an unknown name is an error."""
    found = benchmark(name)
    if found is None:
        names = [alias for each in datasets() for alias in (each.name, *each.aliases)]
        bad_value("name", "be the name of a data set (for a folder, write {folder: NAME})", *mistyped(name, names))
    if (text := loading.text_source(name)) is not None:
        return replace(found, folds=text.parts)  # files are searched when the recipe runs
    if ":" in name:
        loading.check_source(name)
    return found


def data_location(data: str, root: str | os.PathLike[str] | None = None) -> str:
    """Return the name or path of a recipe's data set for `rankgrad.data.load`. A folder is first searched in `root`."""
    if benchmark(data) is not None:
        return data
    folder = Path(root if root is not None else os.environ.get("RANKGRAD_DATA", ".")) / data
    return str(folder if folder.is_dir() else data)


def missing_data(source: RecipeData, root: str | os.PathLike[str] | None = None) -> str | None:
    """Return a message about the missing folder or files of a recipe's data set; None if the data set exists."""
    where = data_location(source.name, root)
    try:
        for fold in source.folds:
            loading.check_source(where, fold=fold, root=root, needs_test=True)
    except FileNotFoundError as error:
        return named_text(error)
    except ValueError:  # neither a known name nor a folder
        got = "no folder of this name in the data root"
        return f"{where} must contain train.txt and test.txt (plain, .gz or .xz); got {got}"
    return None


def read_recipe_data(
    data: str,
    *,
    binary: bool = False,
    fold: int | None = None,
    root: str | os.PathLike[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
) -> Splits:
    """Load the train, validation and test lists of a data set of a recipe; data without a test part is an error.

    If the data has no validation part, some training lists become the validation part. With `binary`, all
    labels above 0 are set to 1.

    Example:
        >>> splits = read_recipe_data("synthetic:lists=30,features=12", binary=True)
        >>> sorted(set(splits.test.labels.tolist()))
        [0.0, 1.0]
    """
    where = data_location(data, root)
    loading.check_source(where, fold=fold, root=root, needs_test=True)
    splits = hold_out(loading.load(where, fold=fold, root=root, cache=cache), HOLDOUT)
    train, validation, test = splits.train, splits.validation, splits.test
    if not binary or test is None:
        return splits
    texts = train.texts  # all parts have the same collection, whose qrels are also the labels of metrics
    if texts is not None:
        qrels = {query: {each: int(y > 0) for each, y in judged.items()} for query, judged in texts.qrels.items()}
        texts = replace(texts, qrels=qrels)

    def binary_part(part: Dataset) -> Dataset:
        return replace(part, labels=(part.labels > 0).astype(part.labels.dtype), texts=texts)

    validation = None if validation is None else binary_part(validation)
    return replace(splits, train=binary_part(train), validation=validation, test=binary_part(test))
