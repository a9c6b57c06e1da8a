"""Base class of rankers that pool a list into one vector by a softmax over its documents."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rankgrad.errors import one_of
from rankgrad.rankers import scorer
from rankgrad.rankers.attention import softmax_pool
from rankgrad.rankers.list_index import ListIndex
from rankgrad.rankers.mlp import Tower
from rankgrad.rankers.scorer import Scorer

MODES = ("pooled", "reweight")


class PoolingScorer(Scorer):
    """Base class that computes h with an MLP, pools it to z = sum_i a_i h_i, and scores each document.

    A subclass defines the weights a. In mode `"pooled"` the score is MLP([h_i; z; h_i * z]), in mode `"reweight"` it is
    a linear function of a_i * h_i. A linear function of [h_i; z] would not use z: it would add the same number to all
    scores of the list.
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
        widths, head = scorer.wholes("widths", widths), scorer.wholes("head", head)
        scorer.share("dropout", dropout)
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
        """Return scores `(rows,)`."""
        rows = self.tower(rows, index.real)
        weighted, pooled = softmax_pool(self.logits(rows), rows, index)
        if self.mixer is None:
            return self.head(weighted).squeeze(-1)
        joined = torch.cat([rows, pooled, rows * pooled], -1)
        return self.head(self.mixer(joined, index.real)).squeeze(-1)
