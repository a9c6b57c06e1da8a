"""Loops over the pairs of a list, for the CPU kernels of pairwise losses. The formulas are in `pairwise.py`.

Numba compiles the loops once for each way to weight pairs. Pairs are processed in tiles of a fixed width, so that the
compiler uses only vector instructions. At its end, each list is padded with documents that add 0 to all sums. In a
tile on the diagonal, pairs below the diagonal are multiplied by 0.
"""

import math
from functools import cache
from typing import Any

import numpy as np

from rankgrad.kernels.cpu import helper, kernel
from rankgrad.kernels.cpu.ideal import shares
from rankgrad.kernels.cpu.order import descending
from rankgrad.kernels.cpu.parallel import spread

# Weight of a pair. ORDERED: 1 if the labels differ. HINGE: as ORDERED, for the hinge loss.
# SWAPPED: change of the metric if the two documents are swapped. STEPPED: as SWAPPED, with `step` and `lift` of `Plan`.
# EVERY: gain times worth of the document that should win, for both orders of the two documents.
ORDERED, HINGE, SWAPPED, STEPPED, EVERY = np.arange(5)  # Numba would compile again for each Python integer
FIRST = np.int64(0)
LABEL, EXPONENTIAL, LINEAR = range(3)  # gain of a document; EXPONENTIAL and LINEAR are divided by the ideal DCG
# Size of a tile. The width is two AVX-512 vectors of float32. With few rows, sums in float32 have few terms.
ROWS, WIDTH = np.int64(64), np.int64(32)


@cache
def pairwise_kernel(kind: int) -> Any:
    """Return the CPU kernel of pairwise losses, for one way to weight pairs.

    The number `kind` is the only variable in the closure of the kernel. Numba finds the stored kernel by this number.
    """

    @kernel
    def kernel_of_kind(given, out, chosen, c, documents, work):
        offsets, lists, steep = given[4], len(out[0]), chosen[7]
        place, count, owner, tasks, _, _, _ = work
        numbers = (c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8], c[9])
        everything = (given, chosen, numbers, documents, work, out)
        for l in range(lists):
            if tasks[l + 1] - tasks[l] > 1:
                count[l] = sort_list(l, kind, given, chosen, documents, place)
        if kind == ORDERED:
            spread(_ordered, len(owner), everything)
        elif kind == HINGE:
            spread(_hinge, len(owner), everything)
        elif kind == SWAPPED:
            spread(_swapped, len(owner), everything)
        elif kind == STEPPED:
            spread(_stepped, len(owner), everything)
        else:
            spread(_every, len(owner), everything)
        for l in range(lists):
            if tasks[l + 1] - tasks[l] > 1:
                _finish(l, kind, offsets, steep, work, out)

    return kernel_of_kind


@helper
def sort_list(l, kind, given, chosen, documents, place):
    """Sort a list by score for the loops over pairs, and store the data of its documents in this order.

    Returns the number of documents that occur in pairs.
    """
    scores, labels, weights, mask, offsets, score_bits, label_bits = given
    gained, _, columns, ideal, worth, _, _, steep = chosen
    first, count, different = offsets[l], FIRST, False
    place = place[first : offsets[l + 1]]
    for i in range(first, offsets[l + 1]):
        if len(mask) == 0 or mask[i]:
            place[count] = i
            different |= labels[i] != labels[place[0]]
            count += 1
    if not different:
        return 0
    place = place[:count]
    descending(scores, score_bits, place)
    score, power, gain, weight = slices(documents, first + l * WIDTH, count + WIDTH)
    if gained == LABEL:
        for i in range(count):
            gain[i] = labels[place[i]]
    else:
        shares(labels, label_bits, place, ideal, gained == LINEAR, gain)
    highest = gain[0]
    for i in range(count):
        score[i] = scores[place[i]]
        weight[i] = weights[place[i]] if len(weights) > 0 else 1.0
        highest = max(highest, gain[i])
    if kind == EVERY:  # the weight of a pair is the weight of its winner
        highest -= highest
        for i in range(count):
            gain[i] *= worth[i] * weight[i]
    count = min(count, columns)
    if _near(score, count, steep):
        middle = 0.5 * float(score[0]) + 0.5 * score[count - 1]
        for i in range(count):
            power[i] = math.exp(steep * (score[i] - middle))
    for i in range(count, count + WIDTH):
        score[i], power[i], gain[i], weight[i] = score[count - 1], 0.0, highest, 0.0
    return count


