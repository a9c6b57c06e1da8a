"""ApproxNDCG and similar losses: negative metrics, computed with sigmoid ranks (Qin, Liu and Li 2010)."""

import math
from typing import Any

import torch
from torch import Tensor

from rankgrad.kernels.options import ApproxOptions
from rankgrad.lists import as_lists
from rankgrad.losses.fused import fused
from rankgrad.losses.metric_formula import MetricFormula, check_cutoff
from rankgrad.losses.relaxed import relaxed_loss, soft_cutoff
from rankgrad.losses.traits import Traits
from rankgrad.relax import sigmoid_ranks


def approx_ndcg(
    scores: Any,
    labels: Any,
    *,
    k: int | None = None,
    temperature: float = 1.0,
    beta: float = 10.0,
    mask: Any = None,
    offsets: Any = None,
    reduction: str = "mean",
) -> Tensor:
    r"""ApproxNDCG: negative NDCG with soft ranks, which are sums of sigmoids (LambdaLoss@K paper, Eq. 8 without j = i).

    .. math:: \ell(s, y) = -\frac{1}{\mathrm{IDCG}@k} \sum_i \frac{2^{y_i} - 1}{\log_2(1 + \pi_i)}\,
              \sigma\bigl(\beta (k + \tfrac12 - \pi_i)\bigr), \quad
              \pi_i = 1 + \sum_{j \ne i} \sigma\bigl((s_j - s_i) / \tau\bigr)

    Args:
        scores, labels, mask, offsets, reduction: the lists and the reduction; see `rankgrad.losses`.
        k: soft cutoff, a sigmoid with sharpness `beta`; with None, all ranks count.
        temperature: tau; with a smaller value, the loss is closer to negative NDCG, but fewer pairs have a gradient.
        beta: sharpness of the soft cutoff; not used without `k`.

    Example:
        >>> approx_ndcg(torch.tensor([[2., 1., 3.]]), torch.tensor([[1., 0., 0.]]))
        tensor(-0.6309)

    References:
        Qin, Liu and Li, "A General Approximation Framework for Direct Optimization of IR Measures", 2010.
    """
    check_cutoff(k)
    lists = as_lists(scores, labels, mask=mask, offsets=offsets, lowest_label=0)
    operator = sigmoid_ranks(temperature)
    if (loss := fused("learndcg", lists, reduction, ApproxOptions(k or 0, beta), _params(temperature))) is not None:
        return loss
    return relaxed_loss(MetricFormula("nDCG", k), operator, lists, reduction, beta)


