"""The order that scores put documents in: highest first, ties by position, NaN after every number, padding last."""

import torch
from torch import Tensor

TIES = ("stable", "expected", "trec")


def order(scores: Tensor, mask: Tensor) -> Tensor:
    """Positions of the documents in ranked order, `(..., n)`.

    Example:
        >>> order(torch.tensor([0.0, torch.nan, 2.0, -torch.inf]), torch.tensor([True, True, True, True]))
        tensor([2, 0, 3, 1])
    """
    return ranked_order(scores, mask)[0]


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


def ranked_order(
    scores: Tensor, mask: Tensor, ties: str = "stable", codes: Tensor | None = None, k: int | None = None
) -> tuple[Tensor, Tensor]:
    """Positions in ranked order, and integers in that order that are equal where scores tie, both `(..., min(k, n))`.

    With `ties="trec"` the order is trec_eval's: scores are compared in float32, and among equals the highest of `codes`
    comes first (they stand for the document ids); without codes, the later position.

    Example:
        >>> scores, mask = torch.tensor([1.0, 3.0, 1.0]), torch.tensor([True, True, True])
        >>> arrange(scores, mask)[0], arrange(scores, mask, ties="trec")[0]
        (tensor([1, 0, 2]), tensor([1, 2, 0]))
    """
    n = scores.shape[-1]
    k = None if k is None or k >= n else k
    keys = _key(scores.float() if ties == "trec" else scores, mask)
    if ties != "trec" and (k is None or keys.dtype == torch.int64):
        keys, positions = keys.sort(dim=-1, descending=True, stable=True)
        return positions[..., :k], keys[..., :k]
    # The score above, what breaks ties below, in one integer: no two are equal, so the first k can be had without
    # sorting the rest, which is most of a metric's time.
    place = torch.arange(n, device=scores.device)
    breaker = n - 1 - place if ties != "trec" else place if codes is None else codes
    joint = (keys.long() << 32) | breaker
    joint, positions = joint.sort(dim=-1, descending=True) if k is None else joint.topk(k, dim=-1)
    return positions, joint >> 32


def runs(keys: Tensor) -> tuple[Tensor, Tensor]:
    """The runs of equal neighbours: where the run of each position begins, and its length, both `(..., n)`.

    Example:
        >>> runs(torch.tensor([7, 7, 5]))
        (tensor([0, 0, 2]), tensor([2, 2, 1]))
    """
    n = keys.shape[-1]
    place = torch.arange(n, device=keys.device).expand(keys.shape)
    new = torch.ones_like(keys, dtype=torch.bool)
    new[..., 1:] = keys[..., 1:] != keys[..., :-1]
    first = torch.where(new, place, 0).cummax(-1).values
    # The last place of a run is the one before the next beginning, looked for from the end.
    following = torch.where(new, place, n).roll(-1, -1)
    following[..., -1:] = n
    end = following.flip(-1).cummin(-1).values.flip(-1)
    return first, end - first


def _key(scores: Tensor, mask: Tensor) -> Tensor:
    """Integers in the order of the scores: an integer has room below -inf for NaN and padding, a float has not."""
    scores = scores.detach() + 0.0  # -0.0 ties with 0.0
    integer = torch.int64 if scores.dtype == torch.float64 else torch.int32
    lowest, highest = torch.iinfo(integer).min, torch.iinfo(integer).max
    bits = scores.view(integer)
    # The bits of a float, read as an integer, rise with it from 0 up; below 0 they fall, so there they are turned over.
    # Shifted all the way right, only the sign is left: -1 below 0, which keeps `highest`, and 0 from 0 up.
    key = bits ^ ((bits >> (bits.itemsize * 8 - 1)) & highest)
    key = torch.where(scores.isnan(), lowest + 1, key)
    return torch.where(mask, key, lowest)
