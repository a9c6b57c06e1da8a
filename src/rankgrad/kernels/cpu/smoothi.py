"""CPU kernel of the family `smoothi`: metrics computed from SmoothI's rank indicators.

The indicator of a rank is a softmax over the list. Its logits contain a product over the earlier ranks. The derivative
treats this product as a constant. The contribution of a rank to the value and to the slopes is added immediately, and
the indicator is not stored. With a large alpha, tiny differences grow from rank to rank. So documents with equal scores
share one indicator, and sums are computed in the order of the scores. Then the result does not depend on the order of
the documents. In average precision, the factor of a rank contains a sum over the later ranks. This sum is the sum over
all ranks minus the sum over the earlier ranks. So a slope has two parts, which are added at the end, when the sum over
all ranks has been computed.
"""

import math

import numpy as np
from torch import Tensor

from rankgrad.kernels.cpu import FlatLists, KernelOutputs, discounts, helper, kernel, launch
from rankgrad.kernels.cpu.exponential import exp
from rankgrad.kernels.cpu.ideal import begin_list, ideal_dcg
from rankgrad.kernels.cpu.order import bits, descending
from rankgrad.kernels.cpu.parallel import spread
from rankgrad.kernels.options import SmoothIOptions

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
    options: SmoothIOptions,
    gradient: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Run the operator on the CPU for a loss of the family `smoothi`."""
    flat = FlatLists.of(scores, labels, None, mask, offsets, n)
    results = KernelOutputs.like(flat, 0, gradient)
    numbers = (_CODES[name], options.k, options.alpha, options.delta, options.threshold)
    tables = (bits(flat.scores), bits(flat.labels), discounts(flat.longest))
    launch(_smooth, flat.unweighted, results[:3], tables, numbers)
    return results.tensors()


@kernel
def _smooth(given, out, tables, numbers):
    """Compute a SmoothI loss of all lists on the CPU, with one task per list."""
    spread(_smoothi_list, len(out[0]), (given, out, tables, numbers))


@helper
def _smoothi_list(l, given, out, tables, numbers):
    """Compute a SmoothI loss of one list on the CPU, and the slopes of the loss. The loss is minus the metric."""
    score_bits, label_bits, discount = tables
    code, k, alpha, delta, threshold = numbers
    place, relevant = begin_list(l, given, out, threshold)
    m = len(place)
    if m == 0:
        return
    scores, labels, slopes = given[0], given[1], out[2]
    depth = m if k == 0 else min(k, m)
    top, ideal = ideal_dcg(labels, label_bits, place, discount[:depth], False) if code == NDCG else (0.0, 0.0)
    descending(scores, score_bits, place)
    lowest = np.float64(scores[place[m - 1]])  # float() would keep float32
    # Per document: label minus the highest label (NDCG), or 1 if relevant and 0 if not; index of its group of ties.
    seen, group = np.empty(m), np.empty(m, np.int64)
    # Per group: alpha times (score minus the lowest score); number of documents; sum of `seen`.
    x, size, seen_by = np.empty(m), np.empty(m), np.empty(m)
    groups = 0
    for i in range(m):
        if i == 0 or scores[place[i]] != scores[place[i - 1]]:
            x[groups], size[groups], seen_by[groups] = alpha * (scores[place[i]] - lowest), 0.0, 0.0
            groups += 1
        y = labels[place[i]]
        seen[i] = y - top if code == NDCG else 1.0 if y > threshold else 0.0
        group[i] = groups - 1
        size[groups - 1] += 1.0
        seen_by[groups - 1] += seen[i]
    of_groups = (x[:groups], size[:groups], seen_by[:groups])
    unit = 1.0 / ideal if ideal > 0.0 else 1.0
    value, by_seen, by_all = _indicators(of_groups, discount, code, depth, delta, top, unit)
    scale = -1.0 if code == NDCG else -1.0 / (k if code == PRECISION else relevant)
    if len(slopes) > 0:
        total = 0.0
        for g in range(groups):
            total += seen_by[g] * by_seen[g] - size[g] * by_all[g]
        # The lowest score is subtracted from all scores. All documents with this score share the derivative by it.
        by_all[groups - 1] += total / size[groups - 1]
        for i in range(m):
            slopes[place[i]] = scale * alpha * (seen[i] * by_seen[group[i]] - by_all[group[i]])
    out[0][l] = scale * value


@helper
def _indicators(of_groups, discount, code, depth, delta, top, unit):
    """Compute SmoothI's rank indicators on the CPU. Return the metric, up to a factor, and two arrays of derivatives.

    The arrays, `by_seen` and `by_all`, have one entry per group of ties. The derivative of the metric with
    respect to the x of a document is `seen * by_seen - by_all`.
    """
    x, size, seen_by = of_groups
    groups = len(x)
    left, indicator = np.empty(groups), np.empty(groups)
    by_seen, by_all = np.empty(groups), np.empty(groups)
    later_seen, later_all = np.empty(groups), np.empty(groups)
    for g in range(groups):
        left[g], by_seen[g], by_all[g], later_seen[g], later_all[g] = 1.0, 0.0, 0.0, 0.0, 0.0
    value = above = steps = 0.0
    for r in range(1, depth + 1):
        highest = 0.0 if x[0] <= 300.0 else -np.inf  # for small numbers, the maximum does not have to be subtracted
        for g in range(groups):
            indicator[g] = x[g] * left[g]  # rounded here, so that the difference to the highest one is exact
        for g in range(groups if highest < 0.0 else 0):
            highest = max(highest, indicator[g])
        mass = mean = 0.0
        for g in range(groups):
            indicator[g] = exp(indicator[g] - highest)
            mass += indicator[g] * size[g]
            mean += indicator[g] * seen_by[g]
        per = 1.0 / mass
        mean *= per
        if code == NDCG:
            gained = 2.0**mean
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
        for g in range(groups):
            share = indicator[g] * per
            change = share * left[g]
            by_seen[g] += factor * change
            by_all[g] += factor * mean * change
            if code == AVERAGE:
                later_seen[g] += change
                later_all[g] += mean * change
            left[g] *= 1.0 - share - delta
    for g in range(groups):
        by_seen[g] += steps * later_seen[g]
        by_all[g] += steps * later_all[g]
    return value, by_seen, by_all
