"""Ideal order of a list, for the Triton kernels of NDCG: rank of each document in this order, and the ideal DCG."""

import triton
import triton.language as tl

from rankgrad.kernels.cuda import present, rows


@triton.jit
def ahead(key_j, key_i, j, i):
    """Return, in a Triton kernel, True if document j is before document i in descending order of keys.

    The result is `(rows, columns)`. Documents with equal keys are in the order of their positions.
    """
    return (key_j[None, :] > key_i[:, None]) | ((key_j[None, :] == key_i[:, None]) & (j[None, :] < i[:, None]))


@triton.jit
def ideal_ranks(
    labels, mask, offsets, documents, lists, n, best,
    MASKED: tl.constexpr, PADDED: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Fill `best` with the rank of each document in the ideal order (by descending labels), in a Triton kernel."""
    i, inside, start, end = rows(offsets, documents, lists, n, PADDED, STEPS, ROWS)
    real = present(mask, i, inside, MASKED)
    y_i = tl.load(labels + i, mask=real, other=0.0)
    before = tl.zeros([ROWS], tl.int32)
    first = tl.min(tl.where(inside, start, documents))
    last = tl.max(tl.where(inside, end, 0))
    for column in range(first, last, COLUMNS):
        j = column + tl.arange(0, COLUMNS)
        there = present(mask, j, j < last, MASKED)
        y_j = tl.load(labels + j, mask=there, other=0.0)
        pair = there[None, :] & (j[None, :] >= start[:, None]) & (j[None, :] < end[:, None])
        before += tl.sum((pair & ahead(y_j, y_i, j, i)).to(tl.int32), 1)
    tl.store(best + i, before + 1, mask=inside)


@triton.jit
def gain(y, top):
    """Return NDCG's gain of a label y divided by 2^top, (2^y - 1) / 2^top, in a Triton kernel; exactly 0 for y = 0."""
    return tl.exp2(y - top) - tl.exp2(-top)


@triton.jit
def ideal_dcg(labels, best, mask, start, end, k, MASKED: tl.constexpr, TILE: tl.constexpr):
    """Return, in a Triton kernel, the highest label y of a list, and the ideal DCG@k divided by 2^y.

    If the ideal DCG@k is 0, return 1 instead. With k = 0, the whole list counts.
    """
    top = tl.full([], 0.0, labels.dtype.element_ty)
    for column in range(start, end, TILE):
        i = column + tl.arange(0, TILE)
        real = present(mask, i, i < end, MASKED)
        top = tl.maximum(top, tl.max(tl.load(labels + i, mask=real, other=0.0)))
    ideal = top * 0.0
    for column in range(start, end, TILE):
        i = column + tl.arange(0, TILE)
        real = present(mask, i, i < end, MASKED)
        y = tl.load(labels + i, mask=real, other=0.0)
        place = tl.load(best + i, mask=real, other=1)
        counts = real & ((place <= k) | (k == 0))
        ideal += tl.sum(tl.where(counts, gain(y, top) / tl.log2(1.0 + place.to(y.dtype)), 0.0))
    return top, tl.where(ideal > 0.0, ideal, 1.0)
