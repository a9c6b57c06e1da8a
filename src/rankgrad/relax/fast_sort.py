"""FastSort: soft ranks by projection onto the permutahedron, computed by pooling adjacent violators."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rankgrad.errors import one_of
from rankgrad.metrics.sort_order import inverse, order
from rankgrad.relax.operators import register
from rankgrad.relax.relaxation import Relaxation, check_positive, check_scores


@dataclass(frozen=True)
class fast_sort(Relaxation):
    r"""FastSort: soft ranks in O(n log n). They are the point of a permutahedron that is nearest to -s / epsilon.

    .. math:: \pi = \arg\min_{\mu \in \mathcal{P}(n, \dots, 1)} \tfrac12 \lVert \mu + s / \epsilon \rVert^2
              \quad\text{or}\quad \arg\min_\mu \mathrm{KL}(\mu, e^{-s / \epsilon})

    The permutahedron P is the convex hull of all orders of (n, ..., 1). Sorted scores are divided into blocks. In each
    block, the mean of the soft ranks equals the mean of the exact ranks. With `"l2"`, two soft ranks differ by the
    difference of the documents' scores divided by epsilon. In a block of only one document, the soft rank is the exact
    rank and has no gradient. So epsilon (the `temperature`) must be large enough.

    Args:
        temperature: epsilon, the strength of the regularisation.
        regularisation: kind of regularisation, `"l2"` or `"entropic"`.

    Example:
        >>> fast_sort(temperature=2.0).ranks(torch.tensor([1.0, 3.0, 2.5]))
        tensor([2.5833, 1.5833, 1.8333])

    References:
        Blondel et al., "Fast Differentiable Sorting and Ranking", ICML 2020.
    """

    temperature: float = 1.0
    regularisation: str = "l2"

    def __post_init__(self) -> None:
        check_positive("temperature", self.temperature)
        one_of("regularisation", self.regularisation, ("l2", "entropic"))

    def _ranks(self, scores: Tensor, mask: Tensor) -> Tensor:
        by_score = order(-scores, mask)  # lowest score first: it has rank n
        ordered, real = (-scores / self.temperature).gather(-1, by_score), mask.gather(-1, by_score)
        length = mask.sum(-1, keepdim=True)
        ranks = (length - torch.arange(scores.shape[-1], device=scores.device)).clamp(min=1).to(scores.dtype)
        if self.regularisation == "l2":
            projected = project(ordered, ranks, real)
        else:
            projected = project_entropic(ordered, ranks.log(), real).exp()
        return projected.gather(-1, inverse(by_score))

    def sort(self, scores: Any, mask: Any = None) -> Tensor:
        """Return FastSort's softly sorted scores, `(..., n)`.

        They are the point of the scores' permutahedron that is nearest to (n, ..., 1) / epsilon.
        """
        scores, mask = check_scores(scores, mask)
        by_score = order(scores, mask)
        ordered, real = scores.gather(-1, by_score), mask.gather(-1, by_score)
        length = mask.sum(-1, keepdim=True)
        ranks = (length - torch.arange(scores.shape[-1], device=scores.device)).to(scores.dtype) / self.temperature
        nearest = project if self.regularisation == "l2" else project_entropic
        return torch.where(real, nearest(ranks, ordered, real), 0.0)


def project(z: Tensor, w: Tensor, real: Tensor) -> Tensor:
    """Return FastSort's projection: the point nearest to `z` in the permutahedron of `w`.

    `z` and `w` are `(..., n)`, in descending order, with padding last. In each block B, the result is
    `z_i - mean_B(z) + mean_B(w)`. With this formula, ranks are precise even for scores of 1e30.
    """
    owner = _blocks(z, w, real, False)
    return _apart(z, owner, _mean) + _spread(_mean(w, owner), owner)


def project_entropic(z: Tensor, w: Tensor, real: Tensor) -> Tensor:
    """Return the log of FastSort's entropic projection of `z`, which is nearest to `z` in the KL divergence.

    In each block B, the result is `z_i - logsumexp_B(z) + logsumexp_B(w)`.
    """
    owner = _blocks(z, w, real, True)
    return _apart(z, owner, _logsumexp) + _spread(_logsumexp(w, owner), owner)


def _blocks(z: Tensor, w: Tensor, real: Tensor, entropic: bool) -> Tensor:
    """Return the number of the FastSort block of each entry, `(..., n)`. The first block of each list has number 0."""
    z, w, real = torch.broadcast_tensors(z.detach(), w.detach(), real)
    blocks: Tensor = _pooled_blocks(z, w, real, entropic)
    return blocks


def _pool_violators(z: Tensor, w: Tensor, real: Tensor, entropic: bool) -> Tensor:
    """Merge FastSort blocks that violate the order, until there are none. Each pass merges all runs of such blocks."""
    pool = _logsumexp if entropic else _mean
    starts = torch.ones_like(real)
    if real.shape[-1] < 2:
        return _number(starts)
    # If scores are integers, neighbouring blocks are often equal. Rounding errors must not merge equal blocks,
    # because the derivative would change.
    tolerance = real.shape[-1] * torch.finfo(w.dtype).eps
    follows = real.clone()
    follows[..., 0] = False  # the first entry has no block before it, so it cannot be merged
    while True:
        owner = _number(starts)
        high, low = z - _apart(z, owner, pool), w - _apart(w, owner, pool)
        # pool(z) - pool(w) must not increase from block to block. Separate differences of z and of w are more precise.
        falls, wanted = high[..., :-1] - high[..., 1:], low[..., :-1] - low[..., 1:]
        rises = falls < wanted - tolerance * (falls.abs() + wanted.abs())
        merge = starts & follows & torch.nn.functional.pad(rises, (1, 0))
        if not merge.any():
            return owner
        starts = starts & ~merge


# The number of passes depends on the scores. `torch.compile` and `vmap` cannot trace such a loop.
_pooled_blocks = register(
    "pooled_blocks(Tensor z, Tensor w, Tensor real, bool entropic) -> Tensor",
    _pool_violators,
    lambda z, w, real, entropic: torch.empty_like(z, dtype=torch.int64, memory_format=torch.contiguous_format),
)


def _number(starts: Tensor) -> Tensor:
    return starts.long().cumsum(-1) - 1


def _apart(values: Tensor, owner: Tensor, pool: Any) -> Tensor:
    """Subtract the pooled value of each FastSort block. The maximum is subtracted first, so ties stay exact."""
    values = values.expand_as(owner)
    near = values - _spread(_highest(values, owner), owner)
    return near - _spread(pool(near, owner), owner)


def _highest(values: Tensor, owner: Tensor) -> Tensor:
    """Return the largest value of each FastSort block, `(..., n)`, without a gradient.

    Entries after the last block are 0.
    """
    values = values.detach()
    return torch.zeros_like(values).scatter_reduce(-1, owner, values, "amax", include_self=False)


def _mean(values: Tensor, owner: Tensor) -> Tensor:
    """Return the mean of each FastSort block, `(..., n)`; entries after the last block are 0."""
    values = values.expand_as(owner)
    total = torch.zeros_like(values).scatter_add(-1, owner, values)
    count = torch.zeros_like(values).scatter_add(-1, owner, torch.ones_like(values))
    return total / count.clamp(min=1)


def _logsumexp(values: Tensor, owner: Tensor) -> Tensor:
    """Return the log-sum-exp of each FastSort block, `(..., n)`; entries after the last block are 0."""
    values = values.expand_as(owner)
    top = _highest(values, owner)
    total = torch.zeros_like(values).scatter_add(-1, owner, (values - _spread(top, owner)).exp())
    return top + torch.where(total > 0, total, 1.0).log()


def _spread(blocks: Tensor, owner: Tensor) -> Tensor:
    return blocks.gather(-1, owner)
