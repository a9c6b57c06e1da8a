"""The preprocessing steps; `pipeline` combines them.

A step is a small frozen object. `fit` returns a fitted copy. Statistics are computed in float64 and block by block, so
only one block of mapped data is in memory. `transform` accepts a NumPy array or a PyTorch tensor, and returns float32
values as an array or a tensor. Steps that standardise replace a constant feature by 0, never by NaN.
"""

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankgrad.errors import bad_value, one_of, warn_caller
from rankgrad.spec import show

Array: TypeAlias = Any  # NDArray[np.float32] or torch.Tensor, (..., f)
_LARGEST = float(np.finfo(np.float32).max)
_HUGE = 1e20  # standard deviation of a feature that contains other values than measurements


def is_tensor(x: Any) -> bool:
    """Return True if a step gets a PyTorch tensor `x`; PyTorch is not imported, because this needs much memory."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


@dataclass(frozen=True, eq=False)
class PreprocessingStep:
    """One preprocessing step. `fitted` has the names of the fields that `fit` computes; other fields are options."""

    name: ClassVar[str] = ""
    fitted: ClassVar[tuple[str, ...]] = ()

    def fit(self, blocks: Iterable[NDArray[np.float32]]) -> "PreprocessingStep":
        """Return a copy of the step, fitted on training data. `blocks` yields parts of this data, `(rows, f)`."""
        return self

    def transform(self, x: Array, offsets: Array | None = None, mask: Array | None = None) -> Array:
        """Apply this preprocessing step to the features `x (..., f)`. A step for lists needs `offsets` or `mask`."""
        raise NotImplementedError

    def _array(self, name: str, like: Array) -> Array:
        """Return a fitted array of this preprocessing step, with the type and the device of `like`."""
        value = getattr(self, name)
        if value is None:
            bad_value("steps", "be fitted before transform", f"the step {self.name!r}, which is not fitted")
        if value.shape[-1] != like.shape[-1]:
            bad_value("features", f"have {value.shape[-1]} columns, as in training", like.shape[-1])
        if not is_tensor(like):
            return value
        import torch

        return torch.as_tensor(value, device=like.device)


@dataclass(frozen=True, eq=False)
class Standardise(PreprocessingStep):
    """Scale each feature to mean 0 and standard deviation 1 over all training documents: `(x - mean) * inverse`."""

    name: ClassVar[str] = "standardise"
    fitted: ClassVar[tuple[str, ...]] = ("mean", "inverse")
    mean: NDArray[np.float32] | None = None  # (f,)
    inverse: NDArray[np.float32] | None = None  # (f,), 1 / standard deviation; 0 for a constant feature

    def fit(self, blocks: Iterable[NDArray[np.float32]]) -> "Standardise":
        count, mean, squares, low, high = 0, 0.0, 0.0, np.inf, -np.inf
        for block in blocks:
            x = block.astype(np.float64)
            rows, delta = len(x), x.mean(0) - mean
            # Merge two means and sums of squares by Chan's formula, which is accurate even if the mean is large.
            squares = squares + ((x - x.mean(0)) ** 2).sum(0) + delta**2 * (count * rows / (count + rows))
            mean = mean + delta * (rows / (count + rows))
            low, high = np.minimum(low, x.min(0)), np.maximum(high, x.max(0))
            count += rows
        if count == 0:
            bad_value("dataset", "contain at least one document", "none")
        spread = np.sqrt(np.asarray(squares) / count)
        varies = np.asarray(high) > np.asarray(low)
        if len(huge := np.flatnonzero(spread > _HUGE)):
            told = f"{len(huge)} feature(s), the first of them number {huge[0] + 1}, contain huge values"
            advice = (
                "standardising makes their other values nearly equal (replace such values, or preprocess with log1p)"
            )
            warn_caller(f"{told}: {advice}")
        inverse = np.minimum(np.divide(1, spread, out=np.zeros_like(spread), where=varies & (spread > 0)), _LARGEST)
        return replace(self, mean=np.asarray(mean).astype(np.float32), inverse=inverse.astype(np.float32))

    def transform(self, x: Array, offsets: Array | None = None, mask: Array | None = None) -> Array:
        return (x - self._array("mean", x)) * self._array("inverse", x)


@dataclass(frozen=True, eq=False)
class StandardisePerQuery(PreprocessingStep):
    """Scale each feature to mean 0 and standard deviation 1 within each list; a constant feature becomes 0."""

    name: ClassVar[str] = "standardise_per_query"

    def transform(self, x: Array, offsets: Array | None = None, mask: Array | None = None) -> Array:
        wide = x.double() if is_tensor(x) else x.astype(np.float64)
        if mask is not None:
            real = mask[..., None]
            count = real.sum(-2)[..., None, :].clip(1)
            centred = (wide - (wide * real).sum(-2)[..., None, :] / count) * real
            spread = ((centred**2).sum(-2)[..., None, :] / count) ** 0.5
        elif offsets is not None:
            owner, count = _owners(offsets, x)
            centred = wide - (_sums(wide, owner, count) / count)[owner]
            spread = ((_sums(centred**2, owner, count) / count) ** 0.5)[owner]
        else:
            bad_value("offsets or mask", "be given to standardise_per_query", "neither")
        spread = spread + (spread == 0)  # avoids a division by 0; `centred` is 0 where `spread` is 0
        return (centred / spread).float() if is_tensor(x) else (centred / spread).astype(np.float32)


@dataclass(frozen=True, eq=False)
class SignedLog1p(PreprocessingStep):
    """Replace x by `sign(x) log(1 + |x|)`, which reduces heavy tails; the sign does not change, and 0 remains 0."""

    name: ClassVar[str] = "log1p"

    def transform(self, x: Array, offsets: Array | None = None, mask: Array | None = None) -> Array:
        if is_tensor(x):
            return x.sign() * x.abs().log1p()
        return np.sign(x) * np.log1p(np.abs(x))


@dataclass(frozen=True, eq=False)
class Clip(PreprocessingStep):
    """Clip values to the range from `-limit` to `limit`."""

    name: ClassVar[str] = "clip"
    limit: float = 10.0

    def __post_init__(self) -> None:
        if not (isinstance(self.limit, int | float) and 0 < self.limit <= _LARGEST):
            bad_value("limit", "be a number above 0", show(self.limit))

    def transform(self, x: Array, offsets: Array | None = None, mask: Array | None = None) -> Array:
        return x.clip(-self.limit, self.limit)


@dataclass(frozen=True, eq=False)
class Quantile(PreprocessingStep):
    """Replace each value by its quantile level in the training data, as a number from 0 to 1 or as a normal score.

    The new value is a function of the old value. This function is linear between the `knots`, and constant below the
    first knot and above the last knot. If many documents have the same value, several quantile levels belong to this
    value; the middle of these levels is used. Knots are computed from a random sample of at most `sample` rows.
    """

    name: ClassVar[str] = "quantile"
    fitted: ClassVar[tuple[str, ...]] = ("knots", "values")
    output: str = "normal"
    sample: int = 50_000
    # (knots, f), increasing; if a feature has fewer knots, its last knot is repeated
    knots: NDArray[np.float32] | None = None
    values: NDArray[np.float32] | None = None  # (knots, f), output at the knots

    def __post_init__(self) -> None:
        one_of("output", self.output, ("normal", "uniform"))
        if not isinstance(self.sample, int) or self.sample < 1:
            bad_value("sample", "be an integer of at least 1", show(self.sample))

    def fit(self, blocks: Iterable[NDArray[np.float32]]) -> "Quantile":
        x = _sampled(blocks, self.sample)
        levels = np.linspace(0, 1, 101)
        knots = np.empty((len(levels), x.shape[1]), dtype=np.float32)
        values = np.empty_like(knots)
        for j in range(x.shape[1]):
            quantiles = np.quantile(x[:, j], levels, method="inverted_cdf").astype(np.float32)
            unique, first, count = np.unique(quantiles, return_index=True, return_counts=True)
            middle = (levels[first] + levels[first + count - 1]) / 2
            if self.output == "normal":
                from scipy.special import ndtri

                middle = ndtri(np.clip(middle, 1e-3, 1 - 1e-3))
            if len(unique) == 1:
                middle = np.zeros(1)
            pad = (0, len(levels) - len(unique))
            knots[:, j], values[:, j] = np.pad(unique, pad, mode="edge"), np.pad(middle, pad, mode="edge")
        return replace(self, knots=knots, values=values)

    def transform(self, x: Array, offsets: Array | None = None, mask: Array | None = None) -> Array:
        knots, values = self._array("knots", x), self._array("values", x)
        if not is_tensor(x):
            out = np.empty(x.shape, dtype=np.float32)
            for j in range(x.shape[-1]):
                out[..., j] = np.interp(x[..., j], knots[:, j], values[:, j])
            return out
        knots, values = knots.T.contiguous(), values.T  # (f, knots)
        flat = x.reshape(-1, x.shape[-1]).T.contiguous()  # (f, rows)
        import torch

        right = torch.searchsorted(knots, flat).clamp(1, knots.shape[1] - 1)
        low, high = knots.gather(1, right - 1), knots.gather(1, right)
        start, end = values.gather(1, right - 1), values.gather(1, right)
        width = high - low
        share = ((flat - low) / (width + (width == 0))).clamp(0, 1)
        return (start + share * (end - start)).T.reshape(x.shape)


KINDS: dict[str, type[PreprocessingStep]] = {
    kind.name: kind for kind in (Standardise, StandardisePerQuery, SignedLog1p, Quantile, Clip)
}


def _owners(offsets: Array, x: Array) -> tuple[Array, Array]:
    """Return the list index of each row, `(rows,)`, and the list lengths, `(lists, 1)`, for a preprocessing step."""
    if is_tensor(x):
        import torch

        lengths = torch.as_tensor(offsets, device=x.device).diff()
        lists = torch.arange(len(lengths), device=x.device)
        return torch.repeat_interleave(lists, lengths, output_size=len(x)), lengths.clamp(min=1)[:, None]
    lengths = np.diff(offsets)
    return np.repeat(np.arange(len(lengths)), lengths), np.maximum(lengths, 1)[:, None]


def _sums(x: Array, owner: Array, count: Array) -> Array:
    """Return the sum of the rows of each list, `(lists, f)`; 0 for a list without documents."""
    if is_tensor(x):
        return x.new_zeros(len(count), x.shape[1]).index_add(0, owner, x)
    sums = np.zeros((len(count), x.shape[1]))
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    if len(starts):
        sums[owner[starts]] = np.add.reduceat(x, starts, axis=0)
    return sums


def _sampled(blocks: Iterable[NDArray[np.float32]], size: int) -> NDArray[np.float32]:
    """Return a random sample of at most `size` training rows for `Quantile`. The sample depends only on the blocks."""
    rng, kept, keys = np.random.default_rng(0), None, np.zeros(0)
    for block in blocks:
        keys = np.concatenate([keys, rng.random(len(block))])
        kept = block if kept is None else np.concatenate([kept, block])
        if len(keys) > size:
            chosen = np.argpartition(keys, size)[:size]
            keys, kept = keys[chosen], kept[chosen]
    if kept is None:
        bad_value("dataset", "contain at least one document", "none")
    return kept
