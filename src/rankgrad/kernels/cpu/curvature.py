"""Slopes and curvatures of the pairwise losses, for boosting: the pairs of `pairs.py`, without values.

With the letters of `pairwise.py`, the derivatives by the score of either document of a pair i, j are

    d value / d s_j = -d value / d s_i = sigma (A q - B),
    d2 value / d s_j^2 = d2 value / d s_i^2 = sigma^2 A q (1 - q).
"""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.kernels.cpu import Flat, helper, kernel, launch
from rankgrad.kernels.cpu.order import bits
from rankgrad.kernels.cpu.pairs import EVERY, ORDERED, ROWS, STEPPED, SWAPPED, WIDTH, _arrange, _near, _powers, _slices
from rankgrad.kernels.cpu.pairwise import plan
from rankgrad.kernels.cpu.parallel import spread


def run(
    name: str,
    scores: NDArray[Any],
    labels: NDArray[Any],
    weights: NDArray[Any] | None,
    offsets: NDArray[np.int64],
    options: tuple[float, ...],
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Slope and curvature of each document, `(D,)`, of a loss and options that `pairwise.run` takes; not `hinge`."""
    dtype = scores.dtype
    nothing = np.empty(0, dtype)
    heavy = nothing if weights is None else np.ascontiguousarray(weights, dtype)
    flat = Flat(scores, np.ascontiguousarray(labels, dtype), heavy, np.empty(0, np.bool_), offsets)
    chosen = plan(name, *map(float, options[1:]), size=1 << max(flat.longest, 1).bit_length(), dtype=dtype)
    slopes, bends = np.empty_like(scores), np.empty_like(scores)
    documents = np.empty((4, len(scores) + WIDTH * (len(offsets) - 1)), dtype)
    place = np.empty(len(scores), np.int64)
    keys = (bits(flat.scores), bits(flat.labels))
    launch(_curvature(chosen.kind), *flat, *keys, *chosen[1:], dtype.type(options[0]), *documents, place, slopes, bends)
    return slopes, bends


@cache
def _curvature(kind: int) -> Any:
    """The kernel for one way to weigh pairs; as in `pairs.py` its closure holds only a number."""

    @kernel
    def curvature_of_kind(
        scores, labels, weights, mask, offsets, score_bits, label_bits, gained, rows, columns, ideal, worth, step, lift,
        steep, score, power, gain, weight, place, slopes, bends,
    ):  # fmt: skip
        given = (scores, labels, weights, mask, offsets, score_bits, label_bits)
        chosen = (gained, rows, columns, ideal, worth, step, lift, steep)
        everything = (given, chosen, (score, power, gain, weight), place, slopes, bends)
        if kind == ORDERED:
            spread(_ordered, len(offsets) - 1, everything)
        elif kind == SWAPPED:
            spread(_swapped, len(offsets) - 1, everything)
        elif kind == STEPPED:
            spread(_stepped, len(offsets) - 1, everything)
        else:
            spread(_every, len(offsets) - 1, everything)

    return curvature_of_kind


def _task_of(kind: int) -> Any:
    """All pairs of a list."""
    tile = _tile_of(kind)

    @helper
    def task(l, given, chosen, documents, place, slopes, bends):
        first, steep = given[4][l], chosen[7]
        slopes[first : given[4][l + 1]] = 0.0
        bends[first : given[4][l + 1]] = 0.0
        n = _arrange(l, kind, given, chosen, documents, place)
        rows = min(n, chosen[1])
        score, power, gain, weight = _slices(documents, first + l * WIDTH, n + WIDTH)
        dtype = score.dtype
        near = n == 0 or _near(score, n, steep)
        if not near:
            power = np.zeros(n + WIDTH, dtype)
        pull, bend = np.zeros(n), np.zeros(n)
        share, heap, later = np.empty(WIDTH, dtype), np.empty(WIDTH, dtype), np.empty(2 * WIDTH, dtype)
        later[:WIDTH] = 0.0
        later[WIDTH:] = 1.0
        for top in range(0, rows, ROWS):
            for left in range(top, n, WIDTH):
                bottom = min(top + ROWS, left + WIDTH, rows)
                share[:] = 0.0
                heap[:] = 0.0
                together = ROWS if near else 1
                for i in range(top, bottom, together):
                    if not near:
                        _powers(score, i, left, min(left + WIDTH, n), steep, power)
                    last = min(i + together, bottom)
                    tile(i, last, left, (score, power, gain, weight), chosen, later, share, heap, pull, bend)
                for j in range(min(WIDTH, n - left)):
                    pull[left + j] += share[j]
                    bend[left + j] += heap[j]
        scale = float(steep)
        for i in range(n):
            slopes[place[first + i]] = scale * pull[i]
            bends[place[first + i]] = scale * scale * bend[i]

    return task


def _tile_of(kind: int) -> Any:
    """The loops over a tile of pairs; no branch is left in the inner one."""

    @helper
    def tile(top, bottom, left, documents, chosen, ramp, share, heap, pull, bend):
        _, _, _, _, worths, steps, lifts, _ = chosen
        _, powers, gains, weights = documents
        _, power, gain, weight = _slices(documents, left, WIDTH)
        worth, lift = worths[left : left + WIDTH], lifts[left : left + WIDTH]
        zero, one = share.dtype.type(0), share.dtype.type(1)
        for i in range(top, bottom):
            own_power, own_gain, own_weight, own_worth = powers[i], gains[i], weights[i], worths[i]
            begin = WIDTH - 1 + min(left - i, 1)
            later = ramp[begin : begin + WIDTH]
            step = steps[WIDTH + left - i : 2 * WIDTH + left - i]
            push = lean = zero
            for j in range(WIDTH):
                if kind == EVERY:
                    B = gain[j] * later[j]
                    A = own_gain * later[j] + B
                else:
                    ahead = own_gain - gain[j]
                    A = (own_weight if ahead > zero else weight[j]) * later[j]
                    if kind == SWAPPED:
                        A *= abs(ahead) * (own_worth - worth[j])
                    elif kind == STEPPED:
                        A *= abs(ahead) * ((own_worth - worth[j]) + step[j]) * lift[j]
                    else:
                        A = zero if ahead == zero else A
                    B = zero if ahead > zero else A
                q = power[j] / (own_power + power[j])
                change, curve = A * q - B, A * q * (one - q)
                push += change
                share[j] += change
                lean += curve
                heap[j] += curve
            pull[i] -= push
            bend[i] += lean

    return tile


_ordered, _swapped, _stepped, _every = (_task_of(kind) for kind in (ORDERED, SWAPPED, STEPPED, EVERY))
