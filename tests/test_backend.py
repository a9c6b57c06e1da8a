"""Choosing the implementation: the block, the environment, and what is said about a wrong name."""

import threading

import pytest
import torch

import rankgrad
from rankgrad import losses, metrics
from rankgrad.backend import _native_by_default, backend, current, native


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch):
    monkeypatch.delenv("RANKGRAD_BACKEND", raising=False)
    monkeypatch.delenv("RANKGRAD_NATIVE", raising=False)
    _native_by_default.cache_clear()
    yield
    _native_by_default.cache_clear()


def test_auto_is_the_default():
    assert current() == "auto"


def test_a_block_chooses_and_the_inner_one_wins():
    with backend("plain"):
        assert current() == "plain"
        with backend("fused"):
            assert current() == "fused"
        assert current() == "plain"
    assert current() == "auto"


def test_a_block_is_left_after_an_error():
    with pytest.raises(RuntimeError), backend("plain"):
        raise RuntimeError
    assert current() == "auto"


def test_the_environment_decides_outside_of_a_block(monkeypatch):
    monkeypatch.setenv("RANKGRAD_BACKEND", "plain")
    assert current() == "plain"
    with backend("fused"):
        assert current() == "fused"


def test_a_block_holds_for_its_own_thread_only():
    seen = []
    with backend("plain"):
        thread = threading.Thread(target=lambda: seen.append(current()))
        thread.start()
        thread.join()
    assert seen == ["auto"]


def test_wrong_names_are_told_in_one_sentence(monkeypatch):
    with (
        pytest.raises(ValueError, match=r"^backend must be one of 'auto', 'fused', 'plain'; got 'fast'$"),
        backend("fast"),
    ):
        pass
    monkeypatch.setenv("RANKGRAD_BACKEND", "fast")
    with pytest.raises(ValueError, match=r"^RANKGRAD_BACKEND must be one of 'auto', 'fused', 'plain'; got 'fast'$"):
        current()


def test_native_is_off_by_default_and_blocks_restore_it():
    assert not native()
    with backend("plain", native=True):
        assert native()
        with backend("fused"):  # None leaves what is in force
            assert native()
            with backend(native=False):
                assert current() == "auto"
                assert not native()
            assert native()
        assert current() == "plain"
    assert not native()
    with pytest.raises(RuntimeError), backend(native=True):
        raise RuntimeError
    assert not native()


@pytest.mark.parametrize(("value", "on"), [("1", True), ("0", False), ("", False)])
def test_the_environment_decides_about_native_outside_of_a_block(monkeypatch, value, on):
    monkeypatch.setenv("RANKGRAD_NATIVE", value)
    assert native() == on
    with backend():
        assert native() == on
    with backend(native=not on):
        assert native() != on


def test_native_holds_for_its_own_thread_only():
    seen = []
    with backend(native=True):
        thread = threading.Thread(target=lambda: seen.append(native()))
        thread.start()
        thread.join()
    assert seen == [False]


def test_wrong_values_of_native_are_told_in_one_sentence(monkeypatch):
    with pytest.raises(TypeError, match=r"^native must be True, False or None; got 'yes'$"), backend(native="yes"):
        pass
    monkeypatch.setenv("RANKGRAD_NATIVE", "yes")
    with pytest.raises(ValueError, match=r"^RANKGRAD_NATIVE must be one of '0', '1'; got 'yes'$"):
        native()


def test_it_is_public():
    assert rankgrad.backend is backend


NO_KERNEL = [
    (losses.ranknet, {"sigma": -1.0}, "sigma=-1.0"),
    (losses.lambdarank, {"sigma": -0.5}, "sigma=-0.5"),
    (losses.lambdarank, {"metric": "AP"}, "metric=AP"),
    (losses.lambdarank, {"metric": metrics.nDCG(gain=torch.square)}, "a custom gain or discount"),
    (losses.lambdaloss, {"sigma": -1.0}, "sigma=-1.0"),
    (losses.lambdaloss, {"metric": "P@2"}, "metric=P"),
    (losses.lambdaloss, {"metric": metrics.nDCG(discount=torch.sqrt)}, "a custom gain or discount"),
    (losses.xe_ndcg, {"gamma": torch.full((1, 3), 0.3)}, "a tensor as gamma"),
    (losses.smooth_ndcg, {"stop_gradient": False}, "stop_gradient=False"),
    (losses.smooth_precision, {"stop_gradient": False}, "stop_gradient=False"),
    (losses.smooth_ap, {"stop_gradient": False}, "stop_gradient=False"),
]


@pytest.mark.parametrize(("loss", "options", "named"), NO_KERNEL)
def test_fused_names_the_option_that_has_no_kernel(loss, options, named):
    lists = torch.tensor([[2.0, 1.0, 3.0]]), torch.tensor([[1.0, 0.0, 0.0]])
    with (
        pytest.raises(ValueError, match=f"^backend must be 'auto' or 'plain' with {named}; got 'fused'"),
        backend("fused"),
    ):
        loss(*lists, **options)
    with backend("plain"):
        plain = loss(*lists, **options)
    torch.testing.assert_close(loss(*lists, **options), plain, rtol=0, atol=0)
