"""Write trees in the formats of search engines: Elasticsearch and OpenSearch LTR, RankLib, Solr LTR and Vespa.

Some engines test `feature < threshold`, others test `feature <= threshold`. Each writer adapts the thresholds to the
engine. Then every float32 feature takes the same branch as in the model.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.errors import bad_value
from rankgrad.trees.frameworks import framework_named
from rankgrad.trees.tree_arrays import TINY, Forest, Tree

FORMATS = ("elasticsearch", "ranklib", "solr", "vespa")
DEPTH = 300  # largest number of levels of a tree; the JSON parsers of the engines read at most 1,000 levels of brackets
SLACK = np.float32(1e-6)  # Solr adds this number to each threshold when it reads a model
_LARGEST = np.finfo(np.float32).max
# Vespa copies names into an expression, so a name may contain operators only between brackets.
_VESPA_NAME = re.compile(r"[A-Za-z_]\w*(\(([^()]|\([^()]*\))*\))?(\.\w+)*", re.ASCII)


def write_trees(forest: Forest, format: str, framework: str, names: Sequence[str], name: str) -> bytes:
    """Return the content of a file for a search engine.

    Args:
        forest: trees of the model.
        format: a name in `FORMATS`.
        framework: name of the framework; a file for Vespa has the JSON format of this framework.
        names: names of the features in the engine.
        name: name of the model in the engine.
    """
    _check(forest, format)
    if format == "vespa":
        _check_vespa_names(forest, names)
    if format == "elasticsearch":
        definition = json.dumps(xgboost_json(forest, names))
        return _text({"model": {"name": name, "model": {"type": "model/xgboost+json", "definition": definition}}})
    if format == "ranklib":
        return _ranklib(forest)
    if format == "solr":
        return _text(_solr(forest, names, name))
    return _text(framework_named(framework).dump(forest, names))


def has_missing_branch(forest: Forest) -> bool:
    """Return True if replacing missing values by 0 changes the scores.

    If the model was trained without missing values, return False.

    Args:
        forest: trees of a model.
    """
    return forest.missing and _missing_splits(forest) > 0


def _missing_splits(forest: Forest) -> int:
    """Return the number of splits that send a missing value and 0 to different sides."""
    pairs = ((tree, _zero_left(tree, forest.inclusive)) for tree in forest.trees)
    return sum(int(((tree.left != -1) & (tree.missing_left != zero_left)).sum()) for tree, zero_left in pairs)


def _zero_left(tree: Tree, inclusive: bool) -> NDArray[np.bool_]:
    return tree.threshold >= 0 if inclusive else tree.threshold > 0


def _check(forest: Forest, format: str) -> None:
    odd = sum(int((tree.zero_missing & (tree.left != -1) & (tree.missing_left != _zero_left(tree, True))).sum())
              for tree in forest.trees)  # fmt: skip
    if odd:
        bad_value(
            "model",
            f"not treat 0 as a missing value for the format {format}",
            f"{odd} splits that treat 0 as missing (zero_as_missing)",
        )
    if format == "ranklib" and has_missing_branch(forest):
        bad_value(
            "model",
            "be trained without missing values for the format ranklib, which reads a missing value as 0",
            f"{_missing_splits(forest)} splits that send a missing value and 0 to different sides",
        )
    if (levels := max(map(_levels, forest.trees), default=0)) > DEPTH:
        bad_value("model", f"have trees with at most {DEPTH} levels for the format {format}", f"{levels} levels")


def _levels(tree: Tree) -> int:
    here, levels = np.flatnonzero(tree.left[:1] != -1), 0
    while len(here):
        below = np.concatenate([tree.left[here], tree.right[here]])
        here, levels = below[tree.left[below] != -1], levels + 1
    return levels


def _check_vespa_names(forest: Forest, names: Sequence[str]) -> None:
    used = {names[place] for tree in forest.trees for place in tree.feature[tree.left != -1]}
    for name in sorted(used):
        if not _VESPA_NAME.fullmatch(name):
            must = "be rank features or functions of Vespa, such as bm25(title) or feature_1, for the format vespa"
            bad_value("feature_names", must, repr(name))


def _at_most(tree: Tree, inclusive: bool) -> NDArray[np.float32]:
    """Return thresholds t for a search engine whose test is `x <= t`."""
    found = tree.threshold
    if not inclusive:
        return _next(found, -np.inf)
    # LightGBM treats numbers from -TINY to TINY as 0, so no threshold may separate them.
    near = np.where(found < 0, np.nextafter(-TINY, np.float32(-np.inf)), TINY)
    return _finite(np.where(np.abs(found) <= TINY, near, found))


def below(tree: Tree, inclusive: bool) -> NDArray[np.float32]:
    """Return thresholds t for a search engine whose test is `x < t`.

    Args:
        tree: tree of a model.
        inclusive: True if the test of the model is `x <= t`.
    """
    if not inclusive:
        return _finite(tree.threshold)
    return _next(_at_most(tree, inclusive), np.inf)


def _next(thresholds: NDArray[np.float32], side: float) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        return _finite(np.nextafter(thresholds, np.float32(side)))


def _finite(thresholds: NDArray[np.float32]) -> NDArray[np.float32]:
    """Replace infinite thresholds of splits by finite numbers, because JSON has no infinity.

    An infinite threshold separates missing values from all numbers.
    """
    return np.clip(thresholds, -_LARGEST, _LARGEST)


def number_of(value: Any) -> float:
    """Return a number of a tree for JSON.

    Args:
        value: float32 number.
    """
    return float(value)  # the decimal digits of the float64 number are exact for engines of both precisions


def _text(made: Any) -> bytes:
    return (json.dumps(made, indent=1) + "\n").encode()


def xgboost_json(forest: Forest, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the trees in the JSON format of XGBoost's `dump_model`. The base score is an additional tree.

    Args:
        forest: trees of the model.
        names: names of the features in the engine.
    """

    def node(tree: Tree, limits: NDArray[np.float32], place: int, depth: int) -> dict[str, Any]:
        if tree.left[place] == -1:
            return {"nodeid": place, "leaf": number_of(tree.value[place])}
        left, right = int(tree.left[place]), int(tree.right[place])
        return {
            "nodeid": place,
            "depth": depth,
            "split": names[tree.feature[place]],
            "split_condition": number_of(limits[place]),
            "yes": left,
            "no": right,
            "missing": left if tree.missing_left[place] else right,
            "children": [node(tree, limits, left, depth + 1), node(tree, limits, right, depth + 1)],
        }

    made = [node(tree, below(tree, forest.inclusive), 0, 0) for tree in forest.trees]
    return made + ([{"nodeid": 0, "leaf": forest.base}] if forest.base else [])


