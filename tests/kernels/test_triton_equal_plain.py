"""Every loss with a Triton kernel, interpreted on the CPU: the fused loss against the plain one."""

import os
from importlib import import_module

import pytest
import torch
from made_lists import LAYOUTS_AND_TYPES, Lists
from test_kernels_equal_plain import (
    CASES,
    LIKELIHOODS,
    RELAXED_SORTING,
    TOLERANCES,
    assert_near,
    loss_of,
    takes_weights,
    truth_of,
)

import rankgrad as rg
from rankgrad.kernels import op

if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("TRITON_INTERPRET=1 is not set", allow_module_level=True)
pytest.importorskip("triton")
from rankgrad.kernels.cuda import approx, likelihood, listwise, neural_ndcg, pairwise, sinkhorn, smoothi, soft_ndcg

# Those of the CPU that have a kernel for GPUs.
ON_GPU = [case for case in CASES if "exact" not in case and not case.startswith("fastsort")]
every_case = pytest.mark.parametrize("case", ON_GPU)
every_loss = pytest.mark.parametrize("case", [case for case in ON_GPU if "," not in case])
# Lengths, size of the scores, labels, whether scores tie.
BATCHES = [
    ((0, 1, 2, 33), 1.0, range(5), False),
    ((40, 3), 30.0, range(3), True),
    ((17, 0, 31), 1e30, range(2), False),
    ((9, 4), 1e-3, (3,), False),
]
# Scores near 1 in every run, each layout and each type; the interpreter is slow, so all else is in the long tests.
EACH_BATCH = [BATCHES[0], *(pytest.param(batch, marks=pytest.mark.long) for batch in BATCHES[1:])]
# Families whose kernels for GPUs are less precise in float32 than those for the CPU; see `TOLERANCES`.
LESS_PRECISE = {
    "approx": (1e-11, 2e-5, 1.0),
    "neural_ndcg": (1e-11, 1e-5, 1.0),
    "soft_ndcg": (1e-11, 1e-5, 1.0),
    "smoothi": (1e-11, 1e-5, 1.0),
}
SMALL = {  # blocks, so that lists have several and the interpreter has little to do
    approx: {"ROWS": 16, "COLUMNS": 16, "TILE": 16},
    likelihood: {"TILE": 16, "WIDEST": 16, "ROWS": 16, "COLUMNS": 16},
    listwise: {"TILE": 16, "WIDEST": 16},
    neural_ndcg: {"ROWS": 16, "COLUMNS": 32},
    pairwise: {"ROWS": 16, "COLUMNS": 32, "TILE": 16},
    smoothi: {"ROWS": 16, "COLUMNS": 32, "TILE": 16},
    soft_ndcg: {"ROWS": 16, "COLUMNS": 32, "TILE": 16},
    sinkhorn: {"TALL": 32, "ENTRIES": 32 * 64},
}


@pytest.fixture(autouse=True)
def _interpreted(monkeypatch):
    """Run the Triton kernels on the CPU, with few rounds of scaling, in small blocks, on memory full of NaN."""
    monkeypatch.setattr(op, "_module", lambda device, family: import_module(f"rankgrad.kernels.cuda.{family}"))
    for module, sizes in SMALL.items():
        for name, size in sizes.items():
            monkeypatch.setattr(module, name, size)
    for family, tolerance in LESS_PRECISE.items():
        monkeypatch.setitem(TOLERANCES, family, tolerance)
    for case in CASES:
        if case.startswith("neural"):
            monkeypatch.setitem(CASES, case, {"sinkhorn_rounds": 3, **CASES[case]})
    for place, name in ((torch, "empty"), (torch, "empty_like"), (torch.Tensor, "new_empty")):
        monkeypatch.setattr(place, name, _poisoned(getattr(place, name)))


def _poisoned(allocate):
    def poisoned(*arguments, **options):
        tensor = allocate(*arguments, **options)
        return tensor.fill_(torch.nan if tensor.is_floating_point() else 1)

    return poisoned


