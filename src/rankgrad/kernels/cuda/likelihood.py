"""Triton kernels of ListMLE, p-ListMLE and unique softmax, which belong to the family `listwise`.

In ListMLE, a document competes only with documents whose label is not higher. In unique softmax, a document competes
only with documents whose label is lower.

ListMLE sorts the documents by label. Then one program per list scans the list twice. The scan from the end computes the
sum over the remaining documents before each choice. The scan from the front computes the slopes. For lists with up to
`COUNTED` documents, one launch finds the order by counting pairs. For longer lists, PyTorch sorts. Unique softmax needs
two passes over the pairs of a list, and one sum per list.

A sum of exponentials is stored as e^top * rest, where top is the largest exponent in the sum. So no significant term
underflows.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from rankgrad.kernels.cuda import Layout, list_bounds, present, rows
from rankgrad.kernels.cuda.recorded_launches import allocate, launch
from rankgrad.kernels.options import Ties

ROWS, COLUMNS = 32, 64
TILE, WIDEST = 1024, 2048  # documents per tile: TILE if the length of lists is not known, otherwise at most WIDEST
COUNTED = 2048

# The first arguments of every kernel: scores, labels, weights, mask, offsets, documents, lists, n.
Given = tuple[Any, ...]


def plackett_luce(
    layout: Layout,
    given: Given,
    filled: tuple[Tensor, Tensor, Tensor],
    constants: dict[str, Any],
    gradient: bool,
    mask: Tensor | None,
    position_aware: bool,
    ties: Ties,
) -> None:
    """Launch the Triton kernels of ListMLE, or of p-ListMLE if `position_aware`: values, signal and slopes.

    `ties` is the treatment of equal labels: by position, by Breslow's likelihood, or by Efron's likelihood.
    """
    efron = ties == Ties.EFRON
    together = efron or ties == Ties.TOGETHER
    scores, labels = given[:2]
    length = layout.n if layout.padded else layout.documents // max(layout.lists, 1)
    if length <= COUNTED:
        order = allocate(scores, layout.documents, dtype=torch.int32)
        launch(_order_by_label, layout.row_grid(ROWS), *given, order, ROWS=ROWS, COLUMNS=COLUMNS, **constants)
    else:
        order = sorted_order(layout, labels.to(scores.dtype), mask)
    top, rest = allocate(scores, layout.documents), allocate(scores, layout.documents)
    # Results of the scan from the front, and the ends of groups of equal labels.
    extra = layout.documents if together and gradient else 0
    until, share = allocate(scores, extra), allocate(scores, extra)
    ends_needed = together and (gradient or position_aware or efron)
    ends = allocate(scores, layout.documents if ends_needed else 0, dtype=torch.int32)
    heavies = allocate(scores, layout.documents if efron and constants["WEIGHTED"] else 0)
    parts = allocate(scores, layout.documents if efron and gradient else 0)
    tile = min(triton.next_power_of_2(max(layout.n, 16)), WIDEST) if layout.padded else TILE
    launch(
        _likelihood, layout.list_grid(),
        *given, *filled, order, top, rest, until, share, ends, heavies, parts,
        POSITION_AWARE=position_aware, TOGETHER=together, EFRON=efron, GRADIENT=gradient, TILE=tile,
        num_warps=4 if tile <= 1024 else 8, **constants,
    )  # fmt: skip


def unique_softmax(
    layout: Layout,
    given: Given,
    filled: tuple[Tensor, Tensor, Tensor],
    constants: dict[str, Any],
    gradient: bool,
) -> None:
    """Launch the Triton kernels of unique softmax: values, signal and slopes."""
    scores = given[0]
    values, signal, slopes = filled
    top, share, terms = (allocate(scores, layout.documents) for _ in range(3))
    grid, blocks = layout.row_grid(ROWS), {"ROWS": ROWS, "COLUMNS": COLUMNS}
    launch(_fields, grid, *given, top, share, terms, **blocks, **constants)
    tile = min(triton.next_power_of_2(max(layout.n, 16)), TILE) if layout.padded else TILE
    launch(_sums, layout.list_grid(), *given, terms, values, signal, TILE=tile, **constants)
    if gradient:
        launch(_slopes, grid, *given, top, share, slopes, **blocks, **constants)


def sorted_order(layout: Layout, labels: Tensor, mask: Tensor | None) -> Tensor:
    """Sort the documents of each list by label for ListMLE on a GPU, with PyTorch. Return their positions, `(D,)`.

    The highest label comes first, and padding comes last in each list. Documents with equal labels keep their order.
    """
    if layout.padded:
        table = labels.view(layout.lists, layout.n)
        if mask is not None:
            table = table.masked_fill(~mask.view(table.shape), -torch.inf)
        inside = table.sort(dim=1, descending=True, stable=True).indices
        starts = torch.arange(layout.lists, device=labels.device)[:, None] * layout.n
        return (inside + starts).view(-1).to(torch.int32)
    by_label = labels.sort(descending=True, stable=True).indices
    owner = torch.searchsorted(layout.offsets, by_label, right=True)
    return by_label[owner.sort(stable=True).indices].to(torch.int32)


@triton.jit
def _order_by_label(
    scores, labels, weights, mask, offsets, documents, lists, n, order,
    MASKED: tl.constexpr, WEIGHTED: tl.constexpr, PADDED: tl.constexpr, STEPS: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Sort the real documents of each list by descending labels for ListMLE on a GPU, by counting. Fill `order`."""
    i, inside, start, end = rows(offsets, documents, lists, n, PADDED, STEPS, ROWS)
    real = present(mask, i, inside, MASKED)
    y_i = tl.load(labels + i, mask=real, other=0).to(scores.dtype.element_ty)
    before = tl.zeros([ROWS, COLUMNS], tl.int32)
    first = tl.min(tl.where(inside, start, documents))
    last = tl.max(tl.where(inside, end, 0))
    for column in range(first, last, COLUMNS):
        j = column + tl.arange(0, COLUMNS)
        there = present(mask, j, j < last, MASKED)
        y_j = tl.load(labels + j, mask=there, other=0).to(scores.dtype.element_ty)
        ahead = (y_j[None, :] > y_i[:, None]) | ((y_j[None, :] == y_i[:, None]) & (j[None, :] < i[:, None]))
        ahead = ahead & there[None, :]
        if not PADDED:
            ahead = ahead & (j[None, :] >= start[:, None]) & (j[None, :] < end[:, None])
        before += ahead.to(tl.int32)
    tl.store(order + start + tl.sum(before, 1), i.to(tl.int32), mask=real)


