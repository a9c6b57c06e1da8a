"""CPU kernel of NeuralNDCG: NDCG of gains that are sorted with the matrix K of NeuralSort. Sinkhorn's rounds scale K.

Documents are in descending order of scores. In row r, the logit of document r is the highest, and the logits decrease
on both sides. Each decrease is the gap between two neighbouring scores times an odd number. So the softmax of a row is
a band around the diagonal, and entries outside the band are negligible. The band is stored in blocks of four rows if it
takes at most 4 MB. Otherwise every sweep computes the band again.

A round computes `v = 1 / (K' u)` and then `u = 1 / (K v)`. A round is one sweep over the rows: as soon as the sum of
a row is computed, the scaled row is added to the column sums of the next round. The backward pass does the same sweeps
in reverse order and needs no second matrix. The value depends on the scores through the logits of K. The derivative of
a logit with respect to a score contains the distance of the entry from the diagonal. So a sweep also adds up the
entries multiplied by this distance. The other terms cancel, because scaling the columns of K does not change the
result.
"""

from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from rankgrad.kernels.cpu import FlatLists, KernelOutputs, discounts, helper, kernel, launch
from rankgrad.kernels.cpu.exponential import exp
from rankgrad.kernels.cpu.ideal import descending_gains
from rankgrad.kernels.cpu.order import bits
from rankgrad.kernels.cpu.parallel import spread
from rankgrad.kernels.options import NeuralNDCGOptions

MATRIX_BYTES = 4 << 20  # maximum size of a matrix that is stored
WIDE = 16  # number of entries per vector instruction; blocks begin and end at multiples of this number
# Modes of a sweep, which decide the factors of rows. NumPy integers: Numba would compile again for each Python integer.
FIRST, GIVEN, SCALE, BACK, END = np.arange(5)


class BandMatrix(NamedTuple):
    """Matrix K of NeuralSort for one list, in blocks of four rows. Columns are in descending order of scores."""

    cells: Any  # all blocks one after the other, each (4, width); if K is not stored, only the latest block
    at: Any  # (blocks,), start of each block in cells
    low: Any  # (blocks,), first column of each block
    width: Any  # (blocks,), number of columns of each block
    begin: Any  # (m,), for each row, the first column with an entry that is not negligible
    end: Any  # (m,), for each row, the column after the last entry that is not negligible
    x: Any  # (m,), (score minus the highest score of its segment) / temperature
    spread: Any  # (m,), sum of the distances of a score from all other scores, up to a constant per segment
    index: Any  # (columns,), 0, 1, 2, ... in the dtype of the scores


