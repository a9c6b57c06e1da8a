"""Documents in descending order of their scores, by counting."""

import triton
import triton.language as tl

from rankgrad.kernels.cuda import present, rows
from rankgrad.kernels.cuda.ideal import ahead


@triton.jit
def _key(s):
    """What puts NaN in some place of the order, so that no two documents have the same one."""
    return tl.where(s == s, s, -float("inf"))


@triton.jit
def descending(
    scores, labels, mask, offsets, documents, lists, n, score, spread, label, best, origin, slopes, counters,
    MASKED: tl.constexpr, PADDED: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Real documents to the front of their list in descending order of scores, by counting; slopes of others to 0."""
    i, inside, start, end = rows(offsets, documents, lists, n, PADDED, STEPS, ROWS)
    real = present(mask, i, inside, MASKED)
    s_i = tl.load(scores + i, mask=real, other=0.0)
    y_i = tl.load(labels + i, mask=real, other=0.0)
    higher, better = tl.zeros([ROWS], tl.int32), tl.zeros([ROWS], tl.int32)
    distance = tl.zeros([ROWS], tl.float64)
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
        apart = tl.abs(s_i.to(tl.float64)[:, None] - s_j.to(tl.float64)[None, :])
        distance += tl.sum(tl.where(pair, apart, 0.0), 1)
    to = start + higher
    tl.store(score + to, s_i.to(tl.float64), mask=real)
    tl.store(spread + to, distance, mask=real)
    tl.store(label + to, y_i, mask=real)
    tl.store(best + to, better + 1, mask=real)
    tl.store(origin + to, i, mask=real)
    tl.store(slopes + i, tl.zeros([ROWS], s_i.dtype), mask=inside)
    for counter in range(tl.program_id(0) * ROWS, 2 * (1 + lists), tl.num_programs(0) * ROWS):
        which = counter + tl.arange(0, ROWS)
        tl.store(counters + which, tl.zeros([ROWS], tl.int32), mask=which < 2 * (1 + lists))
