"""Compute the scores of an exported file of trees in the same way as the search engine.

`rankgrad.trees.engine_files` makes the content of these files. The export checks the content before it writes a file.
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from rankgrad.trees.engine_files import SLACK
from rankgrad.trees.frameworks import framework_named

Rows = NDArray[np.float32]


class Branch(NamedTuple):
    """A split of a tree, as a search engine reads it.

    A document goes left if `feature < threshold` or, with `inclusive`, if `feature <= threshold`.
    """

    feature: int
    threshold: np.float32
    inclusive: bool
    missing_left: bool
    left: "Branch | float"
    right: "Branch | float"


def engine_scores(content: bytes, format: str, framework: str, names: list[str]) -> Callable[[Rows], Rows]:
    """Return a function that computes scores `(documents,)` from features `(documents, f)`, with the trees of a file.

    Args:
        content: content of the file.
        format: a name in `rankgrad.trees.engine_files.FORMATS`.
        framework: framework of the trees.
        names: names of the features, in the order of the columns.
    """
    places = {name: place for place, name in enumerate(names)}
    # `zero`: the engine reads a missing value as 0.
    scales, zero = np.ones(len(names), dtype=np.float32), format == "ranklib"
    if format == "ranklib":
        _, _, xml = content.decode().partition("\n\n")
        # The text was written by this process, so a parser without limits is safe.
        trees = [_from_ranklib(tree[0]) for tree in ElementTree.fromstring(xml)]
    elif format == "solr":
        made = json.loads(content)
        zero = made["params"].get("isNullSameAsZero", True)
        for feature in made["features"]:
            if "norm" in feature:
                scales[places[feature["name"]]] = np.float32(feature["norm"]["params"]["std"])
        trees = [_from_solr(tree["root"], places) for tree in made["params"]["trees"]]
    elif format == "elasticsearch":
        trees = from_xgboost(json.loads(json.loads(content)["model"]["model"]["definition"]), places)
    else:
        trees = framework_named(framework).read_dump(json.loads(content), places)
    # Vespa adds the leaves in float64, the others in float32.
    rounded = np.float64 if format == "vespa" else np.float32

    def score(rows: Rows) -> Rows:
        total = np.zeros(len(rows))
        if zero:
            rows = np.where(np.isnan(rows), np.float32(0), rows)
        with np.errstate(over="ignore"):
            scaled = rows / scales
        for tree in trees:
            total = (total + _evaluate(tree, scaled)).astype(rounded)
        return total.astype(np.float32)

    return score


def _from_ranklib(split: ElementTree.Element) -> Branch | float:
    if split[0].tag == "output":
        return float(split[0].text or "")
    feature, threshold = int(split[0].text or "") - 1, np.float32(split[1].text or "")
    return Branch(feature, threshold, True, False, _from_ranklib(split[2]), _from_ranklib(split[3]))


def _from_solr(node: dict[str, Any], places: dict[str, int]) -> Branch | float:
    if "feature" not in node:
        return float(node["value"])
    left, right = _from_solr(node["left"], places), _from_solr(node["right"], places)
    threshold = np.float32(node["threshold"]) + SLACK
    return Branch(places[node["feature"]], threshold, True, node.get("missing") == "left", left, right)


def from_xgboost(trees: list[dict[str, Any]], places: dict[str, int]) -> list[Branch | float]:
    """Return the trees in the JSON format of XGBoost's `dump_model`.

    Args:
        trees: trees as `rankgrad.trees.engine_files.xgboost_json` writes them.
        places: column of each feature, by name.
    """
    return [_from_xgboost(tree, places) for tree in trees]


def _from_xgboost(node: dict[str, Any], places: dict[str, int]) -> Branch | float:
    if "leaf" in node:
        return float(node["leaf"])
    left, right = (_from_xgboost(child, places) for child in node["children"])
    threshold = np.float32(node["split_condition"])
    return Branch(places[node["split"]], threshold, False, node["missing"] == node["yes"], left, right)


def _evaluate(tree: Branch | float, rows: Rows) -> NDArray[np.float64]:
    """Return, for each document, the leaf value of a tree as a search engine computes it, `(documents,)`."""
    values = np.empty(len(rows))
    waiting: list[tuple[Branch | float, NDArray[np.intp]]] = [(tree, np.arange(len(rows)))]
    while waiting:
        node, here = waiting.pop()
        if isinstance(node, float):
            values[here] = node
            continue
        column = rows[here, node.feature]
        left = column <= node.threshold if node.inclusive else column < node.threshold
        left |= np.isnan(column) & node.missing_left
        waiting += [(node.left, here[left]), (node.right, here[~left])]
    return values
