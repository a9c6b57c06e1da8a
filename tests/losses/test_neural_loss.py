"""NeuralLoss: frozen, faithful to the metric, and pretrained in a way that can be repeated."""

import json
from functools import partial

import pytest
import torch
from paths import SHARED
from programs import invoke

from rankgrad import losses
from rankgrad.atomic_files import read_tensors, write_tensors
from rankgrad.data import load
from rankgrad.losses import NeuralLoss, parse_loss
from rankgrad.losses.neural_loss import SHIPPED
from rankgrad.losses.surrogate_networks import FORMAT, WEIGHTS, read_network
from rankgrad.metrics import ndcg
from rankgrad.run.checkpoint import LAST
from rankgrad.surrogate import PRIORS, SHAPES, PretrainSpec, draw, fidelity, pretrain
from rankgrad.surrogate.fidelity import LENGTHS
from rankgrad.surrogate.pretrain import FIDELITY, RECIPES, lists_of
from rankgrad.training import Settings, train

DATA = SHARED / "data"
SCORES, LABELS = torch.tensor([[2.0, 1.0, 3.0]]), torch.tensor([[1.0, 0.0, 2.0]])
FORMS = ("mended", "published")


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


# Frozen.


@pytest.mark.parametrize("form", FORMS)
def test_training_neither_sees_nor_saves_nor_moves_its_weights(form, tmp_path):
    loss = NeuralLoss(form=form)
    assert not list(loss.parameters())
    assert not loss.state_dict()
    lists = load("synthetic:lists=30,features=10")
    model = train(
        Settings(model="linear", loss=f"neuralloss:form={form}", epochs=2, device="cpu"),
        lists.train,
        lists.validation,
        out=tmp_path,
    )
    assert model.history[-1]["loss"] != model.history[0]["loss"]
    for name in ("model.safetensors", LAST):
        assert not [key for key in read_tensors(tmp_path / name)[0] if "loss" in key]
    shipped = dict(
        read_network(SHIPPED / f"{'published-5' if form == 'published' else 'mended'}.safetensors")[0].state_dict()
    )
    for name, buffer in loss.named_buffers():
        assert torch.equal(buffer, {key.replace(".", "_"): value for key, value in shipped.items()}[name])


def test_what_is_shipped_is_small():
    found = sorted(SHIPPED.iterdir())
    assert [path.name for path in found] == ["mended.safetensors", "published-3.safetensors", "published-5.safetensors"]
    assert sum(path.stat().st_size for path in found) < 1_000_000


def test_the_text_is_the_loss():
    for text, loss in (
        ("neuralloss:grades=5", NeuralLoss()),
        ("NeuralLoss:grades=3,form=published", NeuralLoss(3, "published")),
    ):
        parsed = parse_loss(text)
        assert parsed.learned() == {}
        assert not list(parsed.parameters())
        torch.testing.assert_close(parsed(SCORES, LABELS), loss(SCORES, LABELS), rtol=0, atol=0)


def test_a_network_of_grades_refuses_other_labels():
    loss = NeuralLoss(grades=3, form="published")
    for labels in (torch.tensor([[3.0, 0.0, 1.0]]), torch.tensor([[0.5, 2.0, 1.0]])):
        with pytest.raises(ValueError, match=r"^labels must be integers from 0 to 2 for a network with 3 grades; got"):
            loss(SCORES, labels)
    padded = loss(torch.tensor([[2.0, 1.0, 3.0, 0.0]]), torch.tensor([[1.0, 0, 2, 9]]), mask=torch.arange(4)[None] < 3)
    torch.testing.assert_close(padded, loss(SCORES, LABELS))


def test_the_mended_form_takes_any_labels_and_any_scale():
    loss = NeuralLoss()
    assert -1.05 < loss(SCORES, torch.tensor([[7.0, 0.5, 30.0]])) < -0.5
    scores, labels = draw(20, 15, 5, generator=generator())
    torch.testing.assert_close(loss(1e4 * scores - 7, labels), loss(scores, labels), rtol=1e-3, atol=1e-4)


