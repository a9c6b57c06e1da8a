"""SoftRank: an approximate distribution of each document's rank, if all scores have Gaussian noise."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from rankgrad.relax.operators import one_node, register
from rankgrad.relax.relaxation import Relaxation, check_positive


@dataclass(frozen=True)
class soft_rank(Relaxation):
    r"""SoftRank: rank distributions of noisy scores. Document i is ranked before document j with probability pi_ij.

    .. math:: \pi_{ij} = \Phi\Bigl(\frac{s_i - s_j}{\sqrt{2}\,\sigma}\Bigr), \quad
              p_j(r) \leftarrow p_j(r - 1)\, \pi_{ij} + p_j(r)\, (1 - \pi_{ij}) \text{ for each } i \ne j

    As in the paper, the comparisons of document j with the other documents are treated as independent, but all of them
    contain the noise of s_j. So the distribution p_j is exact for two documents, and approximate for three or more: for
    three equal scores, each rank has the probability 1/3, and the result is 1/4, 1/2, 1/4. The ranks, which are means,
    are exact for any number of documents.

    Each column of the permutation sums to 1. The cost is O(n^3), because each of n steps computes an n x n matrix. So
    use this operator for short lists.

    Args:
        sigma: standard deviation of the noise, above 0, in units of the score. With a smaller value, the
            distributions are closer to the exact ranks.

    Example:
        >>> soft_rank(sigma=0.1).ranks(torch.tensor([1.0, 3.0, 2.0]))
        tensor([3., 1., 2.])
        >>> soft_rank().permutation(torch.zeros(3))[:, 0]
        tensor([0.2500, 0.5000, 0.2500])

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
        chances = _chances_op(beats) if one_node() else _chances(beats)
        return torch.where(mask[..., None, :], chances, 0.0)


def _chances(beats: Tensor) -> Tensor:
    """Return SoftRank's probability of each rank r for each document j, `(..., r, j)`."""
    *_, last = _steps(beats)
    return last


def _steps(beats: Tensor) -> Iterator[Tensor]:
    """Yield SoftRank's rank probabilities of all documents, `(..., r, j)`, for 0, 1, 2, ..., n rivals.

    With i rivals, the rank of a document is its rank among itself and the first i documents.
    """
    first = torch.arange(beats.shape[-1], device=beats.device)[:, None] == 0
    chances = first.to(beats.dtype) + 0.0 * beats  # in the graph also for n = 0
    yield chances
    for i in range(beats.shape[-2]):
        beaten = beats[..., i, None, :]
        fallen = torch.nn.functional.pad(chances[..., :-1, :], (0, 0, 1, 0))
        chances = chances * (1.0 - beaten) + fallen * beaten
        yield chances


def _by_beats(beats: Tensor, chances: Tensor, by_chances: Tensor) -> Tensor:
    """Return the gradient of SoftRank's probabilities with respect to `beats`. All steps are computed again."""
    result = torch.zeros_like(beats)
    *before, _ = _steps(beats)
    for i, chances in reversed([*enumerate(before)]):
        beaten = beats[..., i, None, :]
        risen = torch.nn.functional.pad(by_chances[..., 1:, :], (0, 0, 0, 1))
        fallen = torch.nn.functional.pad(chances[..., :-1, :], (0, 0, 1, 0))
        result[..., i, :] = (by_chances * (fallen - chances)).sum(-2)
        by_chances = by_chances * (1.0 - beaten) + risen * beaten
    return result


# `torch.compile` would copy every step into its graph, and would need minutes for a list of a hundred documents.
_chances_op = register(
    "rank_chances(Tensor beats) -> Tensor",
    _chances,
    torch.empty_like,
    backward=register(
        "rank_chances_backward(Tensor beats, Tensor chances, Tensor by_chances) -> Tensor",
        _by_beats,
        lambda beats, *_: torch.empty_like(beats),
    ),
)
