"""Soft ranks from pairwise sigmoids: the position function of ApproxNDCG and LearnDCG."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rankgrad.relax.relaxation import Relaxation, check_positive


@dataclass(frozen=True)
class sigmoid_ranks(Relaxation):
    r"""Soft ranks: sums of sigmoids instead of step functions (LearnDCG Eq. 2; LambdaLoss@K Eq. 8 without j = i).

    .. math:: \pi_i = 1 + \sum_{j \ne i} \sigma\bigl((s_j - s_i) / \tau\bigr)

    If all scores differ by at least delta, the error of a rank is at most (n - 1) / (exp(delta / tau) + 1) (LearnDCG
    Eq. 8).

    Args:
        temperature: tau, above 0; with a smaller value, ranks are closer to the exact ranks.

    Example:
        >>> sigmoid_ranks(temperature=0.1).ranks(torch.tensor([1.0, 3.0, 2.0]))
        tensor([3.0000, 1.0000, 2.0000])

    References:
        Qin, Liu and Li, "A General Approximation Framework for Direct Optimization of IR Measures", 2010.
    """

    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_positive("temperature", self.temperature)

    def _ranks(self, scores: Tensor, mask: Tensor) -> Tensor:
        return pairwise_ranks(scores, mask, 1.0 / self.temperature)


def pairwise_ranks(scores: Tensor, mask: Tensor, alpha: Any) -> Tensor:
    """Return `1 + sum of sigmoid(alpha (s_j - s_i)) over j != i`, `(..., n)`; alpha is a number or a tensor."""
    ahead = (alpha * (scores[..., None, :] - scores[..., :, None])).sigmoid()  # (..., i, j)
    # The term j = i is exactly 1/2 and has no derivative: counting it costs less than a mask of the diagonal.
    return 0.5 + torch.where(mask[..., None, :], ahead, 0.0).sum(-1)
