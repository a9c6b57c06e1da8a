"""Triton kernel of the family `listwise`: softmax cross entropies, in one launch with one program per list.

Losses that need the documents in order are in `likelihood.py`.

A program reads its list three times: for the highest score and label, for the sums, and for the slopes. After the first
read, the list is in the cache. One program reads 65,536 documents in less time than a few launches take.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from rankgrad.kernels.cuda import Layout, list_bounds, own, present, split
from rankgrad.kernels.cuda.likelihood import plackett_luce, unique_softmax
from rankgrad.kernels.cuda.recorded_launches import allocate, as_bytes, launch
from rankgrad.kernels.options import ListwiseOptions, Targets

SOFTMAX, LISTNET, LISTNET_EXP, XE_NDCG, POLY1 = range(5)
_CODES = {"softmax": SOFTMAX, "listnet": LISTNET, "xe_ndcg": XE_NDCG, "poly1_softmax": POLY1}
TILE, WIDEST = 1024, 4096  # documents per tile: TILE if the length of lists is not known, otherwise at most WIDEST


def run(
    name: str,
    scores: Tensor,
    labels: Tensor,
    weights: Tensor | None,
    mask: Tensor | None,
    offsets: Tensor | None,
    n: int,
    params: Tensor,
    options: ListwiseOptions,
    gradient: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Run the operator on a GPU for a loss of the family `listwise`."""
    scores, labels = own(scores, scores.dtype), own(labels, labels.dtype)
    layout = Layout(scores, offsets, n)
    values, signal = allocate(scores, layout.lists), allocate(scores, layout.lists, dtype=torch.bool)
    slopes = allocate(scores, layout.documents if gradient else 0)
    extras = allocate(scores, layout.lists if gradient else 0, 0)
    heavy = scores if weights is None else own(weights, weights.dtype)
    given = (scores, labels, heavy, as_bytes(mask, scores), *layout.arguments())
    filled = (values, as_bytes(signal, scores), slopes)
    constants = {"MASKED": mask is not None, "WEIGHTED": weights is not None, **layout.constants()}
    if name in ("listmle", "p_listmle"):
        plackett_luce(layout, given, filled, constants, gradient, mask, name == "p_listmle", options.ties)
    elif name == "unique_softmax":
        unique_softmax(layout, given, filled, constants, gradient)
    else:
        code = LISTNET_EXP if name == "listnet" and options.targets == Targets.SOFTMAX else _CODES[name]
        option = options.gamma if name == "xe_ndcg" else options.epsilon
        tile = min(triton.next_power_of_2(max(n, 16)), WIDEST) if layout.padded else TILE
        launch(
            _cross_entropy, layout.list_grid(),
            *given, *filled, *split(option),
            CODE=code, GRADIENT=gradient, TILE=tile, num_warps=4 if tile <= 1024 else 8, **constants,
        )  # fmt: skip
    return values, signal, slopes, extras


@triton.jit
def _target(labels, weights, i, real, top, option, CODE: tl.constexpr, WEIGHTED: tl.constexpr):
    """Return the target of each document in a softmax cross entropy on a GPU, before normalisation.

    Padding has the target 0.
    """
    y = tl.load(labels + i, mask=real, other=0).to(top.dtype)
    if CODE == 2:
        y = tl.exp(y - top)
    if CODE == 3:
        # The gain is divided by 2^max(y), so that large labels do not overflow. The divisor cancels later.
        y = tl.exp2(y - top) - option * tl.exp2(-top)
    if WEIGHTED:
        y = y * tl.load(weights + i, mask=real, other=0).to(top.dtype)
    return tl.where(real, y, 0.0)


@triton.jit
def _cross_entropy(
    scores, labels, weights, mask, offsets, documents, lists, n, values, signal, slopes, option, option_rest,
    CODE: tl.constexpr, MASKED: tl.constexpr, WEIGHTED: tl.constexpr, PADDED: tl.constexpr, STEPS: tl.constexpr,
    GRADIENT: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Compute value, signal and slopes of a softmax cross entropy for a list, on a GPU."""
    l = tl.program_id(0)
    start, end = list_bounds(offsets, tl.program_id(0), n, PADDED)
    high = tl.full([], -float("inf"), scores.dtype.element_ty)
    top = tl.full([], 0.0, scores.dtype.element_ty)
    for column in range(start, end, TILE):
        i = column + tl.arange(0, TILE)
        real = present(mask, i, i < end, MASKED)
        s = tl.load(scores + i, mask=real, other=0.0)
        y = tl.load(labels + i, mask=real, other=0).to(s.dtype)
        high = tl.maximum(high, tl.max(tl.where(real, s, -float("inf"))))
        top = tl.maximum(top, tl.max(tl.where(real, y, 0.0)))
    some = top > 0.0
    option = top * 0.0 + option + option_rest

    total, mass, behind, chance = top * 0.0, top * 0.0, top * 0.0, top * 0.0
    for column in range(start, end, TILE):
        i = column + tl.arange(0, TILE)
        real = present(mask, i, i < end, MASKED)
        s = tl.load(scores + i, mask=real, other=0.0)
        t = _target(labels, weights, i, real, top, option, CODE, WEIGHTED)
        e = tl.where(real, tl.exp(s - high), 0.0)
        total += tl.sum(e)
        mass += tl.sum(t)
        behind += tl.sum(tl.where(real, t * (high - s), 0.0))
        chance += tl.sum(t * e)
    total = tl.where(some, total, 1.0)
    share = tl.where(mass > 0.0, 1.0 / tl.where(mass > 0.0, mass, 1.0), 0.0)
    scale = top * 0.0 + 1.0 if CODE == 0 or CODE == 4 else share
    chance = chance * share / total
    value = scale * (behind + mass * tl.log(total))
    if CODE == 4:
        value += tl.where(mass > 0.0, option * (1.0 - chance), 0.0)
    tl.store(values + l, tl.where(some, value, 0.0))
    tl.store(signal + l, some.to(tl.uint8))
    if not GRADIENT:
        return

    for column in range(start, end, TILE):
        i = column + tl.arange(0, TILE)
        inside = i < end
        real = present(mask, i, inside, MASKED)
        s = tl.load(scores + i, mask=real, other=0.0)
        t = _target(labels, weights, i, real, top, option, CODE, WEIGHTED)
        p = tl.exp(s - high) / total
        slope = scale * (mass * p - t)
        if CODE == 4:
            slope -= option * p * (share * t - chance)
        tl.store(slopes + i, tl.where(some, tl.where(real, slope, 0.0), 0.0), mask=inside)
