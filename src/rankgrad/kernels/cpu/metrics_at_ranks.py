"""CPU helpers of the family `approx`: metrics computed from soft ranks.

Each function for a metric returns minus the metric of a list. It also computes the derivative of this value with
respect to the soft rank of each relevant document.
"""

import math

import numpy as np

from rankgrad.kernels.cpu import helper
from rankgrad.kernels.cpu.order import descending
from rankgrad.kernels.cpu.sigmoid_ranks import sigmoid

MANY = 32  # maximum number of different labels for which each gain is computed only once


@helper
def soft_cutoff(rank, k, beta):
    """Return the weight of a rank under the soft cutoff k, in a CPU kernel.

    Also return the derivative of this weight with respect to the rank.
    """
    if k <= 0:
        return 1.0, 0.0
    inside = sigmoid(beta * (k + 0.5 - rank))
    return inside, -beta * inside * (1.0 - inside)


@helper
def ndcg(labels, label_bits, place, rank, by_rank, first, last, k, beta, log_base, slope, sums):
    """Return minus the NDCG of a list at soft ranks, in a CPU kernel, and two derivatives by parameters of LearnDCG.

    The parameters are the logarithm of the gain base, and the slope of the discount. Also fill `by_rank` with the
    derivatives with respect to the ranks.
    """
    if last == first:
        return 0.0, 0.0, 0.0
    # Labels usually have few grades. So each gain is computed once, and for the ideal order only grades are sorted.
    grades, grade_bits = np.empty(last - first, labels.dtype), np.empty(last - first, label_bits.dtype)
    counts = np.zeros(last - first, np.int64)
    grade = np.empty(last - first, np.int64)
    found = 0
    for i in range(first, last):
        y = labels[place[i]]
        g = 0
        while g < found and grades[g] != y:
            g += 1
            if g == MANY:
                g = found  # after MANY grades, computing a gain again takes less time than a search
        if g == found:
            grades[found], grade_bits[found] = y, label_bits[place[i]]
            found += 1
        counts[g] += 1
        grade[i - first] = g
    order = np.empty(found, np.int64)
    for g in range(found):
        order[g] = g
    descending(grades, grade_bits, order)
    top = float(grades[order[0]])
    gains, by_bases = np.empty(found), np.empty(found)
    ideal = ideal_base = ideal_slope = 0.0
    best_sum, best_slope = sums
    before, depth = 0, last - first if k <= 0 else min(last - first, int(k))
    for g in order:
        gains[g], by_bases[g] = _gain(float(grades[g]), top, log_base)
        until = min(before + counts[g], depth)
        if until > before:
            ideal += gains[g] * (best_sum[until] - best_sum[before])
            ideal_base += by_bases[g] * (best_sum[until] - best_sum[before])
            ideal_slope += gains[g] * (best_slope[until] - best_slope[before])
        before = max(until, before)
    dcg = dcg_base = dcg_slope = 0.0
    for i in range(first, last):
        gain, by_base = gains[grade[i - first]], by_bases[grade[i - first]]
        d, by_r, by_slope = _discount(rank[i], slope)
        inside, fading = soft_cutoff(rank[i], k, beta)
        share = 1.0 / d
        dcg += gain * inside * share
        dcg_base += by_base * inside * share
        dcg_slope -= gain * inside * by_slope * share * share
        by_rank[i] = gain * (fading - inside * by_r * share) * share / -ideal
    value = dcg / ideal
    return -value, (value * ideal_base - dcg_base) / ideal, (value * ideal_slope - dcg_slope) / ideal


@helper
def ideal_discounts(longest, slope):
    """Return two tables for the ideal DCG of LearnDCG in a CPU kernel: sums of 1 / d(r), and sums of its derivative.

    d(r) is the discount of rank r. The derivative is with respect to the slope of the discount. Entry r of each result
    is the sum over the ranks from 1 to r.
    """
    sums, by_slopes = np.zeros(longest + 1), np.zeros(longest + 1)
    for r in range(1, longest + 1):
        d, _, by_slope = _discount(float(r), slope)
        sums[r] = sums[r - 1] + 1.0 / d
        by_slopes[r] = by_slopes[r - 1] - by_slope / (d * d)
    return sums, by_slopes


