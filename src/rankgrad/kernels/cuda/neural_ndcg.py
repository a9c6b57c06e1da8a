"""Triton kernels of NeuralNDCG: NDCG of gains that are sorted with the matrix K of NeuralSort.

Sinkhorn's rounds scale K. The first two launches sort the documents of each list in descending order of scores and
compute distances between scores. The third launch, in `sinkhorn.py`, does all rounds, forward and backward.
`kernels/cpu/neural_ndcg.py` explains the rounds.

Lists that are too long for `sinkhorn.py` are computed in this file. Every sweep computes K again, and only the scaling
vectors are stored. If a block of columns contains the whole list, a few programs share the list. Then a sweep computes
each entry once, for the sum of its row and for the sum of its column. Otherwise a sweep computes each entry twice.

In a block of rows, the logits of the middle row are computed in float64. The logits of the other rows are computed as
differences from the middle row. For entries that are not negligible, these differences are small, so float32 is
sufficient.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from rankgrad.kernels.cuda import Layout, list_bounds, own, present, split
from rankgrad.kernels.cuda.ideal import gain, ideal_dcg
from rankgrad.kernels.cuda.order import descending, distances
from rankgrad.kernels.cuda.recorded_launches import allocate, as_bytes, launch
from rankgrad.kernels.cuda.sinkhorn import Blocks, add_columns, meet, multiprocessors, sinkhorn
from rankgrad.kernels.options import NeuralNDCGOptions

ROWS, COLUMNS = 32, 64  # size of a block in the kernel that sorts
WIDEST = 1024  # maximum number of columns of a block of K that contains a whole list
ENTRIES = 4096  # number of entries of a block of K
SPLIT = 4  # number of programs that share a list
REGISTERS = 128  # maximum number of registers per thread in float32, so that a multiprocessor can run two programs
FORTH, READ, BACK = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)


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
    """Run the operator on a GPU for NeuralNDCG."""
    scores, labels = own(scores, scores.dtype), own(labels, scores.dtype)
    layout = Layout(scores, offsets, n)
    rounds, temperature = options.sinkhorn_rounds, split(options.temperature)
    values, signal = allocate(scores, layout.lists), allocate(scores, layout.lists, dtype=torch.bool)
    slopes = allocate(scores, layout.documents)
    extras = allocate(scores, layout.lists if gradient else 0, 0)
    # In descending order of scores: scores, distances, sums of distances; ranks in the ideal order, positions; labels.
    score, x, spread = (allocate(scores, layout.documents, dtype=torch.float64) for _ in range(3))
    best, origin = (allocate(scores, layout.documents, dtype=torch.int32) for _ in range(2))
    label = allocate(scores, layout.documents)
    u, v, side = (allocate(scores, rounds + 1, layout.documents) for _ in range(3))
    blocks = Blocks(layout, scores.dtype, scores.device)
    first = blocks.wide * blocks.across
    counters = allocate(scores, first + 2 * (1 + layout.lists), dtype=torch.int32)
    given = (as_bytes(mask, scores), *layout.arguments())
    order, filled = (score, x, spread, label, best, origin), (values, as_bytes(signal, scores), slopes)
    constants = {"MASKED": mask is not None, **layout.constants()}
    launch(
        descending, layout.row_grid(ROWS), scores, labels, *given, score, label, best, origin, slopes,
        counters, len(counters), ROWS=ROWS, COLUMNS=COLUMNS, **constants,
    )  # fmt: skip
    constants = {
        **constants,
        "STEPS": 0,
        "TRANSPOSED": options.transposed,
        "GRADIENT": gradient,
    }  # STEPS is 0: rows do not search for their list
    numbers = (options.k, rounds, *temperature)
    tile = min(triton.next_power_of_2(max(n, 16)), WIDEST) if layout.padded else WIDEST
    chosen = {key: constants[key] for key in ("MASKED", "PADDED", "STEPS")}
    launch(distances, layout.list_grid(), *given, score, x, spread, *temperature, TILE=tile, **chosen)
    if not layout.padded or mask is not None or n <= blocks.longest:
        sinkhorn(layout, blocks, (*given, *order, *filled, u, v, side), counters, numbers, constants)
    if not layout.padded or n > blocks.longest:
        width = triton.next_power_of_2(n) if layout.padded else 2 * WIDEST
        whole = width <= WIDEST
        wide = width if whole else 128
        tall = min(ENTRIES // wide, 32)
        programs = min(multiprocessors(scores.device), SPLIT) if whole else 1
        limit = {"maxnreg": REGISTERS} if whole and scores.dtype == torch.float32 else {}
        work, parts = (allocate(scores, many * programs, layout.documents) for many in (8, 4))
        launch(
            _neural, (max(layout.lists, 1) * programs,), *given, *order, *filled, u, v, side, work, parts, counters,
            first, blocks.longest, *numbers, SPLIT=programs, WHOLE=whole, GROUP=32 if whole else tall, TALL=tall,
            WIDE=wide, num_warps=8, num_stages=1, **limit, **constants,
        )  # fmt: skip
    return values, signal, slopes if gradient else allocate(scores, 0), extras


@triton.jit
def _columns(x, spread, m, per, group, column, like, GROUP: tl.constexpr, WIDE: tl.constexpr):
    """Return the middle row of a group of rows of NeuralSort's K, and two differences for a block of columns, on a GPU.

    `apart` is (score of the column - score of the middle row) / temperature. `fall` is the logit of the column in the
    middle row, minus the logit on the diagonal in the middle row.
    """
    middle = tl.minimum(group + GROUP // 2, m - 1)
    x_middle, b_middle = tl.load(x + middle), tl.load(spread + middle)
    j = column + tl.arange(0, WIDE)
    apart = (tl.load(x + j, mask=j < m, other=0.0) - x_middle) * per
    fall = (m - 1 - 2 * middle) * apart - (tl.load(spread + j, mask=j < m, other=0.0) - b_middle) * per
    # Without these limits, float32 could be infinite, and the difference of two infinities is NaN.
    apart = tl.minimum(tl.maximum(apart, -1e34), 1e34).to(like.dtype)
    fall = tl.minimum(tl.maximum(fall, -1e37), 0.0).to(like.dtype)
    return middle, apart, fall


@triton.jit
def _logits(middle, apart, fall, row, TALL: tl.constexpr, WIDE: tl.constexpr):
    """Return the logits of a block of NeuralSort's K, up to a constant per row, for a long list on a GPU."""
    turn = (2 * (middle - row - tl.arange(0, TALL))).to(apart.dtype)
    # One rounding, so that all callers get the same result.
    return tl.fma(
        tl.broadcast_to(turn[:, None], [TALL, WIDE]),
        tl.broadcast_to(apart[None, :], [TALL, WIDE]),
        tl.broadcast_to(fall[None, :], [TALL, WIDE]),
    )


