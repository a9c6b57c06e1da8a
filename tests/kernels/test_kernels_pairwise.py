"""The fused pairwise losses against the plain ones, on the CPU."""

import math
import resource

import numpy as np
import pytest
import torch
from made_lists import Lists

import rankgrad as rg
from rankgrad import losses, metrics
from rankgrad.kernels.cpu import pairwise
from rankgrad.kernels.options import PairwiseOptions, Truncation

CASES = {
    "ranknet": (losses.ranknet, {}),
    "ranknet@10": (losses.ranknet, {"k": 10, "sigma": 0.7}),
    "ranknet@10 both": (losses.ranknet, {"k": 10, "pairs": "both"}),
    "hinge": (losses.hinge, {}),
    "hinge 0.3": (losses.hinge, {"margin": 0.3}),
    "lambdarank": (losses.lambdarank, {}),
    "lambdarank@5": (losses.lambdarank, {"k": 5, "sigma": 2.0}),
    "lambdarank linear": (losses.lambdarank, {"metric": metrics.nDCG(gain="linear") @ 7}),
    "lambdaloss": (losses.lambdaloss, {}),
    "lambdaloss@1": (losses.lambdaloss, {"k": 1}),
    "lambdaloss@5": (losses.lambdaloss, {"k": 5}),
    "lambdaloss@5 heuristic": (losses.lambdaloss, {"k": 5, "truncation": "heuristic"}),
    "lambdaloss linear": (losses.lambdaloss, {"metric": metrics.nDCG(gain="linear")}),
    **{
        f"{scheme}@{k}": (losses.lambdaloss, {"scheme": scheme, "k": k, "mu": 3.0})
        for scheme in ("ndcg1", "ndcg2pp", "arp1", "arp2")
        for k in (None, 5)
    },
}
every_case = pytest.mark.parametrize(("loss", "options"), CASES.values(), ids=CASES)


def assert_near(actual, expected, dtype=torch.float64):
    """Check equality to a tolerance of the dtype, relative to the largest entry: derivatives are sums that cancel."""
    for a, e in zip(actual, expected, strict=True):
        size = float(e.abs().max()) if e.numel() else 0.0
        assert torch.isfinite(a).all()
        torch.testing.assert_close(
            a.double(), e, rtol=0, atol=max(size, 1e-30) * (1e-11 if dtype == torch.float64 else 3e-6)
        )


@every_case
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("layout", ["flat", "scattered"])
def test_fused_equals_plain(loss, options, layout, weighted):
    lists = Lists()
    expected = lists.outcome(loss, "plain", weighted=weighted, **options)
    for dtype in (torch.float64, torch.float32):
        actual = lists.outcome(loss, "fused", dtype=dtype, layout=layout, weighted=weighted, **options)
        assert_near(actual, expected, dtype)
    assert expected[1].abs().max() > 0


@every_case
@pytest.mark.parametrize("scale", [1e-3, 1e1, 1e2, 1e4, 1e30])
def test_every_range_of_scores(loss, options, scale):
    lists = Lists((7, 65, 130), seed=1, scale=scale)
    lists.scores = lists.scores.float().double()
    expected = lists.outcome(loss, "plain", **options)
    for dtype in (torch.float64, torch.float32):
        assert_near(lists.outcome(loss, "fused", dtype=dtype, **options), expected, dtype)


@every_case
@pytest.mark.parametrize("lists", [Lists(tied=True, seed=2), Lists(labels=(0, 1), seed=3)], ids=["ties", "binary"])
def test_ties(loss, options, lists):
    expected = lists.outcome(loss, "plain", **options)
    for dtype in (torch.float64, torch.float32):
        assert_near(lists.outcome(loss, "fused", dtype=dtype, **options), expected, dtype)


@pytest.mark.parametrize("name", ["ranknet", "hinge", "lambdarank@5", "lambdaloss@5", "ndcg2pp@None", "ndcg1@None"])
def test_long_lists_are_cut_into_strips(name, monkeypatch):
    monkeypatch.setattr(pairwise, "LONG", 256)
    lists = Lists((250, 5, 400), seed=4)
    expected = lists.outcome(CASES[name][0], "plain", **CASES[name][1])
    for dtype in (torch.float64, torch.float32):
        assert_near(lists.outcome(CASES[name][0], "fused", dtype=dtype, **CASES[name][1]), expected, dtype)