@helper
def _gain(y, top, log_base):
    """Return LearnDCG's gain (b^y - 1) / (b^top - 1) of a label y, in a CPU kernel.

    Also return the derivative of this gain with respect to log b. For b near 1, both are computed by a series.
    """
    if log_base < 1e-5:
        return y / top * (1.0 + 0.5 * (y - top) * log_base), 0.5 * y / top * (y - top)
    small = math.expm1(-top * log_base)
    g = math.exp((y - top) * log_base) * math.expm1(-y * log_base) / small
    # d log(b^y - 1) / d log b = y / (1 - b^-y)
    rise = y / math.expm1(-y * log_base) if y > 0 else 0.0
    return g, g * (top / small - rise)


@helper
def _discount(r, slope):
    """Return LearnDCG's discount d(r) of a rank r, and two derivatives of d(r), in a CPU kernel.

    The derivatives are with respect to r and with respect to the slope. If the slope is 0, d(r) is the log discount,
    ln(1 + r).
    """
    if slope == 0.0:
        return math.log1p(r), 1.0 / (1.0 + r), 0.0
    if slope < 1e-5:
        return r * (1.0 - 0.5 * slope * (r - 1.0)), 1.0 - slope * (r - 0.5), -0.5 * r * (r - 1.0)
    unit = math.log1p(slope)
    d = math.log1p(slope * r) / unit
    return d, slope / (1.0 + slope * r) / unit, (r / (1.0 + slope * r) - d / (1.0 + slope)) / unit


@helper
def precision(rank, by_rank, first, last, k, beta):
    """Return minus the precision@k of a list at soft ranks, in a CPU kernel. Fill `by_rank` with the derivatives."""
    found = 0.0
    for i in range(first, last):
        inside, fading = soft_cutoff(rank[i], k, beta)
        found += inside
        by_rank[i] = -fading / k
    return -found / k


@helper
def reciprocal(score, rank, by_rank, direct, first, last, k, beta, alpha):
    """Return minus the reciprocal rank of a list at soft ranks, in a CPU kernel.

    The value is a mean over the relevant documents, with weights that depend on the scores. Fill `by_rank` with the
    derivatives with respect to the soft ranks. Fill `direct` with the derivatives with respect to the scores in these
    weights, divided by alpha.
    """
    highest = -np.inf
    for i in range(first, last):
        highest = max(highest, score[i])
    mass = mean = 0.0
    for i in range(first, last):
        inside, _ = soft_cutoff(rank[i], k, beta)
        weight = math.exp(alpha * (score[i] - highest))
        mass += weight
        mean += weight * inside / rank[i]
    if mass == 0.0:
        return 0.0
    mean /= mass
    for i in range(first, last):
        inside, fading = soft_cutoff(rank[i], k, beta)
        weight = math.exp(alpha * (score[i] - highest)) / mass
        by_rank[i] = -weight * (fading - inside / rank[i]) / rank[i]
        direct[i] = -weight * (inside / rank[i] - mean)
    return -mean


@helper
def average(rank, above, by_rank, by_above, first, last, k, beta):
    """Return minus the average precision of a list at soft ranks, in a CPU kernel.

    Fill `by_rank` with the derivatives with respect to the soft ranks, and `by_above` with the derivatives with respect
    to `above`, which are the soft ranks among the relevant documents.
    """
    total = 0.0
    relevant = max(last - first, 1)
    for i in range(first, last):
        inside, fading = soft_cutoff(rank[i], k, beta)
        total += above[i] * inside / rank[i]
        by_rank[i] = -above[i] * (fading - inside / rank[i]) / rank[i] / relevant
        by_above[i] = -inside / rank[i] / relevant
    return -total / relevant
