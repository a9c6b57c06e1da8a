"""Triton kernel of the family `smoothi`: metrics computed from SmoothI's rank indicators.

One program per list computes one rank after the other. The indicator of a rank is a softmax over the list. Its logits
contain a product over the earlier ranks. The derivative treats this product as a constant. The contribution of a rank
to the slopes is added immediately. In average precision, the factor of a rank contains a sum over the later ranks.
This sum is the sum over all ranks minus the sum over the earlier ranks. For NDCG, another launch first finds the ideal
order.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from rankgrad.kernels.cuda import Layout, list_bounds, own, present, split
from rankgrad.kernels.cuda.ideal import ideal_dcg, ideal_ranks
from rankgrad.kernels.cuda.recorded_launches import allocate, as_bytes, launch
from rankgrad.kernels.options import SmoothIOptions

_CODES = {"smooth_ndcg": 0, "smooth_precision": 1, "smooth_ap": 2}
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
    options: SmoothIOptions,
    gradient: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Run the operator on a GPU for a loss of the family `smoothi`."""
    scores, labels = own(scores, scores.dtype), own(labels, scores.dtype)
    layout = Layout(scores, offsets, n)
    code = _CODES[name]
    values, signal = allocate(scores, layout.lists), allocate(scores, layout.lists, dtype=torch.bool)
    left, slopes = allocate(scores, layout.documents), allocate(scores, layout.documents)
    later = allocate(scores, layout.documents) if code == 2 else left
    best = allocate(scores, layout.documents, dtype=torch.int32) if code == 0 else left
    given = (labels, as_bytes(mask, scores), *layout.arguments())
    constants = {"MASKED": mask is not None, **layout.constants()}
    if code == 0:
        launch(ideal_ranks, layout.row_grid(ROWS), *given, best, ROWS=ROWS, COLUMNS=COLUMNS, **constants)
    tile = min(triton.next_power_of_2(max(n, 16)), TILE) if layout.padded else TILE
    # No fused multiply-add: if a product is rounded in one place but not in another, softmaxes of large scores are
    # wrong.
    launch(
        _smooth, layout.list_grid(),
        scores, *given, best, left, later, values, as_bytes(signal, scores), slopes,
        options.k, *split(options.alpha), *split(options.delta), *split(options.threshold),
        CODE=code, TILE=tile, num_warps=4 if tile <= 512 else 8, num_stages=1, enable_fp_fusion=False, **constants,
    )  # fmt: skip
    extras = allocate(scores, layout.lists if gradient else 0, 0)
    return values, signal, slopes if gradient else allocate(scores, 0), extras


@triton.jit
def _seen(labels, i, real, threshold, CODE: tl.constexpr):
    """Return the number that a SmoothI metric uses for each document, in a Triton kernel.

    For NDCG, this is the label. For other metrics, it is 1 for relevant documents and 0 for other documents.
    """
    y = tl.load(labels + i, mask=real, other=0.0)
    if CODE == 0:
        return y
    return tl.where(real & (y > threshold), y * 0.0 + 1.0, y * 0.0)


