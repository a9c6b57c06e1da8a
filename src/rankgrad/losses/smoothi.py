"""The losses of the SmoothI paper: negative NDCG, precision and AP, computed from smooth rank indicators."""

from typing import Any

import torch
from torch import Tensor

from rankgrad.errors import bad_type
from rankgrad.kernels.options import SmoothIOptions
from rankgrad.lists import Lists, as_lists
from rankgrad.losses.fused import fused
from rankgrad.losses.ideal_dcg import gains
from rankgrad.losses.metric_formula import MetricFormula, check_cutoff
from rankgrad.losses.relaxed import on_permutation
from rankgrad.losses.traits import Traits
from rankgrad.relax import smoothi
from rankgrad.relax.relaxation import rank_numbers
from rankgrad.relax.smoothi import shifted


def smooth_ndcg(
    scores: Any,
    labels: Any,
    *,
    k: int | None = 10,
    alpha: float = 1.0,
    delta: float = 0.1,
    stop_gradient: bool = True,
    mask: Any = None,
    offsets: Any = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Smooth NDCG: negative NDCG@k, computed from the expected label at each rank.

    .. math:: \ell(s, y) = -\frac{1}{\mathrm{IDCG}@k} \sum_{r=1}^k \frac{2^{\sum_j y_j I^r_j} - 1}{\log_2(1 + r)}

    As in the paper, the loss uses the gain of the expected label. `relaxed(nDCG, smoothi())` uses the expected gain.
    Both losses tend to negative NDCG@k for large alpha.

    Args:
        scores, labels, mask, offsets, reduction: the lists and the reduction; see `rankgrad.losses`.
        k: cutoff; the cost is k softmaxes over the list. With None, all ranks count.
        alpha, delta, stop_gradient: options of `rankgrad.relax.smoothi`, which subtracts the smallest score of each
            list. alpha = 1 is very soft, so tune alpha.

    Example:
        >>> smooth_ndcg(torch.tensor([[2., 1., 3.]]), torch.tensor([[1., 0., 0.]]))
        tensor(-0.5489)

    References:
        Thonet et al., "Listwise Learning to Rank Based on Approximate Rank Indicators", AAAI 2022.
    """
    check_cutoff(k)
    lists = as_lists(scores, labels, mask=mask, offsets=offsets, lowest_label=0)
    operator = smoothi(alpha, delta, stop_gradient)
    if (loss := _fused("smooth_ndcg", lists, reduction, operator, k)) is not None:
        return loss
    metric = MetricFormula("nDCG", k)
    expected = (_indicators(lists, k, operator) * lists.labels[..., None, :]).sum(-1)
    if expected.shape[-1] == 0:
        return metric.loss(lists, lists.scores.sum(-1), reduction)
    # The gains are divided by 2^max(y), like the gains in the ideal DCG.
    top = lists.labels.amax(-1, keepdim=True)
    gain = torch.exp2(expected - top) - torch.exp2(-top)  # (..., k)
    ideal = metric.ideal(gains(lists.labels, lists.mask))
    return metric.loss(lists, (gain / metric.discounted(rank_numbers(expected))).sum(-1) / ideal, reduction)


def smooth_precision(
    scores: Any,
    labels: Any,
    *,
    k: int = 10,
    alpha: float = 1.0,
    delta: float = 0.1,
    stop_gradient: bool = True,
    threshold: float = 0.0,
    mask: Any = None,
    offsets: Any = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Smooth precision: negative precision at k, computed with smooth rank indicators.

    .. math:: \ell(s, y) = -\frac{1}{k} \sum_{r=1}^k \sum_{j:\, y_j > t} I^r_j

    Args:
        scores, labels, mask, offsets, reduction: the lists and the reduction; see `rankgrad.losses`.
        k: cutoff and divisor; the cost is k softmaxes over the list.
        alpha, delta, stop_gradient: options of `rankgrad.relax.smoothi`, which subtracts the smallest score of each
            list. alpha = 1 is very soft, so tune alpha.
        threshold: t; a document is relevant if its label is above this value.

    Example:
        >>> smooth_precision(torch.tensor([[2., 1., 3.]]), torch.tensor([[1., 0., 0.]]), k=1)
        tensor(-0.2447)

    References:
        Thonet et al., "Listwise Learning to Rank Based on Approximate Rank Indicators", AAAI 2022.
    """
    check_cutoff(k)
    if k is None:
        bad_type("k", "be an integer", None)
    lists = as_lists(scores, labels, mask=mask, offsets=offsets, lowest_label=0)
    operator = smoothi(alpha, delta, stop_gradient)
    if (loss := _fused("smooth_precision", lists, reduction, operator, k, threshold)) is not None:
        return loss
    metric = MetricFormula("P", k, threshold=threshold)
    value = on_permutation(metric, lists, _indicators(lists, k, operator))
    return metric.loss(lists, value, reduction)


def smooth_ap(
    scores: Any,
    labels: Any,
    *,
    k: int | None = None,
    alpha: float = 1.0,
    delta: float = 0.1,
    stop_gradient: bool = True,
    threshold: float = 0.0,
    mask: Any = None,
    offsets: Any = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Smooth AP: negative average precision, computed with smooth rank indicators. Each rank needs one softmax.

    .. math:: \ell(s, y) = -\frac{1}{R} \sum_{r=1}^n \Bigl(\sum_{j:\, y_j > t} I^r_j\Bigr)
              \frac{1}{r} \sum_{l=1}^r \sum_{j:\, y_j > t} I^l_j

    Args:
        scores, labels, mask, offsets, reduction: the lists and the reduction; see `rankgrad.losses`.
        k: cutoff; the cost is k softmaxes over the list. With None, all ranks count.
        alpha, delta, stop_gradient: options of `rankgrad.relax.smoothi`, which subtracts the smallest score of each
            list. alpha = 1 is very soft, so tune alpha.
        threshold: t; a document is relevant if its label is above this value.

    Example:
        >>> smooth_ap(torch.tensor([[2., 1., 3.]]), torch.tensor([[1., 0., 0.]]))
        tensor(-0.3323)

    References:
        Thonet et al., "Listwise Learning to Rank Based on Approximate Rank Indicators", AAAI 2022.
    """
    check_cutoff(k)
    lists = as_lists(scores, labels, mask=mask, offsets=offsets, lowest_label=0)
    operator = smoothi(alpha, delta, stop_gradient)
    if (loss := _fused("smooth_ap", lists, reduction, operator, k, threshold)) is not None:
        return loss
    metric = MetricFormula("AP", k, threshold=threshold)
    value = on_permutation(metric, lists, _indicators(lists, k, operator))
    return metric.loss(lists, value, reduction)


def _fused(
    name: str, lists: Lists, reduction: str, operator: smoothi, k: int | None, threshold: float = 0.0
) -> Tensor | None:
    """Return the loss from the SmoothI kernel, or None if the plain loss must be used, as for `stop_gradient=False`."""
    options = SmoothIOptions(k or 0, operator.alpha, operator.delta, threshold)
    return fused(name, lists, reduction, options, lacking=None if operator.stop_gradient else "stop_gradient=False")


def _indicators(lists: Lists, k: int | None, operator: smoothi) -> Tensor:
    """Return SmoothI's indicators of the first k ranks, `(..., min(k, n), n)`."""
    n = lists.scores.shape[-1]
    return operator.indicators(shifted(lists.scores, lists.mask), lists.mask, n if k is None else min(k, n))


TRAITS = {smooth_ndcg: Traits(gain=True)}
