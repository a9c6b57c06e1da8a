"""MarginMSE: compare the differences between scores within a list with the differences between labels."""

from typing import Any

import torch
from torch import Tensor

from rankgrad.lists import as_lists, reduce
from rankgrad.losses import curvature
from rankgrad.losses.traits import PAIR, Traits
from rankgrad.losses.unpadded import UnpaddedLists


def margin_mse(
    scores: Any, labels: Any, *, mask: Any = None, offsets: Any = None, weights: Any = None, reduction: str = "mean"
) -> Tensor:
    r"""MarginMSE: mean squared error between score differences and label differences, over all pairs of documents.

    .. math:: \ell(s, y) = \frac{2}{n (n - 1)} \sum_{i < j} \frac{w_i w_j}{\bar w}
              \bigl((s_i - s_j) - (y_i - y_j)\bigr)^2 = \frac{2}{n - 1} \sum_i w_i (d_i - \bar d)^2

    .. math:: d_i = s_i - y_i, \quad \bar d = \frac{\sum_i w_i d_i}{\sum_i w_i}

    Without weights, the value is the mean over all n (n - 1) / 2 pairs, including pairs with equal labels. With
    weights, the weight of a pair is the product of the weights of both documents, divided by the mean weight of the
    list. The second form of the formula needs O(n) time. The labels may be any numbers, for example the scores of a
    teacher. A constant that is added to all scores of a list has no effect. A list with one document has the value 0.

    Args:
        scores, labels, mask, offsets, weights, reduction: the lists and the reduction; see `rankgrad.losses`.

    Example:
        >>> margin_mse(torch.tensor([[2., 1., 3.]]), torch.tensor([[1., 0., 0.]]))
        tensor(2.6667)

    References:
        Hofstätter et al., "Improving Efficient Neural Ranking Models with Cross-Architecture Knowledge Distillation",
        2020.
    """
    documents = UnpaddedLists.of(as_lists(scores, labels, mask=mask, offsets=offsets, weights=weights))
    # Before the subtraction, because the difference of scores around 1e4 and labels around 1 has few correct digits.
    error = _without_mean(documents, documents.scores) - _without_mean(documents, documents.labels)
    weight = torch.ones_like(error) if documents.weights is None else documents.weights
    total = documents.total(weight)
    mean = documents.total(weight * error) / torch.where(total > 0, total, 1.0)
    squares = documents.total(weight * (error - documents.each(mean)) ** 2)
    signal = documents.lengths > 1
    return reduce(torch.where(signal, 2.0 * squares / (documents.lengths - 1).clamp(min=1), 0.0), signal, reduction)


def _without_mean(documents: UnpaddedLists, values: Tensor) -> Tensor:
    """Subtract the mean of each list from the values of the list, for `margin_mse`.

    The gradient treats the mean as a constant, because the loss does not depend on it.
    """
    mean = documents.total(values.detach()) / documents.lengths.clamp(min=1)
    return values - documents.each(mean)


TRAITS = {margin_mse: Traits(PAIR, any_label=True, curvature=curvature.margins)}
