"""Choosing the implementation: the block, the environment, and what is said about a wrong name."""

import threading

import pytest

import rankgrad
from rankgrad.backend import backend, current


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch):
    monkeypatch.delenv("RANKGRAD_BACKEND", raising=False)


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


def test_it_is_public():
    assert rankgrad.backend is backend
