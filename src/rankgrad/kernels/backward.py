"""Functions for the backward pass of fused losses. They are the same on the CPU and on a GPU."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx


class OnceOnly(torch.autograd.Function):
    """Returns the gradient of a fused loss unchanged. Raises an error if this gradient is differentiated again."""

    @staticmethod
    def forward(ctx: FunctionCtx, gradient: Tensor, source: Tensor) -> Tensor:
        """Return the gradient of a fused loss. `source` is an input, so that a second derivative calls `backward`."""
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: FunctionCtx, *_: Tensor) -> Any:
        """Raise an error, because a fused loss has no second derivative."""
        raise RuntimeError("a fused loss has no second derivative; compute the loss inside `with rg.backend('plain')`")


def scale(slopes: Tensor, factors: Tensor, offsets: Tensor | None, n: int) -> Tensor:
    """Multiply the slopes `(D,)` of a fused loss by `factors (L,)`, the upstream gradients of the lists."""
    if offsets is None:
        return (slopes.view(-1, n) * factors[:, None]).view(-1)
    return slopes * torch.repeat_interleave(factors, offsets.diff(), output_size=slopes.shape[0])


def by_all_lists(extras: Tensor, factors: Tensor) -> Tensor:
    """Sum the derivatives of a fused loss by its params, `extras (L, P)`, multiplied by `factors (L,)`."""
    return (extras * factors[:, None]).sum(0)  # a matrix product would be in half precision inside of autocast


def is_source(node: Any, function: type, scores: Tensor) -> bool:
    """Return True if `node` is a call of this autograd function of a fused loss, and its first input is `scores`."""
    if getattr(node, "_forward_cls", None) is not function:
        return False
    return getattr(node.next_functions[0][0], "variable", None) is scores
