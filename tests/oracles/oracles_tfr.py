"""TF-Ranking's recorded numbers as calls of ours, and the conversion where conventions differ.

TF-Ranking sees a loss as terms (documents, pairs or lists), each with a weight, and divides `sum(term * weight)` by 1,
by the sum of the weights or by the number of weights that are not 0. Ours gives one value a list, so each function here
says the weighted sum of a list's terms (from our loss), the sum of their weights and how many are not 0.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from rankgrad import losses
from rankgrad.kernels.options import Truncation
from rankgrad.lists import Lists, as_lists
from rankgrad.losses import pairwise, swap_deltas
from rankgrad.losses.ideal_dcg import gains, ideal_dcg
from rankgrad.losses.metric_formula import MetricFormula
from rankgrad.metrics.sort_order import ranks
from rankgrad.relax import neural_sort, sigmoid_ranks

Call = dict[str, Any]

RANDOM = "draws from TensorFlow's random stream; ours is `gumbel`, tested with given noise"
PAIRWISE_MSE = "squares score gaps of all pairs, equal labels included: rankgrad has no such loss"
NOT_OURS = {
    "CircleLoss": "circle loss, which rankgrad does not have",
    "circle_loss": "circle loss, which rankgrad does not have",
    "ClickEMLoss": "expectation maximisation over clicks: a click model, not a loss of labelled lists",
    "MixtureEMLoss": "expectation maximisation over a mixture of models, not a loss of labelled lists",
    "OrdinalLoss": "ordinal regression needs several scores a document; ours has one",
    "CoupledRankDistilLoss": "distillation, on a permutation drawn from TensorFlow's random stream",
    "PairwiseMSELoss": PAIRWISE_MSE,
    "pairwise_mse_loss": PAIRWISE_MSE,
    "YetiDCGLambdaWeight": "YetiRank weighs neighbours in the ranking only: rankgrad has no such scheme",
    "yeti_logistic_loss": "YetiRank, on TensorFlow's random stream",
    "GumbelSampler": RANDOM,
    "gumbel_approx_ndcg_loss": RANDOM,
}
POINTWISE = {"meansquared": losses.mse, "sigmoidcrossentropy": losses.bce}
OF_GAP = {
    "pairwiselogistic": lambda gap: -torch.nn.functional.logsigmoid(gap),
    "pairwisehinge": lambda gap: torch.relu(1 - gap),
    "pairwisesoftzeroone": lambda gap: torch.sigmoid(-gap),  # no loss of ours; our sum over pairs
}


class Terms(NamedTuple):
    """What TF-Ranking reduces, by list."""

    total: Tensor  # (lists,), sum of term x weight
    weight: Tensor  # (lists,), sum of the weights
    nonzero: Tensor  # (lists,), how many weights are not 0

    @classmethod
    def of_lists(cls, values: Tensor, weight: Tensor) -> "Terms":
        return cls(values * weight, weight, (weight != 0).to(weight.dtype))


def value(case: Call) -> Tensor:
    """Our number for a case of method `compute`, `compute_per_list`, `compute_unreduced_loss` or `call`."""
    total, weight, nonzero = terms(case)
    if case["method"] == "compute_per_list":
        if case["output"] == "per_list_weight":
            return weight
        return total / weight
    if case["method"] == "compute_unreduced_loss":
        return total
    reduction = case.get("reduction") or case["params"]["reduction"]
    if reduction == "weighted_sum":
        return total.sum()
    return total.sum() / (weight if reduction == "weighted_mean" else nonzero).sum()


def expected(case: Call) -> Tensor:
    """The recorded number; of unreduced documents or pairs the sum in each list, which is what we have."""
    recorded = torch.tensor(case["expected"], dtype=torch.float64)
    if case["fn"] == "neural_sort" and "mask" in case:
        # Theirs sorts the padding among itself, in the last rows; ours leaves it out.
        recorded[:, int(torch.tensor(case["mask"]).sum()) :] = 0.0
    return recorded.flatten(1).sum(-1) if case["method"] == "compute_unreduced_loss" else recorded


def terms(case: Call) -> Terms:
    kind = case["fn"].replace("_", "").lower().removesuffix("loss")
    lists, params = lists_of(case), dict(case.get("params") or {})
    usual = 0.1 if case["method"] == "call" and kind.startswith("approx") else 1.0
    temperature = params.get("params", params).get("temperature", usual)
    if kind in POINTWISE:
        return of_documents(kind, lists)
    if kind in OF_GAP:
        return of_pairs(kind, lists, params.get("lambda_weight"))
    if kind in ("softmax", "polyonesoftmax"):
        return of_softmax(kind, lists, params)
    if kind == "listmle" and case["id"] in FLIPPED:
        scores, labels, mask = (tensor.flip(-1) for tensor in (lists.scores, lists.labels, lists.mask))
        lists = as_lists(scores, labels, mask=mask, weights=torch.ones_like(scores))
    return Terms.of_lists(list_values(kind, lists, temperature, params), list_weights(lists, "weights" in case))


# TF-Ranking breaks ties of labels at random; in these cases the later document came first.
FLIPPED = ("tfr-038", "tfr-069")


def lists_of(case: Call) -> Lists:
    """Padded lists, where a label below 0 is padding; or ragged ones, which are our flat layout."""
    labels, scores = case["labels"], case.get("scores", case["labels"])
    weights = case.get("weights")
    if isinstance(labels, dict):
        offsets = torch.tensor([0, *(len(row) for row in labels["ragged"])]).cumsum(0)
        s, y, w = (torch.tensor([v for row in x["ragged"] for v in row]) for x in (scores, labels, weights or labels))
        w = w.double() if weights else torch.ones(len(y), dtype=torch.float64)
        return as_lists(s.double(), y, offsets=offsets, weights=w)
    y = torch.tensor(labels, dtype=torch.float64)
    mask = torch.tensor(case["mask"]) if "mask" in case else y >= 0
    w = torch.tensor(weights or 1.0, dtype=torch.float64).expand(y.shape)
    return as_lists(torch.tensor(scores, dtype=torch.float64), y, mask=mask, weights=w)


def arguments(lists: Lists) -> tuple[tuple[Tensor, Tensor], dict[str, Any]]:
    return (lists.scores, lists.labels), {"mask": lists.mask, "reduction": "none"}


def of_documents(kind: str, lists: Lists) -> Terms:
    """Ours is a mean over documents; TF-Ranking's cross entropy takes a label of 2 for a probability of 2."""
    (scores, labels), options = arguments(lists)
    total = POINTWISE[kind](scores, labels, weights=lists.weights, **options) * lists.mask.sum(-1)
    if kind == "sigmoidcrossentropy":
        total = total - (lists.weights * scores * (labels - (labels > 0).double())).sum(-1)
    return Terms(total, lists.weights.sum(-1), (lists.weights != 0).double().sum(-1))


