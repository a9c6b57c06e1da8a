"""The forms of ListMLE for tied labels against sums over all orders of the documents."""

import itertools
import math

import pytest
import torch

from rankgrad import backend, losses
from rankgrad.losses import parse_loss

every_backend = pytest.mark.parametrize("chosen", ["plain", "fused"])


def orders(labels):
    """All orders of the documents that agree with the labels."""
    every = itertools.permutations(range(len(labels)))
    return [list(order) for order in every if all(labels[i] >= labels[j] for i, j in itertools.pairwise(order))]


def by_enumeration(scores, labels):
    """The loss of each order, `(orders,)`."""
    chosen = torch.tensor(orders(labels.tolist()))
    with backend("plain"):
        return losses.listmle(scores[chosen], labels[chosen], ties="position", reduction="none")


@every_backend
@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0, 30.0])
def test_exact_is_the_probability_of_all_orders(scale, chosen):
    torch.manual_seed(1)
    scores = (scale * torch.randn(7, dtype=torch.float64)).requires_grad_()
    labels = torch.tensor([1.0, 0.0, 2.0, 1.0, 0.0, 1.0, 2.0])
    expected = -(-by_enumeration(scores, labels)).logsumexp(0)
    with backend(chosen):
        found = losses.listmle(scores, labels, ties="exact")
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    gradients = [torch.autograd.grad(value, scores)[0] for value in (found, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-8, atol=1e-8)


@every_backend
@pytest.mark.parametrize("size", [2, 3, 30, 300, 3000])
@pytest.mark.parametrize("gap", [-1e4, -40.0, -9.0, -3.0, 0.0, 2.0, 5.0, 9.0, 15.0, 40.0])
def test_exact_with_equal_scores_is_a_product(size, gap, chosen):
    """P is the product of k / (k + e^-gap) over k = 1, ..., size, for one document below."""
    scores = torch.tensor([gap] * size + [0.0], dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([1.0] * size + [0.0])
    with backend(chosen):
        found = losses.listmle(scores, labels, ties="exact")
    chances = torch.arange(1.0, size + 1, dtype=torch.float64).log() + gap  # log k / e^-gap
    torch.testing.assert_close(found, torch.nn.functional.softplus(-chances).sum(), rtol=1e-12, atol=1e-9)
    expected = chances.neg().sigmoid().sum()
    (slopes,) = torch.autograd.grad(found, scores)
    torch.testing.assert_close(slopes[-1], expected, rtol=1e-9, atol=1e-8)
    torch.testing.assert_close(slopes[:-1].sum(), -expected, rtol=1e-9, atol=1e-8)


@every_backend
def test_all_forms_agree_without_ties(chosen):
    torch.manual_seed(2)
    scores, labels = torch.randn(5, 9, dtype=torch.float64), torch.rand(5, 9)
    with backend(chosen):
        forms = ("together", "position", "random", "efron", "exact")
        found = [losses.listmle(scores, labels, ties=ties, reduction="none") for ties in forms]
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], rtol=1e-9, atol=1e-9)


def test_the_exact_likelihood_is_above_that_of_any_order():
    torch.manual_seed(3)
    scores, labels = torch.randn(7, dtype=torch.float64), torch.tensor([1.0, 0.0, 2.0, 1.0, 0.0, 1.0, 2.0])
    every = by_enumeration(scores, labels)
    exact = losses.listmle(scores, labels, ties="exact")
    assert exact < every.min()
    # The mean over random orders is the bound of Jensen's inequality, up to the number of orders.
    assert exact < every.mean() - math.log(len(every))


@every_backend
@pytest.mark.parametrize("ties", ["together", "efron", "exact"])
def test_a_weight_of_two_for_all_doubles_the_loss(ties, chosen):
    torch.manual_seed(4)
    scores, labels = torch.randn(2, 8, dtype=torch.float64), torch.randint(0, 3, (2, 8))
    with backend(chosen):
        once = losses.listmle(scores, labels, ties=ties)
        twice = losses.listmle(scores, labels, ties=ties, weights=torch.full((2, 8), 2.0))
    torch.testing.assert_close(twice, 2 * once)


def test_the_spec_has_all_forms():
    scores, labels = torch.randn(3, 8), torch.randint(0, 3, (3, 8))
    for ties in ("together", "position", "efron", "exact"):
        assert torch.equal(
            parse_loss(f"listmle:ties={ties}")(scores, labels), losses.listmle(scores, labels, ties=ties)
        )
    drawn = parse_loss("listmle:ties=random")
    torch.manual_seed(5)
    first = drawn(scores, labels)
    assert drawn(scores, labels) != first
    torch.manual_seed(5)
    assert drawn(scores, labels) == first
    with pytest.raises(ValueError, match="noise"):
        parse_loss("listmle:ties=random,noise=1")
