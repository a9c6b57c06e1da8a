"""Losses, networks and metrics that a caller brings."""

import functools
import json
import math

import numpy as np
import pytest
import torch
from custom_parts import (
    FORMS,
    HERE,
    LISTS,
    NETWORKS,
    Flat,
    Padded,
    Rows,
    Scaled,
    centred,
    flat_softmax,
    list_softmax,
    rows_of,
    run,
    same,
    score,
    top_label,
    top_rank,
)
from torch import nn

import rankgrad as rg
from rankgrad.losses.custom import as_loss, loss_text
from rankgrad.metrics import evaluate, nDCG
from rankgrad.metrics.custom import as_metric
from rankgrad.models import registry
from rankgrad.rankers.custom import as_ranker
from rankgrad.relax import neural_sort
from rankgrad.training import Model, Settings, SettingsError
from rankgrad.training.optimisers import MovingAverage

# Losses


@pytest.mark.parametrize("loss", FORMS, ids=lambda loss: getattr(loss, "__name__", "module"))
def test_an_own_loss_trains_as_the_loss_that_it_imitates(loss):
    expected, found = run(loss="softmax"), run(loss=loss)
    np.testing.assert_allclose(centred(score(found)), centred(score(expected)), rtol=1e-3, atol=1e-4)
    for ours, theirs in zip(rows_of(found), rows_of(expected), strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-5)


@pytest.mark.parametrize("loss", FORMS[:2] + FORMS[3:], ids=lambda loss: getattr(loss, "__name__", "module"))
def test_both_layouts_and_every_reduction(loss):
    own = as_loss(loss)
    scores = torch.tensor([[2.0, 1.0, 9.0], [0.0, 3.0, 1.0]], requires_grad=True)
    labels = torch.tensor([[1.0, 0.0, 7.0], [2.0, 1.0, 0.0]])
    mask = torch.tensor([[True, True, False], [True, True, True]])
    flat, offsets = {"offsets": torch.tensor([0, 2, 5])}, {"reduction": "none"}
    expected = rg.losses.softmax(scores, labels, mask=mask, reduction="none")
    torch.testing.assert_close(own(scores, labels, mask=mask, **offsets), expected)
    torch.testing.assert_close(own(scores[mask], labels[mask], **flat, **offsets), expected)
    torch.testing.assert_close(own(scores, labels, mask=mask, reduction="sum"), expected.sum())
    torch.testing.assert_close(own(scores[mask], labels[mask], **flat), expected.mean())


def test_losses_of_the_package_are_taken_as_they_are():
    scores, labels = torch.randn(5), torch.tensor([1.0, 0.0, 2.0, 0.0, 1.0])
    lists = {"offsets": torch.tensor([0, 2, 5]), "reduction": "none"}
    cases = {
        "softmax": rg.losses.softmax,
        "lambdaloss@5": rg.losses.parse_loss("lambdaloss@5"),
        "own:rankgrad.losses.approx.approx_ndcg(temperature=0.1)": functools.partial(
            rg.losses.approx_ndcg, temperature=0.1
        ),
        "own:rankgrad.losses.learned.LearnDCG(gain_base=2, discount_base=2, alpha=1, discount='log', k=3)": (
            rg.losses.LearnDCG(k=3)
        ),
        "own:rankgrad.losses.composed.WeightedSum(0.7 * softmax + 0.3 * bce)": rg.losses.weighted_sum(
            (0.7, "softmax"), (0.3, rg.losses.bce)
        ),
    }
    for text, loss in cases.items():
        found = as_loss(loss)
        assert (str(found), loss_text(loss)) == (text, text)
        torch.testing.assert_close(found(scores, labels, **lists).detach(), loss(scores, labels, **lists).detach())
    assert as_loss(rg.losses.LearnDCG()).learned() == pytest.approx(rg.losses.LearnDCG().learned())
    soft = as_loss(rg.losses.relaxed(nDCG @ 3, neural_sort(temperature=0.5)))
    assert str(soft).startswith("own:rankgrad.losses.relaxed.relaxed(metric=nDCG@3")
    assert soft(scores, labels, **lists).shape == (2,)
    noisy = as_loss(rg.losses.gumbel(rg.losses.softmax, 2))
    assert noisy.takes_weights
    assert not as_loss(rg.losses.gumbel(rg.losses.LearnDCG())).takes_weights
    assert noisy(scores, labels, weights=torch.zeros(5), **lists).tolist() == [0.0, 0.0]
    packaged = [soft, noisy, as_loss(functools.partial(rg.losses.softmax)), as_loss(rg.losses.LearnDCG())]
    packaged += [as_loss(rg.losses.weighted_sum((1.0, loss), (2.0, "bce"))) for loss in ("mse", as_loss(list_softmax))]
    assert [loss.packaged for loss in packaged] == [True] * 5 + [False]
    assert packaged[-1](scores, labels, **lists).shape == (2,)
    foreign = [flat_softmax, Scaled(), rg.losses.gumbel(flat_softmax), functools.partial(rg.losses.softmax, mask=None)]
    assert [as_loss(loss).packaged for loss in foreign] == [False, False, False, True]


