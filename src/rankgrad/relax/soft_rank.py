"""SoftRank: the exact distribution of each document's rank if scores have Gaussian noise."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rankgrad.relax.relaxation import Relaxation, check_positive


@dataclass(frozen=True)
class soft_rank(Relaxation):
    r"""SoftRank: rank distributions of noisy scores. Document i is ranked before document j with probability pi_ij.

    .. math:: \pi_{ij} = \Phi\Bigl(\frac{s_i - s_j}{\sqrt{2}\,\sigma}\Bigr), \quad
              p_j(r) \leftarrow p_j(r - 1)\, \pi_{ij} + p_j(r)\, (1 - \pi_{ij}) \text{ for each } i \ne j

    Columns sum to 1. The cost is O(n^3), n steps of size n x n, so use this operator for short lists.

    Args:
        sigma: standard deviation of the noise, above 0, in units of the score. With a smaller value, the
            distributions are closer to the exact ranks.

    Example:
        >>> soft_rank(sigma=0.1).ranks(torch.tensor([1.0, 3.0, 2.0]))
        tensor([3., 1., 2.])

    References:
        Taylor et al., "SoftRank: Optimizing Non-Smooth Rank Metrics", WSDM 2008.
    """

    sigma: float = 1.0

    def __post_init__(self) -> None:
        check_positive("sigma", self.sigma)

    def _permutation(self, scores: Tensor, mask: Tensor) -> Tensor:
        n = scores.shape[-1]
        beats = 0.5 * torch.erfc((scores[..., None, :] - scores[..., :, None]) / (2.0 * self.sigma))  # (..., i, j)
        same = torch.eye(n, dtype=torch.bool, device=scores.device)
        beats = torch.where(mask[..., :, None] & ~same, beats, 0.0)
        first = torch.arange(n, device=scores.device)[:, None] == 0
        chances = first.to(scores.dtype) + 0.0 * scores[..., None, :]  # (..., r, j), in the graph also for n = 0
        for i in range(n):
            beaten = beats[..., i, None, :]
            fallen = torch.nn.functional.pad(chances[..., :-1, :], (0, 0, 1, 0))
            chances = chances * (1.0 - beaten) + fallen * beaten
        return torch.where(mask[..., None, :], chances, 0.0)
