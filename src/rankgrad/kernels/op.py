"""One PyTorch operator for all fused losses: `torch.ops.rankgrad.loss`.

Lists come as one flat run of documents: list `l` is `offsets[l]:offsets[l + 1]`, or, without offsets, the `l`-th `n` of
them. `mask`, in any pattern, leaves documents out. The operator returns, for L lists and D documents,

- `values (L,)`, one a list, and `signal (L,)`, whether the list has anything to learn from,
- `slopes (D,)`, the derivative of its list's value by each score, 0 where masked,
- `extras (L, P)`, the derivative of each list's value by the P `params` of the loss.

So the backward pass is one product. A second derivative is refused: the slopes are numbers, not a graph.
"""

from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

# Which file of `cpu/` and `cuda/` a loss is in.
FAMILIES = {
    "learndcg": "approx",
    "approx_precision": "approx",
    "approx_mrr": "approx",
    "approx_ap": "approx",
}

Outputs = tuple[Tensor, Tensor, Tensor, Tensor]

_SCHEMA = (
    "loss(str name, Tensor scores, Tensor labels, Tensor? weights, Tensor? mask, Tensor? offsets, int n, "
    "Tensor params, float[] options, bool gradient) -> (Tensor, Tensor, Tensor, Tensor)"
)


def _run(device: str, name: str, *arguments: Any) -> Outputs:
    return import_module(f"rankgrad.kernels.{device}.{FAMILIES[name]}").run(name, *arguments)


def on_cpu(*arguments: Any) -> Outputs:
    """The operator on the CPU."""
    return _run("cpu", *arguments)


def on_cuda(*arguments: Any) -> Outputs:
    """The operator on a GPU."""
    return _run("cuda", *arguments)


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
    lists = scores.shape[0] // n if offsets is None else offsets.shape[0] - 1
    values = scores.new_empty(lists)
    slopes = scores.new_empty(scores.shape[0] if gradient else 0)
    extras = scores.new_empty((lists, params.shape[0]) if gradient else (0, params.shape[0]))
    return values, values.new_empty(lists, dtype=torch.bool), slopes, extras


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Outputs) -> None:
    _, _, slopes, extras = output
    ctx.save_for_backward(slopes, extras, inputs[5])
    ctx.n = inputs[6]
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, upstream: Tensor | None, *others: Tensor | None) -> tuple[Any, ...]:
    if upstream is None:
        return (None,) * 10
    slopes, extras, offsets = ctx.saved_tensors
    by_scores = scale(slopes, upstream, offsets, ctx.n)
    by_params = upstream @ extras if extras.shape[1] else extras.new_zeros(0)
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        by_scores, by_params = OnceOnly.apply(by_scores, by_params)
    return (None, by_scores, None, None, None, None, None, by_params, None, None)


class OnceOnly(torch.autograd.Function):
    """Passes gradients on, and says what to do when they are differentiated again."""

    @staticmethod
    def forward(ctx: FunctionCtx, *gradients: Tensor) -> tuple[Tensor, ...]:
        """The gradients as they are."""
        return tuple(gradient.detach().requires_grad_() for gradient in gradients)

    @staticmethod
    def backward(ctx: FunctionCtx, *_: Tensor) -> Any:
        """Refuse."""
        raise RuntimeError("a fused loss has no second derivative; compute it inside `with rg.backend('plain')`")


def scale(slopes: Tensor, factors: Tensor, offsets: Tensor | None, n: int) -> Tensor:
    """Each document's slope, `(D,)`, times the factor of its list, `(L,)`."""
    if offsets is None:
        return (slopes.view(-1, n) * factors[:, None]).view(-1)
    return slopes * torch.repeat_interleave(factors, offsets.diff(), output_size=slopes.shape[0])


class Loss(torch.autograd.Function):
    """The operator for eager mode: half the overhead of a dispatch through the registered one."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Outputs:
        """Run the kernel of the device the scores are on, and keep its slopes."""
        output = (on_cuda if inputs[1].is_cuda else on_cpu)(*inputs)
        _remember(ctx, inputs, output)
        ctx.mark_non_differentiable(*output[1:])
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        """One product."""
        return _backward(ctx, *gradients)


_library = torch.library.Library("rankgrad", "DEF")
_library.define(_SCHEMA)
_library.impl("loss", on_cpu, "CPU")
_library.impl("loss", on_cuda, "CUDA")
torch.library.register_fake("rankgrad::loss", _fake, lib=_library)
torch.library.register_autograd("rankgrad::loss", _backward, setup_context=_remember, lib=_library)


def loss(
    name: str,
    scores: Tensor,
    labels: Tensor,
    weights: Tensor | None,
    mask: Tensor | None,
    offsets: Tensor | None,
    n: int,
    params: Tensor,
    options: list[float],
) -> tuple[Tensor, Tensor]:
    """Values and signal of the lists, `(L,)` each, differentiable by `scores` and `params`."""
    gradient = torch.is_grad_enabled() and (scores.requires_grad or params.requires_grad)
    operator = torch.ops.rankgrad.loss if torch.compiler.is_compiling() else Loss.apply
    values, signal, _, _ = operator(name, scores, labels, weights, mask, offsets, n, params, options, gradient)
    return values, signal
