"""Triton kernels of the family `pairwise`: RankNet, hinge, LambdaRank, LambdaLoss.

These losses are sums over ordered pairs. There are three launches. The first finds ranks and the ideal order by
counting. This launch is omitted if the loss needs neither ranks nor the ideal DCG. The second computes each pair
twice, once for each of its documents, so that one program computes the whole sum of a document. The third computes one
value per list.
"""

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.polynomial import Chebyshev, Polynomial
from torch import Tensor

from rankgrad.kernels.cuda import Layout, list_bounds, log1p, logarithm, own, power, present, reciprocal, rows, split
from rankgrad.kernels.cuda.recorded_launches import allocate, as_bytes, launch
from rankgrad.kernels.options import Gains, Pairs, PairwiseOptions, Scheme, Truncation

ORDERED, SWAPPED, EVERY, HINGE = 0, 1, 2, 3  # weight of a pair, as in `cpu/pair_loops.py`; SWAPPED includes STEPPED
LABEL, EXPONENTIAL, LINEAR = 0, 1, 2  # gain of a document; EXPONENTIAL and LINEAR are divided by the ideal DCG
ROWS, COLUMNS, TILE = 32, 64, 1024

# A polynomial for -log(1 - q) / q on [0, 1/2], correct to the last bit of float32. It is faster than the logarithm of
# the hardware, and exact for small q.
_FIT = Chebyshev.interpolate(lambda q: -np.log1p(-q) / q, 8, domain=[0, 1 / 2]).convert(kind=Polynomial).coef
C0, C1, C2, C3, C4, C5, C6, C7, C8 = (tl.constexpr(float(c)) for c in _FIT)