def compare(case, lists, layout="flat", dtype=torch.float64, truth=truth_of, **options):
    """Compare values, derivatives by scores, and derivatives by the parameters of the loss."""
    outcomes, options["weighted"] = [], takes_weights(case)
    for function, backend, place, kind in (
        (loss_of(case), "fused", layout, dtype),
        (truth(case), "plain", "flat", torch.float64),
    ):
        by_parameters = []
        if isinstance(function, torch.nn.Module):
            with rg.backend(backend):
                value = function(lists.scores.to(kind), lists.labels, offsets=lists.offsets, reduction="sum")
            by_parameters = torch.autograd.grad(value, [*function.parameters()])
        outcomes.append((*lists.outcome(function, backend, place, dtype=kind, **options), *by_parameters))
    assert outcomes[0][0].dtype == dtype
    assert_near(case, *outcomes)


@pytest.mark.parametrize("batch", EACH_BATCH, ids=str)
@pytest.mark.parametrize(("layout", "dtype"), LAYOUTS_AND_TYPES)
@every_case
def test_interpreted_equals_plain(case, layout, dtype, batch):
    lengths, scale, labels, tied = batch
    tied = tied and case not in RELAXED_SORTING  # which have an own test
    lists = Lists(lengths, scale, seed=len(case), labels=labels, tied=tied)
    lists.scores = lists.scores.float().double()
    compare(case, lists, layout, dtype)


@every_loss
def test_the_mean_is_over_lists_with_signal(case):
    lists = Lists((4, 1, 0, 7), seed=2)
    lists.labels[:4] = 0
    compare(case, lists, truth=loss_of, reduction="mean")


@pytest.mark.parametrize("layout", ["flat", "scattered"])
@pytest.mark.parametrize("case", [case for case in ON_GPU if case in LIKELIHOODS])
def test_orders_by_sorting(case, layout, monkeypatch):
    monkeypatch.setattr(likelihood, "COUNTED", 0)
    compare(case, Lists((20, 0, 1, 37), seed=3), layout)


@pytest.mark.long
@pytest.mark.parametrize("case", ["neural_ndcg", "neural_ndcg, transposed"])
def test_a_list_of_many_blocks(case, monkeypatch):
    lists = Lists((150,), seed=3)
    compare(case, lists)
    monkeypatch.setattr(neural_ndcg, "ENTRIES", 2048)  # eight rows at a time, of the whole list
    compare(case, lists, "scattered")


@pytest.mark.parametrize("case", [case for case in ON_GPU if case in RELAXED_SORTING])
def test_ties(case):
    lists = Lists((12, 5), seed=5)
    lists.scores = lists.scores.round().clamp(0, 1) * 0.7
    compare(case, lists)


@pytest.mark.parametrize("case", ["neural_ndcg", "neural_ndcg, transposed"])
def test_a_score_far_off_costs_the_others_no_digits(case):
    lists, found = Lists((5,), seed=0), []
    lists.labels[:] = torch.tensor([1, 2, 0, 1, 0])
    for far in (60.0, 1e30):
        lists.scores[:] = torch.tensor([1.5, 1.0, 0.2, 1.1, far], dtype=torch.float64)
        found.append(lists.outcome(loss_of(case), "fused"))
    torch.testing.assert_close(*found, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", [case for case in ON_GPU if case in RELAXED_SORTING])
@pytest.mark.parametrize("spoiler", [torch.nan, torch.inf])
def test_a_score_that_is_no_number_spoils_its_own_list_only(case, spoiler):
    lists = Lists((5, 5), seed=10)
    lists.labels[:] = torch.tensor([3, 1, 0, 1, 0] * 2)
    lists.scores[4] = spoiler
    values, gradient = lists.outcome(loss_of(case), "fused")
    assert values[0].isnan()
    assert gradient[:5].isnan().all()
    assert values[1].isfinite()
    assert gradient[5:].isfinite().all()


@every_loss
def test_without_gradient_the_values_are_the_same(case):
    lists = Lists((7, 0, 1), seed=11)
    with rg.backend("fused"):
        values = loss_of(case)(lists.scores, lists.labels, offsets=lists.offsets, reduction="none")
    torch.testing.assert_close(values, lists.outcome(loss_of(case), "fused")[0], rtol=0, atol=0)
