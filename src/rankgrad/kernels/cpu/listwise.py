"""Softmax cross entropies and Plackett-Luce likelihoods, in O(n), or O(n log n) for labels that are no small integers.

A document of a list has e_i = exp(s_i - highest s), by a polynomial that the compiler vectorises. Everything else is
sums of those: one over the list for the cross entropies; running ones, from the lowest label up, where a document
competes with those below it only. Those have an exact form besides, for scores so far apart that e would underflow in a
sum that has no larger term.
"""

import math

import numba
import numpy as np
import torch
from numba import prange
from torch import Tensor

from rankgrad.kernels.cpu import FASTMATH, Flat, Results, helper, kernel, launch
from rankgrad.kernels.cpu.exponential import exp
from rankgrad.kernels.cpu.order import bits, descending

SOFTMAX, LISTNET, XE_NDCG, POLY1, UNIQUE, LISTMLE, P_LISTMLE = range(7)
_CODES = {
    "softmax": SOFTMAX,
    "listnet": LISTNET,
    "xe_ndcg": XE_NDCG,
    "poly1_softmax": POLY1,
    "unique_softmax": UNIQUE,
    "listmle": LISTMLE,
    "p_listmle": P_LISTMLE,
}
SMALL = 30_000  # documents in a batch below which waking threads costs more than they save
WIDE = 200.0  # a range of scores up to which sums of e, and products of two of them, keep far from underflow

LOG_2 = math.log(2.0)


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
    """The operator, for this family. Option: of listnet 1 for softmax targets, of xe_ndcg gamma, of poly1 epsilon."""
    flat = Flat.of(scores, labels, weights, mask, offsets, n)
    results = Results.like(flat, 0, gradient)
    option = options[0] if options else 0.0
    lists = len(flat.offsets) - 1
    if len(flat.scores) < SMALL or lists == 1 or torch.get_num_threads() == 1:
        launch(_some, *flat, *results, bits(flat.labels), _CODES[name], option, 0, lists)
    else:
        # Several tasks a thread, for lists differ in length.
        launch(_all, *flat, *results, bits(flat.labels), _CODES[name], option, 8 * torch.get_num_threads())
    return results.tensors()


@kernel(parallel=True)
def _all(scores, labels, weights, mask, offsets, values, signal, slopes, extras, keys, code, option, tasks):
    lists = len(offsets) - 1
    for t in prange(tasks):
        first, last = t * lists // tasks, (t + 1) * lists // tasks
        _some(scores, labels, weights, mask, offsets, values, signal, slopes, extras, keys, code, option, first, last)


@kernel
def _some(
    scores, labels, weights, mask, offsets, values, signal, slopes, extras, keys, code, option, from_list, to_list
):
    """The lists from one to another, in scratch that fits the longest."""
    longest = 0
    for l in range(from_list, to_list):
        longest = max(longest, offsets[l + 1] - offsets[l])
    place = np.empty(longest, np.int64)  # where a gathered document came from
    label = np.empty(longest, np.float64)
    score = np.empty(longest, np.float64)  # less the highest of the list
    power = np.empty(longest, np.float64)  # e
    target = np.empty(longest, np.float64)  # what a document counts
    slope = np.empty(longest, np.float64)
    for l in range(from_list, to_list):
        first, last = offsets[l], offsets[l + 1]
        count = last - first if len(mask) == 0 else _places(mask, first, last, place)
        here, y, s, e, t, d = place[:count], label[:count], score[:count], power[:count], target[:count], slope[:count]
        whole = count == last - first  # no need to look places up
        _take(labels, whole, first, here, y)
        low, high = _range(y)
        signal[l] = (low < high) if code >= LISTMLE else high > 0.0
        if len(slopes) > 0 and not (whole and signal[l]):
            slopes[first:last] = 0.0
        if not signal[l]:
            values[l] = 0.0
            continue
        if code >= UNIQUE:
            if whole:
                for i in range(count):
                    here[i] = first + i
                whole = False
            descending(labels, keys, here)
            _take(labels, whole, first, here, y)
        _take(scores, whole, first, here, s)
        lowest, highest = _range(s)
        near = highest - lowest <= WIDE
        if near or code < UNIQUE:
            for i in range(count):
                s[i] -= highest
                e[i] = exp(s[i])
        _targets(y, t, code, option, high)
        if len(weights) > 0:
            _take(weights, whole, first, here, d)
            for i in range(count):
                t[i] *= d[i]
        if code < UNIQUE:
            values[l] = _cross_entropy(s, e, t, d, code, option)
        elif code == UNIQUE:
            values[l] = _unique(y, s, e, t, d) if near else _far_unique(y, s, e, t, d)
        elif near:
            values[l] = _plackett_luce(s, e, t, d, code == P_LISTMLE or len(weights) > 0)
        else:
            values[l] = _far_plackett_luce(s, e, t, d)
        if len(slopes) > 0 and whole:
            slopes[first:last] = d
        elif len(slopes) > 0:
            for i in range(count):
                slopes[here[i]] = d[i]


