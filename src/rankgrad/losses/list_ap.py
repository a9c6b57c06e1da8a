"""ListAP: average precision on a soft histogram of the scores."""

from typing import Any

import torch
from torch import Tensor

from rankgrad.errors import bad_value
from rankgrad.lists import as_lists
from rankgrad.losses.metric_formula import MetricFormula
from rankgrad.relax.optimal_transport import unit_interval


def list_ap(
    scores: Any,
    labels: Any,
    *,
    bins: int = 20,
    threshold: float = 0.0,
    mask: Any = None,
    offsets: Any = None,
    reduction: str = "mean",
) -> Tensor:
    r"""ListAP: negative average precision on a histogram of scores. Each document is divided between two score levels.

    .. math:: \ell(s, y) = -\frac{1}{R} \sum_b h^+_b \, \frac{\sum_{c \le b} h^+_c}{\sum_{c \le b} h_c}, \quad
              h_b = \sum_i \max\bigl(0, 1 - |x_i - b|\bigr)

    .. math:: x_i = 1 + (B - 1) \frac{\max_j s_j - s_i}{\max_j s_j - \min_j s_j}, \quad b = 1, \dots, B

    B is the option `bins`. x_i is the score of document i, scaled linearly within its list: 1 is the best score, B is
    the worst. If all scores are equal, x_i is B. The two levels of a document are the integers next to x_i. h counts
    all documents, h+ counts only the relevant documents. Labels are not scaled: they are only compared with
    `threshold`.

    Args:
        scores, labels, mask, offsets, reduction: the lists and the reduction; see `rankgrad.losses`.
        bins: B, the number of score levels, at least 2; the cost is proportional to n * bins.
        threshold: a document is relevant if its label is above this value.

    Example:
        >>> list_ap(torch.tensor([[2., 1., 3.]]), torch.tensor([[1., 0., 0.]]))
        tensor(-0.4167)

    References:
        Revaud et al., "Learning with Average Precision: Training Image Retrieval with a Listwise Loss", ICCV 2019.
    """
    if bins < 2:
        bad_value("bins", "be at least 2", bins)
    lists = as_lists(scores, labels, mask=mask, offsets=offsets, lowest_label=0)
    metric = MetricFormula("AP", threshold=threshold)
    relevant = metric.relevant(lists)
    level = torch.arange(bins, dtype=lists.scores.dtype, device=lists.scores.device)
    place = (1.0 - unit_interval(lists.scores, lists.mask)) * (bins - 1)  # (..., n), 0 (best) to bins - 1 (worst)
    share = (1.0 - (place[..., None, :] - level[:, None]).abs()).clamp(min=0.0)  # (..., bins, n)
    every = torch.where(lists.mask[..., None, :], share, 0.0).sum(-1)  # (..., bins)
    hits = torch.where(relevant[..., None, :], share, 0.0).sum(-1)
    seen = every.cumsum(-1)
    precision = hits.cumsum(-1) / torch.where(seen > 0, seen, 1.0)
    return metric.loss(lists, (precision * hits).sum(-1) / relevant.sum(-1).clamp(min=1), reduction)
