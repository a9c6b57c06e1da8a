"""The C++ around the kernels of a GPU, tested on the CPU: its start, its graph, its launches by a test launcher."""

import contextlib
import ctypes
import threading
from types import SimpleNamespace

import pytest
import torch

import rankgrad as rg

pytest.importorskip("triton")
from rankgrad.backend import _native_by_default
from rankgrad.kernels.cache_folder import CacheFolder
from rankgrad.kernels.cuda import native
from rankgrad.kernels.cuda.recorded_launches import Launch

# The compiler takes 20 s.
compiled = [pytest.mark.long, pytest.mark.skipif(native.compiler() is None, reason="needs a C++ compiler")]


@pytest.fixture(scope="module")
def module():
    """The module, built once."""
    with rg.backend(native=True):
        assert native.wait(), "native.cpp does not compile"
        return native.ready()


@pytest.fixture(params=[pytest.param("built", marks=compiled)])
def built(module):
    """Return the module, with its tensors on the CPU on every machine."""
    with torch.device("cpu"):
        yield module


def test_the_gradient_is_the_slopes_times_what_comes_from_above(built):
    scores, slopes = torch.randn(3, 4, requires_grad=True), torch.randn(3, 4)
    value = built.connect(torch.tensor(2.5), slopes, scores)
    assert value.item() == 2.5
    (value * 3.0).backward()
    assert torch.equal(scores.grad, 3.0 * slopes)


def test_params_have_the_last_slopes(built):
    scores = torch.randn(2, 3, requires_grad=True)
    first, second = torch.tensor(1.0, requires_grad=True), torch.tensor(2.0)
    slopes = torch.arange(8.0)
    built.connect(torch.tensor(0.0), slopes, scores, first, second).backward()
    assert torch.equal(scores.grad, slopes[:6].view(2, 3))
    assert first.grad.item() == 6.0
    assert second.grad is None
    fixed = built.connect(torch.tensor(0.0), slopes, scores.detach(), first, second)
    (by_first,) = torch.autograd.grad(fixed, first)
    assert by_first.item() == 6.0


def test_nothing_to_learn_gives_no_graph(built):
    assert not built.connect(torch.tensor(0.0), torch.ones(2), torch.ones(2)).requires_grad


def test_a_second_derivative_is_refused(built):
    scores = torch.randn(4, requires_grad=True)
    value = built.connect(torch.tensor(1.0), torch.randn(4), scores)
    (gradient,) = torch.autograd.grad(value, scores, create_graph=True)
    with pytest.raises(RuntimeError, match=r"no second derivative; compute the loss inside `with"):
        gradient.sum().backward()


def test_the_slopes_are_freed(built):
    scores = torch.randn(4, requires_grad=True)
    value = built.connect(torch.tensor(1.0), torch.randn(4), scores)
    value.backward()
    with pytest.raises(RuntimeError, match="second time"):
        value.backward()


def test_slopes_are_held_where_nothing_stands_between(built):
    scores, slopes = torch.randn(2, 3, requires_grad=True), torch.arange(7.0)
    param = torch.tensor(1.0, requires_grad=True)
    value = built.connect(torch.tensor(0.0), slopes, scores, param)
    assert torch.equal(built.slopes(value, scores), slopes[:6].view(2, 3))
    assert built.slopes(value, param) is None
    assert built.slopes(value * 2.0, scores) is None
    assert built.slopes(built.connect(torch.tensor(0.0), slopes, scores * 1.0, param), scores) is None


def test_others_than_tensors_are_refused(built):
    with pytest.raises(TypeError, match="connect takes tensors"):
        built.connect(1.0, torch.ones(2), torch.ones(2))
    with pytest.raises(TypeError, match="a list of addresses"):
        built.run(None, 0, (1,))


# function, grid, block, shared memory, stream, arguments, extra (unused)
LAUNCHER = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_void_p,
)  # fmt: skip
SIGNATURE = {"source": "*fp32", "scratch": "*fp32", "out": "*fp32", "SIZE": "constexpr"}
SIGNATURE |= {"count": "i32", "factor": "fp32", "shift": "fp64", "many": "i64"}


def affine(function, *told):
    """A kernel in Python: out = factor * source + shift, through the scratch memory."""
    *grid, threads, _, _, shared, stream, arguments, _ = told
    places = [arguments[at] for at in range(7)]
    source, scratch, out = (ctypes.cast(place, ctypes.POINTER(ctypes.c_void_p))[0] for place in places[:3])
    kinds = (ctypes.c_int32, ctypes.c_float, ctypes.c_double, ctypes.c_int64)
    count, factor, shift, many = (ctypes.cast(p, ctypes.POINTER(k))[0] for p, k in zip(places[3:], kinds, strict=True))
    affine.told = (function, *grid, threads, shared, stream, many)
    floats = [ctypes.cast(place, ctypes.POINTER(ctypes.c_float)) for place in (source, scratch, out)]
    for at in range(count):
        floats[1][at] = factor * floats[0][at]
        floats[2][at] = floats[1][at] + shift
    return 0


def launch_of(offset=0):
    names = ["source", "scratch", "out", "SIZE", "count", "factor", "shift", "many"]
    values = [None, None, None, 64, 3, 0.5, 1.25, 1 << 40]
    tensors = [(0, 0, offset), (1, 1, 256), (2, 3, 0)]  # inputs, then the scratch, then outputs
    return Launch(SimpleNamespace(), (7, 2, 1), names, values, tensors)


