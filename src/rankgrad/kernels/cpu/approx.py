"""CPU kernels of the family `approx`: metrics computed from sigmoid ranks.

The metrics are NDCG (ApproxNDCG and LearnDCG), precision, reciprocal rank and average precision.

With e_i = exp(alpha s_i), sigmoid(alpha (s_j - s_i)) = e_j / (e_i + e_j). So a list needs n exponentials and n^2
divisions, which the compiler vectorises. If scores are so far apart that e would overflow, a sigmoid is computed for
each pair. In the work arrays the relevant documents come first. Only the ranks of relevant documents count, and only
pairs with a relevant document have a derivative.
"""

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rankgrad.kernels.cpu import FlatLists, KernelOutputs, helper, kernel, launch
from rankgrad.kernels.cpu.exponential import exp
from rankgrad.kernels.cpu.metrics_at_ranks import average, ideal_discounts, ndcg, precision, reciprocal
from rankgrad.kernels.cpu.min_max import extremes
from rankgrad.kernels.cpu.order import bits
from rankgrad.kernels.cpu.parallel import spread
from rankgrad.kernels.cpu.sigmoid_ranks import cross_slopes, far_rank, far_slope, near_rank, near_slope
from rankgrad.kernels.options import ApproxOptions, ParamForm

# NumPy integers, because Numba would compile a helper again for each Python integer.
NDCG, PRECISION, RECIPROCAL, AVERAGE = np.arange(4)
_CODES = {"learndcg": NDCG, "approx_precision": PRECISION, "approx_mrr": RECIPROCAL, "approx_ap": AVERAGE}
TINY = 1e-30  # replaces a slope of the discount that softplus has rounded to 0
LONG = 1024  # a list with more documents is computed by several threads
ROWS, FIRST = np.int64(16), np.int64(0)  # number of rows per task of a long list; index of the first task


