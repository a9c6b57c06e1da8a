"""Rax's recorded numbers as calls of ours: which of our calls each one is, and the conversion where conventions differ.

A Rax call has `scores`, `labels`, and maybe `where`, `segments`, `weights`, `reduce`, `params`. Segments become our
flat layout, everything else our padded one. What Rax does differently, and what makes it equal, is said at each
function.
"""

import functools
from typing import Any

import torch
from torch import Tensor

from rankgrad import losses
from rankgrad.lists import Lists, as_lists
from rankgrad.losses import likelihood, listwise, pairwise, swap_deltas
from rankgrad.losses.metric_formula import MetricFormula
from rankgrad.losses.relaxed import on_ranks, soft_cutoff
from rankgrad.metrics import dcg, parse_metric
from rankgrad.metrics.sort_order import ranks
from rankgrad.relax import sigmoid_ranks

Call = dict[str, Any]

# The names Rax gives its losses, and ours. Both take weights alike.
LISTWISE = {
    "softmax_loss": losses.softmax,
    "listmle_loss": functools.partial(losses.listmle, ties="position"),
    "poly1_softmax_loss": losses.poly1_softmax,
    "unique_softmax_loss": losses.unique_softmax,
}
POINTWISE = {"pointwise_mse_loss": losses.mse, "pointwise_sigmoid_loss": losses.bce}
PAIRWISE = {"pairwise_logistic_loss": losses.ranknet, "pairwise_hinge_loss": losses.hinge}
OF_GAP = {
    "pairwise_logistic_loss": lambda gap: -torch.nn.functional.logsigmoid(gap),
    "pairwise_hinge_loss": lambda gap: torch.relu(1 - gap),
    "pairwise_soft_zero_one_loss": lambda gap: torch.sigmoid(-gap),  # no loss of ours; our sum over pairs
}
METRICS = {"mrr": "RR", "recall": "R", "precision": "P", "ap": "AP", "dcg": "DCG", "ndcg": "nDCG"}

NOT_OURS = {
    "pairwise_mse_loss": "squares score gaps of all pairs, equal labels included: rankgrad has no such loss",
    "pairwise_qr_loss": "quantile regression of pairs: rankgrad has no such loss",
}


def value(call: Call, scores: Tensor | None = None) -> Tensor:
    """Our number for a Rax call; `scores`, a leaf like the call's own, to take gradients by."""
    scores = tensor(call["scores"]) if scores is None else scores
    fn, params = call["fn"], call.get("params") or {}
    if "t12n(" in fn or "rank_fn" in fn:
        return soft_metric(call, scores)
    lists = arranged(call, scores)
    documents = lists.mask.sum(-1)
    if fn in LISTWISE:
        # Rax averages over the lists that have a document, we over those that carry signal.
        return reduced(call, LISTWISE[fn](*given(lists), **weighing(lists), **params), documents > 0)
    if fn in POINTWISE:
        # Rax averages over all documents of the batch at once, we over those of a list, then over lists.
        per_list = POINTWISE[fn](*given(lists), **weighing(lists)) * documents
        return per_list if call.get("per_list") else reduced(call, per_list, documents)
    per_list = pair_sums(call, lists, params)
    # Rax averages over all ordered pairs of the batch at once; our lists are sums over theirs.
    ordered = lists.mask[..., :, None] & lists.mask[..., None, :]
    ordered = ordered & (lists.labels[..., :, None] > lists.labels[..., None, :])
    return per_list if call.get("per_list") else reduced(call, per_list, ordered)


