"""CPU helpers of the family `listwise`: Plackett-Luce likelihood (ListMLE) and unique softmax.

In ListMLE, a document competes only with documents whose label is not higher. In unique softmax, a document competes
only with documents whose label is lower.

The functions take the documents of a list in descending order of their labels `y`: scores `s`, exponentials `e` of the
scores, and weights `t`. They fill `d` with the derivatives and return the value. The functions `far_...` are for scores
that are so far apart that all terms of a sum of `e` could underflow.
"""

import math

import numpy as np

from rankgrad.kernels.cpu import helper
from rankgrad.kernels.cpu.exponential import exp
from rankgrad.kernels.quadrature import ABSCISSAS, DROP, HALVINGS, NODE_WEIGHTS, NODES


@helper
def plackett_luce(y, s, e, t, d, weighted, together):
    """Compute the value and the derivatives of ListMLE, the negative logarithm of the Plackett-Luce likelihood.

    If `together`, a document is chosen from all documents with the same or a lower label. Otherwise documents with
    the same label are chosen one after the other.
    """
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
    """Compute ListMLE as `plackett_luce` does, for scores that are far apart.

    A sum of exponentials is stored as e^top * rest. Until the derivatives are known, `d` stores top. `e` stores rest.
    """
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
    chosen = 0.0  # relative to the sum over the remaining documents, which decreases from document to document
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
def efron(y, s, e, t, d):
    """Compute the value and the derivatives of ListMLE with Efron's likelihood, for any range of scores.

    A sum of exponentials is stored as e^top * rest. Until the derivatives are known, the first document of a group
    stores top in `e`.
    """
    value, top, below = 0.0, -np.inf, 0.0
    last = len(s)
    while last > 0:
        first = _tied_from(y, last)
        higher, weight = top, 0.0
        for i in range(first, last):
            higher = max(higher, s[i])
            weight += t[i]
        size = last - first
        weight /= size
        below *= exp(top - higher) if below > 0.0 else 0.0
        group = 0.0
        for i in range(first, last):
            group += exp(s[i] - higher)
        inside = outside = 0.0  # derivatives by the logarithms of `group` and of a document below
        product = 1.0
        for l in range(size):
            share = 1.0 - l / size
            remaining = share * group + below
            product *= remaining
            if not 1e-200 < product < 1e200:
                value += weight * math.log(product)
                product = 1.0
            inside += share / remaining
            outside += 1.0 / remaining
        value += weight * math.log(product)
        for i in range(first, last):
            value += t[i] * (higher - s[i])
            d[i] = exp(s[i] - higher) * (weight * inside) - t[i]
        # From here on, the group needs only two numbers.
        e[first], t[first] = higher, weight * outside
        top, below = higher, below + group
        last = first
    chosen, before = 0.0, e[0]
    first = 0
    while first < len(s):
        last = _tied_until(y, first)
        chosen *= exp(e[first] - before)
        before = e[first]
        for i in range(first, last):
            d[i] += exp(s[i] - before) * chosen
        chosen += t[first]
        first = last
    return value


@helper
def partitioned(y, s, e, t, d):
    """Compute the value and the derivatives of ListMLE with the exact likelihood, for any range of scores.

    `rankgrad.kernels.quadrature` describes the integral. Until the derivatives are known, the first document of a group
    stores the sum over the documents below, e^top * rest: top in `t`, and rest in `e`.
    """
    value, top, below = 0.0, -np.inf, 0.0
    last = len(s)
    while last > 0:
        first = _tied_from(y, last)
        d[first:last] = 0.0
        if last < len(s):
            weight = 0.0
            for i in range(first, last):
                weight += t[i] / (last - first)
                e[i] = s[i] - top
            value += weight * _precedes(e[first:last], below, d[first:last])
            d[first:last] *= weight
            t[first], e[first] = top, below
        for i in range(first, last):
            higher = max(top, s[i])
            below = (below * exp(top - higher) if below > 0.0 else 0.0) + exp(s[i] - higher)
            top = higher
        last = first
    pulled, before_top, before_rest = 0.0, np.inf, 1.0
    first = 0
    while True:
        last = _tied_until(y, first)
        own = 0.0
        for i in range(first, last):
            own -= d[i]
            d[i] += pulled * (exp(s[i] - before_top) / before_rest)
        if last == len(s):
            return value
        pulled = pulled * exp(t[first] - before_top) * (e[first] / before_rest) + own
        before_top, before_rest = t[first], e[first]
        first = last


