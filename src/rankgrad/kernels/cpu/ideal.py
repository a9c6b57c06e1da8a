"""What kernels of NDCG and its kin do first: find the real documents of a list, and weigh their gains."""

import math

import numpy as np

from rankgrad.kernels.cpu import helper
from rankgrad.kernels.cpu.exponential import exp
from rankgrad.kernels.cpu.order import descending

_LOG_2 = math.log(2.0)


@helper
def gather(scores, labels, mask, first, last, threshold, place):
    """Put where the real documents are into `place`; how many, whether all scores are finite, how many are relevant."""
    count, finite, relevant = 0, True, 0
    for i in range(first, last):
        if len(mask) == 0 or mask[i]:
            place[count] = i
            count += 1
            finite = finite and math.isfinite(scores[i])
            relevant += labels[i] > threshold
    return count, finite, relevant


@helper
def discounts(offsets):
    """1 / log2(1 + rank) for every rank of the longest list."""
    longest = 0
    for l in range(len(offsets) - 1):
        longest = max(longest, offsets[l + 1] - offsets[l])
    discount = np.empty(longest)
    for r in range(longest):
        discount[r] = 1.0 / math.log2(r + 2.0)
    return discount


@helper
def ideal_dcg(labels, label_bits, place, k, discount):
    """The highest label of the documents at `place`, and their ideal DCG@k (k = 0: of all) over 2 to its power."""
    depth = len(place) if k == 0 else min(k, len(place))
    best = np.empty(depth)
    if depth <= 32:  # a few are found sooner than all are sorted
        found = 0
        for i in range(len(place)):
            label = labels[place[i]]
            if found == depth and label <= best[depth - 1]:
                continue
            r = min(found, depth - 1)
            while r > 0 and best[r - 1] < label:
                best[r] = best[r - 1]
                r -= 1
            best[r] = label
            found = min(found + 1, depth)
    else:
        order = place.copy()
        descending(labels, label_bits, order)
        for r in range(depth):
            best[r] = labels[order[r]]
    ideal = 0.0
    for r in range(depth):
        if best[r] <= 0.0:
            break
        ideal += gain(best[r], best[0]) * discount[r]
    return best[0], ideal


@helper
def gain(label, top):
    """2^y - 1 over 2^top; exactly 0 for y = 0."""
    return exp((label - top) * _LOG_2) - exp(-top * _LOG_2)


@helper
def shares(labels, label_bits, place, k, discount, share):
    """Fill `share` with the gains of the documents at `place` over their ideal DCG@k."""
    top, ideal = ideal_dcg(labels, label_bits, place, k, discount)
    for i in range(len(place)):
        share[i] = gain(labels[place[i]], top) / (ideal if ideal > 0.0 else 1.0)
