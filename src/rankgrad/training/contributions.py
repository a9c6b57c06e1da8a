r"""Divide the difference of two scores of a neural ranker among the features, by integrated gradients.

At the start of the path, all documents of the list are equal to the mean of the two documents, so the two scores are
equal. Every document moves in a straight line to its own features. For each feature, the integral of the gradient of
:math:`s_a - s_b` along the path is the contribution. For a ranker that scores each document alone, this is the path
from one document to the other. For a list-aware ranker, the other documents also contribute. The path is in the space
of the preprocessed features. Each preprocessing step changes each column separately, so a contribution belongs to the
same column of the user.

The integral is refined where it is inexact: each part of the path has a known change of :math:`s_a - s_b` from its
start to its end, and the gradients must reproduce this change. So a kink of a ReLU needs a few bisections. A list-aware
ranker has too many kinks for this: when the maximum number of points is reached, the error of each part of the path is
divided among its contributions in proportion to their size. The sum of the absolute errors is returned.
"""

import copy
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

TOLERANCE = 5e-6  # sum of the absolute errors at which the refinement ends
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(3)
_FIRST = 16  # number of parts of the path at first
_ROUNDS = 50  # maximum number of refinements
_ROWS = {False: 2_000_000, True: 100_000}  # maximum number of rows to score, by `list_aware`
_NUMBERS = 4_000_000  # maximum number of gradient values in memory at a time


def integrated_gradients(
    ranker: nn.Module, rows: NDArray[np.float32], first: int, second: int
) -> tuple[NDArray[np.float64], float, float, float]:
    """Return the contributions of features and of other documents, the difference at the start, and the error.

    The difference at the start of the path is 0, unless the ranker knows the positions of the documents in its input.

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
    """Return the integral of `slopes (points, m)` from 0 to 1, `(m,)`, then `gaps(0)` and the sum of absolute errors.

    The sum of the integral is `gaps(1) - gaps(0)`. At most about `most` points are computed.
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
    """Return the share of each contribution in its part of the path, `(parts, m)`; equal shares if all are 0."""
    size = parts.abs()
    total = size.sum(1, keepdim=True)
    return torch.where(total > 0, size / total.clamp(min=torch.finfo(size.dtype).tiny), 1 / size.shape[1])


def mean_gradients(
    ranker: nn.Module, rows: NDArray[np.float32], offsets: NDArray[np.int64], seed: int = 0
) -> NDArray[np.float64]:
    """Return the mean absolute gradient of the scores with respect to the features, `(lists, f)`.

    The scores of a list are added with random signs, so that the effects of a document on several scores do not cancel.
    For a ranker that scores each document alone, the absolute gradient does not depend on the signs.

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
