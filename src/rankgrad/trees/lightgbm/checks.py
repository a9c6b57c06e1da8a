"""Check text files of LightGBM before LightGBM reads them. Wrong lengths or indices could crash LightGBM.

A file must have the format of LightGBM 4 for a model with one score per document, with numerical or categorical
splits, and with constant or linear leaves. Everything else is an error.
"""

import re
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from rankgrad.errors import bad_value, located
from rankgrad.trees.file_checks import check_integer, check_range, reached_nodes

_MOST = 2**31 - 1
_HEADER = (
    "version", "num_class", "num_tree_per_iteration", "label_index", "max_feature_idx", "objective", "feature_names",
    "monotone_constraints", "feature_infos", "tree_sizes",
)  # fmt: skip
_OBJECTIVES = re.compile(  # with one score per document
    r"lambdarank|rank_xendcg|custom|binary sigmoid:\d+(\.\d+)?|cross_entropy(_lambda)?|"
    r"(regression|regression_l1|huber|fair|poisson|quantile|mape|gamma|tweedie)( sqrt)?"
)
_LINEAR = ("leaf_const", "num_features", "leaf_features", "leaf_coeff")
_LINES = (
    "num_leaves", "num_cat", "split_feature", "split_gain", "threshold", "decision_type", "left_child", "right_child",
    "leaf_value", "leaf_weight", "leaf_count", "internal_value", "internal_weight", "internal_count", "cat_boundaries",
    "cat_threshold", "is_linear", *_LINEAR, "shrinkage",
)  # fmt: skip
_UNUSED = {"split_gain", "leaf_weight", "internal_value", "internal_weight"}  # scores do not depend on these values
_NUMBER = r"-?\d+(\.\d*)?(e[-+]?\d+)?"
_NUMBERS = {
    infinite: re.compile(f"({each})( ({each}))*") for infinite, each in ((False, _NUMBER), (True, f"{_NUMBER}|-?inf"))
}
_WHOLES = re.compile(r"-?\d{1,10}( -?\d{1,10})*")
_INFO = re.compile(rf"none|\[({_NUMBER}|-?inf):({_NUMBER}|-?inf)\]|-?\d+(:-?\d+)*")
_TAIL = re.compile(
    r"\nfeature_importances:\n(\S+=\d+\n)*\nparameters:\n(\[\w+: .*\]\n)*\nend of parameters\n"
    r"(\npandas_categorical:(null|\[[^\n]*\])\n?)?",
    re.ASCII,
)


def check_lightgbm(text: str, features: int) -> None:
    """Check that the text is a complete model with `features` features that LightGBM can load safely."""
    head, blank, rest = text.partition("\n\n")
    body, end, tail = rest.partition("end of trees\n")
    unnamed = re.sub(r"(?m)^feature_names=.*$", "", head)  # only names of features may have other letters
    if odd := re.search(r"[^\n -~]", unnamed + body) or re.search(r"[^\n\S ]|[\x00-\x09\x0b-\x1f\x7f-\x9f]", text):
        bad_value("text", "be printable ASCII", repr(odd[0]))
    if not blank or not end:
        bad_value("file", "contain a header, trees and `end of trees`", "a truncated or different file")
    sizes = _header(head.split("\n"), features)
    if sum(sizes) != len(body):
        bad_value("tree_sizes", f"add up to {len(body)}, the size of the trees", sum(sizes))
    at = 0
    for place, size in enumerate(sizes):
        try:
            _tree(body[at : at + size], place, features)
        except ValueError as error:
            raise located(error, f"tree {place}") from None
        at += size
    if not _TAIL.fullmatch(tail):
        bad_value("text after the trees", "be importances and parameters in LightGBM's format", "different text")


def _header(lines: list[str], features: int) -> list[int]:
    """Check the header of a LightGBM file, and return the number of characters of each tree."""
    if lines[0] != "tree":
        bad_value("first line", "be 'tree'", repr(lines[0][:40]))
    values = _values((line for line in lines[1:] if line != "average_output"), _HEADER)
    if not re.fullmatch(r"v[34]", values["version"]):
        bad_value("version", "be v3 or v4", repr(values["version"][:40]))
    for name, only in (("num_class", 1), ("num_tree_per_iteration", 1), ("max_feature_idx", features - 1)):
        check_integer(name, values[name], only, only)
    check_integer("label_index", values.get("label_index", "0"), 0, _MOST)
    if not _OBJECTIVES.fullmatch(values.get("objective", "custom")):
        bad_value("objective", "be an objective with one score per document", repr(values["objective"][:40]))
    for name in ("feature_names", "feature_infos"):
        if (count := len(values[name].split(" "))) != features:
            bad_value(name, f"have {features} values", count)
    for info in values["feature_infos"].split(" "):
        if not _INFO.fullmatch(info):
            bad_value("feature_infos", "contain ranges or categories", repr(info[:40]))
    if "monotone_constraints" in values:
        check_range("monotone_constraints", _wholes(values, "monotone_constraints", features), -1, 1)
    return [check_integer("tree_sizes", size, 1, _MOST) for size in values["tree_sizes"].split(" ") if size]