@helper
def slices(documents, first, count):
    """Return the scores, powers, gains and weights of consecutive documents, for the loops over pairs."""
    score, power, gain, weight = documents
    last = first + count
    return score[first:last], power[first:last], gain[first:last], weight[first:last]


@helper
def _near(score, count, steep):
    """Return True if the loops over pairs can use exponentials of these sorted scores, without over- or underflow."""
    return steep * (float(score[0]) - score[count - 1]) <= (80.0 if score.itemsize == 4 else 1000.0)


@helper
def _powers(score, i, left, right, steep, power):
    """Compute, for the pairs of document i, exponentials of the differences between other scores and its score.

    This is done only for lists for which `_near` returns False.
    """
    for j in range(left, right):
        power[j] = math.exp(float(steep) * (float(score[j]) - float(score[i]))) if j > i else 0.0
    power[i] = 1.0


@helper
def _finish(l, kind, offsets, steep, work, out):
    """Add up the values and the slopes from all tasks of a list, for a pairwise loss."""
    values, signal, slopes = out
    place, count, _, tasks, begin, parts, pulls = work
    first, n = offsets[l], count[l]
    signal[l], values[l] = n > 0, 0.0
    if len(slopes) > 0:
        slopes[first : offsets[l + 1]] = 0.0
    scale = 1.0 if kind == HINGE else float(steep)
    for t in range(tasks[l + 1] - tasks[l] if n > 0 else 0):
        values[l] += parts[tasks[l] + t]
        for i in range(n if len(slopes) > 0 else 0):
            slopes[place[first + i]] += scale * pulls[begin[l] + t * n + i]


def _task_of(kind: int) -> Any:
    """Return the function that computes one task of a pairwise loss: every `strips`-th block of rows of a list.

    If a list has only one task, the task also sorts the list and stores the results of the list.
    """
    walk = walk_of(kind, curved=False)

    @helper
    def task(number, given, chosen, numbers, documents, work, out):
        place, count, owner, tasks, begin, parts, pulls = work
        l = owner[number]
        strip, strips = number - tasks[l], tasks[l + 1] - tasks[l]
        if strips == 1:
            count[l] = sort_list(l, kind, given, chosen, documents, place)
        n = count[l]
        pull = pulls[begin[l] + strip * n : begin[l] + (strip + 1) * n]
        pull[:] = 0.0
        mine = slices(documents, given[4][l] + l * WIDTH, n + WIDTH)
        parts[number] = walk(strip, strips, n, mine, chosen, numbers, pull, pull)
        if strips == 1:
            _finish(l, kind, given[4], chosen[7], work, out)

    return task


