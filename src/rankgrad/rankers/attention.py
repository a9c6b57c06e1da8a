"""Self-attention among the documents of a list, for list-aware rankers."""

from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from rankgrad.rankers.list_index import ListIndex


class SelfAttention(nn.Module):
    r"""Multi-head attention: each document attends to all documents of its list.

    .. math:: o_i = W_o \bigl[\textstyle\sum_j \mathrm{softmax}_j(q_i^\top k_j / \sqrt{d})\, v_j\bigr]_{heads}

    Args:
        width: size of a row, in input and output.
        heads: number of heads.
        head_size: d, the size of each head; None for width / heads.
        dropout: dropout probability of the attention weights.
    """

    def __init__(self, width: int, heads: int, head_size: int | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        inner = heads * (head_size or width // heads)
        self.project = nn.Linear(width, 3 * inner)  # queries, keys and values in one layer
        self.out = nn.Linear(inner, width)

    def forward(self, rows: Tensor, index: ListIndex) -> Tensor:
        """Return the rows after the self-attention, `(rows, width)`."""
        padded = index.pad(self.project(rows))  # (lists, n, 3 * heads * d)
        lists, n, inner = padded.shape[0], padded.shape[1], self.out.in_features
        split = padded.view(lists, n, 3, self.heads, inner // self.heads).permute(2, 0, 3, 1, 4)
        dropout = self.dropout if self.training else 0.0
        keys = index.keys[:, None, None, :]
        mixed = scaled_dot_product_attention(split[0], split[1], split[2], attn_mask=keys, dropout_p=dropout)
        return self.out(index.unpad(mixed.transpose(1, 2).reshape(lists, n, inner)))
