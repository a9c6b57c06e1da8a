"""The fused losses on relaxed sorting (NeuralNDCG, SoftSort, FastSort, SmoothI) against the plain ones."""

import functools

import numpy as np
import pytest
import torch
from conditioning import one_ulp
from made_lists import Lists

import rankgrad as rg
from rankgrad import losses
from rankgrad.kernels.options import NeuralNDCGOptions, SmoothIOptions, SoftNDCGOptions

CASES = {
    "neural_ndcg": {},
    "neural_ndcg, sharp": {"k": 3, "temperature": 0.2},
    "neural_ndcg, transposed": {"transposed": True, "k": 5},
    "neural_ndcg, one round": {"sinkhorn_rounds": 1},
    "neural_ndcg, one round transposed": {"sinkhorn_rounds": 1, "transposed": True, "temperature": 3.0},
    "neural_ndcg, unscaled": {"sinkhorn_rounds": 0, "k": 10},
    "softsort_ndcg": {},
    "softsort_ndcg, cut": {"k": 3, "temperature": 0.3},
    "softsort_ndcg, square": {"p": 2, "k": 5, "temperature": 0.5},
    "fastsort_ndcg": {},
    "fastsort_ndcg, cut": {"k": 3, "temperature": 4.0},
    "fastsort_ndcg, entropic": {"regularisation": "entropic"},
    "fastsort_ndcg, entropic cut": {"regularisation": "entropic", "k": 3, "temperature": 4.0},
    "smooth_ndcg": {},
    "smooth_ndcg, whole": {"k": None, "alpha": 5.0, "delta": 0.3},
    "smooth_precision": {"threshold": 1.0},
    "smooth_precision, sharp": {"k": 3, "alpha": 20.0},
    "smooth_ap": {},
    "smooth_ap, cut": {"k": 4, "alpha": 3.0, "threshold": 2.0},
}
every_loss = pytest.mark.parametrize("case", CASES)
# One loss per kernel.
KERNELS = ["neural_ndcg", "softsort_ndcg", "softsort_ndcg, square", "fastsort_ndcg", "smooth_ndcg", "smooth_ap"]
each_kernel = pytest.mark.parametrize("case", KERNELS)


def loss_of(case):
    return functools.partial(getattr(losses, case.split(",")[0]), **CASES[case])


def assert_equal(ours, truth, tolerance):
    """Compare each value, and gradients relative to the longest; both are near 1 in size, or vanish."""
    torch.testing.assert_close(ours[0].double(), truth[0].double(), rtol=tolerance, atol=tolerance)
    longest = float(truth[1].abs().max()) if truth[1].numel() else 0.0
    margin = tolerance * max(longest, 1.0)
    torch.testing.assert_close(ours[1].double(), truth[1].double(), rtol=0, atol=margin)


@every_loss
@pytest.mark.parametrize("layout", ["flat", "scattered"])
def test_equals_plain(case, layout):
    lists = Lists((3, 0, 1, 2, 63, 64, 65, 240) if layout == "flat" else (3, 0, 17, 2), seed=len(case))
    assert_equal(lists.outcome(loss_of(case), "fused", layout), lists.outcome(loss_of(case), "plain", layout), 1e-11)


@every_loss
@pytest.mark.parametrize("spread", [1e-3, 30.0, 1e3, 1e30])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 3e-6)])
def test_equals_plain_float64_at_any_range(case, spread, dtype, tolerance):
    lists = Lists((3, 0, 1, 2, 33), spread, seed=3, dtype=dtype)
    fused = lists.outcome(loss_of(case), "fused")
    assert fused[0].dtype == dtype
    plain = lists.outcome(loss_of(case), "plain", dtype=torch.float64)
    if (
        case.startswith("smooth") and spread > 1.0
    ):  # SmoothI's product amplifies the last digit of a score from rank to rank
        lists.scores = lists.scores.double()
        tolerance = max(tolerance, 10.0 * one_ulp(lists, loss_of(case), plain))
    assert_equal(fused, plain, tolerance)


@every_loss
@pytest.mark.parametrize("unit", [0.73, 7.3, 1e30])
def test_ties(case, unit):
    lists = Lists((2, 9, 40), seed=5)
    lists.scores = lists.scores.round() * unit
    assert_equal(lists.outcome(loss_of(case), "fused"), lists.outcome(loss_of(case), "plain"), 1e-11)


