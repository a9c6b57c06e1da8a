"""The fused losses at sigmoid ranks (ApproxNDCG and similar losses, LearnDCG) against the plain ones, on the CPU."""

import numpy as np
import pytest
import torch
from made_lists import Lists

import rankgrad as rg
from rankgrad import losses

CASES = {
    "approx_ndcg": (losses.approx_ndcg, {}),
    "approx_ndcg@5": (losses.approx_ndcg, {"k": 5, "temperature": 0.3, "beta": 2.0}),
    "approx_mrr": (losses.approx_mrr, {}),
    "approx_mrr@3": (losses.approx_mrr, {"k": 3, "threshold": 1.0, "beta": 2.0}),
    "approx_ap": (losses.approx_ap, {}),
    "approx_ap@7": (losses.approx_ap, {"k": 7, "temperature": 2.0, "beta": 2.0}),
    "approx_precision@5": (losses.approx_precision, {"k": 5, "beta": 1.0, "temperature": 0.2}),
}
every_case = pytest.mark.parametrize(("loss", "options"), CASES.values(), ids=CASES)
MODULES = {
    "log": {},
    "log@4": {"k": 4, "gain_base": 3.5, "beta": 2.0},
    "curved": {"discount": "curved", "alpha": 0.4},
    "curved, nearly flat": {"discount": "curved", "gain_base": 1.0 + 1e-7, "discount_base": 1.0 + 1e-7},
    "curved@10": {"discount": "curved", "discount_base": 9.0, "k": 10, "learn": ("discount",), "beta": 2.0},
}


@every_case
@pytest.mark.parametrize("layout", ["flat", "scattered"])
def test_fused_equals_plain(loss, options, layout):
    lists = Lists()
    expected = lists.outcome(loss, "plain", **options)
    for dtype in (torch.float64, torch.float32):
        assert_near(lists.outcome(loss, "fused", dtype=dtype, layout=layout, **options), expected, dtype)
    assert expected[1].abs().max() > 0


def assert_near(actual, expected, dtype=torch.float64):
    """Check equality to a tolerance of the dtype; a soft cutoff multiplies rounding errors of large ranks by beta."""
    tolerance = 1e-10 if dtype == torch.float64 else 3e-5
    for a, e in zip(actual, expected, strict=True):
        size = float(e.abs().max()) if e.numel() else 0.0
        # Terms near 1 cancel in the derivatives of lists that are completely relevant, or completely beyond k.
        torch.testing.assert_close(a.double(), e, rtol=0, atol=tolerance * max(size, 1e-3))


@every_case
def test_long_lists(loss, options):
    lists = Lists((500, 5, 1030), seed=12)  # by one thread, and shared between threads
    assert_near(lists.outcome(loss, "fused", **options), lists.outcome(loss, "plain", **options))


@every_case
@pytest.mark.parametrize("far", [1e3, 1e12, 1e30])
def test_scores_near_each_other_beside_far_ones(loss, options, far):
    lists = Lists((7, 65, 40), seed=13)
    lists.scores[::6] *= far
    assert_near(lists.outcome(loss, "fused", **options), lists.outcome(loss, "plain", **options))


@every_case
@pytest.mark.parametrize("scale", [1e-3, 1e2, 1e4, 1e30])
def test_every_range_of_scores(loss, options, scale):
    lists = Lists((7, 65, 130), seed=1, scale=scale)
    assert_near(lists.outcome(loss, "fused", **options), lists.outcome(loss, "plain", **options))


@every_case
@pytest.mark.parametrize("lists", [Lists(tied=True, seed=2), Lists(labels=(0, 1), seed=3)], ids=["ties", "binary"])
def test_ties(loss, options, lists):
    assert_near(lists.outcome(loss, "fused", **options), lists.outcome(loss, "plain", **options))


