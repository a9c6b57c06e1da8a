"""One PyTorch operator for all fused losses: `torch.ops.rankgrad.loss`.

The documents of all lists are one flat sequence. List `l` is the slice `offsets[l]:offsets[l + 1]`. Without offsets,
list `l` is the slice `l * n:(l + 1) * n`. `mask` can exclude any documents. For L lists and D documents, the operator
returns

- `values (L,)`: value of each list,
- `signal (L,)`: True if the list has signal, that is, if the loss can learn from the list,
- `slopes (D,)`: for each document, the derivative of its list's value with respect to its score, or 0 if masked,
- `extras (L, P)`: derivatives of the value of each list with respect to the P `params` of the loss.

So the backward pass only multiplies these derivatives by the upstream gradients. Computing a second derivative raises
an error, because the slopes have no autograd graph.
"""

from collections.abc import Sequence
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rankgrad.kernels.backward import OnceOnly, by_all_lists, is_source, scale
from rankgrad.kernels.options import OPTIONS, KernelOptions

# Family of each loss. The name of the family is the name of its file in `cpu/` and `cuda/`.
FAMILIES = {
    "approx_ap": "approx",
    "approx_mrr": "approx",
    "approx_precision": "approx",
    "fastsort_ndcg": "soft_ndcg",
    "hinge": "pairwise",
    "lambdaloss": "pairwise",
    "lambdarank": "pairwise",
    "learndcg": "approx",
    "listmle": "listwise",
    "listnet": "listwise",
    "neural_ndcg": "neural_ndcg",
    "p_listmle": "listwise",
    "poly1_softmax": "listwise",
    "ranknet": "pairwise",
    "smooth_ap": "smoothi",
    "smooth_ndcg": "smoothi",
    "smooth_precision": "smoothi",
    "softmax": "listwise",
    "softsort_ndcg": "soft_ndcg",
    "unique_softmax": "listwise",
    "xe_ndcg": "listwise",
}
FUSED = {*FAMILIES, "approx_ndcg"}  # losses with a kernel, in lower case; ApproxNDCG uses the kernel of LearnDCG

Outputs = tuple[Tensor, Tensor, Tensor, Tensor]

_SCHEMA = (
    "loss(str name, Tensor scores, Tensor labels, Tensor? weights, Tensor? mask, Tensor? offsets, SymInt n, "
    "Tensor params, float[] options, bool gradient) -> (Tensor, Tensor, Tensor, Tensor)"
)


@cache
def _module(device: str, family: str) -> Any:
    """Import a module of `kernels/cpu` or `kernels/cuda`, usually the module of a family."""
    return import_module(f"rankgrad.kernels.{device}.{family}")


def on_cpu(name: str, *arguments: Any) -> Outputs:
    """Run the kernel of a fused loss on the CPU. The caller has checked the arguments.

    `arguments` are the arguments of the operator after the name, with one difference: the options are an object of a
    class in `options.py`, not numbers.
    """
    outputs: Outputs = _module("cpu", FAMILIES[name]).run(name, *arguments)
    return outputs


def _registered_on_cpu(name: str, scores: Tensor, *others: Any) -> Outputs:
    """Run the operator of all fused losses on the CPU, for `torch.compile`.

    The offsets are checked here, because compiled code does not check them.
    """
    offsets: Tensor | None = others[3]
    if offsets is not None:
        first, last, documents = int(offsets[0]), int(offsets[-1]), scores.shape[0]
        if first != 0 or last != documents or bool((offsets.diff() < 0).any()):
            must = f"offsets must run from 0 to the number of documents, {documents}, and must not decrease"
            raise ValueError(f"{must}; got {offsets.tolist() if offsets.numel() < 20 else f'{first} to {last}'}")
    *inputs, numbers, gradient = others
    return on_cpu(name, scores, *inputs, _options(FAMILIES[name], tuple(numbers)), gradient)


def _registered_on_cuda(name: str, *others: Any) -> Outputs:
    """Run the operator of all fused losses on a GPU, for `torch.compile`."""
    *inputs, numbers, gradient = others
    outputs: Outputs = _module("cuda", "calls").registered(FAMILIES[name], name, *inputs, tuple(numbers), gradient)
    return outputs


@lru_cache(maxsize=256)  # a compiled step uses the same options in each call
def _options(family: str, numbers: tuple[float, ...]) -> KernelOptions:
    """Convert the numbers that the operator of the fused losses receives to the options of a family."""
    return OPTIONS[family].of(numbers)


def _fake(
    name: str,
    scores: Tensor,
    labels: Tensor,
    weights: Tensor | None,
    mask: Tensor | None,
    offsets: Tensor | None,
    n: int,
    params: Tensor,
    options: list[float],
    gradient: bool,
) -> Outputs:
    """Return uninitialised tensors like the outputs of the operator of the fused losses, for `torch.compile`."""
    lists = scores.shape[0] // n if offsets is None else offsets.shape[0] - 1
    values = scores.new_empty(lists)
    slopes = scores.new_empty(scores.shape[0] if gradient else 0)
    extras = scores.new_empty((lists, params.shape[0]) if gradient else (0, params.shape[0]))
    return values, values.new_empty(lists, dtype=torch.bool), slopes, extras


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Outputs) -> None:
    """Save the tensors that the backward pass of the operator of the fused losses needs."""
    _, _, slopes, extras = output
    ctx.save_for_backward(slopes, extras, inputs[5])
    ctx.n = inputs[6]
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, upstream: Tensor | None, *others: Tensor | None) -> tuple[Any, ...]:
    """Return the gradients of the operator of the fused losses with respect to the scores and to the params."""
    if upstream is None:
        return (None,) * 10
    slopes, extras, offsets = ctx.saved_tensors
    by_scores = scale(slopes, upstream, offsets, ctx.n)
    by_params = by_all_lists(extras, upstream) if extras.shape[1] else extras.new_zeros(0)
    return (None, by_scores, None, None, None, None, None, by_params, None, None)


