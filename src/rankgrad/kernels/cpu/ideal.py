"""First steps of the CPU kernels of metrics: find the real documents of a list, and divide gains by the ideal DCG."""

import math

import numpy as np

from rankgrad.kernels.cpu import helper
from rankgrad.kernels.cpu.exponential import exp
from rankgrad.kernels.cpu.order import by_label, descending

_LOG_2 = math.log(2.0)


@helper
def begin_list(l, given, out, threshold):
    """Begin a list in a CPU kernel of a metric: find the positions of the real documents, and initialise the outputs.

    Returns the positions, and the number of relevant documents in the list. Returns no positions if the list has no
    signal or if a score is not finite. The value and the slopes are set to 0, or to NaN if a score is not finite.
    """
    scores, labels, mask, offsets = given
    values, signal, slopes = out
    first, last = offsets[l], offsets[l + 1]
    place = np.empty(last - first, np.int64)
    count, finite, relevant = 0, True, 0
    for i in range(first, last):
        if len(mask) == 0 or mask[i]:
            place[count] = i
            count += 1
            finite = finite and math.isfinite(scores[i])
            relevant += labels[i] > threshold
    signal[l], values[l] = relevant > 0, 0.0 if finite else np.nan
    if len(slopes) > 0:
        slopes[first:last] = 0.0
        for i in range(0 if finite else count):
            slopes[place[i]] = np.nan
    return place[: count if finite and relevant > 0 else 0], relevant


@helper
def ideal_dcg(labels, label_bits, place, discount, linear):
    """Return, in a CPU kernel, the highest label and the ideal DCG of the documents at the positions `place`.

    The function `shares` defines the gains.
    """
    order = place.copy()
    by_label(labels, label_bits, order)
    top = float(labels[order[0]])
    ideal = gain = 0.0
    label = np.nan
    for r in range(min(len(order), len(discount))):
        if labels[order[r]] != label:  # compute exponentials only if the label changes
            label = float(labels[order[r]])
            gain = label if linear else exp((label - top) * _LOG_2) - exp(-top * _LOG_2)
        ideal += gain * discount[r]
    return top, ideal


@helper
def shares(labels, label_bits, place, discount, linear, share):
    """Fill `share` with the gains of documents divided by the ideal DCG of their list, in a CPU kernel of a metric.

    If the ideal DCG is 0, fill `share` with 0. If `linear`, the gain of a label y is y. Otherwise it is
    (2^y - 1) / 2^max(y). The ideal DCG is also divided by 2^max(y), so this divisor cancels.
    """
    top, ideal = ideal_dcg(labels, label_bits, place, discount, linear)
    unit, least = 1.0 / ideal if ideal > 0.0 else 0.0, exp(-top * _LOG_2)
    for i in range(len(place)):
        share[i] = labels[place[i]]
    for i in range(len(place)):
        share[i] = (share[i] if linear else exp((share[i] - top) * _LOG_2) - least) * unit


@helper
def descending_gains(l, given, out, score_bits, label_bits, discount, k):
    """Return positions, scores and gains of the real documents of a list for CPU kernels, by descending scores.

    The gains are divided by the ideal DCG@k. The results are empty if `begin_list` returns no positions.
    """
    place, _ = begin_list(l, given, out, 0.0)
    m = len(place)
    score, gain = np.empty(m), np.empty(m)
    if m > 0:
        descending(given[0], score_bits, place)
        shares(given[1], label_bits, place, discount[: m if k == 0 else min(k, m)], False, gain)
        for i in range(m):
            score[i] = given[0][place[i]]
    return place, score, gain
