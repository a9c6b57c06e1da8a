"""Parts of the backward pass that all devices share."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx


class OnceOnly(torch.autograd.Function):
    """Returns a gradient unchanged, and raises an error if the gradient is differentiated again."""

    @staticmethod
    def forward(ctx: FunctionCtx, gradient: Tensor, source: Tensor) -> Tensor:
        """Return the gradient unchanged. In the graph, the result depends on `source`."""
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: FunctionCtx, *_: Tensor) -> Any:
        """Raise an error."""
        raise RuntimeError("a fused loss has no second derivative; compute it inside `with rg.backend('plain')`")


def scale(slopes: Tensor, factors: Tensor, offsets: Tensor | None, n: int) -> Tensor:
    """Multiply the slope of each document, `slopes (D,)`, by the factor of its list, `factors (L,)`."""
    if offsets is None:
        return (slopes.view(-1, n) * factors[:, None]).view(-1)
    return slopes * torch.repeat_interleave(factors, offsets.diff(), output_size=slopes.shape[0])


def is_source(node: Any, function: type, scores: Tensor) -> bool:
    """Return True if `node` belongs to this autograd function, and the first input of the function is `scores`."""
    if getattr(node, "_forward_cls", None) is not function:
        return False
    return getattr(node.next_functions[0][0], "variable", None) is scores
