"""Read the trees of a LightGBM or XGBoost model as arrays: which feature, which threshold, where to next."""

import json
import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrad.errors import bad_value

_ZERO = 1  # of 0 to 2, what LightGBM takes as missing: nothing, zeros and NaN, NaN
_ELSE = "the framework's own file, model.txt or model.json in the folder of the model, holds everything"


class Tree(NamedTuple):
    """A tree over float32 features; node 0 is its root. Arrays are `(nodes,)`."""

    feature: NDArray[np.int64]  # of a split; 0 in a leaf
    threshold: NDArray[np.float32]  # of a split; 0 in a leaf
    missing_left: NDArray[np.bool_]  # where NaN goes
    zero_missing: NDArray[np.bool_]  # whether 0 goes where NaN goes
    left: NDArray[np.int64]  # -1 in a leaf
    right: NDArray[np.int64]
    value: NDArray[np.float32]  # of a leaf; 0 in a split


class Forest(NamedTuple):
    """Trees whose leaves' values are added up."""

    trees: list[Tree]
    inclusive: bool  # whether a value that equals the threshold goes left
    base: float  # added to the sum


def read_splits(content: bytes, framework: str) -> Forest:
    """Read all trees; a split or leaf that is not one number against another is an error.

    Args:
        content: of the model's file.
        framework: that wrote it.
    """
    return _lightgbm(content.decode()) if framework == "lightgbm" else _xgboost(content)


def _lightgbm(text: str) -> Forest:
    # A random forest is no exception: `TreeModel.score` gives LightGBM's raw scores, which are sums.
    blocks = re.split(r"(?m)^Tree=\d+\n", text.partition("end of trees\n")[0])[1:]
    return Forest([_lightgbm_tree(block) for block in blocks], inclusive=True, base=0.0)


def _lightgbm_tree(block: str) -> Tree:
    lines = dict(line.split("=", 1) for line in block.split("\n") if "=" in line)
    if int(lines["num_cat"]):
        bad_value("model", f"have numerical splits only, for ONNX; {_ELSE}", "categorical splits")
    if int(lines.get("is_linear", "0")):
        bad_value("model", f"have constant leaves, for ONNX; {_ELSE}", "linear ones (linear_tree)")
    leaves = int(lines["num_leaves"])

    def splits(name: str) -> NDArray[np.float64]:
        """What the file says of each split, and 0 for the leaves, which come after them here."""
        found = np.array(lines[name].split() if leaves > 1 else [], dtype=np.float64)
        return np.concatenate([found, np.zeros(leaves)])

    def children(name: str) -> NDArray[np.int64]:
        found = splits(name).astype(np.int64)
        found = np.where(found < 0, leaves - 2 - found, found)  # leaf i is -1 - i there
        found[leaves - 1 :] = -1
        return found

    kinds, thresholds = splits("decision_type").astype(np.int64), splits("threshold")
    missing = kinds >> 2
    values = np.array(lines["leaf_value"].split(), dtype=np.float64)
    return Tree(
        feature=splits("split_feature").astype(np.int64),
        threshold=below(thresholds),
        # Where nothing is missing, NaN stands for 0.
        missing_left=np.where(missing == 0, thresholds >= 0, (kinds & 2) > 0),
        zero_missing=missing == _ZERO,
        left=children("left_child"),
        right=children("right_child"),
        value=np.concatenate([np.zeros(leaves - 1), values]).astype(np.float32),
    )


def below(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """The largest float32 that is not above each value: a float32 is at most the one where it is at most the other.

    Args:
        values: of any shape.
    """
    with np.errstate(over="ignore"):
        found = values.astype(np.float32)
    return np.where(found > values, np.nextafter(found, np.float32(-np.inf)), found)


def _xgboost(content: bytes) -> Forest:
    learner = json.loads(content)["learner"]
    booster = learner["gradient_booster"]
    weights = booster.get("weight_drop")  # of dart
    if booster["name"] not in ("gbtree", "dart"):
        bad_value("model", f"be of boosted trees, for ONNX; {_ELSE}", repr(booster["name"]))
    booster = booster.get("gbtree", booster)
    base = float(learner["learner_model_param"]["base_score"].strip("[]"))
    trees = []
    for place, told in enumerate(booster["model"]["trees"]):
        if told["categories"]:
            bad_value("model", f"have numerical splits only, for ONNX; {_ELSE}", "categorical splits")
        left = np.array(told["left_children"], dtype=np.int64)
        leaf, numbers = left == -1, np.array(told["split_conditions"], dtype=np.float32)
        value = np.where(leaf, numbers, np.float32(0)) * np.float32(1 if weights is None else weights[place])
        tree = Tree(
            np.where(leaf, 0, np.array(told["split_indices"], dtype=np.int64)),
            np.where(leaf, np.float32(0), numbers),
            np.array(told["default_left"], dtype=np.bool_),
            np.zeros(len(left), dtype=np.bool_),
            left,
            np.array(told["right_children"], dtype=np.int64),
            value,
        )
        trees.append(tree)
    return Forest(trees, inclusive=False, base=base)
