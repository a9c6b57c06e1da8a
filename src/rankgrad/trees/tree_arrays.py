"""Read the trees of a model as arrays with the feature, threshold and children of each node."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrad.data.dataset import Categories
from rankgrad.errors import bad_value
from rankgrad.trees.frameworks import framework_named

TINY = np.float32(1e-35)  # LightGBM treats a value as 0 if its absolute value is at most this number


class Tree(NamedTuple):
    """A tree for float32 features. Node 0 is the root. All arrays have the shape `(nodes,)`."""

    feature: NDArray[np.int64]  # feature of a split; 0 in a leaf
    threshold: NDArray[np.float32]  # threshold of a split; 0 in a leaf
    missing_left: NDArray[np.bool_]  # True: NaN goes left
    zero_missing: NDArray[np.bool_]  # True: 0 goes to the same side as NaN
    left: NDArray[np.int64]  # left child; -1 in a leaf
    right: NDArray[np.int64]  # right child; -1 in a leaf
    value: NDArray[np.float32]  # value of a leaf; 0 in a split


class CategorySplit(NamedTuple):
    """A categorical split. In the tree, it is a split on an additional feature: 0 goes left, and 1 goes right.

    The additional features come after the features of the model, in the order of `Forest.categorical`.
    """

    feature: int  # categorical feature
    right: NDArray[
        np.float32
    ]  # (categories + 1,), value of the additional feature per category; the last value is for a missing category


class Forest(NamedTuple):
    """The trees of a model. A score is `base` plus the sum of the leaf values over all trees."""

    trees: list[Tree]
    inclusive: bool  # True: a value that equals the threshold goes left
    base: float  # constant part of a score
    categorical: tuple[CategorySplit, ...] = ()  # all categorical splits of all trees
    missing: bool = True  # False: there were no missing values in training, so the rules for them have no meaning


def read_splits(
    content: bytes, framework: str, format: str, features: int = 0, categories: Categories | None = None
) -> Forest:
    """Read all trees of a model file as arrays. It is an error if a leaf is linear.

    Args:
        content: content of the model's file.
        framework: framework of the model.
        format: format of the export, for error messages.
        features: number of features, if there are categorical features.
        categories: categories of the model, by column; with None, a categorical split is an error.
    """
    reader = CategoryReader(format, features, {column: len(values) for column, values in (categories or {}).items()})
    return framework_named(framework).read_trees(content, reader)


class CategoryReader:
    """Collects the categorical splits of a model, and numbers their additional features."""

    def __init__(self, format: str, features: int, counts: Mapping[int, int]) -> None:
        self.format, self.features, self.counts = format, features, counts
        self.splits: list[CategorySplit] = []

    def add(self, feature: int, inside: NDArray[np.int64], value_inside: float, missing: float) -> int:
        """Add a categorical split, and return the number of its additional feature.

        Args:
            feature: categorical feature.
            inside: categories in the set of the split.
            value_inside: 0 if these categories go left, 1 if they go right.
            missing: value for a missing category: 0, 1 or NaN.
        """
        if feature not in self.counts:
            instead = "before training, replace a category by a number, such as its mean label, or remove the feature"
            must = f"have only numerical splits for the format {self.format} ({instead})"
            bad_value("model", must, f"a split of the categorical column {feature}")
        values = np.full(self.counts[feature] + 1, 1 - value_inside, dtype=np.float32)
        values[inside[inside < self.counts[feature]]] = value_inside
        values[-1] = missing
        self.splits.append(CategorySplit(feature, values))
        return self.features + len(self.splits) - 1


def rounded_down(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Round thresholds of splits down to float32 numbers.

    The test `feature <= threshold` has the same result with the rounded threshold, for every float32 feature.

    Args:
        values: thresholds, an array of any shape.
    """
    with np.errstate(over="ignore"):
        found = values.astype(np.float32)
    return np.where(found > values, np.nextafter(found, np.float32(-np.inf)), found)
