"""Gains and ideal DCG for the plain losses, without overflow for large labels."""

import torch
from torch import Tensor

from rankgrad.errors import one_of
from rankgrad.metrics.cumulative_gain import Discount, Gain, rank_discounts


def gains(labels: Tensor, mask: Tensor, gain: Gain = "exp", scaled: bool = True) -> Tensor:
    """Return the gains of labels for a plain loss, `(..., n)`.

    The gain `"exp"` is 2^y - 1. If `scaled` is True, this gain is divided by 2^max(y).
    """
    if callable(gain):
        return torch.where(mask, gain(labels), 0.0)
    one_of("gain", gain, ("exp", "linear"))
    if gain == "linear" or labels.shape[-1] == 0:
        return labels
    top = labels.amax(-1, keepdim=True) if scaled else labels.new_zeros(())
    return torch.where(mask, torch.exp2(labels - top) - torch.exp2(-top), 0.0)


def ideal_dcg(gains: Tensor, k: int | None = None, discount: Discount = "log2") -> Tensor:
    """Return the ideal DCG@k for a plain loss: the largest possible DCG@k of these gains, `(...)`."""
    best = gains.sort(-1, descending=True).values[..., :k]
    ranks = torch.arange(1, best.shape[-1] + 1, dtype=gains.dtype, device=gains.device)
    return (best / rank_discounts(ranks, discount)).sum(-1)


def share_of_ideal(
    labels: Tensor,
    mask: Tensor,
    k: int | None = None,
    gain: Gain = "exp",
    discount: Discount = "log2",
) -> Tensor:
    """Return, for a plain loss, each document's gain divided by the list's ideal DCG@k, `(..., n)`.

    The result is 0 if the ideal DCG@k is 0.
    """
    gained = gains(labels, mask, gain)
    ideal = ideal_dcg(gained, k, discount)[..., None]
    return torch.where(ideal > 0, gained / torch.where(ideal > 0, ideal, 1.0), 0.0)
