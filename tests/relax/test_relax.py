"""Every operator of `rankgrad.relax` against plain loops, its limits, its sums, and its gradients."""

import math
import random

import numpy as np
import pytest
import references_relax as references
import torch
from every_loss import OPERATORS
from hypothesis import given, settings
from strategies import ragged_lists

from rankgrad import relax
from rankgrad.relax.relaxation import lift

every_operator = pytest.mark.parametrize("operator", OPERATORS, ids=repr)
PERMUTING = [operator for operator, (form, _) in OPERATORS.items() if form == "permutation"]
# As close to sorting as each gets without leaving the range of float64.
SHARP = [
    relax.neural_sort(temperature=1e-3),
    relax.neural_sort(temperature=1e-3, sinkhorn_rounds=30),
    relax.neural_sort(temperature=1e-3, sinkhorn_rounds=30, transposed=True),
    relax.soft_sort(temperature=1e-3),
    relax.soft_sort(temperature=1e-3, p=2),
    relax.sigmoid_ranks(temperature=1e-3),
    relax.fast_sort(temperature=1e-3),
    relax.fast_sort(temperature=1e-3, regularisation="entropic"),
    relax.optimal_transport(temperature=4e-4, rounds=2500),
    relax.smoothi(alpha=1e6),
    relax.soft_rank(sigma=1e-3),
]
SCORES = torch.tensor([0.3, -1.2, 2.1, 0.9, -0.4], dtype=torch.float64)


def plain(operator, scores):
    """Soft permutation and soft ranks of one list, in plain loops."""
    form, reference = OPERATORS[operator]
    if not scores:
        return [], []
    if form == "permutation":
        permutation = reference(scores)
        return permutation, references.mean_ranks(permutation)
    ranks = reference(scores)
    return references.lift(ranks), ranks


@every_operator
@settings(max_examples=10)
@given(lists=ragged_lists(generic=True))
def test_equals_the_plain_loop_under_any_mask(operator, lists):
    batch = lists.padded(extra=2, junk=math.nan, random=random.Random(0))
    mask = batch.layout["mask"]
    permutations, ranks = operator.permutation(batch.scores, mask), operator.ranks(batch.scores, mask)
    ordered = operator.sort(batch.scores, mask)
    for l, scores in enumerate(lists.column("score")):
        expected, expected_ranks = (torch.tensor(x, dtype=torch.float64) for x in plain(operator, scores))
        m, real = len(scores), mask[l]
        torch.testing.assert_close(permutations[l][:m][:, real].detach(), expected.reshape(m, m), rtol=1e-9, atol=1e-10)
        torch.testing.assert_close(ranks[l][real].detach(), expected_ranks, rtol=1e-9, atol=1e-10)
        # What is no document, or no rank of the list, holds nothing.
        assert not permutations[l][m:].any()
        assert not permutations[l][:, ~real].any()
        assert not ranks[l][~real].any()
        assert not ordered[l][m:].any()


@every_operator
def test_padding_takes_no_gradient(operator):
    mask = torch.tensor([[True, False, True, True], [False] * 4])
    scores = torch.tensor([[1.0, math.nan, 3.0, 2.5], [math.nan] * 4], dtype=torch.float64, requires_grad=True)
    weights = torch.arange(4.0, dtype=torch.float64)
    for soft in (operator.permutation(scores, mask), operator.ranks(scores, mask), operator.sort(scores, mask)):
        (gradient,) = torch.autograd.grad((soft * weights).sum(), scores)
        assert gradient.isfinite().all()
        assert not gradient[~mask].any()


@every_operator
def test_sort_and_top_k_come_from_the_permutation(operator):
    permutation = operator.permutation(SCORES)
    torch.testing.assert_close(operator.top_k(SCORES, 2), permutation[:2].sum(0))
    torch.testing.assert_close(operator.top_k(SCORES, 9), permutation.sum(0))
    if not isinstance(operator, relax.fast_sort):
        torch.testing.assert_close(operator.sort(SCORES), permutation @ SCORES)


ROWS = [operator for operator in OPERATORS if isinstance(operator, relax.neural_sort | relax.soft_sort | relax.smoothi)]
COLUMNS = [
    relax.soft_rank(),
    relax.sigmoid_ranks(),
    relax.fast_sort(2.0),
    relax.neural_sort(1.0, 5, transposed=True),
]


@pytest.mark.parametrize("operator", ROWS, ids=repr)
def test_rows_sum_to_one(operator):
    torch.testing.assert_close(operator.permutation(SCORES).sum(-1), torch.ones(5, dtype=torch.float64))