@triton.jit
def _block(middle, apart, fall, shift, m, row, column, TALL: tl.constexpr, WIDE: tl.constexpr):
    """Return a block of NeuralSort's matrix K, for a long list on a GPU."""
    r = row + tl.arange(0, TALL)
    j = column + tl.arange(0, WIDE)
    logit = _logits(middle, apart, fall, row, TALL, WIDE)
    entry = tl.exp(tl.minimum(logit - tl.load(shift + r, mask=r < m, other=0.0)[:, None], 0.0))
    return tl.where((r < m)[:, None] & (j < m)[None, :], entry, 0.0)


@triton.jit
def _shift(
    x, spread, shift, m, per, like, part, SPLIT: tl.constexpr, GROUP: tl.constexpr, TALL: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    """Write the log-sum-exp of each row of NeuralSort's K to `shift`, for the rows of this program on a GPU."""
    for step in range(0, tl.cdiv(m, GROUP * SPLIT) * GROUP, TALL):
        group = (step // GROUP * SPLIT + part) * GROUP
        row = group + step % GROUP
        r = row + tl.arange(0, TALL)
        highest = tl.zeros([TALL], like.dtype) - float("inf")
        for column in range(0, m, WIDE):
            j = column + tl.arange(0, WIDE)
            middle, apart, fall = _columns(x, spread, m, per, group, column, like, GROUP, WIDE)
            logit = _logits(middle, apart, fall, row, TALL, WIDE)
            highest = tl.maximum(highest, tl.max(tl.where((j < m)[None, :], logit, -float("inf")), 1))
        total = tl.zeros([TALL], like.dtype)
        for column in range(0, m, WIDE):
            j = column + tl.arange(0, WIDE)
            middle, apart, fall = _columns(x, spread, m, per, group, column, like, GROUP, WIDE)
            logit = _logits(middle, apart, fall, row, TALL, WIDE)
            total += tl.sum(tl.where((j < m)[None, :], tl.exp(logit - highest[:, None]), 0.0), 1)
        tl.store(shift + r, highest + tl.log(total), mask=r < m)


@triton.jit
def _factor(
    dot, r, real, t, rounds, k, u, stride, extra, factor, weighed,
    MODE: tl.constexpr, TRANSPOSED: tl.constexpr,
):  # fmt: skip
    """Return the factor of each row of NeuralSort's K in a sweep on a GPU.

    The factor depends on `dot`, the product of the row and a vector. In mode READ, also return, for each row, the
    factor of the gains and the part of the value.
    """
    none = dot * 0.0
    if MODE == FORTH:
        scaled = tl.where(dot > 0.0, 1.0 / tl.where(dot > 0.0, dot, 1.0), 0.0)
        f = tl.where(real, tl.where(t > 0, scaled, none + 1.0), none)
        tl.store(u + t * stride + r, f, mask=real)
        return f, none, none
    elif MODE == READ:
        final = tl.load(u + t * stride + r, mask=real, other=0.0)
        worth = tl.where(real & ((r < k) | (k == 0)), 1.0 / tl.log2(2.0 + r.to(dot.dtype)), none)
        scaled = rounds < 0 if TRANSPOSED else rounds > 0
        f = tl.where(scaled, -worth * dot * final * final, none)
        tl.store(extra + r, tl.where(scaled, none, worth * dot), mask=real)
        tl.store(factor + r, f, mask=real)
        tl.store(weighed + r, worth * final, mask=real)
        return f, worth * final, worth * final * dot
    else:
        own = tl.load(u + tl.maximum(t - 1, 0) * stride + r, mask=real, other=0.0)
        given = tl.load(extra + r, mask=real & (t == rounds), other=0.0)
        f = tl.where(rounds > 0, dot, none) + given
        f = tl.where(real, tl.where(t > 1, -f * own * own, f), none)
        return f, none, none


@triton.jit
def _sweep(
    x, spread, shift, m, per, vector, gained, t, rounds, k, u, stride, extra, factor, weighed, near, far, like,
    part, parts, counter, visit, MODE: tl.constexpr, TRANSPOSED: tl.constexpr, SPLIT: tl.constexpr, WHOLE: tl.constexpr,
    GROUP: tl.constexpr, TALL: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Do one sweep over NeuralSort's K on a GPU: multiply each row by `vector`, and compute the factor of the row.

    Then fill `near`: for each column, add up factor times entry over all rows. Fill `far`: for each column, add up
    factor times entry times distance over all rows. The distance of an entry is its column index minus its row index.
    Returns the value of the rows of this program (in mode READ), and the number of times that this program has called
    `meet`.
    """
    value = tl.zeros([TALL], like.dtype)
    if WHOLE:
        j = tl.arange(0, WIDE)
        aim = tl.load(vector + j, mask=j < m, other=0.0)
        g = tl.load(gained + j, mask=j < m, other=0.0)
        sums, distances = tl.zeros([TALL, WIDE], like.dtype), tl.zeros([TALL, WIDE], like.dtype)
        for group in range(part * GROUP, m, SPLIT * GROUP):
            middle, apart, fall = _columns(x, spread, m, per, group, 0, like, GROUP, WIDE)
            for row in range(group, tl.minimum(group + GROUP, m), TALL):
                r = row + tl.arange(0, TALL)
                entry = _block(middle, apart, fall, shift, m, row, 0, TALL, WIDE)
                dot = tl.sum(entry * aim[None, :], 1)
                f, w, gain_r = _factor(dot, r, r < m, t, rounds, k, u, stride, extra, factor, weighed, MODE, TRANSPOSED)
                value += gain_r
                share = entry * (f[:, None] + w[:, None] * g[None, :]) if MODE == READ else entry * f[:, None]
                sums += share
                distances += share * (j[None, :] - r[:, None]).to(like.dtype)
        sum_j, distance_j, visit = add_columns(
            tl.sum(sums, 0), tl.sum(distances, 0), parts, j, m, part, SPLIT, stride, counter, visit, SPLIT, SPLIT
        )
        tl.store(near + j, sum_j, mask=j < m)
        tl.store(far + j, distance_j, mask=j < m)
    else:
        for row in range(0, m, TALL):
            r = row + tl.arange(0, TALL)
            dots = tl.zeros([TALL, WIDE], like.dtype)
            for column in range(0, m, WIDE):
                j = column + tl.arange(0, WIDE)
                aim = tl.load(vector + j, mask=j < m, other=0.0)
                middle, apart, fall = _columns(x, spread, m, per, row, column, like, TALL, WIDE)
                dots += _block(middle, apart, fall, shift, m, row, column, TALL, WIDE) * aim[None, :]
            dot = tl.sum(dots, 1)
            f, w, gain_r = _factor(dot, r, r < m, t, rounds, k, u, stride, extra, factor, weighed, MODE, TRANSPOSED)
            value += gain_r
            tl.store(factor + r, f, mask=r < m)
        tl.debug_barrier()
        for column in range(0, m, WIDE):
            j = column + tl.arange(0, WIDE)
            g = tl.load(gained + j, mask=j < m, other=0.0)
            sums, distances = tl.zeros([TALL, WIDE], like.dtype), tl.zeros([TALL, WIDE], like.dtype)
            for row in range(0, m, TALL):
                r = row + tl.arange(0, TALL)
                f = tl.load(factor + r, mask=r < m, other=0.0)
                middle, apart, fall = _columns(x, spread, m, per, row, column, like, TALL, WIDE)
                share = _block(middle, apart, fall, shift, m, row, column, TALL, WIDE)
                if MODE == READ:
                    w = tl.load(weighed + r, mask=r < m, other=0.0)
                    share = share * (f[:, None] + w[:, None] * g[None, :])
                else:
                    share = share * f[:, None]
                sums += share
                distances += share * (j[None, :] - r[:, None]).to(like.dtype)
            tl.store(near + j, tl.sum(sums, 0), mask=j < m)
            tl.store(far + j, tl.sum(distances, 0), mask=j < m)
    tl.debug_barrier()
    return tl.sum(value), visit


@triton.jit(do_not_specialize=["documents", "lists", "n", "first", "least", "k", "rounds"])
def _neural(
    mask, offsets, documents, lists, n, score, x, spread, label, best, origin, values, signal, slopes, u, v, side, work,
    parts, counters, first, least, k, rounds, temperature, temperature_rest,
    MASKED: tl.constexpr, PADDED: tl.constexpr, STEPS: tl.constexpr, TRANSPOSED: tl.constexpr, GRADIENT: tl.constexpr,
    SPLIT: tl.constexpr, WHOLE: tl.constexpr, GROUP: tl.constexpr, TALL: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Compute NeuralNDCG and its slopes for a list that is too long for `sinkhorn.py`, with `SPLIT` programs."""
    l, part, visit = tl.program_id(0), 0, 0
    if SPLIT > 1:  # as in `sinkhorn.py`; the first counters belong to `sinkhorn.py`
        ticket = tl.atomic_add(counters + first + 1 + lists, 1)
        l, part = ticket // SPLIT, ticket % SPLIT
    counter = counters + first + 2 + lists + l
    start, end = list_bounds(offsets, l, n, PADDED)
    like = tl.full([], 0.0, values.dtype.element_ty)
    per = 1.0 / (tl.full([], 0.0, tl.float64) + temperature + temperature_rest)
    m = 0
    for column in range(start, end, WIDE):
        i = column + tl.arange(0, WIDE)
        m += tl.sum(present(mask, i, i < end, MASKED).to(tl.int32))
    if m <= least:
        return
    top, ideal = ideal_dcg(label, best, mask, start, start + m, k, False, WIDE)
    tl.store(signal + l, (top > 0.0).to(tl.uint8))
    # 0 if the highest and the lowest score are finite, otherwise NaN. (Minima and maxima would ignore NaN.)
    off, low = tl.load(score + start, mask=m > 0, other=0.0), tl.load(score + start + m - 1, mask=m > 0, other=0.0)
    off = (off - off) + (low - low)
    m = tl.where(top > 0.0, m, 0)  # a list without a relevant document needs no work
    score, x, spread = score + start, x + start, spread + start
    u, v, side = u + start, v + start, side + start
    stride = tl.full([], 0, tl.int64) + documents
    work, parts = work + start, parts + start
    all_work = work
    work += part * 8 * stride
    shift, gained, vector, moved = work, work + stride, work + 2 * stride, work + 3 * stride
    near, far, extra, factor = work + 4 * stride, work + 5 * stride, work + 6 * stride, work + 7 * stride
    weighed = moved  # `weighed` and `moved` are not used at the same time

    for column in range(0, m, WIDE):
        j = column + tl.arange(0, WIDE)
        g = gain(tl.load(label + start + j, mask=j < m, other=0.0), top) / ideal
        tl.store(gained + j, g, mask=j < m)
        tl.store(v + j, g * 0.0 + 1.0, mask=j < m)
    _shift(x, spread, shift, m, per, like, part, SPLIT, GROUP, TALL, WIDE)
    tl.debug_barrier()

    # v[t] scales columns to sum 1 after rows were scaled by u[t - 1]. u[t] scales rows to sum 1 after columns were
    # scaled by v[t]. The transposed form omits the last u.
    last = tl.maximum(rounds - 1, 0) if TRANSPOSED else rounds
    for t in range(last + 1):
        _, visit = _sweep(
            x, spread, shift, m, per, v + t * stride, gained, t, rounds, k, u, stride,
            extra, factor, weighed, near, far, like, part, parts, counter, visit,
            FORTH, TRANSPOSED, SPLIT, WHOLE, GROUP, TALL, WIDE,
        )  # fmt: skip
        if t < rounds:
            following = (t + 1) * stride
            for column in range(0, m, WIDE):
                j = column + tl.arange(0, WIDE)
                total = tl.load(near + j, mask=j < m, other=1.0)
                tl.store(v + following + j, tl.where(total > 0.0, 1.0 / total, 0.0), mask=j < m)
                tl.store(side + following + j, tl.load(far + j, mask=j < m, other=0.0), mask=j < m)
        tl.debug_barrier()

    final = rounds * stride
    for column in range(0, m, WIDE):
        j = column + tl.arange(0, WIDE)
        g = tl.load(gained + j, mask=j < m, other=0.0)
        tl.store(vector + j, g * tl.load(v + final + j, mask=j < m, other=0.0), mask=j < m)
    tl.debug_barrier()
    value, visit = _sweep(
        x, spread, shift, m, per, vector, gained, last, rounds, k, u, stride,
        extra, factor, weighed, near, far, like, part, parts, counter, visit,
            READ, TRANSPOSED, SPLIT, WHOLE, GROUP, TALL, WIDE,
    )  # fmt: skip
    if SPLIT > 1:
        tl.store(all_work + (8 * part + 7) * stride, value)
        meet(counter, visit, SPLIT)
        visit += 1
        value = like
        for program in range(SPLIT):
            value += tl.load(all_work + (8 * program + 7) * stride, cache_modifier=".cg")
    if part == 0:
        tl.store(values + l, off.to(like.dtype) - value)
    if not GRADIENT:
        return

    # `vector` is the derivative by v[t]. `moved[j]` is the sum over r of (j - r) times the derivative by logit (r, j).
    for column in range(0, m, WIDE):
        j = column + tl.arange(0, WIDE)
        distance = tl.load(far + j, mask=j < m, other=0.0)
        tl.store(moved + j, distance * tl.load(v + final + j, mask=j < m, other=0.0), mask=j < m)
        tl.store(vector + j, tl.load(near + j, mask=j < m, other=0.0), mask=j < m)
    tl.debug_barrier()
    for step in range(tl.maximum(rounds, 1)):
        t = rounds - step
        here, before = t * stride, tl.maximum(t - 1, 0) * stride
        for column in range(0, m, WIDE):
            j = column + tl.arange(0, WIDE)
            inside = (j < m) & (rounds > 0)
            scale = tl.load(v + here + j, mask=inside, other=0.0)
            by_sum = -tl.load(vector + j, mask=inside, other=0.0) * scale * scale
            turned = by_sum * tl.load(side + here + j, mask=inside, other=0.0)
            tl.store(vector + j, by_sum, mask=inside)
            tl.store(moved + j, tl.load(moved + j, mask=inside, other=0.0) + turned, mask=inside)
        tl.debug_barrier()
        _, visit = _sweep(
            x, spread, shift, m, per, vector, gained, t, rounds, k, u, stride,
            extra, factor, weighed, near, far, like, part, parts, counter, visit,
            BACK, TRANSPOSED, SPLIT, WHOLE, GROUP, TALL, WIDE,
        )  # fmt: skip
        for column in range(0, m, WIDE):
            j = column + tl.arange(0, WIDE)
            distance = tl.load(far + j, mask=j < m, other=0.0)
            distance *= tl.where(t > 1, tl.load(v + before + j, mask=j < m, other=0.0), -1.0)
            tl.store(moved + j, tl.load(moved + j, mask=j < m, other=0.0) + distance, mask=j < m)
            # Without rounds, columns keep their derivative. With rounds, only the sums of rows add to it.
            kept = tl.where(rounds > 0, distance * 0.0, tl.load(vector + j, mask=j < m, other=0.0))
            total = tl.load(near + j, mask=j < m, other=0.0)
            tl.store(vector + j, tl.where(t > 1, total, kept - total), mask=j < m)
        tl.debug_barrier()
    if part > 0:
        return

    # Slopes from the derivatives by the logits, (m + 1 - 2r) s_j - sum over k of |s_j - s_k|. For ties, the derivative
    # of |s_j - s_k| is 0.
    for column in range(0, m, WIDE):
        j = column + tl.arange(0, WIDE)
        s_j = tl.load(score + j, mask=j < m, other=0.0)
        own = tl.load(vector + j, mask=j < m, other=0.0)
        others, above = tl.zeros([WIDE], like.dtype), tl.zeros([WIDE], like.dtype)
        for row in range(0, m, TALL):
            r = row + tl.arange(0, TALL)
            s_r = tl.load(score + r, mask=r < m, other=0.0)
            higher = (s_r[:, None] > s_j[None, :]).to(like.dtype) - (s_r[:, None] < s_j[None, :]).to(like.dtype)
            higher = tl.where((r < m)[:, None], higher, 0.0)
            above += tl.sum(higher, 0)
            others += tl.sum(higher * tl.load(vector + r, mask=r < m, other=0.0)[:, None], 0)
        uneven = (m - 1 - 2 * j).to(like.dtype) + above
        slope = 2.0 * tl.load(moved + j, mask=j < m, other=0.0) + uneven * own + others
        tl.store(
            slopes + tl.load(origin + start + j, mask=j < m, other=0), (off - slope * per).to(like.dtype), mask=j < m
        )
