"""Programs that wait for each other, interpreted on the CPU: each in a separate process, all on the same memory."""

import multiprocessing
import os

import pytest
import torch

import rankgrad as rg
from rankgrad import losses

if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("TRITON_INTERPRET=1 is not set", allow_module_level=True)
pytest.importorskip("triton")
from rankgrad.kernels.cuda import neural_ndcg, sinkhorn
from rankgrad.kernels.options import NeuralNDCGOptions


def run_together(monkeypatch, shared_kernel, programs, arguments):
    """Return values and slopes of NeuralNDCG; each process runs a part of the programs of a kernel."""
    tensors = []

    def allocate(like, *shape, dtype=None):
        tensors.append(torch.empty(shape, dtype=dtype or like.dtype).fill_(77).share_memory_())
        return tensors[-1]

    def use(name, value):
        for module in (neural_ndcg, sinkhorn):
            monkeypatch.setattr(module, name, value)

    use("allocate", allocate)
    use("launch", lambda *_, **__: None)
    neural_ndcg.run(*arguments)  # only to record which tensors it allocates
    meeting = multiprocessing.get_context("fork").Barrier(programs, timeout=60)

    def work(number):
        allocated = iter(tensors)

        def launch(kernel, grid, *inputs, **constants):
            if kernel is shared_kernel:
                assert grid[0] % programs == 0
                kernel[(grid[0] // programs,)](*inputs, **constants)
            elif number == 0:
                kernel[grid](*inputs, **constants)
            meeting.wait()

        use("allocate", lambda *_, **__: next(allocated))
        use("launch", launch)
        torch.set_num_threads(1)  # a fork does not copy the parent's threads
        neural_ndcg.run(*arguments)

    processes = [multiprocessing.get_context("fork").Process(target=work, args=(number,)) for number in range(programs)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * programs
    return tensors[0], tensors[2]


@pytest.mark.parametrize(
    ("which", "lists", "n", "programs", "options"),
    [
        ("sinkhorn", 1, 60, 4, {"sinkhorn_rounds": 3}),
        ("sinkhorn", 2, 50, 2, {"sinkhorn_rounds": 2, "transposed": True, "k": 4}),
        ("neural", 2, 90, 2, {"sinkhorn_rounds": 2, "transposed": True}),
        ("neural", 1, 100, 3, {"sinkhorn_rounds": 2, "k": 5}),
        ("neural", 1, 70, 2, {"sinkhorn_rounds": 0}),
    ],
)
def test_programs_that_share_a_list(monkeypatch, which, lists, n, programs, options):
    generator = torch.Generator().manual_seed(n)
    scores = torch.randn(lists, n, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, 4, (lists, n), generator=generator).double()
    with rg.backend("plain"):
        values = losses.neural_ndcg(leaf := scores.clone().requires_grad_(), labels, reduction="none", **options)
    (slopes,) = torch.autograd.grad(values.sum(), leaf)
    monkeypatch.setattr(sinkhorn, "TALL", 32)
    monkeypatch.setattr(sinkhorn, "ENTRIES", 32 * 128 if programs == 2 and which == "sinkhorn" else 32 * 64)
    monkeypatch.setattr(sinkhorn, "ACROSS", 2 if which == "sinkhorn" else 1)
    monkeypatch.setattr(neural_ndcg, "ENTRIES", 512)
    monkeypatch.setattr(neural_ndcg, "SPLIT", programs)
    for module in (neural_ndcg, sinkhorn):
        monkeypatch.setattr(module, "multiprocessors", lambda device: programs * lists)
    chosen = NeuralNDCGOptions(**options)
    arguments = ("neural_ndcg", scores.view(-1), labels.view(-1), None, None, None, n, (), chosen, True)
    kernel = sinkhorn._sinkhorn if which == "sinkhorn" else neural_ndcg._neural
    found = run_together(monkeypatch, kernel, programs, arguments)
    torch.testing.assert_close(found[0], values.detach(), rtol=0, atol=1e-12)
    torch.testing.assert_close(found[1].view(lists, n), slopes, rtol=0, atol=1e-11 * float(slopes.abs().max()))
