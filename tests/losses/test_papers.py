"""The papers' own mathematics: tables they print, theorems they prove, limits they claim."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rankgrad import backend, losses, metrics
from rankgrad.lists import as_lists
from rankgrad.losses import pairwise, swap_deltas
from rankgrad.losses.metric_formula import MetricFormula
from rankgrad.losses.relaxed import on_permutation
from rankgrad.metrics.sort_order import ranks
from rankgrad.relax import (
    fast_sort,
    neural_sort,
    optimal_transport,
    sigmoid_ranks,
    smoothi,
    soft_rank,
    soft_sort,
)

SEEDS = st.integers(0, 2**32 - 1)


@pytest.fixture(autouse=True, scope="module")
def _plain():
    """Mathematics of the readable version, which the fused one is compared with in its own tests."""
    with backend("plain"):
        yield


def floats(*values):
    return torch.tensor(values, dtype=torch.float64)


def random_scores(seed, *shape, scale=1.0):
    return scale * torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def random_labels(seed, *shape, high=5):
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(seed)).double()


# NeuralNDCG, Table 1: labels sorted by NeuralSort at three temperatures. The printed sums are of rounded entries, and
# at temperature 1 without the first; the true ones are given here.
TABLE_1 = {
    0.01: ((4, 4, 3, 2, 0.99992, 0.00012339), 14.0000),
    0.1: ((3.9995, 3.8909, 2.8239, 1.9730, 0.9989, 0.3136), 13.9997),
    1.0: ((3.3893, 2.9820, 2.4965, 2.0191, 1.6097, 1.2815), 13.7781),
}


@pytest.mark.parametrize("temperature", TABLE_1)
def test_neuralndcg_table_1(temperature):
    entries, total = TABLE_1[temperature]
    scores, labels = floats(0.5, 0.2, 0.1, 0.01, 0.65, 0.3), floats(4, 2, 1, 0, 4, 3)
    ordered = neural_sort(temperature).permutation(scores) @ labels
    torch.testing.assert_close(ordered, floats(*entries), rtol=0, atol=5e-5)
    assert round(float(ordered.sum()), 4) == total


@given(seed=SEEDS, n=st.integers(2, 30), scale=st.sampled_from([0.1, 1.0, 10.0]), single=st.booleans())
def test_softmax_bounds_rr_and_ndcg_of_binary_labels(seed, n, scale, single):
    """Softmax paper, Theorems 1 (one relevant document), 2 and 3 (several): a bound in log scale, of the means."""
    scores = random_scores(seed, 20, n, scale=scale)
    labels = random_labels(seed + 1, 20, n, high=2)
    best = random_scores(seed + 2, 20, n).argmax(-1, keepdim=True)  # at least one relevant document a list
    labels = torch.zeros_like(labels).scatter(-1, best, 1.0) if single else labels.scatter(-1, best, 1.0)
    loss = losses.listnet(scores, labels, targets="sum")
    assert loss >= -metrics.rr(scores, labels).log() - 1e-12
    assert loss >= -metrics.ndcg(scores, labels).log() - 1e-12


def delta(scores, k):
    """LambdaLoss@K's delta_ij@K, which depends on the ranks only: the pair weights of any labels, less their gains."""
    lists = as_lists(scores, torch.arange(scores.shape[-1]))  # all different, so that no gap of gains is 0
    metric = MetricFormula("nDCG", k)
    weights = pairwise._scheme_weights(lists, metric, "ndcg2", "sound", mu=0.0)
    apart = swap_deltas.gaps(metric.gains(lists))
    return torch.where(apart > 0, weights / torch.where(apart > 0, apart, 1.0), 0.0)