def of_pairs(kind: str, lists: Lists, scheme: Call | None) -> Terms:
    """Ours is a sum over the pairs whose labels differ; a lambda weight is one more factor of their weights."""
    both = lists.mask[..., :, None] & lists.mask[..., None, :]
    ordered = both & (lists.labels[..., :, None] > lists.labels[..., None, :])
    weight = None if scheme is None else pair_weights(lists, scheme)
    each = torch.where(ordered, lists.weights[..., :, None] * (1.0 if weight is None else weight), 0.0)
    (scores, labels), options = arguments(lists)
    if scheme is None and kind == "pairwiselogistic":
        total = losses.ranknet(scores, labels, weights=lists.weights, **options)
    elif scheme is None and kind == "pairwisehinge":
        total = losses.hinge(scores, labels, weights=lists.weights, **options)
    else:
        total = pairwise.pair_loss(lists, weight, OF_GAP[kind])
    return Terms(total, each.sum((-2, -1)), (each != 0).double().sum((-2, -1)))


def of_softmax(kind: str, lists: Lists, params: Call) -> Terms:
    """A term is ListNet's, its weight the sum of the labels: together our softmax, whose labels are not normalised."""
    labels = lists.labels
    if "lambda_weight" in params:
        metric = formula(params["lambda_weight"], "DCG")
        labels = metric.gains(lists) / metric.discounted(ranks(lists.scores, lists.mask).double())
    options = {"mask": lists.mask, "weights": lists.weights, "reduction": "none"}
    mass = (labels * lists.weights).sum(-1)
    values = losses.listnet(lists.scores, labels, targets="sum", **options)
    if kind == "polyonesoftmax":
        # TF-Ranking multiplies the polynomial term by the sum of the labels too, Rax and we do not.
        plain = losses.softmax(lists.scores, labels, **options)
        whole = losses.poly1_softmax(lists.scores, labels, epsilon=params.get("epsilon", 1.0), **options)
        values = values + whole - plain
    return Terms.of_lists(values, mass)