def run(
    name: str,
    scores: Tensor,
    labels: Tensor,
    weights: Tensor | None,
    mask: Tensor | None,
    offsets: Tensor | None,
    n: int,
    params: Tensor,
    options: ApproxOptions,
    gradient: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Run the operator on the CPU for a loss of the family `approx`."""
    flat = FlatLists.of(scores, labels, None, mask, offsets, n)
    results = KernelOutputs.like(flat, 3, gradient)
    inner, chain = _numbers(params.detach().tolist(), options.form)
    numbers = (float(options.k), options.beta, options.threshold, *inner)
    given = (*flat.unweighted, bits(flat.labels))
    launch(_approx(_CODES[name]), given, (*results,), numbers, flat.scores.dtype.type(1), _work(flat))
    if options.form:
        np.multiply(results.extras, chain, out=results.extras)
    return results.tensors()


def _numbers(params: list[float], form: ParamForm) -> tuple[list[float], list[float]]:
    """Return the parameters in the formulas of the Approx losses on the CPU, and their derivatives by `params`.

    The parameters are the logarithm of the gain base, the slope of the discount (0 for the log discount) and alpha.
    """
    if form == ParamForm.FIXED:
        return params, [1.0, 1.0, 1.0]
    soft = [max(raw, 0.0) + math.log1p(math.exp(-abs(raw))) for raw in params]
    steep = [1.0 / (1.0 + math.exp(-raw)) if raw > -700 else 0.0 for raw in params]
    slope = max(soft[1], TINY) if form == ParamForm.LEARNED_CURVED else 0.0
    return [math.log1p(soft[0]), slope, soft[2]], [steep[0] / (1.0 + soft[0]), steep[1], steep[2]]


def _work(flat: FlatLists) -> tuple[NDArray[Any], ...]:
    """Allocate the work arrays of the CPU kernels of the Approx losses, with one entry per document or per list.

    The arrays of numbers are parts of one array, so that their distances are the same in every call. LLVM chooses
    between two versions of a loop by the distances of its arrays, and the versions may differ in the last bit.
    """
    documents, lists, dtype = len(flat.scores), len(flat.offsets) - 1, flat.scores.dtype
    numbers = np.empty(7 * documents)
    score, rank, above, direct = (numbers[part * documents : (part + 1) * documents] for part in range(4))
    rest = numbers[4 * documents :].view(dtype)
    power, by_rank, by_above = (rest[part * documents : (part + 1) * documents] for part in range(3))
    return (
        np.empty(documents, np.int64),  # place: original position of a document
        score,  # score of a document; unless its list is wide, minus the middle of the score range
        power,  # exp(alpha score)
        np.empty(lists, np.int64),  # count: number of real documents of a list
        np.empty(lists, np.int64),  # hits: number of relevant documents of a list
        np.empty(lists, np.bool_),  # wide: True if the powers of a list would overflow
        rank,  # soft rank
        above,  # soft rank among the relevant documents, for average precision
        by_rank,  # derivative of the value with respect to each rank
        by_above,  # derivative of the value with respect to each `above`
        direct,  # part of the derivative with respect to each score, computed before `_slope_rows`
    )


@cache
def _approx(code: int) -> Any:
    """Return the CPU kernel of the Approx losses for one metric.

    The number `code` is the only variable in the closure of the kernel. Numba finds the stored kernel by this number.
    """

    @kernel
    def approx(given, out, told, one, work):
        offsets, values, slopes, count, hits = given[3], out[0], out[2], work[3], work[4]
        k, beta, threshold, log_base, slope, alpha = told
        longest = 0
        for l in range(len(values)):
            longest = max(longest, offsets[l + 1] - offsets[l])
        sums = ideal_discounts(longest if k <= 0 else min(longest, int(k)), slope)
        numbers = (k, beta, threshold, log_base, slope, alpha, sums)
        # One parallel region for all lists that are not long, because each region waits for the slowest core.
        if code == NDCG:
            spread(_ndcg, len(values), (given, work, out, numbers, one))
        elif code == PRECISION:
            spread(_precision, len(values), (given, work, out, numbers, one))
        elif code == RECIPROCAL:
            spread(_reciprocal, len(values), (given, work, out, numbers, one))
        else:
            spread(_average, len(values), (given, work, out, numbers, one))
        for l in range(len(values)):
            if count[l] <= LONG:
                continue
            spread(_rank_rows, (hits[l] + ROWS - 1) // ROWS, (ROWS, l, given, work, code, alpha, one))
            if code == NDCG:
                _ndcg_value(l, given, work, out, numbers)
            elif code == PRECISION:
                _precision_value(l, given, work, out, numbers)
            elif code == RECIPROCAL:
                _reciprocal_value(l, given, work, out, numbers)
            else:
                _average_value(l, given, work, out, numbers)
            if len(slopes) > 0:
                rest = (ROWS, l, given, work, out, code, alpha, False, one)
                spread(_slope_rows, (count[l] + ROWS - 1) // ROWS, rest)
                _by_alpha(l, given, work, out, code, alpha)

    return approx


@helper
def _prepare(l, given, work, numbers):
    """Gather the documents of a list for an Approx loss on the CPU, and compute the powers e^(alpha s) of the scores s.

    Also fill each array with 0 in which later steps write only some entries.
    """
    scores, labels, mask, offsets, _ = given
    place, score, power, count, hits, wide, _, _, by_rank, by_above, direct = work
    _, _, threshold, _, _, alpha, _ = numbers
    first = offsets[l]
    count[l], hits[l] = _gather(labels, mask, first, offsets[l + 1], place, threshold)
    most = 80.0 if scores.itemsize == 4 else 340.0  # so that products of two powers do not overflow
    wide[l] = _centre(scores, place, first, count[l], score, most / alpha)
    last = first + count[l]
    by_rank[first:last] = 0.0
    by_above[first:last] = 0.0
    direct[first:last] = 0.0
    mine, e = score[first:last], power[first:last]
    for i in range(0 if wide[l] else count[l]):
        e[i] = exp(alpha * mine[i])


@helper
def _rank_rows(block, rows, l, given, work, code, alpha, one):
    """Compute the sigmoid ranks of one block of relevant documents of a list, for an Approx loss on the CPU."""
    _, score, power, count, hits, wide, rank, above, _, _, _ = work
    first = given[3][l]
    last, mine = first + count[l], first + hits[l]
    for i in range(first + block * rows, min(mine, first + (block + 1) * rows)):
        if wide[l]:
            rank[i] = far_rank(score, i, first, last, alpha)
            if code == AVERAGE:
                above[i] = far_rank(score, i, first, mine, alpha)
        else:
            rank[i] = near_rank(power[first:last], power[i], one)
            if code == AVERAGE:
                above[i] = near_rank(power[first:mine], power[i], one)


@helper
def _slope_rows(block, rows, l, given, work, out, code, alpha, crossed, one):
    """Compute the slopes of one block of documents of a list, for an Approx loss on the CPU.

    The input is the derivatives of the value with respect to the sigmoid ranks.

    An irrelevant document has pairs only with relevant documents. If `crossed`, `_cross` has already added the
    derivatives of these pairs to `direct`.
    """
    place, score, power, count, hits, wide, _, _, by_rank, by_above, direct = work
    slopes, first = out[2], given[3][l]
    last, mine = first + count[l], first + hits[l]
    for i in range(first + block * rows, min(last, first + (block + 1) * rows)):
        if crossed:
            until = mine if i < mine else first
        else:
            until = last if i < mine else mine
        if wide[l]:
            total = far_slope(score, by_rank, i, first, until, alpha)
        else:
            total = near_slope(power[first:until], by_rank[first:until], power[i], by_rank[i], one)
        if code == AVERAGE and i < mine:
            if wide[l]:
                total += far_slope(score, by_above, i, first, mine, alpha)
            else:
                total += near_slope(power[first:mine], by_above[first:mine], power[i], by_above[i], one)
        slopes[place[i]] = alpha * (total + direct[i])


@helper
def _cross(l, given, work, one):
    """Add the derivatives of pairs of a relevant and an irrelevant document to `direct`, for an Approx loss on the CPU.

    The derivative of a pair is added for both documents.
    """
    _, _, power, count, hits, _, _, _, by_rank, _, direct = work
    first = given[3][l]
    last, mine = first + count[l], first + hits[l]
    cross_slopes(power[first:mine], by_rank[first:mine], power[mine:last], direct[first:mine], direct[mine:last], one)


@helper
def _by_alpha(l, given, work, out, code, alpha):
    """Finish an Approx loss of a list on the CPU: compute the derivative of NDCG with respect to alpha from the slopes.

    Also set the slopes of masked documents to 0. The slopes of NDCG are sufficient, because alpha occurs in the formula
    only as a factor of scores.
    """
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
            total += score[i] * slopes[place[i]]
        extras[l, 2] = total / alpha


@helper
def _gather(labels, mask, first, last, place, threshold):
    """Write the positions of the real documents of a list to `place[first:]`, relevant ones first, for an Approx loss.

    Returns the number of real documents and the number of relevant documents.
    """
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
def _centre(scores, place, first, count, score, most):
    """Copy the scores of a list to `score`, minus the middle of their range, for an Approx loss on the CPU.

    Returns True if the range is larger than `most`. Then nothing is subtracted, because rounding could make two
    different scores equal.
    """
    place, score = place[first : first + count], score[first : first + count]
    for i in range(count):
        score[i] = scores[place[i]]
    low, high = extremes(score)
    wide = count > 0 and not high - low <= most
    middle = 0.0 if wide or count == 0 else 0.5 * low + 0.5 * high
    for i in range(count):
        score[i] -= middle
    return wide


def _functions_of_metric(code: int) -> tuple[Any, Any]:
    """Return two compiled functions of the CPU kernel of the Approx losses, for one metric.

    The first function prepares a list and, if the list is not long, does all other steps. The second function computes
    the value of a list and the derivatives of the value with respect to the ranks.
    """

    @helper
    def value(l, given, work, out, numbers):
        _, labels, _, offsets, label_bits = given
        place, score, _, _, hits, _, rank, above, by_rank, by_above, direct = work
        values, signal, slopes, extras = out
        k, beta, _, log_base, slope, alpha, sums = numbers
        first, last = offsets[l], offsets[l] + hits[l]
        signal[l] = last > first
        if len(slopes) > 0:
            extras[l, 0] = extras[l, 1] = extras[l, 2] = 0.0
        if code == NDCG:
            found = ndcg(labels, label_bits, place, rank, by_rank, first, last, k, beta, log_base, slope, sums)
            values[l] = found[0]
            if len(slopes) > 0:
                extras[l, 0], extras[l, 1] = found[1], found[2]
        elif code == PRECISION:
            values[l] = precision(rank, by_rank, first, last, k, beta)
        elif code == RECIPROCAL:
            values[l] = reciprocal(score, rank, by_rank, direct, first, last, k, beta, alpha)
        else:
            values[l] = average(rank, above, by_rank, by_above, first, last, k, beta)

    @helper
    def list_of_metric(l, given, work, out, numbers, one):
        _prepare(l, given, work, numbers)
        count = work[3][l]
        if count <= LONG:
            _rank_rows(FIRST, count, l, given, work, code, numbers[5], one)
            value(l, given, work, out, numbers)
            if len(out[2]) > 0:
                crossed = not work[5][l]
                if crossed:
                    _cross(l, given, work, one)
                _slope_rows(FIRST, count, l, given, work, out, code, numbers[5], crossed, one)
                _by_alpha(l, given, work, out, code, numbers[5])

    return list_of_metric, value


_ndcg, _ndcg_value = _functions_of_metric(NDCG)
_precision, _precision_value = _functions_of_metric(PRECISION)
_reciprocal, _reciprocal_value = _functions_of_metric(RECIPROCAL)
_average, _average_value = _functions_of_metric(AVERAGE)