@triton.jit
def _join(top_a, rest_a, top_b, rest_b):
    """Add e^top_a * rest_a and e^top_b * rest_b, for a scan of ListMLE on a GPU. Return top and rest of the sum."""
    top = tl.maximum(top_a, top_b)
    return top, rest_a * tl.exp(top_a - top) + rest_b * tl.exp(top_b - top)


@triton.jit
def _less(a, b):
    """Return the smaller number, for a scan of ListMLE on a GPU."""
    return tl.minimum(a, b)


@triton.jit
def _more(a, b):
    """Return the larger number, for a scan of ListMLE on a GPU."""
    return tl.maximum(a, b)


@triton.jit
def _segment(begins_a, total_a, begins_b, total_b):
    """Add up the numbers since the start of the current segment, for a scan of ListMLE on a GPU."""
    return begins_a | begins_b, tl.where(begins_b > 0, total_b, total_a + total_b)


@triton.jit
def _nothing(scores):
    """Return the top of an empty sum of exponentials, e^top * rest, for ListMLE on a GPU.

    The top is finite, so that the difference of two such tops is not NaN.
    """
    if scores.dtype.element_ty == tl.float64:
        return tl.full([], -1e300, tl.float64)
    else:
        return tl.full([], -3e38, tl.float32)


@triton.jit
def _choice_weights(
    weights, i, first, size, inside, last, ordered, WEIGHTED: tl.constexpr, POSITION_AWARE: tl.constexpr
):  # fmt: skip
    """Return the weight of the choice of each document in ListMLE or p-ListMLE, in a Triton kernel.

    The group of a document is all documents with the same label. `size` is the number of documents in the group, and
    `first` is the number of documents before the group. For p-ListMLE, the ranks 1, 2, 3, ... have the shares 1, 1/2,
    1/4, ... `last` is the share of the last rank of the list. The documents of a group have the mean of their shares.
    """
    v = last * 0.0 + 1.0
    if POSITION_AWARE:
        size = size.to(last.dtype)
        share = tl.exp2(-first.to(last.dtype)) * (2.0 - tl.exp2(1.0 - size)) / size
        v = v * tl.maximum(share - last, 0.0) / (1.0 - last)
    if WEIGHTED:
        v = v * tl.load(weights + i, mask=inside, other=0).to(last.dtype)
    return tl.where(inside, tl.where(ordered, v, 0.0), 0.0)


