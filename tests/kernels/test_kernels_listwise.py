"""The fused softmax and Plackett-Luce losses against the plain ones."""

import functools
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from made_lists import Lists

import rankgrad as rg
from rankgrad import losses
from rankgrad.kernels.options import ListwiseOptions

CASES = {
    "softmax": {},
    "listnet": {},
    "listnet, softmax": {"targets": "softmax"},
    "xe_ndcg": {"gamma": 0.4},
    "poly1_softmax": {"epsilon": 0.3},
    "unique_softmax": {},
    "listmle": {},
    "listmle, in order": {"ties": "position"},
    "listmle, efron": {"ties": "efron"},
    "listmle, exact": {"ties": "exact"},
    "p_listmle": {},
    "p_listmle, in order": {"ties": "position"},
}
LIKELIHOODS = [case for case in CASES if "listmle" in case]
ON_GPU = [case for case in CASES if CASES[case].get("ties") not in ("efron", "exact")]
# Error of the quadrature: the kernel and the plain loss may place their nodes differently.
QUADRATURE = 1e-9
every_loss = pytest.mark.parametrize("case", CASES)


def loss_of(case):
    return functools.partial(getattr(losses, case.split(",")[0]), **CASES[case])


def likelihood(
    scores, labels, *, offsets, weights=None, reduction="none", position_aware=False, together=False, efron=False
):
    """Compute (P-)ListMLE with all its n^2 terms."""
    values = []
    for first, last in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        order = labels[first:last].argsort(descending=True, stable=True)
        s, n = scores[first:last][order], last - first
        y = labels[first:last][order]
        rivals = y <= y[:, None] if together else torch.ones(n, n).triu() > 0
        w = torch.ones_like(s) if weights is None else weights[first:last][order]
        terms = -w * torch.where(rivals, s, -torch.inf).log_softmax(-1).diagonal()
        if efron and n > 0:
            alike = (y == y[:, None]).to(s.dtype)
            before = alike.tril(-1).sum(-1) / alike.sum(-1)
            share = torch.where(rivals, 1 - before[:, None] * alike, 0.0)
            top = torch.where(rivals, s, -torch.inf).amax(-1).detach()
            left = (share * torch.where(rivals, s - top[:, None], 0.0).exp()).sum(-1).log()
            terms = w * (top - s) + (alike @ w) / alike.sum(-1) * left
        if position_aware and n > 1:
            share = (0.5 ** torch.arange(n, dtype=s.dtype) - 0.5 ** (n - 1)) / (1 - 0.5 ** (n - 1))
            alike = (y == y[:, None]).to(s.dtype) if together else torch.eye(n, dtype=s.dtype)
            terms = terms * (alike @ share) / alike.sum(-1)
        ordered = n > 1 and bool(labels[first:last].min() < labels[first:last].max())
        values.append(terms.sum() if ordered else 0.0 * terms.sum())
    return torch.stack(values)


def truth_of(case):
    """Reference for the kernel at any range of scores."""
    if "exact" in case:
        return loss_of(case)
    if "listmle" in case:
        together, efron = "in order" not in case, "efron" in case
        return functools.partial(likelihood, position_aware=case.startswith("p_"), together=together, efron=efron)
    return loss_of(case)


def within(case, tolerance):
    """Tolerance of a comparison: that of the quadrature for the exact likelihood."""
    return max(tolerance, QUADRATURE) if "exact" in case else tolerance


def assert_equal(ours, truth, tolerance):
    """Compare each value, and gradients by the length of their difference."""
    torch.testing.assert_close(ours[0].double(), truth[0].double(), rtol=tolerance, atol=tolerance)
    off = (ours[1].double() - truth[1].double()).norm() / truth[1].double().norm().clamp(min=1e-30)
    assert off <= tolerance


@every_loss
@pytest.mark.parametrize("layout", ["flat", "scattered"])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_plain(case, layout, weighted):
    lists = Lists(seed=len(case))
    fused = lists.outcome(loss_of(case), "fused", layout, weighted)
    plain = lists.outcome(loss_of(case), "plain", layout, weighted)
    torch.testing.assert_close(fused[0], plain[0], rtol=within(case, 1e-11), atol=within(case, 1e-12))
    torch.testing.assert_close(fused[1], plain[1], rtol=within(case, 1e-10), atol=within(case, 1e-12))


