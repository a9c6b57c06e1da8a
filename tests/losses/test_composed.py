"""Weighted sums of losses: values and gradients are those of the sum written by hand, in every layout."""

import copy
from functools import partial

import pytest
import torch
from torch import nn

from rankgrad import trees
from rankgrad.data import load
from rankgrad.losses import LearnDCG, bce, gumbel, lambdaloss, parse_loss, relaxed, softmax, weighted_sum
from rankgrad.losses.composed import WeightedSum
from rankgrad.metrics import AP
from rankgrad.relax import neural_sort
from rankgrad.training import Settings, train

TEXT = "0.7*softmax+0.3*bce"
# A list with two relevant documents, one without any, one of a single document.
SCORES = torch.tensor([0.3, -1.0, 2.0, 0.5, 0.1, 1.5], dtype=torch.float64)
LABELS = torch.tensor([1.0, 0.0, 2.0, 0.0, 0.0, 1.0], dtype=torch.float64)
WEIGHTS = torch.tensor([1.0, 2.0, 0.5, 1.0, 3.0, 1.0], dtype=torch.float64)
OFFSETS = torch.tensor([0, 3, 5, 6])
LAYOUTS = ["flat", "padded"]


def arranged(layout, *values):
    """The lists in a layout: the tensors, and the keyword that says where lists are."""
    if layout == "flat":
        return [value.clone() for value in values], {"offsets": OFFSETS}
    places = torch.arange(3) < OFFSETS.diff()[:, None]
    return [torch.zeros(3, 3, dtype=value.dtype).masked_scatter(places, value) for value in values], {"mask": places}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "loss", [parse_loss(TEXT), weighted_sum((0.7, softmax), (0.3, "bce"))], ids=["text", "objects"]
)
def test_values_and_gradients_are_those_of_the_sum(loss, layout, reduction, weighted):
    (scores, labels, weights), lists = arranged(layout, SCORES, LABELS, WEIGHTS)
    lists |= {"reduction": reduction} | ({"weights": weights} if weighted else {})
    found, leaf = loss(one := scores.clone().requires_grad_(), labels, **lists), scores.clone().requires_grad_()
    by_hand = 0.7 * softmax(leaf, labels, **lists) + 0.3 * bce(leaf, labels, **lists)
    torch.testing.assert_close(found, by_hand)
    upstream = torch.arange(1.0, found.numel() + 1, dtype=torch.float64).reshape(found.shape)
    torch.testing.assert_close(*(torch.autograd.grad(v, x, upstream)[0] for v, x in ((found, one), (by_hand, leaf))))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradcheck(layout):
    (scores, labels), lists = arranged(layout, SCORES, LABELS)
    loss = parse_loss(f"{TEXT}+0.5*approx_ndcg:temperature=0.5+2*lambdaloss@2")
    assert torch.autograd.gradcheck(lambda x: loss(x, labels, **lists), scores.requires_grad_())


def test_the_mean_is_the_sum_of_the_means_over_the_lists_of_each_term():
    values = parse_loss(TEXT)(SCORES, LABELS, offsets=OFFSETS, reduction="none")
    assert values.shape == (3,)
    terms = [loss(SCORES, LABELS, offsets=OFFSETS, reduction="sum") for loss in (softmax, bce)]
    # No document is relevant in the second list: it carries signal for the pointwise loss only.
    torch.testing.assert_close(
        parse_loss(TEXT)(SCORES, LABELS, offsets=OFFSETS), 0.7 * terms[0] / 2 + 0.3 * terms[1] / 3
    )


@pytest.mark.parametrize(
    ("loss", "takes"),
    [
        (parse_loss(TEXT), True),
        (parse_loss("softmax:gumbel=2+bce"), True),
        (parse_loss("softmax+learndcg"), False),
        (weighted_sum((1, gumbel(softmax)), (1, partial(lambdaloss, k=2))), True),
        (weighted_sum((1, softmax), (2, relaxed(AP, neural_sort()))), False),
        (weighted_sum((1, weighted_sum((1, bce))), (1, parse_loss("softmax"))), True),
    ],
)
def test_weights_are_taken_where_every_term_takes_them(loss, takes):
    assert loss.takes_weights is takes
    given = {"offsets": OFFSETS, "weights": WEIGHTS}
    if takes:
        assert torch.isfinite(loss(SCORES, LABELS, **given))
    else:
        with pytest.raises(ValueError, match=r"weights must be None for a sum with .*, which takes no weights"):
            loss(SCORES, LABELS, **given)


def test_learned_scalars_of_all_terms():
    one = parse_loss("0.5*learndcg:alpha=4+0.5*bce")
    assert one.learned() == parse_loss("learndcg:alpha=4").learned()
    two = parse_loss("0.5*learndcg:alpha=4+0.5*softmax+0.5*learndcg@2")
    assert two.learned()["term1.alpha"] == pytest.approx(4)
    assert two.learned()["term3.alpha"] == pytest.approx(1)
    assert len(two.learned()) == 6
    assert parse_loss(TEXT).learned() == {}


