"""Every loss with a kernel for the CPU: the fused loss against the plain one."""

import copy
import functools
import math
import os
import resource
import subprocess
import sys

import numpy as np
import pytest
import torch
from conditioning import one_ulp
from made_lists import Lists

import rankgrad as rg
from rankgrad import losses, metrics
from rankgrad.kernels.cpu import neural_ndcg, pairwise
from rankgrad.kernels.op import FAMILIES, FUSED
from rankgrad.kernels.options import (
    ListwiseOptions,
    NeuralNDCGOptions,
    PairwiseOptions,
    SmoothIOptions,
    SoftNDCGOptions,
    Truncation,
)

CASES = {
    "approx_ndcg": {},
    "approx_ndcg, @5": {"k": 5, "temperature": 0.3, "beta": 2.0},
    "approx_mrr": {},
    "approx_mrr, @3": {"k": 3, "threshold": 1.0, "beta": 2.0},
    "approx_ap": {},
    "approx_ap, @7": {"k": 7, "temperature": 2.0, "beta": 2.0, "threshold": 1.0},
    "approx_precision, @5": {"k": 5, "beta": 1.0, "temperature": 0.2},
    "LearnDCG": {"k": 3, "beta": 2.0},
    "LearnDCG, curved": {"discount": "curved", "gain_base": 1.4, "discount_base": 4.0},
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
    "ranknet": {},
    "ranknet, @10": {"k": 10, "sigma": 0.7},
    "ranknet, @10 both": {"k": 10, "pairs": "both"},
    "hinge": {},
    "hinge, 0.3": {"margin": 0.3},
    "lambdarank": {},
    "lambdarank, @5": {"k": 5, "sigma": 2.0},
    "lambdarank, linear": {"metric": metrics.nDCG(gain="linear") @ 7},
    "lambdaloss": {},
    "lambdaloss, @1": {"k": 1},
    "lambdaloss, @5": {"k": 5},
    "lambdaloss, @5 heuristic": {"k": 5, "truncation": "heuristic"},
    "lambdaloss, linear": {"metric": metrics.nDCG(gain="linear")},
    "lambdaloss, sharp": {"sigma": 2.0, "truncation": "sound"},
    **{
        f"lambdaloss, {scheme}@{k}": {"scheme": scheme, "k": k, "mu": 3.0}
        for scheme in ("ndcg1", "ndcg2pp", "arp1", "arp2")
        for k in (None, 5)
    },
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
    "smooth_ap, cut": {"k": 4, "alpha": 3.0, "delta": 0.2, "threshold": 2.0},
}
LIKELIHOODS = [case for case in CASES if "listmle" in case]
RELAXED_SORTING = [case for case in CASES if case.startswith(("neural", "softsort", "fastsort", "smooth"))]
every_case = pytest.mark.parametrize("case", CASES)

# Relative errors in float64 and float32, and the smallest size that they are relative to.
TOLERANCES = {
    "approx": (1e-10, 3e-5, 1e-3),  # a soft cutoff multiplies rounding errors of large ranks by beta
    "pairwise": (1e-11, 3e-6, 1e-30),  # derivatives are sums that cancel
    "listwise": (1e-11, 2e-6, 1e-3),
    "neural_ndcg": (1e-11, 3e-6, 1.0),
    "soft_ndcg": (1e-11, 3e-6, 1.0),
    "smoothi": (1e-11, 3e-6, 1.0),
}
# Error of the quadrature: the kernel and the plain loss may place their nodes differently.
QUADRATURE = 1e-9


def family_of(case):
    name = case.split(",")[0].lower()
    return FAMILIES["learndcg" if name == "approx_ndcg" else name]


def loss_of(case):
    loss = getattr(losses, case.split(",")[0])
    return loss(**CASES[case]).double() if isinstance(loss, type) else functools.partial(loss, **CASES[case])


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
    """Reference at any range of scores."""
    if case not in LIKELIHOODS or "exact" in case:
        return loss_of(case)
    together, efron = "in order" not in case, "efron" in case
    return functools.partial(likelihood, position_aware=case.startswith("p_"), together=together, efron=efron)


def assert_near(case, found, truth, more=0.0):
    """Check values and derivatives to the tolerance of the family, or one that is larger, relative to the largest."""
    double, single, least = TOLERANCES[family_of(case)]
    tolerance = max(double if found[0].dtype == torch.float64 else single, more, QUADRATURE if "exact" in case else 0)
    for ours, theirs in zip(found, truth, strict=True):
        size = float(theirs.abs().max()) if theirs.numel() else 0.0
        margin = tolerance * max(size, least)
        torch.testing.assert_close(ours.double(), theirs.double(), rtol=0, atol=margin)


