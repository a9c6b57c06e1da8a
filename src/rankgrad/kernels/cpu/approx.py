"""Metrics at sigmoid ranks: ApproxNDCG and LearnDCG, precision, reciprocal rank, average precision.

With e_i = exp(alpha s_i), sigmoid(alpha (s_j - s_i)) = e_j / (e_i + e_j): n exponentials and n^2 divisions, which the
compiler turns into vector instructions. Where scores are so far apart that e would overflow, pairs are computed one by
one. Documents are gathered with the relevant ones first: only their ranks count, and only pairs with one of them have a
derivative.
"""

import math

import numpy as np
from numba import prange
from torch import Tensor

from rankgrad.kernels.cpu import Flat, Results, helper, kernel, launch

NDCG, PRECISION, RECIPROCAL, AVERAGE = 0, 1, 2, 3
_CODES = {"learndcg": NDCG, "approx_precision": PRECISION, "approx_mrr": RECIPROCAL, "approx_ap": AVERAGE}
TINY = 1e-30  # stands for a slope that softplus has rounded to 0
MANY = 32  # different labels in a list
ROWS = 16  # rows of the pair matrix that one task does


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
    """The operator, for this family. Options: k (0: none), beta, threshold, and how to read the three params.

    0: log of the gain base, slope of the curved discount (0: printed form), alpha. 1: LearnDCG's raw parameters, with
    the printed discount; 2: with the curved one.
    """
    flat = Flat.of(scores, labels, None, mask, offsets, n)
    results = Results.like(flat, 3, gradient)
    k, beta, threshold, form = options
    (log_base, slope, alpha), chain = _numbers(params.detach().tolist(), form)
    launch(
        _approx, *flat, *results, _CODES[name], k, beta, threshold, log_base, slope, alpha, flat.scores.dtype.type(1)
    )
    if form:
        np.multiply(results.extras, chain, out=results.extras)
    return results.tensors()


def _numbers(params: list[float], form: float) -> tuple[list[float], list[float]]:
    """What the formula takes, and its derivative by each param."""
    if form == 0:
        return params, [1.0, 1.0, 1.0]
    soft = [max(raw, 0.0) + math.log1p(math.exp(-abs(raw))) for raw in params]
    steep = [1.0 / (1.0 + math.exp(-raw)) if raw > -700 else 0.0 for raw in params]
    slope = max(soft[1], TINY) if form == 2 else 0.0
    return [math.log1p(soft[0]), slope, soft[2]], [steep[0] / (1.0 + soft[0]), steep[1], steep[2]]


@kernel(parallel=True)
def _approx(
    scores,
    labels,
    weights,
    mask,
    offsets,
    values,
    signal,
    slopes,
    extras,
    code,
    k,
    beta,
    threshold,
    log_base,
    slope,
    alpha,
    one,
):
    lists, documents = len(offsets) - 1, len(scores)
    gradient = len(slopes) > 0
    place = np.empty(documents, np.int64)  # where a gathered document came from
    score = np.empty(documents, np.float64)  # alpha s, centred in its list
    power = np.empty_like(scores)  # exp(alpha s)
    count = np.empty(lists, np.int64)  # documents of a list
    hits = np.empty(lists, np.int64)  # relevant ones, which come first
    wide = np.empty(lists, np.bool_)
    rank = np.empty(documents, np.float64)
    above = np.empty(documents, np.float64)  # rank among the relevant ones only, for average precision
    by_rank = np.zeros_like(scores)  # derivative of the value by each rank
    by_above = np.zeros_like(scores)
    direct = np.zeros(documents, np.float64)  # derivative by each score not through its rank
    widest = 80.0 if scores.itemsize == 4 else 340.0  # products of two powers still fit, in any order

    for l in prange(lists):
        first = offsets[l]
        count[l], hits[l] = _gather(labels, mask, first, offsets[l + 1], place, threshold)
        span = _centre(scores, place, first, count[l], score, alpha)
        wide[l] = not span <= widest
        for i in range(first, first + count[l]):
            power[i] = 0.0 if wide[l] else math.exp(score[i])

    tasks = np.empty(lists + 1, np.int64)
    tasks[0] = 0
    for l in range(lists):
        tasks[l + 1] = tasks[l] + (hits[l] + ROWS - 1) // ROWS
    for t in prange(tasks[lists]):
        l = np.searchsorted(tasks, t, side="right") - 1
        first = offsets[l]
        last, mine = first + count[l], first + hits[l]
        for i in range(first + (t - tasks[l]) * ROWS, min(mine, first + (t - tasks[l] + 1) * ROWS)):
            if wide[l]:
                rank[i] = _far_rank(score, i, first, last)
                if code == AVERAGE:
                    above[i] = _far_rank(score, i, first, mine)
            else:
                rank[i] = _near_rank(power[first:last], power[i], one)
                if code == AVERAGE:
                    above[i] = _near_rank(power[first:mine], power[i], one)

    longest = hits.max() if lists > 0 and code == NDCG else 0
    sums = _ideal_discounts(longest if k <= 0 else min(longest, int(k)), slope)
    for l in prange(lists):
        first, last = offsets[l], offsets[l] + hits[l]
        signal[l] = hits[l] > 0
        if gradient and code != NDCG:
            extras[l, :] = 0.0
        if code == NDCG:
            values[l] = _ndcg(
                labels, place, rank, by_rank, first, last, k, beta, log_base, slope, sums, extras, l, gradient
            )
        elif code == PRECISION:
            values[l] = _precision(rank, by_rank, first, last, k, beta)
        elif code == RECIPROCAL:
            values[l] = _reciprocal(score, rank, by_rank, direct, first, last, k, beta)
        else:
            values[l] = _average(rank, above, by_rank, by_above, first, last, k, beta)

    if not gradient:
        return

    for l in range(lists):
        tasks[l + 1] = tasks[l] + (count[l] + ROWS - 1) // ROWS
    for i in prange(documents):
        slopes[i] = 0.0
    for t in prange(tasks[lists]):
        l = np.searchsorted(tasks, t, side="right") - 1
        first = offsets[l]
        last, mine = first + count[l], first + hits[l]
        for i in range(first + (t - tasks[l]) * ROWS, min(last, first + (t - tasks[l] + 1) * ROWS)):
            until = last if i < mine else mine  # an irrelevant document has pairs with relevant ones only
            if wide[l]:
                total = _far_slope(score, by_rank, i, first, until)
            else:
                total = _near_slope(power[first:until], by_rank[first:until], power[i], by_rank[i], one)
            if code == AVERAGE and i < mine:
                if wide[l]:
                    total += _far_slope(score, by_above, i, first, mine)
                else:
                    total += _near_slope(power[first:mine], by_above[first:mine], power[i], by_above[i], one)
            slopes[place[i]] = alpha * (total + direct[i])

    if code == NDCG:
        for l in prange(lists):
            # Only alpha s enters, so the derivative by alpha follows from those by the scores.
            total = 0.0
            for i in range(offsets[l], offsets[l] + count[l]):
                total += score[i] / alpha * slopes[place[i]]
            extras[l, 2] = total / alpha