@every_case
@pytest.mark.parametrize("label", [0, 3])
def test_equal_labels_give_zero(loss, options, label):
    values, gradient = Lists(labels=(label,)).outcome(loss, "fused", **options)
    assert (values == 0).all()
    assert (gradient == 0).all()


@every_case
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_reductions(loss, options, reduction):
    lists = Lists((0, 5, 1, 30), seed=5)
    assert_near(
        lists.outcome(loss, "fused", reduction=reduction, **options),
        lists.outcome(loss, "plain", reduction=reduction, **options),
    )


@every_case
def test_every_entry_is_written(loss, options, monkeypatch):
    """Uninitialised memory may hold anything; here it holds NaN."""
    lists = Lists()
    expected = lists.outcome(loss, "plain", **options)
    empty, calls = np.empty, []

    def filled(shape, dtype=float):
        calls.append(shape)
        array = empty(shape, dtype)
        array.fill(np.nan if array.dtype.kind == "f" else 1)
        return array

    monkeypatch.setattr("rankgrad.kernels.cpu.np.empty", filled)
    actual = lists.outcome(loss, "fused", layout="scattered", **options)
    assert calls
    assert_near(actual, expected)


@every_case
def test_threads_change_nothing(loss, options):
    lists, before = Lists((700, 3, 65, 1200), seed=6), torch.get_num_threads()
    try:
        outcomes = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            outcomes.append(lists.outcome(loss, "fused", dtype=torch.float32, **options))
    finally:
        torch.set_num_threads(before)
    for one, two in zip(*outcomes, strict=True):
        assert torch.equal(one, two)


def test_nan_scores_are_not_hidden():
    scores = torch.tensor([[1.0, math.nan, 0.0], [1.0, 2.0, 0.0]])
    labels = torch.tensor([[1, 0, 2], [1, 0, 2]])
    for loss in (losses.ranknet, losses.hinge, losses.lambdarank, losses.lambdaloss):
        with rg.backend("fused"):
            assert loss(scores, labels, reduction="none").isnan().tolist() == [True, False]


def test_metrics_and_gains_without_a_kernel_stay_plain():
    lists = Lists((5, 20), seed=7)
    for options in ({"metric": "AP"}, {"metric": metrics.nDCG(gain=lambda y: y**2)}, {"sigma": -1.0}):
        for loss in (losses.lambdarank, losses.lambdaloss):
            assert_near(lists.outcome(loss, "auto", **options), lists.outcome(loss, "plain", **options))


@pytest.mark.parametrize("name", ["ranknet", "hinge", "lambdarank@5", "lambdaloss@5", "ndcg1@None"])
def test_compiled_in_one_graph(name):
    loss, options = CASES[name]
    lists = Lists((5, 0, 20), seed=8)

    def call(scores, labels, offsets):
        return loss(scores, labels, offsets=offsets, **options)

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    outcomes = []
    for function in (call, compiled):
        scores = lists.scores.clone().requires_grad_()
        value = function(scores, lists.labels, lists.offsets)
        outcomes.append((value.detach(), *torch.autograd.grad(value, scores)))
    assert_near(*outcomes)


def test_the_operator_is_registered_properly():
    from rankgrad.kernels import op  # noqa: F401

    lists = Lists((5, 0, 20), seed=9)
    arguments = ("lambdaloss", lists.scores.requires_grad_(), lists.labels, lists.weights, None, lists.offsets, 0)
    options = [*PairwiseOptions(k=5, truncation=Truncation.SOUND).flat()]
    checks = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    torch.library.opcheck(torch.ops.rankgrad.loss, (*arguments, torch.empty(0), options, True), test_utils=checks)


def test_memory_is_linear():
    """30,000 documents, whose pairs would take 3.6 GB per matrix."""
    lists, before = Lists((30_000,), seed=10), _peak()
    values, gradient = lists.outcome(losses.lambdaloss, "fused", dtype=torch.float32, k=5)
    assert torch.isfinite(values).all()
    assert torch.isfinite(gradient).all()
    assert _peak() - before < 100_000


def _peak():
    """Peak memory of this process, in KB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
