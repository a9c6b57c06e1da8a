"""CPU helpers of the family `listwise`: Plackett-Luce likelihood (ListMLE) and unique softmax.

In ListMLE, a document competes only with documents whose label is not higher. In unique softmax, a document competes
only with documents whose label is lower.

The documents of a list are in descending order of their labels. The arguments of the functions are the labels `y`, the
scores `s`, the exponentials `e` of the scores, and the weights `t`. The functions fill `d` with the derivatives and
return the value. The functions `far_...` are for scores that are so far apart that all terms of a sum of `e` could
underflow.
"""

import math

import numpy as np

from rankgrad.kernels.cpu import helper
from rankgrad.kernels.cpu.exponential import exp


@helper
def plackett_luce(y, s, e, t, d, weighted, together):
    """Compute, in a CPU kernel, value and derivatives of ListMLE, the negative Plackett-Luce log-likelihood.

    If `together`, a document is chosen from all documents with the same or a lower label. Otherwise documents with
    the same label are chosen one after the other.
    """
    value = remaining = 0.0
    product = 1.0
    last = len(s)
    while last > 0:
        first = tied_from(y, last) if together else last - 1
        for i in range(first, last):
            remaining += e[i]
        for i in range(first, last):
            d[i] = 1.0 / remaining
            if weighted:
                if t[i] != 0.0:
                    value += t[i] * math.log(remaining)
            else:
                # Multiply the sums, so that one logarithm is computed for many sums.
                product *= remaining
                if not 1e-200 < product < 1e200:
                    value += math.log(product)
                    product = 1.0
        last = first
    value += math.log(product)
    chosen = 0.0
    first = 0
    while first < len(s):
        last = tied_until(y, first) if together else first + 1
        for i in range(first, last):
            value -= t[i] * s[i]
            chosen += t[i] * d[i]
        for i in range(first, last):
            d[i] = e[i] * chosen - t[i]
        first = last
    return value


@helper
def far_plackett_luce(y, s, e, t, d, together):
    """Compute ListMLE in a CPU kernel as `plackett_luce` does, for scores that are far apart.

    A sum of exponentials is stored as e^top * rest. `e` contains rest. `d` contains top until the derivatives are
    computed.
    """
    value, top, remaining = 0.0, -np.inf, 0.0
    last = len(s)
    while last > 0:
        first = tied_from(y, last) if together else last - 1
        for i in range(first, last):
            higher = max(top, s[i])
            remaining = remaining * exp(top - higher) + exp(s[i] - higher)
            top = higher
        for i in range(first, last):
            value += t[i] * (math.log(remaining) + (top - s[i]))
            d[i], e[i] = top, remaining
        last = first
    chosen = 0.0  # relative to the sum over the remaining documents, which decreases from document to document
    before, left = d[0], e[0]
    first = 0
    while first < len(s):
        last = tied_until(y, first) if together else first + 1
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
    """Compute, in a CPU kernel, the value and the derivatives of unique softmax for a list.

    The `field` of a document is the sum of `e` over this document and the documents with lower labels.
    """
    value = below = 0.0
    last = len(s)
    while last > 0:
        first = tied_from(y, last)
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
        last = tied_until(y, first)
        added = 0.0
        for i in range(first, last):
            added += d[i]
            d[i] = e[i] * (d[i] + above) - t[i]
        above += added
        first = last
    return value


@helper
def far_unique(y, s, e, t, d):
    """Compute unique softmax in a CPU kernel as `unique` does, for scores that are far apart.

    A field is stored as e^top * rest. `e` contains rest. `d` contains top until the derivatives are computed.
    """
    value, top, below = 0.0, -np.inf, 0.0
    last = len(s)
    while last > 0:
        first = tied_from(y, last)
        for i in range(first, last):
            d[i] = max(top, s[i])
            e[i] = exp(s[i] - d[i]) + (below * exp(top - d[i]) if below > 0.0 else 0.0)
            value += t[i] * (math.log(e[i]) + (d[i] - s[i]))
        for i in range(first, last):
            higher = max(top, s[i])
            below = (below * exp(top - higher) if below > 0.0 else 0.0) + exp(s[i] - higher)
            top = higher
        last = first
    # The sum of t / field over the documents with higher labels is e^-level * above.
    level, above = np.inf, 0.0
    first = 0
    while first < len(s):
        last = tied_until(y, first)
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
    """Fill `t` with the weights of p-ListMLE, in a CPU kernel. Each rank has about half the weight of the rank before.

    If `together`, tied documents have the mean of their weights.
    """
    share, least = 1.0, 2.0 ** (1.0 - len(y))
    first = 0
    while first < len(y):
        last = tied_until(y, first) if together else first + 1
        total = 0.0
        for _ in range(first, last):
            total += share
            share *= 0.5
        t[first:last] = max(total / (last - first) - least, 0.0) / (1.0 - least)
        first = last


@helper
def tied_from(y, last):
    """Return the start of the group of ties that ends before `last`, for a likelihood in a CPU kernel."""
    first = last - 1
    while first > 0 and y[first - 1] == y[last - 1]:
        first -= 1
    return first


@helper
def tied_until(y, first):
    """Return the end of the group of ties that starts at `first`, for a likelihood in a CPU kernel."""
    last = first + 1
    while last < len(y) and y[last] == y[first]:
        last += 1
    return last
