"""The ranker AttSets: it pools a list by a softmax over its documents, separately for each column."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from rankgrad.rankers.softmax_pooling import PoolingScorer


class AttSets(PoolingScorer):
    r"""AttSets: pools a list by a softmax over its documents, separately for each column d of h.

    .. math:: h_i = \mathrm{MLP}(x_i), \quad a_i^d = \mathrm{softmax}_i\,(W h_i)^d, \quad z = \sum_i a_i \odot h_i

    A document's score is a function of h_i and z, or of a_i * h_i; see `mode`.

    Args:
        features: f, the number of features.
        widths: widths of the layers that compute h.
        mode: form of the score: `"pooled"`, s_i = MLP([h_i; z; h_i * z]), or the published form `"reweight"`,
            s_i = w'(a_i * h_i) + b.
        head: widths of the hidden layers of the MLP that computes the score in mode `"pooled"`.
        activation, norm, dropout: options of both MLPs, as in `MLP`.

    Example:
        >>> ranker = AttSets(46, widths=[128], mode="reweight")
        >>> ranker(torch.ones(3, 46), torch.tensor([0, 1, 3])).shape
        torch.Size([3])

    References:
        Yang et al., "Robust Attentional Aggregation of Deep Feature Sets for Multi-view 3D Reconstruction", IJCV 2020.
    """

    model = "attsets"

    def __init__(
        self,
        features: int,
        *,
        widths: int | Sequence[int] = (128,),
        mode: str = "pooled",
        head: int | Sequence[int] = (128,),
        activation: str = "relu",
        norm: str = "none",
        dropout: float = 0.0,
    ) -> None:
        settings: dict[str, Any] = {"activation": activation, "norm": norm, "dropout": dropout}
        super().__init__(features, widths=widths, mode=mode, head=head, **settings)
        self.attention = nn.Linear(self.tower.width, self.tower.width, bias=False)

    def logits(self, rows: Tensor) -> Tensor:
        """Return the logits of the softmax in AttSets, W h_i, `(rows, width)`."""
        return self.attention(rows)
