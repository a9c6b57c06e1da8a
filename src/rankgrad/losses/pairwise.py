"""Pairwise losses: RankNet, hinge, and the lambda losses, whose pair weights depend on a metric."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, relu

from rankgrad.errors import bad_value, one_of
from rankgrad.kernels.options import Gains, Pairs, PairwiseOptions, Scheme, Truncation
from rankgrad.lists import Lists, as_lists
from rankgrad.losses import swap_deltas
from rankgrad.losses.fused import fused
from rankgrad.losses.metric_formula import MetricFormula, check_cutoff, formula, has_order
from rankgrad.losses.traits import ORDER, Traits
from rankgrad.metrics import Metric, nDCG
from rankgrad.metrics.sort_order import ranks

SCHEMES = tuple(scheme.name.lower() for scheme in Scheme)


def ranknet(
    scores: Any,
    labels: Any,
    *,
    k: int | None = None,
    pairs: str = "any",
    sigma: float = 1.0,
    mask: Any = None,
    offsets: Any = None,
    weights: Any = None,
    reduction: str = "mean",
) -> Tensor:
    r"""RankNet: logistic loss over the pairs whose labels differ (LambdaLoss@K paper, Eq. 6).

    .. math:: \ell(s, y) = \sum_{i,j:\, y_i > y_j} w_i \log\bigl(1 + e^{-\sigma (s_i - s_j)}\bigr)

    Args:
        scores, labels, mask, offsets, weights, reduction: the lists and the reduction; see `rankgrad.losses`.
        k: cutoff; `pairs` defines the pairs that count with this cutoff. With None, all pairs count.
        pairs: pairs that count if `k` is given. `"any"`: at least one document of the pair is in the top k. `"both"`:
            both documents are in the top k.
        sigma: steepness of the logistic function.

    Example:
        >>> ranknet(torch.tensor([[2., 1., 3.]]), torch.tensor([[1., 0., 0.]]))
        tensor(1.6265)

    References:
        Burges et al., "Learning to Rank using Gradient Descent", ICML 2005.
    """
    options = ranknet_options(sigma, k, pairs)
    lists = as_lists(scores, labels, mask=mask, offsets=offsets, weights=weights)
    if (loss := fused("ranknet", lists, reduction, options, lacking=option_without_kernel(sigma))) is not None:
        return loss
    counted = None if k is None else in_top(ranks(lists.scores, lists.mask), k, pairs)
    return lists.reduce(pair_loss(lists, counted, _logistic(sigma)), reduction, has_order(lists))


def hinge(
    scores: Any,
    labels: Any,
    *,
    margin: float = 1.0,
    mask: Any = None,
    offsets: Any = None,
    weights: Any = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Hinge: in each pair, the score of the document with the higher label should be higher by a margin.

    .. math:: \ell(s, y) = \sum_{i,j:\, y_i > y_j} w_i \max(0, m - (s_i - s_j))

    Args:
        scores, labels, mask, offsets, weights, reduction: the lists and the reduction; see `rankgrad.losses`.
        margin: m, the smallest score difference that a pair should have.

    Example:
        >>> hinge(torch.tensor([[2., 1., 3.]]), torch.tensor([[1., 0., 0.]]))
        tensor(2.)

    References:
        Joachims, "Optimizing Search Engines using Clickthrough Data", KDD 2002.
    """
    lists = as_lists(scores, labels, mask=mask, offsets=offsets, weights=weights)
    if (loss := fused("hinge", lists, reduction, PairwiseOptions(margin=margin))) is not None:
        return loss
    return lists.reduce(pair_loss(lists, None, lambda gap: relu(margin - gap)), reduction, has_order(lists))


