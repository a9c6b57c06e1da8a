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
from rankgrad.kernels.cpu.at_ranks import average, ideal_discounts, ndcg, precision, reciprocal, sigmoid

NDCG, PRECISION, RECIPROCAL, AVERAGE = 0, 1, 2, 3
_CODES = {"learndcg": NDCG, "approx_precision": PRECISION, "approx_mrr": RECIPROCAL, "approx_ap": AVERAGE}
TINY = 1e-30  # stands for a slope that softplus has rounded to 0
LONG = 1024  # documents from which on a list is shared between threads
ROWS = 16  # rows of its pair matrix that one task does


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
    by_rank = np.empty_like(scores)  # derivative of the value by each rank
    by_above = np.empty_like(scores)
    direct = np.empty(documents, np.float64)  # derivative by each score not through its rank
    given = (scores, labels, mask, offsets)
    work = (place, score, power, count, hits, wide, rank, above, by_rank, by_above, direct)
    out = (values, signal, slopes, extras)
    numbers = (code, k, beta, threshold, log_base, slope, alpha)
    longest = 0
    for l in range(lists):
        longest = max(longest, offsets[l + 1] - offsets[l])
    sums = ideal_discounts(longest if k <= 0 else min(longest, int(k)), slope)

    # One parallel region for all lists but the long ones: on a busy machine each region is a wait for the slowest core.
    for l in prange(lists):
        _prepare(l, given, work, numbers)
        if count[l] <= LONG:
            _rank_rows(l, 0, hits[l], given, work, code, one)
            _value(l, given, work, out, numbers, sums)
            if gradient:
                _slope_rows(l, 0, count[l], given, work, out, code, alpha, one)
                _by_alpha(l, given, work, out, code, alpha)
    for l in range(lists):
        if count[l] > LONG:
            for block in prange((hits[l] + ROWS - 1) // ROWS):
                _rank_rows(l, block * ROWS, min(hits[l], (block + 1) * ROWS), given, work, code, one)
            _value(l, given, work, out, numbers, sums)
            if gradient:
                for block in prange((count[l] + ROWS - 1) // ROWS):
                    _slope_rows(l, block * ROWS, min(count[l], (block + 1) * ROWS), given, work, out, code, alpha, one)
                _by_alpha(l, given, work, out, code, alpha)


@helper
def _prepare(l, given, work, numbers):
    """Gather the documents of a list and take their powers; clear what is only partly written later."""
    scores, labels, mask, offsets = given
    place, score, power, count, hits, wide, _, _, by_rank, by_above, direct = work
    _, _, _, threshold, _, _, alpha = numbers
    first = offsets[l]
    count[l], hits[l] = _gather(labels, mask, first, offsets[l + 1], place, threshold)
    span = _centre(scores, place, first, count[l], score, alpha)
    wide[l] = not span <= (80.0 if scores.itemsize == 4 else 340.0)  # products of two powers still fit, in any order
    for i in range(first, first + count[l]):
        power[i] = 0.0 if wide[l] else math.exp(score[i])
        by_rank[i] = by_above[i] = direct[i] = 0.0


@helper
def _rank_rows(l, start, stop, given, work, code, one):
    """Soft ranks of some relevant documents of a list."""
    _, score, power, count, hits, wide, rank, above, _, _, _ = work
    first = given[3][l]
    last, mine = first + count[l], first + hits[l]
    for i in range(first + start, first + stop):
        if wide[l]:
            rank[i] = _far_rank(score, i, first, last)
            if code == AVERAGE:
                above[i] = _far_rank(score, i, first, mine)
        else:
            rank[i] = _near_rank(power[first:last], power[i], one)
            if code == AVERAGE:
                above[i] = _near_rank(power[first:mine], power[i], one)


@helper
def _value(l, given, work, out, numbers, sums):
    """The value of a list, and its derivative by each rank."""
    _, labels, _, offsets = given
    place, score, _, _, hits, _, rank, above, by_rank, by_above, direct = work
    values, signal, slopes, extras = out
    code, k, beta, _, log_base, slope, _ = numbers
    gradient = len(slopes) > 0
    first, last = offsets[l], offsets[l] + hits[l]
    signal[l] = hits[l] > 0
    if gradient:
        extras[l, :] = 0.0
    if code == NDCG:
        values[l] = ndcg(labels, place, rank, by_rank, first, last, k, beta, log_base, slope, sums, extras, l, gradient)
    elif code == PRECISION:
        values[l] = precision(rank, by_rank, first, last, k, beta)
    elif code == RECIPROCAL:
        values[l] = reciprocal(score, rank, by_rank, direct, first, last, k, beta)
    else:
        values[l] = average(rank, above, by_rank, by_above, first, last, k, beta)


@helper
def _slope_rows(l, start, stop, given, work, out, code, alpha, one):
    """The derivative of the list's value by the scores of some of its documents."""
    place, score, power, count, hits, wide, _, _, by_rank, by_above, direct = work
    slopes, first = out[2], given[3][l]
    last, mine = first + count[l], first + hits[l]
    for i in range(first + start, first + stop):
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


@helper
def _by_alpha(l, given, work, out, code, alpha):
    """Only alpha s enters, so the derivative by alpha follows from those by the scores. Masked documents have none."""
    mask, offsets = given[2], given[3]
    place, score, count = work[0], work[1], work[3]
    slopes, extras = out[2], out[3]
    if len(mask) > 0:
        for i in range(offsets[l], offsets[l + 1]):
            if not mask[i]:
                slopes[i] = 0.0
    if code == NDCG:
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
def _far_rank(score, i, first, last):
    total = 0.5
    for j in range(first, last):
        total += sigmoid(score[j] - score[i])
    return total


@helper
def _far_slope(score, by_rank, i, first, last):
    total = 0.0
    for j in range(first, last):
        share = sigmoid(-abs(score[j] - score[i]))
        total += share * (1.0 - share) * (by_rank[j] - by_rank[i])
    return total