def planned(built, launcher, launch):
    packed, sizes, pointers = native.pack_launch(SIGNATURE, launch)
    assert sizes == [8, 8, 8, 4, 4, 8, 8]
    told = (99, launch.grid, 128, 64, packed, list(range(0, len(packed), 8)), pointers)
    address = ctypes.cast(launcher, ctypes.c_void_p).value
    return built.plan(address, "cpu", 512, [told], [([2], False), ([1, 3], False)])


def test_a_plan_launches_what_was_written_down(built):
    launcher = LAUNCHER(affine)
    plan = planned(built, launcher, launch_of(offset=4))
    for start in (1.0, 10.0):
        source = torch.arange(start, start + 4)
        unused, out = built.run(plan, 12345, [source.data_ptr()])
        assert unused.shape == (2,)
        assert out.dtype == torch.float32
        torch.testing.assert_close(out, (0.5 * source[1:] + 1.25)[None])
    assert affine.told == (99, 7, 2, 1, 128, 64, 12345, 1 << 40)


def test_a_launch_that_fails_is_an_error(built):
    launcher = LAUNCHER(lambda *told: 701)
    plan = planned(built, launcher, launch_of())
    with pytest.raises(RuntimeError, match="could not be launched: CUDA error 701"):
        built.run(plan, 0, [torch.ones(4).data_ptr()])


def test_without_a_driver_there_is_no_plan(monkeypatch):
    monkeypatch.setattr(native, "_driver", lambda: None)
    assert native.plan(None, [launch_of()], (), 0, "cuda:0") is None


class Driver:
    """A driver that reports these argument sizes for every kernel."""

    def __init__(self, *sizes):
        self.sizes = sizes

    def cuFuncGetParamInfo(self, function, which, offset, size):
        if which.value >= len(self.sizes):
            return 1
        size._obj.value = self.sizes[which.value]
        return 0


@pytest.mark.parametrize(
    ("sizes", "scratch", "fits"),
    [
        ((8, 8, 8, 4, 4, 8, 8), 0, True),
        ((8, 8, 8, 4, 4, 8, 8, 8, 8), 0, True),  # scratch memory of Triton
        ((8, 8, 8, 4, 4, 8, 8, 8, 8), 128, False),  # which must be allocated
        ((8, 8, 8, 8, 4, 8, 8), 0, False),
        ((8, 8, 8, 4, 4, 8), 0, False),
        ((8, 8, 8, 4, 4, 8, 8, 4), 0, False),
    ],
)
def test_a_kernel_must_take_what_is_passed(sizes, scratch, fits):
    metadata = SimpleNamespace(num_ctas=1, num_warps=4, shared=0, global_scratch_size=scratch)
    compiled = SimpleNamespace(metadata=metadata, function=5, src=SimpleNamespace(signature=SIGNATURE))
    told = native._describe(launch_of()._replace(compiled=compiled), Driver(*sizes))
    assert (told is not None) == fits
    if fits:
        assert len(told[4]) == 8 * len(sizes) == 8 * len(told[5])


@pytest.fixture
def started(monkeypatch, tmp_path):
    """Record programs and threads that start, as if nothing were built yet and there were a compiler."""
    commands = []
    monkeypatch.delenv("RANKGRAD_NATIVE", raising=False)
    monkeypatch.setenv("RANKGRAD_CACHE", str(tmp_path))
    for name, value in (("_begun", False), ("_module", None), ("_builder", None)):
        monkeypatch.setattr(native, name, value)
    monkeypatch.setattr(native, "compiler", lambda: "c++")
    monkeypatch.setattr(
        native.subprocess, "run", lambda *told, **_: commands.append(told) or SimpleNamespace(returncode=1)
    )
    _native_by_default.cache_clear()
    yield commands
    _native_by_default.cache_clear()


@pytest.mark.parametrize("value", [None, "0", ""])
def test_nothing_is_started_by_default(started, monkeypatch, tmp_path, value):
    if value is not None:
        monkeypatch.setenv("RANKGRAD_NATIVE", value)
    monkeypatch.setattr(threading.Thread, "start", lambda thread: pytest.fail("a thread was started"))
    assert native.ready() is None
    assert not native.wait()
    with rg.backend("fused"):
        assert native.ready() is None
    assert started == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", ["environment", "keyword"])
def test_the_environment_and_the_keyword_start_the_compiler_once(started, monkeypatch, how):
    if how == "environment":
        monkeypatch.setenv("RANKGRAD_NATIVE", "1")
    with rg.backend("auto", native=True) if how == "keyword" else contextlib.nullcontext():
        assert not native.wait()  # this compiler has no output
        assert native.ready() is None
    ((command,),) = started
    assert str(native.SOURCE) in command


def test_a_module_that_is_built_is_used_only_where_it_is_wanted(started, monkeypatch):
    monkeypatch.setattr(native, "_begun", True)
    monkeypatch.setattr(native, "_module", "built")
    assert native.ready() is None
    with rg.backend(native=True):
        assert native.wait()
        assert native.ready() == "built"
        with rg.backend(native=False):
            assert native.ready() is None
            assert not native.wait()
    assert native.ready() is None


def test_a_damaged_file_is_not_loaded(tmp_path, monkeypatch):
    monkeypatch.setattr(native, "_module", None)
    folder = CacheFolder(tmp_path / "native")
    assert not native._load(folder)
    folder.write(native.NAME, b"content")
    (tmp_path / "native" / native.NAME).write_bytes(b"damaged" * 100)
    assert not native._load(folder)
    assert native._module is None
