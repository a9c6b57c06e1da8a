"""Call the fused kernel of a loss, if a kernel exists for the device, the options and the inputs of the call."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from rankgrad.backend import current
from rankgrad.errors import bad_value, one_of
from rankgrad.kernels.options import KernelOptions
from rankgrad.lists import REDUCTIONS, Lists

# Devices for which the compiler of the kernels is installed.
_DEVICES = ("cpu", "cuda") if find_spec("triton") else ("cpu",)
# `torch.compile` cannot read a context variable: a compiled loss keeps the backend that it was compiled with. This line
# does the same as `torch.compiler.assume_constant_result`, without the two seconds of importing torch._dynamo.
current._dynamo_marked_constant = True  # type: ignore[attr-defined]


def fused(
    name: str,
    lists: Lists,
    reduction: str,
    options: KernelOptions,
    params: Sequence[float | Tensor] = (),
    lacking: str | None = None,
) -> Tensor | None:
    """Return the reduced loss from the fused kernel with this name, or None if the plain loss must be used.

    `lacking` describes an option that no kernel supports, or is None. With backend `"auto"`, the result is None in four
    cases: there is no kernel for the device; `lacking` is not None; labels, weights or an option require a gradient;
    the call is inside a transform of `torch.func`. With backend `"fused"`, an error is raised if the kernel cannot be
    used. The kernel computes derivatives with respect to `params` if all `params` are tensors.
    """
    choice = current()
    scores = lists.given.scores
    if choice == "plain" or (choice == "auto" and any(map(_transformed, lists.given))):
        return None
    fixed = () if all(isinstance(param, Tensor) for param in params) else params
    lacking = lacking or _without_derivative(lists, fixed if options.exact() else (*options.values(), *fixed))
    device = scores.device.type
    if device not in _DEVICES:
        if choice == "fused":
            bad_value("backend", f"be 'auto' or 'plain' on {device}", f"'fused', which has no kernels for {device}")
        return None
    if lacking is not None:
        if choice == "fused":
            bad_value("backend", f"be 'auto' or 'plain' with {lacking}", f"'fused', which has no kernel for {lacking}")
        return None
    for param in params:
        if isinstance(param, Tensor) and param.device != scores.device:
            bad_value("parameters of the loss", f"be on the device of scores, {scores.device}", param.device)
    one_of("reduction", reduction, REDUCTIONS)
    return _call(name, lists, reduction, options, params)


def _call(name: str, lists: Lists, reduction: str, options: KernelOptions, params: Sequence[float | Tensor]) -> Tensor:
    from rankgrad.kernels import op

    scores, labels, mask, offsets, weights = lists.given
    if scores.numel() == 0:
        # Without documents, the loss of every list is 0. This value must stay in the graph.
        shape = scores.shape[:-1] if offsets is None else (offsets.numel() - 1,)
        empty = scores.sum() + torch.zeros(shape, dtype=scores.dtype, device=scores.device)
        for param in params:
            empty = empty + 0.0 * param.sum().to(scores) if isinstance(param, Tensor) else empty
        return empty if reduction == "none" else empty.sum()
    loss = op.loss(reduction, name, scores, labels, weights, mask, offsets, params, options)
    return loss.reshape(scores.shape[:-1]) if reduction == "none" and offsets is None else loss


def _without_derivative(lists: Lists, options: Sequence[Any]) -> str | None:
    """Describe an input of a loss that requires a gradient which no fused kernel computes; None if no input does."""
    inputs = {"labels": lists.given.labels, "weights": lists.given.weights}
    for name, value in (*inputs.items(), *(("options", option) for option in options)):
        if isinstance(value, Tensor) and ((value.requires_grad and torch.is_grad_enabled()) or _transformed(value)):
            return f"{name} that require a gradient"
    return None


def _transformed(tensor: Tensor | None) -> bool:
    """Return True for a tensor inside a transform of `torch.func`, such as `vmap`. No fused kernel can read it."""
    if tensor is None:
        return False
    if torch.compiler.is_compiling():
        return bool(torch._C._are_functorch_transforms_active())
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))
