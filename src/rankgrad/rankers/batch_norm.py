"""Norm layers of rankers: batch norm that ignores rows of padding, and layer norm."""

import torch
from torch import Tensor, nn


class BatchNorm(nn.BatchNorm1d):
    """A `torch.nn.BatchNorm1d` that ignores padding. It counts the documents without waiting for the GPU.

    Statistics are computed in float32 or float64. A batch may have one row or no row. A batch without rows does not
    change the running statistics.

    Example:
        >>> rows, real = torch.tensor([[1.0], [3.0], [99.0]]), torch.tensor([True, True, False])
        >>> BatchNorm(1)(rows, real)[:2].detach().round(decimals=3)
        tensor([[-1.],
                [ 1.]])
    """

    def forward(self, input: Tensor, real: Tensor | None = None) -> Tensor:
        """Return batch-normalised rows `(rows, d)`. `real (rows,)` is True for documents. With None, all rows count."""
        if not self.training:
            return super().forward(input)
        if real is None and input.shape[0] > 1:
            return super().forward(input)
        return self._masked(input, real)

    def _masked(self, input: Tensor, real: Tensor | None) -> Tensor:
        rows = input.float() if input.dtype in (torch.float16, torch.bfloat16) else input
        if real is None:
            real = torch.ones(rows.shape[0], dtype=torch.bool, device=rows.device)
        count = real.sum()
        share = (real / count.clamp(min=1)).to(rows.dtype)[:, None]  # (rows, 1)
        mean = (rows * share).sum(0)
        centred = rows - mean
        variance = (centred.square() * share).sum(0)
        self._track(mean.detach(), variance.detach(), count)
        scale = self.weight.to(rows.dtype) * torch.rsqrt(variance + self.eps)
        return (centred * scale + self.bias.to(rows.dtype)).to(input.dtype)

    @torch.no_grad()
    def _track(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        """Update the running statistics of batch norm as PyTorch does, with the unbiased variance."""
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        step = (self.momentum or 0.0) * (count > 0).to(mean.dtype)
        unbiased = variance * (count / (count - 1).clamp(min=1))
        self.running_mean.add_((step * (mean - self.running_mean)).to(self.running_mean.dtype))
        self.running_var.add_((step * (unbiased - self.running_var)).to(self.running_var.dtype))


def make_norm(kind: str, width: int, momentum: float = 0.1) -> nn.Module:
    """Make a norm layer from the name of the norm: `"none"`, `"batch"` or `"layer"`."""
    if kind == "batch":
        return BatchNorm(width, momentum=momentum)
    return nn.LayerNorm(width) if kind == "layer" else nn.Identity()


def apply_norm(norm: nn.Module, rows: Tensor, real: Tensor | None) -> Tensor:
    """Apply a norm layer of any kind to the rows of a ranker; only batch norm uses `real`."""
    return norm(rows, real) if isinstance(norm, BatchNorm) else norm(rows)
