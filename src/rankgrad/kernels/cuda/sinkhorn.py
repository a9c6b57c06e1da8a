"""Triton kernel for Sinkhorn's rounds of NeuralNDCG. The matrix K of a list is in the registers of several programs.

Each program has one block of K. So the sum of a row or a column consists of parts from several programs. These programs
store their parts in memory, wait for each other, and read all parts. Each program adds up the parts in the same order.
A program gets its block when it starts, so the programs of a list start one after the other. The GPU must be able to
run at least as many programs at the same time as a list has blocks. Otherwise a program could wait for a program that
cannot start.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from rankgrad.kernels.cuda import INTERPRETED, Layout, list_bounds, present
from rankgrad.kernels.cuda.ideal import gain, ideal_dcg
from rankgrad.kernels.cuda.recorded_launches import allocate, launch

ENTRIES = 32768  # number of entries of a block in float32; in float64 it is half of this
TALL = 128  # number of rows of a block
ACROSS = 1  # maximum number of blocks of columns; more blocks are slower, because programs also wait for sums of rows


def multiprocessors(device: torch.device) -> int:
    """Return the number of multiprocessors of a GPU. At least this many programs can run at the same time."""
    return 1 if INTERPRETED.value else torch.cuda.get_device_properties(device).multi_processor_count


class Blocks:
    """Division of NeuralSort's K into blocks: at most `down` times `across`, for lists of up to `longest` documents."""

    def __init__(self, layout: Layout, dtype: torch.dtype, device: torch.device) -> None:
        self.tall, self.wide = TALL, ENTRIES // TALL // (2 if dtype == torch.float64 else 1)
        self.longest = min(self.wide * ACROSS, layout.n if layout.padded else self.wide * ACROSS)
        if self._cut() > multiprocessors(device):
            self.longest = min(self.tall, self.wide)
            self._cut()

    def _cut(self) -> int:
        """Set `down` and `across` for lists with `longest` documents. Return the number of blocks."""
        self.down, self.across = triton.cdiv(self.longest, self.tall), triton.cdiv(self.longest, self.wide)
        return self.down * self.across


def sinkhorn(
    layout: Layout,
    blocks: Blocks,
    given: tuple[Any, ...],
    counters: Tensor,
    numbers: tuple[float, ...],
    constants: dict[str, Any],
) -> None:
    """Launch NeuralNDCG for lists with at most `blocks.longest` documents. `given` includes the output tensors."""
    like = given[-1]
    parts = (
        allocate(like, 2 * blocks.across, layout.documents),
        allocate(like, 4 * blocks.down, layout.documents),
        allocate(like, layout.documents),
    )
    launch(
        _sinkhorn, (max(layout.lists, 1) * blocks.down * blocks.across,),
        *given, *parts, counters, blocks.longest, *numbers,
        DOWN=blocks.down, ACROSS=blocks.across, TALL=blocks.tall, WIDE=blocks.wide,
        num_warps=16, num_stages=1, **constants,
    )  # fmt: skip


@triton.jit
def meet(counter, visit, programs):
    """Wait, in a Triton kernel, until all programs of a list have called `meet` `visit + 1` times.

    After that, the L2 cache contains the data that these programs stored.
    """
    tl.debug_barrier()
    if programs > 1:
        tl.atomic_add(counter, 1, sem="release")
        while tl.atomic_add(counter, 0, sem="acquire") < (visit + 1) * programs:
            pass
    tl.debug_barrier()


@triton.jit
def _rows(dot, at, r, m, block, blocks, stride, counter, visit, programs, MOST: tl.constexpr):
    """Return the sums of rows of K over all blocks of columns, for Sinkhorn's rounds on a GPU.

    `dot` contains the partial sums of this program.
    """
    if MOST > 1 and blocks > 1:
        place = at + (visit % 2) * MOST * stride + r
        tl.store(place + block * stride, dot, mask=r < m)
        meet(counter, visit, programs)
        visit += 1
        dot = dot * 0.0
        for part in range(blocks):
            dot += tl.load(place + part * stride, mask=r < m, other=0.0, cache_modifier=".cg")
    return dot, visit


@triton.jit
def add_columns(near, far, at, j, m, block, blocks, stride, counter, visit, programs, MOST: tl.constexpr):
    """Return the sums of columns of K over all blocks of rows, for Sinkhorn's rounds on a GPU.

    `near` and `far` contain the partial sums of this program. In the sums of `far`, each entry is multiplied by its
    distance from the diagonal.
    """
    if MOST > 1 and blocks > 1:
        place = at + (visit % 2) * 2 * MOST * stride + j
        tl.store(place + block * stride, near, mask=j < m)
        tl.store(place + (MOST + block) * stride, far, mask=j < m)
        meet(counter, visit, programs)
        visit += 1
        near, far = near * 0.0, far * 0.0
        for part in range(blocks):
            near += tl.load(place + part * stride, mask=j < m, other=0.0, cache_modifier=".cg")
            far += tl.load(place + (MOST + part) * stride, mask=j < m, other=0.0, cache_modifier=".cg")
    return near, far, visit