def lambdarank(
    scores: Any,
    labels: Any,
    *,
    k: int | None = None,
    metric: Metric | str = nDCG,
    sigma: float = 1.0,
    mask: Any = None,
    offsets: Any = None,
    weights: Any = None,
    reduction: str = "mean",
) -> Tensor:
    r"""LambdaRank: RankNet with pair weights that depend on a metric (LambdaLoss@K paper, Eq. 11-12).

    .. math:: \ell(s, y) = \sum_{i,j:\, y_i > y_j} w_i\, \Delta_{ij} \log\bigl(1 + e^{-\sigma (s_i - s_j)}\bigr), \quad
              \Delta_{ij} = \frac{|G_i - G_j|}{\mathrm{IDCG}@k}
              \left|\frac{[\pi_i \le k]}{D(\pi_i)} - \frac{[\pi_j \le k]}{D(\pi_j)}\right|

    pi_i is the rank of document i by its score. The weight of a pair is the change of the metric if both documents
    swap ranks. The weights are constants in the gradient. Documents with equal scores are ranked by input position.

    Args:
        scores, labels, mask, offsets, weights, reduction: the lists and the reduction; see `rankgrad.losses`.
        k: cutoff, which replaces the cutoff of `metric`. If k is None and `metric` has no cutoff, all ranks count.
        metric: metric whose change is the weight of a pair: `nDCG`, `P@k`, `AP` or `RR`.
        sigma: steepness of the logistic function.

    Example:
        >>> lambdarank(torch.tensor([[2., 1., 3.]]), torch.tensor([[1., 0., 0.]]))
        tensor(0.5257)

    References:
        Burges, Ragno and Le, "Learning to Rank with Nonsmooth Cost Functions", NIPS 2006.
    """
    lists = as_lists(scores, labels, mask=mask, offsets=offsets, weights=weights, lowest_label=0)
    form = formula(metric, swap_deltas.METRICS, k)
    options = lambdarank_options(sigma, form)
    if (loss := fused("lambdarank", lists, reduction, options, lacking=option_without_kernel(sigma, form))) is not None:
        return loss
    delta = swap_deltas.difference(lists, form)
    return lists.reduce(pair_loss(lists, delta, _logistic(sigma)), reduction, has_order(lists))


def lambdaloss(
    scores: Any,
    labels: Any,
    *,
    k: int | None = None,
    scheme: str = "ndcg2",
    truncation: str | None = None,
    metric: Metric | str = nDCG,
    mu: float = 10.0,
    sigma: float = 1.0,
    mask: Any = None,
    offsets: Any = None,
    weights: Any = None,
    reduction: str = "mean",
) -> Tensor:
    r"""LambdaLoss: a pairwise bound of a ranking metric. With `k`, it is LambdaLoss@K (LambdaLoss@K paper, Eq. 13-17).

    .. math:: \ell(s, y) = \sum_{i,j:\, y_i > y_j} w_i\,\frac{|G_i - G_j|}{\mathrm{IDCG}@k}\,\delta_{ij}@k
              \log\bigl(1 + e^{-\sigma (s_i - s_j)}\bigr)

    .. math:: \delta_{ij} = \left|\frac{1}{D(|\pi_i - \pi_j|)} - \frac{1}{D(|\pi_i - \pi_j| + 1)}\right|

    pi_i is the rank of document i by its score. With a cutoff k, `truncation` changes delta_ij to delta_ij@k.

    Args:
        scores, labels, mask, offsets, weights, reduction: the lists and the reduction; see `rankgrad.losses`.
        k: cutoff, which replaces the cutoff of `metric`. If k is None and `metric` has no cutoff, all ranks count.
        scheme: weight of a pair: `"ndcg1"` (G_i / D(rank i), over all pairs), `"ndcg2"` (the formula above),
            `"ndcg2pp"` (LambdaRank's weight plus `mu` times the weight of `"ndcg2"`), `"arp1"` (y_i, over all pairs),
            `"arp2"` (`|y_i - y_j|`).
        truncation: rule for documents beyond rank k. `"sound"` (Eq. 16-17; default of `ndcg2`): if a pair contains such
            a document, the weight of the pair is multiplied by 1 / (1 - 1 / D(r)), where r is the larger rank.
            `"heuristic"` (Eq. 15, V1; default of all other schemes): pairs of two such documents do not count.
        metric: `nDCG`, `P@k`, `AP` or `RR`. Only `nDCG` uses a scheme; other metrics use the weights of `lambdarank`.
        mu: weight of the ndcg2 part in scheme `"ndcg2pp"`; other schemes do not use it.
        sigma: steepness of the logistic function.

    Example:
        >>> lambdaloss(torch.tensor([[2., 1., 3.]]), torch.tensor([[1., 0., 0.]]), k=1)
        tensor(1.5445)

    References:
        Wang et al., "The LambdaLoss Framework for Ranking Metric Optimization", CIKM 2018; Jagerman et al., "On
        Optimizing Top-K Metrics for Neural Ranking Models", SIGIR 2022.
    """
    lists = as_lists(scores, labels, mask=mask, offsets=offsets, weights=weights, lowest_label=0)
    form = formula(metric, swap_deltas.METRICS, k)
    if form.name != "nDCG":
        fused("lambdaloss", lists, reduction, PairwiseOptions(), lacking=option_without_kernel(sigma, form))
        delta = swap_deltas.difference(lists, form)
        return lists.reduce(pair_loss(lists, delta, _logistic(sigma)), reduction, has_order(lists))
    options = lambdaloss_options(sigma, form, scheme, truncation, mu)
    if (loss := fused("lambdaloss", lists, reduction, options, lacking=option_without_kernel(sigma, form))) is not None:
        return loss
    delta = _scheme_weights(lists, form, scheme, options.truncation, mu)
    values = pair_loss(lists, delta, _logistic(sigma), every_pair=scheme in ("ndcg1", "arp1"))
    return lists.reduce(values, reduction, has_order(lists))


