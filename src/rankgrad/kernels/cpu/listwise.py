"""CPU kernel of the family `listwise`: softmax cross entropies and Plackett-Luce likelihoods, in O(n).

Each document has e_i = exp(s_i - highest s), computed by a polynomial that the compiler vectorises. The cross entropies
need the sum of e_i over the list. In the losses of `likelihood.py`, a document competes only with documents whose label
is not higher. So these losses need cumulative sums over the documents, from the lowest label to the highest.
"""

import math

import numpy as np
import torch
from torch import Tensor

from rankgrad.kernels.cpu import FlatLists, KernelOutputs, helper, kernel, launch
from rankgrad.kernels.cpu.exponential import exp
from rankgrad.kernels.cpu.likelihood import far_plackett_luce, far_unique, plackett_luce, position_weights, unique
from rankgrad.kernels.cpu.min_max import extremes
from rankgrad.kernels.cpu.order import bits, by_label
from rankgrad.kernels.cpu.parallel import spread
from rankgrad.kernels.options import ListwiseOptions, Targets, Ties

SOFTMAX, LISTNET, XE_NDCG, POLY1, UNIQUE, LISTMLE, P_LISTMLE = range(7)
_CODES = {
    "softmax": SOFTMAX,
    "listnet": LISTNET,
    "xe_ndcg": XE_NDCG,
    "poly1_softmax": POLY1,
    "unique_softmax": UNIQUE,
    "listmle": LISTMLE,
    "p_listmle": P_LISTMLE,
}
SMALL = 30_000  # for fewer documents in a batch, one thread is faster than several
WIDE = 200.0  # largest range of scores for which sums of e, and products of two sums, do not underflow

FIRST = np.int64(0)  # index of the first task; Numba would compile again for a Python integer
LOG_2 = math.log(2.0)


