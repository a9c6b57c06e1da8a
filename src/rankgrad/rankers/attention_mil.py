"""The ranker AttentionMIL: attention-based multiple instance learning."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rankgrad.rankers import scorer
from rankgrad.rankers.softmax_pooling import PoolingScorer


class AttentionMIL(PoolingScorer):
    r"""Attention MIL: pools a list with one attention weight per document. The attention may have a gate.

    .. math:: a_i = \mathrm{softmax}_i\; w^\top \tanh(V h_i) \quad\text{or, gated,}\quad
              a_i = \mathrm{softmax}_i\; w^\top \bigl(\tanh(V h_i) \odot \sigma(U h_i)\bigr)

    .. math:: z = \sum_i a_i h_i

    where h = MLP(x). A document's score is a function of h_i and z, or of a_i h_i; see `mode`. In mode `"reweight"`,
    the denominator of the softmax divides w'(a_i h_i) of all documents of a list by the same number. So the order of
    two documents does not depend on the other documents.

    Args:
        features: f, the number of features.
        widths: widths of the layers that compute h.
        attention: number of rows of V and U.
        gated: True to use the gate U.
        mode: form of the score: `"pooled"`, s_i = MLP([h_i; z; h_i * z]), or the published form `"reweight"`,
            s_i = w'(a_i h_i) + b.
        head: widths of the hidden layers of the MLP that computes the score in mode `"pooled"`.
        activation, norm, dropout: options of both MLPs, as in `MLP`.

    Example:
        >>> ranker = AttentionMIL(46, gated=True)
        >>> ranker(torch.ones(3, 46), torch.tensor([0, 1, 3])).shape
        torch.Size([3])

    References:
        Ilse et al., "Attention-based Deep Multiple Instance Learning", ICML 2018.
    """

    model = "attention_mil"

    def __init__(
        self,
        features: int,
        *,
        widths: int | Sequence[int] = (500,),
        attention: int = 128,
        gated: bool = False,
        mode: str = "pooled",
        head: int | Sequence[int] = (128,),
        activation: str = "relu",
        norm: str = "none",
        dropout: float = 0.0,
    ) -> None:
        scorer.whole_number("attention", attention)
        scorer.boolean("gated", gated)
        settings: dict[str, Any] = {"activation": activation, "norm": norm, "dropout": dropout}
        mil_options: dict[str, Any] = {"attention": attention, "gated": gated}
        super().__init__(features, widths=widths, mode=mode, head=head, **settings, **mil_options)
        self.inner = nn.Linear(self.tower.width, attention)
        self.gate = nn.Linear(self.tower.width, attention) if gated else None
        self.attention = nn.Linear(attention, 1, bias=False)  # a bias would cancel in the softmax

    def logits(self, rows: Tensor) -> Tensor:
        """Return w' tanh(V h_i), `(rows, 1)`; if `gated`, tanh(V h_i) is multiplied by the gate sigma(U h_i)."""
        inner = torch.tanh(self.inner(rows))
        return self.attention(inner if self.gate is None else inner * torch.sigmoid(self.gate(rows)))
