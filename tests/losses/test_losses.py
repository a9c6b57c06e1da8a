"""Every loss against plain loops, and every gradient against finite differences."""

import inspect
import random
from fractions import Fraction

import numpy as np
import pytest
import references
import torch
from every_loss import (
    BACKEND,
    CUT,
    GUMBEL,
    METRICS,
    NAMED,
    OPERATORS,
    OPTIONS,
    RELAXED,
    UNCUT,
    each_loss,
    every_loss,
)
from strategies import Document, RaggedLists

from rankgrad import backend, losses, metrics, relax
from rankgrad.losses import gumbel, relaxed
from rankgrad.metrics.metric import KINDS


@pytest.fixture(autouse=True)
def _backend():
    with backend(BACKEND):
        yield


def test_every_member_is_tested():
    assert set(OPTIONS) == set(losses.__all__)
    assert all(hasattr(references, name) for name in losses.__all__)


def test_every_cutoff_and_every_weight_is_tested():
    for name, choices in OPTIONS.items():
        loss = getattr(losses, name)
        if "k" in inspect.signature(loss).parameters:
            assert any("k" in options for options in choices), name
        if "weights" in inspect.signature(getattr(loss, "forward", loss)).parameters:
            assert any(case.name == name and "weights" in case.extras for case in NAMED), name


ALL = [*NAMED, *GUMBEL, *CUT, *UNCUT]


@every_loss(ALL)
def test_equals_the_plain_loop(loss, lists):
    columns = {"weights": "weight", "noise": "noise", "gamma": "gamma"}
    extras = [lists.column(columns[name]) for name in loss.extras]
    expected = [
        loss.reference(scores, labels, **dict(zip(loss.extras, more, strict=True)))
        for scores, labels, *more in zip(lists.column("score"), lists.column("label"), *extras, strict=True)
    ]
    expected = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(loss(lists.flat()).detach(), expected, rtol=1e-9, atol=1e-10)


def tie_free(seed=0, lengths=(5, 1, 4, 2)):
    """Lists away from ties and from every place where a derivative jumps, each with labels that differ."""
    draw = random.Random(seed)
    return RaggedLists(
        tuple(
            tuple(
                Document(draw.gauss(0, 1.5), float((i * 2 + 1) % 4), draw.uniform(0.2, 2), draw.gauss(0, 1), 0.3)
                for i in range(n)
            )
            for n in lengths
        )
    )


@each_loss([case for case in ALL if case.exact_gradient])
def test_gradient_equals_finite_differences(loss):
    batch = tie_free(lengths=(4, 1, 3)).flat()
    made = loss.make()
    parameters = [p for p in getattr(made, "parameters", list)() if p.requires_grad]

    def value(leaf, *_):
        return loss(batch._replace(leaf=leaf, scores=leaf), loss=made)

    assert value(batch.leaf).requires_grad  # gradcheck passes over what is no function of its input
    # Many products: for those one random direction a list; for the named losses every derivative.
    fast = loss.name == "relaxed"
    assert torch.autograd.gradcheck(value, (batch.leaf, *parameters), atol=1e-6, rtol=1e-4, fast_mode=fast)


def held(scores, alpha, delta):
    """SmoothI's indicators of one list with the product detached, by autograd."""
    shifted = scores - scores.min()
    left, rows = torch.ones_like(scores), []
    for _ in range(len(scores)):
        rows.append((alpha * shifted * left.detach()).softmax(-1))
        left = left * (1 - rows[-1] - delta)
    return torch.stack(rows)


HELD = {
    "smooth_ndcg": lambda at, y: ((2 ** (at @ y) - 1) / ideal_discount(at)).sum() / ideal(y),
    "smooth_precision": lambda at, y: (at @ (y > 0).double()).sum() / len(y),
    "smooth_ap": lambda at, y: average(at @ (y > 0).double()) / (y > 0).sum(),
}


def ideal_discount(values):
    return torch.log2(torch.arange(len(values)) + 2.0)


def ideal(labels):
    return ((2**labels - 1).sort(descending=True).values / ideal_discount(labels)).sum()


def average(found):
    return (found * found.cumsum(0) / torch.arange(1, len(found) + 1)).sum()


