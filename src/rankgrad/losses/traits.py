"""Properties of losses that other parts of the package need: `traits_of(loss)`.

A module of losses has a table `TRAITS` with an entry for each function: its traits, or a function that makes them from
the options of the loss. A loss that is a class has an attribute `traits`.
"""

import inspect
import sys
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from rankgrad.kernels.options import PairwiseOptions
from rankgrad.losses.curvature import Curvature


class Traits(NamedTuple):
    """Facts about a loss. The defaults are true of most losses, and are assumed for custom losses.

    Whether a loss takes document weights is not a trait, because its signature shows it: see `takes_weights`.
    """

    signal: str = "a relevant document"  # what a list must have, so that the loss can learn from it
    any_label: bool = False  # True if labels may be below 0
    gain: bool = False  # True if the loss uses the gain 2^y - 1 of a label, or a similar power
    divides: bool = False  # True if the targets of a list are divided by their sum
    targets: bool = False  # True if the labels are targets, which may be smoothed
    curvature: Curvature | None = None  # second derivatives for boosting
    pairs: tuple[str, PairwiseOptions] | None = None  # name and options of a kernel that computes both derivatives


DOCUMENT, PAIR, ORDER = "a document", "two documents", "two different labels"  # other values of `signal`


def traits_of(loss: Any, options: Mapping[str, Any] = MappingProxyType({})) -> Traits:
    """Return the traits of a loss.

    Args:
        loss: function or module of `rankgrad.losses`, `functools.partial` of one, or a custom loss.
        options: options with which the loss is called.

    Example:
        >>> from rankgrad.losses import lambdarank, parse_loss
        >>> traits_of(lambdarank).gain, traits_of(lambdarank, {"metric": "AP"}).gain
        (True, False)
        >>> traits_of(parse_loss("0.5*listnet+0.5*bce")).divides
        False
    """
    if isinstance(known := getattr(loss, "traits", None), Traits):
        return known
    if isinstance(loss, partial) and not loss.args:
        return traits_of(loss.func, {**loss.keywords, **options})
    module = str(getattr(loss, "__module__", ""))
    if not module.startswith("rankgrad.losses."):
        return Traits()
    found = vars(sys.modules[module]).get("TRAITS", {}).get(loss, Traits())
    if not isinstance(found, Traits):
        defaults = {name: parameter.default for name, parameter in inspect.signature(loss).parameters.items()}
        found = found({**defaults, **options})
    return found