@helper
def _aligned(count, like):
    """Allocate an array for the loops over pairs. It begins at a cache line, so no vector is in two cache lines."""
    memory = np.empty(count + 64 // like.itemsize, like.dtype)
    begin = (64 - memory.ctypes.data % 64) % 64 // like.itemsize
    return memory[begin : begin + count]


def walk_of(kind: int, curved: bool) -> Any:
    """Return the loop over the tiles of pairs of a list, for one way to weight pairs.

    The loop processes every `strips`-th block of rows, starting at block `strip`. It adds the slopes to `pull` and
    returns the value. If `curved`, it adds the curvatures to `bend` instead of computing the value.
    """
    tile = _tile_of(kind, curved)

    @helper
    def walk(strip, strips, n, documents, chosen, numbers, pull, bend):
        score, power, gain, weight = documents
        rows, steep, dtype = min(n, chosen[1]), chosen[7], score.dtype
        near = n == 0 or _near(score, n, steep)
        if not near:
            power = np.zeros(n + WIDTH, dtype)
        # For a tile: its part of `pull`; its values or curvatures; 1 for columns after the row, 0 for others.
        share, heap, later = _aligned(WIDTH, score), _aligned(WIDTH, score), _aligned(2 * WIDTH, score)
        later[:WIDTH] = 0.0
        later[WIDTH:] = 1.0
        total = 0.0
        for top in range(strip * ROWS, rows, strips * ROWS):
            for left in range(top, n, WIDTH):
                bottom = min(top + ROWS, left + WIDTH, rows)
                share[:] = 0.0
                heap[:] = 0.0
                together = ROWS if near else 1
                for i in range(top, bottom, together):
                    if not near:
                        _powers(score, i, left, min(left + WIDTH, n), steep, power)
                    last = min(i + together, bottom)
                    tile(i, last, left, (score, power, gain, weight), chosen, numbers, later, share, heap, pull, bend)
                for j in range(min(WIDTH, n - left)):
                    pull[left + j] += share[j]
                    if curved:
                        bend[left + j] += heap[j]
                for j in range(WIDTH):
                    total += heap[j]
        return total

    return walk


def _tile_of(kind: int, curved: bool) -> Any:
    """Return the loops over the pairs in a tile. `kind` is a constant for Numba, so the inner loop has no branches."""

    @helper
    def tile(top, bottom, left, documents, chosen, logarithm, ramp, share, heap, pull, bend):
        _, _, _, _, worths, steps, lifts, steep = chosen
        scores, powers, gains, weights = documents
        score, power, gain, weight = slices(documents, left, WIDTH)
        worth, lift = worths[left : left + WIDTH], lifts[left : left + WIDTH]
        zero, one, two = share.dtype.type(0), share.dtype.type(1), share.dtype.type(2)
        c0, c1, c2, c3, c4, c5, c6, c7, c8, c9 = logarithm
        for i in range(top, bottom):
            own_score, own_power, own_gain, own_weight = scores[i], powers[i], gains[i], weights[i]
            own_worth = worths[i]
            begin = WIDTH - 1 + min(left - i, 1)
            later = ramp[begin : begin + WIDTH]
            step = steps[WIDTH + left - i : 2 * WIDTH + left - i]
            push = lean = zero
            for j in range(WIDTH):
                # A is the weight of the pair. B is the part of A with which document j should win. j comes after i.
                if kind == EVERY:
                    B = gain[j] * later[j]
                    A = own_gain * later[j] + B
                else:
                    ahead = own_gain - gain[j]
                    A = (own_weight if ahead > zero else weight[j]) * later[j]
                    if kind == SWAPPED:
                        A *= abs(ahead) * (own_worth - worth[j])
                    elif kind == STEPPED:
                        A *= abs(ahead) * ((own_worth - worth[j]) + step[j]) * lift[j]
                    else:
                        A = zero if ahead == zero else A
                    B = zero if ahead > zero else A
                gap = own_score - score[j]
                if kind == HINGE:
                    short, far = steep - gap, steep + gap
                    value = (A - B) * max(short, zero) + B * max(far, zero)
                    change = (A - B if short > zero else zero) - (B if far > zero else zero)
                elif curved:
                    q = power[j] / (own_power + power[j])
                    value = A * q * (one - q)
                    change = A * q - B
                    lean += value
                else:
                    q = power[j] / (own_power + power[j])
                    z = q if share.itemsize == 4 else q / (two - q)
                    x = q if share.itemsize == 4 else z * z
                    log = c6 + x * (c7 + x * (c8 + x * c9))
                    log = c2 + x * (c3 + x * (c4 + x * (c5 + x * log)))
                    log = z * (c0 + x * (c1 + x * log))
                    value = A * log + B * (steep * gap)
                    change = A * q - B
                push += change
                share[j] += change
                heap[j] += value
            pull[i] -= push
            if curved:
                bend[i] += lean

    return tile


_ordered, _hinge, _swapped, _stepped, _every = (_task_of(kind) for kind in (ORDERED, HINGE, SWAPPED, STEPPED, EVERY))