@pytest.mark.parametrize("name", HELD)
def test_stopped_gradient_is_that_of_the_detached_product(name):
    for documents in tie_free().lists:
        scores = torch.tensor([d.score for d in documents], dtype=torch.float64, requires_grad=True)
        labels = torch.tensor([d.label for d in documents], dtype=torch.float64)
        options = {"k": len(labels), "alpha": 2.0, "delta": 0.2}
        (found,) = torch.autograd.grad(getattr(losses, name)(scores, labels, **options), scores)
        (expected,) = torch.autograd.grad(-HELD[name](held(scores, 2.0, 0.2), labels), scores)
        torch.testing.assert_close(found, expected)


def test_stopping_the_gradient_changes_it():
    scores, labels = torch.tensor([2.0, 1.0, 3.0], requires_grad=True), torch.tensor([2.0, 0.0, 1.0])
    stopped, full = (
        torch.autograd.grad(losses.smooth_ndcg(scores, labels, stop_gradient=stop), scores)[0] for stop in (True, False)
    )
    assert not torch.allclose(stopped, full)


def test_rmse_at_a_perfect_fit_has_zero_gradient():
    scores = torch.zeros(1, 3, requires_grad=True)
    loss = losses.rmse(scores, torch.full((1, 3), 2.0), levels=4)
    loss.backward()
    assert loss == 0
    assert not scores.grad.any()


