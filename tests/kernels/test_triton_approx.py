"""The Triton kernels at sigmoid ranks, interpreted on the CPU, against the plain losses."""

import os
from importlib import import_module

import pytest
import torch
from made_lists import LAYOUTS_AND_TYPES, Lists

import rankgrad as rg
from rankgrad import losses

if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("TRITON_INTERPRET=1 is not set", allow_module_level=True)
pytest.importorskip("triton")
from rankgrad.kernels import op

CASES = {
    "approx_ndcg": lambda: losses.approx_ndcg,
    "approx_mrr": lambda: losses.approx_mrr,
    "approx_ap": lambda: losses.approx_ap,
    "approx_precision": lambda: losses.approx_precision,
    "LearnDCG": lambda: losses.LearnDCG(k=3, beta=2.0),
    "LearnDCG curved": lambda: losses.LearnDCG(discount="curved", gain_base=1.4, discount_base=4.0),
}
BATCHES = [
    ((0, 1, 2, 65), 1.0, (0, 1, 2, 3), False),
    ((40, 3), 30.0, (0, 1), True),
    ((33, 0, 31), 1e30, (0, 1, 2), False),
    ((9, 4), 1e-3, (0,), False),
]
# Scores near 1 in every run; the interpreter is slow, so the other ranges are in the long tests.
EACH_BATCH = [BATCHES[0], *(pytest.param(batch, marks=pytest.mark.long) for batch in BATCHES[1:])]


@pytest.fixture(autouse=True)
def _triton_on_cpu(monkeypatch):
    monkeypatch.setattr(op, "_module", lambda device, family: import_module(f"rankgrad.kernels.cuda.{family}"))
    empty = torch.empty

    def filled(*arguments, **options):
        tensor = empty(*arguments, **options)
        return tensor.fill_(float("nan")) if tensor.is_floating_point() else tensor

    monkeypatch.setattr(torch, "empty", filled)


@pytest.mark.parametrize("batch", EACH_BATCH, ids=str)
@pytest.mark.parametrize(("layout", "dtype"), LAYOUTS_AND_TYPES)
@pytest.mark.parametrize("make", CASES.values(), ids=CASES)
def test_interpreted_equals_plain(make, layout, dtype, batch):
    lengths, scale, labels, tied = batch
    lists = Lists(lengths, seed=1, scale=scale, labels=labels, tied=tied)
    lists.scores = lists.scores.float().double()
    outcomes = []
    for backend, precision in (("plain", torch.float64), ("fused", dtype)):
        loss = make()
        loss = loss.double() if isinstance(loss, torch.nn.Module) else loss
        values, gradient = lists.outcome(loss, backend, layout, dtype=precision)
        outcomes.append((values.double(), gradient.double(), *_by_parameters(loss, lists, backend, precision)))
    tolerance = 1e-11 if dtype == torch.float64 else 2e-5
    for plain, fused in zip(*outcomes, strict=True):
        margin = tolerance * max(1.0, float(plain.abs().max()) if plain.numel() else 0.0)
        torch.testing.assert_close(fused, plain, rtol=0, atol=margin)


def _by_parameters(loss, lists, backend, dtype):
    """Return the derivatives by the parameters of a loss."""
    if not isinstance(loss, torch.nn.Module):
        return []
    with rg.backend(backend):
        value = loss(lists.scores.to(dtype), lists.labels, offsets=lists.offsets, reduction="sum")
    return [gradient.double() for gradient in torch.autograd.grad(value, list(loss.parameters()))]
