"""The scalars of LearnDCG in training: with the ranker's weights, or by what they do to lists that are held out."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from rankgrad import losses, rankers
from rankgrad.data import load
from rankgrad.losses import approx_ndcg
from rankgrad.metrics import nDCG
from rankgrad.training import Settings, heldout_adaptation, hypergradient, train
from rankgrad.training.batch_loading import Batch
from rankgrad.training.hypergradient import heldout_gradient, metric_goal, step_scale
from rankgrad.training.optimisers import OPTIMISERS, make_optimiser

LISTS = load("synthetic:lists=60,features=10")
pytestmark = pytest.mark.filterwarnings("ignore:adapt=.* is deprecated")
QUICK = Settings(model="mlp:widths=16", loss="learndcg:adapt=heldout", epochs=3, batch_size=8, device="cpu", lr=0.01)
MODELS = {
    "mlp": "mlp:widths=6,activation=tanh,dropout=0.5,norm=batch",
    "context_aware": "context_aware:width=8,blocks=1,heads=2,feed_forward=8,dropout=0.5",
    "attention_mil": "attention_mil:widths=6",
    "attsets": "attsets:widths=6",
}


def lists_of(seed, lists=5, features=4):
    """Lists of 2 to 9 documents with grades from 0 to 3, in float64."""
    torch.manual_seed(seed)
    lengths = torch.randint(2, 10, (lists,))
    offsets = torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)])
    documents = int(offsets[-1])
    labels = torch.randint(0, 4, (documents,)).double()
    return Batch(torch.randn(documents, features).double(), labels, offsets, None, int(lengths.max()))


def problem(model="mlp", loss="learndcg:discount=curved"):
    torch.manual_seed(3)
    name, options = rankers.parse_ranker(MODELS[model])
    return rankers.build(name, features=4, **options).double(), losses.parse_loss(loss).double()


def weights_of(ranker):
    return [weight for weight in ranker.parameters() if weight.requires_grad]


def slopes(ranker, loss, batch):
    scores = ranker(batch.features, batch.offsets, width=batch.width)
    values = loss(scores, batch.labels, offsets=batch.offsets, reduction="none")
    return torch.autograd.grad(values.mean(), weights_of(ranker))


def standard(scores, labels, *, offsets, reduction):
    return approx_ndcg(scores, labels, offsets=offsets, temperature=hypergradient.TEMPERATURE, reduction=reduction)


@torch.no_grad()
def goal_of(ranker, held, goal):
    scores = ranker(held.features, held.offsets, width=held.width)
    return float(goal(scores, held.labels, offsets=held.offsets, reduction="none").mean())


def by_differences(ranker, loss, scale, batch, held, goal=standard, size=1e-4):
    """The held-out loss after one step, at both sides of each parameter of the loss."""
    ranker.eval()
    begin = [weight.detach().clone() for weight in weights_of(ranker)]
    found = {}
    for name, parameter in loss.named_parameters():
        sides = []
        for way in (size, -size):
            with torch.no_grad():
                parameter.add_(way)
            gradient = slopes(ranker, loss, batch)
            with torch.no_grad():
                for weight, slope, each in zip(weights_of(ranker), gradient, scale, strict=True):
                    weight.sub_(each * slope)
            sides.append(goal_of(ranker, held, goal))
            with torch.no_grad():
                parameter.sub_(way)
                for weight, old in zip(weights_of(ranker), begin, strict=True):
                    weight.copy_(old)
        found[name] = (sides[0] - sides[1]) / (2 * size)
    return found


def after_a_step(ranker, loss, scale, batch, held, goal=None):
    """Compute the held-out gradient as training does, with the weights after the step."""
    ranker.eval()
    before = [weight.detach().clone() for weight in weights_of(ranker)]
    gradient = slopes(ranker, loss, batch)
    with torch.no_grad():
        for weight, slope, each in zip(weights_of(ranker), gradient, scale, strict=True):
            weight.sub_(each * slope)
    found = heldout_gradient(ranker, loss, before, scale, batch, 5, held, 5, goal=goal)
    with torch.no_grad():
        for weight, old in zip(weights_of(ranker), before, strict=True):
            weight.copy_(old)
    return found


def scales(ranker, loss, kind):
    """Of SGD, or of Adam after some steps on other lists."""
    if kind == "sgd":
        return [torch.full_like(weight, 0.3) for weight in weights_of(ranker)]
    optimiser = torch.optim.Adam(weights_of(ranker), lr=0.005)
    for seed in range(5):
        for weight, slope in zip(weights_of(ranker), slopes(ranker, loss, lists_of(10 + seed)), strict=True):
            weight.grad = slope
        optimiser.step()
    return step_scale(optimiser)


@pytest.mark.parametrize("loss", ["learndcg:discount=curved", "learndcg@3:gain_base=1.5,alpha=2"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_the_heldout_gradient_is_the_difference_that_the_scalars_make(loss, model, kind):
    ranker, loss = problem(model, loss)
    batch, held = lists_of(1), lists_of(2)
    scale = scales(ranker.eval(), loss, kind)
    found, expected = after_a_step(ranker, loss, scale, batch, held), by_differences(ranker, loss, scale, batch, held)
    largest = max(map(abs, expected.values()))
    assert largest > 1e-5
    for name, value in expected.items():
        assert float(found[name]) == pytest.approx(value, rel=1e-3, abs=1e-5 * largest), name
    if "curved" not in str(loss):
        assert float(found["function.raw_discount"]) == 0.0  # exactly


def test_the_heldout_gradient_of_another_metric():
    ranker, loss = problem()
    batch, held = lists_of(1), lists_of(2)
    scale = scales(ranker.eval(), loss, "adam")
    goals = [metric_goal(nDCG(gain=gain)) for gain in ("exp", lambda labels: (labels > 2).to(labels.dtype))]
    founds = []
    for goal in (*goals, None):
        found = after_a_step(ranker, loss, scale, batch, held, goal)
        founds.append({name: float(value) for name, value in found.items()})
        assert founds[-1] == pytest.approx(by_differences(ranker, loss, scale, batch, held, goal or standard), rel=1e-3)
    assert founds[2] == pytest.approx(founds[0])  # the default goal is the standard NDCG
    assert founds[1]["function.raw_gain"] != pytest.approx(founds[0]["function.raw_gain"], rel=0.03)


def test_the_metric_of_the_run_moves_the_scalars():
    """With `adapt=metric`, the standard NDCG gives the scalars of `adapt=heldout`; another gain gives others."""
    ways = ("heldout", nDCG), ("metric", nDCG), ("metric", nDCG(gain=lambda labels: (labels > 0).to(labels.dtype)))
    found = []
    for adapt, metric in ways:
        loss = f"learndcg:discount=curved,adapt={adapt}"
        found.append(
            train(replace(QUICK, loss=loss, metric=metric, epochs=6, loss_lr=0.05), LISTS.train).metrics["loss"]
        )
    assert found[1] == pytest.approx(found[0], rel=1e-3)
    assert found[2]["gain_base"] < found[1]["gain_base"] - 0.02  # a flat gain


def test_a_metric_without_a_smooth_form_moves_no_scalars():
    with pytest.raises(ValueError, match=r"metric must be a metric of rankgrad.metrics with adapt=metric; got"):
        train(replace(QUICK, loss="learndcg:adapt=metric", metric=lambda scores, labels: 0.5), LISTS.train)


def test_the_heldout_gradient_leaves_the_ranker_and_the_random_numbers_alone():
    ranker, loss = problem()
    ranker.train()
    batch, held, before = lists_of(1), lists_of(2), [weight.detach().clone() for weight in weights_of(ranker)]
    state, noise = {name: value.clone() for name, value in ranker.state_dict().items()}, torch.get_rng_state()
    heldout_gradient(ranker, loss, before, before, batch, 5, held, 5)
    assert ranker.training
    assert torch.equal(torch.get_rng_state(), noise)
    assert all(torch.equal(value, state[name]) for name, value in ranker.state_dict().items())
    assert all(weight.grad is None for weight in (*ranker.parameters(), *loss.parameters()))


@pytest.mark.parametrize("name", OPTIMISERS)
def test_the_scale_of_a_step_is_the_optimisers(name):
    """For a gradient that stays the same, the scale times its size is how far a step goes."""
    module = torch.nn.Linear(3, 1, bias=False).double()
    optimiser = make_optimiser(name, module, torch.nn.Module(), lr=0.01, loss_lr=None, weight_decay=0.0)
    gradient = torch.tensor([[0.5, -2.0, 30.0]]).double()
    for group in optimiser.param_groups:
        group["lr"] = 0.01
    for _ in range(300):
        module.weight.grad = gradient.clone()
        before = module.weight.detach().clone()
        optimiser.step()
    step = before - module.weight.detach()
    ratio = step_scale(optimiser)[0] * gradient / step
    rectified = ratio.mean() if name == "radam" else 1.0  # RAdam's steps are shorter at first, alike for all weights
    torch.testing.assert_close(ratio, torch.ones_like(ratio) * rectified, rtol=0.05, atol=0)


def test_held_out_lists_are_others_than_those_trained_on():
    lists = load("synthetic:lists=500,features=10").train
    kept, held = heldout_adaptation.split_held_out(lists, seed=0)
    assert sorted([*kept, *held]) == list(range(len(lists)))
    tell = [
        len(set(lists.labels[start:end])) > 1 for start, end in zip(lists.offsets[:-1], lists.offsets[1:], strict=True)
    ]
    assert all(tell[number] for number in held)
    assert len(held) == round(0.2 * sum(tell))
    assert np.array_equal(heldout_adaptation.split_held_out(lists, seed=0)[1], held)
    assert not np.array_equal(heldout_adaptation.split_held_out(lists, seed=1)[1], held)


def test_a_run_that_held_out_other_lists_is_not_resumed(tmp_path, monkeypatch):
    train(QUICK, LISTS.train, LISTS.validation, out=tmp_path)
    longer = replace(QUICK, epochs=QUICK.epochs + 1)
    with monkeypatch.context() as then:
        kept, held = heldout_adaptation.split_held_out(LISTS.train, QUICK.seed)
        then.setattr("rankgrad.training.loop.split_held_out", lambda *_: (np.append(kept, held[0]), held[1:]))
        with pytest.raises(
            ValueError, match=r"held-out lists must be the same as in the stopped run in .*; got different lists"
        ):
            train(longer, LISTS.train, LISTS.validation, out=tmp_path, resume=True)
    train(longer, LISTS.train, LISTS.validation, out=tmp_path, resume=True)


def test_each_kind_of_list_is_used_for_its_purpose(monkeypatch):
    """No list that is held out trains the ranker, no other moves the scalars, and all of both are used each epoch."""
    kept, held = heldout_adaptation.split_held_out(LISTS.train, QUICK.seed)
    seen = []
    plain = heldout_adaptation.HeldoutSchedule.steps
    monkeypatch.setattr(
        heldout_adaptation.HeldoutSchedule,
        "steps",
        lambda plan, epoch: seen.append((plan, epoch)) or plain(plan, epoch),
    )
    train(QUICK, LISTS.train, LISTS.validation)
    numbers = [{int(number) for step in plain(plan, epoch) for number in step.lists} for plan, epoch in seen]
    full = np.flatnonzero(LISTS.train.lengths)
    assert numbers == [set(map(int, np.intersect1d(part, full))) for part in (kept, held)] * QUICK.epochs


def test_too_few_lists_to_hold_some_out():
    with pytest.raises(
        ValueError, match="data must have at least 3 lists in which labels differ, because some are held out; got 2"
    ):
        train(QUICK, LISTS.train.take(np.arange(2)))


@pytest.mark.parametrize("loss", ["learndcg", "learndcg:adapt=heldout"])
def test_nothing_moves_the_discount_base_of_the_printed_form(loss):
    settings = replace(QUICK, loss=loss, optimiser="adamw", weight_decay=0.1, epochs=5, ema=0.9)
    model = train(settings, LISTS.train)
    begin = losses.parse_loss(loss).state_dict()
    assert torch.equal(model.learned["function.raw_discount"], begin["function.raw_discount"])
    assert not torch.equal(model.learned["function.raw_gain"], begin["function.raw_gain"])
    assert not torch.equal(model.learned["function.raw_alpha"], begin["function.raw_alpha"])


@pytest.mark.parametrize("way", ["joint", "heldout"])
def test_the_scalars_are_logged_each_epoch_and_saved(tmp_path, way):
    loss = f"learndcg:discount=curved,adapt={way}"
    model = train(replace(QUICK, loss=loss), LISTS.train, LISTS.validation, out=tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert len(rows) == QUICK.epochs
    for name in ("gain_base", "discount_base", "alpha"):
        assert len({row[name] for row in rows}) == QUICK.epochs
    kept = rows[model.metrics["epoch"] - 1]
    assert model.metrics["loss"] == {name: kept[name] for name in ("gain_base", "discount_base", "alpha")}
    assert json.loads((tmp_path / "metrics.json").read_text())["loss"] == model.metrics["loss"]
    assert json.loads((tmp_path / "config.json").read_text())["settings"]["loss"] == loss
    again = losses.parse_loss(loss)
    again.load_state_dict(type(model).load(tmp_path).learned)
    assert again.learned() == pytest.approx(model.metrics["loss"])


def test_only_what_is_learned_moves():
    model = train(replace(QUICK, loss="learndcg:learn=alpha,adapt=heldout"), LISTS.train)
    assert model.metrics["loss"]["gain_base"] == model.metrics["loss"]["discount_base"] == pytest.approx(2.0)
    assert model.metrics["loss"]["alpha"] != pytest.approx(1.0, abs=1e-3)


def test_the_scalars_have_a_rate_of_their_own():
    moved = []
    for rate in (1e-4, 1e-2):
        model = train(replace(QUICK, loss_lr=rate), LISTS.train)
        moved.append(abs(model.metrics["loss"]["alpha"] - 1))
    assert 0 < moved[0] < 0.1 * moved[1]


@pytest.mark.parametrize("model", MODELS.values())
def test_a_stream_gives_what_the_device_gives(model):
    settings = replace(QUICK, model=model, list_size=7, loss="learndcg:discount=curved,adapt=heldout")
    models = [train(replace(settings, data_on=place), LISTS.train) for place in ("device", "stream")]
    assert models[0].metrics == models[1].metrics
    for name, value in models[0].ranker.state_dict().items():
        assert torch.equal(models[1].ranker.state_dict()[name], value)