def list_values(kind: str, lists: Lists, temperature: float, params: Call) -> Tensor:
    (scores, labels), options = arguments(lists)
    if kind == "approxndcg":
        return losses.approx_ndcg(scores, labels, temperature=temperature, **options)
    if kind == "approxmrr":
        # The mean of 1 / rank over relevant documents, where ours takes the largest; one relevant document: the same.
        relevant = (labels > 0).double()
        if (relevant.sum(-1) <= 1).all():
            return losses.approx_mrr(scores, labels, temperature=temperature, **options)
        place = torch.where(lists.mask, sigmoid_ranks(temperature).ranks(scores, lists.mask), 1.0)
        return -(relevant / place).sum(-1) / relevant.sum(-1).clamp(min=1)
    if kind == "neuralsortndcg":
        return losses.neural_ndcg(scores, labels, temperature=temperature, sinkhorn_rounds=0, **options)
    if kind == "neuralsortcrossentropy":
        # No loss of ours, but our operator: cross entropy between the sorted labels and the sorted scores, row by row.
        operator = neural_sort(temperature)
        truth, guess = (operator.permutation(x, lists.mask) for x in (labels, scores))
        values = -(truth * guess.clamp(min=1e-20).log()).sum((-2, -1)) / lists.mask.sum(-1)
        return torch.where((labels > 0).any(-1), values, 0.0)
    if kind == "uniquesoftmax":
        return losses.unique_softmax(scores, labels, **options)
    if "lambda_weight" in params:
        # The discount 2^(n - rank) - 1 makes it position-aware ListMLE, which we divide by its first weight.
        return losses.p_listmle(scores, labels, ties="position", **options) * (2 ** (lists.mask.sum(-1) - 1) - 1)
    return losses.listmle(scores, labels, ties="position", **options)


def list_weights(lists: Lists, weighted: bool) -> Tensor:
    """One weight a list: the mean of its documents' weights by their labels; 0 without a relevant one."""
    if not weighted:
        return torch.ones_like(lists.labels[..., 0])
    return (lists.weights * lists.labels).sum(-1) / lists.labels.sum(-1).clamp(min=1e-30)


def normalized_weights(case: Call) -> Tensor:
    """TF-Ranking's step before the reduction: weights of documents, of pairs (that of the first), or of lists."""
    lists = lists_of(case)
    if case["fn"] == "MeanSquaredLoss":
        return lists.weights
    return lists.weights[..., None] if case["fn"].startswith("Pairwise") else list_weights(lists, True)[:, None]


def formula(scheme: Call, name: str = "nDCG") -> MetricFormula:
    """Gain and discount are recorded as tables of their values at 1 to 4; by default the label, and 1 / rank."""
    gain = "exp" if scheme.get("gain_fn", {}).get("fn_table", {}).get("2") == 3 else "linear"
    table = scheme.get("rank_discount_fn", {}).get("fn_table", {"1": 1})
    return MetricFormula(name, scheme.get("topn"), gain, torch.log1p if table["1"] > 1 else lambda rank: rank)


def pair_weights(lists: Lists, scheme: Call) -> Tensor:
    """TF-Ranking's are ours times the list size, and divided by the ideal DCG only if `normalized`."""
    metric = formula(scheme)
    if scheme.get("smooth_fraction"):
        weight = swap_deltas.difference(lists, metric)
    else:
        weight = pairwise._scheme_weights(lists, metric, "ndcg2", Truncation.HEURISTIC, mu=0.0)
    if not scheme.get("normalized"):
        ideal = ideal_dcg(gains(lists.labels, lists.mask, metric.gain, scaled=False), metric.k, metric.discounted)
        weight = weight * ideal[..., None, None]
    return weight * lists.labels.shape[-1]


def lambda_weights(case: Call) -> Tensor:
    """Weights of pairs or documents at given ranks, which are those of scores that fall with them."""
    lists = as_lists(-torch.tensor(case["ranks"], dtype=torch.float64), torch.tensor(case["labels"]))
    scheme = case.get("params") or {}
    if case["fn"] == "PrecisionLambdaWeight":
        return swap_deltas.difference(lists, MetricFormula("P", scheme["topn"]))  # not times the list size, this one
    if case["method"] == "individual_weights":
        metric = formula(scheme)
        return metric.gains(lists) / metric.discounted(torch.tensor(case["ranks"]))
    return pair_weights(lists, scheme)


def function(case: Call) -> Tensor:
    """TF-Ranking's small functions, as the pieces of ours that do the same."""
    scores = torch.tensor(case["scores"], dtype=torch.float64)
    if case["fn"] == "approx_ranks":
        return sigmoid_ranks(0.1).ranks(scores)
    return neural_sort().permutation(scores, torch.tensor(case["mask"]) if "mask" in case else None)