class Loss(torch.autograd.Function):
    """Autograd function of a fused loss for eager mode on the CPU. It runs the kernel and the reduction.

    Its overhead is one third of the overhead of the registered operator. `params` are numbers or tensors. The caller
    does not need to flatten the input tensors.
    """

    @staticmethod
    def forward(ctx: Any, reduction: str, name: str, *inputs: Any) -> Tensor:
        """Run the CPU kernel of a fused loss, reduce the values of the lists, and save the slopes."""
        scores, labels, weights, mask, offsets, n, options, gradient, *params = inputs
        flat = (_flat(tensor) for tensor in (scores, labels, weights, mask))
        arguments = (*flat, offsets, n, _as_tensor(params, scores), options, gradient)
        value, signal, slopes, extras = on_cpu(name, *arguments)
        # Counting with NumPy takes less time than the overhead of a PyTorch call.
        share = 1.0 / max(int(np.count_nonzero(signal.numpy())), 1) if reduction == "mean" else 1.0  # weight of a list
        if reduction != "none":
            value = value.sum() * share
        ctx.save_for_backward(slopes, extras, offsets, scores, *(p for p in params if isinstance(p, Tensor)))
        ctx.n, ctx.reduction, ctx.share = n, reduction, share
        return value

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Any, ...]:
        """Return the gradients of a fused loss: the saved slopes, multiplied by the upstream gradient."""
        slopes, extras, offsets, scores, *params = ctx.saved_tensors
        if ctx.reduction == "none":
            by_scores = scale(slopes, upstream, offsets, ctx.n)
            by_params = by_all_lists(extras, upstream) if params else None
        else:
            factor = upstream * ctx.share
            by_scores = slopes * factor
            by_params = extras.sum(0) * factor if params else None
        by_scores = by_scores.view(scores.shape)
        if torch.is_grad_enabled():
            by_scores = OnceOnly.apply(by_scores, scores)
            by_params = OnceOnly.apply(by_params, params[0]) if params else None
        nothing = (None,) * (len(ctx.needs_input_grad) - 10)
        each = nothing if by_params is None else by_params.unbind()
        return (None, None, by_scores, None, None, None, None, None, None, None, *each)


def held(value: Tensor, scores: Tensor) -> Tensor | None:
    """Return the gradient of a reduced fused loss with respect to the leaf `scores`, without a backward pass.

    The graph already contains this gradient. Returns None if other operations are between `scores` and the loss.
    """
    if value.is_cuda:
        from rankgrad.kernels.cuda.calls import held_slopes

        return held_slopes(value, scores)
    node: Any = value.grad_fn
    if not is_source(node, Loss, scores):
        return None
    slopes: Tensor = node.saved_tensors[0]
    return (slopes * node.share).view(scores.shape)


def _flat(tensor: Tensor | None) -> Tensor | None:
    """Return an input of the operator of the fused losses as a vector, or None if there is no such input."""
    return None if tensor is None else tensor.reshape(-1)


def _as_tensor(params: Sequence[Any], scores: Tensor) -> Tensor:
    """Return the params of a fused loss as one tensor. If they are numbers, the tensor is float64 on the CPU."""
    if not params:
        return scores.new_empty(0)
    if isinstance(params[0], Tensor):
        return torch.stack([*params])
    return torch.tensor(params, dtype=torch.float64, device="cpu")


_library = torch.library.Library("rankgrad", "DEF")
_library.define(_SCHEMA)
_library.impl("loss", _registered_on_cpu, "CPU")
_library.impl("loss", _registered_on_cuda, "CUDA")
torch.library.register_fake("rankgrad::loss", _fake, lib=_library)
torch.library.register_autograd("rankgrad::loss", _backward, setup_context=_remember, lib=_library)


def loss(
    reduction: str,
    name: str,
    scores: Tensor,
    labels: Tensor,
    weights: Tensor | None,
    mask: Tensor | None,
    offsets: Tensor | None,
    params: Sequence[Any],
    options: KernelOptions,
) -> Tensor:
    """Compute a fused loss of padded or flat lists, and reduce it over the lists.

    The result is differentiable with respect to `scores` and `params`. The params are all numbers or all tensors. With
    reduction `"none"`, the result has one value per list, `(L,)`.
    """
    gradient = torch.is_grad_enabled() and (scores.requires_grad or any(_learned(param) for param in params))
    n = scores.shape[-1] if offsets is None else 0
    if not torch.compiler.is_compiling():
        inputs = (scores, labels, weights, mask, offsets, n)
        if scores.is_cuda:
            from rankgrad.kernels.cuda.calls import eager

            return eager(FAMILIES[name], reduction, name, *inputs, tuple(params), options.flat(), gradient)
        result: Tensor = Loss.apply(reduction, name, *inputs, options.settled(), gradient, *params)
        return result
    flat = (_flat(tensor) for tensor in (scores, labels, weights, mask))
    arguments = (*flat, offsets, n, _as_tensor(params, scores), list(options.flat()), gradient)
    values, signal, _, _ = torch.ops.rankgrad.loss(name, *arguments)
    if reduction == "none":
        return values
    return values.sum() / signal.sum().clamp(min=1) if reduction == "mean" else values.sum()


def _learned(param: Any) -> bool:
    """Return True if a gradient with respect to this param of a fused loss is needed."""
    return isinstance(param, Tensor) and param.requires_grad