def approx_precision(
    scores: Any,
    labels: Any,
    *,
    k: int = 10,
    temperature: float = 1.0,
    beta: float = 10.0,
    threshold: float = 0.0,
    mask: Any = None,
    offsets: Any = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Approximate precision: negative precision at k, computed with sigmoid ranks and a sigmoid cutoff.

    .. math:: \ell(s, y) = -\frac{1}{k} \sum_{i:\, y_i > t} \sigma\bigl(\beta (k + \tfrac12 - \pi_i)\bigr), \quad
              \pi_i = 1 + \sum_{j \ne i} \sigma\bigl((s_j - s_i) / \tau\bigr)

    Args:
        scores, labels, mask, offsets, reduction: the lists and the reduction; see `rankgrad.losses`.
        k: soft cutoff, a sigmoid with sharpness `beta`; k is also the divisor.
        temperature: tau; with a smaller value, ranks are closer to the exact ranks, but fewer pairs have a gradient.
        beta: sharpness of the soft cutoff.
        threshold: t; a document is relevant if its label is above this value.

    Example:
        >>> approx_precision(torch.tensor([[2., 1., 3.]]), torch.tensor([[1., 0., 0.]]), k=2)
        tensor(-0.4967)

    References:
        Qin, Liu and Li, "A General Approximation Framework for Direct Optimization of IR Measures", 2010.
    """
    check_cutoff(k)
    lists = as_lists(scores, labels, mask=mask, offsets=offsets, lowest_label=0)
    operator = sigmoid_ranks(temperature)
    options = ApproxOptions(k, beta, threshold)
    if (loss := fused("approx_precision", lists, reduction, options, _params(temperature))) is not None:
        return loss
    return relaxed_loss(MetricFormula("P", k, threshold=threshold), operator, lists, reduction, beta)


def approx_mrr(
    scores: Any,
    labels: Any,
    *,
    k: int | None = None,
    temperature: float = 1.0,
    beta: float = 10.0,
    threshold: float = 0.0,
    mask: Any = None,
    offsets: Any = None,
    reduction: str = "mean",
) -> Tensor:
    r"""ApproxMRR: minus the mean of 1 / rank over the relevant documents, weighted by a softmax of their scores.

    .. math:: \ell(s, y) = -\sum_{i:\, y_i > t} \frac{e^{s_i / \tau}}{\sum_{j:\, y_j > t} e^{s_j / \tau}}
              \frac{\sigma(\beta (k + \frac12 - \pi_i))}{\pi_i}

    pi_i is the soft rank of `approx_ndcg`. The relevant document with the highest score has the smallest rank. As the
    temperature decreases, the weight of this document tends to 1, and the soft ranks tend to the exact ranks at the
    same rate.

    Args:
        scores, labels, mask, offsets, reduction: the lists and the reduction; see `rankgrad.losses`.
        k: soft cutoff, a sigmoid with sharpness `beta`; with None, all ranks count.
        temperature: tau; with a smaller value, ranks are closer to the exact ranks, but fewer pairs have a gradient.
        beta: sharpness of the soft cutoff; not used without `k`.
        threshold: t; a document is relevant if its label is above this value.

    Example:
        >>> approx_mrr(torch.tensor([[2., 1., 3.]]), torch.tensor([[1., 0., 0.]]))
        tensor(-0.5000)

    References:
        Qin, Liu and Li, "A General Approximation Framework for Direct Optimization of IR Measures", 2010.
    """
    check_cutoff(k)
    lists = as_lists(scores, labels, mask=mask, offsets=offsets, lowest_label=0)
    metric, operator = MetricFormula("RR", k, threshold=threshold), sigmoid_ranks(temperature)
    options = ApproxOptions(k or 0, beta, threshold)
    if (loss := fused("approx_mrr", lists, reduction, options, _params(temperature))) is not None:
        return loss
    relevant, ranks = metric.relevant(lists), operator._ranks(lists.scores, lists.mask)
    logits = torch.where(relevant, lists.scores / temperature, torch.finfo(ranks.dtype).min)
    weights = torch.where(relevant, logits.softmax(-1), 0.0)
    return metric.loss(lists, (weights * soft_cutoff(ranks, k, beta) / ranks).sum(-1), reduction)


def approx_ap(
    scores: Any,
    labels: Any,
    *,
    k: int | None = None,
    temperature: float = 1.0,
    beta: float = 10.0,
    threshold: float = 0.0,
    mask: Any = None,
    offsets: Any = None,
    reduction: str = "mean",
) -> Tensor:
    r"""ApproxAP: negative average precision. Sigmoids count the documents that are ranked before a relevant document.

    .. math:: \ell(s, y) = -\frac{1}{R} \sum_{i:\, y_i > t} \frac{1}{\pi_i} \Bigl(1 + \sum_{j \ne i:\, y_j > t}
              \sigma\bigl((s_j - s_i) / \tau\bigr)\Bigr)\, \sigma\bigl(\beta (k + \tfrac12 - \pi_i)\bigr)

    pi_i is the soft rank of `approx_ndcg`.

    Args:
        scores, labels, mask, offsets, reduction: the lists and the reduction; see `rankgrad.losses`.
        k: soft cutoff, a sigmoid with sharpness `beta`; with None, all ranks count.
        temperature: tau; with a smaller value, ranks are closer to the exact ranks, but fewer pairs have a gradient.
        beta: sharpness of the soft cutoff; not used without `k`.
        threshold: t; a document is relevant if its label is above this value.

    Example:
        >>> approx_ap(torch.tensor([[2., 1., 3.]]), torch.tensor([[1., 0., 1.]]))
        tensor(-0.8898)

    References:
        Qin, Liu and Li, "A General Approximation Framework for Direct Optimization of IR Measures", 2010.
    """
    check_cutoff(k)
    lists = as_lists(scores, labels, mask=mask, offsets=offsets, lowest_label=0)
    metric, operator = MetricFormula("AP", k, threshold=threshold), sigmoid_ranks(temperature)
    options = ApproxOptions(k or 0, beta, threshold)
    if (loss := fused("approx_ap", lists, reduction, options, _params(temperature))) is not None:
        return loss
    relevant = metric.relevant(lists)
    ranks = operator._ranks(lists.scores, lists.mask)
    above = operator._ranks(lists.scores, relevant)  # ranks among the relevant documents only
    precision = torch.where(relevant, above / ranks * soft_cutoff(ranks, k, beta), 0.0)
    return metric.loss(lists, precision.sum(-1) / relevant.sum(-1).clamp(min=1), reduction)


def _params(temperature: float) -> tuple[float, float, float]:
    """Return the parameters of the kernel of an Approx loss, which is also LearnDCG's kernel.

    The parameters are log(2) (gain base 2), 0 (published discount) and 1 / tau (alpha).
    """
    return math.log(2.0), 0.0, 1.0 / temperature


TRAITS = {approx_ndcg: Traits(gain=True)}