@given(seed=SEEDS, n=st.integers(2, 12), k=st.integers(1, 13), tied=st.booleans())
def test_lambdaloss_at_k_is_the_cost_of_ndcg_at_k(seed, n, k, tied):
    """LambdaLoss@K Eq. 18-20, for each document and in sum, with ranks for scores, so that ties are safe."""
    scores, labels = random_scores(seed, n), random_labels(seed + 1, n)
    scores = scores.round() if tied else scores
    lists, gain = as_lists(scores, labels), 2**labels - 1
    rank = ranks(lists.scores, lists.mask).double()
    cost = torch.where(rank <= k, gain * (1 - 1 / torch.log2(1 + rank)), gain)
    step = delta(scores, k)
    above = rank[None, :] < rank[:, None]  # j stands above i
    torch.testing.assert_close(cost, gain * (step * above).sum(-1), rtol=1e-9, atol=1e-9)

    dcg = metrics.dcg(scores, labels, k=k)
    torch.testing.assert_close(cost.sum(), gain.sum() - dcg, rtol=1e-9, atol=1e-9)
    wrong = above & (labels[:, None] > labels[None, :])
    shared = torch.minimum(gain[:, None], gain[None, :]) * step
    pairs = (swap_deltas.gaps(gain) * step * wrong).sum() + shared.triu(1).sum()
    torch.testing.assert_close(cost.sum(), pairs, rtol=1e-9, atol=1e-9)

    # What a ranker can change, the first of the two sums, is bounded by the loss (in bits).
    ideal = metrics.dcg(labels, labels, k=k)
    loss = losses.lambdaloss(scores, labels, k=k) / math.log(2)
    assert (swap_deltas.gaps(gain) * step * wrong).sum() <= loss * ideal + 1e-9


@given(seed=SEEDS, n=st.integers(1, 12), beyond=st.integers(0, 5))
def test_lambdaloss_at_infinity_is_lambdaloss(seed, n, beyond):
    scores, labels = random_scores(seed, 3, n).requires_grad_(), random_labels(seed + 1, 3, n)
    for truncation in ("sound", "heuristic"):
        cut = losses.lambdaloss(scores, labels, k=n + beyond, truncation=truncation)
        whole = losses.lambdaloss(scores, labels)
        torch.testing.assert_close(cut, whole)
        torch.testing.assert_close(*(torch.autograd.grad(loss, scores)[0] for loss in (cut, whole)))


def geometric(ratio, n, seed):
    """Strictly positive scores with the same ratio between neighbours, in random order, the smallest 1."""
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    return (ratio ** torch.arange(n, dtype=torch.float64))[order]


def condition_1(k, ratio, delta):
    """SmoothI's Theorem 2: the alpha of (C1), and epsilon as a function of alpha, for a smallest score of 1."""
    c = ((ratio + 1) / 2) ** (1 / (k - 1))
    gamma = min(delta, 0.5 - delta, (1 - delta) * (c - 1) / (c + 1))
    slope = min(1.0, (ratio - 1) / 2) / 2 ** (k - 1)
    return (math.log(k - 1) - math.log(gamma)) / slope, lambda alpha: (k - 1) * math.exp(-alpha * slope)


SMOOTHI_CASES = [
    (k, n, ratio, delta)
    for k in range(2, 6)
    for n in range(k, k + 4)
    for ratio in (1.3, 2.0, 4.0)
    for delta in (0.1, 0.25, 0.4, 0.49)
]


def test_smoothi_theorem_2():
    """Every indicator up to rank K is within epsilon of the truth, and the bound is not met by rounding to 0 alone."""
    worst = 0.0
    for seed, (k, n, ratio, delta) in enumerate(SMOOTHI_CASES):
        scores = geometric(ratio, n, seed)
        alpha, epsilon = condition_1(k, ratio, delta)
        alpha *= 1.001
        mask = torch.ones(n, dtype=torch.bool)
        soft = smoothi(alpha, delta).indicators(scores, mask, k)
        truth = torch.nn.functional.one_hot(scores.argsort(descending=True)[:k], n).double()
        error = float((soft - truth).abs().max())
        assert error <= epsilon(alpha), (k, n, ratio, delta)
        worst = max(worst, error)
    assert worst > 1e-8


def test_smoothi_corollary_1():
    """The metrics inherit the bound: P@K within m epsilon, NDCG@K within N epsilon, AP within N (m + 1) epsilon."""
    worst = 0.0
    for seed, (k, n, ratio, delta) in enumerate(SMOOTHI_CASES):
        if n > 6:
            continue
        scores, labels = geometric(ratio, n, seed), random_labels(seed, n, high=3)
        labels[seed % n] = 2.0
        m = int((labels > 0).sum())
        lists = as_lists(scores, labels)
        for name, depth, factor in (("P", k, m), ("nDCG", k, n), ("AP", n, n * (m + 1))):
            alpha, epsilon = condition_1(depth, ratio, delta)
            alpha *= 1.001
            indicators = smoothi(alpha, delta).indicators(scores, lists.mask, depth)
            metric = metrics.parse_metric(name) @ depth
            soft = on_permutation(MetricFormula(name, depth), lists, indicators)
            error = float((soft - metric.measure(scores, labels)).abs())
            assert error <= factor * epsilon(alpha) + 1e-15, (name, k, n, ratio, delta)
            worst = max(worst, error)
    assert worst > 1e-8


