"""Linear layers in full precision, for the network of a loss: autocast changes neither values nor derivatives."""

from typing import Any

import torch
from torch import Tensor, nn


class FullLinear(nn.Linear):
    """Linear layer that ignores autocast.

    It is not enough to disable autocast for the loss: the backward pass may be inside of autocast, which computes the
    derivatives of a matrix product in half precision.
    """

    def forward(self, rows: Tensor) -> Tensor:
        """Return the outputs of the layer, `(..., out)`."""
        return _product(rows, self.weight.mT) + self.bias


def _product(rows: Tensor, matrix: Tensor) -> Tensor:
    """Return `rows @ matrix` in full precision, `(..., out)`, for rows `(..., in)` and a matrix `(in, out)`."""
    compiled = torch.compiler.is_compiling()
    if compiled and torch._C._are_functorch_transforms_active():
        return rows @ matrix  # `torch.compile` cannot trace both
    result: Tensor = (_Product if compiled else _ProductWithTangents).apply(rows, matrix)
    return result


class _Product(torch.autograd.Function):
    """Autograd function of the product. Its derivatives are products of the same kind."""

    generate_vmap_rule = True

    @staticmethod
    def forward(rows: Tensor, matrix: Tensor) -> Tensor:
        """Return the product, computed outside of autocast."""
        # Compiled code may be called inside of autocast later. To enter the context takes time in eager mode.
        if not (torch.compiler.is_compiling() or torch.is_autocast_enabled(rows.device.type)):
            return rows @ matrix
        with torch.autocast(rows.device.type, enabled=False):
            return rows @ matrix

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        """Save the inputs of the product."""
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        """Return the gradients of the product with respect to the rows and the matrix."""
        (rows, matrix), (above,) = ctx.saved_tensors, upstream
        by_rows = _product(above, matrix.mT) if ctx.needs_input_grad[0] else None
        if not ctx.needs_input_grad[1]:
            return by_rows, None
        rows, above = (each.reshape(-1, each.shape[-1]) for each in (rows, above))
        return by_rows, _product(rows.mT, above)


class _ProductWithTangents(_Product):
    """The product with forward-mode derivatives, which `torch.compile` cannot trace."""

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> Tensor:
        """Return the derivative of the product in the direction of the tangents."""
        rows, matrix = ctx.saved_tensors
        return _product(tangents[0], matrix) + _product(rows, tangents[1])