@helper
def _gather(labels, mask, first, last, place, threshold):
    """Put the places of the real documents into `place[first:]`, the relevant ones first; count all and those."""
    hits = 0
    for i in range(first, last):
        if (len(mask) == 0 or mask[i]) and labels[i] > threshold:
            place[first + hits] = i
            hits += 1
    count = hits
    for i in range(first, last):
        if (len(mask) == 0 or mask[i]) and not labels[i] > threshold:
            place[first + count] = i
            count += 1
    return count, hits


@helper
def _centre(scores, place, first, count, score, alpha):
    """alpha s around the middle of its range; returns the width of the range."""
    low, high = np.inf, -np.inf
    for i in range(first, first + count):
        low, high = min(low, scores[place[i]]), max(high, scores[place[i]])
    middle = 0.5 * low + 0.5 * high
    for i in range(first, first + count):
        score[i] = alpha * (scores[place[i]] - middle)
    return alpha * (high - low) if count > 0 else 0.0


@helper
def _near_rank(power, own, one):
    """Ranks by division. `one` is 1 in the dtype of the powers: with a plain 1 all would be computed in float64."""
    total = 0.5
    for start in range(0, len(power), 4096):  # sums of float32 stay short
        part, piece = one - one, power[start : start + 4096]  # LLVM vectorises a loop over a slice, from 0 up
        for j in range(len(piece)):
            part += piece[j] / (own + piece[j])
        total += part
    return total


@helper
def _near_slope(power, by_rank, own, own_by_rank, one):
    """sum over j of sigmoid'(j - i) (by_rank_j - by_rank_i)."""
    total = 0.0
    for start in range(0, len(power), 4096):
        part, piece, change = one - one, power[start : start + 4096], by_rank[start : start + 4096]
        for j in range(len(piece)):
            share = one / (own + piece[j])
            part += (piece[j] * share) * (own * share) * (change[j] - own_by_rank)
        total += part
    return total


@helper
def _sigmoid(x):
    if x >= 0:
        return 1.0 / (1.0 + math.exp(-x))
    small = math.exp(x)
    return small / (1.0 + small)


@helper
def _far_rank(score, i, first, last):
    total = 0.5
    for j in range(first, last):
        total += _sigmoid(score[j] - score[i])
    return total


@helper
def _far_slope(score, by_rank, i, first, last):
    total = 0.0
    for j in range(first, last):
        share = _sigmoid(-abs(score[j] - score[i]))
        total += share * (1.0 - share) * (by_rank[j] - by_rank[i])
    return total


