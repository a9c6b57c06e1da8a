"""The networks of NeuralLoss, which estimate a metric from the scores and labels of a list.

Lists are `(lists, n)` with a mask. Documents have no order, so the networks have no position encoding.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, relu, scaled_dot_product_attention, silu

from rankgrad.atomic_files import read_tensors
from rankgrad.errors import bad_value, first_line, one_of
from rankgrad.losses.full_linear import FullLinear
from rankgrad.losses.ideal_dcg import share_of_ideal
from rankgrad.metrics.cumulative_gain import rank_discounts
from rankgrad.relax.sigmoid_ranks import pairwise_ranks

FORMAT, VERSION = "rankgrad neural loss", 1
WEIGHTS = "weights.safetensors"
# Smallest standard deviation by which scores are divided: tied scores have a standard deviation of 0.
_LEAST_SPREAD = 1e-3


class PublishedNetwork(nn.Module):
    """Transformer of NeuralLoss that estimates DCG with linear gain, from scores in [0, 1] and integer labels."""

    def __init__(self, grades: int, width: int = 64, heads: int = 8, feed_forward: int = 64, layers: int = 2) -> None:
        super().__init__()
        self.config: dict[str, Any] = {"form": "published", "grades": grades, "width": width, "heads": heads}
        self.config |= {"feed_forward": feed_forward, "layers": layers}
        self.score, self.grade = FullLinear(1, width), nn.Embedding(grades, width)
        self.layers = nn.ModuleList(_Layer(width, heads, feed_forward) for _ in range(layers))
        self.out = FullLinear(width, 1)

    def forward(self, scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """Return the estimated DCG of each list, `(lists,)`. Labels are rounded and clamped to the network's grades."""
        grades = labels.round().long().clamp(0, self.config["grades"] - 1)
        rows = self.score(scores[..., None]) + self.grade(grades)  # (lists, n, width)
        # A list without documents attends to its padding; otherwise its softmax would be NaN.
        keys = mask | ~mask.any(-1, keepdim=True)
        for layer in self.layers:
            rows = layer(rows, keys)
        total = torch.where(mask, self.out(rows)[..., 0], 0.0).sum(-1)
        return leaky_relu(total / mask.sum(-1).clamp(min=1), 1e-5)


class MendedNetwork(nn.Module):
    r"""Network of NeuralLoss that estimates discounts from scores of any scale, and computes nDCG with the discounts.

    The gain is exponential. For each document, the input is the number of documents with higher scores, the number of
    documents with lower scores, and the length of the list. Sigmoids at several temperatures compute both numbers. The
    unit of the temperatures is the standard deviation of the list's scores. From the numbers at several temperatures,
    the network can estimate the numbers at temperature 0, that is, the exact rank.
    """

    def __init__(self, temperatures: Sequence[float] = (0.5, 0.15, 0.05), width: int = 32) -> None:
        super().__init__()
        self.config: dict[str, Any] = {"form": "mended", "temperatures": list(temperatures), "width": width}
        self.enter = FullLinear(2 * len(temperatures) + 1, width)
        self.middle = FullLinear(width, width)
        self.out = FullLinear(width, 1)

    def forward(self, scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """Return nDCG with the estimated discounts, `(lists,)`."""
        return (share_of_ideal(labels, mask) * self.discounts(scores, mask)).sum(-1)

    def discounts(self, scores: Tensor, mask: Tensor) -> Tensor:
        """Return an estimate of `1 / log2(1 + rank)` for each document, `(lists, n)`, in the range of ranks 1 to n."""
        spread = standardise_scores(scores, mask)
        n = mask.sum(-1, keepdim=True).clamp(min=1).to(scores.dtype).expand_as(scores)
        ranks = [pairwise_ranks(spread, mask, 1.0 / temperature) for temperature in self.config["temperatures"]]
        seen = torch.stack([*ranks, *(n + 1.0 - rank for rank in ranks), n], -1).log()  # (lists, n, features)
        share = self.out(silu(self.middle(silu(self.enter(seen)))))[..., 0].sigmoid()
        least = 1.0 / rank_discounts(n)
        return least + (1.0 - least) * share


class _Layer(nn.Module):
    """Transformer layer of `PublishedNetwork`: attention, then two linear maps.

    The output of each of the two parts is added to the input of the part, and the sum is normalised.
    """

    def __init__(self, width: int, heads: int, feed_forward: int) -> None:
        super().__init__()
        self.heads = heads
        self.project, self.mix = FullLinear(width, 3 * width), FullLinear(width, width)
        self.up, self.down = FullLinear(width, feed_forward), FullLinear(feed_forward, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, rows: Tensor, keys: Tensor) -> Tensor:
        lists, n, width = rows.shape
        split = self.project(rows).view(lists, n, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = scaled_dot_product_attention(split[0], split[1], split[2], attn_mask=keys[:, None, None, :])
        mixed = mixed.transpose(1, 2).reshape(lists, n, width)  # from (lists, heads, n, d)
        rows = self.first(rows + self.mix(mixed))
        return self.second(rows + self.down(relu(self.up(rows))))


def standardise_scores(scores: Tensor, mask: Tensor) -> Tensor:
    """Standardise scores for `MendedNetwork`, `(lists, n)`: each list gets mean 0 and standard deviation 1."""
    # The square of 1e30 overflows float32, so scores are divided by `largest`, which cancels and needs no derivative.
    largest = scores.detach().abs().amax(-1, keepdim=True).clamp(min=1.0)
    scaled, count = scores / largest, mask.sum(-1, keepdim=True).clamp(min=1)
    centred = torch.where(mask, scaled - scaled.sum(-1, keepdim=True) / count, 0.0)
    least = (_LEAST_SPREAD / largest).square().clamp(min=1e-24)
    return centred / (centred.square().sum(-1, keepdim=True) / count + least).sqrt()


def make_network(form: str, grades: int = 5, **options: Any) -> PublishedNetwork | MendedNetwork:
    """Make a network of NeuralLoss with new weights; only the published form uses `grades`."""
    one_of("form", form, ("mended", "published"))
    return MendedNetwork(**options) if form == "mended" else PublishedNetwork(grades, **options)


def read_network(path: Path) -> tuple[PublishedNetwork | MendedNetwork, dict[str, Any]]:
    """Read a network of NeuralLoss and the facts about its training, both written by `rankgrad pretrain-loss`."""
    path = path / WEIGHTS if os.path.isdir(path) else path
    if not os.path.isfile(path):  # unlike Path.is_file, this function never raises an error
        bad_value("path", f"be a folder with the file {WEIGHTS}, or the path of such a file", path)
    try:
        tensors, facts = read_tensors(path)
        if facts.get("format") != FORMAT or facts.get("version") != VERSION:
            got = f"format {facts.get('format')!r}, version {facts.get('version')}"
            bad_value(str(path), f"have format {FORMAT!r}, version {VERSION}", got)
        network = make_network(**facts["network"])
        network.load_state_dict(tensors)
    except (KeyError, TypeError, RuntimeError) as error:
        must = "contain a network and the weights of this network"
        bad_value(str(path), must, f"the error {first_line(error)}")
    return network, facts