# The value at 50 digits, by the formula in the docstring of `smooth_ndcg`.
TWO_LEVELS = [3, 0, 0, 3, 3, 3, 0, 3, 0, 0, 3, 0, 3, 0, 0, 3, 3]


@pytest.mark.parametrize("backend", ["plain", "fused"])
def test_smooth_ndcg_of_two_levels_of_scores(backend):
    scores = torch.tensor(TWO_LEVELS, dtype=torch.float64)
    labels = (torch.arange(17) == 0).to(torch.float64)
    for order in (torch.arange(17), torch.arange(17).flip(0)):
        with rg.backend(backend):
            value = losses.smooth_ndcg(scores[order], labels[order], k=None, alpha=1000.0)
        assert value.item() == pytest.approx(-0.5080440, abs=5e-8)


@pytest.mark.parametrize("case", [case for case in CASES if case.startswith(("smooth", "softsort"))])
@pytest.mark.parametrize("alpha", [1.0, 30.0, 1000.0])
def test_the_order_of_tied_documents_changes_nothing(case, alpha):
    lists = Lists((29, 17, 30), seed=2)
    lists.scores = (lists.scores > 0).to(torch.float64) * 3.0 * alpha
    values, gradient = lists.outcome(loss_of(case), "fused")
    order = torch.cat([first + torch.randperm(n) for first, n in ((0, 29), (29, 17), (46, 30))])
    lists.scores, lists.labels = lists.scores[order], lists.labels[order]
    moved = lists.outcome(loss_of(case), "fused")
    torch.testing.assert_close(moved, (values, gradient[order]), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("rounds", [10**9, 10**12, 10**17])
def test_memory_that_cannot_be_had_is_an_error(rounds):
    with rg.backend("fused"), pytest.raises(MemoryError, match="a kernel could not allocate its memory"):
        losses.neural_ndcg(torch.randn(4, 50), torch.ones(4, 50), sinkhorn_rounds=rounds)


@pytest.mark.parametrize("transposed", [False, True])
def test_neural_sort_beside_a_far_score(transposed):
    """A distant score changes only the ranks of the others; the plain loss loses the distances between the others."""
    near, labels = torch.tensor([1.5, 1.0, 0.2, 1.1], dtype=torch.float64), torch.tensor([1, 2, 0, 1, 0])
    found = []
    for far in (60.0, 1e30):
        scores = torch.cat([near, torch.tensor([far], dtype=torch.float64)]).requires_grad_()
        with rg.backend("fused"):
            value = losses.neural_ndcg(scores, labels, transposed=transposed)
        (gradient,) = torch.autograd.grad(value, scores)
        found.append((value.detach(), gradient))
    torch.testing.assert_close(found[1], found[0], rtol=1e-12, atol=1e-14)


@each_kernel
def test_one_long_list(case):
    lists = Lists(lengths=(1000,), seed=9)
    assert_equal(lists.outcome(loss_of(case), "fused"), lists.outcome(loss_of(case), "plain"), 1e-11)


@pytest.mark.parametrize("case", [case for case in CASES if case.startswith("neural")])
def test_a_matrix_that_is_not_kept(case, monkeypatch):
    from rankgrad.kernels.cpu import neural_ndcg

    lists = Lists((3, 120, 1, 17), seed=6)
    kept = lists.outcome(loss_of(case), "fused")
    monkeypatch.setattr(neural_ndcg, "MATRIX_BYTES", 0)
    torch.testing.assert_close(lists.outcome(loss_of(case), "fused"), kept, rtol=0, atol=0)


@every_loss
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_every_reduction(case, reduction):
    lists = Lists(lengths=(4, 1, 0, 7), seed=2)
    lists.labels[:4] = 0  # a list without signal, which the mean excludes
    fused = lists.outcome(loss_of(case), "fused", "scattered", reduction=reduction)
    assert_equal(fused, lists.outcome(loss_of(case), "plain", "scattered", reduction=reduction), 1e-12)


@every_loss
@pytest.mark.parametrize("label", [0, 3, 1e-20, 2000])
def test_equal_labels(case, label):
    lists = Lists(lengths=(6, 2, 1), seed=4)
    lists.labels = torch.full_like(lists.scores, label)
    fused = lists.outcome(loss_of(case), "fused")
    assert_equal(fused, lists.outcome(loss_of(case), "plain"), 1e-12)
    if label == 0:
        assert not fused[0].any()
        assert not fused[1].any()


@each_kernel
def test_labels_that_are_no_grades(case):
    lists = Lists(lengths=(70, 3, 30), seed=7)
    lists.labels = torch.rand(103, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * 900
    assert_equal(lists.outcome(loss_of(case), "fused"), lists.outcome(loss_of(case), "plain"), 1e-11)


@each_kernel
def test_every_entry_is_written(case, monkeypatch):
    lists = Lists(lengths=(4, 0, 1, 9), seed=7)
    lists.labels[:4] = 0
    expected = lists.outcome(loss_of(case), "fused", "scattered")
    empty = np.empty

    def poisoned(*arguments, **options):
        array = empty(*arguments, **options)
        array.fill(np.nan if array.dtype.kind == "f" else 1)
        return array

    monkeypatch.setattr(np, "empty", poisoned)
    torch.testing.assert_close(lists.outcome(loss_of(case), "fused", "scattered"), expected, rtol=0, atol=0)


@each_kernel
def test_the_number_of_threads_changes_nothing(case):
    lists = Lists(lengths=(120, 0, 65, 1) * 3, seed=8, dtype=torch.float32)
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(lists.outcome(loss_of(case), "fused"))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], rtol=0, atol=0)


