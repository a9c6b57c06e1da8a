"""Make a loss from any metric and any relaxation of ranking, with soft permutations or soft ranks."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from rankgrad.errors import bad_type
from rankgrad.lists import Lists, as_lists
from rankgrad.losses.metric_formula import MetricFormula, formula
from rankgrad.losses.traits import ORDER, Traits
from rankgrad.metrics import Metric, parse_metric
from rankgrad.relax import Relaxation
from rankgrad.relax.operators import one_node, register
from rankgrad.relax.optimal_transport import least_scale
from rankgrad.relax.relaxation import lift, rank_numbers

# Metrics whose formula is below, in `on_permutation` and `on_ranks`.
METRICS = ("nDCG", "DCG", "RR", "AP", "P", "R", "Success", "ERR", "RBP", "ARP", "OPA")


@dataclass(frozen=True)
class relaxed:
    r"""A loss that is made from a metric and a relaxation: minus the soft metric (for ARP: the soft metric).

    If the operator defines a soft permutation P, the gain or relevance at rank r is the mean over all documents,
    weighted by row r of P. If the operator defines only soft ranks, there are two cases. Metrics that sum over
    documents (nDCG, DCG, P, R, RBP, ARP), and Success, use the soft ranks in their formulas, with the soft cutoff
    sigmoid(beta (k + 1/2 - rank)). For RR, AP and ERR, `lift` converts the ranks to a permutation. OPA always uses soft
    ranks: the share of a pair in the right order is sigmoid(beta (rank_j - rank_i)). A metric that is a function of
    yours cannot be relaxed, because its formula is not known; pass a differentiable function as the loss instead.

    The soft metric is in the range of the metric (at most 1; ARP: 1 to the length of the list), with two exceptions,
    as in the papers. nDCG and AP may be above 1 if rows or columns of the operator do not sum to 1 (`smoothi`,
    `soft_sort`, `soft_rank`, `neural_sort` without Sinkhorn rounds). P may be above 1 if soft ranks put more than k
    documents before the cutoff.

    Memory and time increase with the square of the length of a list: with `sigmoid_ranks`, a list of 20,000 documents
    needs 5 GB and 33 s on a CPU. `approx_ndcg` is the loss of nDCG and `sigmoid_ranks`; it has a kernel that needs
    little memory.

    Args:
        metric: any metric of `rankgrad.metrics`, with its cutoff and options.
        relaxation: any operator of `rankgrad.relax`.
        beta: sharpness of the soft cutoff and of the pairs of OPA; only used with soft ranks.

    Example:
        >>> from rankgrad.metrics import AP, nDCG
        >>> from rankgrad.relax import neural_sort
        >>> scores, labels = torch.tensor([[2., 1., 3.]]), torch.tensor([[1., 0., 0.]])
        >>> relaxed(AP, neural_sort(temperature=0.01))(scores, labels)
        tensor(-0.5000)
        >>> relaxed(nDCG @ 10, neural_sort(temperature=0.01))(scores, labels)  # or relaxed("nDCG@10", ...)
        tensor(-0.6309)
    """

    metric: Metric
    relaxation: Relaxation
    beta: float = 10.0
    _formula: MetricFormula = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.metric, str | Metric):
            must = "be a metric of rankgrad.metrics (a function has no relaxation; if it is differentiable, use a loss)"
            bad_type("metric", must, type(self.metric).__name__)
        object.__setattr__(self, "metric", parse_metric(self.metric))
        object.__setattr__(self, "_formula", formula(self.metric, METRICS))
        if not isinstance(self.relaxation, Relaxation):
            must = "be an operator such as rankgrad.relax.neural_sort()"
            bad_type("relaxation", must, type(self.relaxation).__name__)

    @property
    def traits(self) -> Traits:
        """Traits of the relaxed metric."""
        gain = self._formula.exp_gain
        return Traits(ORDER, gain=gain) if self.metric.name == "OPA" else Traits(gain=gain)

    def __call__(
        self, scores: Any, labels: Any, *, mask: Any = None, offsets: Any = None, reduction: str = "mean"
    ) -> Tensor:
        """Compute the relaxed loss.

        Args:
            scores, labels, mask, offsets, reduction: the lists and the reduction; see `rankgrad.losses`.
        """
        lists = as_lists(scores, labels, mask=mask, offsets=offsets, lowest_label=0)
        return relaxed_loss(self._formula, self.relaxation, lists, reduction, self.beta)


def relaxed_loss(
    metric: MetricFormula, relaxation: Relaxation, lists: Lists, reduction: str, beta: float = 10.0
) -> Tensor:
    """Compute the relaxed loss of a metric and an operator on lists that are already checked."""
    if relaxation.gives_permutation and metric.name != "OPA":
        value = on_permutation(metric, lists, relaxation._permutation(lists.scores, lists.mask))
    else:
        value = on_ranks(metric, lists, relaxation._ranks(lists.scores, lists.mask), beta)
    return metric.loss(lists, value, reduction)


def on_permutation(metric: MetricFormula, lists: Lists, permutation: Tensor) -> Tensor:
    """Return the soft metric of a soft permutation, `(...)`.

    Row r of the permutation (from 0) contains each document's share of rank r + 1. The rows or columns of many
    operators do not sum to 1. So that metrics stay in their range, a document counts once for R and Success, each rank
    has at most one document for P, AP, RR, ERR and RBP, and the rank of a document for ARP is a mean. nDCG and AP are
    as in the papers: a document may count more than once.
    """
    top = permutation[..., : metric.k, :]

    def at_ranks(values: Tensor) -> Tensor:  # (..., k): the mean value at each rank
        return (top * values[..., None, :]).sum(-1)

    rank = rank_numbers(lists.scores)[: metric.k]
    if metric.name in ("nDCG", "DCG"):
        return (at_ranks(metric.gains(lists)) / metric.discounted(rank)).sum(-1)
    if metric.name == "ARP":
        every = rank_numbers(lists.scores)
        counted = every if metric.k is None else every.clamp(max=metric.k + 1)
        return _arp(lists, (counted[:, None] * permutation).sum(-2) / _share(permutation))
    if metric.name == "ERR":
        relevant = torch.exp2(lists.labels - metric.max_label) - 2.0**-metric.max_label  # 0 in padding
    else:
        relevant = metric.relevant(lists).to(lists.scores.dtype)
    total = relevant.sum(-1).clamp(min=1)
    if metric.name in ("R", "Success"):
        inside = relevant * top.sum(-2) / _share(permutation)
        return inside.sum(-1) / total if metric.name == "R" else _any(inside)
    found = at_ranks(relevant) / top.sum(-1).clamp(min=1)
    if metric.name == "P":
        return found.sum(-1) / _depth(metric, lists)
    if metric.name == "RBP":
        return (found * metric.stay(rank)).sum(-1)
    if metric.name == "AP":
        return (found * found.cumsum(-1) / rank).sum(-1) / total
    return (found * _reach_probability(found) / rank).sum(-1)  # RR, ERR


def _share(permutation: Tensor) -> Tensor:
    """Return the share of each document over all ranks, `(..., n)`, as a divisor: 1 if the document has no share."""
    share = permutation.sum(-2)
    return torch.where(share > least_scale(share.dtype), share, 1.0)


def on_ranks(metric: MetricFormula, lists: Lists, ranks: Tensor, beta: float = 10.0) -> Tensor:
    """Return the soft metric of soft ranks, `(...)`. For RR, AP and ERR, `lift` converts the ranks to a permutation."""
    ranks = torch.where(lists.mask, ranks, 1.0)  # padding may have rank 0, and its discount would be 0
    if metric.name == "ARP":
        if metric.k is None:
            return _arp(lists, ranks)
        inside = soft_cutoff(ranks, metric.k, beta)
        return _arp(lists, inside * ranks.clamp(max=metric.k + 1) + (1.0 - inside) * (metric.k + 1))
    if metric.name in ("nDCG", "DCG"):
        return (metric.gains(lists) * soft_cutoff(ranks, metric.k, beta) / metric.discounted(ranks)).sum(-1)
    if metric.name == "OPA":
        return _ordered_pairs(metric, lists, ranks, beta)
    if metric.name in ("P", "R", "Success", "RBP"):
        relevant = metric.relevant(lists).to(ranks.dtype)
        inside = relevant * soft_cutoff(ranks, metric.k, beta)
        if metric.name == "Success":
            return _any(inside)
        if metric.name == "RBP":
            return (inside * metric.stay(ranks)).sum(-1)
        return inside.sum(-1) / (relevant.sum(-1).clamp(min=1) if metric.name == "R" else _depth(metric, lists))
    return on_permutation(metric, lists, lift(ranks, lists.mask))


def soft_cutoff(ranks: Tensor, k: int | None, beta: float) -> Tensor:
    """Return the share of each document that is in the top k: sigmoid(beta (k + 1/2 - rank)), or 1 if k is None."""
    # Without k, the share is a constant, but it must stay in the graph.
    return 1.0 + 0.0 * ranks if k is None else (beta * (k + 0.5 - ranks)).sigmoid()


def _any(inside: Tensor) -> Tensor:
    """Return soft Success, `(...)`: the probability that a document is in the top k, from their shares."""
    missed = (1.0 - inside).clamp(min=0.0)
    return 1.0 - _products(missed)[..., -1] if inside.shape[-1] else inside.sum(-1)


def _ordered_pairs(metric: MetricFormula, lists: Lists, ranks: Tensor, beta: float) -> Tensor:
    """Return soft OPA, `(...)`: the share of the pairs y_i > y_j in which document i is ranked before document j."""
    both = lists.mask[..., :, None] & lists.mask[..., None, :]
    higher = both & (lists.labels[..., :, None] > lists.labels[..., None, :])  # (..., i, j)
    right = torch.where(higher, (beta * (ranks[..., None, :] - ranks[..., :, None])).sigmoid(), 0.0).sum(-1)
    lower, inside = higher.sum(-1), soft_cutoff(ranks, metric.k, beta)
    most = lower.sort(-1, descending=True).values[..., : metric.k].sum(-1).clamp(min=1)  # of the best order
    # Soft ranks may put more than k documents before the cutoff.
    return (inside * right).sum(-1) / torch.maximum((inside * lower).sum(-1), most)


def _products(factors: Tensor) -> Tensor:
    """Return the products of the first 1, 2, ... factors, `(..., k)`."""
    products: Tensor = _products_op(factors) if one_node() else factors.cumprod(-1)
    return products


def _reach_probability(chance: Tensor) -> Tensor:
    """Return the probability that a reader reaches each rank, `(..., k)`, for soft RR and ERR.

    `chance` is the probability that the reader stops at a rank.
    """
    missed = (1.0 - chance).clamp(min=0.0)  # rounding may move a sum of shares above 1
    missed = _products(missed)
    return torch.nn.functional.pad(missed[..., :-1], (1, 0), value=1.0) if chance.shape[-1] else missed


def _by_factors(factors: Tensor, products: Tensor, by_products: Tensor) -> Tensor:
    """Return the gradient of the products of the first 1, 2, ... factors, `(..., k)`, also if a factor is 0."""
    this = torch.eye(factors.shape[-1], dtype=torch.bool, device=factors.device)
    without = torch.where(this, 1.0, factors[..., None, :]).cumprod(-1)  # (..., i, k): products without factor i
    return (without.triu() * by_products[..., None, :]).sum(-1)


# The derivative of `cumprod` reads the factors, so `torch.compile` would compile again for each length of lists.
_products_op = register(
    "products(Tensor factors) -> Tensor",
    lambda factors: factors.cumprod(-1),
    torch.empty_like,
    backward=register(
        "products_backward(Tensor factors, Tensor products, Tensor by_products) -> Tensor",
        _by_factors,
        lambda factors, *_: torch.empty_like(factors),
    ),
)


def _depth(metric: MetricFormula, lists: Lists) -> Tensor | int:
    """Return the divisor of soft precision: k or, if k is None, the length of each list."""
    return lists.mask.sum(-1).clamp(min=1) if metric.k is None else metric.k


def _arp(lists: Lists, ranks: Tensor) -> Tensor:
    """Return soft ARP, the mean of the ranks, weighted by the labels. Ranks beyond a cutoff k must already be k + 1."""
    total = lists.labels.sum(-1)
    return (lists.labels * ranks).sum(-1) / torch.where(total > 0, total, 1.0)
