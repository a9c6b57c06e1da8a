"""Triton kernels of the family `approx`: metrics computed from sigmoid ranks.

The metrics are NDCG (ApproxNDCG and LearnDCG), precision, reciprocal rank and average precision.

There are three launches. The first computes the soft ranks and, if necessary, the ideal order. The second computes the
value of each list and the derivative of the value with respect to each rank. The third computes the derivative with
respect to each score.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from rankgrad.kernels.cuda import Layout, expm1, list_bounds, log1p, own, power, present, reciprocal, rows, split
from rankgrad.kernels.cuda.recorded_launches import allocate, as_bytes, launch
from rankgrad.kernels.options import ApproxOptions

NDCG, PRECISION, RECIPROCAL, AVERAGE = 0, 1, 2, 3
_CODES = {"learndcg": NDCG, "approx_precision": PRECISION, "approx_mrr": RECIPROCAL, "approx_ap": AVERAGE}
ROWS, COLUMNS, TILE = 32, 32, 1024
FAR = tl.constexpr(126.0)  # largest difference of two exponents: 2^-126 is the smallest normal float32


def run(
    name: str,
    scores: Tensor,
    labels: Tensor,
    weights: Tensor | None,
    mask: Tensor | None,
    offsets: Tensor | None,
    n: int,
    params: Tensor | tuple[Any, ...],
    options: ApproxOptions,
    gradient: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Run the operator on a GPU for a loss of the family `approx`."""
    scores, labels = own(scores, scores.dtype), own(labels, scores.dtype)
    layout = Layout(scores, offsets, n)
    code = _CODES[name]
    form, threshold = options.form, options.threshold
    # Raw params of LearnDCG are read on the device. Numbers are passed as arguments.
    raw = (scores, scores, scores)
    numbers = [0.0] * 6
    if not form:
        numbers = [
            part for number in (params.tolist() if isinstance(params, Tensor) else params) for part in split(number)
        ]
    elif isinstance(params, Tensor):
        raw = own(params.to(scores.device), scores.dtype).unbind()
    else:
        raw = params
    values, signal = allocate(scores, layout.lists), allocate(scores, layout.lists, dtype=torch.bool)
    slopes = allocate(scores, layout.documents if gradient else 0)
    extras = allocate(scores, layout.lists if gradient else 0, 3)
    rank, ideal, by_rank = (allocate(scores, layout.documents) for _ in range(3))
    above, by_above = (
        (allocate(scores, layout.documents), allocate(scores, layout.documents)) if code == AVERAGE else (rank, rank)
    )
    direct = allocate(scores, layout.documents) if code == RECIPROCAL else rank
    turn = allocate(scores, layout.documents) if form and gradient else rank
    given = (*layout.arguments(), as_bytes(mask, scores), *raw, *numbers)
    tile = min(triton.next_power_of_2(max(n, 16)), TILE) if layout.padded else TILE
    constants = {"CODE": code, "MASKED": mask is not None, "FORM": int(form), **layout.constants()}
    constants["SORTED"] = layout.padded and n <= tile  # ideal order: sort a tile (True) or count pairs (False)
    by_block = {"ROWS": ROWS, "COLUMNS": COLUMNS}
    rows_of_lists, lists = layout.row_grid(ROWS), layout.list_grid()
    launch(
        _ranks, rows_of_lists, scores, labels, *given, rank, ideal, above, turn, threshold,
        GRADIENT=gradient, **constants, **by_block,
    )  # fmt: skip
    filled = (by_rank, by_above, direct, values, as_bytes(signal, scores), extras)
    launch(
        _values, lists, scores, labels, *given, rank, ideal, above, turn, *filled,
        float(options.k), options.beta, threshold,
        GRADIENT=gradient, TILE=tile, **constants, num_warps=8 if tile > 128 else 4,
    )  # fmt: skip
    if gradient:
        launch(
            _slopes, rows_of_lists, scores, labels, *given, by_rank, by_above, direct, slopes, threshold,
            **constants, **by_block,
        )  # fmt: skip
    return values, signal, slopes, extras


@triton.jit
def _softplus(raw):
    """Return log(1 + exp(raw)) in a Triton kernel. This function makes a raw parameter of LearnDCG positive."""
    return tl.maximum(raw, 0.0) + log1p(tl.exp(-tl.abs(raw)))