def _ranklib(forest: Forest) -> bytes:
    """Return the trees in RankLib's format for LambdaMART models. The first feature has the number 1."""
    count = len(forest.trees) + bool(forest.base)
    lines = ["## LambdaMART", f"## No. of trees = {count}", "", "<ensemble>"]

    def add(tree: Tree, limits: NDArray[np.float32], place: int, indent: str, position: str) -> None:
        lines.append(f"{indent}<split{position}>")
        if tree.left[place] == -1:
            lines.append(f"{indent}\t<output> {number_of(tree.value[place])} </output>")
        else:
            lines.append(f"{indent}\t<feature> {tree.feature[place] + 1} </feature>")
            lines.append(f"{indent}\t<threshold> {number_of(limits[place])} </threshold>")
            add(tree, limits, int(tree.left[place]), indent + "\t", ' pos="left"')
            add(tree, limits, int(tree.right[place]), indent + "\t", ' pos="right"')
        lines.append(f"{indent}</split>")

    for number, tree in enumerate(forest.trees):
        lines.append(f'\t<tree id="{number + 1}" weight="1.0">')
        add(tree, _at_most(tree, forest.inclusive), 0, "\t\t", "")
        lines.append("\t</tree>")
    if forest.base:
        lines += [f'\t<tree id="{count}" weight="1.0">', "\t\t<split>", f"\t\t\t<output> {forest.base} </output>"]
        lines += ["\t\t</split>", "\t</tree>"]
    return ("\n".join([*lines, "</ensemble>"]) + "\n").encode()


