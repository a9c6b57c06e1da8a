"""Triton kernels of the family `soft_ndcg`: NDCG computed from the soft ranks of SoftSort.

FastSort is a sequential algorithm, so FastSort has no GPU kernel.

SoftSort's matrix, before its rows are divided by their sums, is symmetric: e(i, j) = exp(-|x_i - x_j|^p). The row of a
rank is the row of the document at this rank. There are five launches. In this order, they compute the sums of rows; the
mean ranks; the value of each list and its derivative with respect to each mean rank; the derivative of the value with
respect to each sum; the slopes. Each launch except the third computes the matrix again.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from rankgrad.kernels.cuda import Layout, list_bounds, own, present, rows, split
from rankgrad.kernels.cuda.ideal import ahead, gain, ideal_dcg
from rankgrad.kernels.cuda.recorded_launches import allocate, as_bytes, launch
from rankgrad.kernels.options import SoftNDCGOptions

ROWS, COLUMNS, TILE = 32, 64, 1024
_LOG_2 = tl.constexpr(math.log(2.0))


def run(
    name: str,
    scores: Tensor,
    labels: Tensor,
    weights: Tensor | None,
    mask: Tensor | None,
    offsets: Tensor | None,
    n: int,
    params: Tensor,
    options: SoftNDCGOptions,
    gradient: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Run the operator on a GPU for softsort_ndcg."""
    scores, labels = own(scores, scores.dtype), own(labels, scores.dtype)
    layout = Layout(scores, offsets, n)
    unit = split(1.0 / (options.temperature if options.p == 1 else math.sqrt(options.temperature)))
    values, signal = allocate(scores, layout.lists), allocate(scores, layout.lists, dtype=torch.bool)
    slopes = allocate(scores, layout.documents if gradient else 0)
    extras = allocate(scores, layout.lists if gradient else 0, 0)
    best = allocate(scores, layout.documents, dtype=torch.int32)
    place, share, soft, total, by_rank, by_share = (allocate(scores, layout.documents) for _ in range(6))
    given = (scores, as_bytes(mask, scores), *layout.arguments())
    constants = {"MASKED": mask is not None, **layout.constants()}
    block = {"P": options.p, "ROWS": ROWS, "COLUMNS": COLUMNS}
    by_rows, by_lists = layout.row_grid(ROWS), layout.list_grid()
    launch(_sums, by_rows, *given, labels, place, best, share, *unit, **block, **constants)
    launch(_mean_ranks, by_rows, *given, place, share, soft, total, *unit, **block, **constants)
    launch(
        _values, by_lists,
        *given, labels, best, soft, total, by_rank, values, as_bytes(signal, scores),
        float(options.k), *split(options.beta), TILE=TILE, **constants,
    )  # fmt: skip
    if gradient:
        launch(_by_share, by_rows, *given, place, share, soft, by_rank, by_share, *unit, **block, **constants)
        launch(_slopes, by_rows, *given, place, share, soft, by_rank, by_share, slopes, *unit, **block, **constants)
    return values, signal, slopes, extras


@triton.jit
def _entry(s_i, s_j, unit, P: tl.constexpr):
    """Return entries e(i, j) of SoftSort's matrix and their derivatives by s_i, in a Triton kernel.

    Both results are `(rows, columns)`. For equal scores, the derivative is 0.
    """
    x = unit * (s_i[:, None] - s_j[None, :])
    if P == 1:
        e = tl.exp(-tl.abs(x))
        return e, tl.where(x > 0.0, -unit * e, tl.where(x < 0.0, unit * e, x * 0.0))
    # Clipped, so that the square is finite; a minimum and a maximum would not keep NaN.
    x = tl.where(x > 1e15, 1e15, tl.where(x < -1e15, -1e15, x))
    e = tl.exp(-x * x)
    return e, -2.0 * unit * x * e