def test_parameters_of_terms_train():
    own = LearnDCG()
    loss = weighted_sum((0.5, own), (0.5, "learndcg"), (1.0, bce))
    assert len(list(loss.parameters())) == 6
    loss(SCORES, LABELS, offsets=OFFSETS).backward()
    assert own.raw_alpha.grad.abs() > 0
    copied = copy.deepcopy(loss)
    own.raw_alpha.data += 1
    assert copied.learned() != loss.learned()
    copied.load_state_dict(loss.state_dict())
    assert copied(SCORES, LABELS, offsets=OFFSETS) == loss(SCORES, LABELS, offsets=OFFSETS)


@pytest.mark.parametrize("text", [TEXT, "0.25*relaxed(metric=nDCG(gain=linear)@2,operator=neural_sort)+1*softmax"])
def test_text_of_a_sum(text):
    loss = parse_loss(text)
    assert str(loss) == text == str(parse_loss(str(loss)))
    assert (loss.adapt, loss.options, type(loss.function)) == ("joint", {}, WeightedSum)
    loss.only_joint("trees")
    torch.testing.assert_close(
        parse_loss(str(loss))(SCORES, LABELS, offsets=OFFSETS), loss(SCORES, LABELS, offsets=OFFSETS)
    )


def test_print():
    total = repr(weighted_sum((0.7, softmax), (0.3, "LambdaLoss@5")))
    assert "0.7 * softmax + 0.3 * lambdaloss@5" in total
    assert "(0): TextLoss('lambdaloss@5')" in total
    assert repr(parse_loss("LambdaLoss@5")) == "TextLoss('lambdaloss@5')"
    assert repr(gumbel(softmax)) == "gumbel(softmax, samples=1, scale=1.0)"
    assert repr(gumbel(lambdaloss, samples=8, scale=0.5, seed=3, k=5)) == (
        "gumbel(lambdaloss, samples=8, scale=0.5, seed=3, k=5)"
    )
    assert "softmax, samples=2, scale=1.0" in repr(gumbel(parse_loss("softmax"), samples=2))
    assert "gumbel(rankgrad.losses.pairwise.lambdaloss(k=5), " in repr(gumbel(partial(lambdaloss, k=5)))
    assert "LearnDCG, samples=1" in repr(gumbel(LearnDCG()))
    assert repr(LearnDCG(k=5).to("meta")) == "LearnDCG(discount='log', k=5)"
    with pytest.raises(TypeError, match=r"loss must be a function or a module .*; got 'softmax'"):
        gumbel("softmax")


@pytest.mark.parametrize(
    ("terms", "error", "told"),
    [
        ([], ValueError, r"terms must contain at least one pair \(weight, loss\); got none"),
        (
            [[(0.7, "softmax"), (0.3, bce)]],
            TypeError,
            "terms must be separate arguments, as in .*; got a list of pairs",
        ),
        ([("softmax", 0.7)], TypeError, r"terms must be pairs \(weight, loss\), with the weight first"),
        ([(1, LearnDCG)], TypeError, r"loss must be an object or a function, such as LearnDCG\(\); got the class"),
        (["softmax"], TypeError, r"terms must be pairs \(weight, loss\), as in .*; got 'softmax'"),
        ([(0, softmax)], ValueError, "weight must be a finite number above 0; got 0"),
        ([(True, softmax)], ValueError, "weight must be a finite number above 0; got True"),
        ([(float("nan"), softmax)], ValueError, "weight must be a finite number above 0; got nan"),
        ([(1, 5)], TypeError, "loss must be a spec, a function or a module; got int"),
        ([(1, "sofmax")], ValueError, "loss must be a known name; got 'sofmax'; did you mean 'softmax'"),
        ([(1, "learndcg:adapt=heldout")], ValueError, "adapt must be 'joint' with a weighted sum; got 'heldout'"),
        ([(1, parse_loss("learndcg:adapt=heldout"))], ValueError, "adapt must be 'joint' with a weighted sum"),
    ],
)
def test_what_is_wrong_is_one_sentence(terms, error, told):
    with pytest.raises(error, match=told):
        weighted_sum(*terms)


def test_trains():
    splits = load("synthetic:lists=40,features=10,mean_length=6")
    settings = Settings(model="mlp:widths=8", loss="0.7*softmax+0.3*bce+0.2*learndcg", epochs=2, lr=0.01, seed=3)
    settings.check()
    model = train(settings, splits.train, splits.validation)
    assert isinstance(model.ranker, nn.Module)
    assert set(model.metrics["loss"]) == set(LearnDCG().learned())


def test_trees_take_a_sum():
    found, one, other = (
        trees.objective(text).derivatives(SCORES.numpy(), LABELS.numpy(), OFFSETS.numpy())
        for text in (TEXT, "softmax", "bce")
    )
    torch.testing.assert_close(found[0], 0.7 * one[0] + 0.3 * other[0])
    assert (found[1] >= 0).all()
