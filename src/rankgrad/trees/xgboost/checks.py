"""Check JSON files of XGBoost before XGBoost reads them. Wrong indices could crash XGBoost.

A file must have the format of XGBoost 2 or 3 for a model with one score per document, with the booster gbtree or dart,
with numerical and categorical splits. Everything else is an error. XGBoost then reads the checked content, not the
original bytes.
"""

import json
import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.errors import bad_type, bad_value, located, one_of
from rankgrad.trees.file_checks import check_integer, check_range, reached_nodes

_MOST = 2**31 - 1
_MOST_CATEGORIES = 2**24  # XGBoost stores a set as bits
_NONE = 2**31 - 1  # parent of the root in a file of XGBoost
_OBJECTIVES = (  # with one score per document
    "reg:squarederror", "rank:ndcg", "rank:pairwise", "rank:map", "binary:logistic", "binary:logitraw", "binary:hinge",
    "reg:logistic", "reg:squaredlogerror", "reg:pseudohubererror", "reg:absoluteerror", "reg:quantileerror",
    "reg:gamma", "reg:tweedie", "count:poisson", "survival:cox",
)  # fmt: skip
_FLOATS = ("base_weights", "loss_changes", "split_conditions", "sum_hessian")
_WHOLES = ("default_left", "left_children", "right_children", "parents", "split_indices", "split_type")
_CATEGORIES = ("categories", "categories_nodes", "categories_segments", "categories_sizes")
_TYPES = ("q", "c", "float", "int", "i")  # types of features
_SCORE = re.compile(r"\[?-?\d+(\.\d+)?(E-?\d+)?\]?")


def checked_xgboost(content: bytes, features: int) -> bytes:
    """Check that the content is a model with `features` features, and return content that XGBoost can load safely."""
    try:
        model = json.loads(content)
    except RecursionError:
        bad_value("file", "be JSON of XGBoost", "JSON that is nested too deeply")
    parts = _keys("model", model, ("learner", "version"))
    learner = _keys("learner", parts["learner"], (
        "attributes", "feature_names", "feature_types", "gradient_booster", "learner_model_param", "objective",
    ))  # fmt: skip
    _texts("attributes", learner["attributes"])
    _names("feature_names", learner["feature_names"], features)
    _names("feature_types", learner["feature_types"], features)
    for kind in learner["feature_types"]:
        one_of("feature_types", kind, _TYPES)
    _learner(learner["learner_model_param"], features)
    _objective(learner["objective"])
    _booster(learner["gradient_booster"], features)
    if len(_wholes("version", parts["version"])) != 3:
        bad_value("version", "be three numbers", parts["version"])
    return json.dumps(model, ensure_ascii=False).encode()


def _learner(given: Any, features: int) -> None:
    names = ("base_score", "boost_from_average", "num_class", "num_feature", "num_target")
    values = _keys("learner_model_param", given, names, maybe=("boost_from_average", "num_target"))
    check_integer("num_class", values["num_class"], 0, 0)
    check_integer("num_feature", values["num_feature"], features, features)
    check_integer("num_target", values.get("num_target", "1"), 1, 1)
    check_integer("boost_from_average", values.get("boost_from_average", "0"), 0, 1)
    score = values["base_score"]
    if not isinstance(score, str) or not _SCORE.fullmatch(score) or not math.isfinite(float(score.strip("[]"))):
        bad_value("base_score", "be a finite number", repr(score)[:40])


def _objective(given: Any) -> None:
    values = _keys("objective", given, None)
    one_of("objective", values.get("name"), _OBJECTIVES)
    for name, value in values.items():
        if isinstance(value, dict):
            _texts(name, value)
        elif name in ("ti+", "tj-"):  # the learned position bias
            _floats(name, value)
        elif name != "name":
            bad_value("objective", "contain only keys that XGBoost writes", repr(name)[:40])


def _booster(given: Any, features: int) -> None:
    booster = _keys("gradient_booster", given, ("name", "model", "gbtree", "weight_drop"), maybe=None)
    dropped = None
    if booster.get("name") == "dart":
        booster = _keys("gradient_booster", given, ("name", "gbtree", "weight_drop"))
        dropped = _floats("weight_drop", booster["weight_drop"])
        booster = _keys("gbtree", booster["gbtree"], ("name", "model"))
    one_of("name of the booster", booster.get("name"), ("gbtree",))
    _keys("gradient_booster", booster, ("name", "model"))
    names = ("cats", "gbtree_model_param", "iteration_indptr", "tree_info", "trees")
    model = _keys("model", booster["model"], names, maybe=("cats", "iteration_indptr"))
    for name, value in _keys("cats", model.get("cats", {}), None).items():
        if value != []:
            bad_value(name, "be empty, because categories are numbers", repr(value)[:40])
    trees = model["trees"]
    if not isinstance(trees, list):
        bad_type("trees", "be a list", type(trees).__name__)
    counts = _keys("gbtree_model_param", model["gbtree_model_param"], None)
    check_integer("num_trees", counts.get("num_trees"), len(trees), len(trees))
    check_integer("num_parallel_tree", counts.get("num_parallel_tree", "1"), 1, max(1, len(trees)))
    _texts("gbtree_model_param", counts)
    check_range("tree_info", _wholes("tree_info", model["tree_info"], len(trees)), 0, 0)
    if "iteration_indptr" in model:
        rounds = _wholes("iteration_indptr", model["iteration_indptr"])
        if len(rounds) < 1 or rounds[0] != 0 or rounds[-1] != len(trees) or (np.diff(rounds) < 0).any():
            must = f"start at 0, not decrease, and end at {len(trees)}"
            bad_value("iteration_indptr", must, str(rounds[:8].tolist()))
    if dropped is not None and len(dropped) != len(trees):
        bad_value("weight_drop", f"be {len(trees)} numbers", len(dropped))
    for place, tree in enumerate(trees):
        try:
            _tree(tree, place, features)
        except (ValueError, TypeError) as error:
            raise located(error, f"tree {place}") from None