def run(
    name: str,
    scores: Tensor,
    labels: Tensor,
    weights: Tensor | None,
    mask: Tensor | None,
    offsets: Tensor | None,
    n: int,
    params: Tensor,
    options: PairwiseOptions,
    gradient: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Run the operator on a GPU for a loss of the family `pairwise`."""
    scores, labels = own(scores, scores.dtype), own(labels, scores.dtype)
    heavy = scores if weights is None else own(weights, scores.dtype)
    layout = Layout(scores, offsets, n)
    k, sound = float(options.k), options.truncation == Truncation.SOUND
    steep = split(options.margin if name == "hinge" else options.sigma)
    constants = {
        **_plan(name, options.scheme, options.gain),
        "CUT": 0 if not k or sound or name == "lambdarank" else 2 if options.pairs == Pairs.BOTH else 1,
        "SOUND": sound and k > 0,
        "MASKED": mask is not None,
        "WEIGHTED": weights is not None,
        **layout.constants(),
    }
    constants["RANKED"] = constants["CUT"] > 0 or constants["NEAR"] or constants["FAR"] or constants["SOUND"]
    values, signal = allocate(scores, layout.lists), allocate(scores, layout.lists, dtype=torch.bool)
    slopes = allocate(scores, layout.documents if gradient else 0)
    parts = allocate(scores, layout.documents)
    given = (*layout.arguments(), as_bytes(mask, scores))
    by_block = {"ROWS": ROWS, "COLUMNS": COLUMNS}
    rank, gain, share = scores, labels, scores  # not read if no ranks are needed
    if constants["RANKED"] or constants["GAINED"]:
        rank, gain, share = (allocate(scores, layout.documents) for _ in range(3))
        chosen = {key: constants[key] for key in ("GAINED", "MASKED", "PADDED", "STEPS")}
        launch(_ranks, layout.row_grid(ROWS), scores, labels, *given, rank, gain, share, k, **chosen, **by_block)
    launch(
        _pairs, layout.row_grid(ROWS),
        scores, gain, heavy, *given, rank, share, parts, slopes, k, *steep, *split(options.mu),
        GRADIENT=gradient, **constants, **by_block,
    )  # fmt: skip
    tile = min(triton.next_power_of_2(max(n, 16)), TILE) if layout.padded else TILE
    launch(
        _totals, layout.list_grid(),
        labels, *given, parts, values, as_bytes(signal, scores),
        MASKED=mask is not None, PADDED=layout.padded, TILE=tile,
    )  # fmt: skip
    return values, signal, slopes, allocate(scores, layout.lists if gradient else 0, 0)


def _plan(name: str, scheme: Scheme, gain: Gains) -> dict[str, int | bool]:
    """Return the constants that define the weights of pairs in the Triton kernels of pairwise losses.

    NEAR is not 0 if discounts of ranks are needed. FAR is not 0 if discounts of rank distances are needed.
    """
    if name in ("ranknet", "hinge"):
        return {"KIND": ORDERED if name == "ranknet" else HINGE, "GAINED": LABEL, "NEAR": False, "FAR": False}
    swaps = name == "lambdarank"
    kind = EVERY if not swaps and scheme in (Scheme.NDCG1, Scheme.ARP1) else SWAPPED
    gained = LINEAR if gain == Gains.LINEAR else EXPONENTIAL
    if not swaps and scheme in (Scheme.ARP1, Scheme.ARP2):
        gained = LABEL
    return {
        "KIND": kind,
        "GAINED": gained,
        "NEAR": 2 if swaps else int(scheme in (Scheme.NDCG1, Scheme.NDCG2PP)),  # 2: only ranks up to k count
        "FAR": 0 if swaps else {Scheme.NDCG2: 1, Scheme.NDCG2PP: 2}.get(scheme, 0),  # 2: factor mu
    }


@triton.jit
def _ranks(
    scores, labels, offsets, documents, lists, n, mask, rank, gain, share, k,
    GAINED: tl.constexpr, MASKED: tl.constexpr, PADDED: tl.constexpr, STEPS: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Compute the rank, the gain and the part of the ideal DCG of each document, for a pairwise loss on a GPU.

    Exponential gains are divided by 2^y, where y is the highest label of the list.
    """
    i, inside, start, end = rows(offsets, documents, lists, n, PADDED, STEPS, ROWS)
    real = present(mask, i, inside, MASKED)
    s_i = tl.load(scores + i, mask=real, other=0.0)
    y_i = tl.load(labels + i, mask=real, other=0.0)
    ahead = tl.zeros([ROWS, COLUMNS], tl.int32)
    better = tl.zeros([ROWS, COLUMNS], tl.int32)
    top = tl.full([ROWS], -float("inf"), s_i.dtype)
    first = tl.min(tl.where(inside, start, documents))
    last = tl.max(tl.where(inside, end, 0))
    for column in range(first, last, COLUMNS):
        j = column + tl.arange(0, COLUMNS)
        there = present(mask, j, j < last, MASKED)
        s_j = tl.load(scores + j, mask=there, other=-float("inf"))[None, :]
        y_j = tl.load(labels + j, mask=there, other=-float("inf"))[None, :]
        mine = there[None, :]
        if not PADDED:
            mine = mine & (j[None, :] >= start[:, None]) & (j[None, :] < end[:, None])
        earlier = j[None, :] < i[:, None]
        ahead += (mine & ((s_j > s_i[:, None]) | ((s_j == s_i[:, None]) & earlier))).to(tl.int32)
        if GAINED != 0:
            better += (mine & ((y_j > y_i[:, None]) | ((y_j == y_i[:, None]) & earlier))).to(tl.int32)
            top = tl.maximum(top, tl.max(tl.where(mine, y_j, -float("inf")), 1))
    tl.store(rank + i, (tl.sum(ahead, 1) + 1).to(s_i.dtype), mask=inside)
    worth = y_i
    if GAINED == 1:
        top = tl.where(real, top, 0.0)
        worth = tl.exp2(y_i - top) - tl.exp2(-top)
    tl.store(gain + i, tl.where(real, worth, 0.0), mask=inside)
    if GAINED != 0:
        place = (tl.sum(better, 1) + 1).to(s_i.dtype)
        counts = real & ((k <= 0) | (place <= k))
        tl.store(share + i, tl.where(counts, worth / tl.log2(1.0 + place), 0.0), mask=inside)


@triton.jit
def _discounts(rank, where, real, k, NEAR: tl.constexpr, SOUND: tl.constexpr, RANKED: tl.constexpr):
    """Return rank, discount and pair factor of each document, for a pairwise loss on a GPU.

    The weight of a pair is multiplied by the pair factor of the document with the worse rank.
    """
    r = tl.load(rank + where, mask=real, other=1.0) if RANKED else real.to(rank.dtype.element_ty)
    worth, lift = r, r
    if NEAR != 0:
        worth = 1.0 / tl.log2(1.0 + r)
        if NEAR == 2:
            worth = tl.where((k <= 0) | (r <= k), worth, 0.0)
    if SOUND:
        lift = tl.where(r <= k, 1.0, 1.0 / (1.0 - 1.0 / tl.log2(1.0 + tl.maximum(r, 2.0))))
    return r, worth, lift


@triton.jit
def _step(distance):
    """Return the difference of the discounts of ranks d and d + 1, for LambdaLoss on a GPU.

    It is 1 / log2(1 + d) - 1 / log2(2 + d), for d >= 1. A series for log((2 + d) / (1 + d)) avoids cancellation.
    """
    z = reciprocal(2.0 * distance + 3.0)
    zz = z * z
    series = 1.0 + zz * (1 / 3 + zz * (1 / 5 + zz * (1 / 7 + zz * (1 / 9 + zz * (1 / 11)))))
    if distance.dtype == tl.float64:
        series += zz * zz * zz * zz * zz * zz * (1 / 13 + zz * (1 / 15 + zz * (1 / 17 + zz * (1 / 19 + zz / 21))))
    rise = z * series * 2.8853900817779268  # 2 / ln 2
    low = logarithm(1.0 + distance)
    return rise * reciprocal(low * (low + rise))


@triton.jit
def _logarithm(small, q):
    """Return the logistic loss of a pair on a GPU, -log(1 - q) = log(1 + small), where q = small / (1 + small)."""
    if q.dtype == tl.float64:
        return log1p(small)
    else:
        high = C4 + q * (C5 + q * (C6 + q * (C7 + q * C8)))
        return q * (C0 + q * (C1 + q * (C2 + q * (C3 + q * high))))


@triton.jit
def _pairs(
    scores, gains, weights, offsets, documents, lists, n, mask, rank, share, parts, slopes,
    k, steep, steep_rest, mu, mu_rest,
    KIND: tl.constexpr, GAINED: tl.constexpr, NEAR: tl.constexpr, FAR: tl.constexpr, CUT: tl.constexpr,
    SOUND: tl.constexpr, RANKED: tl.constexpr, WEIGHTED: tl.constexpr, GRADIENT: tl.constexpr,
    MASKED: tl.constexpr, PADDED: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Compute the slope of each document and the loss of the pairs that it should win, for a pairwise loss on a GPU."""
    i, inside, start, end = rows(offsets, documents, lists, n, PADDED, STEPS, ROWS)
    real = present(mask, i, inside, MASKED)
    s_i = tl.load(scores + i, mask=real, other=0.0)
    g_i = tl.load(gains + i, mask=real, other=0.0)
    w_i = tl.load(weights + i, mask=real, other=0.0) if WEIGHTED else real.to(s_i.dtype)
    r_i, d_i, lift_i = _discounts(rank, i, real, k, NEAR, SOUND, RANKED)
    zero = tl.full([], 0.0, s_i.dtype)
    sharp = zero + steep + steep_rest
    factor = zero + mu + mu_rest
    value = tl.zeros([ROWS, COLUMNS], s_i.dtype)
    slope = tl.zeros([ROWS, COLUMNS], s_i.dtype)
    IDEALS: tl.constexpr = 1 if PADDED else ROWS  # all rows of a padded block are in one list
    ideal = tl.zeros([IDEALS, COLUMNS], s_i.dtype)
    mixed = tl.zeros([ROWS, COLUMNS], tl.int32)
    first = tl.min(tl.where(inside, start, documents))
    last = tl.max(tl.where(inside, end, 0))
    for column in range(first, last, COLUMNS):
        j = column + tl.arange(0, COLUMNS)
        there = present(mask, j, j < last, MASKED)
        s_j = tl.load(scores + j, mask=there, other=0.0)
        g_j = tl.load(gains + j, mask=there, other=0.0)
        w_j = tl.load(weights + j, mask=there, other=0.0) if WEIGHTED else there.to(s_i.dtype)
        r_j, d_j, lift_j = _discounts(rank, j, there, k, NEAR, SOUND, RANKED)
        mine = there[None, :]
        if not PADDED:
            mine = mine & (j[None, :] >= start[:, None]) & (j[None, :] < end[:, None])
        if GAINED != 0:
            share_j = tl.load(share + j, mask=there, other=0.0)
            ideal += tl.where(mine, share_j[None, :], 0.0)
        better = g_i[:, None] - g_j[None, :]
        counted = mine
        if CUT == 1:
            counted = mine & ((r_i[:, None] <= k) | (r_j[None, :] <= k))
        elif CUT == 2:
            counted = mine & (r_i[:, None] <= k) & (r_j[None, :] <= k)
        # `win` is the weight with which i should win, `lose` the weight with which j should win.
        if KIND == 2:
            mixed = mixed | (mine & (better != 0.0)).to(tl.int32)
            counted = counted & (i[:, None] != j[None, :])
            if NEAR != 0:
                win = tl.where(counted, (g_i * d_i * w_i)[:, None], 0.0)
                lose = tl.where(counted, (g_j * d_j * w_j)[None, :], 0.0)
            else:
                win = tl.where(counted, (g_i * w_i)[:, None], 0.0)
                lose = tl.where(counted, (g_j * w_j)[None, :], 0.0)
        gap = s_i[:, None] - s_j[None, :]
        if not PADDED:
            gap = tl.where(mine, gap, 0.0)  # a NaN must not spread from another list
        if KIND == 3:
            win = tl.where(counted & (better > 0.0), w_i[:, None], 0.0)
            lose = tl.where(counted & (better < 0.0), w_j[None, :], 0.0)
            short = sharp - gap
            value += win * tl.where(short < 0.0, 0.0, short)  # a maximum would hide NaN
            slope += tl.where(sharp + gap > 0.0, lose, 0.0) - tl.where(short > 0.0, win, 0.0)
        else:
            gap = gap * sharp
            small = power(tl.abs(gap) * -1.4426950408889634)
            high = reciprocal(1.0 + small)
            low = small * high
            if KIND == 2:
                up = gap > 0.0
                value += win * (_logarithm(small, low) + tl.maximum(-gap, 0.0))
                slope += lose * tl.where(up, high, low) - win * tl.where(up, low, high)
            else:
                # `weight` is negative if i should lose. `ahead` is the scaled score of the document that should
                # win, minus the scaled score of the other document.
                better = tl.where(counted, better, 0.0)
                wins = better > 0.0
                ahead = tl.where(wins, gap, -gap)
                weight = better
                if KIND == 0:
                    weight = tl.where(wins, 1.0, tl.where(better < 0.0, -1.0, better))
                if KIND == 1:
                    if NEAR != 0 or FAR != 0:
                        apart = tl.zeros([ROWS, COLUMNS], s_i.dtype)
                        if NEAR != 0:
                            apart += tl.abs(d_i[:, None] - d_j[None, :])
                        if FAR != 0:
                            step = _step(tl.maximum(tl.abs(r_i[:, None] - r_j[None, :]), 1.0))
                            apart += step * factor if FAR == 2 else step
                        weight = weight * apart
                    if SOUND:
                        weight = weight * tl.where(r_i[:, None] > r_j[None, :], lift_i[:, None], lift_j[None, :])
                if WEIGHTED:
                    weight = weight * tl.where(wins, w_i[:, None], w_j[None, :])
                value += tl.maximum(weight, 0.0) * (_logarithm(small, low) + tl.maximum(-ahead, 0.0))
                slope -= weight * tl.where(ahead > 0.0, low, high)
    scale = tl.full([ROWS], 1.0, s_i.dtype)
    if GAINED != 0:
        total = tl.sum(ideal, 1)
        scale = tl.where(total > 0.0, 1.0 / tl.where(total > 0.0, total, 1.0), 0.0)
    if KIND == 2:
        scale = tl.where(tl.max(mixed, 1) > 0, scale, 0.0)
    tl.store(parts + i, tl.where(real, tl.sum(value, 1) * scale, 0.0), mask=inside)
    if GRADIENT:
        if KIND != 3:
            scale = scale * sharp
        tl.store(slopes + i, tl.where(real, tl.sum(slope, 1) * scale, 0.0), mask=inside)


@triton.jit
def _totals(
    labels, offsets, documents, lists, n, mask, parts, values, signal,
    MASKED: tl.constexpr, PADDED: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Compute value and signal of a pairwise loss for a list, on a GPU. The signal is True if two labels differ."""
    start, end = list_bounds(offsets, tl.program_id(0), n, PADDED)
    total = tl.zeros([TILE], parts.dtype.element_ty)
    low = tl.full([TILE], float("inf"), parts.dtype.element_ty)
    high = tl.full([TILE], -float("inf"), parts.dtype.element_ty)
    for column in range(start, end, TILE):
        i = column + tl.arange(0, TILE)
        real = present(mask, i, i < end, MASKED)
        total += tl.load(parts + i, mask=real, other=0.0)
        low = tl.minimum(low, tl.load(labels + i, mask=real, other=float("inf")))
        high = tl.maximum(high, tl.load(labels + i, mask=real, other=-float("inf")))
    tl.store(values + tl.program_id(0), tl.sum(total))
    tl.store(signal + tl.program_id(0), (tl.max(high) > tl.min(low)).to(tl.uint8))