def compare(case, lists, truth=loss_of, layout="flat", more=0.0, **options):
    """Compare the fused loss with the plain one, which computes in float64."""
    fused = lists.outcome(loss_of(case), "fused", layout, **options)
    assert fused[0].dtype == lists.scores.dtype
    assert_near(case, fused, lists.outcome(truth(case), "plain", dtype=torch.float64, **options), more)


def of_rounding(case, lists):
    """Error of SmoothI by rounding: its product amplifies the last digit of a score from rank to rank."""
    if family_of(case) != "smoothi":
        return 0.0
    exact = copy.copy(lists)
    exact.scores = lists.scores.double()
    return 10.0 * one_ulp(exact, loss_of(case), exact.outcome(loss_of(case), "plain"))


def takes_weights(case):
    return family_of(case) in ("listwise", "pairwise")


def test_every_loss_with_a_kernel_has_a_case():
    """Also for Triton, whose tests use the same cases."""
    assert {case.split(",")[0].lower() for case in CASES} == FUSED


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("layout", ["flat", "scattered"])
@pytest.mark.parametrize(
    ("case", "weighted"), [(case, on) for case in CASES for on in ((False, True) if takes_weights(case) else (False,))]
)
def test_equals_plain(case, layout, weighted, dtype):
    compare(case, Lists(seed=len(case), dtype=dtype), layout=layout, weighted=weighted)


@every_case
@pytest.mark.parametrize("spread", [1e-3, 10.0, 30.0, 60.0, 1e3, 1e4, 1e10, 1e30])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_equals_plain_float64_at_any_range(case, spread, dtype):
    lists = Lists((3, 0, 1, 2, 33, 65), spread, seed=3, dtype=dtype)
    compare(case, lists, truth_of, more=of_rounding(case, lists), weighted=takes_weights(case))


@every_case
@pytest.mark.parametrize("unit", [0.73, 7.3, 1e30])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_ties(case, unit, dtype):
    lists = Lists((3, 0, 1, 2, 63, 64), unit, seed=2, tied=True, dtype=dtype)
    compare(case, lists, truth_of, more=of_rounding(case, lists))


@pytest.mark.parametrize(
    "case", [case for case in CASES if family_of(case) != "pairwise" and case not in RELAXED_SORTING]
)
@pytest.mark.parametrize("far", [1e3, 1e12, 1e30])
def test_scores_near_each_other_beside_far_ones(case, far):
    lists = Lists((7, 65, 40), seed=13)
    lists.scores[::6] *= far
    compare(case, lists, truth_of)


@pytest.mark.parametrize("case", [case for case in CASES if family_of(case) == "listwise"])
@pytest.mark.parametrize("scores", [[1e30, 1e30, -1e30, 1e30, 0], [-1e30, 0, 0, 1e30, 1e30], [5e3, 5e3, 0, 0, 1]])
def test_ties_far_apart(case, scores):
    lists = Lists((5,), seed=1)
    lists.scores, lists.labels = torch.tensor(scores, dtype=torch.float64), torch.tensor([2, 0, 2, 1, 1])
    compare(case, lists, truth_of)


# Of the losses on relaxed sorting, whose plain forms are slow, one for each path through the kernels.
SLOW = ("neural_ndcg", "softsort_ndcg", "softsort_ndcg, square", "fastsort_ndcg", "smooth_ndcg", "smooth_ap")
LONG = [case for case in CASES if case in SLOW or case not in RELAXED_SORTING]


@pytest.mark.parametrize("case", LONG)
def test_long_lists(case, monkeypatch):
    """Lists that several threads share, or that are cut into strips."""
    monkeypatch.setattr(pairwise, "LONG", 256)
    compare(case, Lists((500, 5, 1030), seed=12))


@every_case
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("layout", ["flat", "scattered"])
def test_every_reduction(case, reduction, layout):
    lists = Lists((4, 1, 0, 7), seed=2)
    lists.labels[:4] = 0  # a list without signal, which the mean excludes
    compare(case, lists, layout=layout, reduction=reduction)


@pytest.mark.parametrize(
    ("case", "label"),
    [(case, label) for case in CASES for label in ((0, 3, 1e-20, 2000) if case in RELAXED_SORTING else (0, 3))],
)
def test_equal_labels(case, label):
    lists = Lists((6, 2, 1), seed=4)
    lists.labels = torch.full_like(lists.scores, label)
    compare(case, lists)
    if label == 0 or case in LIKELIHOODS or family_of(case) == "pairwise":
        assert not any(part.any() for part in lists.outcome(loss_of(case), "fused"))


