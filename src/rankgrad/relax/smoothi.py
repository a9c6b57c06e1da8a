"""SmoothI: rank indicators. Each indicator is a softmax in which the documents of earlier ranks have less weight."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rankgrad.errors import bad_value
from rankgrad.relax.operators import one_node, register
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
        # A tensor as delta may need a gradient, which the registered operator does not compute.
        rows = _rows_op if one_node() and not isinstance(self.delta, Tensor) else _rows
        indicators = rows(self.alpha * scores, mask, self.delta, self.stop_gradient, k)
        return torch.where(row_mask(mask)[..., :k, None], indicators, 0.0)


def shifted(scores: Tensor, mask: Tensor) -> Tensor:
    """Shift scores for SmoothI: subtract the lowest score of each list; padding gets 0."""
    if scores.shape[-1] == 0:
        return scores
    lowest = torch.where(mask, scores, torch.finfo(scores.dtype).max).amin(-1, keepdim=True)
    return torch.where(mask, scores - lowest, 0.0)


def _rows(logits: Tensor, mask: Tensor, delta: float, stop_gradient: bool, k: int) -> Tensor:
    """Return SmoothI's indicators of k ranks, `(..., k, n)`, from `alpha * scores`, also for ranks after the last."""
    left, rows = torch.ones_like(logits), []
    for _ in range(k):
        indicator = _softmax(logits * left, mask)
        rows.append(indicator)
        left = left * (1.0 - (indicator.detach() if stop_gradient else indicator) - delta)
    return torch.stack(rows, -2) if rows else logits[..., None, :][..., :0, :]


def _by_logits(
    logits: Tensor, mask: Tensor, rows: Tensor, by_rows: Tensor, delta: float, stop_gradient: bool, k: int
) -> Tensor:
    """Return the gradient of SmoothI's indicators with respect to `alpha * scores`."""
    kept = 1.0 - rows - delta
    left = torch.cat([torch.ones_like(kept[..., :1, :]), kept[..., :-1, :]], -2).cumprod(-2)  # before each rank
    result, by_left = torch.zeros_like(logits), torch.zeros_like(logits)  # by_left: after the rank
    for r in reversed(range(k)):
        indicator, upstream = rows[..., r, :], by_rows[..., r, :]
        if not stop_gradient:
            upstream = upstream - by_left * left[..., r, :]
        upstream = indicator * (upstream - (indicator * upstream).sum(-1, keepdim=True))  # derivative of a softmax
        result += upstream * left[..., r, :]
        by_left = by_left * kept[..., r, :] + upstream * logits
    return result


def _softmax(logits: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, torch.where(mask, logits, torch.finfo(logits.dtype).min).softmax(-1), 0.0)


# `torch.compile` would copy the loop over the ranks into its graph, and would compile again for each length of lists.
_OPTIONS = "float delta, bool stop_gradient, SymInt k"
_rows_op = register(
    f"smoothi(Tensor logits, Tensor mask, {_OPTIONS}) -> Tensor",
    _rows,
    lambda logits, mask, delta, stop_gradient, k: logits.new_empty((*logits.shape[:-1], k, logits.shape[-1])),
    backward=register(
        f"smoothi_backward(Tensor logits, Tensor mask, Tensor rows, Tensor by_rows, {_OPTIONS}) -> Tensor",
        _by_logits,
        lambda logits, *_: torch.empty_like(logits),
    ),
)
