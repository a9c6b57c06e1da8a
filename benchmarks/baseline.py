"""The benchmarked losses as in textbooks and other libraries: a fixed baseline, so that ratios stay comparable.

Each takes `(scores, labels)`, both `(lists, n)`, where a label of -1 is padding, and returns the mean over the lists.
Each docstring names the common habit that the function shows. The functions agree with rankgrad's losses on full lists
with a relevant document and scores within a few units. On other lists they fail as other libraries do, so they are not
part of the library.
"""

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

PADDING = -1
EPSILON = 1e-10


def ranknet(scores: Tensor, labels: Tensor) -> Tensor:
    """Habit: an index of all n^2 pairs, both documents of each gathered, the ordered ones picked by a boolean mask."""
    places = torch.arange(scores.shape[1], device=scores.device)
    pairs = torch.cartesian_prod(places, places)  # (n^2, 2)
    pair_scores, pair_labels = scores[:, pairs], labels[:, pairs]  # (lists, n^2, 2)
    wanted = (pair_labels[..., 0] > pair_labels[..., 1]) & (pair_labels != PADDING).all(-1)
    gaps = (pair_scores[..., 0] - pair_scores[..., 1])[wanted]
    return binary_cross_entropy_with_logits(gaps, torch.ones_like(gaps), reduction="sum") / scores.shape[0]


def approx_ndcg(scores: Tensor, labels: Tensor) -> Tensor:
    """Habit: sort everything first, although the ranks are soft; then an n x n matrix of clamped sigmoids."""
    ranked, gains, ideal, real = _sorted(scores, labels)
    both = real[:, :, None] & real[:, None, :]
    gaps = (ranked[:, :, None] - ranked[:, None, :]).masked_fill(~both, 0.0)
    ranks = 0.5 + (both * torch.sigmoid(-gaps).clamp(min=EPSILON)).sum(-1)
    return -((gains / torch.log2(1.0 + ranks)).sum(-1) / ideal).mean()


def learn_dcg(scores: Tensor, labels: Tensor, base: Tensor, alpha: Tensor) -> Tensor:
    """Habit: powers of the learned base, the ideal by a second sort inside the graph."""
    real = labels != PADDING
    gains = (base ** labels.clamp(min=0) - 1) * real
    gaps = (scores[:, :, None] - scores[:, None, :]).masked_fill(~(real[:, :, None] & real[:, None, :]), torch.inf)
    ranks = 0.5 + torch.sigmoid(-alpha * gaps).sum(-1)
    best = gains.sort(-1, descending=True).values
    places = torch.arange(1, scores.shape[1] + 1, device=scores.device)
    return -((gains / torch.log(1.0 + ranks)).sum(-1) / (best / torch.log(1.0 + places)).sum(-1)).mean()


def lambdarank(scores: Tensor, labels: Tensor) -> Tensor:
    """Habit: the logarithm of a clamped sigmoid raised to the weight of its pair, clamped again."""
    ranked, gains, ideal, real = _sorted(scores, labels)
    discounts = torch.log2(1.0 + torch.arange(1, scores.shape[1] + 1, device=scores.device))
    share = gains / ideal[:, None]
    weights = (1 / discounts[:, None] - 1 / discounts[None, :]).abs() * (share[:, :, None] - share[:, None, :]).abs()
    return _weighted_pairs(ranked, gains, real, weights)


def lambdaloss_at_5(scores: Tensor, labels: Tensor) -> Tensor:
    """Habit: as above; the truncation is also computed on all n^2 pairs before those beyond k get a larger weight."""
    ranked, gains, ideal, real = _sorted(scores, labels, k=5)
    places = torch.arange(1, scores.shape[1] + 1, device=scores.device)
    apart = (places[:, None] - places[None, :]).abs()
    deltas = (1 / torch.log2(1.0 + apart) - 1 / torch.log2(2.0 + apart)).abs()
    deltas.diagonal().zero_()
    later = torch.maximum(places[:, None], places[None, :])
    deltas = torch.where(later > 5, deltas / (1 - 1 / torch.log2(1.0 + later)), deltas)
    share = gains / ideal[:, None]
    return _weighted_pairs(ranked, gains, real, deltas * (share[:, :, None] - share[:, None, :]).abs())


