"""Exact gradients of listwise losses in bounded memory: the network runs twice on each chunk of its inputs.

The first pass computes the outputs of all chunks without a graph. The loss uses all outputs together. In the backward
pass, the network runs again on each chunk, now with a graph, and adds the gradient of this chunk to the gradients of
the parameters. So the memory depends on the size of a chunk, not on the length of a list. The second run uses the
random state and the precision of the first run. So dropout drops the same units, and the gradient is the same as
without chunks.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from rankgrad.errors import bad_value

Network = Callable[[Any], Tensor]  # from the inputs of a chunk to outputs (n, ...)


def chunked(network: Network, chunks: Sequence[Any], *, device: torch.device | str = "cpu") -> Tensor:
    """Return the outputs of a network for all chunks, joined along the first dimension, with exact gradients.

    The backward pass adds gradients to the `.grad` of the network's parameters, as `Tensor.backward` does;
    `torch.autograd.grad` is not supported. If there is only one chunk, or gradients are disabled, the network runs
    once per chunk.

    Args:
        network: function or module that computes the outputs of a chunk, `(n, ...)`. Random numbers
            in the network must come from PyTorch's default generators.
        chunks: inputs of the network, one entry per chunk. Tensors may be on any device.
        device: device on which the network computes.

    Example:
        >>> layer = torch.nn.Linear(2, 1, bias=False)
        >>> rows = torch.arange(8.0).reshape(4, 2)
        >>> chunked(layer, rows.split(2)).logsumexp(0).sum().backward()
        >>> in_chunks = layer.weight.grad.clone()
        >>> layer.weight.grad = None
        >>> layer(rows).logsumexp(0).sum().backward()
        >>> torch.allclose(in_chunks, layer.weight.grad)
        True
    """
    if not len(chunks):
        bad_value("chunks", "have at least one entry", "none")
    if len(chunks) == 1:
        return network(chunks[0])
    if not torch.is_grad_enabled():
        return torch.cat([network(chunk) for chunk in chunks])
    device = torch.device(device)
    # A function of autograd has a backward pass only if one of its inputs requires a gradient.
    anchor = torch.zeros((), device=device, requires_grad=True)
    return torch.cat([_Chunk.apply(anchor, network, chunk, device) for chunk in chunks])


class _Chunk(torch.autograd.Function):
    """Run a network on a chunk without a graph. The backward pass runs the network again, with a graph."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, network: Network, chunk: Any, device: torch.device) -> Tensor:
        ctx.network, ctx.chunk, ctx.device = network, chunk, device
        ctx.random, ctx.autocast = _random_state(device), _autocast_state(device)
        return network(chunk)  # autograd disables gradients here

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, None, None]:
        now = _random_state(ctx.device)
        _set_random_state(ctx.random, ctx.device)
        try:
            with torch.enable_grad(), torch.autocast(ctx.device.type, **ctx.autocast):
                outputs = ctx.network(ctx.chunk)
            if outputs.requires_grad:
                torch.autograd.backward(outputs, gradients[0])
        finally:
            _set_random_state(now, ctx.device)
        return None, None, None, None


def _random_state(device: torch.device) -> tuple[Tensor, Tensor | None]:
    return torch.get_rng_state(), torch.cuda.get_rng_state(device) if device.type == "cuda" else None


def _set_random_state(state: tuple[Tensor, Tensor | None], device: torch.device) -> None:
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1], device)


def _autocast_state(device: torch.device) -> dict[str, Any]:
    return {
        "enabled": torch.is_autocast_enabled(device.type),
        "dtype": torch.get_autocast_dtype(device.type),
        "cache_enabled": torch.is_autocast_cache_enabled(),
    }