@helper
def _places(mask, first, last, place):
    """The places of the real documents; their number."""
    count = 0
    for i in range(first, last):
        place[count] = i
        count += mask[i]
    return count


@helper
def _take(values, whole, first, place, out):
    """Values of the documents at `place`, or, of a whole list, of those from `first` on."""
    if whole:
        out[:] = values[first : first + len(out)]
    else:
        for i in range(len(out)):
            out[i] = values[place[i]]


# A NaN here may hide, so that the loop vectorises: the document that has it makes every sum of its list NaN.
@numba.njit(fastmath=FASTMATH | {"nnan"}, error_model="numpy")
def _range(values):
    low, high = np.inf, -np.inf
    for value in values:
        low, high = min(low, value), max(high, value)
    return low, high


@helper
def _targets(y, t, code, option, high):
    """What each document counts, before weights and normalisation."""
    if code == UNIQUE:
        for i in range(len(y)):
            t[i] = exp(min(y[i] * LOG_2, 700.0)) - 1.0  # whatever is beyond is as good as infinite
    elif code == LISTNET and option == 1.0:
        for i in range(len(y)):
            t[i] = exp(y[i] - high)
    elif code == XE_NDCG:
        # Over 2^max(y), which cancels, so that large labels cannot overflow.
        less = option * exp(-high * LOG_2)
        for i in range(len(y)):
            t[i] = exp((y[i] - high) * LOG_2) - less
    elif code == LISTMLE:
        t[:] = 1.0
    elif code == P_LISTMLE:
        share, last = 1.0, exp((1.0 - len(y)) * LOG_2)
        for i in range(len(y)):
            t[i] = max(share - last, 0.0) / (1.0 - last)
            share *= 0.5
    else:
        t[:] = y


@helper
def _cross_entropy(s, e, t, d, code, option):
    total = mass = behind = 0.0
    for i in range(len(s)):
        total += e[i]
        mass += t[i]
        behind -= t[i] * s[i]
    share = (1.0 / mass if mass > 0.0 else 0.0) if code != SOFTMAX else 1.0
    scale = share if code != POLY1 else 1.0
    chance = 0.0
    for i in range(len(s)):
        e[i] /= total
        d[i] = scale * (mass * e[i] - t[i])
        chance += t[i] * e[i]
    value = scale * (behind + mass * math.log(total))
    if code == POLY1:
        chance *= share
        value += option * (1.0 - chance)
        for i in range(len(s)):
            d[i] -= option * e[i] * (share * t[i] - chance)
    return value