@every_case
@pytest.mark.parametrize("largest", [1, 3, 900])
def test_other_labels(case, largest):
    """Binary labels, fractions, and labels whose exponential is no number."""
    lists = Lists((70, 300, 3), seed=5)
    drawn = torch.rand(373, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * largest
    lists.labels = drawn.round() if largest == 1 else drawn - (1.5 if case in LIKELIHOODS else 0.0)
    compare(case, lists)


@every_case
def test_every_entry_is_written(case, monkeypatch):
    """Uninitialised memory may hold anything; here it holds NaN."""
    lists = Lists((4, 0, 1, 9), seed=7)
    lists.labels[:4] = 0
    expected = lists.outcome(loss_of(case), "fused", "scattered")
    empty, calls = np.empty, []

    def poisoned(*arguments, **options):
        array = empty(*arguments, **options)
        array.fill(np.nan if array.dtype.kind == "f" else 1)
        calls.append(array)
        return array

    monkeypatch.setattr(np, "empty", poisoned)
    torch.testing.assert_close(lists.outcome(loss_of(case), "fused", "scattered"), expected, rtol=0, atol=0)
    assert calls


@pytest.mark.parametrize("case", LONG)
def test_the_number_of_threads_changes_nothing(case):
    lengths = (240, 0, 700, 1) * 40 if family_of(case) == "listwise" else (700, 3, 65, 1200)
    lists = Lists((120, 0, 65, 1) * 3 if case in SLOW else lengths, seed=8, dtype=torch.float32)
    before, found = torch.get_num_threads(), []
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


@pytest.mark.parametrize(
    ("case", "spoiler"),
    [*((case, math.nan) for case in CASES), *((case, math.inf) for case in RELAXED_SORTING)],
)
def test_a_score_that_is_no_number_spoils_its_own_list_only(case, spoiler):
    lists = Lists((5, 5), seed=10)
    lists.labels[:] = torch.tensor([3, 1, 0, 1, 0] * 2)
    lists.scores[3] = spoiler
    values, gradient = lists.outcome(loss_of(case), "fused")
    assert values[0].isnan()
    assert gradient[:5].isnan().any() or family_of(case) == "pairwise"
    assert gradient[:5].isnan().all() or case not in RELAXED_SORTING
    assert values[1].isfinite()
    assert gradient[5:].isfinite().all()


@every_case
def test_without_gradient_the_values_are_the_same(case):
    """Also wherever the arrays of a call are in memory."""
    lists, held = Lists((7, 65, 0, 1), seed=11), []
    expected = lists.outcome(loss_of(case), "fused")[0].detach()
    for size in range(8):
        held.append(torch.empty(100 * size + 1))
        with rg.backend("fused"):
            values = loss_of(case)(lists.scores, lists.labels, offsets=lists.offsets, reduction="none")
        torch.testing.assert_close(values, expected, rtol=0, atol=0)


COMPILED = [
    *("approx_ndcg", "LearnDCG", "softmax", "p_listmle", "listmle, efron", "listmle, exact", "ranknet", "hinge"),
    *("lambdarank, @5", "lambdaloss, @5", "lambdaloss, ndcg1@None", "neural_ndcg", "fastsort_ndcg", "smooth_ndcg"),
]


@pytest.mark.parametrize("case", COMPILED)
def test_compiles_whole(case):
    torch._dynamo.reset()
    lists, loss = Lists((5, 0, 20), seed=13), loss_of(case)
    compiled = torch.compile(lambda *given, **named: loss(*given, **named), fullgraph=True, backend="aot_eager")
    for layout in ("flat", "scattered"):
        eager = lists.outcome(loss, "fused", layout)
        torch.testing.assert_close(lists.outcome(compiled, "fused", layout), eager, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("offsets", [[0, 5, 12], [0, 5, 10**9], [0, 7, 5, 9], [1, 9]])
def test_compiled_losses_check_their_offsets(offsets):
    """Traced code cannot read values; the kernel would read beyond the documents."""
    compiled = torch.compile(losses.softmax, fullgraph=True, backend="aot_eager")
    with pytest.raises(
        ValueError, match=r"^offsets must run from 0 to the number of documents, 9, and must not decrease; got"
    ):
        compiled(torch.randn(9), torch.ones(9), offsets=torch.tensor(offsets))


@pytest.mark.parametrize(
    ("name", "options", "gradient"),
    [
        ("listmle", ListwiseOptions(), True),
        ("listmle", ListwiseOptions(), False),
        ("lambdaloss", PairwiseOptions(k=5, truncation=Truncation.SOUND), True),
        ("neural_ndcg", NeuralNDCGOptions(sinkhorn_rounds=3), True),
        ("softsort_ndcg", SoftNDCGOptions(), True),
        ("smooth_ap", SmoothIOptions(k=3), True),
    ],
)
def test_the_operator_is_well_registered(name, options, gradient):
    lists = Lists((4, 2), seed=14)
    weights = lists.weights if takes_weights(name) else None
    given = (lists.scores.requires_grad_(gradient), lists.labels, weights, None, lists.offsets, 0, torch.empty(0))
    torch.library.opcheck(torch.ops.rankgrad.loss.default, (name, *given, [*options.flat()], gradient))


# Of the losses at sigmoid ranks.


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"k": 4, "gain_base": 3.5, "beta": 2.0},
        {"discount": "curved", "alpha": 0.4},
        {"discount": "curved", "gain_base": 1.0 + 1e-7, "discount_base": 1.0 + 1e-7},
        {"discount": "curved", "discount_base": 9.0, "k": 10, "learn": ("discount",), "beta": 2.0},
    ],
    ids=str,
)
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
    nearly_flat = settings.get("gain_base") == 1.0 + 1e-7
    for plain, fused in zip(*outcomes, strict=True):
        torch.testing.assert_close(fused, plain, rtol=1e-8, atol=1e-7 if nearly_flat else 1e-10)


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
    assert_near("approx_ndcg", *(lists.outcome(loss, backend, noise=noise) for backend in ("fused", "plain")))


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


