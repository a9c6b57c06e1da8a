"""Combine losses: a weighted sum of losses, such as `0.7*softmax+0.3*bce`, is one loss."""

import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn

from rankgrad.errors import bad_value
from rankgrad.losses.gumbel import gumbel, loss_name
from rankgrad.losses.traits import Traits, traits_of


class WeightedSum(nn.Module):
    r"""Weighted sum of losses. The function `rankgrad.losses.weighted_sum` creates it.

    .. math:: \ell(s, y) = \sum_t w_t \, \ell_t(s, y)

    The sum is called like a loss. With `reduction="none"`, it returns one value per list: the weighted sum of the
    values of all terms. With `"mean"`, it returns the weighted sum of the means of all terms. The mean of a term is
    over the lists that have signal for this term (lists that the term can learn from). So the means of two terms can be
    over different numbers of lists. `takes_weights` is True if all terms take document weights. A term that has
    parameters is a submodule, and its parameters are also trained.

    Args:
        terms: pairs of a weight above 0 and a loss, which is a function or module of `rankgrad.losses`.
    """

    def __init__(self, terms: Sequence[tuple[float, Callable[..., Tensor]]]) -> None:
        super().__init__()
        self.terms = tuple(terms)
        self.parts = nn.ModuleList(loss for _, loss in terms if isinstance(loss, nn.Module))
        self.takes_weights = all(takes_weights(loss) for _, loss in terms)

    @property
    def traits(self) -> Traits:
        """Traits that all terms have; `gain` is true of the sum if it is true of a term."""
        every = [traits_of(loss) for _, loss in self.terms]
        gain, divides = any(each.gain for each in every), all(each.divides for each in every)
        return Traits(any_label=all(each.any_label for each in every), gain=gain, divides=divides)

    def forward(
        self,
        scores: Any,
        labels: Any,
        *,
        mask: Any = None,
        offsets: Any = None,
        weights: Any = None,
        reduction: str = "mean",
    ) -> Tensor:
        """Compute the weighted sum of the losses; every loss takes these arguments."""
        lists = {"mask": mask, "offsets": offsets, "reduction": reduction}
        if weights is not None:
            if not self.takes_weights:
                without = next(loss for _, loss in self.terms if not takes_weights(loss))
                bad_value("weights", f"be None for a sum with {loss_name(without)}, which takes no weights", "weights")
            lists["weights"] = weights
        (weight, first), *others = self.terms
        total = weight * first(scores, labels, **lists)
        for weight, loss in others:
            total = total + weight * loss(scores, labels, **lists)
        return total

    def learned(self) -> dict[str, float]:
        """Return the learned scalars of all terms of the sum by name. Names of several terms get a prefix, `term1.`"""
        found = [learned_scalars(loss) for _, loss in self.terms]
        shared = Counter(name for each in found for name in each)
        return {
            name if shared[name] == 1 else f"term{number}.{name}": value
            for number, each in enumerate(found, start=1)
            for name, value in each.items()
        }

    def extra_repr(self) -> str:
        """Return the weighted sum of losses as text, for `print`."""
        return " + ".join(f"{weight:g} * {loss_name(loss)}" for weight, loss in self.terms)


def takes_weights(loss: Callable[..., Tensor]) -> bool:
    """Return True if a loss takes document weights.

    Args:
        loss: a function or module of `rankgrad.losses`.
    """
    if isinstance(loss, gumbel):
        return takes_weights(loss.loss)
    known = getattr(loss, "takes_weights", None)
    if known is not None:
        return bool(known)
    return "weights" in inspect.signature(getattr(loss, "forward", loss)).parameters


def learned_scalars(loss: Any, inside: bool = False) -> dict[str, float]:
    """Return the learned scalars of the first part of a loss with a method `learned`, by name; most have no such part.

    Args:
        loss: any loss.
        inside: True to look only at the parts inside of the loss, not at the loss itself.
    """
    parts = [part for part in (loss.modules() if isinstance(loss, nn.Module) else ()) if not (inside and part is loss)]
    methods = (getattr(part, "learned", None) for part in parts)
    return next((dict(values) for each in methods if callable(each) and (values := each())), {})