@helper
def _plackett_luce(s, e, t, d, weighted):
    value = remaining = 0.0
    product = 1.0
    for i in range(len(s) - 1, -1, -1):
        remaining += e[i]
        d[i] = 1.0 / remaining
        if weighted:
            if t[i] != 0.0:
                value += t[i] * math.log(remaining)
        else:
            # One logarithm for many factors.
            product *= remaining
            if not 1e-200 < product < 1e200:
                value += math.log(product)
                product = 1.0
    value += math.log(product)
    chosen = 0.0
    for i in range(len(s)):
        value -= t[i] * s[i]
        chosen += t[i] * d[i]
        d[i] = e[i] * chosen - t[i]
    return value


@helper
def _far_plackett_luce(s, e, t, d):
    """The same with each remaining sum as e^top (1 + ...): `d` keeps its top, `e` the rest."""
    value, top, remaining = 0.0, -np.inf, 0.0
    for i in range(len(s) - 1, -1, -1):
        higher = max(top, s[i])
        remaining = remaining * exp(top - higher) + exp(s[i] - higher)
        top = higher
        value += t[i] * (math.log(remaining) + (top - s[i]))
        d[i], e[i] = top, remaining
    chosen = 0.0  # relative to the remaining sum, which never grows from here on
    before, left = d[0], e[0]
    for i in range(len(s)):
        chosen = chosen * exp(d[i] - before) * (e[i] / left) + t[i]
        before, left = d[i], e[i]
        d[i] = exp(s[i] - before) / left * chosen - t[i]
    return value


@helper
def _unique(y, s, e, t, d):
    value = below = 0.0
    last = len(s)
    while last > 0:
        first = _tied_from(y, last)
        inside = 0.0
        for i in range(first, last):
            field = e[i] + below
            inside += e[i]
            if t[i] != 0.0:
                value += t[i] * (math.log(field) - s[i])
            d[i] = t[i] / field
        below += inside
        last = first
    above = 0.0
    first = 0
    while first < len(s):
        last = _tied_until(y, first)
        added = 0.0
        for i in range(first, last):
            added += d[i]
            d[i] = e[i] * (d[i] + above) - t[i]
        above += added
        first = last
    return value


@helper
def _far_unique(y, s, e, t, d):
    """The same with each field as e^top (1 + ...): `d` keeps its top, `e` the rest."""
    value, top, below = 0.0, -np.inf, 0.0
    last = len(s)
    while last > 0:
        first = _tied_from(y, last)
        for i in range(first, last):
            d[i] = max(top, s[i])
            e[i] = exp(s[i] - d[i]) + (below * exp(top - d[i]) if below > 0.0 else 0.0)
            value += t[i] * (math.log(e[i]) + (d[i] - s[i]))
        for i in range(first, last):
            higher = max(top, s[i])
            below = (below * exp(top - higher) if below > 0.0 else 0.0) + exp(s[i] - higher)
            top = higher
        last = first
    # Sum of t / field over the labels above, as e^-level times `above`.
    level, above = np.inf, 0.0
    first = 0
    while first < len(s):
        last = _tied_until(y, first)
        next_level, next_above = level, above
        for i in range(first, last):
            share = t[i] / e[i]
            if t[i] != 0.0:
                lower = min(next_level, d[i])
                kept = next_above * exp(lower - next_level) if next_above != 0.0 else 0.0
                next_level, next_above = lower, kept + share * exp(lower - d[i])
            rivals = above * exp(s[i] - level) if above != 0.0 else 0.0
            d[i] = exp(s[i] - d[i]) * share + rivals - t[i]
        level, above = next_level, next_above
        first = last
    return value


@helper
def _tied_from(y, last):
    """Where the run of equal labels that ends before `last` begins."""
    first = last - 1
    while first > 0 and y[first - 1] == y[last - 1]:
        first -= 1
    return first


@helper
def _tied_until(y, first):
    """Where the run of equal labels that begins at `first` ends."""
    last = first + 1
    while last < len(y) and y[last] == y[first]:
        last += 1
    return last