def test_parameters_are_found_wherever_a_module_is_used():
    module = Scaled()
    found = [as_loss(each) for each in (module, module.forward, functools.partial(module, reduction="none"))]
    assert [[name for name, _ in loss.named_parameters()] for loss in found] == [
        ["function.scale"], ["owner.scale"], ["function.scale"],
    ]  # fmt: skip
    assert [loss.learned() for loss in found] == [{"scale": 0.5}] * 3

    class Named(Scaled):
        def learned(self):
            return {"lr": self.scale.detach() * 2}

    assert as_loss(Named()).learned() == {"loss.lr": 1.0}  # `lr` is a column of the log already


def two_values(scores, labels):
    return (scores - labels).square()


def no_graph(scores, labels):
    return list_softmax(scores.detach(), labels)


def no_tensor(scores, labels):
    return 1.0


def one_argument(scores):
    return scores.sum()


def labels_first(labels, scores):
    return (scores - labels).square().mean()


def keras_order(y_true, y_pred):
    return (y_pred - y_true).square().mean()


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (labels_first, r"loss must be .*in this order.*; got .*labels_first\(labels, scores\)"),
        (keras_order, r"loss must be .*in this order.*; got .*keras_order\(y_true, y_pred\)"),
        (lambda y, s: s.sum(), r"loss must be .*in this order.*\(y, s\)"),
        (two_values, r"list: shape \(\) for scores of shape \((\d+),\); got shape \(\1,\) from own:.*two_values"),
        (lambda scores, labels, mask: scores, r"per list: shape \(8,\), or \(\) for the mean, for scores of"),
        (lambda scores, labels, offsets: scores.sum(), r"value per list: shape \(8,\) for .*; got shape \(\)"),
        (no_graph, "differentiable with respect to the scores; got values without a gradient from own:.*no_graph"),
        (no_tensor, "loss must return a tensor; got float from own:.*no_tensor"),
        (one_argument, r"loss must be a function of \(scores, labels\), .*; got .*one_argument\(scores\)"),
        (rg.losses.LearnDCG, r"loss must be an object or a function, such as LearnDCG\(\); got the class LearnDCG"),
        (3, "loss must be a spec such as 'lambdaloss@5', a function or an nn.Module; got int"),
        ("own:a.b", "loss must be given as an object again; got 'own:a.b', which is only a description"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_loss_is_told_in_one_sentence(loss, message):
    with pytest.raises((ValueError, TypeError), match=message):
        run(loss=loss, epochs=1)


def padded_with_weights(scores, labels, mask, weights):
    return (weights * (scores - labels).square() * mask).sum(-1)


def list_with_weights(scores, labels, weights):
    return (weights * (scores - labels).square()).sum()


def flat_with_weights(scores, labels, *, offsets, weights, reduction):
    assert reduction == "none"
    return torch.segment_reduce(weights * (scores - labels).square(), "sum", offsets=offsets)


@pytest.mark.parametrize("function", [padded_with_weights, list_with_weights, flat_with_weights])
def test_a_loss_may_need_weights(function):
    scores, labels = torch.tensor([[2.0, 1.0, 0.5], [1.0, 0.0, 0.0]]), torch.tensor([[1.0, 0.0, 2.0], [1.0, 0.0, 0.0]])
    weights, loss = torch.tensor([[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]]), as_loss(function)
    assert loss(scores, labels, weights=weights, reduction="none").tolist() == [9.75, 0.0]
    assert loss(scores, labels, reduction="none").tolist() == [4.25, 0.0]  # ones
    flat = (scores.flatten(), labels.flatten())
    assert loss(*flat, offsets=[0, 3, 6], weights=weights.flatten(), reduction="none").tolist() == [9.75, 0.0]


def test_lists_without_signal_may_be_constants():
    def some(scores, labels):
        return list_softmax(scores, labels) if labels.max() > 1 else torch.zeros(())

    scores = torch.randn(4, requires_grad=True)
    values = as_loss(some)(scores, torch.tensor([1.0, 0.0, 0.0, 1.0]), offsets=[0, 2, 4], reduction="none")
    values.sum().backward()
    assert scores.grad.tolist() == [0.0] * 4


# Networks


@pytest.mark.parametrize("network", NETWORKS, ids=["rows", "padded", "flat", "class"])
def test_an_own_network_is_trained_saved_and_given_again(network, tmp_path):
    before = {} if isinstance(network, type) else {name: v.clone() for name, v in network.state_dict().items()}
    settings = {"model": network, "loss": "softmax", "lr": 0.01}
    model = run(**settings)
    assert same(model, run(**settings))
    assert all(torch.equal(value, network.state_dict()[name]) for name, value in before.items())
    assert model.history[-1]["loss"] < model.history[0]["loss"]
    model.save(tmp_path)
    name = type(network).__name__ if before else "Rows"
    about = json.loads((tmp_path / "config.json").read_text())
    assert about["ranker"] == {"model": "own", "features": 10, "description": f"{HERE}.{name}"}
    assert about["settings"]["model"] == f"own:{HERE}.{name}"
    again = Model.load(tmp_path, model=network)
    assert np.array_equal(score(again), score(model))
    for read in (Model.load, registry.load):
        with pytest.raises(
            ValueError, match=rf"model must be given, because .* a custom network \(.*{name}\): .*{name}\(\)\)"
        ):
            read(tmp_path)
    with pytest.raises(ValueError, match=r"must be a model whose files match each other; got .* must contain network"):
        Model.load(tmp_path, model=nn.Linear(10, 1))


def test_list_context_is_the_same_in_both_layouts():
    padded, flat = as_ranker(Padded(), 10), as_ranker(Flat(), 10)
    rows, offsets = torch.randn(7, 10), torch.tensor([0, 2, 6, 7])
    torch.testing.assert_close(padded(rows, offsets, width=5), flat(rows, offsets))
    mask = torch.tensor([[True, True, False], [True, False, True]])
    wide = torch.randn(2, 3, 10)
    torch.testing.assert_close(padded.padded(wide, mask)[mask], flat.padded(wide, mask)[mask])


def test_padding_is_zero_for_an_own_network():
    class Sums(Rows):
        def forward(self, features, mask):
            return self.layers(features + features.sum(1, keepdim=True))

    ranker, rows = as_ranker(Sums(), 10), torch.randn(5, 10)
    both, alone = ranker(rows, torch.tensor([0, 2, 5])), ranker(rows[:2], torch.tensor([0, 2]))
    torch.testing.assert_close(both[:2], alone)
    padded, flat = as_ranker(Padded(), 10), as_ranker(Flat(), 10)
    nothing = padded(torch.zeros(0, 10), torch.tensor([0, 0]))
    assert nothing.shape == flat(torch.zeros(0, 10), torch.tensor([0, 0])).shape == (0,)


def test_rankers_of_the_package_are_taken_as_they_are(tmp_path):
    made = rg.rankers.build("mlp", features=10, widths=[8])
    model = run(model=made)
    model.save(tmp_path)
    assert np.array_equal(score(Model.load(tmp_path)), score(model))  # its configuration says how it is made
    with pytest.raises(
        ValueError, match=r"model must be None, because .* contains the description of its network; got"
    ):
        Model.load(tmp_path, model=made)
    with pytest.raises(ValueError, match=r"model must take the 10 features of the data; got 5"):
        run(model=rg.rankers.build("mlp", features=5))


def test_lazy_layers_and_shared_weights(tmp_path):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(10, 10)
            self.second = nn.Linear(10, 10)
            self.second.weight = self.first.weight
            self.head = nn.LazyLinear(1)

        def forward(self, x):
            return self.head(self.second(self.first(x).relu()))

    plain, averaged = run(model=Tied()), run(model=Tied(), ema=0.5, out=tmp_path)
    for model in (plain, averaged):
        weights = model.ranker.state_dict()
        assert torch.equal(weights["network.first.weight"], weights["network.second.weight"])
    assert not same(plain, averaged)
    shared = torch.ones(2)
    average = MovingAverage([shared, shared.detach()], 0.75)
    shared.zero_()
    average.update()
    for value in (0.75, 0.0):  # there and back
        average.swap()
        assert shared.tolist() == [value, value]
    assert np.array_equal(score(Model.load(tmp_path, model=Tied())), score(averaged))


class TwoScores(Rows):
    def forward(self, x):
        return self.layers(x).repeat(1, 2)


class Unknown(Rows):
    def forward(self, x, context):
        return self.layers(x)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (TwoScores(), r"per document, of shape \(5,\) for features of shape \(5, 10\); got shape \(5, 2\) from"),
        (Unknown(), r"forward takes \(features\), .*; got .*Unknown with forward\(x, context\)"),
        (nn.Linear(4, 1), r"model must score documents of 10 features; got the error mat1.* from torch.*Linear"),
        (nn.Flatten(0), r"model must return one score per document.*; got shape \(50,\) from torch.*Flatten"),
        (lambda features: features, "model must return an nn.Module; got int from .*lambda>"),
        (lambda: nn.Linear(10, 1), r"model must be a spec .*, an nn.Module, or a function of .*; got .*lambda>\(\)"),
        (4, "model must be a spec such as .*; got int"),
        (("mlp", {}), "model must be a spec such as .*; got tuple"),
        ("own:a.B", "model must be given as an object again; got 'own:a.B', which is only a description"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_network_is_told_in_one_sentence(model, message):
    with pytest.raises((ValueError, TypeError), match=message):
        run(model=model, epochs=1)


def test_an_own_network_has_no_name():
    with pytest.raises(ValueError, match=r"model must be a network that can be built by name .*; got 'own'"):
        rg.rankers.build("own", features=3)


def test_nothing_that_a_folder_names_is_imported(tmp_path, monkeypatch):
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    model = run(model=Rows(), loss=list_softmax, metric=top_label)
    model.settings |= {"model": "own:trap.Net", "loss": "own:trap.loss", "metric": "own:trap.metric"}
    monkeypatch.setattr(Rows, "__module__", "trap")
    model.ranker._config["description"] = "trap.Rows"
    model.save(tmp_path / "model")
    with pytest.raises(ValueError, match=r"custom network \(trap.Rows\): Model.load\(folder, model=Rows\(\)\)"):
        rg.Ranker.load(tmp_path / "model")
    ranker = rg.Ranker.load(tmp_path / "model", model=Rows())
    assert (ranker.loss, ranker.metric) == ("own:trap.loss", "own:trap.metric")


def test_export(tmp_path):
    done = run(model=Rows(), epochs=1).export(tmp_path / "rows.pt2")
    assert done.difference < 1e-5
    with pytest.raises(ValueError, match=r"model must take rows or padded lists for export; got .*Flat, which"):
        run(model=Flat(), epochs=1).export(tmp_path / "flat.pt2")

    class Branch(Rows):
        def forward(self, x):
            return self.layers(x) if float(x.sum()) > 0 else self.layers(x) + 1

    with pytest.raises(
        ValueError, match=r"model must be a network that torch.export can trace; got .*Branch and the error "
    ):
        run(model=Branch(), epochs=1).export(tmp_path / "branch.pt2")


# Metrics


def test_an_own_metric_chooses_the_epoch(tmp_path):
    model = run(metric=top_rank, epochs=4, out=tmp_path)
    name = f"own:{HERE}.top_rank"
    values = [row[name] for row in model.history]
    assert model.metrics["validation"] == {name: min(values)}
    assert model.metrics["epoch"] == 1 + values.index(min(values))
    assert json.loads((tmp_path / "config.json").read_text())["settings"]["metric"] == name
    result = model.evaluate(LISTS.validation, ["nDCG@10", top_rank])
    assert result[top_rank] == result[name] == pytest.approx(min(values))
    assert list(result) == ["nDCG@10", name]
    assert "own" in str(result)


def test_own_metrics_in_an_evaluation():
    scores, labels, offsets = [2.0, 1.0, 3.0, math.nan, 1.0], [1, 0, 0, 3, 2], [0, 3, 3, 5]
    with pytest.warns(UserWarning, match="1 scores are NaN"):
        result = evaluate(scores, labels, [top_label, "P@1"], offsets=offsets)
    assert result.values[f"own:{HERE}.top_label"][[0, 2]].tolist() == [0.0, 2.0]
    assert result[top_label] == 1.0  # the empty list is left out
    own = as_metric(functools.partial(rg.metrics.ndcg, k=1))
    torch.testing.assert_close(
        own.measure(torch.tensor([2.0, 1.0]), torch.tensor([0.0, 1.0])), torch.tensor(0.0).double()
    )
    with pytest.raises(ValueError, match=r"metrics must have different names; got own:.*<lambda> twice"):
        evaluate(scores, labels, [lambda s, y: 0.0, lambda s, y: 1.0], offsets=offsets)


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (labels_first, r"metric must be a function of \(scores, labels\), in this order; got .*labels_first"),
        (lambda scores, labels: scores, r"metric must return one number per list; got \d+ numbers from own"),
        (lambda scores, labels: None, "metric must return one number per list; got NoneType from own"),
        (lambda scores: 1.0, r"metric must be a function of \(scores, labels\), in this order; got"),
        ("own:a.b", "metric must be given as an object again; got 'own:a.b', which is only a description"),
        (4, "metric must be a spec such as 'nDCG@10', a Metric, or a function of .*; got int"),
    ],
)
def test_what_is_wrong_with_a_metric_is_told_in_one_sentence(metric, message):
    with pytest.raises((ValueError, TypeError), match=message):
        run(metric=metric, epochs=1)