def ranknet_options(sigma: float, k: int | None, pairs: str) -> PairwiseOptions:
    """Check the options of `ranknet` and convert them to `PairwiseOptions`, for the kernel."""
    check_cutoff(k)
    one_of("pairs", pairs, ("any", "both"))
    return PairwiseOptions(sigma=sigma, k=k or 0, pairs=Pairs[pairs.upper()])


def lambdarank_options(sigma: float, form: MetricFormula) -> PairwiseOptions:
    """Convert the options of `lambdarank` to `PairwiseOptions`, for the kernel."""
    return PairwiseOptions(sigma=sigma, k=form.k or 0, gain=_gain(form))


def lambdaloss_options(
    sigma: float, form: MetricFormula, scheme: str, truncation: str | None, mu: float
) -> PairwiseOptions:
    """Check the options of `lambdaloss` and convert them to `PairwiseOptions`, for the kernel."""
    one_of("scheme", scheme, SCHEMES)
    truncation = truncation or ("sound" if scheme == "ndcg2" else "heuristic")
    one_of("truncation", truncation, ("sound", "heuristic"))
    if truncation == "sound" and scheme != "ndcg2":
        bad_value("truncation", f"be 'heuristic' with scheme {scheme!r}", repr(truncation))
    sound = form.k is not None and truncation == "sound"
    return PairwiseOptions(
        sigma=sigma,
        k=form.k or 0,
        gain=_gain(form),
        scheme=Scheme[scheme.upper()],
        truncation=Truncation.SOUND if sound else Truncation.HEURISTIC,
        mu=mu,
    )


def _gain(form: MetricFormula) -> Gains:
    return Gains.LINEAR if form.gain == "linear" else Gains.EXP


def option_without_kernel(sigma: float, metric: MetricFormula | None = None) -> str | None:
    """Return the option of a pairwise loss that no kernel supports; None if a kernel supports all options."""
    if metric is not None and metric.name != "nDCG":
        return f"metric={metric.name}"
    if metric is not None and (callable(metric.gain) or callable(metric.discount)):
        return "a custom gain or discount"
    # The kernels need sigma >= 0: they compute each pair once, from its document with the higher score.
    return None if sigma >= 0 else f"sigma={sigma}"


def _scheme_weights(lists: Lists, metric: MetricFormula, scheme: str, truncation: Truncation, mu: float) -> Tensor:
    """Return the weight of each pair in `lambdaloss`, `(..., n, n)`. The gradient treats the weights as constants."""
    k, labels = metric.k, lists.labels
    rank = ranks(lists.scores, lists.mask).to(labels.dtype)
    share = metric.gains(lists)
    if scheme == "ndcg1":
        weight = (share / metric.discounted(rank))[..., :, None]
    elif scheme == "ndcg2":
        weight = swap_deltas.gaps(share) * relative_discount(metric, rank)
    elif scheme == "ndcg2pp":
        weight = swap_deltas.gaps(share) * (
            swap_deltas.gaps(1.0 / metric.discounted(rank)) + mu * relative_discount(metric, rank)
        )
    elif scheme == "arp1":
        weight = labels[..., :, None]
    else:
        weight = swap_deltas.gaps(labels)
    if k is None:
        return weight
    if truncation == Truncation.HEURISTIC:
        return weight * in_top(rank, k, "any")
    later = torch.maximum(rank[..., :, None], rank[..., None, :])
    # Only the diagonal, which contains no pair, can have rank 1 here. Rank 2 replaces it to keep the factor finite.
    return weight * torch.where(later > k, 1.0 / (1.0 - 1.0 / metric.discounted(later.clamp(min=2))), 1.0)


