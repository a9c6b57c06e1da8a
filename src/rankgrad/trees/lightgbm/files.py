"""Read, join and write models in the formats of LightGBM."""

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.data.categories import column_numbers, texts_of
from rankgrad.data.dataset import Categories
from rankgrad.errors import bad_value, warn_caller
from rankgrad.trees.engine_files import below, number_of
from rankgrad.trees.engine_scores import Branch
from rankgrad.trees.foreign_models import ForeignModel, checked_booster
from rankgrad.trees.tree_arrays import CategoryReader, Forest, Tree, rounded_down

_EXACT = 2**24  # float32 has all integers up to this number
_MOST_INTEGERS = 2**16  # largest number of integer categories of a column that are listed
_ZERO = 1  # kind of missing values in a file: zeros and NaN (0 means none, 2 means NaN)


def joined(texts: Sequence[str]) -> str:
    """Join the texts of LightGBM models with the same features. Header and parameters are from the first model.

    Args:
        texts: one or more model texts of LightGBM.
    """
    if len(texts) == 1:
        return texts[0]
    head, _, rest = texts[0].partition("\n\n")
    tail = rest.partition("end of trees\n")[2]
    trees = [tree for text in texts for tree in tree_texts(text)]
    blocks = [f"Tree={place}\n{tree}" for place, tree in enumerate(trees)]
    head = re.sub(r"(?m)^tree_sizes=.*$", f"tree_sizes={' '.join(str(len(block)) for block in blocks)}", head)
    return f"{head}\n\n{''.join(blocks)}end of trees\n{tail}"


def tree_texts(text: str) -> list[str]:
    """Return the text of each tree in a file of LightGBM."""
    return re.split(r"(?m)^Tree=\d+\n", text.partition("end of trees\n")[0])[1:]


def lightgbm_trees(content: bytes, reader: CategoryReader) -> Forest:
    """Return the trees of a file of LightGBM; see `TreeFramework.read_trees`."""
    # This is also correct for a random forest: `TreeModel.score` returns LightGBM's raw scores, which are sums.
    blocks = tree_texts(content.decode())
    trees = [_tree(block, reader) for block in blocks]
    return Forest(trees, inclusive=True, base=0.0, categorical=tuple(reader.splits))


def _tree(block: str, reader: CategoryReader) -> Tree:
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


def read_lightgbm(
    source: Any, name: str, content: bytes, names: Sequence[str] | None, categorical: Sequence[Any] | None
) -> ForeignModel:
    """Check and read a model of LightGBM; see `TreeFramework.read_foreign`."""
    found = re.search(rb"(?m)^max_feature_idx=(\d{1,9})$", content)
    width = int(found[1]) + 1 if found else 1
    booster = checked_booster(name, content, "lightgbm", width, names)
    _warn_of_large_values(booster)
    known = booster.feature_name() if names is None else [*map(str, names)]
    return ForeignModel(booster, "lightgbm", _categories(booster, known, categorical), False)


def _categories(booster: Any, names: list[str], categorical: Sequence[Any] | None) -> Categories | None:
    """Return the categories of each categorical column of a booster of LightGBM; None without categorical columns.

    The file contains the categories of each column of a pandas frame, but not which columns these are. Usually they are
    the columns with categorical splits. A column of ordered categories has numerical splits, and one with a single
    value has none. Without a pandas frame, the categories are integers from 0.
    """
    values, infos = booster.pandas_categorical or [], _feature_infos(booster)
    columns = split = [place for place, info in enumerate(infos) if info != "none" and not info.startswith("[")]
    if not values:
        columns = []
        if categorical is not None:
            bad_value("categorical", "be None for a booster without categories of a data frame", categorical)
    elif categorical is not None:
        columns = column_numbers(categorical, names, len(names))
    if len(columns) != len(values) or not all(map(_fits, (infos[column] for column in columns), values)):
        must = f"name the {len(values)} columns that were categorical in the data frame of the training"
        must += (
            " (the model does not tell which they are: TreeRanker.from_booster takes their names, and saves a folder)"
        )
        bad_value("categorical", must, [names[column] for column in columns])
    found = {column: texts_of(each, names[column]) for column, each in zip(columns, values, strict=True)}
    for column in split:
        most = max(map(int, infos[column].split(":")))
        if column not in found and most < _MOST_INTEGERS:
            found[column] = tuple(map(str, range(most + 1)))
    return found or None


def _fits(info: str, values: Sequence[Any]) -> bool:
    """Return True if a feature with this information can be a column with these categories."""
    codes = [] if info == "none" else [float(code) for code in info.strip("[]").split(":")]
    return all(-1 <= code < len(values) for code in codes)


def _feature_infos(booster: Any) -> list[str]:
    """Return LightGBM's text about the values of each feature: `[low:high]`, the categories `0:3:1`, or `none`."""
    text = booster.model_to_string(num_iteration=1)
    return str(text.partition("\nfeature_infos=")[2].partition("\n")[0]).split(" ")


def _warn_of_large_values(booster: Any) -> None:
    """Warn if a feature of a LightGBM model has values that are different in float64, but may be equal in float32."""
    used = booster.feature_importance("split") > 0
    for name, info, count in zip(booster.feature_name(), _feature_infos(booster), used, strict=True):
        if count and info.startswith("["):
            largest = max(abs(float(end)) for end in info.strip("[]").split(":"))
            if _EXACT < largest < math.inf:
                warn_caller(
                    f"feature {name!r} has values up to {largest:.3g}: rankgrad rounds features to float32, so scores "
                    "can differ from LightGBM's (train on a smaller number, such as days before the newest date)"
                )


def lightgbm_json(forest: Forest, names: Sequence[str]) -> dict[str, Any]:
    """Return the parts of LightGBM's `dump_model` that Vespa reads. Vespa tests `x < threshold`, not `<=`."""

    def node(tree: Tree, limits: NDArray[np.float32], place: int) -> dict[str, Any]:
        if tree.left[place] == -1:
            return {"leaf_value": number_of(tree.value[place])}
        return {
            "split_feature": int(tree.feature[place]),
            "threshold": number_of(limits[place]),
            "decision_type": "<=",
            "default_left": bool(tree.missing_left[place]),
            "missing_type": "NaN",
            "left_child": node(tree, limits, int(tree.left[place])),
            "right_child": node(tree, limits, int(tree.right[place])),
        }

    structures = [node(tree, below(tree, forest.inclusive), 0) for tree in forest.trees]
    trees = [{"tree_index": place, "tree_structure": made} for place, made in enumerate(structures)]
    # Vespa transforms the scores of objectives such as binary; the scores of a model are not transformed.
    return {"objective": "custom", "feature_names": [*names], "tree_info": trees, "pandas_categorical": []}


def from_lightgbm(trees: dict[str, Any], places: dict[str, int]) -> list[Branch | float]:
    """Return the trees in a file for Vespa, in which the features are numbers."""
    return [_branch(tree["tree_structure"]) for tree in trees["tree_info"]]


def _branch(node: dict[str, Any]) -> Branch | float:
    if "leaf_value" in node:
        return float(node["leaf_value"])
    left, right = _branch(node["left_child"]), _branch(node["right_child"])
    return Branch(node["split_feature"], np.float32(node["threshold"]), False, node["default_left"], left, right)
