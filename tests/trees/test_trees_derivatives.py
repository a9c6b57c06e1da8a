"""Derivatives of every loss as boosting takes them: gradients, second derivatives, smoothed targets."""

from functools import partial

import numpy as np
import pytest
import torch
from every_loss import OPTIONS

from rankgrad import backend, losses
from rankgrad.losses.traits import traits_of
from rankgrad.trees import objective

LENGTHS = (0, 1, 2, 7, 0, 40)
BOUNDS = ("listmle", "unique_softmax")
CASES = {
    f"{name} {options}": (name, options)
    for name, every in OPTIONS.items()
    for options in every
    if not any(isinstance(value, torch.Tensor) for value in options.values())
}
every_case = pytest.mark.parametrize(("name", "options"), CASES.values(), ids=CASES)


def made_loss(name, options):
    loss = getattr(losses, name)
    return loss(**options) if isinstance(loss, type) else partial(loss, **options)


def made(seed=0, lengths=LENGTHS):
    """Scores, labels, offsets and weights of some lists."""
    rng = np.random.default_rng(seed)
    n = sum(lengths)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return rng.normal(size=n), rng.integers(0, 4, n).astype(float), offsets, rng.uniform(0.2, 2.0, n)


def autograd(loss, scores, labels, offsets, weights):
    """The gradient of the sum over lists, by the plain loss."""
    leaf = torch.tensor(scores, requires_grad=True)
    lists = {"offsets": torch.tensor(offsets)} | ({} if weights is None else {"weights": torch.tensor(weights)})
    with backend("plain"):
        loss(leaf, torch.tensor(labels), reduction="sum", **lists).backward()
    return leaf.grad.numpy()


@every_case
@pytest.mark.parametrize("weighted", [False, True])
def test_gradients_are_those_of_autograd(name, options, weighted):
    own = objective(made_loss(name, options))
    scores, labels, offsets, weights = made()
    if weighted and not own.takes_weights:
        with pytest.raises(ValueError, match=r"weights must be None for .* which takes no weights"):
            own.derivatives(scores, labels, offsets, weights)
        return
    weights = weights if weighted else None
    gradient, hessian = own.derivatives(scores, labels, offsets, weights)
    expected = autograd(own.loss, scores, labels, offsets, weights)
    np.testing.assert_allclose(gradient, expected, rtol=1e-7, atol=1e-9)
    assert gradient.dtype == hessian.dtype == np.float64
    assert np.isfinite(hessian).all()
    assert (hessian >= 0).all()
    assert (hessian[np.abs(gradient) > 1e-9] > 0).all()


@every_case
def test_second_derivatives_are_what_their_table_says(name, options):
    own = objective(made_loss(name, options))
    scores, labels, offsets, weights = made(1)
    weights = weights if own.takes_weights else None
    gradient, hessian = own.derivatives(scores, labels, offsets, weights)
    traits = traits_of(own.loss)
    if traits.curvature is None and traits.pairs is None:
        np.testing.assert_array_equal(hessian, np.abs(gradient))
        return
    if name == "poly1_softmax":  # a positive approximation
        return
    step, measured = 1e-6, np.empty_like(scores)
    for place in range(len(scores)):
        ends = [np.where(np.arange(len(scores)) == place, scores + move, scores) for move in (-step, step)]
        low, high = (autograd(own.loss, end, labels, offsets, weights)[place] for end in ends)
        measured[place] = (high - low) / (2 * step)
    if name not in BOUNDS:
        np.testing.assert_allclose(hessian, measured, rtol=1e-5, atol=1e-6)
    else:
        assert (hessian >= measured - 1e-6).all()
        assert hessian.sum() < 3 * measured.sum()  # a bound, but no loose one


def test_scores_far_apart_and_in_float32():
    scores, labels, offsets, weights = made(2, lengths=(300, 50))
    for text in ("lambdarank@10", "ranknet", "softmax", "approx_ndcg"):
        own = objective(text)
        heavy = weights if own.takes_weights else None
        for spread, shift in ((1.0, 0.0), (1.0, 30.0), (100.0, 0.0)):
            exact = own.derivatives(scores * spread + shift, labels, offsets, heavy)
            small = own.derivatives((scores * spread + shift).astype(np.float32), labels, offsets, heavy)
            for a, b in zip(exact, small, strict=True):
                np.testing.assert_allclose(b, a, atol=1e-6 + 3e-4 * np.abs(a).max())


def test_a_wrapped_loss_is_not_taken_for_the_bare_one():
    def half(scores, labels, **lists):
        return 0.5 * losses.softmax(scores, labels, **lists)

    scores, labels, offsets, _ = made()
    whole, curved = objective("softmax").derivatives(scores, labels, offsets)
    gradient, hessian = objective(half).derivatives(scores, labels, offsets)
    np.testing.assert_allclose(gradient, whole / 2)
    np.testing.assert_allclose(hessian, np.abs(gradient))
    assert not np.allclose(hessian, curved)


