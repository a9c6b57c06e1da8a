"""What list-aware rankers share: attention and softmax pooling within a list. Only these pad, and nothing else."""

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from rankgrad.rankers.list_index import ListIndex


class SelfAttention(nn.Module):
    r"""Multi-head attention of the documents of a list over each other.

    .. math:: o_i = W_o \bigl[\textstyle\sum_j \mathrm{softmax}_j(q_i^\top k_j / \sqrt{d})\, v_j\bigr]_{heads}

    Args:
        width: of the rows, in and out.
        heads: how many.
        head_size: d, of each head; None: width / heads.
        dropout: of the attention weights.
    """

    def __init__(self, width: int, heads: int, head_size: int | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        inner = heads * (head_size or width // heads)
        self.project = nn.Linear(width, 3 * inner)  # queries, keys and values at once
        self.out = nn.Linear(inner, width)

    def forward(self, rows: Tensor, places: ListIndex) -> Tensor:
        """Rows `(rows, width)`."""
        padded = places.pad(self.project(rows))  # (lists, n, 3 * heads * d)
        lists, n, inner = padded.shape[0], padded.shape[1], self.out.in_features
        split = padded.view(lists, n, 3, self.heads, inner // self.heads).permute(2, 0, 3, 1, 4)
        dropout = self.dropout if self.training else 0.0
        keys = places.keys[:, None, None, :]
        mixed = scaled_dot_product_attention(split[0], split[1], split[2], attn_mask=keys, dropout_p=dropout)
        return self.out(places.unpad(mixed.transpose(1, 2).reshape(lists, n, inner)))


def softmax_pool(logits: Tensor, rows: Tensor, places: ListIndex) -> tuple[Tensor, Tensor]:
    r"""Rows weighted by a softmax over the documents of their list, a_i h_i, and the sum of these over the list.

    Args:
        logits: `(rows, d)`, a softmax for each of d, or `(rows, 1)`, one for all.
        rows: h, `(rows, d)`.
        places: which rows make a list.

    Returns:
        a_i h_i, `(rows, d)`, and its sum, the same for every document of a list, `(rows, d)`.
    """
    padded = places.pad(torch.cat([logits, rows], -1))
    wide = logits.shape[-1]
    weights = torch.where(places.keys[..., None], padded[..., :wide], -torch.inf).softmax(1)
    weighted = weights * padded[..., wide:]  # (lists, n, d)
    return places.unpad(weighted), places.each(weighted.sum(1))
