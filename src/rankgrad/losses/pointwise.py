"""Pointwise losses: each score is compared with its label. The value of a list is the mean over its documents."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from rankgrad.errors import bad_value
from rankgrad.lists import as_lists, reduce, values_are_cheap
from rankgrad.losses import curvature
from rankgrad.losses.traits import DOCUMENT, Traits
from rankgrad.losses.unpadded import UnpaddedLists

_ROUNDING = 1e-6  # relative rounding error of labels that were computed, also in float32


def mse(
    scores: Any, labels: Any, *, mask: Any = None, offsets: Any = None, weights: Any = None, reduction: str = "mean"
) -> Tensor:
    r"""MSE: mean squared error between score and label.

    .. math:: \ell(s, y) = \frac{1}{n} \sum_i w_i (s_i - y_i)^2

    Args:
        scores, labels, mask, offsets, weights, reduction: the lists and the reduction; see `rankgrad.losses`.

    Example:
        >>> mse(torch.tensor([[2., 1., 3.]]), torch.tensor([[1., 0., 0.]]))
        tensor(3.6667)

    References:
        Cossock and Zhang, "Subset Ranking using Regression", COLT 2006.
    """
    lists = as_lists(scores, labels, mask=mask, offsets=offsets, weights=weights, allow_single=True)
    documents = UnpaddedLists.of(lists)
    squares = _mean(documents, (documents.scores - documents.labels) ** 2)
    return reduce(squares, documents.lengths > 0, reduction)


def rmse(
    scores: Any,
    labels: Any,
    *,
    levels: float,
    mask: Any = None,
    offsets: Any = None,
    weights: Any = None,
    reduction: str = "mean",
) -> Tensor:
    r"""RMSE: root mean squared error, after a sigmoid maps scores to the range of labels (NeuralNDCG paper, 5.4).

    .. math:: \ell(s, y) = \sqrt{\tfrac{1}{n} \sum_i w_i (L\,\sigma(s_i) - y_i)^2}

    The root is computed per list. If all errors are 0, the root has no derivative and the gradient is set to 0.

    Args:
        scores, labels, mask, offsets, weights, reduction: the lists and the reduction; see `rankgrad.losses`.
        levels: L, the end of the range from 0 to L to which the sigmoid maps scores; at least the highest label of the
            data, which is the number of grades - 1. The authors' code uses the number of grades.

    Example:
        >>> rmse(torch.tensor([[2., 1., 3.]]), torch.tensor([[1., 0., 0.]]), levels=2)
        tensor(1.4546)

    References:
        Pobrotyn and Bialobrzeski, "NeuralNDCG", SIGIR eCom 2021.
    """
    levels = _highest_possible(levels)
    lists = as_lists(scores, labels, mask=mask, offsets=offsets, weights=weights, lowest_label=0, allow_single=True)
    documents = UnpaddedLists.of(lists)
    _check_highest(documents.labels, levels)
    squares = _mean(documents, (levels * documents.scores.sigmoid() - documents.labels) ** 2)
    positive = squares > 0
    roots = torch.where(positive, torch.where(positive, squares, 1.0).sqrt(), 0.0 * squares)
    return reduce(roots, documents.lengths > 0, reduction)


def bce(
    scores: Any,
    labels: Any,
    *,
    threshold: float = 0.0,
    mask: Any = None,
    offsets: Any = None,
    weights: Any = None,
    reduction: str = "mean",
) -> Tensor:
    r"""BCE: binary cross entropy. The score is the log-odds that the document is relevant.

    .. math:: \ell(s, y) = -\frac{1}{n} \sum_i w_i \bigl(r_i \log \sigma(s_i) + (1 - r_i) \log \sigma(-s_i)\bigr),
              \quad r_i = [y_i > \text{threshold}]

    Args:
        scores, labels, mask, offsets, weights, reduction: the lists and the reduction; see `rankgrad.losses`.
        threshold: a document is relevant (r_i = 1) if its label is above this value. Labels are not probabilities:
            with threshold 0, a label of 0.3 is as relevant as a label of 1.

    Example:
        >>> bce(torch.tensor([[2., 1., 3.]]), torch.tensor([[1., 0., 0.]]))
        tensor(1.4963)

    References:
        Nogueira and Cho, "Passage Re-ranking with BERT", 2019 (the loss of most cross-encoders).
    """
    lists = as_lists(scores, labels, mask=mask, offsets=offsets, weights=weights, lowest_label=0, allow_single=True)
    documents = UnpaddedLists.of(lists)
    towards = torch.where(documents.labels > threshold, documents.scores, -documents.scores)
    return reduce(_mean(documents, -logsigmoid(towards)), documents.lengths > 0, reduction)


def _highest_possible(levels: Any) -> float:
    """Return the argument `levels` of `rmse` as a float; it may be any real number of Python, NumPy or PyTorch."""
    value = levels.item() if hasattr(levels, "item") and levels.ndim == 0 else levels
    try:
        highest = math.nan if isinstance(value, bool | str) else float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        highest = math.nan
    if not 1 <= highest < math.inf:
        bad_value("levels", "be a finite number of at least 1, the highest possible label", repr(levels))
    return highest


def _check_highest(labels: Tensor, levels: float) -> None:
    """Check the labels for `rmse`, if they are on a CPU. On a GPU, a check would wait for the device.

    A label may be above `levels` by a rounding error, such as 0.1 * 3 / 0.3 with 1 level.
    """
    if not values_are_cheap(labels) or not labels.numel():
        return
    if (highest := float(labels.detach().max())) > levels * (1 + _ROUNDING):
        bad_value("labels", f"be at most levels, {levels:g}", f"{highest:g}")


def _mean(documents: UnpaddedLists, values: Tensor) -> Tensor:
    """Return the value of a pointwise loss for each list, `(...)`: weighted sum / number of documents."""
    weighted = values if documents.weights is None else values * documents.weights
    return documents.total(weighted) / documents.lengths.clamp(min=1)


TRAITS = {
    mse: Traits(DOCUMENT, any_label=True, curvature=curvature.squares),
    rmse: Traits(DOCUMENT),
    bce: Traits(DOCUMENT, curvature=curvature.logistic),
}