@helper
def _precedes(gaps, below, d):
    """Return minus the logarithm of the probability that a group of ties precedes all documents below it.

    The sum over the documents below is e^top * `below`. `gaps` are the scores of the group minus top. `d` receives the
    derivatives.
    """
    value = 0.0
    for i in range(len(gaps)):
        # e^a, until the derivatives are known. The logarithm a is not used: LLVM would compute s - (top + log(below)).
        d[i] = exp(min(gaps[i], 600.0)) / below
        if d[i] < 1.0:
            value += math.log(below) - gaps[i]
    if len(gaps) == 1:
        chance = min(d[0], 1.0 / d[0])
        d[0] = -1.0 / (1.0 + d[0])
        return value + math.log1p(chance)
    low, high = 0.0, math.log(len(d) + 1.0)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if _height_slope(middle, d) > 0.0:
            low = middle
        else:
            high = middle
    top, beyond = low, math.exp(high)
    level = _height(top, d) - DROP
    from_low, from_high = -DROP - 1.0, top
    to_low, to_high = top, math.log(beyond + DROP + math.sqrt(DROP * (DROP + 2.0 * beyond)))
    for _ in range(HALVINGS):
        middle = 0.5 * (from_low + from_high)
        if _height(middle, d) < level:
            from_low = middle
        else:
            from_high = middle
        middle = 0.5 * (to_low + to_high)
        if _height(middle, d) >= level:
            to_low = middle
        else:
            to_high = middle
    centre, half = 0.5 * (from_low + to_high), 0.5 * (to_high - from_low)
    part = np.empty(NODES)
    total = 0.0
    for k in range(NODES):
        part[k] = NODE_WEIGHTS[k] * exp(_height(centre + half * ABSCISSAS[k], d) - (level + DROP))
        total += part[k]
    for k in range(NODES):
        part[k] /= total
    for i in range(len(d)):
        slope = 0.0
        for k in range(NODES):
            slope += part[k] * _factor_slope(exp(centre + half * ABSCISSAS[k]) * d[i])
        d[i] = -slope
    return value - (math.log(total * half) + level + DROP)


@helper
def _height(z, power):
    """Return the logarithm of the integrand at `z`, without the factors min(e^a, 1). `power` is e^a."""
    v = exp(z)
    height, product = z - v, 1.0
    for i in range(len(power)):
        r = v * power[i]
        if r < 0.01:
            series = 1.0 - r * (1 / 2 - r * (1 / 6 - r * (1 / 24 - r * (1 / 120))))
            product *= series * v * max(power[i], 1.0)
        else:
            product *= (1.0 - exp(-r)) / min(power[i], 1.0)
        if not 1e-200 < product < 1e200:
            height += math.log(product)
            product = 1.0
    return height + math.log(product)


@helper
def _height_slope(z, power):
    """Return the derivative of `_height` by z."""
    v = exp(z)
    slope = 1.0 - v
    for i in range(len(power)):
        slope += _factor_slope(v * power[i])
    return slope


@helper
def _factor_slope(r):
    """Return the derivative of log(1 - exp(-r)) by log r."""
    if r < 0.01:
        return 1.0 - r * (1 / 2 - r * (1 / 12 - r * r * (1 / 720)))
    left = exp(-r)
    return r * left / (1.0 - left)


@helper
def unique(y, s, e, t, d):
    """Compute the value and the derivatives of unique softmax for a list.

    The `field` of a document is the sum of `e` over this document and the documents with lower labels.
    """
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
    """Compute unique softmax as `unique` does, for scores that are far apart.

    A field is stored as e^top * rest. Until the derivatives are known, `d` stores top. `e` stores rest.
    """
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
    # The sum of t / field over the documents with higher labels is e^-level * above.
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
    """Fill `t` with the weights of p-ListMLE. The weight of a rank is about half of the weight of the previous rank.

    If `together`, tied documents have the mean of their weights.
    """
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
    """Return the start of the group of equal labels that ends before `last`."""
    first = last - 1
    while first > 0 and y[first - 1] == y[last - 1]:
        first -= 1
    return first


@helper
def _tied_until(y, first):
    """Return the end of the group of equal labels that starts at `first`."""
    last = first + 1
    while last < len(y) and y[last] == y[first]:
        last += 1
    return last
