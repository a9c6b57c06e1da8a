"""The Triton kernels of the softmax and Plackett-Luce losses, interpreted on the CPU, against the plain losses."""

import itertools
import os

import pytest
import torch
from made_lists import Lists
from test_kernels_listwise import CASES, LIKELIHOODS, ON_GPU, assert_equal, loss_of, truth_of

if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("TRITON_INTERPRET=1 is not set", allow_module_level=True)
pytest.importorskip("triton")
from rankgrad.kernels.cuda import likelihood, listwise
from rankgrad.kernels.options import ListwiseOptions, Targets, Ties

# Lengths, size of the scores, number of grades.
BATCHES = [
    ((0, 1, 2, 33), 1.0, 5),
    ((40, 3), 100.0, 3),
    ((17, 0, 31), 1e30, 5),
    ((9, 4), 1e-3, 1),
]
# Scores near 1 in every run; the interpreter is slow, so the other ranges are in the long tests.
EACH_BATCH = [BATCHES[0], *(pytest.param(batch, marks=pytest.mark.long) for batch in BATCHES[1:])]


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch):
    """Use small blocks, so that lists have several and the interpreter has little to do."""
    for name, size in (("TILE", 16), ("WIDEST", 16), ("ROWS", 16), ("COLUMNS", 16)):
        monkeypatch.setattr(likelihood, name, size)
    monkeypatch.setattr(listwise, "TILE", 16)
    monkeypatch.setattr(listwise, "WIDEST", 16)
    empty, empty_like, new_empty = torch.empty, torch.empty_like, torch.Tensor.new_empty
    monkeypatch.setattr(torch, "empty", lambda *a, **o: _poisoned(empty(*a, **o)))
    monkeypatch.setattr(torch, "empty_like", lambda *a, **o: _poisoned(empty_like(*a, **o)))
    monkeypatch.setattr(torch.Tensor, "new_empty", lambda *a, **o: _poisoned(new_empty(*a, **o)))


def _poisoned(tensor):
    return tensor.fill_(torch.nan if tensor.is_floating_point() else 1)


def interpreted(case, lists, layout, weighted, gradient=True):
    """Return values and gradients like `Lists.outcome`."""
    name = case.split(",")[0]
    choices = {"targets": Targets, "ties": Ties}
    told = {key: choices[key][value.upper()] if key in choices else value for key, value in CASES[case].items()}
    options = ListwiseOptions(**told)
    weights = lists.weights if weighted else None
    if layout == "flat":
        inputs = (lists.scores, lists.labels, weights, None, lists.offsets, 0)
    else:
        padded = (lists.scattered(lists.scores, torch.nan), lists.scattered(lists.labels, -7))
        heavy = lists.scattered(weights, torch.nan) if weighted else None
        rows = [None if tensor is None else tensor.reshape(-1) for tensor in (*padded, heavy, lists.mask)]
        inputs = (*rows, None, lists.mask.shape[1])
    values, signal, slopes, extras = listwise.run(name, *inputs, torch.empty(0), options, gradient)
    assert extras.shape == (len(values) if gradient else 0, 0)
    if not gradient:
        return values, signal, slopes
    if layout != "flat":
        assert not slopes[~lists.mask.reshape(-1)].any()
        slopes = slopes[lists.mask.reshape(-1)]
    upstream = torch.linspace(1.0, 2.0, max(len(values), 2), dtype=values.dtype)[: len(values)]
    return values, slopes * upstream.repeat_interleave(lists.offsets.diff()), signal


@pytest.mark.parametrize("batch", EACH_BATCH, ids=str)
@pytest.mark.parametrize("layout", ["flat", "scattered"])
@pytest.mark.parametrize("case", ON_GPU)
def test_interpreted_equals_plain(case, layout, batch):
    lengths, spread, grades = batch
    weighted = len(lengths) > 2
    dtype, tolerance = (torch.float64, 1e-11) if layout == "flat" else (torch.float32, 3e-6)
    lists = Lists(lengths, spread, seed=len(case), labels=range(grades), dtype=dtype)
    values, gradient, signal = interpreted(case, lists, layout, weighted)
    assert values.dtype == dtype
    truth = lists.outcome(truth_of(case), "plain", weighted=weighted, dtype=torch.float64)
    assert_equal((values, gradient), truth, tolerance)
    rows = [lists.labels[first:last] for first, last in itertools.pairwise(lists.offsets.tolist())]
    expected = [len(set(y.tolist())) > 1 if "listmle" in case else bool((y > 0).any()) for y in rows]
    assert signal.tolist() == expected


@pytest.mark.parametrize("layout", ["flat", "scattered"])
@pytest.mark.parametrize("case", [case for case in ON_GPU if case in LIKELIHOODS])
def test_orders_by_sorting(case, layout, monkeypatch):
    monkeypatch.setattr(likelihood, "COUNTED", 0)
    lists = Lists((20, 0, 1, 37), seed=3, dtype=torch.float64)
    truth = lists.outcome(loss_of(case), "plain", weighted=True)
    assert_equal(interpreted(case, lists, layout, weighted=True)[:2], truth, 1e-11)


@pytest.mark.parametrize("case", ON_GPU)
def test_without_gradient(case):
    lists = Lists((20, 3), seed=4)
    values, _, slopes = interpreted(case, lists, "flat", weighted=False, gradient=False)
    assert slopes.shape == (0,)
    torch.testing.assert_close(values, lists.outcome(loss_of(case), "plain")[0], rtol=1e-11, atol=1e-12)
