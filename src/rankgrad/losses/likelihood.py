"""The Plackett-Luce likelihood of an order of documents, which `listmle` and `p_listmle` sum up."""

import torch
from torch import Tensor

from rankgrad.lists import Lists
from rankgrad.losses.pairwise import has_order
from rankgrad.metrics.order import order


def plackett_luce(lists: Lists, together: bool, position_aware: bool = False) -> Tensor:
    """The negative log-likelihood of each choice, from the highest label down, `(..., n)`; 0 where none is left."""
    by_label = order(lists.labels, lists.mask)
    real = lists.mask.gather(-1, by_label) & has_order(lists)[..., None]
    chosen = torch.where(real, lists.scores.gather(-1, by_label), lowest(lists.scores))
    field = _logsumexp_from_here(chosen)
    first = _first_tied(lists.labels.gather(-1, by_label)) if together else None
    field = field if first is None else field.gather(-1, first)
    terms = torch.where(real, field - chosen, 0.0)  # padding comes last, and so adds nothing
    if position_aware:
        terms = terms * _position_weights(first, real, lists.scores.dtype)
    return terms if lists.weights is None else terms * lists.weights.gather(-1, by_label)


def _position_weights(first: Tensor | None, real: Tensor, dtype: torch.dtype) -> Tensor:
    """What each choice counts in `p_listmle`, by the place at which its run of equal labels begins, `(..., n)`."""
    rank = torch.arange(real.shape[-1], dtype=dtype, device=real.device)
    count = real.to(dtype)
    last = torch.exp2(1.0 - count.sum(-1, keepdim=True).clamp(min=2))
    share = torch.exp2(-rank)
    if first is not None:
        # How many tie. Padding comes last, and may tie with the lowest: it does not count.
        size = torch.zeros_like(count).scatter_add(-1, first, count).clamp(min=1)
        share = (share * (2.0 - torch.exp2(1.0 - size)) / size).gather(-1, first)
    return ((share - last) / (1.0 - last)).clamp(min=0)


def _first_tied(labels: Tensor) -> Tensor:
    """The place at which the run of equal labels begins that each stands in, `(..., n)`."""
    place = torch.arange(labels.shape[-1], device=labels.device).expand(labels.shape)
    begins = torch.ones_like(labels, dtype=torch.bool)
    begins[..., 1:] = labels[..., 1:] != labels[..., :-1]
    return torch.where(begins, place, 0).cummax(-1).values


def _logsumexp_from_here(values: Tensor) -> Tensor:
    """`log(sum of e^v_j over j >= i)`, `(..., n)`, by doubling the reach: 1, 2, 4, ... places.

    The derivative of logcumsumexp adds logarithms of gradients to the values, and so loses the gradient far from 0.
    """
    reach = 1
    while reach < values.shape[-1]:
        further = torch.nn.functional.pad(values[..., reach:], (0, reach), value=lowest(values))
        values, reach = torch.logaddexp(values, further), 2 * reach
    return values


def lowest(scores: Tensor) -> float:
    """What stands for -inf where an infinity would make the derivative NaN."""
    return torch.finfo(scores.dtype).min
