"""Listwise losses: softmax cross entropies, Plackett-Luce likelihoods, and RankCosine.

The weight of a document multiplies the document's part of the target, before the target is normalised.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from rankgrad.errors import bad_value, one_of
from rankgrad.kernels.options import ListwiseOptions, Targets, Ties
from rankgrad.lists import Lists, as_lists, reduce
from rankgrad.losses import curvature
from rankgrad.losses.fused import fused
from rankgrad.losses.likelihood import lowest, partitioned, plackett_luce, shuffled
from rankgrad.losses.pairwise import has_order
from rankgrad.losses.traits import ORDER, Traits
from rankgrad.losses.unpadded import UnpaddedLists
from rankgrad.relax.optimal_transport import least_scale

DRAWN = "drawn"  # value of an option for which each call draws random numbers


def softmax(
    scores: Any, labels: Any, *, mask: Any = None, offsets: Any = None, weights: Any = None, reduction: str = "mean"
) -> Tensor:
    r"""Softmax: cross entropy between the unnormalised labels and the softmax of the scores (LambdaLoss@K, Eq. 7).

    .. math:: \ell(s, y) = -\sum_i w_i y_i \log \frac{e^{s_i}}{\sum_j e^{s_j}}

    Args:
        scores, labels, mask, offsets, weights, reduction: the lists and the reduction; see `rankgrad.losses`.

    Example:
        >>> softmax(torch.tensor([[2., 1., 3.]]), torch.tensor([[1., 0., 0.]]))
        tensor(1.4076)

    References:
        Pasumarthi et al., "TF-Ranking", KDD 2019.
    """
    lists = as_lists(scores, labels, mask=mask, offsets=offsets, weights=weights, lowest_label=0)
    if (loss := fused("softmax", lists, reduction, ListwiseOptions())) is not None:
        return loss
    return lists.reduce(_cross_entropy(lists, _weighted(lists, lists.labels)), reduction, has_relevant(lists))


def listnet(
    scores: Any,
    labels: Any,
    *,
    targets: str = "sum",
    mask: Any = None,
    offsets: Any = None,
    weights: Any = None,
    reduction: str = "mean",
) -> Tensor:
    r"""ListNet: cross entropy between the label distribution and the softmax of the scores (Softmax paper, Eq. 6-7).

    .. math:: \ell(s, y) = -\sum_i P_y(i) \log \frac{e^{s_i}}{\sum_j e^{s_j}}, \quad
              P_y(i) = \frac{w_i y_i}{\sum_j w_j y_j} \text{ or } \frac{w_i e^{y_i}}{\sum_j w_j e^{y_j}}

    With `targets="sum"`, the loss is an upper bound of -log MRR and of -log NDCG (studies/bounds).

    Args:
        scores, labels, mask, offsets, weights, reduction: the lists and the reduction; see `rankgrad.losses`.
        targets: label distribution. `"sum"`: labels divided by their sum. `"softmax"`: softmax of the labels, as in
            allRank.

    Example:
        >>> listnet(torch.tensor([[2., 1., 3.]]), torch.tensor([[2., 0., 0.]]))
        tensor(1.4076)

    References:
        Cao et al., "Learning to Rank: From Pairwise Approach to Listwise Approach", ICML 2007.
    """
    one_of("targets", targets, ("sum", "softmax"))
    lists = as_lists(scores, labels, mask=mask, offsets=offsets, weights=weights, lowest_label=0)
    options = ListwiseOptions(targets=Targets[targets.upper()])
    if (loss := fused("listnet", lists, reduction, options)) is not None:
        return loss
    mass = lists.labels if targets == "sum" else _masked_exp(lists.labels, lists.mask)
    return lists.reduce(_cross_entropy(lists, _distribution(_weighted(lists, mass))), reduction, has_relevant(lists))


def xe_ndcg(
    scores: Any,
    labels: Any,
    *,
    gamma: float | str | Tensor = 0.0,
    mask: Any = None,
    offsets: Any = None,
    weights: Any = None,
    reduction: str = "mean",
) -> Tensor:
    r"""XE-NDCG: a cross entropy that bounds NDCG, also for graded labels.

    .. math:: \ell(s, y) = -\sum_i \phi_i \log \frac{e^{s_i}}{\sum_j e^{s_j}}, \quad
              \phi_i = \frac{w_i (2^{y_i} - \gamma_i)}{\sum_j w_j (2^{y_j} - \gamma_j)}

    A list without a relevant document has no effect. In LightGBM's rank_xendcg and with the option `smooth` of
    `rankgrad.trees`, such a list has an effect.

    Args:
        scores, labels, mask, offsets, weights, reduction: the lists and the reduction; see `rankgrad.losses`.
        gamma: a number in [0, 1], the same for all documents; or a tensor with the shape of `labels`; or `"drawn"`:
            as in the paper, each call uses a new random number in [0, 1) for each document, from PyTorch's default
            generator.

    Example:
        >>> xe_ndcg(torch.tensor([[2., 1., 3.]]), torch.tensor([[1., 0., 0.]]), gamma=1.0)
        tensor(1.4076)

    References:
        Bruch, "An Alternative Cross Entropy Loss for Learning-to-Rank", 2019.
    """
    lists = as_lists(scores, labels, mask=mask, offsets=offsets, weights=weights, lowest_label=0)
    if isinstance(gamma, (int, float)):
        if not 0 <= gamma <= 1:
            bad_value("gamma", "be from 0 to 1", gamma)
        if (loss := fused("xe_ndcg", lists, reduction, ListwiseOptions(gamma=gamma))) is not None:
            return loss
        gammas: Tensor | float = gamma
    else:
        lacking = f"gamma={gamma!r}" if isinstance(gamma, str) else "a tensor as gamma"
        fused("xe_ndcg", lists, reduction, ListwiseOptions(), lacking=lacking)
        gammas = _gammas(gamma, lists)
    top = _top(lists.labels)
    # Both terms are divided by 2^max(y), which cancels in the distribution: large labels cannot overflow.
    mass = torch.where(lists.mask, torch.exp2(lists.labels - top) - gammas * torch.exp2(-top), 0.0)
    return lists.reduce(_cross_entropy(lists, _distribution(_weighted(lists, mass))), reduction, has_relevant(lists))


def _gammas(gamma: Any, lists: Lists) -> Tensor:
    """Return the gamma of each document for `xe_ndcg`, `(..., n)`: random numbers, or the values of a tensor."""
    given = lists.given
    if isinstance(gamma, str):
        if gamma != DRAWN:
            bad_value("gamma", f"be a number, {DRAWN!r} or a tensor", repr(gamma))
        gamma = torch.rand(given.scores.shape, dtype=given.scores.dtype, device=given.scores.device)
    gamma = torch.as_tensor(gamma)
    if gamma.is_nested:
        gamma = gamma.values()
    if gamma.shape != given.scores.shape:
        bad_value("gamma", f"be a number or have the shape of scores, {tuple(given.scores.shape)}", tuple(gamma.shape))
    lists = as_lists(gamma, given.labels, mask=given.mask, offsets=given.offsets, allow_single=True)
    return lists.scores.to(given.scores.dtype)


def poly1_softmax(
    scores: Any,
    labels: Any,
    *,
    epsilon: float = 1.0,
    mask: Any = None,
    offsets: Any = None,
    weights: Any = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Poly-1 softmax: softmax cross entropy plus the first term of its polynomial expansion.

    .. math:: \ell(s, y) = \mathrm{softmax}(s, y) + \epsilon \Bigl(1 - \sum_i \frac{w_i y_i}{\sum_j w_j y_j}
              \frac{e^{s_i}}{\sum_j e^{s_j}}\Bigr)

    If the weights of all relevant documents of a list are 0, the value is 0.

    Args:
        scores, labels, mask, offsets, weights, reduction: the lists and the reduction; see `rankgrad.losses`.
        epsilon: weight of the added term; with 0, the loss equals `softmax`.

    Example:
        >>> poly1_softmax(torch.tensor([[2., 1., 3.]]), torch.tensor([[1., 0., 0.]]))
        tensor(2.1629)

    References:
        Leng et al., "PolyLoss", ICLR 2022.
    """
    lists = as_lists(scores, labels, mask=mask, offsets=offsets, weights=weights, lowest_label=0)
    if (loss := fused("poly1_softmax", lists, reduction, ListwiseOptions(epsilon=epsilon))) is not None:
        return loss
    mass = _weighted(lists, lists.labels)
    probability = (_distribution(mass) * _log_softmax(lists).exp()).sum(-1)
    added = torch.where(mass.sum(-1) > 0, 1.0 - probability, 0.0)
    return lists.reduce(_cross_entropy(lists, mass) + epsilon * added, reduction, has_relevant(lists))