def pair_loss(
    lists: Lists, weight: Tensor | None, loss: Callable[[Tensor], Tensor], every_pair: bool = False
) -> Tensor:
    """Return the value of a pairwise loss for each list, `(...)`, from weights and losses of the pairs.

    The value is the sum of `w_i weight_ij loss(s_i - s_j)` over the pairs with y_i > y_j. With `every_pair`, the sum is
    over all pairs i != j, but it is 0 for a list whose labels are all equal.
    """
    gap = lists.scores[..., :, None] - lists.scores[..., None, :]  # (..., n, n)
    both = lists.mask[..., :, None] & lists.mask[..., None, :]
    if every_pair:
        same = torch.eye(gap.shape[-1], dtype=torch.bool, device=gap.device)
        counted = both & ~same & has_order(lists)[..., None, None]
    else:
        counted = both & (lists.labels[..., :, None] > lists.labels[..., None, :])
    factor = counted.to(gap.dtype) if weight is None else torch.where(counted, weight, 0.0)
    if lists.weights is not None:
        factor = factor * lists.weights[..., :, None]
    return (factor * loss(gap)).sum((-2, -1))


def in_top(rank: Tensor, k: int, pairs: str) -> Tensor:
    """Return True for the pairs that a pairwise loss with cutoff k counts, `(..., n, n)`.

    If `pairs` is `"any"`, at least one document of the pair is in the top k. If it is `"both"`, both documents are.
    """
    top = rank <= k
    first, second = top[..., :, None], top[..., None, :]
    return first | second if pairs == "any" else first & second


def relative_discount(metric: MetricFormula, rank: Tensor) -> Tensor:
    """Return LambdaLoss's delta_ij (Eq. 13), which depends on the distance between the two ranks, `(..., n, n)`."""
    distance = swap_deltas.gaps(rank).clamp(min=1)  # the distance is 0 only on the diagonal, which has no pair
    return 1.0 / metric.discounted(distance) - 1.0 / metric.discounted(distance + 1)


def _logistic(sigma: float) -> Callable[[Tensor], Tensor]:
    return lambda gap: -logsigmoid(sigma * gap)


def _ranknet(options: dict[str, Any]) -> Traits:
    pairs = ranknet_options(options["sigma"], options["k"], options["pairs"])
    fits = option_without_kernel(options["sigma"]) is None
    return Traits(ORDER, any_label=True, pairs=("ranknet", pairs) if fits else None)


def _lambdarank(options: dict[str, Any]) -> Traits:
    form, sigma = formula(options["metric"], swap_deltas.METRICS, options["k"]), options["sigma"]
    fits = option_without_kernel(sigma, form) is None
    return Traits(ORDER, gain=form.exp_gain, pairs=("lambdarank", lambdarank_options(sigma, form)) if fits else None)


def _lambdaloss(options: dict[str, Any]) -> Traits:
    form, sigma, scheme = (
        formula(options["metric"], swap_deltas.METRICS, options["k"]),
        options["sigma"],
        options["scheme"],
    )
    gain = form.exp_gain and scheme not in ("arp1", "arp2")
    if option_without_kernel(sigma, form):
        return Traits(ORDER, gain=gain)
    pairs = lambdaloss_options(sigma, form, scheme, options["truncation"], options["mu"])
    return Traits(ORDER, gain=gain, pairs=("lambdaloss", pairs))


TRAITS = {
    ranknet: _ranknet,
    hinge: Traits(ORDER, any_label=True),
    lambdarank: _lambdarank,
    lambdaloss: _lambdaloss,
}