def _solr(forest: Forest, names: Sequence[str], name: str) -> dict[str, Any]:
    """Return a `MultipleAdditiveTreesModel`. Solr tests `x <= threshold + 1e-6` in float32.

    If no threshold in the file gives the necessary sum, a `StandardNormalizer` multiplies the feature by a power of 2.
    """
    missing = has_missing_branch(forest)
    limits = [_at_most(tree, forest.inclusive) for tree in forest.trees]
    scales = [_solr_scale(names[place], _of_feature(forest, limits, place)) for place in range(len(names))]

    def node(tree: Tree, limits: NDArray[np.float32], place: int) -> dict[str, Any]:
        if tree.left[place] == -1:
            return {"value": str(number_of(tree.value[place]))}
        feature = int(tree.feature[place])
        # Java reads "Infinity". No other number is above a feature that becomes infinite when it is multiplied.
        all_left = limits[place] == _LARGEST
        return {
            "feature": names[feature],
            "threshold": "Infinity" if all_left else str(number_of(_solr_thresholds(limits[place] * scales[feature]))),
            **({"missing": "left" if tree.missing_left[place] else "right"} if missing else {}),
            "left": node(tree, limits, int(tree.left[place])),
            "right": node(tree, limits, int(tree.right[place])),
        }

    roots = [node(tree, known, 0) for tree, known in zip(forest.trees, limits, strict=True)]
    roots += [{"value": str(forest.base)}] if forest.base else []
    features = []
    for known, scale in zip(names, scales, strict=True):
        norm = {"class": "org.apache.solr.ltr.norm.StandardNormalizer", "params": {"avg": "0.0", "std": str(1 / scale)}}
        features.append({"name": known, **({} if scale == 1 else {"norm": norm})})
    params: dict[str, Any] = {"isNullSameAsZero": False} if missing else {}
    params["trees"] = [{"weight": "1", "root": root} for root in roots]
    kind = "org.apache.solr.ltr.model.MultipleAdditiveTreesModel"
    return {"class": kind, "name": name, "features": features, "params": params}


def _of_feature(forest: Forest, limits: list[NDArray[np.float32]], feature: int) -> NDArray[np.float32]:
    pairs = zip(forest.trees, limits, strict=True)
    return np.concatenate([known[(tree.left != -1) & (tree.feature == feature)] for tree, known in pairs])


def _solr_thresholds(wanted: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return float32 numbers t with `t + SLACK == wanted` in float32. If there is no such number, return NaN."""
    found = np.full(wanted.shape, np.nan, dtype=np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for start in (wanted, wanted - SLACK):
            for tried in (start, *(np.nextafter(start, np.float32(side)) for side in (-np.inf, np.inf))):
                found = np.where(np.isnan(found) & (tried + SLACK == wanted), tried, found)
    return found


def _solr_scale(name: str, wanted: NDArray[np.float32]) -> np.float32:
    """Return the smallest factor of a feature (1, 2, 4, 8, ...) with which Solr can represent all thresholds."""
    wanted = wanted[wanted != _LARGEST]
    with np.errstate(over="ignore", invalid="ignore"):
        for power in range(127):
            scale = np.float32(2.0**power)
            if np.isfinite(_solr_thresholds(wanted * scale)).all():
                return scale
    sizes = np.abs(wanted[wanted != 0])
    bad_value(
        "model",
        f"have thresholds that Solr can read for the feature {name}",
        f"thresholds from {sizes.min():g} to {sizes.max():g}",
    )