# Settings


def test_settings_describe_objects():
    settings = Settings(model=Rows(), loss=list_softmax, metric=nDCG(gain=torch.exp) @ 3)
    told = settings.to_json()
    assert json.loads(json.dumps(told)) == told
    assert [told[name] for name in ("model", "loss")] == [f"own:{HERE}.Rows", f"own:{HERE}.list_softmax"]
    assert told["metric"].startswith("own:nDCG(gain=")
    assert Settings(metric=nDCG @ 3).to_json()["metric"] == "nDCG@3"
    again = Settings.of(told)
    assert again.loss == told["loss"]
    with pytest.raises(SettingsError) as error:
        again.check()
    assert [line.partition(" ")[0] for line in str(error.value).splitlines()] == ["model", "loss", "metric"]


@pytest.mark.parametrize("loss", [*FORMS, rg.losses.weighted_sum((1.0, "ranknet"), (0.5, list_softmax))], ids=loss_text)
@pytest.mark.parametrize("offsets", [[0], [0, 0], [0, 0, 1], [0, 1, 1, 3]])
def test_own_losses_of_few_or_no_documents(loss, offsets):
    scores = torch.arange(float(offsets[-1]), requires_grad=True)
    values = as_loss(loss)(scores, torch.ones(offsets[-1]), offsets=offsets, reduction="none")
    assert values.shape == (len(offsets) - 1,)
    values.sum().backward()
    assert torch.isfinite(values).all()
    assert torch.isfinite(scores.grad).all()