@triton.jit
def _sums(
    scores, mask, offsets, documents, lists, n, labels, place, best, share, unit, unit_rest,
    P: tl.constexpr, MASKED: tl.constexpr, PADDED: tl.constexpr, STEPS: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Compute three numbers per document for softsort_ndcg on a GPU: two ranks, and 1 / (sum of the matrix row).

    The ranks are the document's ranks by score and in the ideal order. The row is the document's row of SoftSort's
    matrix. Documents with equal scores have the mean of their ranks, as in `kernels/cpu/soft_ndcg.py`.
    """
    i, inside, start, end = rows(offsets, documents, lists, n, PADDED, STEPS, ROWS)
    real = present(mask, i, inside, MASKED)
    s_i = tl.load(scores + i, mask=real, other=0.0)
    y_i = tl.load(labels + i, mask=real, other=0.0)
    unit = tl.full([], 0.0, scores.dtype.element_ty) + unit + unit_rest
    total = tl.zeros([ROWS], s_i.dtype)
    higher, level, better = tl.zeros([ROWS], tl.int32), tl.zeros([ROWS], tl.int32), tl.zeros([ROWS], tl.int32)
    first = tl.min(tl.where(inside, start, documents))
    last = tl.max(tl.where(inside, end, 0))
    for column in range(first, last, COLUMNS):
        j = column + tl.arange(0, COLUMNS)
        there = present(mask, j, j < last, MASKED)
        s_j = tl.load(scores + j, mask=there, other=0.0)
        y_j = tl.load(labels + j, mask=there, other=0.0)
        pair = there[None, :] & (j[None, :] >= start[:, None]) & (j[None, :] < end[:, None])
        e, _ = _entry(s_i, s_j, unit, P)
        total += tl.sum(tl.where(pair, e, 0.0), 1)
        higher += tl.sum((pair & (s_j[None, :] > s_i[:, None])).to(tl.int32), 1)
        level += tl.sum((pair & (s_j[None, :] == s_i[:, None])).to(tl.int32), 1)
        better += tl.sum((pair & ahead(y_j, y_i, j, i)).to(tl.int32), 1)
    tl.store(share + i, 1.0 / tl.where(real, total, 1.0), mask=inside)
    tl.store(place + i, higher.to(s_i.dtype) + 0.5 * (level + 1).to(s_i.dtype), mask=inside)
    tl.store(best + i, better + 1, mask=inside)


@triton.jit
def _mean_ranks(
    scores, mask, offsets, documents, lists, n, place, share, soft, total, unit, unit_rest,
    P: tl.constexpr, MASKED: tl.constexpr, PADDED: tl.constexpr, STEPS: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Compute the mean rank and the sum of each column of SoftSort's matrix, on a GPU.

    The mean is computed from differences to the rank of the document, which reduces rounding errors.
    """
    i, inside, start, end = rows(offsets, documents, lists, n, PADDED, STEPS, ROWS)
    real = present(mask, i, inside, MASKED)
    s_i = tl.load(scores + i, mask=real, other=0.0)
    r_i = tl.load(place + i, mask=real, other=0.0)
    unit = tl.full([], 0.0, scores.dtype.element_ty) + unit + unit_rest
    mass, moved = tl.zeros([ROWS], s_i.dtype), tl.zeros([ROWS], s_i.dtype)
    first = tl.min(tl.where(inside, start, documents))
    last = tl.max(tl.where(inside, end, 0))
    for column in range(first, last, COLUMNS):
        j = column + tl.arange(0, COLUMNS)
        there = present(mask, j, j < last, MASKED)
        s_j = tl.load(scores + j, mask=there, other=0.0)
        r_j = tl.load(place + j, mask=there, other=0.0)
        z_j = tl.load(share + j, mask=there, other=0.0)
        pair = there[None, :] & (j[None, :] >= start[:, None]) & (j[None, :] < end[:, None])
        e, _ = _entry(s_i, s_j, unit, P)
        part = tl.where(pair, e * z_j[None, :], 0.0)
        mass += tl.sum(part, 1)
        moved += tl.sum(part * (r_j[None, :] - r_i[:, None]), 1)
    tl.store(soft + i, r_i + moved / tl.where(real, mass, 1.0), mask=inside)
    tl.store(total + i, mass, mask=inside)


@triton.jit
def _values(
    scores, mask, offsets, documents, lists, n, labels, best, soft, total, by_rank, values, signal, k, beta, beta_rest,
    MASKED: tl.constexpr, PADDED: tl.constexpr, STEPS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Compute softsort_ndcg of a list on a GPU, and the derivatives of this value with respect to the mean ranks.

    The value is minus the NDCG. The derivatives are divided by the sums of the columns of SoftSort's matrix.
    """
    start, end = list_bounds(offsets, tl.program_id(0), n, PADDED)
    top, ideal = ideal_dcg(labels, best, mask, start, end, k, MASKED, TILE)
    beta = top * 0.0 + beta + beta_rest
    value = top * 0.0
    for column in range(start, end, TILE):
        i = column + tl.arange(0, TILE)
        real = present(mask, i, i < end, MASKED)
        y = tl.load(labels + i, mask=real, other=0.0)
        r = tl.load(soft + i, mask=real, other=1.0)
        g = gain(y, top) / ideal
        d = tl.log2(1.0 + r)
        kept = tl.where(k > 0, 1.0 / (1.0 + tl.exp(-beta * (k + 0.5 - r))), r * 0.0 + 1.0)
        fading = tl.where(k > 0, -beta * kept * (1.0 - kept), r * 0.0)
        change = -g * (fading - kept / (d * _LOG_2 * (1.0 + r))) / d
        value -= tl.sum(tl.where(real, g * kept / d, 0.0))
        tl.store(by_rank + i, tl.where(real, change / tl.load(total + i, mask=real, other=1.0), 0.0), mask=i < end)
    tl.store(values + tl.program_id(0), tl.where(top > 0.0, value, value * 0.0))
    tl.store(signal + tl.program_id(0), (top > 0.0).to(tl.uint8))


@triton.jit
def _by_share(
    scores, mask, offsets, documents, lists, n, place, share, soft, by_rank, by_share, unit, unit_rest,
    P: tl.constexpr, MASKED: tl.constexpr, PADDED: tl.constexpr, STEPS: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Compute the derivative of softsort_ndcg with respect to the sum of each row of SoftSort's matrix, on a GPU."""
    i, inside, start, end = rows(offsets, documents, lists, n, PADDED, STEPS, ROWS)
    real = present(mask, i, inside, MASKED)
    s_i = tl.load(scores + i, mask=real, other=0.0)
    r_i = tl.load(place + i, mask=real, other=0.0)
    z_i = tl.load(share + i, mask=real, other=0.0)
    unit = tl.full([], 0.0, scores.dtype.element_ty) + unit + unit_rest
    change = tl.zeros([ROWS], s_i.dtype)
    first = tl.min(tl.where(inside, start, documents))
    last = tl.max(tl.where(inside, end, 0))
    for column in range(first, last, COLUMNS):
        j = column + tl.arange(0, COLUMNS)
        there = present(mask, j, j < last, MASKED)
        s_j = tl.load(scores + j, mask=there, other=0.0)
        pi_j = tl.load(soft + j, mask=there, other=0.0)
        c_j = tl.load(by_rank + j, mask=there, other=0.0)
        pair = there[None, :] & (j[None, :] >= start[:, None]) & (j[None, :] < end[:, None])
        e, _ = _entry(s_i, s_j, unit, P)
        change += tl.sum(tl.where(pair, e * c_j[None, :] * (r_i[:, None] - pi_j[None, :]), 0.0), 1)
    tl.store(by_share + i, -change * z_i * z_i, mask=inside)


@triton.jit
def _slopes(
    scores, mask, offsets, documents, lists, n, place, share, soft, by_rank, by_share, slopes, unit, unit_rest,
    P: tl.constexpr, MASKED: tl.constexpr, PADDED: tl.constexpr, STEPS: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Compute the slopes of softsort_ndcg on a GPU. A score changes one row and one column of SoftSort's matrix."""
    i, inside, start, end = rows(offsets, documents, lists, n, PADDED, STEPS, ROWS)
    real = present(mask, i, inside, MASKED)
    s_i = tl.load(scores + i, mask=real, other=0.0)
    r_i = tl.load(place + i, mask=real, other=0.0)
    z_i = tl.load(share + i, mask=real, other=0.0)
    pi_i = tl.load(soft + i, mask=real, other=0.0)
    c_i = tl.load(by_rank + i, mask=real, other=0.0)
    b_i = tl.load(by_share + i, mask=real, other=0.0)
    unit = tl.full([], 0.0, scores.dtype.element_ty) + unit + unit_rest
    slope = tl.zeros([ROWS], s_i.dtype)
    first = tl.min(tl.where(inside, start, documents))
    last = tl.max(tl.where(inside, end, 0))
    for column in range(first, last, COLUMNS):
        j = column + tl.arange(0, COLUMNS)
        there = present(mask, j, j < last, MASKED)
        s_j = tl.load(scores + j, mask=there, other=0.0)
        r_j = tl.load(place + j, mask=there, other=0.0)
        z_j = tl.load(share + j, mask=there, other=0.0)
        pi_j = tl.load(soft + j, mask=there, other=0.0)
        c_j = tl.load(by_rank + j, mask=there, other=0.0)
        b_j = tl.load(by_share + j, mask=there, other=0.0)
        pair = there[None, :] & (j[None, :] >= start[:, None]) & (j[None, :] < end[:, None])
        _, steep = _entry(s_i, s_j, unit, P)
        as_row = z_i[:, None] * c_j[None, :] * (r_i[:, None] - pi_j[None, :])
        as_column = z_j[None, :] * c_i[:, None] * (r_j[None, :] - pi_i[:, None])
        slope += tl.sum(tl.where(pair, steep * (as_row + as_column + b_i[:, None] + b_j[None, :]), 0.0), 1)
    tl.store(slopes + i, tl.where(real, slope, 0.0), mask=inside)
