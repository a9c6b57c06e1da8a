"""NeuralSort: each row of the soft permutation is a softmax over the documents."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rankgrad.errors import bad_value
from rankgrad.relax.relaxation import Relaxation, check_positive, row_mask
from rankgrad.relax.sinkhorn import scale


@dataclass(frozen=True)
class neural_sort(Relaxation):
    r"""NeuralSort: a softmax over documents for each rank (NeuralNDCG paper, Eq. 3).

    .. math:: P_{r\cdot} = \mathrm{softmax}_j\Bigl(\bigl[(n + 1 - 2r)\, s_j - \sum_k |s_j - s_k|\bigr] / \tau\Bigr)

    Each row of P sums to 1, but a column may have another sum. Sinkhorn scaling corrects the columns. Each round
    scales columns, then rows. With `transposed`, the transpose of P is scaled; then each column of P sums to 1.

    Args:
        temperature: tau, above 0; with a smaller value, P is closer to the exact permutation.
        sinkhorn_rounds: number of Sinkhorn rounds; with 0, P is not scaled.
        transposed: True to scale the transpose of P; it has no effect if `sinkhorn_rounds` is 0.

    Example:
        >>> y = torch.tensor([4.0, 2.0, 1.0, 0.0, 4.0, 3.0])
        >>> neural_sort(temperature=1.0).permutation(torch.tensor([0.5, 0.2, 0.1, 0.01, 0.65, 0.3])) @ y
        tensor([3.3893, 2.9820, 2.4965, 2.0191, 1.6097, 1.2815])

    References:
        Grover et al., "Stochastic Optimization of Sorting Networks via Continuous Relaxations", ICLR 2019.
    """

    temperature: float = 1.0
    sinkhorn_rounds: int = 0
    transposed: bool = False

    def __post_init__(self) -> None:
        check_positive("temperature", self.temperature)
        if self.sinkhorn_rounds < 0:
            bad_value("sinkhorn_rounds", "be at least 0", self.sinkhorn_rounds)

    def _permutation(self, scores: Tensor, mask: Tensor) -> Tensor:
        n = mask.sum(-1, keepdim=True).to(scores.dtype)  # (..., 1)
        rank = torch.arange(1, scores.shape[-1] + 1, dtype=scores.dtype, device=scores.device)
        apart = (scores[..., :, None] - scores[..., None, :]).abs()  # (..., j, k)
        spread = torch.where(mask[..., None, :], apart, 0.0).sum(-1)  # (..., n)
        logits = (n + 1 - 2 * rank)[..., :, None] * scores[..., None, :] - spread[..., None, :]  # (..., r, j)
        logits = torch.where(mask[..., None, :], logits / self.temperature, torch.finfo(scores.dtype).min)
        rows = row_mask(mask)
        permutation = torch.where(rows[..., :, None] & mask[..., None, :], logits.softmax(-1), 0.0)
        if self.sinkhorn_rounds == 0:
            return permutation
        if self.transposed:
            return scale(permutation.mT, self.sinkhorn_rounds).mT
        return scale(permutation, self.sinkhorn_rounds)