@pytest.mark.parametrize("kind", [np.int64, np.float32, np.array, torch.tensor, Fraction])
def test_levels_of_rmse_are_any_number(kind):
    scores, labels = torch.tensor([2.0, 1.0, 3.0]), torch.tensor([2.0, 0.0, 1.0])
    assert losses.rmse(scores, labels, levels=kind(5)) == losses.rmse(scores, labels, levels=5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_labels_of_rmse_may_have_rounding_errors(dtype):
    scores = torch.tensor([2.0, 1.0, 3.0], dtype=dtype)
    labels = torch.tensor([1.0 if dtype == torch.float64 else 1.0 + 2.0**-23, 0.0, 0.1 * 3 / 0.3], dtype=dtype)
    assert labels.max() > 1
    assert losses.rmse(scores, labels, levels=1).isfinite()
    with pytest.raises(ValueError, match=r"labels must be at most levels, 1; got 1\.0001"):
        losses.rmse(scores, labels * 1.0001, levels=1)


def test_softmax_is_listnet_times_the_sum_of_the_labels():
    batch = tie_free().padded()
    sums = torch.where(batch.layout["mask"], batch.labels, 0).sum(-1)
    softmax, listnet = (
        loss(batch.scores, batch.labels, **batch.layout, reduction="none") for loss in (losses.softmax, losses.listnet)
    )
    torch.testing.assert_close(softmax, listnet * sums)


@pytest.mark.parametrize("chosen", ["plain", "auto"])
@pytest.mark.parametrize("spread", [1.0, 60.0])
def test_softmax_targets_of_a_teacher_have_the_gradient_of_two_softmaxes(spread, chosen):
    generator = torch.Generator().manual_seed(3)
    scores = spread * torch.randn(3, 1000, generator=generator)
    labels = 60 * torch.rand(3, 1000, generator=generator)
    labels[:, 0] = 60
    ours, teacher = (values.double().softmax(-1) for values in (scores, labels))
    for dtype in (torch.float32, torch.float64):
        with backend(chosen):
            _, found = losses.value_and_grad(
                losses.listnet, scores.to(dtype), labels.to(dtype), targets="softmax", reduction="sum"
            )
        off, eps = (found - (ours - teacher)).abs(), torch.finfo(dtype).eps
        assert off.max() < 4 * eps
        # Also relative to the two shares of each document, most of which are tiny.
        assert (off <= 100 * eps * (ours + teacher) + torch.finfo(dtype).tiny).all()


@pytest.mark.parametrize("far", [0.0, 1e4, -1e4])
def test_margin_mse_of_scores_far_from_zero_keeps_its_digits(far):
    """In float32, n times the sum of squares minus the square of the sum would have the wrong size at 1e4."""
    generator = torch.Generator().manual_seed(4)
    scores = far + torch.randn(2000, generator=generator)
    labels, weights = torch.randn(2, 2000, generator=generator)
    weights = weights.abs()
    for layout in ({"offsets": torch.tensor([0, 1, 3, 1000, 2000])}, {}):
        for heavy in (None, weights):
            single, double = (
                losses.value_and_grad(
                    losses.margin_mse,
                    scores.to(dtype),
                    labels.to(dtype),
                    weights=None if heavy is None else heavy.to(dtype),
                    **layout,
                )
                for dtype in (torch.float32, torch.float64)
            )
            assert single[0].item() == pytest.approx(double[0].item(), rel=1e-6)
            assert (single[1] - double[1]).abs().max() <= 1e-6 * double[1].abs().max()


def test_margin_mse_of_one_pair_is_that_of_the_paper():
    """The difference of two documents against that of the teacher, squared: 2 against 5, and -1.5 against -0.5."""
    scores, labels = torch.tensor([[3.0, 1.0], [0.5, 2.0]]), torch.tensor([[-1.0, -6.0], [9.0, 9.5]])
    assert losses.margin_mse(scores, labels, reduction="none").tolist() == [9.0, 1.0]


def test_margin_mse_has_a_second_derivative():
    """The mean error is part of the graph; its first derivative is 0, so that only the second one shows it."""
    batch = tie_free().flat()
    extras = {**batch.layout, "weights": batch.extras["weights"]}
    assert torch.autograd.gradgradcheck(lambda leaf: losses.margin_mse(leaf, batch.labels, **extras), batch.leaf)


def test_margin_mse_has_signal_with_equal_labels_and_none_without_weight():
    scores = torch.tensor([[1.0, 2.0, 4.0]], requires_grad=True)
    labels = torch.full((1, 3), -5.0)
    torch.testing.assert_close(losses.margin_mse(scores, labels), torch.tensor(14 / 3))
    # A document of weight 0 has no pull; without any weight, there is nothing to divide by.
    for weights, expected in (([[1.0, 1.0, 0.0]], 0.5), ([[0.0, 0.0, 0.0]], 0.0)):
        value = losses.margin_mse(scores, labels, weights=torch.tensor(weights))
        (gradient,) = torch.autograd.grad(value, scores)
        assert value.item() == expected
        assert gradient[0, 2] == 0


def test_named_losses_are_products():
    """What is one operator times one metric equals that product."""
    batch = tie_free().flat()
    arguments = (batch.scores, batch.labels)
    for named, product in (
        (losses.approx_ndcg(*arguments, **batch.layout, k=2), relaxed(metrics.nDCG @ 2, relax.sigmoid_ranks())),
        (losses.approx_precision(*arguments, **batch.layout, k=2), relaxed(metrics.P @ 2, relax.sigmoid_ranks())),
        (losses.neural_ndcg(*arguments, **batch.layout), relaxed(metrics.nDCG, relax.neural_sort(1.0, 30))),
        (losses.softrank_ndcg(*arguments, **batch.layout), relaxed(metrics.nDCG, relax.soft_rank())),
        (losses.smooth_ap(*arguments, **batch.layout), relaxed(metrics.AP, relax.smoothi())),
    ):
        torch.testing.assert_close(product(*arguments, **batch.layout), named)


@pytest.mark.parametrize("operator", OPERATORS, ids=str)
@pytest.mark.parametrize("metric", METRICS)
def test_relaxed_metrics_stay_in_their_range(metric, operator):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(1000, 7, generator=generator, dtype=torch.float64)
    scores *= 10 ** torch.linspace(-2, 2, 1000, dtype=torch.float64)[:, None]
    labels = torch.randint(0, 5, (1000, 7), generator=generator) * (torch.rand(1000, 7, generator=generator) < 0.5)
    labels[:, 0], labels[:, 1] = 3, 0
    doubly = getattr(operator, "sinkhorn_rounds", 0) or isinstance(operator, relax.optimal_transport)
    ranks = OPERATORS[operator][0] == "ranks"
    if metric == "DCG" or (metric in ("nDCG", "AP") and not (doubly or ranks)) or (metric == "P" and ranks):
        return  # as in the papers
    for k in (None, 1, 2, 5):
        value = relaxed(metrics.Metric(metric, k), operator)(scores, labels, reduction="none")
        low, high = (1.0, 7 if k is None else k + 1) if metric == "ARP" else (-1.0, 0.0)
        assert low - 1e-6 <= value.min()
        assert value.max() <= high + 1e-6


def test_options_of_the_metric_reach_the_relaxed_loss():
    scores, labels = torch.tensor([3.0, 2.0, 1.0, 0.0]), torch.tensor([0, 1, 2, 1])
    sharp = relax.neural_sort(temperature=1e-3)
    for metric in (
        metrics.nDCG(gain="linear"),
        metrics.nDCG(discount=lambda rank: rank),
        metrics.RR(first="best"),
        metrics.RR(threshold=1),
        metrics.ERR(max_label=2),
        metrics.RBP(persistence=0.5),
        metrics.P(threshold=1) @ 3,
    ):
        loss = relaxed(metric, sharp)(scores, labels)
        torch.testing.assert_close(loss, -metric.measure(scores, labels), rtol=1e-5, atol=1e-5)


def test_gumbel_draws_from_its_own_stream():
    scores, labels = torch.tensor([[2.0, 1.0, 3.0]]), torch.tensor([[1, 0, 2]])
    one, other = (gumbel(losses.approx_ndcg, samples=3, seed=7) for _ in range(2))
    torch.manual_seed(0)
    first = one(scores, labels)
    torch.manual_seed(1)
    assert other(scores, labels) == first
    assert one(scores, labels) != first


def test_gumbel_averages_its_samples():
    scores, labels = torch.tensor([[2.0, 1.0, 3.0]]), torch.tensor([[1, 0, 2]])
    noise = torch.randn(4, 1, 3, generator=torch.Generator().manual_seed(0))
    each = torch.stack([losses.approx_ndcg(scores + 0.5 * g, labels) for g in noise])
    torch.testing.assert_close(gumbel(losses.approx_ndcg, scale=0.5)(scores, labels, noise=noise), each.mean())


def test_gumbel_trains_the_parameters_of_its_loss():
    loss = gumbel(losses.LearnDCG(discount="curved"), seed=0)
    loss(torch.tensor([[2.0, 1.0, 3.0]]), torch.tensor([[1, 0, 2]])).backward()
    assert all(parameter.grad is not None and parameter.grad != 0 for parameter in loss.parameters())


@pytest.mark.parametrize("layout", ["padded", "flat"])
def test_drawn_gammas_are_new_in_each_call_and_the_same_for_a_seed(layout):
    lists = {"mask": torch.tensor([[True, True, True], [True, True, False]])} if layout == "padded" else {}
    lists = lists or {"offsets": torch.tensor([0, 3, 5])}
    scores, labels = torch.tensor([[2.0, 1.0, 3.0], [0.0, 1.0, 0.0]]), torch.tensor([[1, 0, 2], [1, 0, 0]])
    if layout == "flat":
        scores, labels = scores.flatten()[:5], labels.flatten()[:5]
    drawn = losses.parse_loss("xe_ndcg:gamma=drawn")
    assert losses.parse_loss("xe_ndcg:gamma=0.5").options == {"gamma": 0.5}  # a number stays a number
    torch.manual_seed(3)
    first, second = (drawn(scores, labels, reduction="none", **lists) for _ in range(2))
    torch.manual_seed(3)
    for found in (first, second):
        gamma = torch.rand(scores.shape)
        assert torch.equal(losses.xe_ndcg(scores, labels, gamma=gamma, reduction="none", **lists), found)
    assert not torch.equal(first, second)
    with backend("fused"), pytest.raises(ValueError, match="'fused', which has no kernel for gamma='drawn'"):
        drawn(scores, labels, **lists)


def test_every_metric_meets_every_operator():
    kinds = [
        kind
        for kind in map(relax.__dict__.get, relax.__all__)
        if isinstance(kind, type) and issubclass(kind, relax.Relaxation) and kind is not relax.Relaxation
    ]
    assert {type(operator) for operator in OPERATORS} == set(kinds)
    assert len(RELAXED) == len(kinds) * len(METRICS) == 77
    assert set(METRICS) == set(KINDS)


@pytest.mark.parametrize("chosen", ["plain", "auto"])
@pytest.mark.parametrize("name", losses.__all__)
def test_a_score_that_is_no_number_shows_in_its_own_list_only(name, chosen):
    loss = getattr(losses, name)
    loss = loss() if isinstance(loss, type) else loss
    options = {"levels": 3} if name == "rmse" else {}
    labels = torch.tensor([[2, 0, 1], [1, 0, 0], [0, 2, 1]])
    for place in range(3):
        scores = torch.tensor([[0.5, 1.0, 2.0], [1.0, 2.0, 3.0], [0.0, -1.0, 0.5]])
        scores[1, place] = torch.nan
        with backend(chosen):
            values = loss(scores, labels, reduction="none", **options)
        assert values.isnan().tolist() == [False, True, False]


def test_smooth_precision_needs_a_cutoff():
    with pytest.raises(TypeError, match="k must be an integer; got None"):
        losses.smooth_precision(torch.zeros(1, 3), torch.tensor([[1, 0, 0]]), k=None)
