"""SmoothI: rank indicators. Each indicator is a softmax in which the documents of earlier ranks have less weight."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rankgrad.errors import bad_value
from rankgrad.relax.relaxation import Relaxation, check_positive, row_mask


@dataclass(frozen=True)
class smoothi(Relaxation):
    r"""SmoothI: smooth rank indicators (SmoothI paper, Eq. 4), computed after the lowest score of a list is subtracted.

    .. math:: I^r_{\cdot} = \mathrm{softmax}_j\Bigl(\alpha s_j \prod_{l<r} (1 - I^l_j - \delta)\Bigr)

    The lowest score is subtracted because the indicators need scores of at least 0. With alpha = 1, the indicators are
    very soft. If scores are normally distributed, try values of alpha up to 1000.

    The indicators of each rank sum to 1 over the documents, but the indicators of a document need not sum to 1 over the
    ranks. So a document may count more than once: a soft metric may be above 1, and its loss below -1.

    Args:
        alpha: sharpness, 1 / temperature.
        delta: number between 0 and 0.5. If a document already has an earlier rank, delta makes its logit negative.
        stop_gradient: True to treat the product as a constant in the gradient, for stability, as in the paper.

    Example:
        >>> smoothi(alpha=100.0).permutation(torch.tensor([1.0, 3.0, 2.0])).round()
        tensor([[0., 1., 0.],
                [0., 0., 1.],
                [1., 0., 0.]])

    References:
        Thonet et al., "Listwise Learning to Rank Based on Approximate Rank Indicators", AAAI 2022.
    """

    alpha: float = 1.0
    delta: float = 0.1
    stop_gradient: bool = True

    def __post_init__(self) -> None:
        check_positive("alpha", self.alpha)
        if not 0 < self.delta < 0.5:
            bad_value("delta", "be between 0 and 0.5", self.delta)

    def _permutation(self, scores: Tensor, mask: Tensor) -> Tensor:
        return self.indicators(shifted(scores, mask), mask, scores.shape[-1])

    def indicators(self, scores: Tensor, mask: Tensor, k: int) -> Tensor:
        """Return SmoothI's indicators of ranks 1 to k, `(..., k, n)`. This method does not shift the scores.

        Args:
            scores: `(..., n)`, at least 0; see `shifted`.
            mask: boolean `(..., n)`, True for a document.
            k: number of ranks.
        """
        lowest = torch.finfo(scores.dtype).min
        left, rows = torch.ones_like(scores), []
        for _ in range(k):
            logits = torch.where(mask, self.alpha * scores * left, lowest)
            indicator = torch.where(mask, logits.softmax(-1), 0.0)
            rows.append(indicator)
            left = left * (1.0 - (indicator.detach() if self.stop_gradient else indicator) - self.delta)
        if not rows:
            return scores[..., None, :][..., :0, :]
        return torch.where(row_mask(mask)[..., :k, None], torch.stack(rows, -2), 0.0)


def shifted(scores: Tensor, mask: Tensor) -> Tensor:
    """Shift scores for SmoothI: subtract the lowest score of each list; padding gets 0."""
    if scores.shape[-1] == 0:
        return scores
    lowest = torch.where(mask, scores, torch.finfo(scores.dtype).max).amin(-1, keepdim=True)
    return torch.where(mask, scores - lowest, 0.0)