@triton.jit(do_not_specialize=["k"])
def _smooth(
    scores, labels, mask, offsets, documents, lists, n, best, left, later, values, signal, slopes,
    k, alpha, alpha_rest, delta, delta_rest, threshold, threshold_rest,
    CODE: tl.constexpr, MASKED: tl.constexpr, PADDED: tl.constexpr, STEPS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Compute value, signal and slopes of a SmoothI loss for a list, on a GPU. The loss is minus the metric."""
    start, end = list_bounds(offsets, tl.program_id(0), n, PADDED)
    zero = tl.full([], 0.0, scores.dtype.element_ty)
    alpha = zero + alpha + alpha_rest
    delta = zero + delta + delta_rest
    threshold = zero + threshold + threshold_rest
    lowest = zero + float("inf")
    count, hits = 0, 0
    for column in range(start, end, TILE):
        i = column + tl.arange(0, TILE)
        real = present(mask, i, i < end, MASKED)
        s = tl.load(scores + i, mask=real, other=0.0)
        y = tl.load(labels + i, mask=real, other=0.0)
        lowest = tl.minimum(lowest, tl.min(tl.where(real, s, float("inf"))))
        count += tl.sum(real.to(tl.int32))
        hits += tl.sum((real & (y > threshold)).to(tl.int32))
        tl.store(left + i, zero + tl.where(real, 1.0, 0.0), mask=i < end)
        tl.store(slopes + i, zero + tl.zeros([TILE], zero.dtype), mask=i < end)
        if CODE == 2:
            tl.store(later + i, zero + tl.zeros([TILE], zero.dtype), mask=i < end)
    some = hits > 0
    top, ideal = zero, zero + 1.0
    if CODE == 0:
        top, ideal = ideal_dcg(labels, best, mask, start, end, k, MASKED, TILE)
    tl.debug_barrier()

    value, above, steps = zero, zero, zero
    depth = tl.where(k == 0, count, tl.minimum(k, count))
    for r in range(1, tl.where(some, depth, 0) + 1):
        rank = zero + r
        highest = zero - float("inf")
        for column in range(start, end, TILE):
            i = column + tl.arange(0, TILE)
            real = present(mask, i, i < end, MASKED)
            x = alpha * (tl.load(scores + i, mask=real, other=0.0) - lowest)
            logit = x * tl.load(left + i, mask=real, other=0.0)
            highest = tl.maximum(highest, tl.max(tl.where(real, logit, -float("inf"))))
        mass, mean = zero, zero
        for column in range(start, end, TILE):
            i = column + tl.arange(0, TILE)
            real = present(mask, i, i < end, MASKED)
            x = alpha * (tl.load(scores + i, mask=real, other=0.0) - lowest)
            power = tl.exp(x * tl.load(left + i, mask=real, other=0.0) - highest)
            mass += tl.sum(tl.where(real, power, 0.0))
            mean += tl.sum(tl.where(real, power * _seen(labels, i, real, threshold, CODE), 0.0))
        mean = mean / mass
        if CODE == 0:
            gained = tl.exp2(mean - top)
            worth = 1.0 / (tl.log2(1.0 + rank) * ideal)
            value += (gained - tl.exp2(-top)) * worth
            factor = gained * _LOG_2 * worth
        elif CODE == 1:
            value += mean
            factor = zero + 1.0
        else:
            above += mean
            value += mean * above / rank
            factor = above / rank - steps
            steps += mean / rank
        for column in range(start, end, TILE):
            i = column + tl.arange(0, TILE)
            real = present(mask, i, i < end, MASKED)
            x = alpha * (tl.load(scores + i, mask=real, other=0.0) - lowest)
            rest = tl.load(left + i, mask=real, other=0.0)
            share = tl.exp(x * rest - highest) / mass
            change = share * (_seen(labels, i, real, threshold, CODE) - mean) * rest
            tl.store(slopes + i, tl.load(slopes + i, mask=real, other=0.0) + factor * change, mask=real)
            if CODE == 2:
                tl.store(later + i, tl.load(later + i, mask=real, other=0.0) + change, mask=real)
            tl.store(left + i, rest * (1.0 - share - delta), mask=real)
        tl.debug_barrier()

    scale = zero - 1.0
    if CODE == 1:
        scale = scale / k
    if CODE == 2:
        scale = scale / tl.maximum(hits, 1)
    tl.store(values + tl.program_id(0), scale * value)
    tl.store(signal + tl.program_id(0), some.to(tl.uint8))

    # The lowest score is subtracted from all scores. All documents with this score share the derivative by it.
    total, ties = zero, zero
    for column in range(start, end, TILE):
        i = column + tl.arange(0, TILE)
        real = present(mask, i, i < end, MASKED)
        slope = tl.load(slopes + i, mask=real, other=0.0)
        if CODE == 2:
            slope += steps * tl.load(later + i, mask=real, other=0.0)
        total += tl.sum(slope)
        ties += tl.sum(tl.where(real & (tl.load(scores + i, mask=real, other=0.0) == lowest), 1.0, 0.0))
    shift = total / tl.maximum(ties, 1.0)
    for column in range(start, end, TILE):
        i = column + tl.arange(0, TILE)
        real = present(mask, i, i < end, MASKED)
        slope = tl.load(slopes + i, mask=real, other=0.0)
        if CODE == 2:
            slope += steps * tl.load(later + i, mask=real, other=0.0)
        at_bottom = tl.load(scores + i, mask=real, other=0.0) == lowest
        slope = scale * alpha * (slope - tl.where(at_bottom, shift, 0.0))
        tl.store(slopes + i, tl.where(real, slope, 0.0), mask=i < end)