def neural_ndcg(scores: Tensor, labels: Tensor) -> Tensor:
    """Habit: Sinkhorn on the n x n matrix, so that autograd keeps all 60 normalised matrices."""
    _, _, ideal, real = _sorted(scores, labels)
    n = scores.shape[1]
    gains = (2.0**labels - 1) * real
    apart = (scores[:, :, None] - scores[:, None, :]).abs().sum(-1)
    factors = n + 1 - 2 * torch.arange(1, n + 1, device=scores.device)
    permutation = torch.softmax(factors[None, :, None] * scores[:, None, :] - apart[:, None, :], -1)
    for _ in range(30):
        permutation = permutation / permutation.sum(1, keepdim=True).clamp(min=EPSILON)
        permutation = permutation / permutation.sum(2, keepdim=True).clamp(min=EPSILON)
    discounts = torch.log2(1.0 + torch.arange(1, n + 1, device=scores.device))
    return -(((permutation @ gains[:, :, None])[..., 0] / discounts).sum(-1) / ideal).mean()


def smooth_ndcg(scores: Tensor, labels: Tensor, k: int = 10) -> Tensor:
    """Habit: a Python loop over ranks with one softmax per rank; the shift is a minimum that includes padding."""
    _, _, ideal, _ = _sorted(scores, labels, k=k)
    shifted = scores - scores.min(-1, keepdim=True).values
    left, value = torch.ones_like(scores), scores.new_zeros(len(scores))
    for rank in range(1, k + 1):
        indicator = torch.softmax(shifted * left, -1)
        value = value + (2 ** (indicator * labels).sum(-1) - 1) / torch.log2(torch.tensor(1.0 + rank))
        left = left * (1 - indicator.detach() - 0.1)
    return -(value / ideal).mean()


def listmle(scores: Tensor, labels: Tensor) -> Tensor:
    """Habit: the logarithm of a cumulative sum of exponentials plus an epsilon; distant scores underflow."""
    by_label, places = labels.sort(dim=-1, descending=True, stable=True)
    chosen = scores.gather(1, places).masked_fill(by_label == PADDING, -torch.inf)
    shifted = chosen - chosen.max(-1, keepdim=True).values
    remaining = shifted.exp().flip(1).cumsum(1).flip(1)
    terms = (torch.log(remaining + EPSILON) - shifted).masked_fill(by_label == PADDING, 0.0)
    return terms.sum(-1).mean()


def softmax(scores: Tensor, labels: Tensor) -> Tensor:
    """Habit: the logarithm of a softmax plus an epsilon."""
    padding = labels == PADDING
    probability = torch.softmax(scores.masked_fill(padding, -torch.inf), -1)
    return -(labels.masked_fill(padding, 0.0) * torch.log(probability + EPSILON)).sum(-1).mean()


def _sorted(scores: Tensor, labels: Tensor, k: int | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return scores, gains and mask in the order of the scores, and the ideal DCG@k, `(lists,)`."""
    ranked, places = scores.masked_fill(labels == PADDING, -torch.inf).sort(-1, descending=True)
    by_score = labels.gather(1, places)
    best = labels.clamp(min=0).sort(-1, descending=True).values[:, :k]
    discounts = torch.log2(1.0 + torch.arange(1, best.shape[1] + 1, device=scores.device))
    ideal = ((2.0**best - 1) / discounts).sum(-1).clamp(min=EPSILON)
    return ranked, 2.0 ** by_score.clamp(min=0) - 1, ideal, by_score != PADDING


def _weighted_pairs(ranked: Tensor, gains: Tensor, real: Tensor, weights: Tensor) -> Tensor:
    gaps = (ranked[:, :, None] - ranked[:, None, :]).clamp(-1e8, 1e8)
    gaps = torch.where(gaps.isnan(), 0.0, gaps)
    likelihood = (torch.sigmoid(gaps).clamp(min=EPSILON) ** weights).clamp(min=EPSILON)
    counted = (gains[:, :, None] > gains[:, None, :]) & real[:, :, None] & real[:, None, :]
    return -torch.log(likelihood)[counted].sum() / len(ranked)
