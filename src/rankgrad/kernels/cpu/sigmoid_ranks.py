"""Sigmoid ranks for CPU kernels: soft ranks that are sums of sigmoids over a list, and their derivatives.

The functions `near_...` compute a sigmoid as a quotient of powers e^x. If scores are far apart, these powers could
overflow. For such scores, the functions `far_...` compute a separate exponential for each pair.
"""

import math

import numpy as np

from rankgrad.kernels.cpu import helper


@helper
def sigmoid(x):
    """Return 1 / (1 + exp(-x)) without overflow, for sigmoid ranks and the soft cutoff."""
    if x >= 0:
        return 1.0 / (1.0 + math.exp(-x))
    small = math.exp(x)
    return small / (1.0 + small)


@helper
def near_rank(power, own, one):
    """Return the sigmoid rank of a document in a CPU kernel: 1/2 + sum over j of power_j / (own + power_j).

    A power is e^x. `own` is the power of the document. `one` is 1 in the dtype of the powers: with a plain 1, the sum
    would be in float64.
    """
    total = 0.5
    for start in range(0, len(power), 4096):  # so that sums in float32 have few terms
        part, piece = one - one, power[start : start + 4096]  # LLVM vectorises loops over a slice
        for j in range(len(piece)):
            part += piece[j] / (own + piece[j])
        total += part
    return total


@helper
def near_slope(power, by_rank, own, own_by_rank, one):
    """Return the derivative by x_i of a value that depends on sigmoid ranks, in a CPU kernel.

    It is the sum over j of sigmoid'(x_j - x_i) (by_rank_j - by_rank_i). `power` is e^x. `own` is the power of document
    i, and `own_by_rank` is by_rank_i.
    """
    total = 0.0
    for start in range(0, len(power), 4096):
        part, piece, change = one - one, power[start : start + 4096], by_rank[start : start + 4096]
        for j in range(len(piece)):
            share = one / (own + piece[j])
            part += (piece[j] * share) * (own * share) * (change[j] - own_by_rank)
        total += part
    return total


@helper
def cross_slopes(power, by_rank, others, slope, other_slope, one):
    """Add the derivative of each pair to the slopes of both documents, for sigmoid ranks in a CPU kernel.

    A pair is a document and one of `others`. Each pair needs only one division. The ranks of `others` do not count.
    """
    zero = one - one
    column = np.empty(len(others), others.dtype)
    for top in range(0, len(power), 64):  # so that sums in float32 have few terms
        column[:] = zero
        for i in range(top, min(top + 64, len(power))):
            own, change, row = power[i], by_rank[i], zero
            for j in range(len(others)):
                share = one / (own + others[j])
                steep = (others[j] * share) * (own * share)
                row += steep
                column[j] += steep * change
            slope[i] -= row * change
        for j in range(len(others)):
            other_slope[j] += column[j]


@helper
def far_rank(score, i, first, last, alpha):
    """Return the sigmoid rank of document i in a CPU kernel, for scores that are far apart."""
    total = 0.5
    for j in range(first, last):
        total += sigmoid(alpha * (score[j] - score[i]))
    return total


@helper
def far_slope(score, by_rank, i, first, last, alpha):
    """Return the derivative that `near_slope` returns, for scores that are far apart, in a CPU kernel."""
    total = 0.0
    for j in range(first, last):
        share = sigmoid(-abs(alpha * (score[j] - score[i])))
        total += share * (1.0 - share) * (by_rank[j] - by_rank[i])
    return total
