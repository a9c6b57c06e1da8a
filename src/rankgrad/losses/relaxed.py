"""Make a loss from any metric and any relaxation of ranking, with soft permutations or soft ranks."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from rankgrad.errors import bad_type
from rankgrad.lists import Lists, as_lists
from rankgrad.losses.metric_formula import MetricFormula, formula
from rankgrad.metrics import Metric, parse_metric
from rankgrad.relax import Relaxation
from rankgrad.relax.operators import one_node, register
from rankgrad.relax.relaxation import lift, rank_numbers

METRICS = ("nDCG", "DCG", "RR", "AP", "P", "R", "ERR", "ARP")


@dataclass(frozen=True)
class relaxed:
    r"""A loss that is made from a metric and a relaxation: minus the soft metric (for ARP: the soft metric).

    If the operator defines a soft permutation P, the gain or relevance at rank r is the mean over all documents,
    weighted by row r of P. If the operator defines only soft ranks, there are two cases. Metrics that sum over
    documents (nDCG, DCG, P, R, ARP) use the soft ranks in their formulas, with the soft cutoff
    sigmoid(beta (k + 1/2 - rank)). For RR, AP and ERR, `lift` converts the ranks to a permutation.

    Memory and time increase with the square of the length of a list: with `sigmoid_ranks`, a list of 20,000 documents
    needs 5 GB and 33 s on a CPU. `approx_ndcg` is the loss of nDCG and `sigmoid_ranks`; it has a kernel that needs
    little memory.

    Args:
        metric: nDCG, DCG, RR, AP, P, R, ERR or ARP, with its cutoff and options.
        relaxation: any operator of `rankgrad.relax`.
        beta: sharpness of the soft cutoff; only used with soft ranks.

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
        object.__setattr__(self, "metric", parse_metric(self.metric))
        object.__setattr__(self, "_formula", formula(self.metric, METRICS))
        if not isinstance(self.relaxation, Relaxation):
            must = "be an operator such as rankgrad.relax.neural_sort()"
            bad_type("relaxation", must, type(self.relaxation).__name__)

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
    if relaxation.gives_permutation:
        value = on_permutation(metric, lists, relaxation._permutation(lists.scores, lists.mask))
    else:
        value = on_ranks(metric, lists, relaxation._ranks(lists.scores, lists.mask), beta)
    return metric.loss(lists, value, reduction)


def on_permutation(metric: MetricFormula, lists: Lists, permutation: Tensor) -> Tensor:
    """Return the soft metric of a soft permutation, `(...)`.

    Row r of the permutation (from 0) contains each document's share of rank r + 1.
    """

    def at_ranks(values: Tensor) -> Tensor:  # (..., k): the mean value at each rank
        return (permutation[..., : metric.k, :] * values[..., None, :]).sum(-1)

    rank = rank_numbers(lists.scores)[: metric.k]
    if metric.name in ("nDCG", "DCG"):
        return (at_ranks(metric.gains(lists)) / metric.discounted(rank)).sum(-1)
    if metric.name == "ARP":
        every = rank_numbers(lists.scores)
        counted = every if metric.k is None else every.clamp(max=metric.k + 1)
        return _arp(lists, (counted[:, None] * permutation).sum(-2))
    if metric.name == "ERR":
        relevant = torch.exp2(lists.labels - metric.max_label) - 2.0**-metric.max_label  # 0 in padding
    else:
        relevant = metric.relevant(lists).to(lists.scores.dtype)
    found, total = at_ranks(relevant), relevant.sum(-1).clamp(min=1)
    if metric.name == "P":
        return found.sum(-1) / _depth(metric, lists)
    if metric.name == "R":
        return found.sum(-1) / total
    if metric.name == "AP":
        return (found * found.cumsum(-1) / rank).sum(-1) / total
    return (found * _reach_probability(found) / rank).sum(-1)  # RR, ERR


def on_ranks(metric: MetricFormula, lists: Lists, ranks: Tensor, beta: float = 10.0) -> Tensor:
    """Return the soft metric of soft ranks, `(...)`. For RR, AP and ERR, `lift` converts the ranks to a permutation."""
    ranks = torch.where(lists.mask, ranks, 1.0)  # padding may have rank 0, and its discount would be 0
    if metric.name == "ARP":
        if metric.k is None:
            return _arp(lists, ranks)
        inside = soft_cutoff(ranks, metric.k, beta)
        return _arp(lists, inside * ranks + (1.0 - inside) * (metric.k + 1))
    if metric.name in ("nDCG", "DCG"):
        return (metric.gains(lists) * soft_cutoff(ranks, metric.k, beta) / metric.discounted(ranks)).sum(-1)
    if metric.name in ("P", "R"):
        relevant = metric.relevant(lists).to(ranks.dtype)
        total = relevant.sum(-1).clamp(min=1) if metric.name == "R" else _depth(metric, lists)
        return (relevant * soft_cutoff(ranks, metric.k, beta)).sum(-1) / total
    return on_permutation(metric, lists, lift(ranks, lists.mask))


def soft_cutoff(ranks: Tensor, k: int | None, beta: float) -> Tensor:
    """Return the share of each document that is in the top k: sigmoid(beta (k + 1/2 - rank)), or 1 if k is None."""
    # Without k, the share is a constant, but it must stay in the graph.
    return 1.0 + 0.0 * ranks if k is None else (beta * (k + 0.5 - ranks)).sigmoid()


def _reach_probability(chance: Tensor) -> Tensor:
    """Return the probability that a reader reaches each rank, `(..., k)`, for soft RR and ERR.

    `chance` is the probability that the reader stops at a rank. After `lift`, it may be above 1.
    """
    missed = (1.0 - chance).clamp(min=0.0)
    missed = _products_op(missed) if one_node() else missed.cumprod(-1)
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