@helper
def _cut(rank, k, beta):
    """The soft cutoff and its derivative by the rank."""
    if k <= 0:
        return 1.0, 0.0
    inside = _sigmoid(beta * (k + 0.5 - rank))
    return inside, -beta * inside * (1.0 - inside)


@helper
def _ndcg(labels, place, rank, by_rank, first, last, k, beta, log_base, slope, sums, extras, l, gradient):
    """Minus NDCG; its derivatives by the ranks, by the log of the gain base and by the slope of the discount."""
    if gradient:
        extras[l, :] = 0.0
    if last == first:
        return 0.0
    # Labels are mostly a few grades: the gain of each is computed once, and the ideal order needs no sort of documents.
    grades = np.empty(last - first, labels.dtype)
    counts = np.zeros(last - first, np.int64)
    grade = np.empty(last - first, np.int64)
    found = 0
    for i in range(first, last):
        y = labels[place[i]]
        g = 0
        while g < found and grades[g] != y:
            g += 1
            if g == MANY:
                g = found  # so many that looking them up costs more than computing them again
        if g == found:
            grades[found] = y
            found += 1
        counts[g] += 1
        grade[i - first] = g
    order = np.argsort(-grades[:found])
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
        inside, fading = _cut(rank[i], k, beta)
        share = 1.0 / d
        dcg += gain * inside * share
        dcg_base += by_base * inside * share
        dcg_slope -= gain * inside * by_slope * share * share
        by_rank[i] = gain * (fading - inside * by_r * share) * share / -ideal
    value = dcg / ideal
    if gradient:
        extras[l, 0] = -(dcg_base - value * ideal_base) / ideal
        extras[l, 1] = -(dcg_slope - value * ideal_slope) / ideal
    return -value


@helper
def _ideal_discounts(longest, slope):
    """Running sums of 1 / d(r) and of its derivative by the slope, from 0 ranks up."""
    sums, by_slopes = np.zeros(longest + 1), np.zeros(longest + 1)
    for r in range(1, longest + 1):
        d, _, by_slope = _discount(float(r), slope)
        sums[r] = sums[r - 1] + 1.0 / d
        by_slopes[r] = by_slopes[r - 1] - by_slope / (d * d)
    return sums, by_slopes


@helper
def _gain(y, top, log_base):
    """(b^y - 1) / (b^top - 1) and its derivative by log b, down to b = 1, where it is y / top."""
    if log_base < 1e-5:
        return y / top * (1.0 + 0.5 * (y - top) * log_base), 0.5 * y / top * (y - top)
    small = math.expm1(-top * log_base)
    g = math.exp((y - top) * log_base) * math.expm1(-y * log_base) / small
    # d log(b^y - 1) / d log b = y / (1 - b^-y)
    rise = y / math.expm1(-y * log_base) if y > 0 else 0.0
    return g, g * (top / small - rise)


@helper
def _discount(r, slope):
    """d(r), and its derivatives by r and by the slope; slope 0 stands for the printed form, ln(1 + r)."""
    if slope == 0.0:
        return math.log1p(r), 1.0 / (1.0 + r), 0.0
    if slope < 1e-5:
        return r * (1.0 - 0.5 * slope * (r - 1.0)), 1.0 - slope * (r - 0.5), -0.5 * r * (r - 1.0)
    unit = math.log1p(slope)
    d = math.log1p(slope * r) / unit
    return d, slope / (1.0 + slope * r) / unit, (r / (1.0 + slope * r) - d / (1.0 + slope)) / unit


@helper
def _precision(rank, by_rank, first, last, k, beta):
    found = 0.0
    for i in range(first, last):
        inside, fading = _cut(rank[i], k, beta)
        found += inside
        by_rank[i] = -fading / k
    return -found / k


@helper
def _reciprocal(score, rank, by_rank, direct, first, last, k, beta):
    highest = -np.inf
    for i in range(first, last):
        highest = max(highest, score[i])
    mass = mean = 0.0
    for i in range(first, last):
        inside, _ = _cut(rank[i], k, beta)
        weight = math.exp(score[i] - highest)
        mass += weight
        mean += weight * inside / rank[i]
    if mass == 0.0:
        return 0.0
    mean /= mass
    for i in range(first, last):
        inside, fading = _cut(rank[i], k, beta)
        weight = math.exp(score[i] - highest) / mass
        by_rank[i] = -weight * (fading - inside / rank[i]) / rank[i]
        direct[i] = -weight * (inside / rank[i] - mean)
    return -mean


@helper
def _average(rank, above, by_rank, by_above, first, last, k, beta):
    total = 0.0
    relevant = max(last - first, 1)
    for i in range(first, last):
        inside, fading = _cut(rank[i], k, beta)
        total += above[i] * inside / rank[i]
        by_rank[i] = -above[i] * (fading - inside / rank[i]) / rank[i] / relevant
        by_above[i] = -inside / rank[i] / relevant
    return -total / relevant
