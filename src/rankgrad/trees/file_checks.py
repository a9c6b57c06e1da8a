"""Check numbers and indices in model files of LightGBM and XGBoost. The frameworks do not check these values."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.errors import bad_value

_WHOLE = re.compile(r"-?\d{1,18}")


def check_integer(name: str, text: Any, low: int, high: int) -> int:
    """Convert a text in a model file to an integer. It is an error if the number is not from `low` to `high`."""
    if not isinstance(text, str) or not _WHOLE.fullmatch(text) or not low <= int(text) <= high:
        must = f"be {low}" if low == high else f"be an integer from {low} to {high}"
        bad_value(name, must, repr(text)[:40])
    return int(text)


def check_range(name: str, values: NDArray[Any], low: int, high: int) -> None:
    """Check that all values of an array in a model file are from `low` to `high`."""
    outside = values[(values < low) | (values > high)]
    if len(outside):
        must = f"be {low}" if low == high else f"be from {low} to {high}" if low < high else "be empty"
        bad_value(name, must, outside[0])


def reached_nodes(left: NDArray[np.int64], right: NDArray[np.int64], inner: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Follow the children of a tree from node 0. Return 1 for each node that is reached, otherwise 0, `(nodes,)`.

    It is an error if a node is reached twice.

    Args:
        left, right: children of each node, `(nodes,)`; all must be valid indices.
        inner: True for a node with children, `(nodes,)`.
    """
    reached = np.zeros(len(inner), dtype=np.int64)
    front = np.zeros(min(1, len(inner)), dtype=np.int64)
    while len(front):
        np.add.at(reached, front, 1)
        if (reached[front] > 1).any():
            bad_value("children", "lead to each node at most once", f"node {front[reached[front] > 1][0]} twice")
        front = front[inner[front]]
        front = np.concatenate([left[front], right[front]])
    return reached
