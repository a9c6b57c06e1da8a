"""Pointwise rankers: a document's score depends only on its own features. Pointwise rankers need no padding."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from rankgrad.errors import bad_value, one_of
from rankgrad.rankers import scorer
from rankgrad.rankers.batch_norm import apply_norm, make_norm
from rankgrad.rankers.list_index import ListIndex
from rankgrad.rankers.scorer import ACTIVATIONS, OUTPUTS, Scorer

NORMS = ("none", "batch", "layer")


class Linear(Scorer):
    r"""A pointwise linear ranker.

    .. math:: s_i = w^\top x_i + b

    Args:
        features: f, the number of features.

    Example:
        >>> ranker = Linear(2)
        >>> ranker(torch.ones(3, 2), torch.tensor([0, 1, 3])).shape, ranker.config
        (torch.Size([3]), {'model': 'linear', 'features': 2})
    """

    model = "linear"

    def __init__(self, features: int) -> None:
        super().__init__(features)
        self.head = nn.Linear(features, 1)

    def score(self, rows: Tensor, index: ListIndex) -> Tensor:
        """Return the scores of a pointwise ranker, `(rows,)`."""
        return self.head(rows).squeeze(-1)


class MLP(Scorer):
    r"""A multi-layer perceptron: hidden layers with norm, activation and dropout, and a linear layer for the score.

    .. math:: h^0 = N_0(x_i) + \varepsilon, \quad h^{l} = D_l\,\phi\bigl(N_l(W_l h^{l-1} + b_l)\bigr), \quad
              s_i = w^\top h^L + b

    where N is the norm, phi is the activation, and D is dropout. In training, epsilon ~ N(0, noise^2); otherwise
    epsilon is 0.

    Args:
        features: f, the number of features.
        widths: widths of the hidden layers; an empty list makes a linear ranker.
        norm: norm of the hidden layers, `"none"`, `"batch"` or `"layer"`.
        norm_place: position of the norm, `"before"` or `"after"` the activation.
        norm_momentum: momentum of batch norm as PyTorch defines it: 0.001 here is 0.999 in TensorFlow.
        input_norm: norm of the features, `"none"` or `"batch"`.
        activation: a name in `ACTIVATIONS`, such as `"relu"`.
        dropout: dropout probability: one number, or one number per hidden layer.
        noise: standard deviation of the Gaussian noise that is added to the features after `input_norm`.
        init: initial weights, `"default"` (PyTorch's), or `"xavier_normal"` with biases of 0.
        output: function that is applied to the scores, `"none"` or `"tanh"`.

    Example:
        >>> ranker = MLP(46, widths=[256, 128], dropout=0.1)
        >>> ranker(torch.ones(3, 46), torch.tensor([0, 1, 3])).shape
        torch.Size([3])
    """

    model = "mlp"

    def __init__(
        self,
        features: int,
        *,
        widths: int | Sequence[int] = (256, 128),
        norm: str = "none",
        norm_place: str = "before",
        norm_momentum: float = 0.1,
        input_norm: str = "none",
        activation: str = "relu",
        dropout: float | Sequence[float] = 0.0,
        noise: float = 0.0,
        init: str = "default",
        output: str = "none",
    ) -> None:
        widths = scorer.whole_numbers("widths", widths)
        one_of("input_norm", input_norm, ("none", "batch"))
        one_of("init", init, ("default", "xavier_normal"))
        one_of("output", output, OUTPUTS)
        tower = Tower(features, widths, norm, norm_place, norm_momentum, activation, dropout)
        super().__init__(
            features,
            widths=widths,
            norm=norm,
            norm_place=norm_place,
            norm_momentum=norm_momentum,
            input_norm=input_norm,
            activation=activation,
            dropout=dropout if isinstance(dropout, int | float) else list(dropout),
            noise=scorer.finite_number("noise", noise),
            init=init,
            output=output,
        )
        self.noise = noise
        self.input_norm = make_norm(input_norm, features, norm_momentum)
        self.tower = tower
        self.head = nn.Linear(tower.width, 1)
        self.output = OUTPUTS[output]()
        if init == "xavier_normal":
            self.apply(_xavier_normal)

    def score(self, rows: Tensor, index: ListIndex) -> Tensor:
        """Return the scores of a pointwise ranker, `(rows,)`."""
        rows = apply_norm(self.input_norm, rows, index.real)
        rows = self.tower(add_noise(rows, self.noise, self.training), index.real)
        return self.output(self.head(rows).squeeze(-1))


class Tower(nn.Module):
    """Hidden layers of a ranker: linear layers with norm, activation and dropout. `width` is the output width."""

    def __init__(
        self,
        inputs: int,
        widths: Sequence[int],
        norm: str = "none",
        norm_place: str = "before",
        norm_momentum: float = 0.1,
        activation: str = "relu",
        dropout: float | Sequence[float] = 0.0,
    ) -> None:
        one_of("norm", norm, NORMS)
        one_of("norm_place", norm_place, ("before", "after"))
        one_of("activation", activation, ACTIVATIONS)
        momentum = scorer.fraction("norm_momentum", norm_momentum)
        dropouts = _each_layer(dropout, len(widths))
        super().__init__()
        sizes = [inputs, *widths]
        self.width = sizes[-1]
        self.norm_first = norm_place == "before"
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.norms = nn.ModuleList(make_norm(norm, width, momentum) for width in widths)
        self.activation = ACTIVATIONS[activation]()
        self.dropouts = nn.ModuleList(nn.Dropout(each) for each in dropouts)

    def forward(self, rows: Tensor, real: Tensor | None) -> Tensor:
        """Return rows `(rows, width)`. `real (rows,)` is True for a document; with None, all rows are documents."""
        for layer, norm, dropout in zip(self.layers, self.norms, self.dropouts, strict=True):
            rows = layer(rows)
            if self.norm_first:
                rows = self.activation(apply_norm(norm, rows, real))
            else:
                rows = apply_norm(norm, self.activation(rows), real)
            rows = dropout(rows)
        return rows


def add_noise(rows: Tensor, noise: float, training: bool) -> Tensor:
    """Add Gaussian noise with standard deviation `noise` to the input of a ranker, but only in training."""
    return rows + noise * torch.randn_like(rows) if training and noise else rows


def _each_layer(dropout: float | Sequence[float], layers: int) -> list[float]:
    if not isinstance(dropout, list | tuple):
        return [scorer.fraction("dropout", dropout)] * layers
    if len(dropout) != layers:
        bad_value("dropout", f"be one number, or one number for each of the {layers} hidden layers", list(dropout))
    return [scorer.fraction("each value of dropout", each) for each in dropout]


def _xavier_normal(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.xavier_normal_(module.weight)
        nn.init.zeros_(module.bias)
