"""ListCE: a listwise cross entropy that has the same population optimum as `bce`."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, logsigmoid

from rankgrad.lists import as_lists
from rankgrad.losses.likelihood import lowest


def listce(
    scores: Any,
    labels: Any,
    *,
    threshold: float = 0.0,
    mask: Any = None,
    offsets: Any = None,
    weights: Any = None,
    reduction: str = "mean",
) -> Tensor:
    r"""ListCE: cross entropy with normalised sigmoids instead of a softmax. Use it in a weighted sum with `bce`.

    .. math:: \ell(s, y) = -\sum_{i:\, y_i > t} w_i \log \frac{\sigma(s_i)}{\sum_j \sigma(s_j)}

    The loss is lowest if the sigmoids are proportional to the probabilities of relevance; `bce` is lowest if the
    sigmoids are equal to these probabilities. So both losses have the same population optimum (Bai et al. 2023), but
    our short study does not show that their sum has a lower calibration error (ECE) than `bce`. `softmax` and `bce`
    have different optima. The targets are not divided by their sum, because this division would move the minimum.

    Args:
        scores, labels, mask, offsets, weights, reduction: the lists and the reduction; see `rankgrad.losses`.
        threshold: t; a document is relevant if its label is above this value.

    Example:
        >>> listce(torch.tensor([[2., 1., 3.]]), torch.tensor([[1., 0., 0.]]))
        tensor(1.0687)

    References:
        Bai et al., "Regression Compatible Listwise Objectives for Calibrated Ranking with Binary Relevance", CIKM 2023.
    """
    lists = as_lists(scores, labels, mask=mask, offsets=offsets, weights=weights, lowest_label=0)
    relevant = (lists.labels > threshold) & lists.mask
    logits = logsigmoid(lists.scores)
    shares = log_softmax(torch.where(lists.mask, logits, lowest(logits)), -1)
    terms = torch.where(relevant, -shares, 0.0)
    values = (terms if lists.weights is None else lists.weights * terms).sum(-1)
    return lists.reduce(values, reduction, relevant.any(-1))