def run(
    name: str,
    scores: Tensor,
    labels: Tensor,
    weights: Tensor | None,
    mask: Tensor | None,
    offsets: Tensor | None,
    n: int,
    params: Tensor,
    options: NeuralNDCGOptions,
    gradient: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Run the operator on the CPU for NeuralNDCG."""
    flat = FlatLists.of(scores, labels, None, mask, offsets, n)
    results = KernelOutputs.like(flat, 0, gradient)
    numbers = (options.k, options.temperature, options.transposed, options.sinkhorn_rounds, MATRIX_BYTES)
    tables = (bits(flat.scores), bits(flat.labels), discounts(flat.longest))
    launch(_neural, flat.unweighted, results[:3], tables, numbers)
    return results.tensors()


@kernel
def _neural(given, out, tables, numbers):
    """Compute NeuralNDCG of all lists on the CPU, with one task per list."""
    spread(_neural_ndcg_list, len(out[0]), (given, out, tables, numbers))


@helper
def _neural_ndcg_list(l, given, out, tables, numbers):
    """Compute NeuralNDCG (minus the NDCG of sorted gains) of one list on the CPU, and the slopes of this value."""
    scores, slopes = given[0], out[2]
    score_bits, label_bits, discount = tables
    k, temperature, transposed, rounds, matrix_bytes = numbers
    place, score, gain = descending_gains(l, given, out, score_bits, label_bits, discount, k)
    if len(place) == 0:
        return
    band = _band(score, scores, temperature, matrix_bytes)
    gained = np.empty(len(band.index), scores.dtype)
    for i in range(len(gained)):
        gained[i] = gain[i] if i < len(gain) else 0.0
    value, whole, moved = _sinkhorn(band, gained, discount, k, transposed, rounds, len(slopes) > 0)
    if len(slopes) > 0:
        _slopes_from_logits(score, whole, moved, gain)
        for i in range(len(place)):
            slopes[place[i]] = -gain[i] / temperature
    out[0][l] = -value


@helper
def _band(score, like, temperature, matrix_bytes):
    """Allocate NeuralSort's band matrix of a list. The scores of the list are divided into segments.

    The scores of two segments are so far apart that an entry is negligible if its row is in one segment and its column
    in the other segment.
    """
    m = len(score)
    cut = 40.0 if like.itemsize == 4 else 80.0
    x, spread = np.empty(m), np.empty(m)
    begin, end = np.empty(m, np.int64), np.empty(m, np.int64)
    x[0], spread[0], begin[0] = 0.0, 0.0, 0
    for i in range(1, m):
        gap = (score[i - 1] - score[i]) / temperature
        far = gap > cut
        begin[i] = i if far else begin[i - 1]
        x[i] = 0.0 if far else x[i - 1] - gap
        spread[i] = 0.0 if far else spread[i - 1] - gap * (m - 2 * i)
    low, high = 0, 0
    for r in range(m):  # both ends of the band only move to the right
        segment, slant = begin[r], m - 1 - 2 * r
        low = max(low, segment)
        while slant * (x[low] - x[r]) - (spread[low] - spread[r]) < -cut:
            low += 1
        high = max(high, r + 1)
        while high < m and begin[high] == segment and slant * (x[high] - x[r]) - (spread[high] - spread[r]) >= -cut:
            high += 1
        begin[r], end[r] = low, high
    blocks, total, widest = (m + 3) // 4, 0, 0
    at, left, width = np.empty(blocks, np.int64), np.empty(blocks, np.int64), np.empty(blocks, np.int64)
    for b in range(blocks):
        left[b] = begin[4 * b] // WIDE * WIDE
        width[b] = (end[min(4 * b + 3, m - 1)] - left[b] + WIDE - 1) // WIDE * WIDE
        at[b] = total
        total += 4 * width[b]
        widest = max(widest, 4 * width[b])
    if total * like.itemsize > matrix_bytes:
        total = widest
        for b in range(blocks):
            at[b] = 0
    index = np.empty((m + WIDE - 1) // WIDE * WIDE, like.dtype)
    for j in range(len(index)):
        index[j] = j
    return BandMatrix(np.empty(total, like.dtype), at, left, width, begin, end, x, spread, index)


@helper
def _fill(band, b, block):
    """Compute the entries of one block of NeuralSort's band matrix."""
    width, low = band.width[b], band.low[b]
    for j in range(len(block)):
        block[j] = 0.0
    for r in range(4 * b, min(4 * b + 4, len(band.x))):
        begin, end, slant = band.begin[r], band.end[r], len(band.x) - 1.0 - 2.0 * r
        row = block[(r - 4 * b) * width + begin - low : (r - 4 * b) * width + end - low]
        x, spread = band.x[begin:end], band.spread[begin:end]
        peak = slant * band.x[r] - band.spread[r]
        total = 0.0
        for j in range(len(row)):
            entry = exp(min(slant * x[j] - spread[j] - peak, 0.0))
            total += entry
            row[j] = entry
        for j in range(len(row)):
            row[j] /= total


@helper
def _sweep(band, vector, mode, own, extra, factor, near, far):
    """Do one sweep over NeuralSort's band matrix: multiply each row by `vector`, and compute the factor of the row.

    `mode` decides how the factor is computed. Then fill `near`: for each column, add up factor times entry over all
    rows. Fill `far`: for each column, add up factor times entry times distance over all rows. The distance of an entry
    is its column index minus its row index.
    """
    for j in range(len(near)):
        near[j] = 0.0
        far[j] = 0.0
    kept = len(band.at) == 1 or band.at[1] > 0
    for b in range(len(band.at)):
        width, at, low = band.width[b], band.at[b], band.low[b]
        if mode == FIRST or not kept:
            _fill(band, b, band.cells[at : at + 4 * width])
        k0, k1 = band.cells[at : at + width], band.cells[at + width : at + 2 * width]
        k2, k3 = band.cells[at + 2 * width : at + 3 * width], band.cells[at + 3 * width : at + 4 * width]
        if mode > GIVEN:
            part = vector[low : low + width]
            s0 = s1 = s2 = s3 = near.dtype.type(0.0)
            for j in range(width):
                s0 += k0[j] * part[j]
                s1 += k1[j] * part[j]
                s2 += k2[j] * part[j]
                s3 += k3[j] * part[j]
            factor[4 * b], factor[4 * b + 1], factor[4 * b + 2], factor[4 * b + 3] = s0, s1, s2, s3
            for r in range(4 * b, 4 * b + 4):
                if mode == SCALE:
                    factor[r] = own[r] = 1.0 / factor[r] if factor[r] > 0 else 0.0
                elif mode == BACK:
                    factor[r] = -(factor[r] + extra[r]) * own[r] * own[r]
                else:
                    factor[r] += extra[r]
        f0, f1, f2, f3 = factor[4 * b], factor[4 * b + 1], factor[4 * b + 2], factor[4 * b + 3]
        g2, g3 = f2 + f2, f3 + f3 + f3
        index, sums, distances = band.index[low : low + width], near[low : low + width], far[low : low + width]
        first = near.dtype.type(4 * b)
        for j in range(width):
            all_four = f0 * k0[j] + f1 * k1[j] + f2 * k2[j] + f3 * k3[j]
            sums[j] += all_four
            distances[j] += (index[j] - first) * all_four - (f1 * k1[j] + g2 * k2[j] + g3 * k3[j])


@helper
def _sinkhorn(band, gained, discount, k, transposed, rounds, gradient):
    """Do Sinkhorn's rounds on the band matrix. Return the NDCG of the sorted gains, and two sums for each column j.

    Both sums are over all rows r. The first sum adds up the derivatives of the NDCG with respect to the logits (r, j).
    The second sum adds up these derivatives times (j - r).
    """
    m, tall, wide = len(band.x), 4 * len(band.at), len(band.index)
    dtype = gained.dtype
    u, v = np.empty((rounds + 1, tall), dtype), np.empty((rounds + 1, wide), dtype)
    side = np.empty((rounds + 1, wide), dtype)
    near, far, by_v = np.empty(wide, dtype), np.empty(wide, dtype), np.empty(wide, dtype)
    factor, extra = np.empty(tall, dtype), np.empty(tall, dtype)
    for r in range(tall):
        u[0, r] = 1.0 if r < m else 0.0
        extra[r] = 0.0
    for j in range(wide):
        v[0, j] = 1.0
    _sweep(band, near, FIRST, near, near, u[0], near, far)
    # v[t] scales columns to sum 1 after rows were scaled by u[t - 1]. u[t] scales rows to sum 1 after columns were
    # scaled by v[t]. The transposed form omits the last u.
    for t in range(1, rounds + 1):
        for j in range(wide):
            v[t, j] = 1.0 / near[j] if near[j] > 0 else 0.0
            side[t, j] = far[j]
        if t < rounds or not transposed:
            _sweep(band, v[t], SCALE, u[t], u[t], u[t], near, far)
    last_u = rounds - 1 if transposed and rounds > 0 else rounds

    for j in range(wide):
        by_v[j] = v[rounds, j] * gained[j]
    _sweep(band, by_v, END, extra, extra, factor, near, far)
    value = 0.0
    for r in range(m):
        worth = discount[r] if k == 0 or r < k else 0.0
        extra[r] = worth * factor[r]
        value += extra[r] * u[last_u, r]
        factor[r] = worth * u[last_u, r]
    whole, moved = np.empty(wide), np.empty(wide)
    if not gradient:
        return value, whole, moved
    _sweep(band, near, GIVEN, near, near, factor, near, far)
    for j in range(wide):
        by_v[j] = gained[j] * near[j]
        moved[j] = v[rounds, j] * gained[j] * far[j]
        whole[j] = by_v[j] if rounds == 0 else 0.0
    # Loop from the last u or v to the first. `extra` is the derivative by a u that is not processed yet.
    if last_u == rounds and rounds > 0:
        for r in range(tall):
            factor[r] = -extra[r] * u[rounds, r] * u[rounds, r]
            extra[r] = 0.0
        _sweep(band, near, GIVEN, near, near, factor, near, far)
        for j in range(wide):
            by_v[j] += near[j]
            moved[j] += v[rounds, j] * far[j]
    for t in range(rounds, 0, -1):
        for j in range(wide):
            by_v[j] *= -v[t, j] * v[t, j]
            moved[j] += by_v[j] * side[t, j]
        _sweep(band, by_v, BACK if t > 1 else END, u[t - 1], extra, factor, near, far)
        for j in range(wide):
            by_v[j] = near[j]
            moved[j] += v[t - 1, j] * far[j] if t > 1 else 0.0
        for r in range(tall):
            extra[r] = 0.0
    if rounds == 0:
        _sweep(band, near, GIVEN, near, near, extra, near, far)
    for j in range(wide):
        whole[j] -= near[j]
        moved[j] -= far[j]
    return value, whole, moved


@helper
def _slopes_from_logits(score, whole, moved, slope):
    """Compute the slopes of NeuralNDCG on the CPU from the derivatives with respect to the logits.

    The logit of rank r and document j is (m + 1 - 2r) s_j - sum over k of |s_j - s_k|. For ties, the derivative of
    |s_j - s_k| is 0.
    """
    m = len(score)
    total = before = 0.0
    for j in range(m):
        total += whole[j]
    start = 0
    while start < m:
        end, tied = start, 0.0
        while end < m and score[end] == score[start]:
            tied += whole[end]
            end += 1
        for j in range(start, end):
            # The factor of s_j in the logit on the diagonal, minus (number of lower scores - number of higher scores).
            # Without ties, the result is 0.
            uneven = (m - 1 - 2 * j) - ((m - end) - start)
            slope[j] = 2.0 * moved[j] + uneven * whole[j] + before - (total - before - tied)
        before += tied
        start = end
