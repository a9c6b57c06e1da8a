"""The Plackett-Luce likelihood of an order of documents, for `listmle` and `p_listmle`."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from rankgrad.kernels.quadrature import ABSCISSAS, DROP, HALVINGS, NODE_WEIGHTS
from rankgrad.lists import Lists
from rankgrad.losses.metric_formula import has_order
from rankgrad.metrics.sort_order import order


class TieGroups(NamedTuple):
    """Documents of each list, sorted by label for ListMLE (highest first), with their groups of ties; `(..., n)`."""

    scores: Tensor  # sorted scores; the lowest number of the dtype where `real` is False
    weights: Tensor | None  # sorted weights
    real: Tensor  # True for documents of lists with two different labels
    high: Tensor  # highest score from this position to the end of the list, without a gradient
    total: Tensor  # sum of e^(score - high) from this position to the end of the list
    first: Tensor  # position of the first document that has the same label

    @classmethod
    def of(cls, lists: Lists) -> "TieGroups":
        """Sort the documents of each list by label, and find the groups of ties. The lists must already be checked."""
        by_label = order(lists.labels, lists.mask)
        real = lists.mask.gather(-1, by_label) & has_order(lists)[..., None]
        scores = torch.where(real, lists.scores.gather(-1, by_label), lowest(lists.scores))
        weights = None if lists.weights is None else lists.weights.gather(-1, by_label)
        first = _first_tied(lists.labels.gather(-1, by_label))
        return cls(scores, weights, real, *_sums_from_here(scores), first)

    def sums(self, values: Tensor) -> Tensor:
        """Return, for each document, the sum of `values (..., n)` over the document's group of ties."""
        return torch.zeros_like(values).scatter_add(-1, self.first, values).gather(-1, self.first)

    def sizes(self) -> Tensor:
        """Return, for each document, the number of documents in its group of ties; at least 1."""
        return self.sums(self.real.to(self.scores.dtype)).clamp(min=1)

    def mean_weights(self) -> Tensor | float:
        """Return, for each document, the mean weight of its group of ties."""
        return 1.0 if self.weights is None else self.sums(torch.where(self.real, self.weights, 0.0)) / self.sizes()

    def below(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return `high` and `total` of the documents below each group of ties, and a mask.

        The mask is False if no document is below the group.
        """
        after = self.first + self.sizes().long()
        some = torch.nn.functional.pad(self.real, (0, 1)).gather(-1, after)
        high = torch.nn.functional.pad(self.high, (0, 1)).gather(-1, after)
        total = torch.nn.functional.pad(self.total, (0, 1)).gather(-1, after)
        return torch.where(some, high, self.high), torch.where(some, total, 0.0), some


def plackett_luce(lists: Lists, ties: str, position_aware: bool = False) -> Tensor:
    """Return the terms of the negative Plackett-Luce log-likelihood, `(..., n)`, by descending labels; 0 for padding.

    Args:
        lists: the lists.
        ties: `"position"`, `"together"` or `"efron"`.
        position_aware: True to multiply the terms by the weights of `p_listmle`.
    """
    groups = TieGroups.of(lists)
    first = None if ties == "position" else groups.first
    high, total = groups.high, groups.total
    if first is not None:
        high, total = high.gather(-1, first), total.gather(-1, first)
    if ties == "efron":
        return _efron(groups, high, total)
    terms = torch.where(groups.real, (high - groups.scores) + total.log(), 0.0)  # padding is last and adds nothing
    if position_aware:
        terms = terms * _position_weights(first, groups.real, lists.scores.dtype)
    return terms if groups.weights is None else terms * groups.weights


def _efron(groups: TieGroups, high: Tensor, total: Tensor) -> Tensor:
    """Return the terms of Efron's likelihood for ListMLE, `(..., n)`.

    The product of e^high and `total` is the sum of e^s over the group of ties and over all documents below the group.
    """
    place = torch.arange(high.shape[-1], device=high.device) - groups.first  # l, from 0
    part = torch.where(groups.real, place / groups.sizes(), 0.0)
    below_high, below, some = groups.below()
    below = below * torch.where(some, below_high - high, 0.0).exp()
    # The group's sum is total - below. Both terms of this sum are positive, so no digits are lost.
    left = (1.0 - part) * total + part * below
    behind = torch.where(groups.real, high - groups.scores, 0.0)
    behind = behind if groups.weights is None else behind * groups.weights
    return torch.where(groups.real, behind + groups.mean_weights() * left.log(), 0.0)


def partitioned(lists: Lists) -> Tensor:
    """Return minus the log-probability that each group of ties is ranked before all lower labels, `(...)`.

    The value is 0 if all labels are equal.

    `rankgrad.kernels.quadrature` describes the integral. The nodes of the integration have no gradient.
    """
    groups = TieGroups.of(lists)
    below_high, below, some = groups.below()
    some = some & groups.real  # the lowest labels precede nothing
    ahead = torch.where(some, groups.scores - below_high, 0.0) - torch.where(some, below, 1.0).log()  # a_i
    # Documents far behind have the factor e^(z + a_i). So e^a_i is taken out of the integral.
    outside = ahead.clamp(max=0.0)
    low, high = _integration_bounds(groups, ahead.detach(), some)
    unit, share = (torch.as_tensor(each, dtype=ahead.dtype, device=ahead.device) for each in (ABSCISSAS, NODE_WEIGHTS))
    nodes = (low + high)[..., None] / 2 + (high - low)[..., None] / 2 * unit
    factors = torch.where(some[..., None], _log_factor(nodes, ahead[..., None], outside[..., None]), 0.0)  # (..., n, K)
    group = groups.first[..., None].expand(factors.shape)
    heights = nodes - nodes.exp() + torch.zeros_like(factors).scatter_add(-2, group, factors)
    begins = some & (groups.first == torch.arange(ahead.shape[-1], device=ahead.device))
    inside = torch.where(begins, (heights + share.log()).logsumexp(-1) + ((high - low) / 2).log(), 0.0)
    return -(groups.mean_weights() * (inside + outside)).sum(-1)


def _integration_bounds(groups: TieGroups, ahead: Tensor, some: Tensor) -> tuple[Tensor, Tensor]:
    """Return, for each document, the lower and the upper bound of its group's integral, both `(..., n)`."""
    outside = ahead.clamp(max=0.0)

    def height(z: Tensor) -> Tensor:
        return z - z.exp() + groups.sums(torch.where(some, _log_factor(z, ahead, outside), 0.0))

    def rises(z: Tensor) -> Tensor:
        return 1.0 - z.exp() + groups.sums(torch.where(some, _log_factor_slope(z + ahead), 0.0)) > 0

    size = groups.sizes()
    top, beyond = _bisect(torch.zeros_like(ahead), (size + 1.0).log(), rises)
    level = height(top) - DROP
    furthest = (beyond.exp() + DROP + (DROP * (DROP + 2.0 * beyond.exp())).sqrt()).log()
    low, _ = _bisect(torch.full_like(ahead, -DROP - 1.0), top, lambda z: height(z) < level)
    _, high = _bisect(top, furthest, lambda z: height(z) >= level)
    return low, high


def _bisect(low: Tensor, high: Tensor, goes_up: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """Bisect for a bound of the integral: return a small interval in which `goes_up` changes from True to False."""
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        up = goes_up(middle)
        low, high = torch.where(up, middle, low), torch.where(up, high, middle)
    return low, high


def _log_factor(z: Tensor, ahead: Tensor, outside: Tensor) -> Tensor:
    """Return the log of one factor of the integrand, `log(1 - exp(-e^(z + a)))`, minus `outside`.

    The argument `ahead` is a. The difference `a - outside` is computed first, so that no digits are lost.
    """
    y = z + ahead
    small = y < -5.0
    r = torch.where(small, y, -5.0).exp()
    series = z + (ahead - outside) - r / 2.0 + r * r / 24.0
    # Above 6, the factor is 1.
    return torch.where(small, series, (-torch.expm1(-y.clamp(-5.0, 6.0).exp())).log() - outside)


def _log_factor_slope(y: Tensor) -> Tensor:
    """Return the derivative of the log of one factor, `log(1 - exp(-e^y))`. It decreases from 1 to 0."""
    r = y.clamp(-30.0, 6.0).exp()
    return r / torch.expm1(r)


def shuffled(lists: Lists, noise: Tensor) -> Lists:
    """Reorder the documents of each list by random numbers, for `listmle(ties="random")`.

    The result is in descending order of `noise`, which has the shape of the scores.
    """
    scores, labels, mask, offsets, weights = lists.given
    if offsets is None:
        by_noise = noise.argsort(dim=-1, descending=True, stable=True)
        mask, weights = (None if given is None else given.gather(-1, by_noise) for given in (mask, weights))
        return Lists(scores.gather(-1, by_noise), labels.gather(-1, by_noise), mask, None, weights)
    owner = torch.repeat_interleave(offsets.diff(), output_size=scores.shape[0])
    by_noise = noise.argsort(dim=0, descending=True, stable=True)
    by_noise = by_noise[owner[by_noise].argsort(dim=0, stable=True)]
    return Lists(scores[by_noise], labels[by_noise], None, offsets, None if weights is None else weights[by_noise])


def _position_weights(first: Tensor | None, real: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the weights of the terms in `p_listmle`, `(..., n)`.

    `first` is the start of each document's group of ties; with None, tied documents have different weights.
    """
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
    """Return the start of the group of ties of each document, `(..., n)`. The labels must be sorted."""
    position = torch.arange(labels.shape[-1], device=labels.device).expand(labels.shape)
    begins = torch.ones_like(labels, dtype=torch.bool)
    begins[..., 1:] = labels[..., 1:] != labels[..., :-1]
    return torch.where(begins, position, 0).cummax(-1).values


def _sums_from_here(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return, for each position i, the highest value and a sum of exponentials over the positions j >= i, for ListMLE.

    The highest value has no gradient. The sum is over `e^(v_j - highest)`. Both results are `(..., n)`.

    The number of positions in a sum doubles in each step: 1, 2, 4, ... The two results stay separate: if the logarithm
    of the sum is added to 1e30, rounding removes it, and the derivatives of tied documents are wrong.
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
    """Return the lowest finite number of the dtype, for padding in a softmax. With -inf, derivatives would be NaN."""
    return torch.finfo(scores.dtype).min