@every_loss
@pytest.mark.parametrize("spread", [1e-3, 30.0, 60.0, 1e3, 1e10, 1e30])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 2e-6)])
def test_equals_plain_float64_at_any_range(case, spread, dtype, tolerance):
    lists = Lists(scale=spread, seed=3, dtype=dtype)
    fused = lists.outcome(loss_of(case), "fused", weighted=True)
    assert fused[0].dtype == dtype
    truth = lists.outcome(truth_of(case), "plain", weighted=True, dtype=torch.float64)
    assert_equal(fused, truth, within(case, tolerance))


@every_loss
@pytest.mark.parametrize(
    "scores", [[1e30, 1e30, -1e30, 1e30, 0.0], [-1e30, 0.0, 0.0, 1e30, 1e30], [5e3, 5e3, 0.0, 0, 1]]
)
def test_ties_far_apart(case, scores):
    lists = Lists(lengths=(5,), seed=1)
    lists.scores = torch.tensor(scores, dtype=torch.float64)
    lists.labels = torch.tensor([2, 0, 2, 1, 1])
    assert_equal(lists.outcome(loss_of(case), "fused"), lists.outcome(truth_of(case), "plain"), within(case, 1e-12))


@every_loss
def test_one_long_list(case):
    lists = Lists(lengths=(1000,), seed=9)
    assert_equal(lists.outcome(loss_of(case), "fused"), lists.outcome(loss_of(case), "plain"), within(case, 1e-10))


@every_loss
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("layout", ["flat", "scattered"])
def test_every_reduction(case, reduction, layout):
    lists = Lists(lengths=(4, 1, 0, 7), seed=2)
    lists.labels[:4] = 0  # a list without signal, which the mean excludes
    fused = lists.outcome(loss_of(case), "fused", layout, reduction=reduction)
    assert_equal(fused, lists.outcome(loss_of(case), "plain", layout, reduction=reduction), within(case, 1e-12))


@every_loss
@pytest.mark.parametrize("label", [0, 3])
def test_equal_labels(case, label):
    lists = Lists(lengths=(6, 2, 1), seed=4)
    lists.labels[:] = label
    fused = lists.outcome(loss_of(case), "fused")
    plain = lists.outcome(loss_of(case), "plain")
    torch.testing.assert_close(fused, plain, rtol=1e-12, atol=1e-12)
    if "listmle" in case or label == 0:
        assert not fused[0].any()
        assert not fused[1].any()


@pytest.mark.parametrize("case", [*LIKELIHOODS, "unique_softmax", "listnet"])
def test_labels_that_are_no_grades(case):
    lists = Lists(lengths=(70, 300, 3), seed=5)
    lists.labels = torch.rand(373, dtype=torch.float64).round(decimals=2) * 7 - (1.5 if "listmle" in case else 0.0)
    assert_equal(lists.outcome(loss_of(case), "fused"), lists.outcome(loss_of(case), "plain"), within(case, 1e-11))


@pytest.mark.parametrize("case", ["xe_ndcg", "listnet, softmax", "listnet"])
def test_large_labels(case):
    lists = Lists(lengths=(7, 5), seed=6)
    lists.labels = lists.labels * 300
    assert_equal(lists.outcome(loss_of(case), "fused"), lists.outcome(loss_of(case), "plain"), within(case, 1e-11))


@every_loss
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


@every_loss
def test_the_number_of_threads_changes_nothing(case):
    lists = Lists(lengths=(240, 0, 700, 1) * 40, seed=8, dtype=torch.float32)
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(lists.outcome(loss_of(case), "fused"))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], rtol=0, atol=0)


def test_the_first_call_leaves_pytorch_its_threads():
    """Numba starts its threads when a kernel is loaded, and sets OpenMP's number of threads."""
    code = """
import torch, rankgrad as rg
torch.set_num_threads(1)
rg.losses.softmax(torch.randn(4, 10), torch.ones(4, 10))
print(torch.get_num_threads())
"""
    environment = os.environ | {"NUMBA_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1"]


@every_loss
def test_a_nan_spoils_its_own_list_only(case):
    lists = Lists(lengths=(5, 5), seed=10)
    lists.labels[:] = torch.tensor([2, 1, 0, 1, 0] * 2)
    lists.scores[3] = torch.nan
    values, gradient = lists.outcome(loss_of(case), "fused")
    assert values[0].isnan()
    assert gradient[:5].isnan().any()
    assert values[1].isfinite()
    assert gradient[5:].isfinite().all()


@every_loss
def test_without_gradient_the_values_are_the_same(case):
    lists = Lists(seed=11)
    with rg.backend("fused"):
        values = loss_of(case)(lists.scores, lists.labels, offsets=lists.offsets, reduction="none")
    torch.testing.assert_close(values, lists.outcome(loss_of(case), "fused")[0], rtol=0, atol=0)


