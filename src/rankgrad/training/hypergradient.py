r"""Compute the gradient of a held-out metric with respect to the parameters of a loss, through one step of the ranker.

Let w be the weights of the ranker, r the learning rate of each weight, phi the parameters of the loss, L the loss of a
training batch, and H the negative metric of a held-out batch. H uses soft ranks that are close to true ranks. A step of
the ranker is
:math:`w'(\varphi) = w - r \odot \nabla_w L(w, \varphi)`, and

.. math:: \frac{d}{d\varphi} H(w'(\varphi)) = -\frac{d}{d\varphi} \bigl\langle r \odot \nabla H(w'),\,
          \nabla_w L(w, \varphi) \bigr\rangle = -\frac{d}{d\varepsilon} \frac{\partial}{\partial\varphi}
          L(s + \varepsilon t, \varphi)

where s are the scores of the training batch. The derivative of s with respect to the weights, in the direction
:math:`r \odot \nabla H(w')`, is t. So no second derivative with respect to the weights is needed. The derivative with
respect to epsilon is computed in float64, from the difference of two derivatives with respect to phi. Every loss has
these derivatives. So this method also works for fused losses, and its memory is linear in the number of documents.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from rankgrad.errors import bad_value
from rankgrad.losses import approx_ndcg, relaxed
from rankgrad.losses.from_text import TextLoss
from rankgrad.metrics import Metric
from rankgrad.metrics.custom import CustomMetric
from rankgrad.relax import sigmoid_ranks
from rankgrad.run.objective import Batch

TEMPERATURE = 0.2  # temperature of the soft ranks in H; they are close to true ranks if scores differ by at least 1
_SHIFT = 1e-4  # largest change of a score for the difference; the result has about 7 correct digits in float64
_TINY = 1e-300
# Names of the second moment of the gradient in the states of optimisers. The first name belongs to the maximum of this
# moment over all steps.
_MOMENTS = ("max_exp_avg_sq", "exp_avg_sq", "square_avg", "sum")


def heldout_gradient(
    ranker: nn.Module,
    loss: TextLoss,
    before: Sequence[Tensor],
    scale: Sequence[Tensor],
    batch: Batch,
    lists: int,
    heldout: Batch,
    heldout_lists: int,
    add: Callable[[Tensor], Tensor] = lambda value: value,
    goal: Callable[..., Tensor] | None = None,
) -> dict[str, Tensor]:
    """Return the hypergradient: the derivative of H with respect to each parameter of the loss, through one step.

    The ranker is evaluated without dropout. The result also contains frozen parameters.

    Args:
        ranker: ranker with the weights w' after the step.
        loss: loss with the parameters phi of the step.
        before: weights w before the step, as one tensor per trained parameter of the ranker.
        scale: learning rates r, in tensors with the same shapes as `before`; see `step_scale`.
        batch, heldout: training batch and held-out batch, which contain only the lists of this process.
        lists, heldout_lists: numbers of lists in these two batches, in all processes together.
        add: function that sums a tensor over all processes.
        goal: the loss H of the held-out lists; None for the negative NDCG with sigmoid ranks.
    """
    training = ranker.training
    ranker.eval()
    try:
        trained = [weight for weight in ranker.parameters() if weight.requires_grad]
        scores = ranker(heldout.features, heldout.offsets, width=heldout.width)
        values = (goal or ndcg_goal)(scores, heldout.labels, offsets=heldout.offsets, reduction="none")
        slopes = torch.autograd.grad(values.sum() / heldout_lists, trained, allow_unused=True, materialize_grads=True)
        along = [add(slope) * each for slope, each in zip(slopes, scale, strict=True)]
        scores, moves = _moves(ranker, before, along, batch)
    finally:
        ranker.train(training)
    shift = _SHIFT / torch.cat([moves.abs(), moves.new_full((1,), _TINY)]).max()  # a process may have no documents
    ahead, behind = (_by_parameters(loss, scores + way * shift * moves, batch) for way in (1, -1))
    return {name: add((behind[name] - slope) / (2 * shift * lists)) for name, slope in ahead.items()}


def ndcg_goal(scores: Tensor, labels: Tensor, *, offsets: Tensor, reduction: str) -> Tensor:
    """Compute the negative NDCG with sharp sigmoid ranks. With `adapt=heldout`, it is the loss H of held-out lists."""
    return approx_ndcg(scores, labels, offsets=offsets, temperature=TEMPERATURE, reduction=reduction)


def metric_goal(metric: Metric | CustomMetric) -> Callable[..., Tensor]:
    """Return a loss: the negative metric, with sharp sigmoid ranks. With `adapt=metric`, it is the loss H.

    Args:
        metric: metric of the run, but not a function of the user, which `rankgrad.losses.relaxed` cannot use.
    """
    if not isinstance(metric, Metric):
        bad_value("metric", "be a metric of rankgrad.metrics with adapt=metric", str(metric))
    return relaxed(metric, sigmoid_ranks(TEMPERATURE))


def _by_parameters(loss: TextLoss, scores: Tensor, batch: Batch) -> dict[str, Tensor]:
    """Return the derivative of the sum of the losses with respect to each parameter of the loss, in float64."""
    learned = {name: value.detach().double().requires_grad_() for name, value in loss.named_parameters()}
    values = functional_call(loss, learned, (scores, batch.labels), {"offsets": batch.offsets, "reduction": "sum"})
    found = torch.autograd.grad(values, [*learned.values()], allow_unused=True, materialize_grads=True)
    return dict(zip(learned, found, strict=True))


def _moves(ranker: nn.Module, before: Sequence[Tensor], along: Sequence[Tensor], batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the scores with the weights `before`, and the derivative of the scores in the direction `along`.

    Scores and derivative have the shape `(documents,)`.
    """
    names = [name for name, weight in ranker.named_parameters() if weight.requires_grad]
    weights = {name: weight.detach().requires_grad_() for name, weight in zip(names, before, strict=True)}
    with sdpa_kernel(SDPBackend.MATH):  # this form of attention can be differentiated twice
        arguments = (batch.features, batch.offsets)
        scores: Tensor = functional_call(ranker, weights, arguments, {"width": batch.width})
        # The backward pass is a linear function. The derivative of this function is the forward derivative.
        given = torch.zeros_like(scores, requires_grad=True)
        back = torch.autograd.grad(
            scores, [*weights.values()], given, create_graph=True, allow_unused=True, materialize_grads=True
        )
        total = torch.stack([(slope * way).sum() for slope, way in zip(back, along, strict=True)]).sum()
        (moves,) = torch.autograd.grad(total, given, allow_unused=True, materialize_grads=True)
    return scores.detach().double(), moves.double()


def step_scale(optimiser: torch.optim.Optimizer) -> list[Tensor]:
    """Return the learning rates r of the hypergradient: how far a step moves a weight whose gradient is 1.

    This distance depends on the state of the optimiser. For Adam and similar optimisers, the distance is the learning
    rate divided by the root of the second moment. For SGD, the distance is the learning rate. Momentum distributes the
    effect of a gradient over many steps; this function counts the whole effect.
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