def tensor(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def given(lists: Lists) -> tuple[Tensor, Tensor]:
    return lists.scores, lists.labels


def weighing(lists: Lists) -> dict[str, Any]:
    return {"mask": lists.mask, "weights": lists.weights, "reduction": "none"}


def reduced(call: Call, values: Tensor, counted: Tensor) -> Tensor:
    """The sum, or the mean over what Rax counts; nothing to count gives 0."""
    if call.get("per_list"):
        return values
    total = values.sum()
    return total if call.get("reduce") == "sum" else total / counted.sum().clamp(min=1)


def arranged(call: Call, scores: Tensor) -> Lists:
    """Our lists: padded ones as they are; the documents of a segment, wherever they stand, become a flat list."""
    labels, where = tensor(call["labels"]), torch.tensor(call["where"]) if "where" in call else None
    weights = tensor(call["weights"]) if "weights" in call else None
    if "segments" not in call:
        return as_lists(scores, labels, mask=where, weights=weights)
    index, offsets = flattened(torch.tensor(call["segments"]), where)
    flat = [None if x is None else x.reshape(-1)[index] for x in (scores, labels, weights)]
    return as_lists(flat[0], flat[1], offsets=offsets, weights=flat[2])


def flattened(segments: Tensor, where: Tensor | None) -> tuple[Tensor, Tensor]:
    """Positions of the real documents, those of a segment of a row together, and the offsets of these lists."""
    rows = segments.reshape(-1, segments.shape[-1])
    owner = (torch.arange(len(rows))[:, None] * (rows.max() + 1) + rows).reshape(-1)
    real = torch.ones_like(owner, dtype=torch.bool) if where is None else where.reshape(-1)
    index = owner.argsort(stable=True)
    index = index[real[index]]
    sizes = owner[index].unique_consecutive(return_counts=True)[1]
    return index, torch.nn.functional.pad(sizes.cumsum(0), (1, 0))


def pair_sums(call: Call, lists: Lists, params: Call) -> Tensor:
    """One sum over pairs a list: our loss, or, where Rax weighs pairs, our sum over pairs with those weights."""
    fn, scheme = call["fn"], params.get("lambdaweight_fn")
    if scheme is None and fn in PAIRWISE:
        return PAIRWISE[fn](*given(lists), **weighing(lists))
    if scheme == "labeldiff_lambdaweight" and fn == "pairwise_logistic_loss":
        return losses.lambdaloss(*given(lists), scheme="arp2", **weighing(lists))
    weights = None if scheme is None else pair_weights(scheme, lists, params, size=len_of(call["scores"]))
    return pairwise.pair_loss(lists, weights, OF_GAP[fn])


def len_of(values: Any) -> int:
    while isinstance(values[0], list):
        values = values[0]
    return len(values)


def pair_weights(scheme: str, lists: Lists, params: Call, size: int) -> Tensor:
    """Rax's lambda weights are ours times the padded list size, and not divided by the ideal DCG unless told to."""
    both = lists.mask[..., :, None] & lists.mask[..., None, :]
    if scheme == "labeldiff_lambdaweight":
        return torch.where(both, swap_deltas.gaps(lists.labels), 0.0)
    if lists.weights is not None:
        # Rax weighs gains; ours is a function of labels, so the label becomes the one that has the weighed gain.
        weighed = torch.log2(1 + lists.weights * (2**lists.labels - 1))
        lists = as_lists(lists.scores, weighed, mask=lists.mask)
    metric = MetricFormula("nDCG", params.get("topn"))
    rank = ranks(lists.scores, lists.mask).to(lists.scores.dtype)
    if scheme == "dcg_lambdaweight":
        weight = swap_deltas.difference(lists, metric)
    elif params.get("light_discount"):
        distance = swap_deltas.gaps(rank).clamp(min=1)
        weight = swap_deltas.gaps(metric.gains(lists)) / metric.discounted(distance)
    else:
        weight = pairwise._scheme_weights(lists, metric, "ndcg2", "sound", mu=0.0)
    if not params.get("normalize"):
        weight = (
            weight * dcg(lists.labels, lists.labels, mask=lists.mask, k=metric.k, reduction="none")[..., None, None]
        )
    return torch.where(both, weight, 0.0) * size


def lambda_weights(call: Call) -> Tensor:
    """Rax's flattened `(..., n * n)` weights; ours of each segment go back to where its documents stood."""
    scores, params = tensor(call["scores"]), call.get("params") or {}
    n = scores.shape[-1]
    ours = pair_weights(call["fn"], arranged(call, scores), params, size=n)
    if "segments" not in call:
        return ours.flatten(-2)
    index, offsets = flattened(torch.tensor(call["segments"]), None)
    whole = scores.new_zeros(n, n)
    for block, start, end in zip(ours, offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        here = index[start:end]
        whole[here[:, None], here] = block[: end - start, : end - start]
    return whole.flatten()


def soft_metric(call: Call, scores: Tensor) -> Tensor:
    """Minus a metric at soft ranks: sigmoid ones (`approx_t12n`), or hinge ones that bound it (`bound_t12n`)."""
    fn, params = call["fn"], call.get("params") or {}
    lists, k = arranged(call, scores), params.get("topn")
    temperature = params.get("temperature", 1.0)
    name = METRICS[fn.split("(")[-1].split("_metric")[0]]
    sign = -1.0 if "t12n" in fn else 1.0
    if fn.startswith("bound"):
        # Ranks that count a rival by hinge instead of sigmoid: no operator of ours, but ranks for our formulas.
        behind = torch.relu(1 + lists.scores[..., None, :] - lists.scores[..., :, None])
        place = torch.where(lists.mask[..., None, :], behind, 0.0).sum(-1)
    elif k is None and name in ("nDCG", "DCG", "P", "R"):
        return -sign * losses.relaxed(parse_metric(name), sigmoid_ranks(temperature))(*given(lists), mask=lists.mask)
    else:
        place = sigmoid_ranks(temperature).ranks(lists.scores, lists.mask)
    # Rax's AP counts relevant documents in the padding too, at rank 1.
    leaked = (~lists.mask & (tensor(call["labels"]) >= 1)).sum(-1, keepdim=True)
    return sign * at_ranks(MetricFormula(name, k), lists, place, 1 / temperature, leaked).mean()


def at_ranks(metric: MetricFormula, lists: Lists, place: Tensor, beta: float, leaked: Tensor) -> Tensor:
    """Rax's metrics at soft ranks. They differ from ours in how soft counts enter:

    the cutoff lies half way between the k-th and the next of the soft ranks, padding at rank 1 among them, and is held
    constant (ours: at k + 1/2); RR takes the largest 1 / rank (ours: softmax-weighted); AP counts the relevant
    documents above by comparing soft ranks (ours: softly).
    """
    place = torch.where(lists.mask, place, 1.0)
    inside = lists.mask.to(place.dtype)
    if metric.k is not None:
        lowest = place.detach().sort(-1).values
        middle = (lowest[..., metric.k - 1] + lowest[..., metric.k])[..., None] / 2
        inside = inside * soft_cutoff(place + (metric.k + 0.5 - middle), metric.k, beta)
    elif metric.name not in ("RR", "AP"):
        return on_ranks(metric, lists, place)
    if metric.name in ("nDCG", "DCG"):
        return (metric.gains(lists) * inside / metric.discounted(place)).sum(-1)
    relevant = metric.relevant(lists).to(place.dtype)
    if metric.name == "R":
        return (relevant * inside).sum(-1) / relevant.sum(-1)
    each = relevant * inside / place
    if metric.name == "RR":
        return each.amax(-1)
    above = ((place[..., :, None] >= place[..., None, :]) * relevant[..., None, :]).sum(-1) + leaked
    return (each * above).sum(-1) / relevant.sum(-1)


def utility(call: Call) -> Tensor:
    """Rax's small functions, as the pieces of ours that do the same."""
    x, params = tensor(call["x"]), call.get("params") or {}
    if call["fn"] == "approx_ranks":
        return sigmoid_ranks().ranks(x)
    if call["fn"] == "logcumsumexp":
        # The field that each document is chosen from when later ones come first: Plackett-Luce term plus own score.
        lists = as_lists(x, torch.arange(len(x)))
        return likelihood.plackett_luce(lists, ties="position").flip(-1) + x
    where = torch.tensor(call["where"]) if "where" in call else None
    segments = torch.tensor(call["segments"]) if "segments" in call else torch.zeros_like(x, dtype=torch.long)
    index, offsets = flattened(segments, where)
    lists = as_lists(x.reshape(-1)[index], x.reshape(-1)[index], offsets=offsets)
    if call["fn"] == "normalize_probabilities":
        answer = listwise._distribution(lists.labels)
    else:
        # A cutoff at rank k, by a step or by a sigmoid. These x are one apart, so the sigmoid of x is that of the rank.
        beta = 1e9 if "step_fn" in params else 1.0
        answer = soft_cutoff(ranks(lists.scores, lists.mask).to(x.dtype), params.get("n"), beta)
    return torch.zeros(x.numel(), dtype=x.dtype).index_copy(0, index, answer[lists.mask]).reshape(x.shape)