@triton.jit
def _likelihood(
    scores, labels, weights, mask, offsets, documents, lists, n, values, signal, slopes, order, tops, rests,
    untils, shares, ends, heavies, parts,
    MASKED: tl.constexpr, WEIGHTED: tl.constexpr, PADDED: tl.constexpr, STEPS: tl.constexpr,
    POSITION_AWARE: tl.constexpr, TOGETHER: tl.constexpr, EFRON: tl.constexpr, GRADIENT: tl.constexpr,
    TILE: tl.constexpr,
):  # fmt: skip
    """Compute the value and the slopes of ListMLE or p-ListMLE for a list, on a GPU.

    The scan from the end computes the sum over the remaining documents before each choice. The scan from the front adds
    up the chances that a document is chosen. If `TOGETHER`, a choice uses the sum at the first document of its group of
    equal labels, and a document uses the chances up to the last document of its group. If `EFRON`, each choice in a
    group omits a larger part of the group's sum. At the first document of a group, `heavies` contains the sum of the
    weights of the group. At the last document, `parts` contains the sum of the omitted parts of the chances.
    """
    l = tl.program_id(0)
    start, end = list_bounds(offsets, tl.program_id(0), n, PADDED)
    count = 0
    low = tl.full([], float("inf"), scores.dtype.element_ty)
    high = tl.full([], -float("inf"), scores.dtype.element_ty)
    for column in range(start, end, TILE):
        i = column + tl.arange(0, TILE)
        inside = i < end
        real = present(mask, i, inside, MASKED)
        y = tl.load(labels + i, mask=real, other=0).to(scores.dtype.element_ty)
        count += tl.sum(real.to(tl.int32))
        low = tl.minimum(low, tl.min(tl.where(real, y, float("inf"))))
        high = tl.maximum(high, tl.max(tl.where(real, y, -float("inf"))))
        if GRADIENT and MASKED:
            tl.store(slopes + i, tl.zeros([TILE], scores.dtype.element_ty), mask=inside & (real == 0))
    ordered = low < high
    last = tl.exp2(1.0 - tl.maximum(count, 2).to(scores.dtype.element_ty))
    tiles = tl.cdiv(count, TILE)

    value = tl.full([], 0.0, scores.dtype.element_ty)
    after_top, after_rest = _nothing(scores), value
    after_end, after_heavy = count - 1, value
    for tile in range(tiles):
        rank = (tiles - 1 - tile) * TILE + tl.arange(0, TILE)
        inside = rank < count
        i = tl.load(order + start + rank, mask=inside, other=0)
        s = tl.load(scores + i, mask=inside, other=0.0)
        top = tl.where(inside, s, _nothing(scores))
        rest = tl.where(inside, 1.0, top * 0.0)
        top, rest = tl.associative_scan((top, rest), 0, _join, reverse=True)
        top, rest = _join(top, rest, after_top, after_rest)
        if GRADIENT or TOGETHER:
            tl.store(tops + start + rank, top, mask=inside)
            tl.store(rests + start + rank, rest, mask=inside)
        first = tl.arange(0, TILE) == 0
        if not TOGETHER:
            v = _choice_weights(weights, i, rank, rank * 0 + 1, inside, last, ordered, WEIGHTED, POSITION_AWARE)
            value += tl.sum(tl.where(inside, v * (tl.log(tl.where(inside, rest, 1.0)) + (top - s)), 0.0))
        elif GRADIENT or POSITION_AWARE or EFRON:
            y = tl.load(labels + i, mask=inside, other=0)
            below = tl.load(order + start + rank + 1, mask=rank + 1 < count, other=0)
            differs = (tl.load(labels + below, mask=rank + 1 < count, other=0) != y) | (rank + 1 >= count)
            until = tl.associative_scan(tl.where(differs & inside, rank, count - 1), 0, _less, reverse=True)
            until = tl.minimum(until, after_end)
            tl.store(ends + start + rank, until, mask=inside)
            after_end = tl.sum(tl.where(first, until, 0))
            if EFRON and WEIGHTED:
                heavy = tl.load(weights + i, mask=inside, other=0).to(s.dtype)
                ended, heavy = tl.associative_scan(((differs & inside).to(tl.int32), heavy), 0, _segment, reverse=True)
                heavy = tl.where(ended > 0, heavy, heavy + after_heavy)
                tl.store(heavies + start + rank, heavy, mask=inside)
                after_heavy = tl.sum(tl.where(first, heavy, 0.0))
        after_top, after_rest = tl.sum(tl.where(first, top, 0.0)), tl.sum(tl.where(first, rest, 0.0))
    tl.store(signal + l, ordered.to(tl.uint8))
    if not TOGETHER:
        tl.store(values + l, value)
        if not GRADIENT:
            return

    tl.debug_barrier()  # wait for the sums that other threads of this program store
    until_top, until_rest = _nothing(scores), value * 0.0
    until_first, until_part = count * 0, value * 0.0
    for tile in range(tiles):
        rank = tile * TILE + tl.arange(0, TILE)
        inside = rank < count
        i = tl.load(order + start + rank, mask=inside, other=0)
        s = tl.load(scores + i, mask=inside, other=0.0)
        end_of_tile = tl.arange(0, TILE) == TILE - 1
        at, until = rank, rank
        if TOGETHER:
            y = tl.load(labels + i, mask=inside, other=0)
            above = tl.load(order + start + rank - 1, mask=inside & (rank > 0), other=0)
            differs = tl.load(labels + above, mask=inside & (rank > 0), other=0) != y
            at = tl.associative_scan(tl.where(differs & (rank > 0), rank, 0), 0, _more)
            at = tl.maximum(at, until_first)
            until_first = tl.sum(tl.where(end_of_tile, at, 0))
            if POSITION_AWARE or EFRON:
                until = tl.load(ends + start + rank, mask=inside, other=0)
        v = _choice_weights(weights, i, at, until - at + 1, inside, last, ordered, WEIGHTED, POSITION_AWARE)
        top = tl.load(tops + start + at, mask=inside, other=0.0)
        rest = tl.load(rests + start + at, mask=inside, other=1.0)
        mean = v
        if EFRON:
            size = tl.where(inside, until - at + 1, 1).to(s.dtype)
            part = tl.where(inside, rank - at, 0).to(s.dtype) / size
            some = inside & (until + 1 < count)
            below_top = tl.load(tops + start + until + 1, mask=some, other=0.0)
            below = tl.load(rests + start + until + 1, mask=some, other=0.0)
            rest = (1.0 - part) * rest + part * below * tl.exp(tl.where(some, below_top - top, 0.0))
            if WEIGHTED:
                mean = tl.load(heavies + start + at, mask=inside, other=0.0) / size
                mean = tl.where(inside, tl.where(ordered, mean, 0.0), 0.0)
        if TOGETHER:
            terms = mean * tl.log(tl.where(inside, rest, 1.0)) + v * (top - s)
            value += tl.sum(tl.where(inside, terms, 0.0))
        if GRADIENT:
            rest = tl.where(inside, rest, 1.0)
            if EFRON:
                began, left = tl.associative_scan(((rank == at).to(tl.int32), mean * part / rest), 0, _segment)
                left = tl.where(began > 0, left, left + until_part)
                tl.store(parts + start + rank, left, mask=inside)
                until_part = tl.sum(tl.where(end_of_tile, left, 0.0))
            top = tl.where(inside, -top, _nothing(scores))
            top, rest = tl.associative_scan((top, mean / rest), 0, _join)
            top, rest = _join(top, rest, until_top, until_rest)
            if TOGETHER:
                tl.store(untils + start + rank, top, mask=inside)
                tl.store(shares + start + rank, rest, mask=inside)
                tl.store(slopes + i, -v, mask=inside)  # the sums are added below
            else:
                tl.store(slopes + i, tl.exp(tl.where(inside, s + top, 0.0)) * rest - v, mask=inside)
            until_top, until_rest = tl.sum(tl.where(end_of_tile, top, 0.0)), tl.sum(tl.where(end_of_tile, rest, 0.0))
    if not TOGETHER:
        return
    tl.store(values + l, value)
    if not GRADIENT:
        return

    tl.debug_barrier()
    for tile in range(tiles):
        rank = tile * TILE + tl.arange(0, TILE)
        inside = rank < count
        i = tl.load(order + start + rank, mask=inside, other=0)
        s = tl.load(scores + i, mask=inside, other=0.0)
        until = tl.load(ends + start + rank, mask=inside, other=0)
        top = tl.load(untils + start + until, mask=inside, other=0.0)
        rest = tl.load(shares + start + until, mask=inside, other=0.0)
        if EFRON:
            # The tops never increase, so the top of all chances is that of the last group.
            rest -= tl.load(parts + start + until, mask=inside, other=0.0)
        slope = tl.load(slopes + i, mask=inside, other=0.0) + tl.exp(tl.where(inside, s + top, 0.0)) * rest
        tl.store(slopes + i, slope, mask=inside)


