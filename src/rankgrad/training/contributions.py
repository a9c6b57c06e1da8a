r"""Compute the contribution of each feature to the difference between two scores of a neural ranker.

The method is integrated gradients. At the start of a path, all documents of the list have the same features: the mean
of the two documents. So the two scores are equal there. Along the path, every document moves in a straight line to its
own features. The contribution of a feature is the integral of the gradient of :math:`s_a - s_b` along the path. If a
ranker scores each document alone, this is equivalent to the path from one document to the other. For a list-aware
ranker, the other documents also contribute. The path is in the space of the preprocessed features. A preprocessing step
computes each column from only one column, so each contribution belongs to one raw feature.

The path is divided into parts. For each part, the change of :math:`s_a - s_b` is known, and the integral of the
gradient must equal this change. If the error of a part is large, the part is divided in two. So a kink of a ReLU needs
a few bisections. A list-aware ranker may have so many kinks that the maximum number of points is reached. The remaining
error of each part is divided among the contributions of this part, in proportion to their size. The result contains the
sum of the absolute errors.
"""

import copy
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

TOLERANCE = 5e-6  # the refinement ends when the sum of the absolute errors is at most this number
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(3)
_FIRST = 16  # initial number of parts of the path
_ROUNDS = 50  # maximum number of refinements
_ROWS = {False: 2_000_000, True: 100_000}  # maximum number of rows to score, by `list_aware`
_NUMBERS = 4_000_000  # maximum number of gradient values in memory at a time


def integrated_gradients(
    ranker: nn.Module, rows: NDArray[np.float32], first: int, second: int
) -> tuple[NDArray[np.float64], float, float, float]:
    """Return the contributions of features, the contribution of other documents, the initial difference and the error.

    The initial difference is the difference of the two scores at the start of the path. It is 0, unless the ranker uses
    the positions of the documents in its input. The error is the sum of the absolute errors.

    Args:
        ranker: network in evaluation mode.
        rows: preprocessed features of the documents of one list, `(n, f)`.
        first, second: positions of the two documents, from 0.
    """
    network = copy.deepcopy(ranker).double().requires_grad_(False)
    device = next(network.parameters()).device
    x = torch.from_numpy(np.asarray(rows, dtype=np.float64)).to(device)
    if not ranker.list_aware:
        x, first, second = x[[first, second]], 0, 1  # no other document has an effect
    start = (x[first] + x[second]) / 2
    move = x - start  # (n, f)

    def gap(path: Tensor) -> Tensor:
        lists = torch.arange(len(path) + 1, device=device) * len(x)
        scores = network(path.flatten(0, 1), lists, width=len(x)).view(-1, len(x))
        return scores[:, first] - scores[:, second]

    def gaps(points: Tensor) -> Tensor:
        return torch.cat([gap(start + part[:, None, None] * move) for part in points.split(size)])

    def slopes(points: Tensor) -> Tensor:
        found = []
        for part in points.split(size):
            path = (start + part[:, None, None] * move).requires_grad_()  # (points, n, f)
            effect = torch.autograd.grad(gap(path).sum(), path)[0] * move
            pair = effect[:, first] + effect[:, second]  # (points, f)
            found.append(torch.cat([pair, (effect.sum((1, 2)) - pair.sum(1))[:, None]], dim=1))
        return torch.cat(found)

    size = max(1, _NUMBERS // max(1, x.numel()))
    total, begin, error = _integral(gaps, slopes, device, _ROWS[bool(ranker.list_aware)] // len(x))
    return total[:-1].cpu().numpy(), float(total[-1]), begin, error


def _integral(
    gaps: Callable[[Tensor], Tensor], slopes: Callable[[Tensor], Tensor], device: torch.device, most: int
) -> tuple[Tensor, float, float]:
    """Return the integrals of `slopes` from 0 to 1, `(m,)`, the value of `gaps(0)`, and the sum of absolute errors.

    The function `slopes` returns derivatives `(points, m)`. The sum of the m integrals is `gaps(1) - gaps(0)`. The
    derivatives are computed at about `most` points or fewer.
    """
    nodes, weights = torch.as_tensor(_NODES, device=device), torch.as_tensor(_WEIGHTS, device=device) / 2
    at = torch.linspace(0, 1, _FIRST + 1, dtype=torch.float64, device=device)
    known = gaps(at)
    left, right, low, high = at[:-1], at[1:], known[:-1], known[1:]
    total, wrong, points = torch.zeros((), dtype=torch.float64, device=device), 0.0, 0
    for _ in range(_ROUNDS):
        inside = (left + right)[:, None] / 2 + (right - left)[:, None] / 2 * nodes  # (parts, 3)
        found = slopes(inside.flatten()).view(*inside.shape, -1)
        parts = torch.einsum("pkm,k->pm", found, weights) * (right - left)[:, None]
        error = parts.sum(1) - (high - low)
        parts = parts - error[:, None] * _shares(parts)
        points += inside.numel()
        if float(error.abs().sum()) + wrong <= TOLERANCE or points + 8 * len(left) > most:
            break
        # Parts of the path that are exact are added to `total`. The others are divided in two.
        done = error.abs() <= TOLERANCE / 4 / max(len(left), 1_000)
        total, wrong = total + parts[done].sum(0), wrong + float(error[done].abs().sum())
        left, right, low, high = (each[~done] for each in (left, right, low, high))
        middle = (left + right) / 2
        value = gaps(middle)
        left, right = torch.cat([left, middle]), torch.cat([middle, right])
        low, high = torch.cat([low, value]), torch.cat([value, high])
    return total + parts.sum(0), float(known[0]), wrong + float(error.abs().sum())


def _shares(parts: Tensor) -> Tensor:
    """Return the absolute contributions, divided by the sum over their part of the path, `(parts, m)`.

    If all contributions of a part are 0, the shares are equal.
    """
    size = parts.abs()
    total = size.sum(1, keepdim=True)
    return torch.where(total > 0, size / total.clamp(min=torch.finfo(size.dtype).tiny), 1 / size.shape[1])


def mean_gradients(
    ranker: nn.Module, rows: NDArray[np.float32], offsets: NDArray[np.int64], seed: int = 0
) -> NDArray[np.float64]:
    """Return the mean absolute gradient of the scores with respect to the features, `(lists, f)`.

    Each score is multiplied by a random sign, and then the scores are added. So the effects of a document on several
    scores do not cancel. For a ranker that scores each document alone, the absolute gradient does not depend on the
    signs.

    Args:
        ranker: network in evaluation mode.
        rows: preprocessed features, `(documents, f)`.
        offsets: offsets of the lists, `(lists + 1,)`.
        seed: random seed of the signs.
    """
    device = next(ranker.parameters()).device
    x = torch.from_numpy(np.asarray(rows, dtype=np.float32)).to(device).requires_grad_()
    signs = torch.from_numpy(np.random.default_rng(seed).choice(np.array([-1, 1], dtype=np.float32), len(rows))).to(
        device
    )
    width = int(np.diff(offsets).max(initial=0))
    scores = ranker(x, torch.from_numpy(offsets).to(device), width=width)
    size = torch.autograd.grad((scores * signs).sum(), x)[0].abs().double().cpu().numpy()
    full = np.diff(offsets) > 0
    means = np.zeros((len(full), size.shape[1]))
    means[full] = np.add.reduceat(size, offsets[:-1][full], axis=0) / np.diff(offsets)[full, None]
    return means