@given(seed=SEEDS, n=st.integers(1, 8), delta=st.sampled_from([0.1, 0.25, 0.49]))
def test_smoothi_tends_to_the_permutation(seed, n, delta):
    """SmoothI Theorem 1 (ii): alpha to infinity."""
    scores = distinct(seed, n)
    truth = torch.nn.functional.one_hot(scores.argsort(descending=True), n).double()
    errors = [(smoothi(alpha, delta).permutation(scores) - truth).abs().max() for alpha in (1e5, 1e7, 1e9)]
    assert errors[0] + 1e-12 >= errors[1] >= errors[2] - 1e-12
    assert errors[2] < 1e-6


@given(seed=SEEDS, n=st.integers(1, 20), alpha=st.floats(0.1, 50), scale=st.floats(0.1, 10))
def test_sigmoid_ranks_within_the_position_bound(seed, n, alpha, scale):
    """LearnDCG Eq. 8: off by less than (n - 1) / (exp(alpha delta) + 1), where delta is the smallest gap of scores."""
    scores = random_scores(seed, n, scale=scale)
    gap = float(scores.sort().values.diff().min()) if n > 1 else 1.0
    exact = ranks(scores, torch.ones(n, dtype=torch.bool))
    error = (sigmoid_ranks(1 / alpha).ranks(scores) - exact).abs().max()
    # In double precision the ranks themselves carry an error of their size times the unit roundoff.
    bound = (n - 1) * math.exp(-alpha * gap) / (1 + math.exp(-alpha * gap))
    assert error <= bound * (1 + 1e-12) + n * 1e-15


@pytest.mark.parametrize("k", [None, 3])
def test_learndcg_printed_discount_base_has_no_gradient(k):
    """ln(b_d) divides out: a zero tensor, not None and not the noise that Adam would blow up to whole steps."""
    scores, labels = random_scores(0, 8, 10).requires_grad_(), random_labels(1, 8, 10)
    learn = losses.LearnDCG(k=k)
    learn(scores, labels).backward()
    assert learn.raw_discount.grad is not None
    assert learn.raw_discount.grad.item() == 0.0
    assert abs(learn.raw_gain.grad.item()) > 1e-6
    assert abs(learn.raw_alpha.grad.item()) > 1e-6
    values = [losses.LearnDCG(discount_base=base, k=k)(scores, labels) for base in (1.5, 2.0, 10.0)]
    assert values[0] == values[1] == values[2]


def test_learndcg_curved_discount():
    """d(1) = 1 for every base; log2(1 + r) at 2; r towards 1; and (d(r) - 1) ln b towards ln r as the base grows."""
    rank = torch.arange(1, 50, dtype=torch.float64)

    def discount(base):
        return losses.LearnDCG(discount_base=base, discount="curved").double()._discount(rank)

    for base in (1 + 1e-9, 1.5, 2.0, 30.0, 1e12):
        torch.testing.assert_close(discount(base)[0], torch.tensor(1.0, dtype=torch.float64), rtol=1e-6, atol=0)
    torch.testing.assert_close(discount(2.0), torch.log2(1 + rank), rtol=1e-6, atol=0)
    torch.testing.assert_close(discount(1 + 1e-9), rank, rtol=1e-6, atol=0)
    for base, tolerance in ((1e6, 1e-4), (1e12, 1e-6)):
        torch.testing.assert_close((discount(base) - 1) * math.log(base), rank.log(), rtol=tolerance, atol=tolerance)
    learn = losses.LearnDCG(discount="curved")
    learn(random_scores(0, 8, 10), random_labels(1, 8, 10)).backward()
    assert abs(learn.raw_discount.grad.item()) > 1e-6


@pytest.mark.parametrize("raw", [-20.0, -50.0, -200.0])
def test_learndcg_bases_at_one_are_limits(raw):
    """As b_g tends to 1 the gain tends to the label, as b_d does the curved discount to the rank: nothing is 0 / 0."""
    scores, labels = random_scores(0, 4, 8).requires_grad_(), random_labels(1, 4, 8)
    learn = losses.LearnDCG(discount="curved").double()
    with torch.no_grad():
        learn.raw_gain.fill_(raw)
        learn.raw_discount.fill_(raw)
    ratio = labels / labels.amax(-1, keepdim=True)
    torch.testing.assert_close(learn._gain(labels), ratio, rtol=1e-6, atol=1e-9)
    loss = learn(scores, labels)
    loss.backward()
    assert all(torch.isfinite(p.grad) for p in (learn.raw_gain, learn.raw_discount, learn.raw_alpha))
    assert torch.isfinite(scores.grad).all()
    flat = metrics.nDCG(gain="linear", discount=lambda rank: rank)
    reference = losses.relaxed(flat, sigmoid_ranks(1.0))(scores, labels)
    torch.testing.assert_close(loss, reference, rtol=1e-6, atol=1e-9)