def unique_softmax(
    scores: Any, labels: Any, *, mask: Any = None, offsets: Any = None, weights: Any = None, reduction: str = "mean"
) -> Tensor:
    r"""Unique softmax: each document has a softmax cross entropy over itself and the documents with lower labels.

    .. math:: \ell(s, y) = -\sum_i w_i (2^{y_i} - 1) \log \frac{e^{s_i}}{e^{s_i} + \sum_{j:\, y_j < y_i} e^{s_j}}

    Args:
        scores, labels, mask, offsets, weights, reduction: the lists and the reduction; see `rankgrad.losses`.

    Example:
        >>> unique_softmax(torch.tensor([[2., 1., 3.]]), torch.tensor([[2., 1., 0.]]))
        tensor(6.3497)

    References:
        Zhu and Klabjan, "Listwise Learning to Rank by Exploring Unique Ratings", WSDM 2020.
    """
    lists = as_lists(scores, labels, mask=mask, offsets=offsets, weights=weights, lowest_label=0)
    if (loss := fused("unique_softmax", lists, reduction, ListwiseOptions())) is not None:
        return loss
    rivals = (lists.labels[..., None, :] < lists.labels[..., :, None]) & lists.mask[..., None, :]
    rivals = rivals | torch.eye(rivals.shape[-1], dtype=torch.bool, device=rivals.device)
    field = torch.where(rivals, lists.scores[..., None, :], lowest(lists.scores))  # (..., n, n)
    # `logsumexp` minus the score is not used: for large scores, its derivative would be wrong for ties at the top.
    terms = -log_softmax(field, -1).diagonal(dim1=-2, dim2=-1)
    gain = _weighted(lists, torch.where(lists.mask, torch.exp2(lists.labels) - 1.0, 0.0))
    return lists.reduce((gain * terms).sum(-1), reduction, has_relevant(lists))


