"""The Plackett-Luce likelihood of an order of documents, for `listmle` and `p_listmle`."""

import torch
from torch import Tensor

from rankgrad.lists import Lists
from rankgrad.losses.pairwise import has_order
from rankgrad.metrics.sort_order import order


def plackett_luce(lists: Lists, together: bool, position_aware: bool = False) -> Tensor:
    """Return the terms of the negative log-likelihood in descending order of labels, `(..., n)`; 0 for padding."""
    by_label = order(lists.labels, lists.mask)
    real = lists.mask.gather(-1, by_label) & has_order(lists)[..., None]
    chosen = torch.where(real, lists.scores.gather(-1, by_label), lowest(lists.scores))
    high, total = _sums_from_here(chosen)
    first = _first_tied(lists.labels.gather(-1, by_label)) if together else None
    if first is not None:
        high, total = high.gather(-1, first), total.gather(-1, first)
    terms = torch.where(real, (high - chosen) + total.log(), 0.0)  # padding is last and adds nothing
    if position_aware:
        terms = terms * _position_weights(first, real, lists.scores.dtype)
    return terms if lists.weights is None else terms * lists.weights.gather(-1, by_label)


def _position_weights(first: Tensor | None, real: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the weights of the terms in `p_listmle`, `(..., n)`; `first` is the start of each term's group of ties."""
    rank = torch.arange(real.shape[-1], dtype=dtype, device=real.device)
    count = real.to(dtype)
    last = torch.exp2(1.0 - count.sum(-1, keepdim=True).clamp(min=2))
    share = torch.exp2(-rank)
    if first is not None:
        # Number of tied documents. Padding is last and may tie with the lowest label, but it is not counted.
        size = torch.zeros_like(count).scatter_add(-1, first, count).clamp(min=1)
        share = (share * (2.0 - torch.exp2(1.0 - size)) / size).gather(-1, first)
    return ((share - last) / (1.0 - last)).clamp(min=0)


def _first_tied(labels: Tensor) -> Tensor:
    """Return the start of the group of equal labels that contains each position, `(..., n)`; labels are sorted."""
    position = torch.arange(labels.shape[-1], device=labels.device).expand(labels.shape)
    begins = torch.ones_like(labels, dtype=torch.bool)
    begins[..., 1:] = labels[..., 1:] != labels[..., :-1]
    return torch.where(begins, position, 0).cummax(-1).values


def _sums_from_here(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return the highest `v_j` over j >= i, without a gradient, and the sum of `e^(v_j - highest)`, both `(..., n)`.

    The number of positions in a sum doubles in each step: 1, 2, 4, ... The two results stay separate, because the
    logarithm of the sum is lost if it is added to 1e30. Then the derivatives of tied documents would be wrong.
    """
    high = values.detach()
    total = (values - high).exp()  # the value is 1, but the derivative is not 0
    reach = 1
    while reach < values.shape[-1]:
        other_high = torch.nn.functional.pad(high[..., reach:], (0, reach), value=lowest(values))
        other_total = torch.nn.functional.pad(total[..., reach:], (0, reach))
        highest = torch.maximum(high, other_high)
        total = total * (high - highest).exp() + other_total * (other_high - highest).exp()
        high, reach = highest, 2 * reach
    return high, total


def lowest(scores: Tensor) -> float:
    """Return the lowest finite number of the scores' dtype. It replaces -inf, which would make the derivative NaN."""
    return torch.finfo(scores.dtype).min
