"""Compute a loss and its gradient in one call, without a backward pass."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rankgrad.errors import bad_type, bad_value
from rankgrad.losses.from_text import parse_loss


def value_and_grad(
    loss: str | Callable[..., Tensor], scores: Tensor, *lists: Any, **options: Any
) -> tuple[Tensor, Tensor]:
    r"""Return the loss and its gradient, :math:`\partial \ell / \partial s`, both detached from the graph.

    A fused loss computes both at once, without autograd. This is faster for a small batch, for which autograd takes
    most of the time. Other losses use an ordinary backward pass. `scores.backward(gradient)` continues the backward
    pass into the network.

    Args:
        loss: any function or module of `rankgrad.losses`, or a spec such as `"lambdaloss@10"`.
        scores: `(..., n)`, or `(documents,)` with `offsets`; floating point.
        lists: labels, and other positional arguments of the loss.
        options: keywords of the loss; `reduction="none"` is an error, because only a single value has a gradient.

    Example:
        >>> from rankgrad.losses import softmax
        >>> scores = torch.tensor([[2., 1., 3.]], requires_grad=True)
        >>> value_and_grad(softmax, scores, torch.tensor([[1., 0., 0.]]))
        (tensor(1.4076), tensor([[-0.7553,  0.0900,  0.6652]]))
    """
    if not isinstance(scores, Tensor) or not scores.is_floating_point():
        bad_type("scores", "be a floating-point tensor", getattr(scores, "dtype", type(scores).__name__))
    if isinstance(loss, str):
        loss = parse_loss(loss)
    with torch.inference_mode(False), torch.enable_grad():
        leaf = _recordable(scores).detach().requires_grad_()
        given = {name: _recordable(option) for name, option in options.items()}
        value = loss(leaf, *map(_recordable, lists), **given)
    if value.dim() > 0:
        bad_value("reduction", "be 'mean' or 'sum' to compute a gradient", "'none'")
    from rankgrad.kernels import op

    gradient = op.held(value, leaf)
    return value.detach(), torch.autograd.grad(value, leaf)[0] if gradient is None else gradient


def _recordable(value: Any) -> Any:
    """Return a tensor that was made in inference mode as a copy, because autograd records only other tensors."""
    return value.clone() if isinstance(value, Tensor) and value.is_inference() else value
