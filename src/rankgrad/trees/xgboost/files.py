"""Read and join models in the format of XGBoost."""

import json
import math
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from rankgrad.data.categories import texts_of
from rankgrad.data.dataset import Categories
from rankgrad.errors import bad_value
from rankgrad.trees.foreign_models import ForeignModel, checked_booster
from rankgrad.trees.tree_arrays import CategoryReader, Forest, Tree


def joined(contents: Sequence[bytes]) -> bytes:
    """Join the JSON files of XGBoost models with the same features. Only the trees of later models are used.

    Args:
        contents: one or more model files of XGBoost with the booster gbtree.
    """
    if len(contents) == 1:
        return contents[0]
    first, *others = (json.loads(content) for content in contents)
    known = first["learner"]["gradient_booster"]["model"]
    for other in others:
        more, before = other["learner"]["gradient_booster"]["model"], len(known["trees"])
        known["trees"] += [{**tree, "id": before + place} for place, tree in enumerate(more["trees"])]
        known["tree_info"] += more["tree_info"]
        known["iteration_indptr"] += [before + end for end in more["iteration_indptr"][1:]]
    known["gbtree_model_param"]["num_trees"] = str(len(known["trees"]))
    return json.dumps(first, ensure_ascii=False).encode()


def _margin(base: float, objective: str) -> float:
    """Convert the `base_score` of XGBoost, which is a prediction of the objective, to a raw score."""
    if objective in ("binary:logistic", "reg:logistic"):
        return math.log(base / (1 - base))
    return math.log(base) if objective in ("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox") else base


def xgboost_trees(content: bytes, reader: CategoryReader) -> Forest:
    """Return the trees of a file of XGBoost; see `TreeFramework.read_trees`."""
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


def read_xgboost(
    source: Any, name: str, content: bytes, names: Sequence[str] | None, categorical: Sequence[Any] | None
) -> ForeignModel:
    """Check and read a model of XGBoost; see `TreeFramework.read_foreign`."""
    of_estimator = hasattr(source, "get_booster")
    zero_missing = of_estimator and _zero_missing(source)
    found = re.search(rb'"num_feature"\s*:\s*"(\d{1,9})"', content)
    width = int(found[1]) if found else 1
    content, values = _without_categories(content, name, width)
    booster = checked_booster(name, content, "xgboost", width, names)
    if categorical is not None:
        bad_value("categorical", "be None for a model of XGBoost, which contains the categories", categorical)
    # The estimator predicts with the best number of trees, the booster with all trees.
    best = booster.attr("best_iteration") if of_estimator or booster.attr("scikit_learn") else None
    if best is not None and best.isdecimal() and int(best) + 1 < booster.num_boosted_rounds():
        booster = booster[: int(best) + 1]
    return ForeignModel(booster, "xgboost", values, zero_missing)


def _zero_missing(estimator: Any) -> bool:
    """Return True if an estimator of XGBoost has 0 as the missing value."""
    missing = getattr(estimator, "missing", math.nan)
    if missing is not None and not math.isnan(missing) and missing != 0:
        must = f"be NaN or 0 (replace {missing} in the features by NaN, and give estimator.get_booster())"
        bad_value("missing of the estimator", must, missing)
    return missing == 0


def _without_categories(content: bytes, name: str, features: int) -> tuple[bytes, Categories | None]:
    """Take the categories of a data frame out of a file of XGBoost, and return the new content and the categories."""
    if b'"enc"' not in content:
        return content, None
    try:
        model = json.loads(content)
        booster = model["learner"]["gradient_booster"]
        trees = booster.get("gbtree", booster)["model"]
        columns = [_values_of(column) for column in trees["cats"]["enc"]]
        if len(columns) not in (0, features):
            bad_value("enc", f"have {features} columns", len(columns))
        found = {place: texts_of(values, f"feature {place + 1}") for place, values in enumerate(columns) if values}
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
        raise ValueError(f"{name} must be a valid model of xgboost; got the error: {error}"[:300]) from error
    if not found:
        return content, None
    trees["cats"] = {name: [] for name in trees["cats"]}
    return json.dumps(model, ensure_ascii=False).encode(), found


def _values_of(column: dict[str, Any]) -> list[Any]:
    """Return the categories of one column in a file of XGBoost: numbers, or texts that are joined to one text."""
    if "offsets" not in column:
        return list(column["values"])
    joined, ends = bytes(byte % 256 for byte in column["values"]), column["offsets"]
    if not joined.isascii():  # XGBoost 3 cuts the texts of a pandas column at a number of characters, not of bytes
        raise ValueError("categories of a data frame with letters outside ASCII, which XGBoost stores incompletely")
    return [joined[start:end].decode() for start, end in pairwise(ends)]
