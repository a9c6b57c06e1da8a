"""Calls of fused losses on a GPU, with recorded launches.

A call computes a reduced loss and its gradient, or the outputs of the operator.
"""

from contextlib import nullcontext
from importlib import import_module
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from rankgrad.kernels.backward import OnceOnly, by_all_lists, is_source, scale
from rankgrad.kernels.cuda import native
from rankgrad.kernels.cuda.recorded_launches import Recording, allocate, as_bytes, launch
from rankgrad.kernels.options import OPTIONS

MOST = 1024  # maximum number of recorded calls
TILE, PROGRAMS = 1024, 256  # documents per tile; maximum number of programs
_known: dict[Any, Recording] = {}


def eager(
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
) -> Tensor:
    """Compute a reduced fused loss on a GPU, for eager mode.

    The loss is differentiable with respect to `scores` and, if all params are tensors, `params`.
    """
    built = native.ready()
    made = reduced(family, reduction, name, scores, labels, weights, mask, offsets, n, params, options, gradient, built)
    if not gradient:
        return made[0]
    learned = params if params and isinstance(params[0], Tensor) else ()
    if built is not None and reduction != "none":
        value: Tensor = built.connect(*made, scores, *learned)
    else:
        value = Connected.apply((made, reduction, offsets, n), scores, *learned)
    return value


class Connected(torch.autograd.Function):
    """Autograd function that connects an already computed loss on a GPU to the graph. `native.cpp` has the same class.

    PyTorch calls `backward` in a separate thread, in which Python code is several times slower. So `backward` computes
    only one product.
    """

    @staticmethod
    def forward(ctx: Any, call: tuple[list[Tensor], str, Tensor | None, int], *sources: Tensor) -> Tensor:
        """Return the loss that was computed on the GPU, unchanged."""
        (value, *slopes), reduction, offsets, n = call
        ctx.each = (offsets, n) if reduction == "none" else None
        scores, *learned = sources
        ctx.learned = [scores.numel(), len(learned)] if learned else None
        ctx.save_for_backward(*slopes, *sources)
        return value

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Any, ...]:
        """Return the gradients of a loss on a GPU by the scores and, if the params are tensors, by the params."""
        slopes, *others = ctx.saved_tensors
        by_params = None
        if ctx.each is not None:
            by_scores = scale(slopes.view(-1), upstream, *ctx.each).view(slopes.shape)
            by_params = by_all_lists(others.pop(0), upstream) if ctx.learned else None
        elif ctx.learned:
            by_scores, by_params = (slopes * upstream).split_with_sizes(ctx.learned)
            by_scores = by_scores.view(others[0].shape)
        else:
            by_scores = slopes * upstream
        if torch.is_grad_enabled():
            by_scores = OnceOnly.apply(by_scores, others[0])
            by_params = None if by_params is None else OnceOnly.apply(by_params, others[1])
        return (None, by_scores) if by_params is None else (None, by_scores, *by_params.unbind())


def held_slopes(value: Tensor, scores: Tensor) -> Tensor | None:
    """Return the gradient of a reduced loss on a GPU with respect to the leaf `scores`, without a backward pass.

    The graph already contains this gradient. Returns None if other operations are between `scores` and the loss.
    """
    node: Any = value.grad_fn
    if is_source(node, Connected, scores):
        slopes: Tensor = node.saved_tensors[0]
        return slopes.view(-1)[: scores.numel()].view(scores.shape)
    built = native.ready()
    held: Tensor | None = None if built is None else built.slopes(value, scores)
    return held