@triton.jit
def _gain(labels, weights, i, real, scores, WEIGHTED: tl.constexpr):
    """Return label y and target w (2^y - 1) of each document in unique softmax on a GPU. w is the weight."""
    y = tl.load(labels + i, mask=real, other=0).to(scores.dtype.element_ty)
    t = tl.exp2(y) - 1.0
    if WEIGHTED:
        t = t * tl.load(weights + i, mask=real, other=0).to(scores.dtype.element_ty)
    return y, tl.where(real, t, 0.0)


@triton.jit
def _fields(
    scores, labels, weights, mask, offsets, documents, lists, n, tops, shares, terms,
    MASKED: tl.constexpr, WEIGHTED: tl.constexpr, PADDED: tl.constexpr, STEPS: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Compute, on a GPU, the field of each document in unique softmax, and the document's contribution to the loss.

    The field is the sum of exponentials over the document and the documents with lower labels.
    """
    i, inside, start, end = rows(offsets, documents, lists, n, PADDED, STEPS, ROWS)
    real = present(mask, i, inside, MASKED)
    y_i, t_i = _gain(labels, weights, i, real, scores, WEIGHTED)
    s_i = tl.load(scores + i, mask=real, other=0.0)
    first = tl.min(tl.where(inside, start, documents))
    last = tl.max(tl.where(inside, end, 0))
    highest = tl.zeros([ROWS, COLUMNS], s_i.dtype) + s_i[:, None]
    for column in range(first, last, COLUMNS):
        j = column + tl.arange(0, COLUMNS)
        there = present(mask, j, j < last, MASKED)
        rival = there[None, :] & (tl.load(labels + j, mask=there, other=0).to(s_i.dtype)[None, :] < y_i[:, None])
        if not PADDED:
            rival = rival & (j[None, :] >= start[:, None]) & (j[None, :] < end[:, None])
        s_j = tl.load(scores + j, mask=there, other=0.0)
        highest = tl.maximum(highest, tl.where(rival, s_j[None, :], -float("inf")))
    top = tl.max(highest, 1)
    total = tl.zeros([ROWS, COLUMNS], s_i.dtype)
    for column in range(first, last, COLUMNS):
        j = column + tl.arange(0, COLUMNS)
        there = present(mask, j, j < last, MASKED)
        rival = there[None, :] & (tl.load(labels + j, mask=there, other=0).to(s_i.dtype)[None, :] < y_i[:, None])
        if not PADDED:
            rival = rival & (j[None, :] >= start[:, None]) & (j[None, :] < end[:, None])
        s_j = tl.load(scores + j, mask=there, other=0.0)
        total += tl.exp(tl.where(rival, s_j[None, :] - top[:, None], -float("inf")))
    rest = tl.sum(total, 1) + tl.exp(s_i - top)
    tl.store(tops + i, top, mask=inside)
    tl.store(shares + i, t_i / rest, mask=inside)
    tl.store(terms + i, tl.where(real, t_i * (tl.log(rest) + (top - s_i)), 0.0), mask=inside)


@triton.jit
def _sums(
    scores, labels, weights, mask, offsets, documents, lists, n, terms, values, signal,
    MASKED: tl.constexpr, WEIGHTED: tl.constexpr, PADDED: tl.constexpr, STEPS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Compute value and signal of unique softmax for a list on a GPU, from the contributions of its documents."""
    start, end = list_bounds(offsets, tl.program_id(0), n, PADDED)
    value = tl.full([], 0.0, scores.dtype.element_ty)
    relevant = 0
    for column in range(start, end, TILE):
        i = column + tl.arange(0, TILE)
        real = present(mask, i, i < end, MASKED)
        y = tl.load(labels + i, mask=real, other=0).to(scores.dtype.element_ty)
        relevant += tl.sum((real & (y > 0.0)).to(tl.int32))
        value += tl.sum(tl.load(terms + i, mask=real, other=0.0))
    tl.store(values + tl.program_id(0), value)
    tl.store(signal + tl.program_id(0), (relevant > 0).to(tl.uint8))


@triton.jit
def _slopes(
    scores, labels, weights, mask, offsets, documents, lists, n, tops, shares, slopes,
    MASKED: tl.constexpr, WEIGHTED: tl.constexpr, PADDED: tl.constexpr, STEPS: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Compute slopes of unique softmax on a GPU, from the field of each document and those of higher labels."""
    j, inside, start, end = rows(offsets, documents, lists, n, PADDED, STEPS, ROWS)
    real = present(mask, j, inside, MASKED)
    y_j, t_j = _gain(labels, weights, j, real, scores, WEIGHTED)
    s_j = tl.load(scores + j, mask=real, other=0.0)
    first = tl.min(tl.where(inside, start, documents))
    last = tl.max(tl.where(inside, end, 0))
    total = tl.zeros([ROWS, COLUMNS], s_j.dtype)
    for column in range(first, last, COLUMNS):
        i = column + tl.arange(0, COLUMNS)
        there = present(mask, i, i < last, MASKED)
        above = there[None, :] & (tl.load(labels + i, mask=there, other=0).to(s_j.dtype)[None, :] > y_j[:, None])
        if not PADDED:
            above = above & (i[None, :] >= start[:, None]) & (i[None, :] < end[:, None])
        top = tl.load(tops + i, mask=there, other=0.0)
        share = tl.load(shares + i, mask=there, other=0.0)
        part = share[None, :] * tl.exp(tl.where(above, s_j[:, None] - top[None, :], -float("inf")))
        total += tl.where(above, part, 0.0)  # a NaN must not spread from another list
    top = tl.load(tops + j, mask=real, other=0.0)
    own = tl.load(shares + j, mask=real, other=0.0) * tl.exp(s_j - top)
    tl.store(slopes + j, tl.where(real, tl.sum(total, 1) + own - t_j, 0.0), mask=inside)
