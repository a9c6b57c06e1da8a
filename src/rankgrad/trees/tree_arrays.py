"""Read the trees of a LightGBM or XGBoost model as arrays with the feature, threshold and children of each node."""

import json
import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrad.errors import bad_value

TINY = np.float32(1e-35)  # LightGBM treats a value as 0 if its absolute value is at most this number
_ZERO = 1  # kind of missing values in LightGBM's files: zeros and NaN (0 means none, 2 means NaN)
_OTHER = "(model.txt or model.json in the folder of the model has all"


class Tree(NamedTuple):
    """A tree for float32 features. Node 0 is the root. All arrays have the shape `(nodes,)`."""

    feature: NDArray[np.int64]  # feature of a split; 0 in a leaf
    threshold: NDArray[np.float32]  # threshold of a split; 0 in a leaf
    missing_left: NDArray[np.bool_]  # True: NaN goes left
    zero_missing: NDArray[np.bool_]  # True: 0 goes to the same side as NaN
    left: NDArray[np.int64]  # left child; -1 in a leaf
    right: NDArray[np.int64]  # right child; -1 in a leaf
    value: NDArray[np.float32]  # value of a leaf; 0 in a split


class Forest(NamedTuple):
    """The trees of a model. A score is `base` plus the sum of the leaf values over all trees."""

    trees: list[Tree]
    inclusive: bool  # True: a value that equals the threshold goes left
    base: float  # constant part of a score


def read_splits(content: bytes, framework: str, format: str = "ONNX") -> Forest:
    """Read all trees of a model file as arrays. It is an error if a split is categorical or a leaf is linear.

    Args:
        content: content of the model's file.
        framework: framework of the model.
        format: format of the exported file, for the error.
    """
    return _lightgbm(content.decode(), format) if framework == "lightgbm" else _xgboost(content, format)


def _lightgbm(text: str, format: str) -> Forest:
    # This is also correct for a random forest: `TreeModel.score` returns LightGBM's raw scores, which are sums.
    blocks = re.split(r"(?m)^Tree=\d+\n", text.partition("end of trees\n")[0])[1:]
    return Forest([_lightgbm_tree(block, format) for block in blocks], inclusive=True, base=0.0)


def _lightgbm_tree(block: str, format: str) -> Tree:
    lines = dict(line.split("=", 1) for line in block.split("\n") if "=" in line)
    if int(lines["num_cat"]):
        bad_value(
            "model", f"have only numerical splits for an export to {format} {_OTHER} splits)", "categorical splits"
        )
    if int(lines.get("is_linear", "0")):
        bad_value(
            "model",
            f"have only constant leaves for an export to {format} {_OTHER} leaves)",
            "linear leaves (linear_tree)",
        )
    leaves = int(lines["num_leaves"])

    def splits(name: str) -> NDArray[np.float64]:
        """Return the values of all splits, then one 0 per leaf."""
        found = np.array(lines[name].split() if leaves > 1 else [], dtype=np.float64)
        return np.concatenate([found, np.zeros(leaves)])

    def children(name: str) -> NDArray[np.int64]:
        found = splits(name).astype(np.int64)
        found = np.where(found < 0, leaves - 2 - found, found)  # in the file, leaf i has the number -1 - i
        found[leaves - 1 :] = -1
        return found

    kinds, thresholds = splits("decision_type").astype(np.int64), splits("threshold")
    missing = kinds >> 2
    values = np.array(lines["leaf_value"].split(), dtype=np.float64)
    return Tree(
        feature=splits("split_feature").astype(np.int64),
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

    A float32 feature is at most the rounded threshold if and only if the feature is at most the original threshold.

    Args:
        values: thresholds, an array of any shape.
    """
    with np.errstate(over="ignore"):
        found = values.astype(np.float32)
    return np.where(found > values, np.nextafter(found, np.float32(-np.inf)), found)


def _xgboost(content: bytes, format: str) -> Forest:
    learner = json.loads(content)["learner"]
    booster = learner["gradient_booster"]
    weights = booster.get("weight_drop")  # weights of the trees, if the booster is dart
    if booster["name"] not in ("gbtree", "dart"):
        bad_value("model", f"have the booster gbtree or dart for an export to {format}", repr(booster["name"]))
    booster = booster.get("gbtree", booster)
    base = float(learner["learner_model_param"]["base_score"].strip("[]"))
    trees = []
    for place, tree in enumerate(booster["model"]["trees"]):
        if tree["categories"]:
            bad_value(
                "model", f"have only numerical splits for an export to {format} {_OTHER} splits)", "categorical splits"
            )
        left = np.array(tree["left_children"], dtype=np.int64)
        leaf, numbers = left == -1, np.array(tree["split_conditions"], dtype=np.float32)
        value = np.where(leaf, numbers, np.float32(0)) * np.float32(1 if weights is None else weights[place])
        arrays = Tree(
            np.where(leaf, 0, np.array(tree["split_indices"], dtype=np.int64)),
            np.where(leaf, np.float32(0), numbers),
            np.array(tree["default_left"], dtype=np.bool_),
            np.zeros(len(left), dtype=np.bool_),
            left,
            np.array(tree["right_children"], dtype=np.int64),
            value,
        )
        trees.append(arrays)
    return Forest(trees, inclusive=False, base=base)
