r"""Which way the parameters of a loss should move, for the ranker to do better on lists that it is not trained on.

With w the ranker's weights, phi the loss's parameters, L the loss of a training batch and H minus a sharp NDCG of a
held-out batch, a step of the ranker is :math:`w'(\varphi) = w - r \odot \nabla_w L(w, \varphi)`, and

.. math:: \frac{d}{d\varphi} H(w'(\varphi)) = -\frac{d}{d\varphi} \bigl\langle r \odot \nabla H(w'),\,
          \nabla_w L(w, \varphi) \bigr\rangle = -\frac{d}{d\varepsilon} \frac{\partial}{\partial\varphi}
          L(s + \varepsilon t, \varphi)

where s are the scores and t is how they move as the weights go along :math:`r \odot \nabla H(w')`. So the ranker is
never differentiated twice by its weights. The derivative by epsilon is a difference in float64 of two derivatives by
phi, which every loss has: fused losses serve, with memory linear in the documents.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from rankgrad.losses import approx_ndcg
from rankgrad.losses.from_text import TextLoss
from rankgrad.training.batch_loading import Batch

TEMPERATURE = 0.2  # of the sharp NDCG: its ranks are near the true ones where scores differ by 1
_SHIFT = 1e-4  # of scores, for a difference: in float64 good to about 7 digits
_TINY = 1e-300
# The second moment of the gradient, as optimisers call it in their state; the largest one first.
_MOMENTS = ("max_exp_avg_sq", "exp_avg_sq", "square_avg", "sum")


def heldout_gradient(
    ranker: nn.Module,
    loss: TextLoss,
    before: Sequence[Tensor],
    scale: Sequence[Tensor],
    batch: Batch,
    lists: int,
    held: Batch,
    held_lists: int,
    add: Callable[[Tensor], Tensor] = lambda value: value,
) -> dict[str, Tensor]:
    """The derivative of the held-out loss after a step of the ranker by each parameter of the loss, by its name.

    The ranker is taken as it scores, without dropout. All parameters of the loss count, frozen ones too.

    Args:
        ranker: with the weights after the step, w'.
        loss: phi, as it was in the step.
        before: w, one tensor for each weight that is trained.
        scale: r, like `before`: the learning rate over the optimiser's size of the gradient; see `step_scale`.
        batch, held: lists of this process, of the training step and held out; `lists` and `held_lists` are how many
            there are over all processes.
        add: sums a tensor over all processes.
    """
    training = ranker.training
    ranker.eval()
    try:
        trained = [weight for weight in ranker.parameters() if weight.requires_grad]
        scores = ranker(held.features, held.offsets, width=held.width)
        goal = approx_ndcg(scores, held.labels, offsets=held.offsets, temperature=TEMPERATURE, reduction="none")
        slopes = torch.autograd.grad(goal.sum() / held_lists, trained, allow_unused=True, materialize_grads=True)
        along = [add(slope) * each for slope, each in zip(slopes, scale, strict=True)]
        scores, moves = _moves(ranker, before, along, batch)
    finally:
        ranker.train(training)
    shift = _SHIFT / torch.cat([moves.abs(), moves.new_full((1,), _TINY)]).max()  # a process may have no documents
    ahead, behind = (_by_parameters(loss, scores + way * shift * moves, batch) for way in (1, -1))
    return {name: add((behind[name] - slope) / (2 * shift * lists)) for name, slope in ahead.items()}


def _by_parameters(loss: TextLoss, scores: Tensor, batch: Batch) -> dict[str, Tensor]:
    """The derivative of the summed loss by each of its parameters, in float64."""
    learned = {name: value.detach().double().requires_grad_() for name, value in loss.named_parameters()}
    values = functional_call(loss, learned, (scores, batch.labels), {"offsets": batch.offsets, "reduction": "sum"})
    found = torch.autograd.grad(values, [*learned.values()], allow_unused=True, materialize_grads=True)
    return dict(zip(learned, found, strict=True))


def _moves(ranker: nn.Module, before: Sequence[Tensor], along: Sequence[Tensor], batch: Batch) -> tuple[Tensor, Tensor]:
    """Scores `(documents,)` with the weights `before`, and their derivative as these go along a direction."""
    names = [name for name, weight in ranker.named_parameters() if weight.requires_grad]
    weights = {name: weight.detach().requires_grad_() for name, weight in zip(names, before, strict=True)}
    with sdpa_kernel(SDPBackend.MATH):  # attention that can be differentiated twice
        arguments = (batch.features, batch.offsets)
        scores: Tensor = functional_call(ranker, weights, arguments, {"width": batch.width})
        # The backward pass is linear in what it is given; its derivative by that is the forward derivative.
        given = torch.zeros_like(scores, requires_grad=True)
        back = torch.autograd.grad(
            scores, [*weights.values()], given, create_graph=True, allow_unused=True, materialize_grads=True
        )
        total = torch.stack([(slope * way).sum() for slope, way in zip(back, along, strict=True)]).sum()
        (moves,) = torch.autograd.grad(total, given, allow_unused=True, materialize_grads=True)
    return scores.detach().double(), moves.double()


def step_scale(optimiser: torch.optim.Optimizer) -> list[Tensor]:
    """How far each weight moves for a gradient of 1, with the optimiser's memory of past gradients as it is.

    For Adam and its kin the learning rate over the root of the second moment; for plain SGD the learning rate. Momentum
    spreads a gradient over many steps: what counts here is all of it.
    """
    scales = []
    for group in optimiser.param_groups:
        for weight in group["params"]:
            state = optimiser.state.get(weight, {})
            kind = next((name for name in _MOMENTS if name in state), None)
            if kind is None:
                scales.append(torch.zeros_like(weight) + group["lr"])
                continue
            unbiased = 1.0 - group["betas"][1] ** state["step"].to(weight.device) if "betas" in group else 1.0
            scales.append(group["lr"] / ((state[kind] / unbiased).sqrt() + group["eps"]))
    return scales