def _tree(given: Any, place: int, features: int) -> None:
    tree = _keys("tree", given, ("id", "tree_param", *_FLOATS, *_WHOLES, *_CATEGORIES))
    if tree["id"] != place or isinstance(tree["id"], bool):
        bad_value("id", f"be {place}", repr(tree["id"])[:40])
    about = _keys("tree_param", tree["tree_param"], ("num_deleted", "num_feature", "num_nodes", "size_leaf_vector"))
    nodes = check_integer("num_nodes", about["num_nodes"], 1, _MOST)
    deleted = check_integer("num_deleted", about["num_deleted"], 0, nodes - 1)
    check_integer("num_feature", about["num_feature"], features, features)
    check_integer("size_leaf_vector", about["size_leaf_vector"], 0, 1)
    for name in _FLOATS:
        _floats(name, tree[name], nodes)
    found = {name: _wholes(name, tree[name], nodes) for name in _WHOLES}
    check_range("default_left", found["default_left"], 0, 1)
    check_range("split_type", found["split_type"], 0, 1)
    _categories(tree, nodes, found["split_type"])
    left, right, parents = found["left_children"], found["right_children"], found["parents"]
    inner = left != -1
    for children in (left, right):
        check_range("children", children[inner], 1, nodes - 1)
        check_range("children of a leaf", children[~inner], -1, -1)
    reached = reached_nodes(left, right, inner) == 1
    if (~reached).sum() != deleted:
        bad_value("children", f"lead to all nodes except {deleted} deleted nodes", f"{reached.sum()} of {nodes} nodes")
    check_range("split_indices", found["split_indices"][reached], 0, features - 1)
    if inner[~reached].any():
        bad_value("deleted nodes", "have no children", "children")
    splits = np.flatnonzero(inner)
    if parents[0] != _NONE or (parents[left[splits]] != splits).any() or (parents[right[splits]] != splits).any():
        bad_value("parents", "match left_children and right_children", "different nodes")


def _categories(tree: dict[str, Any], nodes: int, kinds: NDArray[np.int64]) -> None:
    """Check the sets of categories of an XGBoost tree. Set i has `categories_sizes[i]` numbers in `categories`."""
    of_nodes = _wholes("categories_nodes", tree["categories_nodes"])
    sizes = _wholes("categories_sizes", tree["categories_sizes"], len(of_nodes))
    starts = _wholes("categories_segments", tree["categories_segments"], len(of_nodes))
    categories = _wholes("categories", tree["categories"])
    check_range("categories_nodes", of_nodes, 0, nodes - 1)
    check_range("categories_sizes", sizes, 0, len(categories))
    check_range("categories", categories, 0, _MOST_CATEGORIES)
    ends = np.cumsum(sizes)
    if (starts != ends - sizes).any() or (ends[-1] if len(ends) else 0) != len(categories):
        bad_value("categories_segments", "divide categories into consecutive sets", str(starts[:8].tolist()))
    if (np.diff(of_nodes) <= 0).any() or not np.array_equal(of_nodes, np.flatnonzero(kinds)):
        bad_value("categories_nodes", "be the nodes whose split_type is 1, in order", str(of_nodes[:8].tolist()))


def _keys(name: str, value: Any, known: tuple[str, ...] | None, maybe: tuple[str, ...] | None = ()) -> dict[str, Any]:
    """Check the keys of a JSON object in an XGBoost file, and return the object.

    If `known` is None, the object may have any keys. Keys in `maybe` may be missing. If `maybe` is None, all keys may
    be missing.
    """
    if not isinstance(value, dict):
        bad_type(name, "be a JSON object", type(value).__name__)
    if known is not None:
        for key in value:
            if key not in known:
                bad_value(name, "contain only keys that XGBoost writes", repr(key)[:40])
        for key in known if maybe is not None else ():
            if key not in value and key not in maybe:  # type: ignore[operator]
                bad_value(name, f"contain {key}", "no such key")
    return value


def _texts(name: str, value: Any) -> None:
    for key, text in _keys(name, value, None).items():
        if not isinstance(text, str):
            bad_type(f"{name}.{key}"[:60], "be text", type(text).__name__)


def _names(name: str, value: Any, features: int) -> None:
    if (
        not isinstance(value, list)
        or not all(isinstance(each, str) for each in value)
        or len(value) not in (0, features)
    ):
        bad_value(name, f"be a list of {features} texts, or an empty list", repr(value)[:40])


def _wholes(name: str, value: Any, count: int | None = None) -> NDArray[np.int64]:
    if not isinstance(value, list) or not all(type(each) in (int, bool) and abs(each) <= 2**32 for each in value):
        bad_value(name, "be a list of integers", repr(value)[:40])
    return _counted(name, np.array(value, dtype=np.int64), count)


def _floats(name: str, value: Any, count: int | None = None) -> NDArray[np.float64]:
    if not isinstance(value, list) or not all(type(each) in (int, float) and abs(each) < 4e38 for each in value):
        bad_value(name, "be a list of finite numbers", repr(value)[:40])
    return _counted(name, np.array(value, dtype=np.float64), count)


def _counted(name: str, found: NDArray[Any], count: int | None) -> NDArray[Any]:
    if count is not None and len(found) != count:
        bad_value(name, f"be {count} numbers", len(found))
    return found
