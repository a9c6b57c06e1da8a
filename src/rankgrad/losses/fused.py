"""The bridge from losses to kernels: which lists a kernel takes, and in which form."""

from collections.abc import Sequence
from importlib.util import find_spec

import torch
from torch import Tensor

from rankgrad.backend import current
from rankgrad.errors import bad_value, one_of
from rankgrad.lists import REDUCTIONS, Lists

# The devices whose compiler is installed.
_DEVICES = ("cpu", "cuda") if find_spec("triton") else ("cpu",)
# `torch.compile` cannot look into a context variable: a compiled loss keeps the backend it was compiled under. This is
# all that `torch.compiler.assume_constant_result` does, but for the two seconds of importing torch._dynamo.
current._dynamo_marked_constant = True  # type: ignore[attr-defined]


def fused(
    name: str, lists: Lists, reduction: str, options: Sequence[float] = (), params: Tensor | None = None
) -> Tensor | None:
    """The reduced loss by the kernel of this name; None where the plain loss must do.

    `"auto"` passes where there is no kernel for the device, and inside `torch.func` transforms; `"fused"` insists.
    """
    choice = current()
    scores = lists.given.scores
    if choice == "plain" or (choice == "auto" and _transformed(scores)):
        return None
    device = scores.device.type
    if device not in _DEVICES:
        if choice == "fused":
            bad_value("backend", f"be 'auto' or 'plain' on {device}", "'fused', which has no kernels there")
        return None
    if params is not None and params.requires_grad and params.device != scores.device:
        bad_value("parameters of the loss", f"be on the device of scores, {scores.device}", params.device)
    one_of("reduction", reduction, REDUCTIONS)
    return _call(name, lists, reduction, options, params)


def _call(name: str, lists: Lists, reduction: str, options: Sequence[float], params: Tensor | None) -> Tensor:
    from rankgrad.kernels import op

    scores, labels, mask, offsets, weights = lists.given
    shape = scores.shape[:-1] if offsets is None else (offsets.numel() - 1,)
    if scores.numel() == 0:
        # No documents: 0 for every list, in the graph.
        empty = scores.sum() + torch.zeros(shape, dtype=scores.dtype, device=scores.device)
        empty = empty if params is None else empty + 0.0 * params.sum().to(scores)
        return empty if reduction == "none" else empty.sum()
    loss = op.loss(
        reduction,
        name,
        scores.reshape(-1),
        labels.reshape(-1),
        None if weights is None else weights.reshape(-1),
        None if mask is None else mask.reshape(-1),
        offsets,
        scores.shape[-1] if offsets is None else 0,
        scores.new_empty(0) if params is None else params,
        [float(option) for option in options],
    )
    return loss.reshape(shape) if reduction == "none" else loss


def _transformed(tensor: Tensor) -> bool:
    """Whether this is a tensor of `torch.func.grad`, `vmap` and the like, which kernels cannot see through."""
    if torch.compiler.is_compiling():
        return False
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))
