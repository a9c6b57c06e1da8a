"""CPU kernel of ListMLE with Efron's likelihood or the exact likelihood of tied labels.

This kernel is separate from `listwise.py`, because its compilation takes some seconds and few calls need it. As in
`likelihood.py`, the documents of a list are in descending order of their labels. The arguments of the functions are the
labels `y`, the scores `s` and the weights `t`. The functions fill `d` with the derivatives and return the value. `e` is
memory for one number per document.
"""

import math

import numpy as np

from rankgrad.kernels.cpu import helper, kernel
from rankgrad.kernels.cpu.exponential import exp
from rankgrad.kernels.cpu.likelihood import tied_from, tied_until
from rankgrad.kernels.cpu.min_max import extremes
from rankgrad.kernels.cpu.order import by_label
from rankgrad.kernels.cpu.parallel import spread
from rankgrad.kernels.quadrature import ABSCISSAS, DROP, HALVINGS, NODE_WEIGHTS, NODES

FIRST = np.int64(0)  # index of the first task; Numba would compile again for a Python integer


@kernel
def tied_likelihood(given, out, exact, tasks):
    """Compute ListMLE of all lists with the exact likelihood of ties (if `exact`) or with Efron's likelihood."""
    if tasks == 1:
        _task(FIRST, tasks, given, out, exact)
    else:
        spread(_task, tasks, (tasks, given, out, exact))


@helper
def _task(task, tasks, given, out, exact):
    """Compute ListMLE with tied labels in one task. Scratch arrays are as long as the longest of these lists."""
    scores, labels, weights, mask, offsets, keys = given
    values, signal, slopes = out
    from_list, to_list = task * len(values) // tasks, (task + 1) * len(values) // tasks
    longest = 0
    for l in range(from_list, to_list):
        longest = max(longest, offsets[l + 1] - offsets[l])
    place = np.empty(longest, np.int64)  # original position of a document
    rows = np.empty((5, longest), np.float64)  # label, score, memory, weight, derivative of a document
    for l in range(from_list, to_list):
        count = 0
        for i in range(offsets[l], offsets[l + 1]):
            if len(slopes) > 0:
                slopes[i] = 0.0
            if len(mask) == 0 or mask[i]:
                place[count] = i
                count += 1
        here = place[:count]
        y, s, e, t, d = rows[0, :count], rows[1, :count], rows[2, :count], rows[3, :count], rows[4, :count]
        by_label(labels, keys, here)
        for i in range(count):
            y[i], s[i] = labels[here[i]], scores[here[i]]
            t[i] = weights[here[i]] if len(weights) > 0 else 1.0
        low, high = extremes(y)
        signal[l] = low < high
        values[l] = 0.0
        if signal[l]:
            values[l] = _partitioned(y, s, e, t, d) if exact else _efron(y, s, e, t, d)
            for i in range(count if len(slopes) > 0 else 0):
                slopes[here[i]] = d[i]


@helper
def _efron(y, s, e, t, d):
    """Compute the value and the derivatives of ListMLE with Efron's likelihood, for any range of scores.

    A sum of exponentials is stored as e^top * rest. At the first document of a group, `e` contains top until the
    derivatives are computed.
    """
    value, top, below = 0.0, -np.inf, 0.0
    last = len(s)
    while last > 0:
        first = tied_from(y, last)
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
        last = tied_until(y, first)
        chosen *= exp(e[first] - before)
        before = e[first]
        for i in range(first, last):
            d[i] += exp(s[i] - before) * chosen
        chosen += t[first]
        first = last
    return value


@helper
def _partitioned(y, s, e, t, d):
    """Compute the value and the derivatives of ListMLE with the exact likelihood, for any range of scores.

    `rankgrad.kernels.quadrature` describes the integral. The sum of exponentials over the documents below a group is
    e^top * rest. Until the derivatives are computed, `t` contains top and `e` contains rest at the first
    document of the group.
    """
    value, top, below = 0.0, -np.inf, 0.0
    last = len(s)
    while last > 0:
        first = tied_from(y, last)
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
        last = tied_until(y, first)
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
    """Return the log of the exact likelihood's integrand at `z`, without the factors min(e^a, 1). `power` is e^a."""
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
    """Return the derivative of `_height` (the log of the integrand) with respect to z."""
    v = exp(z)
    slope = 1.0 - v
    for i in range(len(power)):
        slope += _factor_slope(v * power[i])
    return slope


@helper
def _factor_slope(r):
    """Return the derivative of the log of one factor of the integrand, log(1 - exp(-r)), with respect to log r."""
    if r < 0.01:
        return 1.0 - r * (1 / 2 - r * (1 / 12 - r * r * (1 / 720)))
    left = exp(-r)
    return r * left / (1.0 - left)