@triton.jit
def _matrix(x, spread, zeros, r, j, m, per, like, TALL: tl.constexpr, WIDE: tl.constexpr):
    """Return a block of NeuralSort's K in registers, before the rows are divided by their sums.

    The highest entry of row r is 1, in column r. A zero is loaded from aligned memory for every column. So Triton gives
    a thread four columns of sixteen rows. Otherwise a thread would have one column, and the factors of rows would need
    all registers.
    """
    x_r, b_r = tl.load(x + r, mask=r < m, other=0.0), tl.load(spread + r, mask=r < m, other=0.0)
    x_j, b_j = tl.load(x + j, mask=j < m, other=0.0), tl.load(spread + j, mask=j < m, other=0.0)
    turn = (m - 1 - 2 * r).to(tl.float64)
    logit = (turn[:, None] * (x_j[None, :] - x_r[:, None]) - (b_j[None, :] - b_r[:, None])) * per
    entry = tl.exp(tl.minimum(tl.maximum(logit, -1e9), 0.0).to(like.dtype))
    where = tl.broadcast_to(j[None, :], [TALL, WIDE])
    missing = tl.load(zeros + where, mask=where < m, other=1)
    return tl.where((r < m)[:, None] & (missing == 0), entry, 0.0)


@triton.jit
def _distances(r, j, factor):
    """Return the distance of each entry of a block of NeuralSort's K from the diagonal: column index minus row index.

    `factor` does not change the distances. It makes Triton compute the distances again in each call, because storing
    them would need registers.
    """
    return j.to(factor.dtype)[None, :] - (r.to(factor.dtype) + (factor == float("inf")).to(factor.dtype))[:, None]


@triton.jit
def _inverse(total):
    """Return 1 / total, the factor that scales a row or a column of K to sum 1. Return 0 for an empty sum."""
    return tl.where(total > 0.0, 1.0 / tl.where(total > 0.0, total, 1.0), 0.0)