def test_only_the_published_form_uses_grades():
    loss = NeuralLoss(grades=4)
    torch.testing.assert_close(loss(SCORES, LABELS), NeuralLoss()(SCORES, LABELS), rtol=0, atol=0)
    assert parse_loss("neuralloss:grades=2")(SCORES, LABELS) == loss(SCORES, LABELS)
    with pytest.raises(ValueError, match=r"^grades must be 3 or 5 \(for other labels, use the form 'mended'.*; got 4$"):
        NeuralLoss(grades=4, form="published")


def test_better_orders_cost_less():
    labels = torch.tensor([[3.0, 2.0, 1.0, 0.0, 0.0]])
    for form in FORMS[:1]:
        loss = NeuralLoss(form=form)
        orders = torch.tensor([[5.0, 4, 3, 2, 1], [4.0, 5, 3, 2, 1], [2.0, 3, 5, 4, 1], [1.0, 2, 3, 4, 5]])
        values = [float(loss(scores[None], labels)) for scores in orders]
        assert values == sorted(values)
        assert values[0] < -0.97


# Faithful.


def surrogate_of(form, grades):
    loss = NeuralLoss(grades, form)
    return loss.estimate


@pytest.mark.parametrize("grades", PRIORS)
def test_the_mended_form_follows_dcg_within_every_length(grades):
    rows = fidelity(surrogate_of("mended", grades), target="ndcg", grades=grades, lists=60)
    assert {row.length for row in rows} == set(LENGTHS)
    for row in rows:
        assert row.dcg >= (0.98 if row.shape == "all" else 0.96), row


def test_beyond_the_lengths_it_saw():
    (*_, row) = fidelity(surrogate_of("mended", 5), target="ndcg", grades=5, lengths=[800], lists=12)
    assert row.dcg > 0.95


@pytest.mark.parametrize("grades", PRIORS)
def test_the_published_form_follows_dcg_where_it_was_trained(grades):
    rows = fidelity(surrogate_of("published", grades), target="dcg", grades=grades, lengths=[5, 45], lists=60)
    short, long = (row.dcg for row in rows if row.shape == "all")
    assert long > 0.95
    mended = fidelity(surrogate_of("mended", grades), target="ndcg", grades=grades, lengths=[5], lists=60)[-1].dcg
    assert short < mended


def test_a_surrogate_that_sees_labels_only_does_not_pass():
    blind = fidelity(lambda s, y, mask: torch.ones(len(s)), target="ndcg", grades=5, lengths=[40], lists=60)[-1]
    assert blind.dcg < 0.95
    assert blind.ndcg == 0


# Generated lists.


@pytest.mark.parametrize("grades", PRIORS)
@pytest.mark.parametrize("shape", SHAPES)
def test_scores_and_labels_are_as_they_should_be(shape, grades):
    scores, labels = draw(400, 50, grades, shape=shape, generator=generator())
    assert (scores >= 0).all()
    assert (scores <= 1).all()
    shares = torch.bincount(labels.long().flatten(), minlength=grades) / labels.numel()
    torch.testing.assert_close(shares, torch.tensor(PRIORS[grades]), rtol=0, atol=0.012)
    assert 0.4 < ndcg(scores, labels) < 0.95


def test_half_of_the_published_lists_are_ideal():
    scores, labels = draw(600, 40, 5, pairing="published", generator=generator())
    ideal = (scores == labels / 5).all(-1)
    assert 0.4 < ideal.float().mean() < 0.6
    assert (ndcg(scores, labels, reduction="none")[ideal] > 1 - 1e-6).all()


@pytest.mark.parametrize("form", FORMS)
def test_steps_depend_on_their_number_and_the_seed(form):
    first = lists_of(PretrainSpec(form=form, batch=9), 3)
    assert all(torch.equal(a, b) for a, b in zip(first, lists_of(PretrainSpec(form=form, batch=9), 3), strict=True))
    assert not torch.equal(first[2], lists_of(PretrainSpec(form=form, batch=9), 4)[2])
    assert not torch.equal(first[2], lists_of(PretrainSpec(form=form, batch=9, seed=1), 3)[2])
    lengths = {lists_of(PretrainSpec(form=form, batch=1), step)[0].shape[1] for step in range(200)}
    shortest, longest = RECIPES[form].lengths
    assert min(lengths) >= shortest
    assert max(lengths) <= longest
    assert len(lengths) > 8


# Pretraining.

