"""The Triton kernels of NeuralNDCG, SoftSort and SmoothI, interpreted on the CPU, against the plain losses."""

import functools
import importlib
import os

import pytest
import torch
from made_lists import Lists
from test_kernels_soft_ndcg import assert_equal

from rankgrad import losses
from rankgrad.kernels import op

if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("TRITON_INTERPRET=1 is not set", allow_module_level=True)
pytest.importorskip("triton")
from rankgrad.kernels.cuda import neural_ndcg, sinkhorn, smoothi, soft_ndcg

CASES = {
    "neural_ndcg": {"sinkhorn_rounds": 3, "k": 5},
    "neural_ndcg, one round": {"sinkhorn_rounds": 1, "temperature": 0.3},
    "neural_ndcg, transposed": {"sinkhorn_rounds": 2, "transposed": True},
    "neural_ndcg, one round transposed": {"sinkhorn_rounds": 1, "transposed": True, "k": 1},
    "neural_ndcg, unscaled": {"sinkhorn_rounds": 0, "k": 3},
    "softsort_ndcg": {"k": 3, "temperature": 0.3},
    "softsort_ndcg, square": {"p": 2, "temperature": 0.5},
    "smooth_ndcg": {"k": 4, "alpha": 3.0},
    "smooth_precision": {"k": 1, "threshold": 1.0},
    "smooth_ap": {"k": 5, "delta": 0.3},
}
# Lengths, size of the scores, number of grades.
BATCHES = [((0, 1, 2, 33), 1.0, 5), ((20, 3), 30.0, 3), ((17, 0, 21), 1e30, 5), ((9, 4), 1e-3, 1)]
# Scores near 1 in every run; the interpreter is slow, so the other ranges are in the long tests.
EACH_BATCH = [BATCHES[0], *(pytest.param(batch, marks=pytest.mark.long) for batch in BATCHES[1:])]


def loss_of(case):
    return functools.partial(getattr(losses, case.split(",")[0]), **CASES[case])


@pytest.fixture(autouse=True)
def _interpreted(monkeypatch):
    """Make the CPU's operator run the Triton kernels, in small blocks and on memory full of NaN."""

    def run(name, *arguments):
        return importlib.import_module(f"rankgrad.kernels.cuda.{op.FAMILIES[name]}").run(name, *arguments)

    monkeypatch.setattr(op, "on_cpu", run)
    for module in (neural_ndcg, smoothi, soft_ndcg):
        monkeypatch.setattr(module, "ROWS", 16)
        monkeypatch.setattr(module, "COLUMNS", 32)
    for module in (smoothi, soft_ndcg):
        monkeypatch.setattr(module, "TILE", 16)
    monkeypatch.setattr(sinkhorn, "TALL", 32)
    monkeypatch.setattr(sinkhorn, "ENTRIES", 32 * 64)
    empty, empty_like, new_empty = torch.empty, torch.empty_like, torch.Tensor.new_empty
    monkeypatch.setattr(torch, "empty", lambda *a, **o: _poisoned(empty(*a, **o)))
    monkeypatch.setattr(torch, "empty_like", lambda *a, **o: _poisoned(empty_like(*a, **o)))
    monkeypatch.setattr(torch.Tensor, "new_empty", lambda *a, **o: _poisoned(new_empty(*a, **o)))


def _poisoned(tensor):
    return tensor.fill_(torch.nan if tensor.is_floating_point() else 1)


@pytest.mark.parametrize("batch", EACH_BATCH, ids=str)
@pytest.mark.parametrize("layout", ["flat", "scattered"])
@pytest.mark.parametrize("case", CASES)
def test_interpreted_equals_plain(case, layout, batch):
    lengths, spread, grades = batch
    dtype, tolerance = (torch.float64, 1e-11) if layout == "flat" else (torch.float32, 1e-5)
    lists = Lists(lengths, spread, seed=len(case), labels=range(grades), dtype=dtype)
    found = lists.outcome(loss_of(case), "fused", layout)
    assert found[0].dtype == dtype
    assert_equal(found, lists.outcome(loss_of(case), "plain", dtype=torch.float64), tolerance)


@pytest.mark.long
@pytest.mark.parametrize("case", ["neural_ndcg", "neural_ndcg, transposed"])
def test_a_list_of_many_blocks(case, monkeypatch):
    lists = Lists((150,), seed=3)
    truth = lists.outcome(loss_of(case), "plain")
    assert_equal(lists.outcome(loss_of(case), "fused"), truth, 1e-11)
    monkeypatch.setattr(neural_ndcg, "ENTRIES", 2048)  # eight rows at a time, of the whole list
    assert_equal(lists.outcome(loss_of(case), "fused", "scattered"), truth, 1e-11)


@pytest.mark.parametrize("case", CASES)
def test_ties(case):
    lists = Lists((12, 5), seed=5)
    lists.scores = lists.scores.round().clamp(0, 1) * 0.7
    assert_equal(lists.outcome(loss_of(case), "fused"), lists.outcome(loss_of(case), "plain"), 1e-11)


@pytest.mark.parametrize("case", ["neural_ndcg", "neural_ndcg, transposed"])
def test_a_score_far_off_costs_the_others_no_digits(case):
    lists, found = Lists((5,), seed=0), []
    lists.labels[:] = torch.tensor([1, 2, 0, 1, 0])
    for far in (60.0, 1e30):
        lists.scores[:] = torch.tensor([1.5, 1.0, 0.2, 1.1, far], dtype=torch.float64)
        found.append(lists.outcome(loss_of(case), "fused"))
    assert_equal(*found, 1e-12)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("spoiler", [torch.nan, torch.inf])
def test_a_score_that_is_no_number_spoils_its_own_list_only(case, spoiler):
    lists = Lists((5, 5), seed=10)
    lists.labels[:] = torch.tensor([2, 1, 0, 1, 0] * 2)
    lists.scores[4] = spoiler
    values, gradient = lists.outcome(loss_of(case), "fused")
    assert values[0].isnan()
    assert gradient[:5].isnan().all()
    assert values[1].isfinite()
    assert gradient[5:].isfinite().all()


@pytest.mark.parametrize("case", CASES)
def test_without_gradient_the_values_are_the_same(case):
    lists = Lists((7, 0, 1), seed=11)
    values = loss_of(case)(lists.scores, lists.labels, offsets=lists.offsets, reduction="none")
    torch.testing.assert_close(values, lists.outcome(loss_of(case), "fused")[0], rtol=0, atol=0)
