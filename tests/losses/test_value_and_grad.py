"""The gradient without a backward pass is the one that a backward pass gives."""

import os

import pytest
import torch

import rankgrad as rg
from rankgrad import losses
from rankgrad.kernels.op import FAMILIES
from rankgrad.losses import value_and_grad

NEEDED = {"rmse": {"levels": 3}}
CUDA = os.environ.get("RANKGRAD_TEST_DEVICE") == "cuda"
FUSED = [name for name in losses.__all__ if name.lower() in FAMILIES and not (CUDA and name == "fastsort_ndcg")]


def batch(*shape, dtype=torch.float64):
    generator = torch.Generator().manual_seed(3)
    scores = torch.randn(*shape, generator=generator, dtype=dtype)
    return scores, torch.randint(0, 3, shape, generator=generator)


def made(name):
    loss = getattr(losses, name)
    return loss().double() if isinstance(loss, type) else loss


def by_autograd(loss, scores, *lists, **options):
    leaf = scores.detach().requires_grad_()
    value = loss(leaf, *lists, **options)
    return value.detach(), torch.autograd.grad(value, leaf)[0]


@pytest.mark.parametrize("name", losses.__all__)
def test_it_is_what_autograd_gives(name):
    scores, labels = batch(3, 6)
    mask = torch.arange(6) < torch.tensor([6, 0, 4])[:, None]
    options = NEEDED.get(name, {})
    for lists in ({"mask": mask}, {"mask": mask, "reduction": "sum"}):
        found = value_and_grad(made(name), scores, labels, **lists, **options)
        torch.testing.assert_close(found, by_autograd(made(name), scores, labels, **lists, **options))
        assert not any(tensor.requires_grad for tensor in found)
    flat = {"offsets": torch.tensor([0, 7, 7, 18]), **options}
    found = value_and_grad(made(name), scores.view(-1), labels.view(-1), **flat)
    torch.testing.assert_close(found, by_autograd(made(name), scores.view(-1), labels.view(-1), **flat))


@pytest.mark.parametrize("name", losses.__all__)
def test_it_works_in_inference_mode(name):
    options, loss = NEEDED.get(name, {}), made(name)
    expected = value_and_grad(loss, *batch(3, 6), **options)
    with torch.inference_mode():
        scores, labels = batch(3, 6)
        found = value_and_grad(loss, scores, labels, mask=torch.ones_like(labels, dtype=torch.bool), **options)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("name", FUSED)
def test_a_fused_loss_has_it_without_a_backward_pass(name, monkeypatch):
    scores, labels = batch(3, 6)
    expected = by_autograd(made(name), scores, labels)
    monkeypatch.delattr(torch.autograd, "grad")
    with rg.backend("fused"):
        torch.testing.assert_close(value_and_grad(made(name), scores, labels), expected)


def test_what_stands_between_is_seen():
    scores, labels = batch(3, 6)
    noise = torch.zeros(3, 6, dtype=torch.float64)
    for loss in (
        lambda s, y: 2.0 * losses.softmax(s, y),
        lambda s, y: losses.softmax(2.0 * s, y),
        lambda s, y: losses.softmax(s, y) + losses.ranknet(s, y),
        lambda s, y: losses.gumbel(losses.softmax)(s, y, noise=noise),
    ):
        torch.testing.assert_close(value_and_grad(loss, scores, labels), by_autograd(loss, scores, labels))


def test_half_precision_comes_back_as_it_came():
    scores, labels = batch(2, 5)
    value, gradient = value_and_grad(losses.softmax, scores.half(), labels)
    assert (value.dtype, gradient.dtype) == (torch.float32, torch.float16)


def test_no_grad_and_a_network_before_it():
    features, labels = batch(2, 5)
    network = torch.nn.Linear(1, 1).double()
    scores = network(features[..., None])[..., 0]
    losses.softmax(scores, labels).backward(retain_graph=True)
    expected = network.weight.grad.clone()
    network.zero_grad()
    with torch.no_grad():
        _, gradient = value_and_grad(losses.softmax, scores, labels)
    scores.backward(gradient)
    torch.testing.assert_close(network.weight.grad, expected)


def test_one_value_a_list_has_no_one_gradient():
    with pytest.raises(ValueError, match="reduction must be 'mean' or 'sum' to compute a gradient; got 'none'"):
        value_and_grad(losses.softmax, *batch(2, 5), reduction="none")


def test_scores_without_a_gradient_are_refused():
    for scores, named in (([[1.0, 2.0]], "list"), (torch.tensor([[1, 2]]), "torch.int64")):
        with pytest.raises(TypeError, match=f"scores must be a floating-point tensor; got {named}"):
            value_and_grad(losses.softmax, scores, torch.tensor([[1, 0]]))


def test_jagged_lists_and_no_lists():
    lists = [torch.randn(2, dtype=torch.float64), torch.randn(3, dtype=torch.float64)]
    jagged = torch.nested.nested_tensor(lists, layout=torch.jagged)
    labels = torch.tensor([1, 0, 0, 2, 1])
    flat = {"offsets": torch.tensor([0, 2, 5])}
    value, gradient = value_and_grad(losses.softmax, jagged, torch.nested.nested_tensor_from_jagged(labels, **flat))
    expected = value_and_grad(losses.softmax, torch.cat(lists), labels, **flat)
    torch.testing.assert_close((value, gradient.values()), expected)
    value, gradient = value_and_grad(losses.softmax, torch.zeros(0, 3), torch.zeros(0, 3))
    assert (value.item(), gradient.shape) == (0.0, (0, 3))


def test_the_loss_can_be_a_spec():
    lists = batch(2, 5)
    expected = value_and_grad(losses.lambdaloss, *lists, k=2, mu=0.0)
    torch.testing.assert_close(value_and_grad("lambdaloss@2:mu=0", *lists), expected)
