"""Parts of the backward pass that all devices share."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx


class OnceOnly(torch.autograd.Function):
    """Passes a gradient on, and says what to do when it is differentiated again."""

    @staticmethod
    def forward(ctx: FunctionCtx, gradient: Tensor, source: Tensor) -> Tensor:
        """The gradient as it is, made to look as if it depended on its source."""
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: FunctionCtx, *_: Tensor) -> Any:
        """Refuse."""
        raise RuntimeError("a fused loss has no second derivative; compute it inside `with rg.backend('plain')`")


def scale(slopes: Tensor, factors: Tensor, offsets: Tensor | None, n: int) -> Tensor:
    """Each document's slope, `(D,)`, times the factor of its list, `(L,)`."""
    if offsets is None:
        return (slopes.view(-1, n) * factors[:, None]).view(-1)
    return slopes * torch.repeat_interleave(factors, offsets.diff(), output_size=slopes.shape[0])


def is_source(node: Any, function: type, scores: Tensor) -> bool:
    """Whether `scores`, a leaf, is the first tensor of this autograd function, as it is."""
    if getattr(node, "_forward_cls", None) is not function:
        return False
    return getattr(node.next_functions[0][0], "variable", None) is scores
