"""The Context-Aware Ranker: a Transformer encoder over the documents of a list."""

import math

import torch
from torch import Tensor, nn

from rankgrad.errors import bad_value, one_of
from rankgrad.rankers import scorer
from rankgrad.rankers.attention import SelfAttention
from rankgrad.rankers.list_index import ListIndex
from rankgrad.rankers.scorer import ACTIVATIONS, OUTPUTS, Scorer


class ContextAware(Scorer):
    r"""The Context-Aware Ranker: a Transformer encoder. A document's score depends on all documents of its list.

    .. math:: h = W x + b, \quad h \leftarrow h + \mathrm{Attention}(N(h)), \quad
              h \leftarrow h + W_2\,\phi(W_1 N(h)), \quad s = w^\top N(h) + b

    where N is layer norm. Each block applies the two updates of h (the formulas with an arrow). Dropout is applied at
    the same places as in `torch.nn.TransformerEncoder`. If `position` is not `"none"`, the input of the first block is
    sqrt(width) h + p(position), and the scores depend on the order of the documents in the input.

    Args:
        features: f, the number of features.
        width: size of h, a multiple of `heads`.
        blocks, heads, feed_forward: number of blocks, number of heads per block, and output size of W_1.
        dropout: dropout probability of all layers.
        activation: phi, the name of a function such as `"relu"`.
        position: encoding of a document's position in the input list: `"none"`, `"fixed"` (sine and cosine) or
            `"learned"`.
        positions: number of learned encodings. Positions after the last encoding also use the last encoding.
        output: function that is applied to the scores, `"none"` or `"tanh"`.

    Example:
        >>> ranker = ContextAware(136, width=96, blocks=2, heads=1, feed_forward=384)
        >>> ranker(torch.ones(3, 136), torch.tensor([0, 1, 3])).shape
        torch.Size([3])

    References:
        Pobrotyn et al., "Context-Aware Learning to Rank with Self-Attention", SIGIR eCom 2020.
    """

    model = "context_aware"
    list_aware = True

    def __init__(
        self,
        features: int,
        *,
        width: int = 96,
        blocks: int = 2,
        heads: int = 1,
        feed_forward: int = 384,
        dropout: float = 0.1,
        activation: str = "relu",
        position: str = "none",
        positions: int = 240,
        output: str = "none",
    ) -> None:
        if scorer.whole_number("width", width) % scorer.whole_number("heads", heads):
            bad_value("width", f"be a multiple of heads, {heads}", width)
        one_of("activation", activation, ACTIVATIONS)
        one_of("position", position, ("none", "fixed", "learned"))
        one_of("output", output, OUTPUTS)
        super().__init__(
            features,
            width=width,
            blocks=scorer.whole_number("blocks", blocks, least=0),
            heads=heads,
            feed_forward=scorer.whole_number("feed_forward", feed_forward),
            dropout=scorer.fraction("dropout", dropout),
            activation=activation,
            position=position,
            positions=scorer.whole_number("positions", positions),
            output=output,
        )
        self.input = nn.Linear(features, width)
        self.position = None if position == "none" else Position(width, positions if position == "learned" else None)
        self.blocks = nn.ModuleList(
            EncoderBlock(width, heads, feed_forward, dropout, activation) for _ in range(blocks)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 1)
        self.output = OUTPUTS[output]()

    def score(self, rows: Tensor, index: ListIndex) -> Tensor:
        """Return the scores of the Context-Aware Ranker, `(rows,)`."""
        rows = self.input(rows)
        if self.position is not None:
            rows = self.position(rows, index.position)
        for block in self.blocks:
            rows = block(rows, index)
        return self.output(self.head(self.norm(rows)).squeeze(-1))


class EncoderBlock(nn.Module):
    """One pre-norm block of the Transformer encoder."""

    def __init__(self, width: int, heads: int, feed_forward: int, dropout: float, activation: str) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = SelfAttention(width, heads, dropout=dropout)
        self.wide, self.narrow = nn.Linear(width, feed_forward), nn.Linear(feed_forward, width)
        self.activation = ACTIVATIONS[activation]()
        self.dropout = nn.Dropout(dropout)

    def forward(self, rows: Tensor, index: ListIndex) -> Tensor:
        """Return the rows after this block of the Transformer encoder, `(rows, width)`."""
        rows = rows + self.dropout(self.attention(self.norm1(rows), index))
        wide = self.dropout(self.activation(self.wide(self.norm2(rows))))
        return rows + self.dropout(self.narrow(wide))


class Position(nn.Module):
    """Position encoding sqrt(width) h + p(position). p is a table of `learned` trained vectors, or sine and cosine."""

    def __init__(self, width: int, learned: int | None) -> None:
        super().__init__()
        self.width, self.last = width, (learned or 1) - 1
        self.table = None if learned is None else nn.Embedding(learned, width)

    def forward(self, rows: Tensor, position: Tensor) -> Tensor:
        """Return the scaled rows plus the position encoding of `position (rows,)`, `(rows, width)`."""
        if self.table is not None:
            encoded = self.table(position.clamp(max=self.last))
        else:
            even = torch.arange(0, self.width, 2, device=rows.device)
            angle = position[:, None] * torch.exp(even * (-math.log(10000.0) / self.width))  # (rows, width / 2)
            encoded = torch.stack([angle.sin(), angle.cos()], -1).flatten(1)[:, : self.width]
        return math.sqrt(self.width) * rows + encoded.to(rows.dtype)