def run(
    name: str,
    scores: Tensor,
    labels: Tensor,
    weights: Tensor | None,
    mask: Tensor | None,
    offsets: Tensor | None,
    n: int,
    params: Tensor,
    options: ListwiseOptions,
    gradient: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Run the operator on the CPU for a loss of the family `listwise`."""
    flat = FlatLists.of(scores, labels, weights, mask, offsets, n)
    results = KernelOutputs.like(flat, 0, gradient)
    numbers = (options.gamma, options.epsilon, options.targets == Targets.SOFTMAX, options.ties == Ties.TOGETHER)
    threads = torch.get_num_threads()
    # Several tasks per thread, because lists differ in length.
    tasks = 1 if len(flat.scores) < SMALL or threads == 1 else 8 * threads
    given = (*flat, bits(flat.labels))
    if options.ties in (Ties.EFRON, Ties.EXACT):
        from rankgrad.kernels.cpu.tied_likelihood import tied_likelihood

        launch(tied_likelihood, given, results[:3], options.ties == Ties.EXACT, tasks, parallel=tasks > 1)
        return results.tensors()
    launch(_listwise, given, results[:3], _CODES[name], numbers, tasks, parallel=tasks > 1)
    return results.tensors()


@kernel
def _listwise(given, out, code, numbers, tasks):
    """Compute a listwise loss of all lists on the CPU, in one or several tasks."""
    if tasks == 1:
        _listwise_task(FIRST, tasks, given, out, code, numbers)
    else:
        spread(_listwise_task, tasks, (tasks, given, out, code, numbers))


@helper
def _listwise_task(task, tasks, given, out, code, numbers):
    """Compute a listwise loss of lists in one CPU task. Scratch arrays are as long as the longest of these lists."""
    scores, labels, weights, mask, offsets, keys = given
    values, signal, slopes = out
    gamma, epsilon, softmax_targets, together = numbers
    from_list, to_list = task * len(values) // tasks, (task + 1) * len(values) // tasks
    longest = 0
    for l in range(from_list, to_list):
        longest = max(longest, offsets[l + 1] - offsets[l])
    place = np.empty(longest, np.int64)  # original position of a document
    label = np.empty(longest, np.float64)
    score = np.empty(longest, np.float64)  # score, usually minus the highest score of the list
    power = np.empty(longest, np.float64)  # exp(score)
    target = np.empty(longest, np.float64)  # target or weight of a document
    slope = np.empty(longest, np.float64)
    for l in range(from_list, to_list):
        first, last = offsets[l], offsets[l + 1]
        count = last - first if len(mask) == 0 else _real_positions(mask, first, last, place)
        here, y, s, e, t, d = place[:count], label[:count], score[:count], power[:count], target[:count], slope[:count]
        whole = count == last - first  # True if all documents are real; then `place` is not needed
        _take(labels, whole, first, here, y)
        low, high = extremes(y)
        signal[l] = (low < high) if code >= LISTMLE else high > 0.0
        if len(slopes) > 0 and not (whole and signal[l]):
            slopes[first:last] = 0.0
        if not signal[l]:
            values[l] = 0.0
            continue
        if code >= UNIQUE:
            if whole:
                for i in range(count):
                    here[i] = first + i
                whole = False
            by_label(labels, keys, here)
            _take(labels, whole, first, here, y)
        _take(scores, whole, first, here, s)
        lowest, highest = extremes(s)
        near = not highest - lowest > WIDE  # also True for NaN, which makes every sum of the list NaN
        if near or code < UNIQUE:
            for i in range(count):
                s[i] -= highest
                e[i] = exp(s[i])
        _targets(y, t, code, gamma, softmax_targets, together, high)
        if len(weights) > 0:
            _take(weights, whole, first, here, d)
            for i in range(count):
                t[i] *= d[i]
        if code < UNIQUE:
            values[l] = _cross_entropy(s, e, t, d, code, epsilon)
        elif code == UNIQUE:
            values[l] = unique(y, s, e, t, d) if near else far_unique(y, s, e, t, d)
        elif near:
            values[l] = plackett_luce(y, s, e, t, d, code == P_LISTMLE or len(weights) > 0, together)
        else:
            values[l] = far_plackett_luce(y, s, e, t, d, together)
        for i in range(count if len(slopes) > 0 else 0):
            slopes[first + i if whole else here[i]] = d[i]


@helper
def _real_positions(mask, first, last, place):
    """Write the positions of a list's real documents to `place`, for a listwise loss on the CPU. Return the count."""
    count = 0
    for i in range(first, last):
        place[count] = i
        count += mask[i]
    return count


@helper
def _take(values, whole, first, place, out):
    """Copy the values of the documents of a list to `out`, for a listwise loss on the CPU.

    If `whole`, the values begin at position `first`. Otherwise their positions are in `place`.
    """
    if whole:
        values = values[first : first + len(out)]
        for i in range(len(out)):
            out[i] = values[i]
    else:
        for i in range(len(out)):
            out[i] = values[place[i]]


@helper
def _targets(y, t, code, gamma, softmax_targets, together, high):
    """Compute the target of each document in a listwise loss on the CPU, without weights and normalisation."""
    if code == UNIQUE:
        for i in range(len(y)):
            t[i] = exp(min(y[i] * LOG_2, 700.0)) - 1.0  # clipped, so that the result does not overflow
    elif code == LISTNET and softmax_targets:
        for i in range(len(y)):
            t[i] = exp(y[i] - high)
    elif code == XE_NDCG:
        # The gain is divided by 2^max(y), so that large labels do not overflow. The divisor cancels later.
        less = gamma * exp(-high * LOG_2)
        for i in range(len(y)):
            t[i] = exp((y[i] - high) * LOG_2) - less
    elif code == LISTMLE:
        t[:] = 1.0
    elif code == P_LISTMLE:
        position_weights(y, t, together)
    else:
        for i in range(len(y)):
            t[i] = y[i]


@helper
def _cross_entropy(s, e, t, d, code, epsilon):
    """Return the softmax cross entropy of a list on the CPU, and fill `d` with the derivatives by the scores."""
    total = mass = behind = 0.0
    for i in range(len(s)):
        total += e[i]
        mass += t[i]
        behind -= t[i] * s[i]
    share = (1.0 / mass if mass > 0.0 else 0.0) if code != SOFTMAX else 1.0
    scale = share if code != POLY1 else 1.0
    chance = 0.0
    for i in range(len(s)):
        e[i] /= total
        d[i] = scale * (mass * e[i] - t[i])
        chance += t[i] * e[i]
    value = scale * (behind + mass * math.log(total))
    if code == POLY1 and mass > 0.0:
        chance *= share
        value += epsilon * (1.0 - chance)
        for i in range(len(s)):
            d[i] -= epsilon * e[i] * (share * t[i] - chance)
    return value