def registered(family: str, name: str, *call: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the outputs of the operator on a GPU, for compiled code. Kernels receive params on the CPU as numbers."""
    *inputs, params, options, gradient = call
    parts: tuple[Any, ...] = ()
    if params.shape[0]:
        parts = params.unbind() if params.is_cuda else tuple(params.tolist())
    values, signal, slopes, extras = reduced(family, None, name, *inputs, parts, options, gradient, None)
    return values, signal, slopes, extras


def reduced(
    family: str,
    reduction: str | None,
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
    built: Any,
) -> list[Tensor]:
    """Run the kernels of a call on a GPU, or repeat its recorded launches. Return the reduced loss and its derivatives.

    The derivatives with respect to the scores have the shape of the scores. If the params are tensors, one tensor
    `(documents + P,)` contains the derivatives with respect to scores, then the derivatives with respect to params.
    With the reduction `"none"`, return two outputs: one value per list, and the slopes. If the params are tensors, also
    return the extras of the operator, `(L, P)`. Without a reduction (None), return the four outputs of the operator.
    `built` is the C++ module, or None; without a reduction, it must be None.
    """
    dtype, device = scores.dtype, scores.device
    tensors = [
        scores.contiguous(),
        _ready(labels, dtype),
        None if weights is None else _ready(weights, dtype),
        None if mask is None else mask.contiguous(),
        None if offsets is None else offsets.contiguous(),
    ]
    numbers = params
    if params and isinstance(params[0], Tensor):
        tensors += [_ready(param, dtype) for param in params]
        numbers = (None,) * len(params)
    addresses = [0 if tensor is None else tensor.data_ptr() for tensor in tensors]
    sizes = (scores.shape, 0 if offsets is None else offsets.shape[0], mask is None, weights is None)
    kind = (name, reduction, sizes, numbers, options, gradient, dtype, device, _uneven(addresses))
    if (recording := _known.get(kind)) is not None:
        with _on(device):
            return recording.again(addresses, device, built)
    flat = [None if tensor is None else tensor.detach().view(-1) for tensor in tensors[:5]]
    learned = [tensor.detach() for tensor in tensors[5:] if tensor is not None]
    with _on(device), Recording([*flat, *learned]) as recording:
        run, chosen = import_module(f"rankgrad.kernels.cuda.{family}").run, OPTIONS[family].of(options)
        values, signal, slopes, extras = run(name, *flat, n, tuple(learned) or params, chosen, gradient)
        apart = learned and reduction == "none"
        if reduction in ("mean", "sum"):
            values, slopes = _reduce(reduction, values, signal, slopes, extras, len(learned) if gradient else 0)
    if reduction is None:
        found = [(tensor, tensor.shape) for tensor in (values, signal, slopes, extras)]
    else:
        shape = slopes.shape if (learned and not apart) or not gradient else scores.shape
        found = [(values, values.shape), (slopes, shape), *([(extras, extras.shape)] if apart else [])]
    recording.finish(*found)
    if recording.whole:
        if len(_known) >= MOST:
            _known.clear()
        _known[kind] = recording
    return [tensor.view(shape) for tensor, shape in found]


def _reduce(
    reduction: str, values: Tensor, signal: Tensor, slopes: Tensor, extras: Tensor, params: int
) -> tuple[Tensor, Tensor]:
    """Launch the reduction of a call on a GPU. Return the reduced loss and its derivatives.

    The derivatives with respect to the scores come first, then the derivatives with respect to the params. `params` is
    the number of params. This function may change `slopes`.
    """
    value, lists, documents = allocate(values), values.shape[0], slopes.shape[0]
    out = allocate(slopes, documents + params) if params else slopes
    programs = min(triton.cdiv(documents, TILE), PROGRAMS) if reduction == "mean" or params else 1
    launch(
        _reduction, (max(programs, 1),),
        values, as_bytes(signal, values), slopes, extras, value, out, lists, documents,
        MEAN=reduction == "mean", PARAMS=params, WIDE=triton.next_power_of_2(max(params, 1)),
        LISTS=min(max(triton.next_power_of_2(lists), 16), TILE), TILE=TILE,
    )  # fmt: skip
    return value, out


def _ready(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a contiguous tensor with this dtype, for a call on a GPU. The tensor is copied only if necessary."""
    return (tensor if tensor.dtype == dtype else tensor.detach().to(dtype)).contiguous()


def _uneven(addresses: list[int]) -> tuple[int, ...]:
    """Return the addresses of a call's tensors modulo 16.

    Triton compiles a separate kernel if an address is not a multiple of 16.
    """
    return tuple([address & 15 for address in addresses])


def _on(device: torch.device) -> Any:
    """Return a context in which the kernels of a call are launched on this GPU."""
    elsewhere = device.type == "cuda" and device.index != torch._C._cuda_getDevice()
    return torch.cuda.device(device) if elsewhere else nullcontext()


@triton.jit
def _reduction(
    values, signal, slopes, extras, value, out, lists, documents,
    MEAN: tl.constexpr, PARAMS: tl.constexpr, WIDE: tl.constexpr, LISTS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Compute, on a GPU, the sum of the values of the lists, or the mean over lists with signal.

    Every program computes this number, and scales a part of the slopes.
    """
    total = tl.zeros([LISTS], values.dtype.element_ty)
    count = tl.zeros([LISTS], tl.int32)
    columns = tl.zeros([LISTS, WIDE], values.dtype.element_ty)
    param = tl.arange(0, WIDE)
    for start in range(0, lists, LISTS):
        i = start + tl.arange(0, LISTS)
        total += tl.load(values + i, mask=i < lists, other=0.0)
        count += tl.load(signal + i, mask=i < lists, other=0).to(tl.int32)
        if PARAMS > 0:
            at = i.to(tl.int64)[:, None] * PARAMS + param[None, :]
            columns += tl.load(extras + at, mask=(i < lists)[:, None] & (param < PARAMS)[None, :], other=0.0)
    share = tl.full([], 1.0, values.dtype.element_ty)
    if MEAN:
        share = share / tl.maximum(tl.sum(count), 1).to(share.dtype)
    if tl.program_id(0) == 0:
        tl.store(value, tl.sum(total) * share)
        if PARAMS > 0:
            tl.store(out + documents + param, tl.sum(columns, 0) * share, mask=param < PARAMS)
    if MEAN or PARAMS > 0:
        for first in range(tl.program_id(0) * TILE, documents, tl.num_programs(0) * TILE):
            i = first + tl.arange(0, TILE)
            slope = tl.load(slopes + i, mask=i < documents, other=0.0)
            tl.store(out + i, slope * share, mask=i < documents)
