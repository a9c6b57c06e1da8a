"""What eager mode calls: a loss reduced over its lists, and its gradient, in as few launches as there are steps."""

from contextlib import nullcontext
from importlib import import_module
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from rankgrad.kernels.cuda import own
from rankgrad.kernels.cuda.recorded import Recording, as_bytes, launch, room

MOST = 1024  # kinds of calls that are remembered
TILE = 1024
_known: dict[Any, Recording] = {}


def reduced(
    family: str,
    reduction: str,
    name: str,
    scores: Tensor,
    labels: Tensor,
    weights: Tensor | None,
    mask: Tensor | None,
    offsets: Tensor | None,
    n: int,
    params: tuple[Any, ...],
    options: tuple[float, ...],
    gradient: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The result, the slopes, like scores, and for `"none"` what the operator calls extras.

    The result of `"none"` is one value a list. Else it is the reduced value, the share of a list in it, and the sums
    over the lists of the derivatives by the `params`, which are numbers or tensors.
    """
    dtype, device = scores.dtype, scores.device
    tensors = [
        scores.contiguous(),
        own(labels, dtype),
        None if weights is None else own(weights, dtype),
        None if mask is None else mask.contiguous(),
        None if offsets is None else offsets.contiguous(),
        *(own(param, dtype) for param in params if isinstance(param, Tensor)),
    ]
    addresses = [0 if tensor is None else tensor.data_ptr() for tensor in tensors]
    numbers = tuple(None if isinstance(param, Tensor) else param for param in params)
    sizes = (scores.shape, n, None if offsets is None else offsets.shape[0], mask is None, weights is None)
    kind = (name, reduction, sizes, numbers, options, gradient, dtype, device, _uneven(addresses))
    if (recording := _known.get(kind)) is not None:
        with _on(device):
            result, slopes = recording.again(addresses, device)
        return result, slopes, None
    flat = [None if tensor is None else tensor.detach().view(-1) for tensor in tensors[:5]]
    flat += [tensor.detach() for tensor in tensors[5:]]
    learned = iter(flat[5:])
    given = tuple(next(learned) if number is None else number for number in numbers)
    with _on(device), Recording(flat) as recording:
        run = import_module(f"rankgrad.kernels.cuda.{family}").run
        values, signal, slopes, extras = run(name, *flat[:5], n, given, options, gradient)
        result = values if reduction == "none" else _reduce(reduction, values, signal, extras, len(flat) - 5)
    recording.finish((result, result.shape), (slopes, scores.shape if gradient else slopes.shape))
    if recording.whole and (reduction != "none" or len(flat) == 5):
        _remember(kind, recording)
    return result, slopes.view(scores.shape) if gradient else slopes, extras


def _reduce(reduction: str, values: Tensor, signal: Tensor, extras: Tensor, params: int) -> Tensor:
    result = room(values, 2 + params)
    launch(
        _reduction, (1,), values, as_bytes(signal, values), extras, result, values.shape[0],
        MEAN=reduction == "mean", PARAMS=params if extras.shape[0] else 0,
        TILE=min(max(triton.next_power_of_2(values.shape[0]), 16), TILE),
    )  # fmt: skip
    return result


def scaled(slopes: Tensor, result: Tensor, upstream: Tensor) -> tuple[Tensor, Tensor | None]:
    """The gradients by scores, and by params if there are any, of a loss reduced to one value, given its `upstream`."""
    addresses = [slopes.data_ptr(), result.data_ptr(), upstream.data_ptr()]
    device, params, documents = slopes.device, result.shape[0] - 2, slopes.numel()
    kind = (slopes.shape, params, slopes.dtype, device, _uneven(addresses))
    with _on(device):
        if (recording := _known.get(kind)) is not None:
            by_scores, *others = recording.again(addresses, device)
            return by_scores, others[0] if others else None
        inputs = (slopes, result, upstream.detach())
        with Recording(inputs) as recording:
            by_scores, by_params = room(slopes, documents), room(slopes, params)
            grid = (triton.cdiv(documents, TILE),)
            launch(_scaling, grid, *inputs, by_scores, by_params, documents, PARAMS=params, TILE=TILE)
    recording.finish((by_scores, slopes.shape), *([(by_params, by_params.shape)] if params else []))
    if recording.whole:
        _remember(kind, recording)
    return by_scores.view(slopes.shape), by_params


def _uneven(addresses: list[int]) -> tuple[int, ...]:
    """Triton compiles another kernel for addresses that are no multiples of 16."""
    return tuple([address & 15 for address in addresses])


def _on(device: torch.device) -> Any:
    """Kernels are launched on the current device."""
    elsewhere = device.type == "cuda" and device.index != torch.cuda.current_device()
    return torch.cuda.device(device) if elsewhere else nullcontext()


def _remember(kind: Any, recording: Recording) -> None:
    if len(_known) >= MOST:
        _known.clear()
    _known[kind] = recording


@triton.jit
def _reduction(
    values, signal, extras, result, lists, MEAN: tl.constexpr, PARAMS: tl.constexpr, TILE: tl.constexpr
):  # fmt: skip
    """The sum or the mean over the lists that carry signal; the share of each; the sums of the columns of extras."""
    total = tl.zeros([TILE], values.dtype.element_ty)
    count = tl.zeros([TILE], tl.int32)
    for start in range(0, lists, TILE):
        i = start + tl.arange(0, TILE)
        total += tl.load(values + i, mask=i < lists, other=0.0)
        count += tl.load(signal + i, mask=i < lists, other=0).to(tl.int32)
    share = tl.full([], 1.0, values.dtype.element_ty)
    if MEAN:
        share = share / tl.maximum(tl.sum(count), 1).to(share.dtype)
    tl.store(result, tl.sum(total) * share)
    tl.store(result + 1, share)
    for param in tl.static_range(PARAMS):
        column = tl.zeros([TILE], values.dtype.element_ty)
        for start in range(0, lists, TILE):
            i = start + tl.arange(0, TILE)
            column += tl.load(extras + i.to(tl.int64) * PARAMS + param, mask=i < lists, other=0.0)
        tl.store(result + 2 + param, tl.sum(column))


@triton.jit
def _scaling(
    slopes, result, upstream, by_scores, by_params, documents, PARAMS: tl.constexpr, TILE: tl.constexpr
):  # fmt: skip
    factor = tl.load(upstream) * tl.load(result + 1)
    i = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    tl.store(by_scores + i, factor * tl.load(slopes + i, mask=i < documents, other=0.0), mask=i < documents)
    if PARAMS > 0 and tl.program_id(0) == 0:
        for param in tl.static_range(PARAMS):
            tl.store(by_params + param, factor * tl.load(result + 2 + param))