@triton.jit
def _alpha(raw_alpha, alpha, alpha_rest, zero, FORM: tl.constexpr):
    """Return alpha, the steepness of sigmoid ranks on a GPU, from numbers or from the raw parameter of LearnDCG."""
    if FORM == 0:
        return zero + alpha + alpha_rest
    else:
        return _softplus(tl.load(raw_alpha))


@triton.jit
def _base_and_slope(raw_base, raw_slope, base, base_rest, slope, slope_rest, zero, FORM: tl.constexpr):
    """Return LearnDCG's logarithm of the gain base and slope of the discount, in a Triton kernel.

    They are computed from numbers or from raw parameters.
    """
    if FORM == 0:
        return zero + base + base_rest, zero + slope + slope_rest
    else:
        curved = tl.maximum(_softplus(tl.load(raw_slope)), 1e-30)
        return log1p(_softplus(tl.load(raw_base))), curved if FORM == 2 else curved * 0.0


@triton.jit
def _steep(at, zero, BASE: tl.constexpr, FORM: tl.constexpr):
    """Return the derivative of a LearnDCG parameter by its raw parameter, on a GPU; 1 if the params are numbers."""
    if FORM == 0:
        return zero + 1.0
    else:
        raw = tl.load(at)
        rise = 1.0 / (1.0 + tl.exp(-raw))
        return rise / (1.0 + _softplus(raw)) if BASE else rise


@triton.jit
def _exponents(scores, where, real, alpha):
    """Return an exponent x for each score, from which a Triton kernel computes sigmoid ranks.

    sigmoid(alpha (s_j - s_i)) is 1 / (1 + 2^(x_i - x_j)). For padding, x is -inf.
    """
    s = tl.load(scores + where, mask=real, other=0.0)
    return tl.where(real, s * (alpha * 1.4426950408889634), -float("inf"))


