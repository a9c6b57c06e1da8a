"""Gradients by what is not a score: labels, weights, options. Kernels have none of them, and must not drop them."""

import pytest
import torch
from every_loss import OPTIONS, _takes_weights

import rankgrad as rg
from rankgrad import losses

SCORES = torch.tensor([[2.0, 1.0, 3.0, 0.5], [0.3, 1.5, -1.0, 0.0]], dtype=torch.float64)
LABELS = torch.tensor([[1.0, 0.0, 2.0, 0.0], [0.0, 2.0, 1.0, 1.0]], dtype=torch.float64)
WEIGHTS = torch.tensor([[0.5, 1.0, 2.0, 1.5], [1.0, 0.3, 1.0, 2.0]], dtype=torch.float64)
NAMES = [name for name in OPTIONS if name not in ("LearnDCG", "NeuralLoss")]
TUNED = {
    "approx_ap": "temperature", "approx_mrr": "temperature", "approx_ndcg": "temperature", "approx_precision": "beta",
    "fastsort_ndcg": "temperature", "hinge": "margin", "lambdaloss": "sigma", "lambdarank": "sigma",
    "neural_ndcg": "temperature", "poly1_softmax": "epsilon", "ranknet": "sigma", "smooth_ap": "alpha",
    "smooth_ndcg": "alpha", "smooth_precision": "delta", "softsort_ndcg": "temperature",
}  # fmt: skip


def gradients(name, backend, by, **options):
    """The loss and its gradient by scores and by what is named; None where it has none."""
    inputs = {"scores": SCORES, "labels": LABELS} | ({"weights": WEIGHTS} if _takes_weights(name) else {})
    leaves = {key: value.clone().requires_grad_(key in ("scores", by)) for key, value in inputs.items()}
    scores, labels = leaves["scores"], leaves["labels"]
    if "weights" in leaves:
        options["weights"] = leaves["weights"]
    with rg.backend(backend):
        value = getattr(losses, name)(scores, labels, **OPTIONS[name][0], **options)
    wanted = leaves[by] if by in leaves else options[by]
    return value.detach(), *torch.autograd.grad(value, [scores, wanted], allow_unused=True)


def assert_alike(name, by, **options):
    found, expected = (gradients(name, backend, by, **options) for backend in ("auto", "plain"))
    assert (found[2] is None) == (expected[2] is None)
    torch.testing.assert_close(found, expected)
    return expected[2]


@pytest.mark.parametrize("name", NAMES)
def test_labels_get_the_gradient_of_the_plain_loss(name):
    assert_alike(name, "labels")


@pytest.mark.parametrize("name", [name for name in NAMES if _takes_weights(name)])
def test_weights_get_their_gradient(name):
    assert assert_alike(name, "weights").abs().max() > 0


@pytest.mark.parametrize(("name", "option"), TUNED.items())
def test_options_get_their_gradient(name, option):
    small = 2.0 if name == "fastsort_ndcg" else 0.2  # its ranks are integers below
    value = torch.tensor(small, dtype=torch.float64, requires_grad=True)
    assert assert_alike(name, option, **{option: value}).abs() > 0


def test_fused_alone_says_so():
    with pytest.raises(
        ValueError, match=r"^backend must be 'auto' or 'plain' with labels that require a gradient; got"
    ):
        gradients("softmax", "fused", "labels")


def test_the_kernel_is_used_where_nobody_asks_for_a_gradient():
    labels = LABELS.clone().requires_grad_()
    with torch.no_grad(), rg.backend("fused"):
        assert losses.softmax(SCORES, labels).isfinite()


def test_transforms_by_labels():
    found = torch.func.grad(lambda labels: losses.softmax(SCORES, labels, weights=WEIGHTS))(LABELS)
    torch.testing.assert_close(found, gradients("softmax", "plain", "labels")[2])


def test_compiled_losses_keep_them():
    labels = LABELS.clone().requires_grad_()
    value = torch.compile(losses.softmax, backend="aot_eager", fullgraph=True)(SCORES, labels, weights=WEIGHTS)
    torch.testing.assert_close(torch.autograd.grad(value, labels)[0], gradients("softmax", "plain", "labels")[2])
    torch.compiler.reset()
