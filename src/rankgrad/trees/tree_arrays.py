"""Read the trees of a LightGBM or XGBoost model as arrays with the feature, threshold and children of each node."""

import json
import math
import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrad.data.dataset import Categories
from rankgrad.errors import bad_value

TINY = np.float32(1e-35)  # LightGBM treats a value as 0 if its absolute value is at most this number
_ZERO = 1  # kind of missing values in LightGBM's files: zeros and NaN (0 means none, 2 means NaN)


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
    reader = _CategoryReader(format, features, {column: len(values) for column, values in (categories or {}).items()})
    return _lightgbm(content.decode(), reader) if framework == "lightgbm" else _xgboost(content, reader)


class _CategoryReader:
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


def _lightgbm(text: str, reader: _CategoryReader) -> Forest:
    # This is also correct for a random forest: `TreeModel.score` returns LightGBM's raw scores, which are sums.
    blocks = re.split(r"(?m)^Tree=\d+\n", text.partition("end of trees\n")[0])[1:]
    trees = [_lightgbm_tree(block, reader) for block in blocks]
    return Forest(trees, inclusive=True, base=0.0, categorical=tuple(reader.splits))


def _lightgbm_tree(block: str, reader: _CategoryReader) -> Tree:
    lines = dict(line.split("=", 1) for line in block.split("\n") if "=" in line)
    if int(lines.get("is_linear", "0")):
        must = (
            f"have only constant leaves for the format {reader.format} (model.txt in the folder of the model has them)"
        )
        bad_value("model", must, "linear leaves (linear_tree)")
    leaves = int(lines["num_leaves"])

    def splits(name: str) -> NDArray[np.float64]:
        """Return the values of all splits of a LightGBM tree, then one 0 per leaf."""
        found = np.array(lines[name].split() if leaves > 1 else [], dtype=np.float64)
        return np.concatenate([found, np.zeros(leaves)])

    def children(name: str) -> NDArray[np.int64]:
        found = splits(name).astype(np.int64)
        found = np.where(found < 0, leaves - 2 - found, found)  # in the file, leaf i has the number -1 - i
        found[leaves - 1 :] = -1
        return found

    kinds, thresholds = splits("decision_type").astype(np.int64), splits("threshold")
    feature = splits("split_feature").astype(np.int64)
    categorical = np.flatnonzero(kinds & 1)
    if len(categorical):
        bounds = np.array(lines["cat_boundaries"].split(), dtype=np.int64)
        words = np.array(lines["cat_threshold"].split(), dtype=np.uint32)
    for node in categorical:
        place = int(thresholds[node])
        bits = np.unpackbits(words[bounds[place] : bounds[place + 1]].view(np.uint8), bitorder="little")
        # Categories in the set go left. All others, also a missing category, go right.
        feature[node] = reader.add(int(feature[node]), np.flatnonzero(bits), value_inside=0, missing=1)
    thresholds[categorical] = 0.5
    missing = np.where(kinds & 1, 0, kinds >> 2)
    values = np.array(lines["leaf_value"].split(), dtype=np.float64)
    return Tree(
        feature=feature,
        threshold=rounded_down(thresholds),
        # If a feature had no missing values in training, LightGBM treats NaN as 0.
        missing_left=np.where(missing == 0, thresholds >= 0, (kinds & 2) > 0),
        zero_missing=missing == _ZERO,
        left=children("left_child"),
        right=children("right_child"),
        value=np.concatenate([np.zeros(leaves - 1), values]).astype(np.float32),
    )


def rounded_down(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Round thresholds of splits down to float32 numbers.

    The test `feature <= threshold` has the same result with the rounded threshold, for every float32 feature.

    Args:
        values: thresholds, an array of any shape.
    """
    with np.errstate(over="ignore"):
        found = values.astype(np.float32)
    return np.where(found > values, np.nextafter(found, np.float32(-np.inf)), found)


def _margin(base: float, objective: str) -> float:
    """Convert the `base_score` of XGBoost, which is a prediction of the objective, to a raw score."""
    if objective in ("binary:logistic", "reg:logistic"):
        return math.log(base / (1 - base))
    return math.log(base) if objective in ("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox") else base


def _xgboost(content: bytes, reader: _CategoryReader) -> Forest:
    learner = json.loads(content)["learner"]
    booster = learner["gradient_booster"]
    weights = booster.get("weight_drop")  # weights of the trees, if the booster is dart
    if booster["name"] not in ("gbtree", "dart"):
        bad_value("model", f"have the booster gbtree or dart for the format {reader.format}", repr(booster["name"]))
    booster = booster.get("gbtree", booster)
    base = _margin(float(learner["learner_model_param"]["base_score"].strip("[]")), learner["objective"]["name"])
    trees = []
    for place, tree in enumerate(booster["model"]["trees"]):
        left = np.array(tree["left_children"], dtype=np.int64)
        leaf, numbers = left == -1, np.array(tree["split_conditions"], dtype=np.float32)
        feature = np.where(leaf, 0, np.array(tree["split_indices"], dtype=np.int64))
        for at, node in enumerate(tree["categories_nodes"]):
            begin = tree["categories_segments"][at]
            inside = np.array(tree["categories"][begin : begin + tree["categories_sizes"][at]], dtype=np.int64)
            feature[node] = reader.add(int(feature[node]), inside, value_inside=1, missing=np.nan)
            numbers[node] = 0.5
        value = np.where(leaf, numbers, np.float32(0)) * np.float32(1 if weights is None else weights[place])
        arrays = Tree(
            feature,
            np.where(leaf, np.float32(0), numbers),
            np.array(tree["default_left"], dtype=np.bool_),
            np.zeros(len(left), dtype=np.bool_),
            left,
            np.array(tree["right_children"], dtype=np.int64),
            value,
        )
        trees.append(arrays)
    return Forest(trees, inclusive=False, base=base, categorical=tuple(reader.splits))
