"""Triton kernels that sort the documents of a list by score, and compute the distances of scores, for NeuralNDCG."""

import triton
import triton.language as tl

from rankgrad.kernels.cuda import list_bounds, present, rows
from rankgrad.kernels.cuda.ideal import ahead

FAR = tl.constexpr(80.0)  # largest gap, divided by the temperature: e^-80 is negligible in every sum of K


@triton.jit
def _key(s):
    """Return the sort key of a score on a GPU: -inf for NaN. With NaN as key, two documents could get the same rank."""
    return tl.where(s == s, s, -float("inf"))


@triton.jit
def descending(
    scores, labels, mask, offsets, documents, lists, n, score, label, best, origin, slopes, zeros, count,
    MASKED: tl.constexpr, PADDED: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Sort the real documents of each list by descending scores on a GPU, by counting, for NeuralNDCG.

    Also set the slopes and the first `count` entries of `zeros` to 0.
    """
    i, inside, start, end = rows(offsets, documents, lists, n, PADDED, STEPS, ROWS)
    real = present(mask, i, inside, MASKED)
    s_i = tl.load(scores + i, mask=real, other=0.0)
    y_i = tl.load(labels + i, mask=real, other=0.0)
    higher, better = tl.zeros([ROWS], tl.int32), tl.zeros([ROWS], tl.int32)
    first = tl.min(tl.where(inside, start, documents))
    last = tl.max(tl.where(inside, end, 0))
    for column in range(first, last, COLUMNS):
        j = column + tl.arange(0, COLUMNS)
        there = present(mask, j, j < last, MASKED)
        s_j = tl.load(scores + j, mask=there, other=0.0)
        y_j = tl.load(labels + j, mask=there, other=0.0)
        pair = there[None, :] & (j[None, :] >= start[:, None]) & (j[None, :] < end[:, None])
        higher += tl.sum((pair & ahead(_key(s_j), _key(s_i), j, i)).to(tl.int32), 1)
        better += tl.sum((pair & ahead(y_j, y_i, j, i)).to(tl.int32), 1)
    to = start + higher
    tl.store(score + to, s_i.to(tl.float64), mask=real)
    tl.store(label + to, y_i, mask=real)
    tl.store(best + to, better + 1, mask=real)
    tl.store(origin + to, i, mask=real)
    tl.store(slopes + i, tl.zeros([ROWS], s_i.dtype), mask=inside)
    for first in range(tl.program_id(0) * ROWS, count, tl.num_programs(0) * ROWS):
        which = first + tl.arange(0, ROWS)
        tl.store(zeros + which, tl.zeros([ROWS], tl.int32), mask=which < count)


@triton.jit(do_not_specialize=["documents", "lists", "n"])
def distances(
    mask, offsets, documents, lists, n, score, x, spread, temperature, temperature_rest,
    MASKED: tl.constexpr, PADDED: tl.constexpr, STEPS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Compute `x` and `spread`, the distances of scores for NeuralNDCG on a GPU. The scores are in descending order.

    `x` is the score minus the highest score, so it is at most 0. `spread` is the sum of the distances to all other
    scores, up to a constant. A gap of more than FAR * temperature is replaced by FAR * temperature. So one distant
    score does not reduce the precision of the other scores.
    """
    start, end = list_bounds(offsets, tl.program_id(0), n, PADDED)
    m = 0
    for column in range(start, end, TILE):
        i = column + tl.arange(0, TILE)
        m += tl.sum(present(mask, i, i < end, MASKED).to(tl.int32))
    most = (tl.full([], 0.0, tl.float64) + temperature + temperature_rest) * FAR
    below, total = most * 0.0, most * 0.0
    for first in range(0, m, TILE):
        i = first + tl.arange(0, TILE)
        at = start + i
        inner = (i > 0) & (i < m)
        gap = tl.load(score + at - 1, mask=inner, other=0.0) - tl.load(score + at, mask=inner, other=0.0)
        gap = tl.where(gap > most, most, gap)  # NaN stays NaN
        rise = gap * (m - 2 * i).to(tl.float64)
        tl.store(x + at, -(below + tl.cumsum(gap, 0)), mask=i < m)
        tl.store(spread + at, -(total + tl.cumsum(rise, 0)), mask=i < m)
        below += tl.sum(gap)
        total += tl.sum(rise)
