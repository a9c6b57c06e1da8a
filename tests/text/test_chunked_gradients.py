"""Gradients in chunks are those of one graph, with dropout; the memory does not grow with the list."""

import pytest
import torch
from saved_floats import most_saved
from torch import nn

from rankgrad import losses
from rankgrad.text.chunked_gradients import chunked

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]


def network(dropout=0.3):
    return nn.Sequential(nn.Linear(6, 32), nn.Dropout(dropout), nn.Tanh(), nn.Linear(32, 1), nn.Flatten(0))


def gradients(run, module):
    module.zero_grad()
    torch.manual_seed(5)
    loss = run()
    loss.backward()
    return loss.detach(), [parameter.grad.clone() for parameter in module.parameters()]


@pytest.mark.parametrize("name", ["softmax", "lambdaloss", "smooth_ndcg", "neural_ndcg"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("device", DEVICES)
def test_gradients_are_those_of_the_chunks_in_one_graph(name, precision, device):
    module, rows = network().to(device), torch.randn(50, 6, generator=torch.Generator().manual_seed(1)).to(device)
    labels, loss = torch.arange(50, device=device) % 3, getattr(losses, name)
    chunks = rows.split(7)
    with torch.autocast(device, torch.bfloat16, enabled=precision == "bf16"):
        one = gradients(lambda: loss(torch.cat([module(chunk) for chunk in chunks]).float(), labels), module)
        two = gradients(lambda: loss(chunked(module, chunks, device=device).float(), labels), module)
    assert torch.equal(one[0], two[0])
    # In one graph, bf16 gradients of the chunks are added in bf16; in chunks, they are added in float32.
    tolerance = 1e-5 if precision == "fp32" else 2e-2
    plain, ours = (torch.cat([gradient.flatten() for gradient in run[1]]) for run in (one, two))
    assert (ours - plain).norm() <= tolerance * plain.norm()


def test_the_random_state_afterwards_is_that_of_one_pass():
    module, chunks = network(), torch.randn(20, 6).split(5)
    torch.manual_seed(0)
    torch.cat([module(chunk) for chunk in chunks]).sum().backward()
    expected = torch.rand(3)
    torch.manual_seed(0)
    chunked(module, chunks).sum().backward()
    assert torch.equal(torch.rand(3), expected)


def test_precision_of_the_first_pass_is_restored():
    module, rows, seen = nn.Linear(4, 1), torch.randn(6, 4), []

    def run(chunk):
        found = module(chunk).flatten()
        seen.append(found.dtype)
        return found

    with torch.autocast("cpu", torch.bfloat16):
        total = chunked(run, rows.split(3)).float().sum()
    total.backward()  # outside of the context, as trainers do
    assert seen == [torch.bfloat16] * 4


def test_without_gradients_each_chunk_runs_once():
    calls = []

    def run(chunk):
        calls.append(len(chunk))
        return chunk.sum(1)

    with torch.no_grad():
        assert chunked(run, torch.ones(5, 2).split(2)).tolist() == [2.0] * 5
    assert calls == [2, 2, 1]


def test_memory_depends_on_the_chunk_and_not_on_the_list():
    def floats(documents):
        module, rows, labels = network(), torch.randn(documents, 6), torch.arange(documents) % 2
        return most_saved(lambda: losses.softmax(chunked(module, rows.split(32)), labels).backward())

    assert floats(1024) <= 1.2 * floats(64)