def _tree(block: str, place: int, features: int) -> None:
    """Check one tree of a LightGBM file."""
    lines = block.split("\n")
    if lines[0] != f"Tree={place}" or lines[-3:] != ["", "", ""]:
        bad_value("tree", f"begin with Tree={place} and have the size from the header", repr(lines[0][:40]))
    values = _values(lines[1:-3], _LINES)
    leaves = check_integer("num_leaves", values["num_leaves"], 1, len(block))
    sets = check_integer("num_cat", values["num_cat"], 0, len(block))
    for name in ("split_gain", "internal_value", "internal_weight"):
        _numbers(values, name, leaves - 1)
    _wholes(values, "internal_count", leaves - 1)
    _numbers(values, "leaf_value", leaves)
    if leaves > 1:  # LightGBM writes no weight for a tree with one leaf
        _numbers(values, "leaf_weight", leaves)
        _wholes(values, "leaf_count", leaves)
    _numbers(values, "shrinkage", 1)
    check_range("split_feature", _wholes(values, "split_feature", leaves - 1), 0, features - 1)
    _children(_wholes(values, "left_child", leaves - 1), _wholes(values, "right_child", leaves - 1), leaves)
    kinds = _wholes(values, "decision_type", leaves - 1)
    # An infinite threshold divides the missing values from all others.
    thresholds = _numbers(values, "threshold", leaves - 1, infinite=True)
    # Bit 0: categorical; bit 1: missing values go left; bits 2 and 3: kind of missing values, 0 to 2.
    check_range("decision_type", kinds, 0, 11)
    _categories(values, sets, thresholds[kinds % 2 == 1])
    if check_integer("is_linear", values["is_linear"], 0, 1):
        _numbers(values, "leaf_const", leaves)
        counts = _wholes(values, "num_features", leaves)
        check_range("num_features", counts, 0, features)
        check_range("leaf_features", _wholes(values, "leaf_features", int(counts.sum())), 0, features - 1)
        _numbers(values, "leaf_coeff", int(counts.sum()))
    elif extra := [name for name in _LINEAR if name in values]:
        bad_value(extra[0], "occur only in trees with is_linear=1", "is_linear=0")


def _children(left: NDArray[np.int64], right: NDArray[np.int64], leaves: int) -> None:
    """Check that LightGBM reaches each split and leaf exactly once. A child i >= 0 is split i; i < 0 is leaf -1 - i."""
    for name, children in (("left_child", left), ("right_child", right)):
        check_range(name, children, -leaves, leaves - 2)
    # Number the splits first, then the leaves.
    left, right = (np.where(child < 0, leaves - 2 - child, child) for child in (left, right))
    reached = reached_nodes(left, right, np.arange(2 * leaves - 1) < leaves - 1)
    if (reached == 0).any():
        bad_value(
            "children", "lead to every split and leaf", f"{(reached == 0).sum()} splits or leaves that are not reached"
        )


def _categories(values: dict[str, str], sets: int, used: NDArray[np.float64]) -> None:
    """Check the sets of categories of a LightGBM tree, which are stored as bits.

    The threshold of a categorical split is the number of a set.
    """
    if not sets:
        if len(used) or "cat_boundaries" in values or "cat_threshold" in values:
            bad_value("num_cat", "be the number of categorical splits", 0)
        return
    bounds = _wholes(values, "cat_boundaries", sets + 1)
    if bounds[0] != 0 or (np.diff(bounds) < 0).any():
        bad_value("cat_boundaries", "start at 0 and not decrease", values["cat_boundaries"][:40])
    check_range("cat_threshold", _wholes(values, "cat_threshold", int(bounds[-1])), 0, 2**32 - 1)
    check_range("threshold of a categorical split", used, 0, sets - 1)
    if (used != np.floor(used)).any():
        bad_value("threshold of a categorical split", "be an integer", used[used != np.floor(used)][0])


class _Required(dict[str, str]):
    def __missing__(self, name: str) -> str:
        bad_value(name, "be in the file", "no such line")


def _values(lines: Iterable[str], known: tuple[str, ...]) -> dict[str, str]:
    """Return the values of lines `name=value` of a LightGBM file. The names must be LightGBM's, in the same order."""
    found, last = _Required(), -1
    for line in lines:
        name, equals, value = line.partition("=")
        place = known.index(name) if equals and name in known else -1
        if place <= last:
            bad_value("line", "be name=value with a known name, in LightGBM's order", repr(line[:40]))
        found[name], last = value, place
    return found


def _numbers(values: dict[str, str], name: str, count: int, infinite: bool = False) -> NDArray[np.float64]:
    text = " ".join(values[name].split())
    if name in _UNUSED:
        text = re.sub(r"-?(inf|nan)", "0", text)
    if text and not _NUMBERS[infinite].fullmatch(text):
        odd = next(word for word in text.split(" ") if not _NUMBERS[infinite].fullmatch(word))
        bad_value(name, "be numbers", repr(odd[:40]))
    found = np.array(text.split(), dtype=np.float64)
    if len(found) != count or not (infinite or np.isfinite(found).all()):
        bad_value(
            name, f"be {count} finite numbers", f"{len(found)} numbers, {np.isfinite(found).sum()} of them finite"
        )
    return found


def _wholes(values: dict[str, str], name: str, count: int) -> NDArray[np.int64]:
    text = " ".join(values[name].split())
    if text and not _WHOLES.fullmatch(text):
        bad_value(name, "be integers", repr(text[:40]))
    found = np.array(text.split(), dtype=np.int64)
    if len(found) != count:
        bad_value(name, f"be {count} numbers", len(found))
    return found
