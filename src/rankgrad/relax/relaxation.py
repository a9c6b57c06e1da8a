"""Base class of relaxations. A subclass defines soft permutations or soft ranks; the base class derives the rest."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rankgrad.errors import bad_type, bad_value
from rankgrad.lists import compute_dtype


@dataclass(frozen=True)
class Relaxation:
    """A differentiable replacement for sorting, such as `neural_sort(temperature=0.1)`.

    A subclass defines the method `_permutation` or the method `_ranks`; this class derives the other method. All
    methods take `scores (..., n)` and an optional boolean `mask (..., n)`. The ranks of padding are 0. If a list has m
    documents, all rows of its permutation after the first m rows are 0.
    """

    def permutation(self, scores: Any, mask: Any = None) -> Tensor:
        """Return the soft permutation, `(..., n, n)`. Row r (from 0) contains each document's share of rank r + 1.

        Args:
            scores: `(..., n)`.
            mask: boolean `(..., n)`, True for a document; with None, all are documents.

        Example:
            >>> from rankgrad.relax import neural_sort
            >>> neural_sort(temperature=0.01).permutation(torch.tensor([1.0, 3.0, 2.0])).round()
            tensor([[0., 1., 0.],
                    [0., 0., 1.],
                    [1., 0., 0.]])
        """
        return self._permutation(*check_scores(scores, mask))

    def ranks(self, scores: Any, mask: Any = None) -> Tensor:
        """Return the soft rank of each document, from 1, `(..., n)`.

        Args:
            scores: `(..., n)`.
            mask: boolean `(..., n)`, True for a document; with None, all are documents.
        """
        scores, mask = check_scores(scores, mask)
        return torch.where(mask, self._ranks(scores, mask), 0.0)

    def sort(self, scores: Any, mask: Any = None) -> Tensor:
        """Return the softly sorted scores, descending, `(..., n)`.

        Args:
            scores: `(..., n)`.
            mask: boolean `(..., n)`, True for a document; with None, all are documents.
        """
        scores, mask = check_scores(scores, mask)
        return (self._permutation(scores, mask) * scores[..., None, :]).sum(-1)

    def top_k(self, scores: Any, k: int, mask: Any = None) -> Tensor:
        """Return the soft top k: the share of each document that is in the first k ranks, `(..., n)`.

        Args:
            scores: `(..., n)`.
            k: number of ranks, at least 1.
            mask: boolean `(..., n)`, True for a document; with None, all are documents.
        """
        if k < 1:
            bad_value("k", "be at least 1", k)
        return self._permutation(*check_scores(scores, mask))[..., :k, :].sum(-2)

    @property
    def gives_permutation(self) -> bool:
        """True if the operator defines a permutation; False if `lift` makes the permutation from the ranks."""
        return type(self)._permutation is not Relaxation._permutation

    def _permutation(self, scores: Tensor, mask: Tensor) -> Tensor:
        return lift(self._ranks(scores, mask), mask)

    def _ranks(self, scores: Tensor, mask: Tensor) -> Tensor:
        return expected_ranks(self._permutation(scores, mask))


def lift(ranks: Tensor, mask: Tensor) -> Tensor:
    r"""Make a soft permutation: divide each document between the two integer ranks next to its soft rank.

    .. math:: P_{rj} = \max(0, 1 - |r - \pi_j|)

    The column of each document sums to 1. If all ranks are integers, the result is the exact permutation.

    Args:
        ranks: `(..., n)`, from 1.
        mask: boolean `(..., n)`, True for a document.

    Example:
        >>> lift(torch.tensor([1.0, 1.75]), torch.tensor([True, True]))
        tensor([[1.0000, 0.2500],
                [0.0000, 0.7500]])
    """
    rows = rank_numbers(ranks)[:, None]
    length = mask.sum(-1, keepdim=True).to(ranks.dtype).clamp(min=1)
    inside = torch.minimum(ranks.clamp(min=1.0), length)  # rounding may move a soft rank out of [1, length]
    hat = (1.0 - (rows - inside[..., None, :]).abs()).clamp(min=0.0)
    return torch.where(mask[..., None, :], hat, 0.0)


def expected_ranks(permutation: Tensor) -> Tensor:
    """Return the soft ranks of a soft permutation, `(..., n)`: means of the ranks, weighted by normalised columns."""
    rows = rank_numbers(permutation)[:, None]
    total = permutation.sum(-2)
    return (rows * permutation).sum(-2) / torch.where(total > 0, total, 1.0)


def rank_numbers(like: Tensor) -> Tensor:
    """Return the ranks 1 to n for a relaxation, `(n,)`, in the dtype and on the device of `like (..., n)`."""
    return torch.arange(1, like.shape[-1] + 1, dtype=like.dtype, device=like.device)


def row_mask(mask: Tensor) -> Tensor:
    """Return the row mask of a soft permutation, `(..., n)`. If a list has m documents, the first m rows are True."""
    return torch.arange(mask.shape[-1], device=mask.device) < mask.sum(-1, keepdim=True)


def check_scores(scores: Any, mask: Any) -> tuple[Tensor, Tensor]:
    """Check the scores and the mask of a relaxation, and return both.

    The returned scores are 0 in padding, and have the dtype of computation.
    """
    if not isinstance(scores, Tensor):
        bad_type("scores", "be a tensor", type(scores).__name__)
    scores = scores.to(compute_dtype(scores.dtype))
    if mask is None:
        return scores, torch.ones_like(scores, dtype=torch.bool)
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.shape != scores.shape:
        got = f"{mask.dtype} {tuple(mask.shape)}" if isinstance(mask, Tensor) else type(mask).__name__
        bad_value("mask", f"be a boolean tensor of shape {tuple(scores.shape)}, like scores", got)
    return torch.where(mask, scores, 0.0), mask


def check_positive(name: str, value: float) -> None:
    """Check that an option of a relaxation, such as the temperature, is above 0."""
    if not value > 0:
        bad_value(name, "be above 0", value)
