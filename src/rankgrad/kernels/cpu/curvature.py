"""Computes slopes (first derivatives) and curvatures (second derivatives) of pairwise losses, for boosting.

The loops are in `pair_loops.py`, and the symbols are those of `pairwise.py`. The derivatives of the value of a pair
(i, j) with respect to the scores of its documents are

    d value / d s_j = -d value / d s_i = sigma (A q - B),
    d2 value / d s_j^2 = d2 value / d s_i^2 = sigma^2 A q (1 - q).
"""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.kernels.cpu import FlatLists, helper, kernel, launch
from rankgrad.kernels.cpu.order import bits
from rankgrad.kernels.cpu.pair_loops import EVERY, FIRST, ORDERED, STEPPED, SWAPPED, WIDTH, slices, sort_list, walk_of
from rankgrad.kernels.cpu.pairwise import logarithm, plan_of
from rankgrad.kernels.cpu.parallel import spread
from rankgrad.kernels.options import PairwiseOptions

ALONE = np.int64(1)  # number of tasks per list


def run(
    name: str,
    scores: NDArray[Any],
    labels: NDArray[Any],
    weights: NDArray[Any] | None,
    offsets: NDArray[np.int64],
    options: PairwiseOptions,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return slopes `(D,)` and curvatures `(D,)`, for boosting with a loss of `pairwise.py` other than `hinge`."""
    dtype = scores.dtype
    nothing = np.empty(0, dtype)
    heavy = nothing if weights is None else np.ascontiguousarray(weights, dtype)
    flat = FlatLists(scores, np.ascontiguousarray(labels, dtype), heavy, np.empty(0, np.bool_), offsets)
    chosen = plan_of(name, options, max(flat.longest, 1), dtype)
    slopes, bends = np.empty_like(scores), np.empty_like(scores)
    documents = np.empty((4, len(scores) + WIDTH * (len(offsets) - 1)), dtype)
    place = np.empty(len(scores), np.int64)
    given, plan = (*flat, bits(flat.scores), bits(flat.labels)), (*chosen[1:], dtype.type(options.sigma))
    launch(_curvature(chosen.kind), given, plan, logarithm(dtype), (*documents,), place, slopes, bends)
    return slopes, bends


@cache
def _curvature(kind: int) -> Any:
    """Return the kernel that computes curvatures of pairwise losses, for one way to weight pairs.

    As in `pair_loops.py`, the number `kind` is the only variable in the closure of the kernel.
    """

    @kernel
    def curvature_of_kind(given, chosen, c, documents, place, slopes, bends):
        lists = len(given[4]) - 1
        numbers = (c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8], c[9])
        everything = (given, chosen, numbers, documents, place, slopes, bends)
        if kind == ORDERED:
            spread(_ordered, lists, everything)
        elif kind == SWAPPED:
            spread(_swapped, lists, everything)
        elif kind == STEPPED:
            spread(_stepped, lists, everything)
        else:
            spread(_every, lists, everything)

    return curvature_of_kind


def _task_of(kind: int) -> Any:
    """Return the function that computes slopes and curvatures of a list, for one way to weight the pairs of a loss."""
    walk = walk_of(kind, curved=True)

    @helper
    def task(l, given, chosen, numbers, documents, place, slopes, bends):
        first, steep = given[4][l], float(chosen[7])
        slopes[first : given[4][l + 1]] = 0.0
        bends[first : given[4][l + 1]] = 0.0
        n = sort_list(l, kind, given, chosen, documents, place)
        pull, bend = np.zeros(n), np.zeros(n)
        walk(FIRST, ALONE, n, slices(documents, first + l * WIDTH, n + WIDTH), chosen, numbers, pull, bend)
        for i in range(n):
            slopes[place[first + i]] = steep * pull[i]
            bends[place[first + i]] = steep * steep * bend[i]

    return task


_ordered, _swapped, _stepped, _every = (_task_of(kind) for kind in (ORDERED, SWAPPED, STEPPED, EVERY))
