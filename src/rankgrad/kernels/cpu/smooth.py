"""Metrics on SmoothI's rank indicators, the product in them held constant.

Each rank is a softmax over the list, and is done with once its share of the value and of the slopes is added: nothing
is kept of it. In average precision the factor of a rank holds a sum over the later ones, which is that over all ranks
less that over the earlier ones: so the slopes are two sums, put together when the total is known.
"""

import math

import numpy as np
from torch import Tensor

from rankgrad.kernels.cpu import Flat, Results, discounts, helper, kernel, launch
from rankgrad.kernels.cpu.exponential import exp
from rankgrad.kernels.cpu.ideal import begin, ideal_dcg
from rankgrad.kernels.cpu.order import bits
from rankgrad.kernels.cpu.parallel import spread

NDCG, PRECISION, AVERAGE = 0, 1, 2
_CODES = {"smooth_ndcg": NDCG, "smooth_precision": PRECISION, "smooth_ap": AVERAGE}
_LOG_2 = math.log(2.0)


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
    """The operator, for this family. Options: k (0: none), alpha, delta, threshold."""
    flat = Flat.of(scores, labels, None, mask, offsets, n)
    results = Results.like(flat, 0, gradient)
    k, alpha, delta, threshold = options
    tables = (bits(flat.labels), discounts(flat.longest))
    launch(_smooth, *flat, *results, *tables, _CODES[name], int(k), alpha, delta, threshold)
    return results.tensors()


@kernel
def _smooth(
    scores, labels, weights, mask, offsets, values, signal, slopes, extras, label_bits, discount,
    code, k, alpha, delta, threshold,
):  # fmt: skip
    given, out = (scores, labels, mask, offsets), (values, signal, slopes)
    spread(_list, len(values), (given, out, label_bits, discount, code, k, alpha, delta, threshold))


@helper
def _list(l, given, out, label_bits, discount, code, k, alpha, delta, threshold):
    """Minus the metric of a list, and its slopes."""
    place, relevant = begin(l, given, out, threshold)
    m = len(place)
    if m == 0:
        return
    scores, labels, slopes = given[0], given[1], out[2]
    depth = m if k == 0 else min(k, m)
    top, ideal = ideal_dcg(labels, label_bits, place, discount[:depth], False) if code == NDCG else (0.0, 0.0)
    x, seen = np.empty(m), np.empty(m)  # alpha times the shifted scores; labels, or whether they are relevant
    lowest = np.inf
    for i in range(m):
        lowest = min(lowest, scores[place[i]])
    for i in range(m):
        x[i] = alpha * (scores[place[i]] - lowest)
        y = labels[place[i]]
        seen[i] = y if code == NDCG else 1.0 if y > threshold else 0.0
    value, slope = _ranks(x, seen, discount, code, depth, delta, top, 1.0 / ideal if ideal > 0.0 else 1.0)
    scale = -1.0 if code == NDCG else -1.0 / (k if code == PRECISION else relevant)
    if len(slopes) > 0:
        total, ties = 0.0, 0
        for i in range(m):
            total += slope[i]
            ties += x[i] == 0.0
        # The lowest scores, by which all are shifted, share the derivative of the shift.
        for i in range(m):
            slopes[place[i]] = scale * alpha * (slope[i] - (total / ties if x[i] == 0.0 else 0.0))
    out[0][l] = scale * value


@helper
def _ranks(x, seen, discount, code, depth, delta, top, unit):
    """The metric, up to a factor, and its derivative by each x."""
    m = len(x)
    left, indicator, slope, later = np.empty(m), np.empty(m), np.empty(m), np.empty(m)
    widest = 0.0
    for i in range(m):
        left[i], slope[i], later[i] = 1.0, 0.0, 0.0
        widest = max(widest, x[i])
    value = above = steps = 0.0
    for r in range(1, depth + 1):
        highest = 0.0 if widest <= 300.0 else -np.inf  # exponentials of small numbers need no shift
        for i in range(m):
            indicator[i] = x[i] * left[i]  # rounded once, so that its difference to the highest is exact
        for i in range(m if highest < 0.0 else 0):
            highest = max(highest, indicator[i])
        mass = mean = 0.0
        for i in range(m):
            indicator[i] = exp(indicator[i] - highest)
            mass += indicator[i]
            mean += indicator[i] * seen[i]
        per = 1.0 / mass
        mean *= per
        if code == NDCG:
            gained = 2.0 ** (mean - top)
            worth = unit * discount[r - 1]
            value += (gained - 2.0**-top) * worth
            factor = gained * _LOG_2 * worth
        elif code == PRECISION:
            value += mean
            factor = 1.0
        else:
            above += mean
            value += mean * above / r
            factor = above / r - steps
            steps += mean / r
        for i in range(m):
            share = indicator[i] * per
            change = share * (seen[i] - mean) * left[i]
            slope[i] += factor * change
            if code == AVERAGE:
                later[i] += change
            left[i] *= 1.0 - share - delta
    for i in range(m):
        slope[i] += steps * later[i]
    return value, slope
