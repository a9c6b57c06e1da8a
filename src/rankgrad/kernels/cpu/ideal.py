"""First steps of the kernels of NDCG and similar metrics: find the real documents of a list and normalise the gains."""

import math

import numpy as np

from rankgrad.kernels.cpu import helper
from rankgrad.kernels.cpu.exponential import exp
from rankgrad.kernels.cpu.order import by_label, descending

_LOG_2 = math.log(2.0)


@helper
def begin(l, given, out, threshold):
    """Return the positions of the real documents of a list, and the number of its relevant documents.

    Returns no positions if the list has no signal or if a score is not finite. Also initialises the outputs: the value
    and the slopes are 0, or NaN if a score is not finite.
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
    """Return the highest label and the ideal DCG of the documents at `place`. The gains are as in `shares`."""
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
    """Fill `share` with the gains of the documents at `place` divided by the ideal DCG. Fill with 0 if that DCG is 0.

    If `linear`, a gain is y. Otherwise a gain is (2^y - 1) / 2^max(y). The ideal DCG has the same divisor, so the
    divisor cancels.
    """
    top, ideal = ideal_dcg(labels, label_bits, place, discount, linear)
    unit, least = 1.0 / ideal if ideal > 0.0 else 0.0, exp(-top * _LOG_2)
    for i in range(len(place)):
        share[i] = labels[place[i]]
    for i in range(len(place)):
        share[i] = (share[i] if linear else exp((share[i] - top) * _LOG_2) - least) * unit


@helper
def descending_gains(l, given, out, score_bits, label_bits, discount, k):
    """Return positions, scores and gains of the documents, in descending order of scores.

    `begin` returns the same positions in another order. The gains are divided by the ideal DCG@k.
    """
    place, _ = begin(l, given, out, 0.0)
    m = len(place)
    score, gain = np.empty(m), np.empty(m)
    if m > 0:
        descending(given[0], score_bits, place)
        shares(given[1], label_bits, place, discount[: m if k == 0 else min(k, m)], False, gain)
        for i in range(m):
            score[i] = given[0][place[i]]
    return place, score, gain