@given(seed=SEEDS, n=st.integers(1, 12), k=st.one_of(st.none(), st.integers(1, 12)), alpha=st.floats(0.2, 5))
def test_learndcg_that_learns_nothing_is_approx_ndcg(seed, n, k, alpha):
    scores, labels = random_scores(seed, 3, n), random_labels(seed + 1, 3, n)
    for discount in ("log", "curved"):
        learn = losses.LearnDCG(alpha=alpha, discount=discount, learn=(), k=k).double()
        assert not any(parameter.requires_grad for parameter in learn.parameters())
        approx = losses.approx_ndcg(scores, labels, temperature=1 / alpha, k=k)
        torch.testing.assert_close(learn(scores, labels), approx, rtol=1e-5, atol=1e-6)


def distinct(seed, n):
    """Scores without ties, no two closer than 1/2, in random order."""
    generator = torch.Generator().manual_seed(seed)
    steps = 0.5 + torch.rand(n, generator=generator, dtype=torch.float64)
    return steps.cumsum(0)[torch.randperm(n, generator=generator)]


# Each operator at a sharpness that grows from left to right. OT's rounds grow as 1 / epsilon.
SHARPER = {
    "sigmoid_ranks": [sigmoid_ranks(t) for t in (0.3, 0.1, 0.005)],
    "neural_sort": [neural_sort(t) for t in (1.0, 0.3, 0.01)],
    "neural_sort, scaled": [neural_sort(t, sinkhorn_rounds=30) for t in (1.0, 0.3, 0.01)],
    "neural_sort, transposed": [neural_sort(t, sinkhorn_rounds=30, transposed=True) for t in (1.0, 0.3, 0.01)],
    "soft_sort": [soft_sort(t) for t in (0.3, 0.1, 0.005)],
    "soft_sort, squared": [soft_sort(t, p=2) for t in (1.0, 0.1, 0.002)],
    "fast_sort": [fast_sort(t) for t in (10.0, 1.0, 0.01)],
    "fast_sort, entropic": [fast_sort(t, "entropic") for t in (10.0, 1.0, 0.01)],
    "soft_rank": [soft_rank(sigma) for sigma in (1.0, 0.3, 0.02)],
    "smoothi": [smoothi(alpha) for alpha in (1.0, 1e2, 1e6)],
    "optimal_transport": [optimal_transport(eps, rounds=int(3 / eps)) for eps in (0.03, 0.01, 0.001)],
}
LIMITS = [metrics.parse_metric(name) for name in metrics.metric.KINDS]
LIMITS += [metric @ 3 for metric in LIMITS]


@pytest.mark.parametrize("metric", LIMITS, ids=str)
@pytest.mark.parametrize("operator", SHARPER)
def test_relaxations_tend_to_the_exact_metric(operator, metric):
    """On scores without ties every operator and every metric; the soft cutoff sharpens along (`beta`)."""
    scores = torch.stack([distinct(seed, 6) for seed in range(8)])
    labels = random_labels(7, 8, 6)
    labels[:, 2] = 3.0
    sign = -1.0 if metric.higher_is_better else 1.0
    exact = metric.measure(scores, labels, reduction="none")
    tolerance = 1e-3 if operator == "optimal_transport" else 1e-6
    errors = []
    for soft, beta in zip(SHARPER[operator], (10.0, 100.0, 1e6), strict=True):
        value = sign * losses.relaxed(metric, soft, beta=beta)(scores, labels, reduction="none")
        errors.append(float(((value - exact) / exact.clamp(min=1)).abs().max()))
    assert errors[2] < tolerance, errors
    # P, R and Success may be the same for every order, so there nothing is left to come closer.
    unmoved = metric in (metrics.P, metrics.R) or metric.name == "Success"
    assert errors[0] > max(errors[2], 1e-6) or unmoved, "the first is sharp already: nothing is tested"