@triton.jit
def _ranks(
    scores, labels, offsets, documents, lists, n, mask,
    raw_base, raw_slope, raw_alpha, base, base_rest, slope, slope_rest, alpha, alpha_rest,
    rank, ideal, above, turn, threshold,
    CODE: tl.constexpr, MASKED: tl.constexpr, FORM: tl.constexpr, PADDED: tl.constexpr, STEPS: tl.constexpr,
    SORTED: tl.constexpr, GRADIENT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Compute the sigmoid ranks of a block of documents on a GPU.

    For NDCG, also compute their ranks in the ideal order, unless `SORTED`.
    """
    i, inside, start, end = rows(offsets, documents, lists, n, PADDED, STEPS, ROWS)
    real = present(mask, i, inside, MASKED)
    sharp = _alpha(raw_alpha, alpha, alpha_rest, tl.full([], 0.0, scores.dtype.element_ty), FORM)
    x_i = _exponents(scores, i, inside & real, sharp)
    x_i = tl.where(real, x_i, 0.0)
    y_i = tl.load(labels + i, mask=real, other=0.0)
    ahead = tl.zeros([ROWS, COLUMNS], x_i.dtype)
    ahead_relevant = tl.zeros([ROWS, COLUMNS], x_i.dtype)
    better = tl.zeros([ROWS, COLUMNS], tl.int32)
    turning = tl.zeros([ROWS, COLUMNS], x_i.dtype)
    first = tl.min(tl.where(inside, start, documents))
    last = tl.max(tl.where(inside, end, 0))
    for column in range(first, last, COLUMNS):
        j = column + tl.arange(0, COLUMNS)
        there = present(mask, j, j < last, MASKED)
        x_j = _exponents(scores, j, there, sharp)
        gap = x_i[:, None] - x_j[None, :]
        gap = tl.minimum(gap, FAR, tl.PropagateNan.ALL)  # so that no result below is infinite
        odds = power(gap)
        chance = reciprocal(1.0 + odds)  # negligible for padding
        if not PADDED:
            mine = (j[None, :] >= start[:, None]) & (j[None, :] < end[:, None])
            chance = tl.where(mine, chance, 0.0)
        ahead += chance
        if FORM > 0 and GRADIENT:
            turning -= odds * chance * chance * gap
        if CODE == 3:
            y_j = tl.load(labels + j, mask=there, other=0.0)
            ahead_relevant += tl.where(y_j[None, :] > threshold, chance, 0.0)
        if CODE == 0 and not SORTED:
            y_j = tl.load(labels + j, mask=there, other=-1.0)
            above_it = (y_j[None, :] > y_i[:, None]) | ((y_j[None, :] == y_i[:, None]) & (j[None, :] < i[:, None]))
            if not PADDED:
                above_it = above_it & mine
            better += above_it.to(tl.int32)
    tl.store(rank + i, tl.sum(ahead, 1) + 0.5, mask=inside)
    if FORM > 0 and GRADIENT:  # derivative of the rank by alpha; the rank depends only on alpha s
        tl.store(turn + i, tl.sum(turning, 1) * 0.6931471805599453 / sharp, mask=inside)
    if CODE == 3:
        tl.store(above + i, tl.sum(ahead_relevant, 1) + 0.5, mask=inside)
    if CODE == 0 and not SORTED:
        tl.store(ideal + i, (tl.sum(better, 1) + 1).to(x_i.dtype), mask=inside)


@triton.jit
def _cut(rank, k, beta):
    """Return the weight of a rank under the soft cutoff k, in a Triton kernel.

    Also return the derivative of this weight with respect to the rank.
    """
    x = beta * (k + 0.5 - rank)
    small = tl.exp(-tl.abs(x))
    some = k > 0
    inside = tl.where(x > 0, 1.0, small) / (1.0 + small)
    fading = -beta * small / ((1.0 + small) * (1.0 + small))
    return tl.where(some, inside, 1.0), tl.where(some, fading, 0.0)


@triton.jit
def _gain(y, top, log_base):
    """Return LearnDCG's gain (b^y - 1) / (b^top - 1) of a label y, in a Triton kernel.

    Also return the derivative of this gain with respect to log b. For b near 1, both are computed by a series.
    """
    near = log_base < 1e-4
    base = tl.where(near, 1.0, log_base)
    whole = expm1(-top * base)
    part = expm1(-y * base)
    g = tl.exp((y - top) * base) * part / whole
    rise = tl.where(y > 0.0, y / tl.where(y > 0.0, part, 1.0), 0.0)
    flat = y / top
    gain = tl.where(near, flat * (1.0 + 0.5 * (y - top) * log_base), g)
    return gain, tl.where(near, 0.5 * flat * (y - top), g * (top / whole - rise))


@triton.jit
def _discount(r, slope):
    """Return LearnDCG's discount d(r) of a rank r, and two derivatives of d(r), in a Triton kernel.

    The derivatives are with respect to r and with respect to the slope. If the slope is 0, d(r) is the log discount,
    ln(1 + r).
    """
    printed = slope == 0.0
    near = slope < 1e-4
    u = tl.where(near, 1.0, slope)
    unit = log1p(u)
    d = log1p(u * r) / unit
    by_r = u / (1.0 + u * r) / unit
    by_slope = (r / (1.0 + u * r) - d / (1.0 + u)) / unit
    d = tl.where(near, r * (1.0 - 0.5 * slope * (r - 1.0)), d)
    by_r = tl.where(near, 1.0 - slope * (r - 0.5), by_r)
    by_slope = tl.where(near, -0.5 * r * (r - 1.0), by_slope)
    return (
        tl.where(printed, tl.log(1.0 + r), d),
        tl.where(printed, 1.0 / (1.0 + r), by_r),
        tl.where(printed, 0.0, by_slope),
    )


@triton.jit
def _values(
    scores, labels, offsets, documents, lists, n, mask,
    raw_base, raw_slope, raw_alpha, base, base_rest, slope, slope_rest, alpha, alpha_rest,
    rank, ideal, above, turn, by_rank, by_above, direct, values, signal, extras, k, beta, threshold,
    CODE: tl.constexpr, MASKED: tl.constexpr, FORM: tl.constexpr, PADDED: tl.constexpr,
    STEPS: tl.constexpr, SORTED: tl.constexpr, GRADIENT: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Compute the value of a list on a GPU, and its derivatives with respect to the sigmoid ranks of the list."""
    l = tl.program_id(0)
    start, end = list_bounds(offsets, tl.program_id(0), n, PADDED)
    sharp = _alpha(raw_alpha, alpha, alpha_rest, tl.full([], 0.0, scores.dtype.element_ty), FORM)
    zero = sharp * 0.0
    log_base, slope = _base_and_slope(raw_base, raw_slope, base, base_rest, slope, slope_rest, zero, FORM)
    hits = 0
    top = tl.full([], 0.0, scores.dtype.element_ty)
    highest = tl.full([], -float("inf"), scores.dtype.element_ty)
    for column in range(start, end, TILE):
        i = column + tl.arange(0, TILE)
        real = present(mask, i, i < end, MASKED)
        y = tl.load(labels + i, mask=real, other=0.0)
        relevant = real & (y > threshold)
        hits += tl.sum(relevant.to(tl.int32))
        top = tl.maximum(top, tl.max(tl.where(real, y, 0.0)))
        if CODE == 2:
            s = tl.load(scores + i, mask=real, other=0.0)
            highest = tl.maximum(highest, tl.max(tl.where(relevant, sharp * s, -float("inf"))))
    tl.store(signal + l, (hits > 0).to(tl.uint8))
    top = tl.where(top > 0.0, top, 1.0)
    count = tl.maximum(hits, 1)

    total = top * 0.0
    mass, best = total, total
    by_base, best_base, by_slope, best_slope = total, total, total, total
    for column in range(start, end, TILE):
        i = column + tl.arange(0, TILE)
        real = present(mask, i, i < end, MASKED)
        y = tl.load(labels + i, mask=real, other=0.0)
        relevant = real & (y > threshold)
        r = tl.load(rank + i, mask=relevant, other=1.0)
        kept, _ = _cut(r, k, beta)
        if CODE == 0:
            g, g_base = _gain(tl.where(relevant, y, 0.0), top, log_base)
            d, _, d_slope = _discount(r, slope)
            total += tl.sum(tl.where(relevant, g * kept / d, 0.0))
            if FORM > 0:
                by_base += tl.sum(tl.where(relevant, g_base * kept / d, 0.0))
            if FORM == 2:
                by_slope -= tl.sum(tl.where(relevant, g * kept * d_slope / (d * d), 0.0))
            if SORTED:  # the whole list is in this tile
                place = (tl.arange(0, TILE) + 1).to(y.dtype)
                best_y = tl.sort(tl.where(relevant, y, 0.0), descending=True)
                g, g_base = _gain(best_y, top, log_base)
                counts = best_y > 0.0
            else:
                place = tl.load(ideal + i, mask=relevant, other=1.0)
                counts = relevant
            counts = counts & ((k <= 0) | (place <= k))
            e, _, e_slope = _discount(place, slope)
            best += tl.sum(tl.where(counts, g / e, 0.0))
            if FORM > 0:
                best_base += tl.sum(tl.where(counts, g_base / e, 0.0))
            if FORM == 2:
                best_slope -= tl.sum(tl.where(counts, g * e_slope / (e * e), 0.0))
        elif CODE == 1:
            total += tl.sum(tl.where(relevant, kept, 0.0)) / k
        elif CODE == 2:
            s = tl.load(scores + i, mask=relevant, other=0.0)
            weight = tl.where(relevant, tl.exp(sharp * s - highest), 0.0)
            mass += tl.sum(weight)
            total += tl.sum(weight * kept / r)
        else:
            a = tl.load(above + i, mask=relevant, other=0.0)
            total += tl.sum(tl.where(relevant, a * kept / r, 0.0)) / count
    scale = tl.where(best > 0.0, best, 1.0) if CODE == 0 else tl.where(mass > 0.0, mass, 1.0)
    value = total / scale if CODE == 0 or CODE == 2 else total
    tl.store(values + l, tl.where(hits > 0, -value, 0.0))
    if not GRADIENT:
        return
    tl.store(extras + 3 * l, -(by_base - value * best_base) / scale * _steep(raw_base, zero, True, FORM))
    tl.store(extras + 3 * l + 1, -(by_slope - value * best_slope) / scale * _steep(raw_slope, zero, False, FORM))
    by_alpha = total * 0.0
    for column in range(start, end, TILE):
        i = column + tl.arange(0, TILE)
        inside = i < end
        real = present(mask, i, inside, MASKED)
        y = tl.load(labels + i, mask=real, other=0.0)
        relevant = real & (y > threshold)
        r = tl.load(rank + i, mask=relevant, other=1.0)
        kept, fading = _cut(r, k, beta)
        if CODE == 0:
            g, _ = _gain(tl.where(relevant, y, 0.0), top, log_base)
            d, d_r, _ = _discount(r, slope)
            change = -g * (fading / d - kept * d_r / (d * d)) / scale
            if FORM > 0:
                by_alpha += tl.sum(tl.where(relevant, change * tl.load(turn + i, mask=relevant, other=0.0), 0.0))
        elif CODE == 1:
            change = -fading / k
        elif CODE == 2:
            s = tl.load(scores + i, mask=relevant, other=0.0)
            weight = tl.where(relevant, tl.exp(sharp * s - highest), 0.0) / scale
            change = -weight * (fading - kept / r) / r
            tl.store(direct + i, tl.where(relevant, -weight * (kept / r - value), 0.0), mask=inside)
        else:
            a = tl.load(above + i, mask=relevant, other=0.0)
            change = -a * (fading - kept / r) / r / count
            tl.store(by_above + i, tl.where(relevant, -kept / r / count, 0.0), mask=inside)
        tl.store(by_rank + i, tl.where(relevant, change, 0.0), mask=inside)
    tl.store(extras + 3 * l + 2, by_alpha * _steep(raw_alpha, zero, False, FORM))


@triton.jit
def _slopes(
    scores, labels, offsets, documents, lists, n, mask,
    raw_base, raw_slope, raw_alpha, base, base_rest, slope, slope_rest, alpha, alpha_rest,
    by_rank, by_above, direct, slopes, threshold,
    CODE: tl.constexpr, MASKED: tl.constexpr, FORM: tl.constexpr, PADDED: tl.constexpr,
    STEPS: tl.constexpr, SORTED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Compute the slopes of a block of documents on a GPU from the derivatives with respect to the sigmoid ranks."""
    i, inside, start, end = rows(offsets, documents, lists, n, PADDED, STEPS, ROWS)
    real = present(mask, i, inside, MASKED)
    sharp = _alpha(raw_alpha, alpha, alpha_rest, tl.full([], 0.0, scores.dtype.element_ty), FORM)
    x_i = _exponents(scores, i, real, sharp)
    x_i = tl.where(real, x_i, 0.0)
    c_i = tl.load(by_rank + i, mask=real, other=0.0)
    total = tl.zeros([ROWS, COLUMNS], x_i.dtype)
    first = tl.min(tl.where(inside, start, documents))
    last = tl.max(tl.where(inside, end, 0))
    if CODE == 3:
        b_i = tl.load(by_above + i, mask=real, other=0.0)
        hit_i = real & (tl.load(labels + i, mask=real, other=0.0) > threshold)
    for column in range(first, last, COLUMNS):
        j = column + tl.arange(0, COLUMNS)
        there = present(mask, j, j < last, MASKED)
        x_j = _exponents(scores, j, there, sharp)
        c_j = tl.load(by_rank + j, mask=there, other=0.0)
        small = power(-tl.abs(x_j[None, :] - x_i[:, None]))
        share = reciprocal(1.0 + small)
        steep = small * share * share  # 0 for padding
        change = c_j[None, :] - c_i[:, None]
        if CODE == 3:
            b_j = tl.load(by_above + j, mask=there, other=0.0)
            hit_j = there & (tl.load(labels + j, mask=there, other=0.0) > threshold)
            change += tl.where(hit_i[:, None] & hit_j[None, :], b_j[None, :] - b_i[:, None], 0.0)
        part = steep * change
        if not PADDED:
            part = tl.where((j[None, :] >= start[:, None]) & (j[None, :] < end[:, None]), part, 0.0)
        total += part
    slope_i = tl.sum(total, 1)
    if CODE == 2:
        slope_i += tl.load(direct + i, mask=real, other=0.0)
    tl.store(slopes + i, tl.where(real, sharp * slope_i, 0.0), mask=inside)
