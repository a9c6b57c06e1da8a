"""Defects found by running other learning-to-rank libraries; most of the ten that were found are promises."""

import pytest
import torch

from rankgrad import losses
from rankgrad.relax import neural_sort, sinkhorn


def value_and_gradient(loss, scores, labels, **keywords):
    scores = scores.clone().requires_grad_()
    value = loss(scores, labels, **keywords)
    return value.detach(), torch.autograd.grad(value, scores)[0]


def test_defect_01_a_perfect_fit_under_rmse_has_a_gradient():
    labels = torch.tensor([[1.0, 2.0, 3.0]])
    value, gradient = value_and_gradient(losses.rmse, torch.logit(labels.double() / 5), labels.double(), levels=5)
    assert value < 1e-7
    assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("gap", [50.0, 1e3, 1e6])
@pytest.mark.parametrize("name", ["ranknet", "bce", "softmax", "listnet", "listmle", "unique_softmax"])
def test_defect_02_the_worst_pairs_keep_their_gradient(name, gap):
    """An epsilon in a logarithm flattens the loss just where it is most wrong."""
    value, gradient = value_and_gradient(getattr(losses, name), torch.tensor([[0.0, gap]]), torch.tensor([[1.0, 0.0]]))
    assert gradient[0].abs().max() >= 0.5
    if name != "bce":
        torch.testing.assert_close(gradient, torch.tensor([[-1.0, 1.0]]))
        torch.testing.assert_close(value, torch.tensor(gap))


def saved_bytes(rounds):
    """Memory that the gradient of Sinkhorn scaling keeps, each storage counted once."""
    kept, held = {}, []  # held, for a freed address may be used again
    permutation = neural_sort().permutation(torch.randn(200, generator=torch.Generator().manual_seed(0)))
    permutation.requires_grad_()

    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        held.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        sinkhorn(permutation, rounds)
    return sum(kept.values())


def test_defect_07_sinkhorn_stores_no_matrix_a_round():
    """A round keeps vectors, not matrices."""
    matrix = 200 * 200 * 4
    assert saved_bytes(60) - saved_bytes(30) < matrix