@pytest.mark.parametrize("operator", COLUMNS, ids=repr)
def test_columns_sum_to_one(operator):
    torch.testing.assert_close(operator.permutation(SCORES).sum(-2), torch.ones(5, dtype=torch.float64))


@pytest.mark.parametrize(
    "operator", [relax.neural_sort(1.0, 100), relax.optimal_transport(temperature=0.1, rounds=500)], ids=repr
)
def test_scaled_permutations_are_doubly_stochastic(operator):
    for axis in (-1, -2):
        sums = operator.permutation(SCORES).sum(axis)
        torch.testing.assert_close(sums, torch.ones_like(sums), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("operator", SHARP, ids=repr)
def test_tends_to_sorting(operator):
    order = SCORES.argsort(descending=True)
    exact = torch.nn.functional.one_hot(order, 5).double()
    torch.testing.assert_close(operator.permutation(SCORES), exact, rtol=0, atol=1e-6)
    torch.testing.assert_close(operator.ranks(SCORES), order.argsort() + 1.0, rtol=0, atol=1e-6, check_dtype=False)
    torch.testing.assert_close(operator.sort(SCORES), SCORES[order], rtol=0, atol=1e-5)
    torch.testing.assert_close(operator.top_k(SCORES, 2), exact[:2].sum(0), rtol=0, atol=1e-6)


@every_operator
def test_ties_share_their_ranks(operator):
    ranks = operator.ranks(torch.tensor([1.0, 2.0, 1.0, 2.0, 1.0]))
    torch.testing.assert_close(ranks[[2, 3, 4]], ranks[[0, 1, 0]])
    assert ranks[1] < ranks[0]


# SmoothI's stopped gradient leaves a part out on purpose; tests/losses/test_losses.py checks the part that stays.
@pytest.mark.parametrize("operator", [o for o in OPERATORS if not getattr(o, "stop_gradient", False)], ids=repr)
def test_gradients_equal_finite_differences(operator):
    scores = SCORES.clone().requires_grad_()
    for method in (operator.permutation, operator.ranks, operator.sort, lambda s: operator.top_k(s, 2)):
        assert torch.autograd.gradcheck(method, (scores,), fast_mode=True)


@every_operator
def test_empty_lists(operator):
    for shape in ((0,), (2, 0), (0, 3)):
        scores = torch.zeros(shape, requires_grad=True)
        assert operator.permutation(scores).shape == (*shape, shape[-1])
        for soft in (operator.ranks(scores), operator.sort(scores), operator.top_k(scores, 2)):
            assert soft.shape == shape
            assert soft.requires_grad


@every_operator
def test_half_precision_is_computed_in_float32(operator):
    half = SCORES.to(torch.bfloat16)
    assert operator.ranks(half).dtype == torch.float32
    assert torch.equal(operator.ranks(half), operator.ranks(half.float()))


# FastSort.


@pytest.mark.parametrize("regularisation", ["l2", "entropic"])
@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
def test_fast_sort_is_the_nearest_point_of_the_permutahedron(regularisation, temperature):
    from scipy.optimize import minimize

    z, n = -SCORES.numpy() / temperature, len(SCORES)
    w = np.arange(n, 0, -1.0)
    down = np.argsort(-z)

    def distance(mu):
        if regularisation == "l2":
            return 0.5 * ((mu - z) ** 2).sum()
        return (mu * (np.log(mu) - z) - mu).sum()

    # The nearest point is in the order of z, so that of all the facets those of the leading sums suffice.
    constraints = [{"type": "ineq", "fun": lambda mu, k=k: w[:k].sum() - mu[down][:k].sum()} for k in range(1, n)] + [
        {"type": "eq", "fun": lambda mu: mu.sum() - w.sum()}
    ]
    best = minimize(
        distance, np.full(n, w.mean()), method="SLSQP", constraints=constraints, bounds=[(0.01, None)] * n,
        options={"ftol": 1e-14, "maxiter": 500},
    )  # fmt: skip
    found = relax.fast_sort(temperature, regularisation).ranks(SCORES)
    np.testing.assert_allclose(found, best.x, atol=2e-5)


@pytest.mark.parametrize("temperature", [0.1, 1.0, 10.0])
def test_fast_sort_sorts_by_projection(temperature):
    ordered = sorted(SCORES.tolist(), reverse=True)
    z = [rank / temperature for rank in range(len(ordered), 0, -1)]
    found = relax.fast_sort(temperature).sort(SCORES)
    torch.testing.assert_close(found.tolist(), references.project(z, ordered))
    powers = references.project(z, [math.exp(s) for s in ordered], "entropic")
    found = relax.fast_sort(temperature, "entropic").sort(SCORES)
    torch.testing.assert_close(found.tolist(), [math.log(p) for p in powers])


@pytest.mark.parametrize("regularisation", ["l2", "entropic"])
@pytest.mark.parametrize("size", [1e4, 1e8, 1e30])
def test_fast_sort_of_tied_scores_of_any_size(regularisation, size):
    scores = torch.tensor([1.0, 1.0, 1.0, -1.0, 1.0, 1.0, -1.0, 1.0]) * size
    expected = torch.tensor([3.5, 3.5, 3.5, 7.5, 3.5, 3.5, 7.5, 3.5])
    torch.testing.assert_close(relax.fast_sort(1.0, regularisation).ranks(scores), expected)
    neighbours = torch.tensor([size, size, size, np.nextafter(np.float32(size), np.float32(0))])
    if size > 1e7:
        expected = torch.tensor([2.0, 2.0, 2.0, 4.0])
        torch.testing.assert_close(relax.fast_sort(1.0, regularisation).ranks(neighbours), expected)


@pytest.mark.parametrize("regularisation", ["l2", "entropic"])
@settings(max_examples=30)
@given(lists=ragged_lists(longest=8, most=3))
def test_fast_sort_pools_like_the_min_max_formula(regularisation, lists):
    """Round scores: ties, and gaps of exactly the temperature, where blocks begin to merge."""
    batch = lists.flat()
    for documents, scores in zip(lists.lists, torch.split(batch.scores, lists.lengths), strict=True):
        found = relax.fast_sort(1.0, regularisation).ranks(scores)
        expected = references.fast_sort([d.score for d in documents], 1.0, regularisation)
        torch.testing.assert_close(found.tolist(), expected, rtol=1e-9, atol=1e-9)


# Sinkhorn and optimal transport.


def test_sinkhorn_equals_the_plain_loop():
    matrix = torch.rand(4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for rounds in (0, 1, 5):
        expected = torch.tensor(references.sinkhorn(matrix.tolist(), rounds), dtype=torch.float64)
        torch.testing.assert_close(relax.sinkhorn(matrix, rounds), expected)


def test_sinkhorn_keeps_empty_rows_and_columns():
    matrix = torch.tensor([[1.0, 0.0, 2.0], [0.0, 0.0, 0.0], [3.0, 0.0, 4.0]])
    scaled, residual = relax.sinkhorn(matrix, return_residual=True)
    torch.testing.assert_close(scaled.sum(0), torch.tensor([1.0, 0.0, 1.0]))
    assert not scaled[1].any()
    assert residual < 1e-6


def test_sinkhorn_tells_how_far_it_got():
    scores = torch.randn(100, generator=torch.Generator().manual_seed(0))
    soft = relax.neural_sort().permutation(scores)
    scaled, residual = relax.sinkhorn(soft, 30, return_residual=True)
    worst = max(float((scaled.sum(axis) - 1).abs().max()) for axis in (0, 1))
    assert float(residual) == pytest.approx(worst)
    assert float(residual) < 0.05  # not converged, as in the paper: thirty rounds are a budget, not a tolerance
    assert float(relax.sinkhorn(soft, 3, return_residual=True)[1]) > float(residual)


def test_optimal_transport_is_optimal():
    """At the optimum log P + cost / epsilon is a number of the row plus a number of the column."""
    epsilon = 0.05
    plan = relax.optimal_transport(epsilon, rounds=3000).permutation(SCORES)
    x = (SCORES - SCORES.min()) / (SCORES.max() - SCORES.min())
    cost = (torch.linspace(1, 0, 5, dtype=torch.float64)[:, None] - x) ** 2
    potentials = plan.log() + cost / epsilon
    torch.testing.assert_close(potentials, potentials[:, :1] + potentials[:1] - potentials[0, 0], rtol=0, atol=1e-6)
    torch.testing.assert_close(plan.sum(0), torch.ones(5, dtype=torch.float64))


def test_optimal_transport_does_not_depend_on_scale():
    operator = relax.optimal_transport()
    torch.testing.assert_close(operator.ranks(SCORES), operator.ranks(7 * SCORES + 3))


# SoftRank, SmoothI, lifting, noise.


def test_soft_rank_against_simulation():
    """Each other document beats j in a comparison of its own, with fresh noise: so its rank is distributed."""
    generator = torch.Generator().manual_seed(0)
    draws, n, sigma = 40_000, len(SCORES), 0.7
    noise = torch.randn(2, draws, n, n, generator=generator, dtype=torch.float64) * sigma
    beats = (SCORES[:, None] + noise[0]) > (SCORES[None, :] + noise[1])  # (draws, i, j)
    above = (beats & ~torch.eye(n, dtype=torch.bool)).sum(-2)  # (draws, j)
    counted = torch.stack([(above == r).double().mean(0) for r in range(n)])
    torch.testing.assert_close(relax.soft_rank(sigma).permutation(SCORES), counted, rtol=0, atol=0.015)


def test_mean_ranks_of_soft_rank_are_exact_if_the_comparisons_share_the_noise_of_a_document():
    """One draw of noise per document: the means of the ranks are as computed, the probabilities are not."""
    generator = torch.Generator().manual_seed(0)
    sigma, draws = 0.7, 40_000
    noisy = SCORES + sigma * torch.randn(draws, len(SCORES), generator=generator, dtype=torch.float64)
    drawn = 1 + noisy.argsort(-1, descending=True).argsort(-1).double()
    operator = relax.soft_rank(sigma)
    torch.testing.assert_close(operator.ranks(SCORES), drawn.mean(0), rtol=0, atol=0.02)
    counted = torch.stack([(drawn == r).double().mean(0) for r in range(1, len(SCORES) + 1)])
    assert (operator.permutation(SCORES) - counted).abs().max() > 0.03


def test_smoothi_takes_scores_as_they_are_in_its_indicators():
    scores, mask = SCORES.exp(), torch.ones(5, dtype=torch.bool)
    rows = relax.smoothi(alpha=2.0).indicators(scores, mask, 3)
    assert rows.shape == (3, 5)
    torch.testing.assert_close(rows[0], (2.0 * scores).softmax(-1))


def test_lift_shares_each_document_between_two_ranks():
    mask = torch.tensor([True, True, True, False])
    lifted = lift(torch.tensor([1.0, 2.75, 1.5, 0.0]), mask)
    expected = torch.tensor([[1, 0, 0.5, 0], [0, 0.25, 0.5, 0], [0, 0.75, 0, 0], [0, 0, 0, 0]])
    torch.testing.assert_close(lifted, expected)


def test_gumbel_noise_is_standard_and_follows_its_generator():
    like = torch.zeros(1, dtype=torch.float64)
    draws = [relax.gumbel_noise((200_000,), like=like, generator=torch.Generator().manual_seed(3)) for _ in range(2)]
    assert torch.equal(*draws)
    assert float(draws[0].mean()) == pytest.approx(0.5772, abs=0.02)
    assert float(draws[0].std()) == pytest.approx(math.pi / math.sqrt(6), abs=0.02)
    assert relax.gumbel_noise((1000,), like=torch.zeros(1)).isfinite().all()


# Values.


@every_operator
def test_an_operator_is_a_value(operator):
    names = {name: getattr(relax, name) for name in relax.__all__}
    assert eval(repr(operator), names) == operator
    assert hash(eval(repr(operator), names)) == hash(operator)
    with pytest.raises(AttributeError):
        operator.temperature = 2.0


BAD = {
    "temperature must be above 0; got -1.0": lambda: relax.sigmoid_ranks(temperature=-1.0),
    "temperature must be above 0; got nan": lambda: relax.soft_sort(temperature=math.nan),
    "sigma must be above 0; got 0.0": lambda: relax.soft_rank(sigma=0.0),
    "delta must be between 0 and 0.5; got 0.5": lambda: relax.smoothi(delta=0.5),
    "rounds must be at least 0; got -1": lambda: relax.sinkhorn(torch.eye(2), -1),
    "k must be at least 1; got 0": lambda: relax.neural_sort().top_k(SCORES, 0),
    "scores must be a tensor; got list": lambda: relax.neural_sort().ranks([1.0, 2.0]),
    "mask must be a boolean tensor of shape (5,), like scores; got torch.int64 (5,)": lambda: relax.soft_sort().ranks(
        SCORES, torch.ones(5, dtype=torch.long)
    ),
}


@pytest.mark.parametrize("sentence", BAD)
def test_bad_input_is_told_in_one_sentence(sentence):
    with pytest.raises((ValueError, TypeError)) as caught:
        BAD[sentence]()
    assert str(caught.value) == sentence
