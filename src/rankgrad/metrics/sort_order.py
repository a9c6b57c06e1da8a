"""Sort documents by score: highest first, ties by position, NaN after every number, padding last."""

import torch
from torch import Tensor

TIES = ("stable", "expected", "trec")


def order(scores: Tensor, mask: Tensor) -> Tensor:
    """Return the input positions of the documents in ranked order, `(..., n)`.

    Example:
        >>> order(torch.tensor([0.0, torch.nan, 2.0, -torch.inf]), torch.tensor([True, True, True, True]))
        tensor([2, 0, 3, 1])
    """
    return ranked_order(scores, mask)[0]


def ranks(scores: Tensor, mask: Tensor) -> Tensor:
    """Return the rank of each document, from 1, `(..., n)`; padding is ranked after all documents.

    Example:
        >>> ranks(torch.tensor([1.0, 3.0, 1.0]), torch.tensor([True, True, True]))
        tensor([2, 1, 3])
    """
    return inverse(order(scores, mask)) + 1


def inverse(permutation: Tensor) -> Tensor:
    """Return the inverse of a sort order, `(..., n)`: `inverse(p)[p[i]] = i`."""
    positions = torch.arange(permutation.shape[-1], device=permutation.device).expand_as(permutation)
    return torch.empty_like(permutation).scatter(-1, permutation, positions)


def ranked_order(
    scores: Tensor, mask: Tensor, ties: str = "stable", codes: Tensor | None = None, k: int | None = None
) -> tuple[Tensor, Tensor]:
    """Return the positions of the documents in ranked order, and their sort keys, both `(..., min(k, n))`.

    Ties have equal sort keys. With `ties="trec"`, the order is the same as in trec_eval. Scores are compared in
    float32. Among equal scores, the document with the highest code is first. Without `codes`, the document at the last
    position is first. Codes have the same order as the document ids.

    Example:
        >>> scores, mask = torch.tensor([1.0, 3.0, 1.0]), torch.tensor([True, True, True])
        >>> ranked_order(scores, mask)[0], ranked_order(scores, mask, ties="trec")[0]
        (tensor([1, 0, 2]), tensor([1, 2, 0]))
    """
    n = scores.shape[-1]
    k = None if k is None or k >= n else k
    keys = _key(scores.float() if ties == "trec" else scores, mask)
    if ties != "trec" and (k is None or keys.dtype == torch.int64):
        keys, positions = keys.sort(dim=-1, descending=True, stable=True)
        return positions[..., :k], keys[..., :k]
    # One integer has the score in its high bits and the tie breaker in its low bits. No two integers are equal, so
    # the first k can be found without a sort of all documents, which would take most of a metric's time.
    position = torch.arange(n, device=scores.device)
    breaker = n - 1 - position if ties != "trec" else position if codes is None else codes
    joint = (keys.long() << 32) | breaker
    joint, positions = joint.sort(dim=-1, descending=True) if k is None else joint.topk(k, dim=-1)
    return positions, joint >> 32


def equal_groups(keys: Tensor) -> tuple[Tensor, Tensor]:
    """Return, for each position, the start and the length of its group of equal neighbours, both `(..., n)`.

    Example:
        >>> equal_groups(torch.tensor([7, 7, 5]))
        (tensor([0, 0, 2]), tensor([2, 2, 1]))
    """
    n = keys.shape[-1]
    position = torch.arange(n, device=keys.device).expand(keys.shape)
    new = torch.ones_like(keys, dtype=torch.bool)
    new[..., 1:] = keys[..., 1:] != keys[..., :-1]
    first = torch.where(new, position, 0).cummax(-1).values
    # A group ends before the start of the next group, which is a cumulative minimum from the end.
    following = torch.where(new, position, n).roll(-1, -1)
    following[..., -1:] = n
    end = following.flip(-1).cummin(-1).values.flip(-1)
    return first, end - first


def _key(scores: Tensor, mask: Tensor) -> Tensor:
    """Return sort keys: integers in the order of the scores. The keys of NaN and padding are below the key of -inf."""
    scores = scores.detach() + 0.0  # -0.0 ties with 0.0
    integer = torch.int64 if scores.dtype == torch.float64 else torch.int32
    lowest, highest = torch.iinfo(integer).min, torch.iinfo(integer).max
    bits = scores.view(integer)
    # If the bits of a float are read as an integer, positive floats have the right order, but negative floats have the
    # reverse order. So the bits of negative floats are inverted, except the sign. The shift returns -1 for a negative
    # float, which selects `highest`, and otherwise 0.
    key = bits ^ ((bits >> (bits.itemsize * 8 - 1)) & highest)
    key = torch.where(scores.isnan(), lowest + 1, key)
    return torch.where(mask, key, lowest)