@each_kernel
@pytest.mark.parametrize("spoiler", [torch.nan, torch.inf])
def test_a_score_that_is_no_number_spoils_its_own_list_only(case, spoiler):
    lists = Lists(lengths=(5, 5), seed=10)
    lists.labels[:] = torch.tensor([2, 1, 0, 1, 0] * 2)
    lists.scores[3] = spoiler
    values, gradient = lists.outcome(loss_of(case), "fused")
    assert values[0].isnan()
    assert gradient[:5].isnan().all()
    assert values[1].isfinite()
    assert gradient[5:].isfinite().all()


@each_kernel
def test_without_gradient_the_values_are_the_same(case):
    lists = Lists((7, 65, 0, 1), seed=11)
    with rg.backend("fused"):
        values = loss_of(case)(lists.scores, lists.labels, offsets=lists.offsets, reduction="none")
    torch.testing.assert_close(values, lists.outcome(loss_of(case), "fused")[0], rtol=0, atol=0)


@pytest.mark.parametrize("case", ["neural_ndcg", "fastsort_ndcg", "smooth_ndcg"])
def test_compiles_whole(case):
    torch._dynamo.reset()
    lists = Lists(lengths=(6, 3), seed=13)
    compiled = torch.compile(loss_of(case), fullgraph=True, backend="aot_eager")
    eager = lists.outcome(loss_of(case), "fused")
    torch.testing.assert_close(lists.outcome(compiled, "fused"), eager, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("neural_ndcg", NeuralNDCGOptions(sinkhorn_rounds=3)),
        ("softsort_ndcg", SoftNDCGOptions()),
        ("smooth_ap", SmoothIOptions(k=3)),
    ],
)
def test_the_operator_is_well_registered(name, options):
    lists = Lists(lengths=(4, 2), seed=14)
    scores = lists.scores.requires_grad_()
    inputs = (name, scores, lists.labels, None, None, lists.offsets, 0, torch.empty(0), [*options.flat()], True)
    torch.library.opcheck(torch.ops.rankgrad.loss.default, inputs)


def test_exponentials_that_vectorise():
    from numba import njit

    from rankgrad.kernels.cpu.exponential import exp as compiled

    exp = njit(lambda x: compiled(x))  # only kernels may call a helper
    x = -np.concatenate([np.geomspace(1e-12, 690.0, 400), np.arange(0, 60, 0.17)])
    found = np.array([exp(value) for value in x])
    np.testing.assert_allclose(found, np.exp(x), rtol=2e-13)
    assert 0.0 < exp(-1e308) < 1e-300
    assert exp(-np.inf) < 1e-300
