"""The ranker DASALC (data augmented self-attentive latent cross)."""

from torch import Tensor, nn

from rankgrad.rankers import scorer
from rankgrad.rankers.attention import SelfAttention
from rankgrad.rankers.batch_norm import BatchNorm
from rankgrad.rankers.list_index import ListIndex
from rankgrad.rankers.mlp import Tower, add_noise
from rankgrad.rankers.scorer import Scorer


class DASALC(Scorer):
    r"""DASALC: a latent cross of two networks: an MLP over a document (tower), and self-attention over its list.

    .. math:: h = N(x) + \varepsilon, \quad u = \mathrm{tower}(h), \quad v = W_v N(\mathrm{attention}(h)) + b_v

    .. math:: s = w^\top D\,\mathrm{ReLU}(u \odot v + u) + b

    where N is batch norm and D is dropout. In training, epsilon ~ N(0, noise^2); otherwise it is 0. The tower is two
    times [Linear, ReLU, N, D]. The attention starts with a <- ReLU(W_a h), and each layer computes
    a <- LayerNorm(a + D(Attention(a))). The authors first replace x by `sign(x) log(1 + |x|)` and clip the result to 30
    (preprocessing `log1p,clip=30`). DASALC is the best published neural ranker on the large public data sets.

    Args:
        features: f, the number of features.
        width: width of the tower's layers.
        layers, heads, head_size: number of attention layers, number of heads per layer, and size of a head. The rows a
            also have size `head_size`, as in the authors' code.
        dropout: dropout probability of all layers.
        noise: standard deviation of the noise that is added to the features.
        projection: True to add another linear layer at the end of the tower, as in the authors' released code.

    Example:
        >>> ranker = DASALC(136, width=64, layers=1, head_size=10)
        >>> ranker(torch.ones(3, 136), torch.tensor([0, 1, 3])).shape
        torch.Size([3])

    References:
        Qin et al., "Are Neural Rankers still Outperformed by Gradient Boosted Decision Trees?", ICLR 2021.
    """

    model = "dasalc"
    list_aware = True

    def __init__(
        self,
        features: int,
        *,
        width: int = 512,
        layers: int = 4,
        heads: int = 2,
        head_size: int = 100,
        dropout: float = 0.4,
        noise: float = 1.5,
        projection: bool = False,
    ) -> None:
        super().__init__(
            features,
            width=scorer.whole_number("width", width),
            layers=scorer.whole_number("layers", layers),
            heads=scorer.whole_number("heads", heads),
            head_size=scorer.whole_number("head_size", head_size),
            dropout=scorer.fraction("dropout", dropout),
            noise=scorer.finite_number("noise", noise),
            projection=scorer.boolean("projection", projection),
        )
        self.noise = noise
        self.input_norm = BatchNorm(features)
        self.tower = Tower(features, [width, width], "batch", "after", dropout=dropout)
        self.projection = nn.Linear(width, width) if projection else nn.Identity()
        self.context = nn.Linear(features, head_size)
        self.attentions = nn.ModuleList(SelfAttention(head_size, heads, head_size, dropout) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(head_size) for _ in range(layers))
        self.context_norm = BatchNorm(head_size)
        self.cross = nn.Linear(head_size, width)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(width, 1)

    def score(self, rows: Tensor, index: ListIndex) -> Tensor:
        """Return the scores of DASALC, `(rows,)`."""
        rows = add_noise(self.input_norm(rows, index.real), self.noise, self.training)
        u = self.projection(self.tower(rows, index.real))  # (rows, width)
        context = self.context(rows).relu()  # (rows, head_size)
        for attention, norm in zip(self.attentions, self.norms, strict=True):
            context = norm(context + self.dropout(attention(context, index)))
        v = self.cross(self.context_norm(context, index.real))
        return self.head(self.dropout((u * v + u).relu())).squeeze(-1)
