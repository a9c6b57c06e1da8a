"""Losses over ordered pairs: RankNet, hinge, LambdaRank, LambdaLoss.

Documents are sorted by score, so that ranks are positions and every pair is met once, from its earlier document. Let q
be the chance that the later one (j) comes out ahead of the earlier one (i): q = e_j / (e_i + e_j) <= 1/2 with
e = exp(sigma s), n exponentials for n^2 pairs. If A and B are the weights of "i over j or j over i" and of "j over i",

    value += A (-log(1 - q)) + B sigma (s_i - s_j),    d value / d s_j = -d value / d s_i = sigma (A q - B),

and a polynomial gives the logarithm. Where e would overflow, each pair takes an exponential and a logarithm of its own.
"""

import math
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import prange
from numpy.polynomial import Chebyshev, Polynomial
from numpy.typing import NDArray
from torch import Tensor

from rankgrad.kernels.cpu import Flat, Results, helper, kernel, launch
from rankgrad.kernels.cpu.order import bits, descending

ORDERED, SWAPPED, EVERY, HINGE = 0, 1, 2, 3  # how a pair is weighed: by its order, by a swap, all pairs; or no logistic
LABEL, EXPONENTIAL, LINEAR = 0, 1, 2  # what a document is worth; the last two as shares of the ideal DCG
ROWS, COLUMNS = 64, 1024  # a tile of the pair matrix: sums in float32 stay short, and it fits the first cache
STRIPS = 4  # tasks that a long list is cut into, each with sums of its own
UNCUT = 1 << 62


class Plan(NamedTuple):
    """A loss with its options, as the kernel takes it. Tables are by rank or distance of ranks, from 0."""

    kind: int
    gained: int
    rows: int  # count only pairs whose earlier document ranks this high
    columns: int  # and whose later one does
    ideal: NDArray[Any]  # what a gain is worth at a rank, in the ideal DCG
    # SWAPPED: the pair of ranks i < j weighs |gain_i - gain_j| (worth_i - worth_j + step_(j-i)) lift_j.
    # EVERY: a document weighs gain_i worth_i in the pairs that it should win, which are all.
    worth: NDArray[Any]
    step: NDArray[Any]
    lift: NDArray[Any]


