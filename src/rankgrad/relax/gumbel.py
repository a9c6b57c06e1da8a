"""Gumbel noise. If scores with this noise are sorted, their order is a sample from the Plackett-Luce distribution."""

import torch
from torch import Tensor


def gumbel_noise(
    shape: torch.Size | tuple[int, ...], *, like: Tensor, generator: torch.Generator | None = None
) -> Tensor:
    """Return standard Gumbel noise with the device and dtype of `like`.

    Args:
        shape: shape of the noise, such as `(samples, *scores.shape)`.
        like: a floating-point tensor; the noise has its device and dtype.
        generator: source of the random numbers; None for PyTorch's default generator.

    Example:
        >>> noise = gumbel_noise((100_000,), like=torch.zeros(1), generator=torch.Generator().manual_seed(0))
        >>> round(float(noise.mean()), 1)  # Euler's constant, 0.577
        0.6
    """
    exponential = torch.empty(shape, dtype=like.dtype, device=like.device).exponential_(generator=generator)
    return -exponential.clamp(min=torch.finfo(like.dtype).tiny).log()