# Compilation takes seconds, so it is done once for all sizes of a batch.
@triton.jit(do_not_specialize=["documents", "lists", "n", "k", "rounds", "longest"])
def _sinkhorn(
    mask, offsets, documents, lists, n, score, x, spread, label, best, origin, values, signal, slopes,
    us, vs, sides, row_parts, column_parts, shared, counters, longest, k, rounds, temperature, temperature_rest,
    MASKED: tl.constexpr, PADDED: tl.constexpr, STEPS: tl.constexpr, TRANSPOSED: tl.constexpr, GRADIENT: tl.constexpr,
    DOWN: tl.constexpr, ACROSS: tl.constexpr, TALL: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Compute NeuralNDCG and its slopes for a list. Each program of the list has one block of K in registers."""
    zeros = counters
    counters += WIDE * ACROSS
    ticket = tl.atomic_add(counters, 1)
    l = ticket // (DOWN * ACROSS)
    part = ticket % (DOWN * ACROSS)
    start, end = list_bounds(offsets, l, n, PADDED)
    m = 0
    for column in range(start, end, WIDE):
        i = column + tl.arange(0, WIDE)
        m += tl.sum(present(mask, i, i < end, MASKED).to(tl.int32))
    down, across = tl.cdiv(m, TALL), tl.cdiv(m, WIDE)
    programs = down * across
    if m > longest or part >= tl.maximum(programs, 1):
        return
    top, ideal = ideal_dcg(label, best, mask, start, start + m, k, False, WIDE)
    # 0 if the highest and the lowest score are finite, otherwise NaN. (Minima and maxima would ignore NaN.)
    off, low = tl.load(score + start, mask=m > 0, other=0.0), tl.load(score + start + m - 1, mask=m > 0, other=0.0)
    off = (off - off) + (low - low)
    like = top * 0.0
    if part == 0:
        tl.store(signal + l, (top > 0.0).to(tl.uint8))
    if (top > 0.0) == 0:  # a list without a relevant document needs no work
        if part == 0:
            tl.store(values + l, off.to(like.dtype))
        return

    counter = counters + 1 + l
    per = 1.0 / (tl.full([], 0.0, tl.float64) + temperature + temperature_rest)
    stride = tl.full([], 0, tl.int64) + documents
    score, x, spread, shared = score + start, x + start, spread + start, shared + start
    us, vs, sides = us + start, vs + start, sides + start
    row_parts, column_parts = row_parts + start, column_parts + start
    above, left = part % down, part // down  # block of rows, and block of columns
    r = above * TALL + tl.arange(0, TALL)
    j = left * WIDE + tl.arange(0, WIDE)
    visit = 0
    matrix = _matrix(x, spread, zeros, r, j, m, per, like, TALL, WIDE)
    total, visit = _rows(tl.sum(matrix, 1), row_parts, r, m, left, across, stride, counter, visit, programs, ACROSS)
    matrix = matrix * _inverse(total)[:, None]
    g = tl.where(j < m, gain(tl.load(label + start + j, mask=j < m, other=0.0), top) / ideal, 0.0)

    # v[t] scales columns to sum 1 after rows were scaled by u[t - 1]. u[t] scales rows to sum 1 after columns were
    # scaled by v[t]. The transposed form omits the last u.
    u = tl.where(r < m, like + 1.0, like)
    v = tl.where(j < m, like + 1.0, like)
    for t in range(1, rounds + 1):
        share, apart = matrix * u[:, None], _distances(r, j, u)
        near, far, visit = add_columns(
            tl.sum(share, 0), tl.sum(share * apart, 0), column_parts, j, m, above, down, stride, counter, visit,
            programs, DOWN,
        )  # fmt: skip
        v = _inverse(near)
        tl.store(vs + t * stride + j, v, mask=j < m)
        tl.store(sides + t * stride + j, far, mask=j < m)
        dot, visit = _rows(
            tl.sum(matrix * v[None, :], 1), row_parts, r, m, left, across, stride, counter, visit, programs, ACROSS
        )
        if TRANSPOSED:
            u = tl.where(t < rounds, _inverse(dot), u)
        else:
            u = _inverse(dot)
        tl.store(us + t * stride + r, u, mask=r < m)

    dot, visit = _rows(
        tl.sum(matrix * (g * v)[None, :], 1), row_parts, r, m, left, across, stride, counter, visit, programs, ACROSS
    )
    worth = tl.where((r < m) & ((r < k) | (k == 0)), 1.0 / tl.log2(2.0 + r.to(like.dtype)), 0.0)
    tl.store(shared + above, tl.sum(worth * u * dot), mask=left == 0)
    meet(counter, visit, programs)
    visit += 1
    if part == 0:
        value = like
        for block in range(down):
            value += tl.load(shared + block, cache_modifier=".cg")
        tl.store(values + l, off.to(like.dtype) - value)
    if not GRADIENT:
        return

    # `vector` is the derivative by v[t]. `moved[j]` is the sum over r of (j - r) times the derivative by logit (r, j).
    scaled = rounds < 0 if TRANSPOSED else rounds > 0
    extra = tl.where(scaled, 0.0, worth * dot)
    f = tl.where(scaled, -worth * dot * u * u, 0.0)
    share, apart = matrix * (f[:, None] + (worth * u)[:, None] * g[None, :]), _distances(r, j, f)
    vector, far, visit = add_columns(
        tl.sum(share, 0), tl.sum(share * apart, 0), column_parts, j, m, above, down, stride, counter, visit,
        programs, DOWN,
    )  # fmt: skip
    moved = far * v
    for step in range(tl.maximum(rounds, 1)):
        t = rounds - step
        here, before = t * stride, tl.maximum(t - 1, 0) * stride
        scale = tl.load(vs + here + j, mask=(j < m) & (rounds > 0), other=0.0)
        side = tl.load(sides + here + j, mask=(j < m) & (rounds > 0), other=0.0)
        by_sum = -vector * scale * scale
        moved += by_sum * side
        dot, visit = _rows(
            tl.sum(matrix * by_sum[None, :], 1), row_parts, r, m, left, across, stride, counter, visit, programs, ACROSS
        )
        own = tl.load(us + before + r, mask=(r < m) & (t > 1), other=0.0)
        f = dot + tl.where(t == rounds, extra, 0.0)
        f = tl.where(t > 1, -f * own * own, f)
        share, apart = matrix * f[:, None], _distances(r, j, f)
        near, far, visit = add_columns(
            tl.sum(share, 0), tl.sum(share * apart, 0), column_parts, j, m, above, down, stride, counter, visit,
            programs, DOWN,
        )  # fmt: skip
        scale = tl.load(vs + before + j, mask=(j < m) & (t > 1), other=0.0)
        moved += far * tl.where(t > 1, scale, -1.0)
        # Without rounds, columns keep their derivative. With rounds, only the sums of rows add to it.
        kept = tl.where(rounds > 0, near * 0.0, vector)
        vector = tl.where(t > 1, near, kept - near)

    # Slopes from the derivatives by the logits, (m + 1 - 2r) s_j - sum over k of |s_j - s_k|. For ties, the derivative
    # of |s_j - s_k| is 0.
    tl.store(shared + j, vector, mask=(j < m) & (above == 0))
    meet(counter, visit, programs)
    if above > 0:
        return
    s_j = tl.load(score + j, mask=j < m, other=0.0)
    others, higher = vector * 0.0, vector * 0.0
    for row in range(0, m, TALL):
        i = row + tl.arange(0, TALL)
        s_i = tl.load(score + i, mask=i < m, other=0.0)
        by_i = tl.load(shared + i, mask=i < m, other=0.0, cache_modifier=".cg")
        over = (s_i[:, None] > s_j[None, :]).to(like.dtype) - (s_i[:, None] < s_j[None, :]).to(like.dtype)
        over = tl.where((i < m)[:, None], over, 0.0)
        higher += tl.sum(over, 0)
        others += tl.sum(over * by_i[:, None], 0)
    uneven = (m - 1 - 2 * j).to(like.dtype) + higher
    slope = 2.0 * moved + uneven * vector + others
    to = tl.load(origin + start + j, mask=j < m, other=0)
    tl.store(slopes + to, (off - slope * per).to(like.dtype), mask=j < m)
