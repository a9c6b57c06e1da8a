"""SoftSort: row r of the soft permutation is a softmax of the negative distances to the r-th highest score."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rankgrad.errors import bad_value
from rankgrad.metrics.sort_order import order
from rankgrad.relax.relaxation import Relaxation, check_positive, row_mask


@dataclass(frozen=True)
class soft_sort(Relaxation):
    r"""SoftSort: documents with scores near the r-th highest score share rank r.

    .. math:: P_{r\cdot} = \mathrm{softmax}_j\bigl(-|s_{(r)} - s_j|^p / \tau\bigr)

    Args:
        temperature: tau, above 0; with a smaller value, P is closer to the exact permutation.
        p: power of the distance between scores, 1 or 2.

    Example:
        >>> soft_sort(temperature=0.1).ranks(torch.tensor([1.0, 3.0, 2.0]))
        tensor([3.0000, 1.0000, 2.0000])

    References:
        Prillo and Eisenschlos, "SoftSort: A Continuous Relaxation for the argsort Operator", ICML 2020.
    """

    temperature: float = 1.0
    p: int = 1

    def __post_init__(self) -> None:
        check_positive("temperature", self.temperature)
        if self.p not in (1, 2):
            bad_value("p", "be 1 or 2", self.p)

    def _permutation(self, scores: Tensor, mask: Tensor) -> Tensor:
        ordered = _shared_by_ties(scores.gather(-1, order(scores, mask)), row_mask(mask))
        apart = (ordered[..., :, None] - scores[..., None, :]).abs()  # (..., r, j)
        if self.p == 2:
            # The squares of larger distances would overflow. Their softmax is 0 in any case.
            apart = apart.clamp(max=0.5 * torch.finfo(scores.dtype).max ** 0.5) ** 2
        logits = torch.where(mask[..., None, :], -apart / self.temperature, torch.finfo(scores.dtype).min)
        return torch.where(row_mask(mask)[..., :, None] & mask[..., None, :], logits.softmax(-1), 0.0)


def _shared_by_ties(ordered: Tensor, mask: Tensor) -> Tensor:
    """Return the sorted scores for SoftSort, with equal gradients for tied documents.

    Tied documents have no order, so each of them gets the mean gradient of the ties.
    """
    equal = (ordered[..., :, None] == ordered[..., None, :]) & mask[..., None, :]
    mean = torch.where(equal, ordered[..., None, :], 0.0).sum(-1) / equal.sum(-1).clamp(min=1)
    return ordered.detach() + (mean - mean.detach())