# Of the listwise losses.


@pytest.mark.parametrize("layout", ["flat", "scattered"])
def test_random_ties_are_those_of_the_noise(layout):
    lists = Lists(seed=15)
    noise = torch.rand(lists.scores.shape, dtype=torch.float64)
    noise = noise if layout == "flat" else lists.scattered(noise, torch.nan)
    loss = functools.partial(losses.listmle, ties="random", noise=noise)
    outcomes = (lists.outcome(loss, backend, layout, True) for backend in ("fused", "plain"))
    assert_near("listmle", *outcomes)


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


@pytest.mark.parametrize("case", LIKELIHOODS)
def test_plain_counts_the_ties_far_from_zero(case):
    lists = Lists((7,), seed=1)
    lists.scores = torch.tensor([1e30, 1.0, 1e30, 2.0, 1e30, -1e30, 0.5], dtype=torch.float64)
    lists.labels = torch.tensor([2, 1, 0, 2, 1, 1, 0])
    assert_near(case, lists.outcome(loss_of(case), "plain"), lists.outcome(truth_of(case), "plain"))


# Of the pairwise losses.


def test_options_without_a_kernel_stay_plain():
    lists, gamma = Lists((5, 20), seed=7), torch.full((25,), 0.4, dtype=torch.float64)
    for options in ({"metric": "AP"}, {"metric": metrics.nDCG(gain=lambda y: y**2)}, {"sigma": -1.0}):
        for case in ("lambdarank", "lambdaloss"):
            loss = functools.partial(getattr(losses, case), **options)
            assert_near(case, lists.outcome(loss, "auto"), lists.outcome(loss, "plain"))
    by_document = lists.outcome(functools.partial(losses.xe_ndcg, gamma=gamma), "auto")
    assert_near("xe_ndcg", by_document, lists.outcome(loss_of("xe_ndcg"), "fused"))


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


# Of the losses on relaxed sorting.

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


@pytest.mark.parametrize("case", [case for case in CASES if case.startswith("neural")])
def test_a_matrix_that_is_not_kept(case, monkeypatch):
    lists = Lists((3, 120, 1, 17), seed=6)
    kept = lists.outcome(loss_of(case), "fused")
    monkeypatch.setattr(neural_ndcg, "MATRIX_BYTES", 0)
    torch.testing.assert_close(lists.outcome(loss_of(case), "fused"), kept, rtol=0, atol=0)


def test_exponentials_that_vectorise():
    from numba import njit

    from rankgrad.kernels.cpu.exponential import exp as compiled

    exp = njit(lambda x: compiled(x))  # only kernels may call a helper
    x = -np.concatenate([np.geomspace(1e-12, 690.0, 400), np.arange(0, 60, 0.17)])
    found = np.array([exp(value) for value in x])
    np.testing.assert_allclose(found, np.exp(x), rtol=2e-13)
    assert 0.0 < exp(-1e308) < 1e-300
    assert exp(-np.inf) < 1e-300