def listmle(
    scores: Any,
    labels: Any,
    *,
    mask: Any = None,
    offsets: Any = None,
    ties: str = "together",
    noise: Any = None,
    weights: Any = None,
    reduction: str = "mean",
) -> Tensor:
    r"""ListMLE: negative Plackett-Luce log-likelihood of the order of the labels.

    .. math:: \ell(s, y) = \sum_i w_{\pi_i} (\log D_i - s_{\pi_i}), \quad D_i = \sum_{j \ge i} e^{s_{\pi_j}}, \quad
              \pi \text{ sorts } y \text{ downwards}

    Let S be a group of d tied documents with mean weight w_S. G is the sum of e^s over S. R is this sum over documents
    below S. Breslow and Efron change D for document l = 0, ..., d - 1 of S. The exact form has one term per S:

    .. math:: D_{\text{Breslow}} = G + R, \quad D_{\text{Efron}} = \bigl(1 - \tfrac{l}{d}\bigr) G + R, \quad
              \ell_{\text{exact}} = -\sum_S w_S \log \int_0^1 \prod_{i \in S} \bigl(1 - u^{e^{s_i} / R}\bigr) du

    Args:
        scores, labels, mask, offsets, weights, reduction: the lists and the reduction; see `rankgrad.losses`.
        ties: treatment of equal labels. `"together"`: Breslow's likelihood. `"position"`: the first formula, with ties
            in input order; use it if the input order is a ranking. `"random"`: the first formula, with ties in a new
            random order in each call, as in allRank. `"efron"`: Efron's likelihood; in S, each log D has the weight
            w_S. `"exact"`: the probability of all orders that agree with the labels.
        noise: only for `ties="random"`: numbers with the shape of `scores`. Tied documents are sorted by these numbers,
            highest first. With None, the numbers are random, from PyTorch's default generator.

    Example:
        >>> listmle(torch.tensor([[2., 1., 3.]]), torch.tensor([[2., 1., 0.]]))
        tensor(3.5345)

    References:
        Xia et al., "Listwise Approach to Learning to Rank", ICML 2008. Ma et al., "Learning-to-Rank with Partitioned
        Preference", AISTATS 2021.
    """
    one_of("ties", ties, ("together", "position", "random", "efron", "exact"))
    lists = as_lists(scores, labels, mask=mask, offsets=offsets, weights=weights)
    if ties == "random":
        lists, ties = shuffled(lists, _noise(lists, noise)), "position"
    elif noise is not None:
        bad_value("noise", "be None unless ties is 'random'", f"noise with ties={ties!r}")
    lacking = "ties='exact' on a GPU" if ties == "exact" and lists.given.scores.is_cuda else None
    options = ListwiseOptions(ties=Ties[ties.upper()])
    if (loss := fused("listmle", lists, reduction, options, lacking=lacking)) is not None:
        return loss
    values = partitioned(lists) if ties == "exact" else plackett_luce(lists, ties).sum(-1)
    return lists.reduce(values, reduction, has_order(lists))


