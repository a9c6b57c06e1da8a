"""Losses as text: what is understood, and what is said about the rest."""

import re
import warnings

import pytest
import torch

import rankgrad as rg
from rankgrad import losses
from rankgrad.experiments.runs.cell import Cell
from rankgrad.experiments.runs.run_cell import _train
from rankgrad.losses import from_text, parse_loss

SCORES, LABELS = torch.tensor([[2.0, 1.0, 3.0]]), torch.tensor([[1.0, 0.0, 2.0]])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("LambdaLoss@2", losses.lambdaloss(SCORES, LABELS, k=2)),
        ("approx_ndcg:temperature=0.1", losses.approx_ndcg(SCORES, LABELS, temperature=0.1)),
        ("rmse:levels=3", losses.rmse(SCORES, LABELS, levels=3)),
        ("learndcg:learn=none", losses.approx_ndcg(SCORES, LABELS)),
    ],
)
def test_a_text_is_its_loss(text, expected):
    torch.testing.assert_close(parse_loss(text)(SCORES, LABELS), expected)
    assert str(parse_loss(str(parse_loss(text)))) == str(parse_loss(text))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("lamdaloss", "did you mean 'lambdaloss'"),
        ("InfoNCE", "loss must be a known name; got 'infonce'; did you mean 'softmax'?"),
        ("cross-entropy", "did you mean 'softmax' or 'bce'"),
        ("mean_squared_error_loss", "did you mean 'mse'"),
        ("mse@3", "mse does not support a cutoff"),
        ("rmse", "loss must contain the option levels, as in rmse:levels=...; got 'rmse'"),
        ("approx_ndcg:temprature=1", "did you mean 'temperature'"),
        ("approx_ndcg:temperature=-1", "temperature must be above 0"),
        ("lambdaloss@0", "from 1 to 2147483647 after @"),
        ("ranknet:", "name\\[@k\\]"),
        ("learndcg:adapt=held", "adapt must be one of 'joint', 'heldout', 'metric'; got 'held'"),
        ("lambdaloss@5:adapt=heldout", "have learned parameters if it contains the option adapt; got 'lambdaloss@5:"),
        ("learndcg:gumbel=2,adapt=heldout", "adapt must be 'joint' with gumbel; got 'heldout'"),
        ("learndcg:learn=none,adapt=heldout", "loss must have learned parameters if it contains the option adapt"),
    ],
)
def test_what_is_wrong_is_one_sentence(text, told):
    with pytest.raises(ValueError, match=told):
        parse_loss(text)


def test_names_of_other_libraries_mean_losses_that_exist():
    for name, ours in from_text._ELSEWHERE.items():
        assert name == re.sub("[-_]|loss$", "", name)
        assert not {name} & {known.replace("_", "") for known in from_text.KNOWN}, name
        for each in ours:
            parse_loss(each)


def test_a_loss_without_weights_refuses_them():
    for text in ("approx_ndcg", "relaxed:metric=AP,operator=neural_sort", "0.5*softmax+0.5*approx_ndcg"):
        with pytest.raises(ValueError, match=r"weights must be None for .*(approx_ndcg|relaxed)"):
            parse_loss(text)(SCORES, LABELS, weights=torch.ones(1, 3))
    parse_loss("softmax")(SCORES, LABELS, weights=torch.ones(1, 3))


@pytest.mark.parametrize(("text", "way"), [("learndcg:gumbel=2", "joint"), ("learndcg@3:ADAPT=heldout", "heldout")])
def test_a_text_says_how_its_parameters_are_learned(text, way):
    loss = parse_loss(text)
    assert loss.adapt == parse_loss(str(loss)).adapt == way
    assert loss.learned() == pytest.approx({"gain_base": 2, "discount_base": 2, "alpha": 1})


def test_who_cannot_hold_lists_out_says_so():
    parse_loss("learndcg:adapt=joint").only_joint("trees")
    with pytest.raises(ValueError, match="adapt must be 'joint' with trees; got 'heldout'"):
        parse_loss("learndcg:adapt=heldout").only_joint("trees")


@pytest.mark.parametrize("folder", ["5", "2024-11-15", "2024-01"])
def test_a_path_is_text(folder):
    with pytest.raises(ValueError, match=f"path must be a folder with the file weights.safetensors.*; got {folder}$"):
        parse_loss(f"neuralloss:path={folder}")


def test_a_held_out_adaptation_without_the_training_loop_warns_once():
    loss = parse_loss("learndcg:adapt=heldout")
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        loss(SCORES, LABELS)
    with pytest.warns(UserWarning, match="adapt=heldout has no effect in a custom training loop; use rankg") as seen:
        loss(SCORES, LABELS).backward()
    assert [warning.filename for warning in seen] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss(SCORES, LABELS).backward()
        parse_loss("learndcg")(SCORES, LABELS).backward()
        torch.compile(parse_loss("learndcg:adapt=metric"), fullgraph=True, backend="eager")(SCORES, LABELS)


@pytest.mark.parametrize("adapt", ["heldout", "metric"])
def test_the_training_loop_only_warns_that_its_own_adaptation_is_deprecated(adapt, tmp_path):
    data = rg.data.load("synthetic:lists=20,features=10").train
    settings = {"model": "linear", "loss": f"learndcg:adapt={adapt}", "epochs": 1, "device": "cpu"}
    with pytest.warns(UserWarning, match=f"^adapt={adapt} is deprecated, and version 0.4 removes it: train") as seen:
        rg.training.train(rg.training.Settings(**settings), data, out=tmp_path)
    assert [warning.filename for warning in seen] == [__file__]
    cell = Cell("lists", False, None, "Linear", "LearnDCG", None, settings, ("nDCG@10",), "tune", False, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        more = rg.training.Settings(**{**settings, "epochs": 2})
        assert len(rg.training.train(more, data, out=tmp_path, resume=True).history) == 2
        assert _train(cell, data, None).history  # a recipe


def test_lists_belong_in_the_call_of_a_learned_loss():
    must = r"LearnDCG must get the lists when it is called, as in `loss = LearnDCG\(\); loss\(scores, labels, ...\)`"
    for lists, named in (((SCORES, LABELS), {"offsets": [0, 3]}), ((SCORES, LABELS), {}), ((), {"labels": LABELS})):
        with pytest.raises(TypeError, match=must):
            losses.LearnDCG(*lists, **named)
    assert losses.LearnDCG(3.0, alpha=2.0).learned()["gain_base"] == pytest.approx(3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'gian_base'"):
        losses.LearnDCG(gian_base=3.0)
    with pytest.raises(AttributeError, match="has no attribute 'learndcg'; did you mean 'LearnDCG'"):
        losses.learndcg  # noqa: B018
