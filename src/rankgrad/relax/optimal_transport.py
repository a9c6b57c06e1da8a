"""Ranking as entropy-regularised optimal transport from scores to equally spaced ranks (Sinkhorn in log domain)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rankgrad.errors import bad_value
from rankgrad.relax.relaxation import Relaxation, check_positive, row_mask
from rankgrad.relax.sinkhorn_rounds import log_factors


@dataclass(frozen=True)
class optimal_transport(Relaxation):
    r"""Optimal transport: the plan from documents to ranks with the lowest squared cost, regularised by entropy.

    .. math:: P = n \arg\min_{T} \sum_{rj} T_{rj} (z_r - x_j)^2 + \epsilon \sum_{rj} T_{rj} \log T_{rj}, \quad
              x_j = \frac{s_j - \min s}{\max s - \min s}, \quad z_r = \frac{n - r}{n - 1}

    Scores are first scaled to [0, 1], so the result does not depend on the scale of the scores. The necessary number of
    rounds is proportional to 1 / epsilon; epsilon is the `temperature`.

    Args:
        temperature: epsilon, above 0; with a smaller value, P is closer to the exact permutation.
        rounds: number of Sinkhorn rounds, at least 1.

    Example:
        >>> optimal_transport(temperature=1e-3, rounds=500).ranks(torch.tensor([1.0, 3.0, 2.0]))
        tensor([3., 1., 2.])

    References:
        Cuturi, Teboul and Vert, "Differentiable Ranking and Sorting using Optimal Transport", NeurIPS 2019.
    """

    temperature: float = 0.01
    rounds: int = 30

    def __post_init__(self) -> None:
        check_positive("temperature", self.temperature)
        if self.rounds < 1:
            bad_value("rounds", "be at least 1", self.rounds)

    def _permutation(self, scores: Tensor, mask: Tensor) -> Tensor:
        rows = row_mask(mask)
        pairs = rows[..., :, None] & mask[..., None, :]
        length = mask.sum(-1, keepdim=True).to(scores.dtype)
        rank = torch.arange(1, scores.shape[-1] + 1, dtype=scores.dtype, device=scores.device)
        target = (length - rank) / (length - 1).clamp(min=1)  # (..., n): 1 at the first rank, 0 at the last
        cost = (target[..., :, None] - unit_interval(scores, mask)[..., None, :]) ** 2
        lowest = torch.finfo(scores.dtype).min
        kernel = torch.where(pairs, -cost / self.temperature, lowest)
        row, column = log_factors(kernel, rows, mask, self.rounds)
        return torch.where(pairs, (kernel + row[..., :, None] + column[..., None, :]).exp(), 0.0)


def unit_interval(scores: Tensor, mask: Tensor) -> Tensor:
    """Scale the scores of each list to [0, 1] for `optimal_transport` and `list_ap`, `(..., n)`.

    The result is 0 for padding, and for all documents of a list whose scores are nearly equal.
    """
    if scores.shape[-1] == 0:
        return scores
    largest = torch.finfo(scores.dtype).max
    low = torch.where(mask, scores, largest).amin(-1, keepdim=True)
    high = torch.where(mask, scores, -largest).amax(-1, keepdim=True)
    width = high - low
    apart = ~(width <= least_scale(scores.dtype))  # also True if a score is NaN, so that the NaN stays visible
    return torch.where(mask & apart, (scores - low) / torch.where(apart, width, 1.0), 0.0)


def least_scale(dtype: torch.dtype) -> float:
    """Return the lower limit for divisors of scores (float32: 1e-31). With smaller ones, derivatives would overflow."""
    return torch.finfo(dtype).tiny / torch.finfo(dtype).eps
