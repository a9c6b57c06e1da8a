"""Eager mode on a GPU, interpreted on the CPU: reductions, gradients, and recorded calls."""

import math
import os
from types import SimpleNamespace

import pytest
import torch

import rankgrad as rg
from rankgrad import losses

if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("TRITON_INTERPRET=1 is not set", allow_module_level=True)
pytest.importorskip("triton")
from rankgrad.kernels.cuda import native
from rankgrad.kernels.cuda.calls import eager, registered
from rankgrad.kernels.cuda.recorded_launches import Recording, allocate, as_bytes, launch
from rankgrad.kernels.options import OPTIONS, ApproxOptions, ParamForm

UPSTREAM = torch.tensor(0.7, dtype=torch.float64)


@pytest.fixture(params=["in Python", "in C++"], autouse=True)
def way(request):
    """Connect values to the graph in both ways."""
    with rg.backend(native=request.param == "in C++"):
        if request.param == "in C++" and not native.wait():
            pytest.skip("needs a C++ compiler")
        yield


def batch():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(5, 9, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, 3, (5, 9), generator=generator)
    labels[2] = 0  # no signal
    return scores, labels


def call(family, reduction, name, scores, labels, params=(), options=None):
    numbers = (options or OPTIONS[family]()).flat()
    return eager(family, reduction, name, scores, labels, None, None, None, 9, params, numbers, scores.requires_grad)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_eager_equals_plain(reduction):
    scores, labels = batch()
    leaf, other = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    with rg.backend("plain"):
        expected = losses.ranknet(leaf, labels, reduction=reduction)
    value = call("pairwise", reduction, "ranknet", other, labels)
    upstream = UPSTREAM.expand_as(value) * torch.arange(1, value.numel() + 1).view(value.shape)
    value.backward(upstream)
    expected.backward(upstream)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(other.grad, leaf.grad)


def test_the_operator_of_compiled_code_equals_plain():
    scores, labels = batch()
    leaf = scores.clone().requires_grad_()
    with rg.backend("plain"):
        expected = losses.approx_ndcg(leaf, labels, reduction="none", temperature=0.5)
    numbers = torch.tensor((math.log(2.0), 0.0, 2.0), dtype=torch.float64)
    flat = (scores.view(-1), labels.view(-1), None, None, None, 9)
    values, signal, slopes, extras = registered("approx", "learndcg", *flat, numbers, ApproxOptions().flat(), True)
    torch.testing.assert_close(values, expected)
    torch.testing.assert_close(slopes.view(5, 9), torch.autograd.grad(expected.sum(), leaf)[0])
    assert signal.tolist() == [True, True, False, True, True]
    assert extras.shape == (5, 3)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_params_have_gradients(reduction):
    scores, labels = batch()
    learn = losses.LearnDCG(discount="curved", gain_base=1.5, discount_base=3.0).double()
    params, scores = tuple(learn.parameters()), scores.requires_grad_()
    with rg.backend("plain"):
        value = learn(scores, labels, reduction=reduction)
    expected = torch.autograd.grad(value, (scores, *params), UPSTREAM.expand_as(value))
    value = call("approx", reduction, "learndcg", scores, labels, params, ApproxOptions(form=ParamForm.LEARNED_CURVED))
    torch.testing.assert_close(torch.autograd.grad(value, (scores, *params), UPSTREAM.expand_as(value)), expected)


def test_no_second_derivative():
    scores, labels = batch()
    leaf = scores.requires_grad_()
    (slope,) = torch.autograd.grad(call("listwise", "mean", "softmax", leaf, labels), leaf, create_graph=True)
    with pytest.raises(RuntimeError, match=r"rg.backend\('plain'\)"):
        slope.sum().backward()


def test_values_without_gradients():
    scores, labels = batch()
    with rg.backend("plain"):
        values = losses.softmax(scores, labels, reduction="none")
    found = call("listwise", "none", "softmax", scores, labels)
    torch.testing.assert_close(found, values)
    assert not found.requires_grad


class Compiled:
    """Return value of a launch by Triton."""

    function, packed_metadata = 7, (4, 1, 0)

    def __init__(self, calls):
        self.calls = calls

    def run(self, *arguments):
        self.calls.append(arguments)


class Kernel:
    """A kernel that only records its launches."""

    arg_names = ("source", "flags", "between", "out", "n", "TILE")

    def __init__(self):
        self.calls = []

    def __getitem__(self, grid):
        return lambda *arguments, **constants: Compiled(self.calls)


def record(source, between=None):
    kernel = Kernel()
    with Recording([source]) as recording:
        flags, out = allocate(source, 3, dtype=torch.bool), allocate(source, 2)
        between = allocate(source, 5) if between is None else between
        launch(kernel, (3,), source, as_bytes(flags, source), between, out, 6, TILE=16, num_warps=4)
    recording.finish((out, torch.Size((1, 2))))
    return kernel, recording


def test_a_call_that_was_made_before_is_its_launches(monkeypatch):
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 5, raising=False)
    kernel, recording = record(torch.zeros(6))
    assert recording.whole
    (out,) = recording.again([4096], torch.device("cpu"))
    ((*head, source, flags, between, result, n, tile),) = kernel.calls
    assert head == [3, 1, 1, 5, 7, (4, 1, 0), None, None, None]
    assert (source, result, n, tile) == (4096, out.data_ptr(), 6, 16)
    assert between - flags == 256  # each begins at a multiple of 256 bytes
    assert out.shape == (1, 2)


def test_a_plan_runs_only_where_the_module_is_wanted(monkeypatch):
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 5, raising=False)
    monkeypatch.setattr(native, "plan", lambda *told: ("plan", told[0]))
    built = SimpleNamespace(run=lambda *told: [*told])
    kernel, recording = record(torch.zeros(6))
    assert recording.again([4096], torch.device("cpu"), built) == [("plan", built), 5, [4096]]
    assert kernel.calls == []
    (out,) = recording.again([4096], torch.device("cpu"))
    assert out.shape == (1, 2)
    assert len(kernel.calls) == 1


def test_a_tensor_from_elsewhere_is_not_remembered():
    assert not record(torch.zeros(6), between=torch.zeros(5))[1].whole


def test_an_input_that_is_given_twice_is_not_remembered():
    source = torch.zeros(6)
    assert not Recording([source, None, source]).whole
