"""Softmax pooling: the base class of rankers that pool a list into one vector by a softmax over its documents."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rankgrad.errors import one_of
from rankgrad.rankers import scorer
from rankgrad.rankers.list_index import ListIndex
from rankgrad.rankers.mlp import Tower
from rankgrad.rankers.scorer import Scorer

MODES = ("pooled", "reweight")


class PoolingScorer(Scorer):
    """Base class that computes h_i with an MLP, pools a list to z = sum_i a_i h_i, and scores each document.

    A subclass defines the weights a. In mode `"pooled"`, the score is MLP([h_i; z; h_i * z]). In mode `"reweight"`, the
    score is a linear function of a_i * h_i. A linear function of [h_i; z] would not use z, because z would add the same
    number to all scores of the list.
    """

    list_aware = True

    def __init__(
        self,
        features: int,
        *,
        widths: int | Sequence[int],
        mode: str,
        head: int | Sequence[int],
        activation: str,
        norm: str,
        dropout: float,
        **options: Any,
    ) -> None:
        one_of("mode", mode, MODES)
        widths, head = scorer.whole_numbers("widths", widths), scorer.whole_numbers("head", head)
        scorer.fraction("dropout", dropout)
        settings: dict[str, Any] = {"activation": activation, "norm": norm, "dropout": dropout}
        super().__init__(features, widths=widths, mode=mode, head=head, **settings, **options)
        self.mode = mode
        self.tower = Tower(features, widths, **settings)
        width = self.tower.width
        self.mixer = Tower(3 * width, head, **settings) if mode == "pooled" else None
        self.head = nn.Linear(width if self.mixer is None else self.mixer.width, 1)

    @abstractmethod
    def logits(self, rows: Tensor) -> Tensor:
        """Return the logits of the softmax over a list, `(rows, width)` or `(rows, 1)`.

        Args:
            rows: h of each document, `(rows, width)`.
        """

    def score(self, rows: Tensor, index: ListIndex) -> Tensor:
        """Return the scores after softmax pooling, `(rows,)`."""
        rows = self.tower(rows, index.real)
        weighted, pooled = softmax_pool(self.logits(rows), rows, index)
        if self.mixer is None:
            return self.head(weighted).squeeze(-1)
        joined = torch.cat([rows, pooled, rows * pooled], -1)
        return self.head(self.mixer(joined, index.real)).squeeze(-1)


def softmax_pool(logits: Tensor, rows: Tensor, index: ListIndex) -> tuple[Tensor, Tensor]:
    r"""Pool lists by softmax: multiply each row h_i by its softmax weight a_i, and sum the products over the list.

    Args:
        logits: logits of the softmax: `(rows, d)` for a different softmax in each column of h, or `(rows, 1)` for the
            same softmax in all columns.
        rows: h, `(rows, d)`.
        index: positions of the rows in their lists.

    Returns:
        Two tensors `(rows, d)`: the products a_i h_i, and the sum of the products over the list of each row.
    """
    padded = index.pad(torch.cat([logits, rows], -1))
    wide = logits.shape[-1]
    weights = torch.where(index.keys[..., None], padded[..., :wide], -torch.inf).softmax(1)
    weighted = weights * padded[..., wide:]  # (lists, n, d)
    return index.unpad(weighted), index.each(weighted.sum(1))