def test_gamma_as_a_tensor_is_plain():
    lists = Lists(seed=12)
    gamma = torch.full_like(lists.scores, 0.4)
    loss = functools.partial(losses.xe_ndcg, gamma=gamma)
    assert_equal(lists.outcome(loss, "auto"), lists.outcome(loss_of("xe_ndcg"), "fused"), 1e-12)


@pytest.mark.parametrize("layout", ["flat", "scattered"])
def test_random_ties_are_those_of_the_noise(layout):
    lists = Lists(seed=15)
    noise = torch.rand(lists.scores.shape, dtype=torch.float64)
    noise = noise if layout == "flat" else lists.scattered(noise, torch.nan)
    loss = functools.partial(losses.listmle, ties="random", noise=noise)
    assert_equal(lists.outcome(loss, "fused", layout, True), lists.outcome(loss, "plain", layout, True), 1e-11)


@pytest.mark.parametrize("backend", ["fused", "plain"])
@pytest.mark.parametrize("layout", ["flat", "scattered"])
def test_random_ties_are_drawn_in_each_call(layout, backend):
    lists = Lists(seed=16)
    loss = functools.partial(losses.listmle, ties="random")
    torch.manual_seed(3)
    first, second = (lists.outcome(loss, backend, layout)[0] for _ in range(2))
    assert not torch.equal(first, second)
    torch.manual_seed(3)
    torch.testing.assert_close(lists.outcome(loss, backend, layout)[0], first, rtol=0, atol=0)


def test_the_mean_over_random_ties_is_that_of_all_orders():
    scores, labels = torch.tensor([[0.5, -1.0, 2.0]], dtype=torch.float64), torch.tensor([[1, 0, 1]])
    torch.manual_seed(0)
    drawn = losses.listmle(scores.expand(20_000, 3), labels.expand(20_000, 3), ties="random", reduction="none")
    flipped = losses.listmle(scores.flip(1), labels.flip(1), ties="position", reduction="none")
    both = torch.cat([losses.listmle(scores, labels, ties="position", reduction="none"), flipped])
    assert set(drawn.numpy().round(9)) == set(both.numpy().round(9))
    assert abs(drawn.mean() - both.mean()) < 4 * both.std(correction=0) / 20_000**0.5


@pytest.mark.parametrize("case", ["softmax", "p_listmle", "listmle, efron", "listmle, exact"])
def test_compiles_whole(case):
    torch._dynamo.reset()
    lists = Lists(lengths=(6, 3), seed=13)
    compiled = torch.compile(loss_of(case), fullgraph=True, backend="aot_eager")
    for layout in ("flat", "scattered"):
        eager = lists.outcome(loss_of(case), "fused", layout)
        torch.testing.assert_close(lists.outcome(compiled, "fused", layout), eager, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("offsets", [[0, 5, 12], [0, 5, 10**9], [0, 7, 5, 9], [1, 9]])
def test_compiled_losses_check_their_offsets(offsets):
    """Traced code cannot read values; the kernel would read beyond the documents."""
    compiled = torch.compile(losses.softmax, fullgraph=True, backend="aot_eager")
    with pytest.raises(
        ValueError, match=r"^offsets must run from 0 to the number of documents, 9, and must not decrease; got"
    ):
        compiled(torch.randn(9), torch.ones(9), offsets=torch.tensor(offsets))


@pytest.mark.parametrize("case", LIKELIHOODS)
def test_plain_counts_the_ties_far_from_zero(case):
    lists = Lists(lengths=(7,), seed=1)
    lists.scores = torch.tensor([1e30, 1.0, 1e30, 2.0, 1e30, -1e30, 0.5], dtype=torch.float64)
    lists.labels = torch.tensor([2, 1, 0, 2, 1, 1, 0])
    assert_equal(lists.outcome(loss_of(case), "plain"), lists.outcome(truth_of(case), "plain"), within(case, 1e-12))


@pytest.mark.parametrize("gradient", [True, False])
def test_the_operator_is_well_registered(gradient):
    from rankgrad.kernels import op

    lists = Lists(lengths=(4, 2), seed=14)
    scores = lists.scores.requires_grad_(gradient)
    given = (scores, lists.labels, lists.weights, None, lists.offsets, 0, torch.empty(0))
    inputs = ("listmle", *given, [*ListwiseOptions().flat()], gradient)
    assert op.FAMILIES["listmle"] == "listwise"
    torch.library.opcheck(torch.ops.rankgrad.loss.default, inputs)
