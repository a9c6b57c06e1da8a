"""Ideal order of a list, for NDCG and similar metrics: the place of each document in this order, and the ideal DCG."""

import struct

import triton
import triton.language as tl

from rankgrad.kernels.cuda import present, rows


def split(number: float) -> tuple[float, float]:
    """Return the float32 value of a number, and the remainder. Triton passes only float32; kernels add both parts."""
    most: float = struct.unpack("f", struct.pack("f", number))[0]
    return most, number - most


@triton.jit
def ahead(key_j, key_i, j, i):
    """Return True if j comes before i in descending order of keys, `(rows, columns)`. Ties are ordered by position."""
    return (key_j[None, :] > key_i[:, None]) | ((key_j[None, :] == key_i[:, None]) & (j[None, :] < i[:, None]))


@triton.jit
def places(
    labels, mask, offsets, documents, lists, n, best,
    MASKED: tl.constexpr, PADDED: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Fill `best` with the place of each document in descending order of labels. Places begin at 1."""
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
    """Return (2^y - 1) / 2^top. The result is exactly 0 for y = 0."""
    return tl.exp2(y - top) - tl.exp2(-top)


@triton.jit
def ideal_dcg(labels, best, mask, start, end, k, MASKED: tl.constexpr, TILE: tl.constexpr):
    """Return the highest label y of a list, and the ideal DCG@k divided by 2^y, or 1 if the ideal DCG@k is 0.

    With k = 0, the whole list counts.
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
