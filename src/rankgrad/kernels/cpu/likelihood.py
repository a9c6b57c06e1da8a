"""Losses in which a document competes with those of no higher label: Plackett-Luce likelihood, unique softmax.

They take a list in descending order of labels `y`: scores `s`, their powers `e`, weights of the documents `t`. They
fill the derivatives `d` and return the value. The `far_` forms are exact for scores so far apart that e would underflow
in a sum without a larger term.
"""

import math

import numpy as np

from rankgrad.kernels.cpu import helper
from rankgrad.kernels.cpu.exponential import exp


@helper
def plackett_luce(y, s, e, t, d, weighted, together):
    """Choose documents of one label one after the other, or `together`: each from its ties and all that remain."""
    value = remaining = 0.0
    product = 1.0
    last = len(s)
    while last > 0:
        first = _tied_from(y, last) if together else last - 1
        for i in range(first, last):
            remaining += e[i]
        for i in range(first, last):
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
        last = first
    value += math.log(product)
    chosen = 0.0
    first = 0
    while first < len(s):
        last = _tied_until(y, first) if together else first + 1
        for i in range(first, last):
            value -= t[i] * s[i]
            chosen += t[i] * d[i]
        for i in range(first, last):
            d[i] = e[i] * chosen - t[i]
        first = last
    return value


@helper
def far_plackett_luce(y, s, e, t, d, together):
    """Compute the same with each remaining sum as e^top * rest: `d` stores top, `e` stores rest."""
    value, top, remaining = 0.0, -np.inf, 0.0
    last = len(s)
    while last > 0:
        first = _tied_from(y, last) if together else last - 1
        for i in range(first, last):
            higher = max(top, s[i])
            remaining = remaining * exp(top - higher) + exp(s[i] - higher)
            top = higher
        for i in range(first, last):
            value += t[i] * (math.log(remaining) + (top - s[i]))
            d[i], e[i] = top, remaining
        last = first
    chosen = 0.0  # relative to the remaining sum, which only decreases from here on
    before, left = d[0], e[0]
    first = 0
    while first < len(s):
        last = _tied_until(y, first) if together else first + 1
        chosen *= exp(d[first] - before) * (e[first] / left)
        before, left = d[first], e[first]
        for i in range(first, last):
            chosen += t[i]
        for i in range(first, last):
            d[i] = exp(s[i] - before) / left * chosen - t[i]
        first = last
    return value


@helper
def unique(y, s, e, t, d):
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
def far_unique(y, s, e, t, d):
    """Compute the same with each field as e^top * rest: `d` stores top, `e` stores rest."""
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
    # Sum of t / field over the higher labels, as e^-level times `above`.
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
def position_weights(y, t, together):
    """Fill `t` with the weight of each rank: about half of the weight before it. Ties get the mean of their weights."""
    share, least = 1.0, 2.0 ** (1.0 - len(y))
    first = 0
    while first < len(y):
        last = _tied_until(y, first) if together else first + 1
        total = 0.0
        for _ in range(first, last):
            total += share
            share *= 0.5
        t[first:last] = max(total / (last - first) - least, 0.0) / (1.0 - least)
        first = last


@helper
def _tied_from(y, last):
    """Return the start of the run of equal labels that ends before `last`."""
    first = last - 1
    while first > 0 and y[first - 1] == y[last - 1]:
        first -= 1
    return first


@helper
def _tied_until(y, first):
    """Return the end of the run of equal labels that starts at `first`."""
    last = first + 1
    while last < len(y) and y[last] == y[first]:
        last += 1
    return last