def run(
    name: str,
    scores: Tensor,
    labels: Tensor,
    weights: Tensor | None,
    mask: Tensor | None,
    offsets: Tensor | None,
    n: int,
    params: Tensor,
    options: list[float],
    gradient: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The operator, for this family. Options: steepness sigma or the margin, then those of `plan`."""
    flat = Flat.of(scores, labels, weights, mask, offsets, n)
    results = Results.like(flat, params.shape[0], gradient)
    longest = n if offsets is None else int(np.diff(flat.offsets).max(initial=1))
    dtype = flat.scores.dtype
    chosen = plan(name, *options[1:], size=1 << longest.bit_length(), dtype=dtype)
    steep = dtype.type(options[0])
    launch(_pairwise, *flat, *results, bits(flat.scores), bits(flat.labels), *chosen, steep, _logarithm(dtype))
    return results.tensors()


@lru_cache(maxsize=16)  # tables are as long as the longest list
def plan(
    name: str,
    k: float = 0.0,
    both: float = 0.0,
    linear: float = 0.0,
    scheme: float = 0.0,
    sound: float = 0.0,
    mu: float = 0.0,
    *,
    size: int,
    dtype: np.dtype[Any],
) -> Plan:
    """What the kernel does for a loss: `k` 0 for none, the others flags, `scheme` in the order of `losses.SCHEMES`."""
    one, rank = np.ones(size + 1), np.arange(1, size + 2)
    inverse = 1.0 / np.log2(1.0 + rank)
    within = rank <= (k or UNCUT)
    # What one more step is worth, by the distance of two ranks; a document has no distance to itself.
    step = np.concatenate([[0.0], inverse[:-1] - inverse[1:]])
    rows = int(k) if k and not sound else UNCUT
    columns = int(k) if k and both else UNCUT
    gained = LINEAR if linear else EXPONENTIAL
    kind, worth, lift = SWAPPED, 0 * one, one
    if name in ("ranknet", "hinge"):
        kind, gained = ORDERED if name == "ranknet" else HINGE, LABEL
    elif name == "lambdarank":
        worth, step = inverse * within, 0 * one
    elif scheme == 0:  # ndcg1
        kind, worth = EVERY, inverse
    elif scheme == 2:  # ndcg2pp
        worth, step = inverse, mu * step
    elif scheme == 3:  # arp1
        kind, gained, worth = EVERY, LABEL, one
    elif scheme == 4:  # arp2
        gained, step = LABEL, one
    if sound:
        lift = np.where(within, 1.0, 1.0 / (1.0 - np.minimum(inverse, 0.75)))  # rank 1 is never the later one
    tables = [table.astype(dtype) for table in (inverse * within, worth, step, lift)]
    return Plan(kind, gained, rows, columns, *tables)


@cache
def _logarithm(dtype: np.dtype[Any]) -> NDArray[Any]:
    """Coefficients for -log(1 - q), q in [0, 1/2]: of q in float32; of z = q / (2 - q), in odd powers, in float64."""
    if dtype.itemsize == 4:
        fitted = Chebyshev.interpolate(lambda q: -np.log1p(-q) / q, 9, domain=[0, 1 / 2])
    else:
        fitted = Chebyshev.interpolate(lambda zz: 2 * np.arctanh(np.sqrt(zz)) / np.sqrt(zz), 9, domain=[0, 1 / 9])
    return fitted.convert(kind=Polynomial).coef.astype(dtype)


@kernel(parallel=True)
def _pairwise(
    scores, labels, weights, mask, offsets, values, signal, slopes, extras, score_bits, label_bits,
    kind, gained, rows, columns, ideal, worth, step, lift, steep, logarithm,
):  # fmt: skip
    lists, documents = len(offsets) - 1, len(scores)
    place = np.empty(documents, np.int64)  # by rank: where the document came from
    score, power, gain = np.empty_like(scores), np.empty_like(scores), np.empty_like(scores)
    weight = np.empty_like(scores)
    count = np.empty(lists, np.int64)  # documents of a list, 0 where no two have different labels
    for l in prange(lists):
        count[l] = _gather(labels, mask, offsets[l], offsets[l + 1], place)
        _arrange(
            scores, labels, weights, score_bits, label_bits, place, score, power, gain, weight,
            offsets[l], count[l], kind, gained, ideal, worth, steep,
        )  # fmt: skip

    tasks, room = np.empty(lists + 1, np.int64), np.empty(lists + 1, np.int64)
    tasks[0] = room[0] = 0
    for l in range(lists):
        strips = 0 if count[l] == 0 else min(STRIPS, 1 + min(count[l], rows) // 512)
        tasks[l + 1], room[l + 1] = tasks[l] + strips, room[l] + strips * count[l]
    parts = np.empty(tasks[lists], np.float64)
    pulls = np.empty(room[lists], np.float64)  # for each strip of a list, the derivatives by its scores
    for t in prange(tasks[lists]):
        l = np.searchsorted(tasks, t, side="right") - 1
        parts[t] = _strip(
            score, power, gain, weight, worth, lift, step, pulls, offsets[l], count[l], room[l],
            t - tasks[l], tasks[l + 1] - tasks[l], rows, columns, kind, steep, logarithm,
        )  # fmt: skip

    for l in prange(lists):
        signal[l] = count[l] > 0
        values[l] = _total(parts, tasks[l], tasks[l + 1])
        if len(slopes) > 0:
            scale = 1.0 if kind == HINGE else float(steep)
            for i in range(offsets[l], offsets[l + 1]):
                slopes[i] = 0.0
            for i in range(count[l]):
                slopes[place[offsets[l] + i]] = scale * _total(pulls, room[l] + i, room[l + 1], count[l])


@helper
def _total(parts, first, last, stride=1):
    total = 0.0
    for t in range(first, last, stride):
        total += parts[t]
    return total


@helper
def _gather(labels, mask, first, last, place):
    """Put the places of the real documents into `place[first:]`; their count, or 0 if they all have one label."""
    count, different = 0, False
    for i in range(first, last):
        if len(mask) == 0 or mask[i]:
            place[first + count] = i
            different |= labels[i] != labels[place[first]]
            count += 1
    return count if different else 0


@helper
def _arrange(
    scores, labels, weights, score_bits, label_bits, place, score, power, gain, weight,
    first, count, kind, gained, ideal, worth, steep,
):  # fmt: skip
    """Sort a list by score and put what its pairs need in that order."""
    if count == 0:
        return
    last = first + count
    _gains(labels, label_bits, place[first:last], weight, gained, ideal)  # in the order given; `weight` is free so far
    descending(scores, score_bits, place[first:last])
    for i in range(first, last):
        score[i], gain[i] = scores[place[i]], weight[place[i]]
    for i in range(first, last):
        weight[i] = weights[place[i]] if len(weights) > 0 else 1.0
        if kind == EVERY:  # a pair has the weight of its first document
            gain[i] *= worth[i - first] * weight[i]
    if kind != HINGE and not _wide(score, first, last, steep):
        middle = 0.5 * float(score[first]) + 0.5 * score[last - 1]
        for i in range(first, last):
            power[i] = math.exp(steep * (score[i] - middle))


@helper
def _wide(score, first, last, steep):
    """Whether exponentials of these sorted scores would overflow, or are no numbers."""
    return not steep * (float(score[first]) - score[last - 1]) <= (80.0 if score.itemsize == 4 else 1000.0)


@helper
def _gains(labels, label_bits, place, gains, gained, ideal):
    """What each document is worth, at its place."""
    if gained == LABEL:
        for i in place:
            gains[i] = labels[i]
        return
    best = place.copy()
    descending(labels, label_bits, best)
    top = float(labels[best[0]])
    total = gain = 0.0
    label = np.nan
    for r in range(len(best)):
        if labels[best[r]] != label:  # exponentials only where the label changes
            label = float(labels[best[r]])
            gain = 2.0 ** (label - top) - 2.0**-top if gained == EXPONENTIAL else label
        total += gain * ideal[r]
        gains[best[r]] = gain
    for i in place:
        gains[i] = gains[i] / total if total > 0.0 else 0.0


@helper
def _strip(
    score, power, gain, weight, worth, lift, step, pulls, first, n, room,
    strip, strips, rows, columns, kind, steep, logarithm,
):  # fmt: skip
    """The value of every `strips`-th block of rows of a list; puts its derivatives into `pulls`."""
    wide = _wide(score, first, first + n, steep)
    rows, columns = min(n, rows), min(n, columns)
    score, power = score[first : first + n], power[first : first + n]
    gain, weight = gain[first : first + n], weight[first : first + n]
    pull = pulls[room + strip * n : room + (strip + 1) * n]
    for i in range(n):
        pull[i] = 0.0
    near = np.empty(COLUMNS, score.dtype)  # a tile's share of `pull`
    c = logarithm
    numbers = (c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8], c[9])
    total = 0.0
    for top in range(strip * ROWS, rows, strips * ROWS):
        for left in range(top, columns, COLUMNS):
            right = min(left + COLUMNS, columns)
            for j in range(right - left):
                near[j] = 0.0
            for i in range(top, min(top + ROWS, rows)):
                a = max(i + 1, left)
                if a >= right:
                    continue
                push, value = _row(
                    (score[i], power[i], gain[i], weight[i], worth[i]),
                    score[a:right], power[a:right], gain[a:right], weight[a:right], worth[a:right], lift[a:right],
                    step[a - i : right - i], near[a - left : right - left], steep, numbers, kind, wide,
                )  # fmt: skip
                pull[i] -= push
                total += value
            for j in range(left, right):
                pull[j] += near[j - left]
    return total


def _row_of(kind: int, wide: bool) -> Callable[..., Any]:
    """The loop over the later documents of a document's pairs, for one way to weigh them: no branch is left inside.

    It returns the sum of the pairs' derivatives by the later score, and of their values.
    """

    def row(own, score, power, gain, weight, worth, lift, step, near, steep, logarithm):
        own_score, own_power, own_gain, own_weight, own_worth = own
        zero, two = near.dtype.type(0), near.dtype.type(2)
        c0, c1, c2, c3, c4, c5, c6, c7, c8, c9 = logarithm
        push = value = zero
        for j in range(len(score)):
            # A: weight of the pair; B: the same if the later document should come first, else 0.
            if kind == EVERY:
                B = gain[j]
                A = own_gain + B
            else:
                ahead = own_gain - gain[j]
                A = own_weight if ahead > zero else weight[j]
                if kind == SWAPPED:
                    A *= abs(ahead) * ((own_worth - worth[j]) + step[j]) * lift[j]
                else:
                    A = zero if ahead == zero else A
                B = zero if ahead > zero else A
            gap = own_score - score[j]
            if kind == HINGE:
                short, far = steep - gap, steep + gap
                value += (A - B) * max(short, zero) + B * max(far, zero)
                change = (A - B if short > zero else zero) - (B if far > zero else zero)
            elif wide:
                distance = float(steep) * (float(own_score) - float(score[j]))
                small = math.exp(-distance)
                value += A * math.log1p(small) + B * distance
                change = A * (small / (1.0 + small)) - B
            else:
                q = power[j] / (own_power + power[j])
                z = q if near.itemsize == 4 else q / (two - q)
                x = q if near.itemsize == 4 else z * z
                log = c6 + x * (c7 + x * (c8 + x * c9))
                log = c2 + x * (c3 + x * (c4 + x * (c5 + x * log)))
                log = z * (c0 + x * (c1 + x * log))
                value += A * log + B * (steep * gap)
                change = A * q - B
            push += change
            near[j] += change
        return float(push), float(value)

    return helper(row)


_ordered, _swapped, _every, _hinge = (_row_of(kind, False) for kind in (ORDERED, SWAPPED, EVERY, HINGE))
_far_ordered, _far_swapped, _far_every = (_row_of(kind, True) for kind in (ORDERED, SWAPPED, EVERY))


@helper
def _row(own, score, power, gain, weight, worth, lift, step, near, steep, numbers, kind, wide):
    if kind == HINGE:
        return _hinge(own, score, power, gain, weight, worth, lift, step, near, steep, numbers)
    if kind == ORDERED and wide:
        return _far_ordered(own, score, power, gain, weight, worth, lift, step, near, steep, numbers)
    if kind == ORDERED:
        return _ordered(own, score, power, gain, weight, worth, lift, step, near, steep, numbers)
    if kind == SWAPPED and wide:
        return _far_swapped(own, score, power, gain, weight, worth, lift, step, near, steep, numbers)
    if kind == SWAPPED:
        return _swapped(own, score, power, gain, weight, worth, lift, step, near, steep, numbers)
    if wide:
        return _far_every(own, score, power, gain, weight, worth, lift, step, near, steep, numbers)
    return _every(own, score, power, gain, weight, worth, lift, step, near, steep, numbers)