def test_hessians_by_choice():
    scores, labels, offsets, _ = made()
    gradient, same = objective("lambdarank", hessian=0.5).derivatives(scores, labels, offsets)
    assert (same == 0.5).all()
    again, size = objective("lambdarank", hessian="gradient").derivatives(scores, labels, offsets)
    np.testing.assert_allclose(size, np.abs(gradient))
    np.testing.assert_allclose(again, gradient)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("lamdarank",), "did you mean 'lambdarank'"),
        (("native:lambdarank",), "loss must be a loss of rankgrad \\(native objectives are for trees"),
        ((3,), "loss must be a spec such as 'lambdaloss@5', a function or an nn.Module; got int"),
        (("learndcg:adapt=heldout",), "adapt must be 'joint' with trees; got 'heldout'"),
        (("softmax", "catboost"), "framework must be one of 'lightgbm', 'xgboost'; got 'catboost'"),
    ],
)
def test_bad_objectives(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        objective(*arguments)
    with pytest.raises(ValueError, match="hessian must be"):
        objective("softmax", hessian=-1.0)


def test_labels_that_are_no_grades_are_refused():
    scores, labels, offsets, _ = made()
    for text in ("lambdarank", "softmax"):
        with pytest.raises(ValueError, match="labels must be at least 0"):
            objective(text).derivatives(scores, labels - 1, offsets)
    for far in (labels - 1, labels + 100):  # 2^y would be no error, or no number
        with pytest.raises(ValueError, match="labels must be from 0 to 30 with smooth; got"):
            objective("softmax", smooth=0.5).derivatives(scores, far, offsets)


@pytest.mark.parametrize("name", ["softmax", "listnet"])
def test_smoothed_targets_are_labels_that_spare_no_document(name):
    scores, labels, offsets, weights = made()
    own, loss = objective(name, smooth=0.25), getattr(losses, name)
    gradient, hessian = own.derivatives(scores, labels, offsets, weights)
    np.testing.assert_allclose(gradient, autograd(loss, scores, 2**labels - 0.25, offsets, weights), atol=1e-9)
    assert (hessian[np.repeat(np.diff(offsets) > 1, np.diff(offsets))] > 0).all()
    # A list without a relevant document draws its scores together.
    pulled, _ = own.derivatives(np.array([1.0, -1.0]), np.zeros(2), np.array([0, 2]))
    assert pulled[0] > 0 > pulled[1]
    assert (objective(name).derivatives(np.array([1.0, -1.0]), np.zeros(2), np.array([0, 2]))[0] == 0).all()


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_smoothed_losses_are_xe_ndcg_that_keeps_lists_without_a_relevant_document(gamma, weighted):
    scores, labels, offsets, weights = made(3, lengths=(4, 1, 9, 5))
    labels[offsets[2] : offsets[3]] = 0  # the third list has no relevant document
    weights = weights if weighted else None
    plain = objective(partial(losses.xe_ndcg, gamma=gamma)).derivatives(scores, labels, offsets, weights)
    rows = np.repeat(np.arange(4) != 2, np.diff(offsets))
    assert (plain[0][~rows] == 0).all()
    heavy = (2**labels - gamma) * (1.0 if weights is None else weights)
    sums = np.repeat(np.add.reduceat(heavy, offsets[:-1]), np.diff(offsets))
    for name, factor in (("listnet", np.ones_like(sums)), ("softmax", sums)):
        smoothed = objective(name, smooth=gamma).derivatives(scores, labels, offsets, weights)
        for found, expected in zip(smoothed, plain, strict=True):
            np.testing.assert_allclose(found[rows], (factor * expected)[rows], rtol=1e-7, atol=1e-9)
        # In the third list, the target of each document is its weight, divided by the sum in listnet.
        chances = np.exp(scores[~rows]) / np.exp(scores[~rows]).sum()
        pulled = factor[~rows] * (chances - heavy[~rows] / max(heavy[~rows].sum(), 1e-30))
        np.testing.assert_allclose(smoothed[0][~rows], pulled if gamma < 1 else 0.0, rtol=1e-7, atol=1e-9)


def test_drawn_targets_are_those_of_xe_ndcg_with_a_gamma_per_document():
    scores, labels, offsets, _ = made(4, lengths=(6, 8))
    labels[offsets[:-1]] = 2  # every list has a relevant document
    gamma = torch.tensor(np.random.default_rng(5).random(len(labels)))
    expected = autograd(partial(losses.xe_ndcg, gamma=gamma), scores, labels, offsets, None)
    smoothed, _ = objective("listnet", smooth="drawn", seed=5).derivatives(scores, labels, offsets)
    np.testing.assert_allclose(smoothed, expected, rtol=1e-7, atol=1e-9)


def test_drawn_targets_are_new_each_round_and_the_same_for_a_seed():
    scores, labels, offsets, _ = made()
    first, same, other = (objective("softmax", smooth="drawn", seed=seed) for seed in (1, 1, 2))
    rounds = [[own.derivatives(scores, labels, offsets)[0] for _ in range(2)] for own in (first, same, other)]
    np.testing.assert_array_equal(rounds[0], rounds[1])
    assert not np.array_equal(rounds[0][0], rounds[0][1])
    assert not np.array_equal(rounds[0][0], rounds[2][0])
    # 2^y - g lies between the targets with g = 1 and g = 0, and so does the gradient's own part of it.
    own = np.concatenate([np.zeros(0), scores])
    low, high = (objective("softmax", smooth=g).derivatives(own, labels, offsets)[1] for g in (1.0, 0.0))
    drawn = objective("softmax", smooth="drawn").derivatives(own, labels, offsets)[1]
    assert ((low <= drawn) & (drawn <= high)).all()


def test_scalars_of_a_loss_are_learned_between_rounds():
    scores, labels, offsets, _ = made()
    fixed, learned = objective("learndcg"), objective("learndcg", loss_lr=0.1)
    before = learned.loss.learned()
    for own in (fixed, learned):
        first, _ = own.derivatives(scores, labels, offsets)
        second, _ = own.derivatives(scores, labels, offsets)
        assert np.array_equal(first, second) == (own is fixed)
    assert fixed.loss.learned() == before
    assert learned.loss.learned()["alpha"] != before["alpha"]
