"""Training on a GPU: recorded steps do what ordinary ones do."""

from dataclasses import replace

import pytest
import torch

from rankgrad.data import load
from rankgrad.training import Settings, train
from rankgrad.training.cuda_graphs import GraphStep, buffer_size
from rankgrad.training.loop import NeuralTraining
from rankgrad.training.objective import EagerStep

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def ordinary(run):
    return EagerStep(run.fabric, run.module, run.optimiser, run.settings.clip, run.average)


CASES = [
    {"model": "mlp:widths=16,norm=batch", "loss": "lambdaloss@5"},
    {"model": "mlp:widths=16", "loss": "learndcg:discount=curved", "clip": 0.1, "ema": 0.9},
    {"model": "mlp:widths=16", "loss": "ranknet", "optimiser": "sgd"},
    {"model": "mlp:widths=16", "loss": "mse"},
    {"model": "context_aware:width=16,blocks=1,dropout=0", "loss": "approx_ndcg", "schedule": "cosine"},
    {"model": "context_aware:width=16,blocks=1,dropout=0", "loss": "softmax", "precision": "bf16"},
    {"model": "dasalc:width=16,layers=1,dropout=0,noise=0", "loss": "neural_ndcg", "list_size": 20},
]


@needs_gpu
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['model'].partition(':')[0]}-{case['loss']}")
def test_recorded_steps_do_what_ordinary_ones_do(case, monkeypatch):
    lists = load("synthetic:lists=203,features=10")
    settings = Settings(**case, epochs=3, batch_size=16, device="cuda")
    recorded = train(settings, lists.train, lists.validation)
    monkeypatch.setattr(NeuralTraining, "_stepper", ordinary)
    expected = train(settings, lists.train, lists.validation)
    # The last bias has no gradient but rounding, which Adam enlarges; all scores of a list move with it.
    wide = 3e-2 if settings.precision == "bf16" else 2e-3
    for ours, theirs in zip(recorded.history, expected.history, strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=wide)
        assert ours["nDCG@10"] == pytest.approx(theirs["nDCG@10"], abs=10 * wide)


@needs_gpu
@pytest.mark.parametrize(("loss", "recordable"), [("lambdaloss", True), ("mse", True), ("list_ap", False)])
def test_what_waits_for_the_device_is_not_recorded(loss, recordable, monkeypatch):
    made = []
    plain = GraphStep.__init__
    monkeypatch.setattr(GraphStep, "__init__", lambda self, *a, **b: (plain(self, *a, **b), made.append(self))[0])
    lists = load("synthetic:lists=203,features=10")
    train(Settings(model="mlp:widths=16", loss=loss, epochs=3, batch_size=16, device="cuda"), lists.train)
    assert made[0].recordable == recordable
    assert any(buffers.graph is not None for buffers in made[0].buffers.values()) == recordable


def test_sizes_are_few_and_large_enough():
    sizes = {buffer_size(count) for count in range(1, 100_000)}
    assert len(sizes) < 50
    assert all(count <= buffer_size(count) <= max(64, 1.26 * count + 16) for count in range(1, 100_000, 7))


@needs_gpu
@pytest.mark.parametrize("adapt", ["joint", "heldout"])
def test_scalars_are_learned_as_on_the_cpu(adapt):
    lists = load("synthetic:lists=203,features=10")
    how = Settings(model="mlp:widths=16", loss=f"learndcg:discount=curved,adapt={adapt}", epochs=3, batch_size=16)
    ours, expected = (train(replace(how, device=device), lists.train).history for device in ("cuda", "cpu"))
    scalars = ("gain_base", "discount_base", "alpha")
    assert any(expected[-1][name] != pytest.approx(expected[0][name], rel=1e-3) for name in scalars)
    for mine, told in zip(ours, expected, strict=True):
        assert [mine[name] for name in scalars] == pytest.approx([told[name] for name in scalars], rel=2e-3)
