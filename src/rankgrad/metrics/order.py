"""The order that scores put documents in: highest first, ties by position, NaN after every number, padding last."""

import torch
from torch import Tensor


def order(scores: Tensor, mask: Tensor) -> Tensor:
    """Positions of the documents in ranked order, `(..., n)`.

    Example:
        >>> order(torch.tensor([0.0, torch.nan, 2.0, -torch.inf]), torch.tensor([True, True, True, True]))
        tensor([2, 0, 3, 1])
    """
    return torch.argsort(_key(scores, mask), dim=-1, descending=True, stable=True)


def ranks(scores: Tensor, mask: Tensor) -> Tensor:
    """The rank of each document, from 1, `(..., n)`; padding takes the ranks after the last document.

    Example:
        >>> ranks(torch.tensor([1.0, 3.0, 1.0]), torch.tensor([True, True, True]))
        tensor([2, 1, 3])
    """
    return inverse(order(scores, mask)) + 1


def inverse(permutation: Tensor) -> Tensor:
    """Where each position went, `(..., n)`: `inverse(p)[p[i]] = i`."""
    places = torch.arange(permutation.shape[-1], device=permutation.device).expand_as(permutation)
    return torch.empty_like(permutation).scatter(-1, permutation, places)


def _key(scores: Tensor, mask: Tensor) -> Tensor:
    """Integers in the order of the scores: an integer has room below -inf for NaN and padding, a float has not."""
    scores = scores.detach() + 0.0  # -0.0 ties with 0.0
    integer = torch.int64 if scores.dtype == torch.float64 else torch.int32
    lowest, highest = torch.iinfo(integer).min, torch.iinfo(integer).max
    bits = scores.view(integer)
    # The bits of a float, read as an integer, rise with it from 0 up; below 0 they fall, so there they are turned over.
    key = torch.where(bits < 0, bits ^ highest, bits)
    key = torch.where(scores.isnan(), lowest + 1, key)
    return torch.where(mask, key, lowest)
