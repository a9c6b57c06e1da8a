"""The networks behind NeuralLoss, which estimate a metric from the scores and labels of a list.

Lists are `(lists, n)` with a mask; documents have no order, so neither network has positions.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, relu, scaled_dot_product_attention, silu

from rankgrad.atomic_files import read_tensors
from rankgrad.errors import bad_value, one_of
from rankgrad.losses.ideal_dcg import log2_discount, share_of_ideal
from rankgrad.relax.sigmoid_ranks import pairwise_ranks

FORMAT, VERSION = "rankgrad neural loss", 1
WEIGHTS = "weights.safetensors"
# Below it the standard deviation of a list's scores no longer sets their scale: tied scores have none.
_LEAST_SPREAD = 1e-3


class PublishedNetwork(nn.Module):
    """Scores in [0, 1] and grades to DCG with linear gain: two Transformer layers and a mean over the list."""

    def __init__(self, grades: int, width: int = 64, heads: int = 8, feed_forward: int = 64, layers: int = 2) -> None:
        super().__init__()
        self.config: dict[str, Any] = {"form": "published", "grades": grades, "width": width, "heads": heads}
        self.config |= {"feed_forward": feed_forward, "layers": layers}
        self.score, self.grade = nn.Linear(1, width), nn.Embedding(grades, width)
        self.layers = nn.ModuleList(_Layer(width, heads, feed_forward) for _ in range(layers))
        self.out = nn.Linear(width, 1)

    def forward(self, scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """DCG, `(lists,)`. Labels are rounded to grades, and those above the highest are taken for it."""
        grades = labels.round().long().clamp(0, self.config["grades"] - 1)
        rows = self.score(scores[..., None]) + self.grade(grades)  # (lists, n, width)
        # A list without documents attends to its padding, or its softmax would be NaN.
        keys = mask | ~mask.any(-1, keepdim=True)
        for layer in self.layers:
            rows = layer(rows, keys)
        total = torch.where(mask, self.out(rows)[..., 0], 0.0).sum(-1)
        return leaky_relu(total / mask.sum(-1).clamp(min=1), 1e-5)


class MendedNetwork(nn.Module):
    r"""Scores of any scale and labels to nDCG with exponential gain: a discount for each document, times its share.

    A document is known to the network by how many are ahead of it and behind it, counted with sigmoids at a few
    temperatures in units of the list's standard deviation, and by the length of the list. What it learns is to tell
    from these the discount of the exact rank: where the sharpest count is still too soft, how the counts change with
    the temperature says where they would lead.
    """

    def __init__(self, temperatures: Sequence[float] = (0.5, 0.15, 0.05), width: int = 32) -> None:
        super().__init__()
        self.config: dict[str, Any] = {"form": "mended", "temperatures": list(temperatures), "width": width}
        self.enter = nn.Linear(2 * len(temperatures) + 1, width)
        self.middle = nn.Linear(width, width)
        self.out = nn.Linear(width, 1)

    def forward(self, scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """nDCG, `(lists,)`."""
        return (share_of_ideal(labels, mask) * self.discounts(scores, mask)).sum(-1)

    def discounts(self, scores: Tensor, mask: Tensor) -> Tensor:
        """About `1 / log2(1 + rank)`, `(lists, n)`, between its values at rank n and at rank 1."""
        spread = standardise_scores(scores, mask)
        n = mask.sum(-1, keepdim=True).clamp(min=1).to(scores.dtype).expand_as(scores)
        ranks = [pairwise_ranks(spread, mask, 1.0 / temperature) for temperature in self.config["temperatures"]]
        seen = torch.stack([*ranks, *(n + 1.0 - rank for rank in ranks), n], -1).log()  # (lists, n, features)
        share = self.out(silu(self.middle(silu(self.enter(seen)))))[..., 0].sigmoid()
        least = 1.0 / log2_discount(n)
        return least + (1.0 - least) * share


class _Layer(nn.Module):
    """Attention and two linear maps, each added to its input and then normalised."""

    def __init__(self, width: int, heads: int, feed_forward: int) -> None:
        super().__init__()
        self.heads = heads
        self.project, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, feed_forward), nn.Linear(feed_forward, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, rows: Tensor, keys: Tensor) -> Tensor:
        lists, n, width = rows.shape
        split = self.project(rows).view(lists, n, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = scaled_dot_product_attention(split[0], split[1], split[2], attn_mask=keys[:, None, None, :])
        mixed = mixed.transpose(1, 2).reshape(lists, n, width)  # (lists, heads, n, d) before
        rows = self.first(rows + self.mix(mixed))
        return self.second(rows + self.down(relu(self.up(rows))))


def standardise_scores(scores: Tensor, mask: Tensor) -> Tensor:
    """Scores less their mean over their standard deviation, `(lists, n)`; 0 in the padding."""
    # Scores of 1e30 have no square in float32. The factor divides out again, so it needs no derivative.
    largest = scores.detach().abs().amax(-1, keepdim=True).clamp(min=1.0)
    scaled, count = scores / largest, mask.sum(-1, keepdim=True).clamp(min=1)
    centred = torch.where(mask, scaled - scaled.sum(-1, keepdim=True) / count, 0.0)
    least = (_LEAST_SPREAD / largest).square().clamp(min=1e-24)
    return centred / (centred.square().sum(-1, keepdim=True) / count + least).sqrt()


def make(form: str, grades: int = 5, **options: Any) -> PublishedNetwork | MendedNetwork:
    """A network of a form, with fresh weights; `grades` matter to the published one only."""
    one_of("form", form, ("mended", "published"))
    return MendedNetwork(**options) if form == "mended" else PublishedNetwork(grades, **options)


def read_network(path: Path) -> tuple[PublishedNetwork | MendedNetwork, dict[str, Any]]:
    """The network that `rankgrad pretrain-loss` wrote, and what is known about its training."""
    path = path / WEIGHTS if os.path.isdir(path) else path
    if not os.path.isfile(path):  # which, unlike Path.is_file, raises for no text
        bad_value("path", f"be a folder with {WEIGHTS}, or such a file", path)
    try:
        tensors, facts = read_tensors(path)
        if facts.get("format") != FORMAT or facts.get("version") != VERSION:
            told = f"{facts.get('format')!r}, version {facts.get('version')}"
            bad_value(str(path), f"say format {FORMAT!r}, version {VERSION}", told)
        network = make(**facts["network"])
        network.load_state_dict(tensors)
    except (KeyError, TypeError, RuntimeError) as error:
        first = str(error).strip().partition("\n")[0]
        raise ValueError(f"{path} must hold a network that fits together; got {first}") from error
    return network, facts