def p_listmle(
    scores: Any,
    labels: Any,
    *,
    mask: Any = None,
    offsets: Any = None,
    ties: str = "together",
    weights: Any = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Position-aware ListMLE: the term of rank i has weight 2^(n - i) - 1, so the top ranks dominate.

    .. math:: \ell(s, y) = -\sum_i v_i\, w_{\pi_i} \log \frac{e^{s_{\pi_i}}}{\sum_{j \ge i} e^{s_{\pi_j}}}, \quad
              v_i = \frac{2^{n-i} - 1}{2^{n-1} - 1}

    pi sorts the documents by label, highest label first; v_i is the weight of rank i.

    Unlike the loss in the paper, this loss is divided by the weight of the first rank. Otherwise 2^n would overflow
    float32 for 128 or more documents, and each additional document would double the loss.

    Args:
        scores, labels, mask, offsets, weights, reduction: the lists and the reduction; see `rankgrad.losses`.
        ties: `"together"` or `"position"`, as in `listmle`. With `"together"`, the weight v of each tied document is
            the mean of v over the ranks of the ties. If m tied documents start at rank a, this mean is
            `(2^(n-a+1) (1 - 2^-m) / m - 1) / (2^(n-1) - 1)`.

    Example:
        >>> p_listmle(torch.tensor([[2., 1., 3.]]), torch.tensor([[2., 1., 0.]]))
        tensor(2.1166)

    References:
        Lan et al., "Position-Aware ListMLE: A Sequential Learning Process for Ranking", UAI 2014.
    """
    one_of("ties", ties, ("position", "together"))
    lists = as_lists(scores, labels, mask=mask, offsets=offsets, weights=weights)
    if (loss := fused("p_listmle", lists, reduction, ListwiseOptions(ties=Ties[ties.upper()]))) is not None:
        return loss
    values = plackett_luce(lists, ties, position_aware=True).sum(-1)
    return lists.reduce(values, reduction, has_order(lists))


def rank_cosine(scores: Any, labels: Any, *, mask: Any = None, offsets: Any = None, reduction: str = "mean") -> Tensor:
    r"""RankCosine: half the cosine distance between the scores and the labels.

    .. math:: \ell(s, y) = \frac{1}{2} \Bigl(1 - \frac{\sum_i s_i y_i}{\lVert s \rVert \lVert y \rVert}\Bigr)

    If all scores of a list are 0, there is no angle: the value is 1/2 and the gradient is 0.

    Args:
        scores, labels, mask, offsets, reduction: the lists and the reduction; see `rankgrad.losses`.

    Example:
        >>> rank_cosine(torch.tensor([[2., 1., 3.]]), torch.tensor([[1., 0., 0.]]))
        tensor(0.2327)

    References:
        Qin et al., "Query-level Loss Functions for Information Retrieval", 2008.
    """
    documents = UnpaddedLists.of(as_lists(scores, labels, mask=mask, offsets=offsets, lowest_label=0))
    cosine = documents.total(_unit(documents, documents.scores) * _unit(documents, documents.labels))
    signal = documents.largest(documents.labels) > 0
    return reduce(torch.where(signal, 0.5 * (1.0 - cosine), 0.0 * cosine), signal, reduction)


def has_relevant(lists: Lists) -> Tensor:
    """Return True for each list with a label above 0, `(...)`. A softmax loss can learn only from such lists."""
    return (lists.labels > 0).any(-1)


def _noise(lists: Lists, noise: Any) -> Tensor:
    """Return the numbers that order the tied documents of `listmle(ties="random")`, with the shape of the scores."""
    scores = lists.given.scores
    if noise is None:
        return torch.rand(scores.shape, device=scores.device)
    noise = torch.as_tensor(noise)
    noise = noise.values() if noise.is_nested else noise
    if noise.shape != scores.shape:
        bad_value("noise", f"have the shape of scores, {tuple(scores.shape)}", tuple(noise.shape))
    return noise


def _cross_entropy(lists: Lists, targets: Tensor) -> Tensor:
    """Return the softmax cross entropy of each list, `(...)`; 0 for lists without a relevant document.

    The cross entropy is `-sum_i target_i log softmax(s)_i`.
    """
    targets = torch.where(has_relevant(lists)[..., None], targets, 0.0)
    return (targets * -_log_softmax(lists)).sum(-1)


def _log_softmax(lists: Lists) -> Tensor:
    """Return the log-softmax of the scores of each list, `(..., n)`; 0 for padding."""
    filled = torch.where(lists.mask, lists.scores, lowest(lists.scores))
    return torch.where(lists.mask, log_softmax(filled, -1), 0.0)


def _weighted(lists: Lists, mass: Tensor) -> Tensor:
    return mass if lists.weights is None else mass * lists.weights


def _distribution(mass: Tensor) -> Tensor:
    """Return the target distribution of a softmax loss: `mass` divided by the sum over the list; 0 if the sum is 0."""
    total = mass.sum(-1, keepdim=True)
    return torch.where(total > 0, mass / torch.where(total > 0, total, 1.0), 0.0)


def _masked_exp(labels: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, (labels - _top(labels)).exp(), 0.0)


def _unit(documents: UnpaddedLists, values: Tensor) -> Tensor:
    """Scale the values of each list to a vector of length 1, for `rank_cosine`.

    The values are first divided by the largest absolute value of the list. Otherwise the square of 1e30 would overflow.
    """
    largest = documents.each(documents.largest(values.abs()))
    some = largest > least_scale(values.dtype)
    scaled = torch.where(some, values / torch.where(some, largest, 1.0), 0.0 * values)
    squares = documents.each(documents.total(scaled * scaled))
    return torch.where(squares > 0, scaled / torch.where(squares > 0, squares, 1.0).sqrt(), 0.0 * scaled)


def _top(labels: Tensor) -> Tensor:
    """Return the largest label of each list for `listnet` and `xe_ndcg`, `(..., 1)`; 0 for a list without documents."""
    if labels.shape[-1] == 0:
        return labels.new_zeros((*labels.shape[:-1], 1))
    return labels.amax(-1, keepdim=True)


def _listmle(options: dict[str, Any]) -> Traits:
    exact = options["ties"] == "exact"
    return Traits(ORDER, any_label=True, curvature=partial(curvature.plackett_luce, exact=exact))


TRAITS = {
    softmax: Traits(targets=True, curvature=curvature.softmax),
    listnet: Traits(divides=True, targets=True, curvature=curvature.distribution),
    xe_ndcg: Traits(gain=True, divides=True, curvature=curvature.distribution),
    poly1_softmax: lambda options: Traits(curvature=partial(curvature.poly1, epsilon=options["epsilon"])),
    unique_softmax: Traits(gain=True, curvature=curvature.unique_softmax),
    listmle: _listmle,
    p_listmle: Traits(ORDER, any_label=True),
}