def test_labels_that_are_not_grades():
    lists = Lists((40, 3), seed=4)
    lists.labels = torch.rand(43, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 3
    assert_near(lists.outcome(losses.approx_ndcg, "fused", k=9), lists.outcome(losses.approx_ndcg, "plain", k=9))


@every_case
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_reductions(loss, options, reduction):
    lists = Lists((0, 5, 1, 30), seed=5)
    assert_near(
        lists.outcome(loss, "fused", reduction=reduction, **options),
        lists.outcome(loss, "plain", reduction=reduction, **options),
    )


@every_case
def test_no_relevant_document_gives_zero(loss, options):
    values, gradient = Lists(labels=(0,)).outcome(loss, "fused", **options)
    assert (values == 0).all()
    assert (gradient == 0).all()


@every_case
def test_every_entry_is_written(loss, options, monkeypatch):
    """Uninitialised memory may hold anything; here it holds NaN."""
    lists, empty = Lists(), np.empty
    expected = lists.outcome(loss, "plain", **options)
    monkeypatch.setattr("rankgrad.kernels.cpu.np.empty", lambda *a, **k: _filled(empty(*a, **k)))
    assert_near(lists.outcome(loss, "fused", layout="scattered", **options), expected)


def _filled(array):
    array.fill(np.nan if array.dtype.kind == "f" else 1)
    return array


@every_case
def test_threads_change_nothing(loss, options):
    lists, before, outcomes = Lists((300, 3, 65, 1030), seed=6), torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            outcomes.append(lists.outcome(loss, "fused", dtype=torch.float32, **options))
    finally:
        torch.set_num_threads(before)
    for one, two in zip(*outcomes, strict=True):
        assert torch.equal(one, two)


@pytest.mark.parametrize("settings", MODULES.values(), ids=MODULES)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_learndcg_and_its_parameters(settings, reduction):
    lists, outcomes = Lists((7, 0, 1, 65), seed=7), []
    for backend in ("plain", "fused"):
        learn = losses.LearnDCG(**settings).double()
        scores = lists.scores.clone().requires_grad_()
        with rg.backend(backend):
            values = learn(scores, lists.labels, offsets=lists.offsets, reduction=reduction)
        upstream = 1.0 + 0.3 * torch.arange(values.numel(), dtype=values.dtype).reshape(values.shape)
        leaves = [scores, *(leaf for leaf in learn.parameters() if leaf.requires_grad)]
        outcomes.append((values.detach(), *torch.autograd.grad(values, leaves, upstream)))
    for plain, fused in zip(*outcomes, strict=True):
        torch.testing.assert_close(fused, plain, rtol=1e-8, atol=1e-10 * (1e3 if "nearly" in str(settings) else 1))


def test_the_printed_discount_base_has_a_gradient_of_exactly_zero():
    learn = losses.LearnDCG()
    with rg.backend("fused"):
        learn(torch.randn(3, 9, requires_grad=True), torch.randint(0, 3, (3, 9))).backward()
    assert learn.raw_discount.grad is not None
    assert learn.raw_discount.grad.item() == 0.0
    assert learn.raw_gain.grad.item() != 0.0


def test_gumbel_of_a_fused_loss():
    lists = Lists((6, 20), seed=8)
    noise = torch.randn(2, 26, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    loss = losses.gumbel(losses.approx_ndcg, samples=2)
    assert_near(*(lists.outcome(loss, backend, noise=noise) for backend in ("fused", "plain")))


def test_second_derivative_names_the_way_out():
    scores = torch.randn(2, 5, requires_grad=True)
    with rg.backend("fused"):
        loss = losses.approx_ndcg(scores, torch.randint(0, 3, (2, 5)))
    (gradient,) = torch.autograd.grad(loss, scores, create_graph=True)
    with pytest.raises(RuntimeError, match=r"rg\.backend\('plain'\)"):
        gradient.sum().backward()


def test_transforms_take_plain():
    labels = torch.tensor([1, 0, 2])
    gradient = torch.func.grad(lambda scores: losses.approx_ndcg(scores, labels))(torch.tensor([0.3, 0.2, 0.1]))
    assert gradient.abs().sum() > 0


def test_parameters_have_full_precision_in_a_backward_pass_inside_autocast():
    scores, labels = torch.randn(5, 9, generator=torch.Generator().manual_seed(0)), torch.arange(45).reshape(5, 9) % 4
    learn, found = losses.LearnDCG(discount="curved"), []
    for enabled in (False, True):
        with rg.backend("fused"), torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            values = learn(scores, labels, reduction="none")
            found.append(torch.autograd.grad(values.sum(), [*learn.parameters()]))
    torch.testing.assert_close(*found, rtol=1e-6, atol=0)


@pytest.mark.parametrize("make", [lambda: losses.approx_ndcg, losses.LearnDCG], ids=["approx_ndcg", "LearnDCG"])
def test_compiled_in_one_graph(make):
    loss, lists, outcomes = make(), Lists((5, 0, 20), seed=9), []
    compiled = torch.compile(
        lambda scores, labels, offsets: loss(scores, labels, offsets=offsets), fullgraph=True, backend="aot_eager"
    )
    for function in (lambda s, y, o: loss(s, y, offsets=o), compiled):
        scores = lists.scores.clone().requires_grad_()
        value = function(scores, lists.labels, lists.offsets)
        outcomes.append((value.detach(), *torch.autograd.grad(value, scores)))
    assert_near(*outcomes)