SMALL = PretrainSpec(form="mended", lists=256, epochs=3, seed=4)


class Killed(Exception):
    """In the middle of a run."""


@pytest.mark.parametrize("form", FORMS)
def test_killed_and_resumed_gives_the_same_bits(form, tmp_path):
    plan = PretrainSpec(form=form, lists=64, batch=16, epochs=3, seed=4)

    def die(epoch, error):
        if epoch == 2:
            raise Killed

    whole = pretrain(plan, tmp_path / "whole")
    with pytest.raises(Killed):
        pretrain(plan, tmp_path / "cut", tell=die)
    assert not (tmp_path / "cut" / WEIGHTS).exists()
    seen = []
    resumed = pretrain(plan, tmp_path / "cut", resume=True, tell=lambda epoch, error: seen.append(epoch))
    assert seen == [3]
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name
    for name in (WEIGHTS, LAST):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "cut" / name).read_bytes()


def test_another_plan_cannot_go_on(tmp_path):
    pretrain(SMALL, tmp_path)
    with pytest.raises(ValueError, match=r"seed must be 4, to resume .*; got 5"):
        pretrain(PretrainSpec(form="mended", lists=256, epochs=3, seed=5), tmp_path, resume=True)
    with pytest.raises(ValueError, match="must be a new folder, unless the run is resumed"):
        pretrain(SMALL, tmp_path)


def test_pretraining_learns():
    errors = []
    pretrain(PretrainSpec(lists=2_560, epochs=3), tell=lambda epoch, error: errors.append(error))
    assert errors[-1] < 0.6 * errors[0]


def test_the_caller_keeps_its_random_numbers():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    pretrain(PretrainSpec(lists=128, epochs=1))
    assert torch.equal(torch.rand(3), expected)


# The command.


run = partial(invoke, "pretrain-loss")


def test_the_command_makes_a_loss(tmp_path):
    arguments = ("--lists", 1280, "--epochs", 2, "--device", "cpu", "--out", tmp_path)
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    assert "with DCG" in done.output
    rows = json.loads((tmp_path / FIDELITY).read_text())["rows"]
    assert len(rows) == len(LENGTHS) * (len(SHAPES) + 1)
    loss = parse_loss(f"neuralloss:path={tmp_path}")
    assert loss(SCORES, LABELS) != losses.NeuralLoss()(SCORES, LABELS)
    assert loss(SCORES, LABELS).isfinite()
    assert "or add --resume" in str(run(*arguments).exception)
    assert run(*arguments, "--resume").exit_code == 0


def test_all_that_is_wrong_is_told_at_once(tmp_path):
    told = str(run("--form", "printed", "--device", "tpu", "--out", tmp_path).exception)
    assert told.splitlines()[0] == "form must be one of 'published', 'mended'; got 'printed'"
    assert "device must be one of" in told


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda path: None, "path must be a folder with the file weights.safetensors, or the path of such a file; got"),
        (lambda path: path.write_bytes(b"pickle"), r"must be a complete, unchanged safetensors file \(.*\); got"),
        (lambda path: write_tensors(path, {"a": torch.zeros(1)}), "must have format 'rankgrad neural loss', version 1"),
        (
            lambda path: write_tensors(
                path, {"a": torch.zeros(1)}, {"format": FORMAT, "version": 1, "network": {"form": "mended"}}
            ),
            "must contain a network and the weights of this network; got the error",
        ),
    ],
)
def test_files_that_are_no_network_are_told(make, told, tmp_path):
    make(tmp_path / WEIGHTS)
    with pytest.raises(ValueError, match=told):
        NeuralLoss(path=tmp_path / WEIGHTS)


@pytest.mark.long
@pytest.mark.skipif(not (DATA / "MQ2008").is_dir(), reason="MQ2008 is not in ../shared/data")
def test_it_trains_a_ranker_on_mq2008():
    data = load("MQ2008", fold=1, root=str(DATA))
    found = {}
    for loss in ("neuralloss", "approx_ndcg", "lambdaloss"):
        model = train(Settings(model="mlp:widths=64-32", loss=loss, device="cpu"), data.train, data.validation)
        found[loss] = float(model.evaluate(data.test, ["nDCG@10"])["nDCG@10"])
    assert found["neuralloss"] >= 0.95 * max(found.values()), found
