"""Kernels in forked children and in several Python threads, which OpenMP and Numba's thread pools do not support."""

import multiprocessing
import os
import subprocess
import sys

import numba
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import rankgrad as rg
from rankgrad.kernels import fork_check

pytestmark = [
    pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="needs two threads"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.skipif(fork_check.child, reason="this process is a child itself"),
    pytest.mark.skipif("RANKGRAD_TEST_DEVICE" in os.environ, reason="about the kernels of the CPU"),
]
SCORES = torch.linspace(-1, 1, 40_000).sin().view(-1, 100)  # enough documents for listwise kernels to use threads
LABELS = (torch.arange(40_000) % 5).float().view(-1, 100)


def losses():
    """Return values and a slope of two families of kernels, and a sum for which PyTorch uses threads."""
    scores = SCORES.clone().requires_grad_()
    value = rg.losses.softmax(scores, LABELS) + rg.losses.neural_ndcg(scores[:3], LABELS[:3])
    value.backward()
    return value.item(), scores.grad[0, 0].item(), torch.ones(1_000_000).exp().sum().item()


def work(_):
    return losses()


class Computed(Dataset):
    """A data set whose items are computed by kernels."""

    def __len__(self):
        return 4

    def __getitem__(self, at):
        return torch.tensor(losses())


@pytest.fixture
def threads():
    """Run kernels and PyTorch with two threads first."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield losses()
    torch.set_num_threads(before)


def test_a_pool_of_forked_processes(threads):
    assert fork_check.started
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map_async(work, range(4)).get(timeout=30) == [threads] * 4


def test_the_workers_of_a_data_loader(threads):
    loader = DataLoader(Computed(), batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=30)
    for item in loader:
        assert torch.equal(item, torch.tensor(threads))


def settings(_):
    """Return a child's settings, and a loss: its kernels use one thread even if PyTorch is set to use more."""
    told = fork_check.child, torch.get_num_threads()
    torch.set_num_threads(2)
    scores = SCORES[:30].contiguous()
    return *told, rg.losses.neural_ndcg(scores, LABELS[:30]).item()


def test_a_child_uses_one_thread(threads):
    with multiprocessing.get_context("fork").Pool(1) as pool:
        told = pool.map_async(settings, [0]).get(timeout=30)[0]
    assert told == (True, 1, rg.losses.neural_ndcg(SCORES[:30].contiguous(), LABELS[:30]).item())
    assert not fork_check.child
    assert torch.get_num_threads() == 2


def test_a_child_keeps_the_threads_of_pytorch_where_no_kernel_has_used_any(threads, monkeypatch):
    monkeypatch.setattr(fork_check, "started", False)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(torch.get_num_threads).get(timeout=30) == 2


TWO_THREADS = """
import threading, numba, torch
import rankgrad as rg
torch.set_num_threads(2)
scores, labels = torch.randn(3, 40), torch.ones(3, 40)
expected = rg.losses.neural_ndcg(scores, labels)
assert numba.threading_layer() == "workqueue"
def work():
    torch.set_num_threads(2)
    for _ in range(300):
        assert torch.equal(rg.losses.neural_ndcg(scores, labels), expected)
workers = [threading.Thread(target=work) for _ in range(4)]
for worker in workers: worker.start()
for worker in workers: worker.join()
print("done")
"""


def test_python_threads_take_turns_where_the_pool_bears_one():
    chosen = {**os.environ, "NUMBA_THREADING_LAYER": "workqueue", "NUMBA_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", TWO_THREADS], env=chosen, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
