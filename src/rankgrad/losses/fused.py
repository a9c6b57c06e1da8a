"""The bridge from losses to kernels: which lists a kernel takes, and in which form."""

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from rankgrad.backend import current
from rankgrad.errors import bad_value
from rankgrad.lists import Lists

# `torch.compile` cannot look into a context variable: a compiled loss keeps the backend it was compiled under.
_current = torch.compiler.assume_constant_result(current)


def fused(
    name: str, lists: Lists, options: Sequence[float] = (), params: Tensor | None = None
) -> tuple[Tensor, Tensor] | None:
    """Values and signal of the lists, `(...)` each, by the kernel of this name; None where the plain loss must do.

    `"auto"` passes where there is no kernel for the device, and inside `torch.func` transforms; `"fused"` insists.
    """
    choice = _current()
    given = lists.given
    if choice == "plain":
        return None
    if choice == "auto" and _transformed(given.scores):
        return None
    device = given.scores.device.type
    if not _has_kernels(device):
        if choice == "fused":
            bad_value("backend", f"be 'auto' or 'plain' on {device}", "'fused', which has no kernels there")
        return None
    return _call(name, lists, options, params)


def _call(name: str, lists: Lists, options: Sequence[float], params: Tensor | None) -> tuple[Tensor, Tensor]:
    from rankgrad.kernels import op

    given = lists.given
    scores = given.scores
    shape = scores.shape[:-1] if given.offsets is None else (given.offsets.numel() - 1,)
    n = scores.shape[-1] if given.offsets is None else 0
    if scores.numel() == 0:
        # No documents: 0 for every list, in the graph.
        empty = scores.sum() + torch.zeros(shape, dtype=scores.dtype, device=scores.device)
        return empty if params is None else empty + 0.0 * params.sum(), torch.zeros_like(empty, dtype=torch.bool)
    params = scores.new_empty(0) if params is None else params
    values, signal = op.loss(
        name,
        scores.reshape(-1),
        given.labels.reshape(-1),
        None if given.weights is None else given.weights.reshape(-1),
        None if given.mask is None else given.mask.reshape(-1),
        given.offsets,
        n,
        params,
        [float(option) for option in options],
    )
    return values.reshape(shape), signal.reshape(shape)


@cache
def _has_kernels(device: str) -> bool:
    """Whether the compiler for this kind of device is installed."""
    if device == "cpu":
        return True
    if device != "cuda":
        return False
    import importlib.util

    return importlib.util.find_spec("triton") is not None


def _transformed(tensor: Tensor) -> bool:
    """Whether this is a tensor of `torch.func.grad`, `vmap` and the like, which kernels cannot see through."""
    if torch.compiler.is_compiling():
        return False
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))
