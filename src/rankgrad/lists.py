"""Lists of documents in two layouts, padded and flat: conversion, checks and reductions.

**Padded**: `scores (..., n)` with a boolean `mask (..., n)`, True for a document (a real position). Documents may be
at any positions. If the mask is None, all positions are real.
**Flat**: `scores (documents,)` with `offsets (lists + 1,)`; list `l` is `scores[offsets[l]:offsets[l + 1]]`.

A PyTorch jagged nested tensor is in the flat layout and contains its offsets. Lists of length 0 are always allowed.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rankgrad.errors import bad_type, bad_value, one_of
from rankgrad.list_checks import (
    check_labels,
    check_offsets,
    check_weights,
    warn_of_gradient_of_labels,
    warn_of_single_documents,
    wrong_shape,
)

REDUCTIONS = ("mean", "sum", "none")

# Dtypes with few operations in PyTorch -> a dtype that can represent all their values (for uint64, nearly all).
_WIDER = {torch.uint16: torch.int32, torch.uint32: torch.int64, torch.uint64: torch.float64}
_WIDER |= {
    dtype: torch.float32
    for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
    if (dtype := getattr(torch, name, None)) is not None
}


class Lists:
    """Checked lists. Losses and metrics use the padded layout, which is computed when it is first needed.

    `scores`, `labels`, `mask` and `weights` are `(..., n)`, in the dtype of computation. Padding is 0 (in the
    mask: False), independent of the caller's values, and has no gradient. The attribute `given` contains the arguments
    of the caller, for kernels that need no padding.

    Args:
        scores: scores `(..., n)`, or `(documents,)` with `offsets`; in the dtype of computation.
        labels: labels in the shape of `scores`, in any real dtype.
        mask: boolean mask in the shape of `scores`; None if all positions are real.
        offsets: offsets `(lists + 1,)` of flat lists.
        weights: document weights in the shape of `scores`; None if all are 1.
    """

    def __init__(
        self,
        scores: Tensor,
        labels: Tensor,
        mask: Tensor | None = None,
        offsets: Tensor | None = None,
        weights: Tensor | None = None,
    ) -> None:
        self.given = ListInputs(scores, labels, mask, offsets, weights)
        self._padded: tuple[Tensor, Tensor, Tensor, Tensor | None] | None = None

    @property
    def scores(self) -> Tensor:
        """Scores, `(..., n)`, in the padded layout."""
        return self._pad()[0]

    @property
    def labels(self) -> Tensor:
        """Labels, `(..., n)`, in the dtype of scores."""
        return self._pad()[1]

    @property
    def mask(self) -> Tensor:
        """Mask, `(..., n)`, True for a document."""
        return self._pad()[2]

    @property
    def weights(self) -> Tensor | None:
        """Weights, `(..., n)`, in the dtype of scores, or None."""
        return self._pad()[3]

    def reduce(self, values: Tensor, reduction: str, signal: Tensor | None = None) -> Tensor:
        """Return the mean or the sum of one value per list, or the values unchanged; see the function `reduce`.

        Args:
            values: one value per list, `(...)`.
            reduction: name of the reduction, `"mean"`, `"sum"` or `"none"`.
            signal: boolean `(...)`, True for the lists over which the mean is computed; None for all lists with a
                document.
        """
        return reduce(values, self.mask.any(-1) if signal is None else signal, reduction)

    def _pad(self) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        if self._padded is None:
            self._padded = self.given.padded()
        return self._padded


class ListInputs(NamedTuple):
    """Lists as the caller gives them, with checked shapes, dtypes and devices. The padding is not set to 0."""

    scores: Tensor  # scores (..., n), or (documents,) with offsets; in the dtype of computation
    labels: Tensor  # labels in the shape of scores, in any real dtype
    mask: Tensor | None  # mask in the shape of scores
    offsets: Tensor | None  # offsets (lists + 1,)
    weights: Tensor | None  # document weights in the shape of scores, in any real dtype

    def padded(self) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Return scores, labels, mask and weights in the padded layout, with 0 in the padding."""
        scores = self.scores
        labels = self.labels.to(scores.dtype)
        weights = None if self.weights is None else self.weights.to(scores.dtype)
        if self.offsets is not None:
            n = _longest(self.offsets)
            padded, mask = to_padded(scores, self.offsets, n)
            heavy = None if weights is None else to_padded(weights, self.offsets, n)[0]
            return padded, to_padded(labels, self.offsets, n)[0], mask, heavy
        if self.mask is None:
            return scores, labels, torch.ones_like(scores, dtype=torch.bool), weights
        zero = torch.zeros((), dtype=scores.dtype, device=scores.device)
        heavy = None if weights is None else torch.where(self.mask, weights, zero)
        return torch.where(self.mask, scores, zero), torch.where(self.mask, labels, zero), self.mask, heavy


def as_lists(
    scores: Any,
    labels: Any,
    *,
    mask: Any = None,
    offsets: Any = None,
    weights: Any = None,
    lowest_label: float | None = None,
    allow_single: bool = False,
) -> Lists:
    """Check the arguments that every loss and metric takes, and return them as `Lists`.

    Scores in half precision are converted to float32, and float64 stays float64. Labels get the dtype of the scores.
    Values (NaN labels, labels below `lowest_label`, NaN or negative weights, decreasing offsets) are checked on the CPU
    only, because on a GPU these checks would force a synchronisation. Scores may have any values.

    Args:
        scores: scores `(..., n)`, or `(documents,)` with `offsets`, or a jagged nested tensor.
        labels: labels in the shape of `scores`, in any integer or floating-point dtype.
        mask: boolean mask in the shape of `scores`.
        offsets: integers `(lists + 1,)` that start at 0, never decrease, and end at the number of documents.
        weights: document weights in the shape of `scores`, at least 0.
        lowest_label: smallest allowed label; None for no limit.
        allow_single: True if lists with one document are useful. If False, scores `(lists, 1)` without a mask give a
            warning, because such lists have no order.
    """
    scores, offsets = _unnest("scores", scores, offsets)
    scores = _real("scores", scores)
    dtype, integers = compute_dtype(scores.dtype), not scores.dtype.is_floating_point
    scores = scores if scores.dtype == dtype else scores.to(dtype)
    if mask is not None and offsets is not None:
        bad_value("mask", "be None if offsets are given", "both")
    labels = _aligned("labels", labels, scores, offsets)
    if integers and labels.requires_grad:
        bad_type("scores", "be floating-point numbers if labels have a gradient (are they swapped?)", "integers")
    if labels.requires_grad and not scores.requires_grad and torch.is_grad_enabled():
        warn_of_gradient_of_labels()
    weights = None if weights is None else _aligned("weights", weights, scores, offsets)
    if offsets is not None:
        offsets = _offsets(offsets, scores)
    elif scores.dim() == 0:
        bad_value("scores", "have at least one dimension", "a scalar")
    elif mask is not None:
        mask = _mask(mask, scores)
    elif not allow_single:
        warn_of_single_documents(scores)
    if mask is None or values_are_cheap(mask):
        if values_are_cheap(labels):
            check_labels(labels, mask, lowest_label)
        if weights is not None and values_are_cheap(weights):
            check_weights(weights, mask)
    return Lists(scores, labels, mask, offsets, weights)


def reduce(values: Tensor, signal: Tensor, reduction: str) -> Tensor:
    """Return the mean or the sum of one value per list, or the values unchanged.

    Args:
        values: one value per list, `(...)`.
        signal: boolean `(...)`, True for a list with signal, that is, a list from which a loss can learn; the values of
            the other lists must be 0.
        reduction: name of the reduction: `"mean"` over the lists with signal, `"sum"`, or `"none"` for no reduction.
    """
    one_of("reduction", reduction, REDUCTIONS)
    if reduction == "none":
        return values
    if reduction == "sum":
        return values.sum()
    return values.sum() / signal.sum().clamp(min=1)


def to_padded(values: Tensor, offsets: Tensor, n: int | None = None, fill: float = 0.0) -> tuple[Tensor, Tensor]:
    """Convert flat values `(documents, ...)` to padded values `(lists, n, ...)` and their mask `(lists, n)`.

    If `n` is None, the length of the longest list must be read, which forces a synchronisation on a GPU.

    Args:
        values: flat values, `(documents, ...)`.
        offsets: integers `(lists + 1,)`, from 0 to the number of documents.
        n: width of the result; None for the length of the longest list.
        fill: value of the padding.

    Example:
        >>> to_padded(torch.tensor([5., 6., 7.]), torch.tensor([0, 1, 3]))
        (tensor([[5., 0.],
                 [6., 7.]]), tensor([[ True, False],
                 [ True,  True]]))
    """
    n = _longest(offsets) if n is None else n
    lists, documents = offsets.numel() - 1, values.shape[0]
    lengths = offsets.diff()
    mask = torch.arange(n, device=values.device) < lengths[:, None]  # (lists, n)
    padded = values.new_full((lists, n, *values.shape[1:]), fill)
    if values.device.type == "cpu":
        return padded.masked_scatter(mask.reshape(lists, n, *[1] * (values.dim() - 1)), values), mask
    # On a GPU, the derivative of masked_scatter forces a synchronisation. Here no position is used twice, so that the
    # derivative is a plain gather, in a fixed order.
    owner = torch.repeat_interleave(torch.arange(lists, device=values.device), lengths, output_size=documents)
    place = torch.arange(documents, device=values.device) + owner * n - offsets[owner]
    return padded.flatten(0, 1).index_copy(0, place, values).view_as(padded), mask


def to_flat(values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Convert padded values `(..., n)` with any mask to flat values `(documents,)` and their offsets `(lists + 1,)`.

    This function forces a synchronisation on a GPU, because the number of documents depends on the mask.

    Args:
        values: padded values, `(..., n)`.
        mask: boolean mask `(..., n)`, True for a document.

    Example:
        >>> to_flat(torch.tensor([[5., 0.], [6., 7.]]), torch.tensor([[True, False], [True, True]]))
        (tensor([5., 6., 7.]), tensor([0, 1, 3]))
    """
    lengths = mask.sum(-1).reshape(-1)
    return values[mask], torch.nn.functional.pad(lengths.cumsum(0), (1, 0))


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which losses and metrics compute: at least float32, and float64 for integer scores.

    Args:
        dtype: dtype of the given scores.
    """
    if not dtype.is_floating_point:
        return torch.float64
    return torch.float64 if dtype == torch.float64 else torch.float32


def values_are_cheap(tensor: Tensor) -> bool:
    """Return True if the values of lists can be checked: on the CPU, outside of `torch.compile` and `torch.func`."""
    if tensor.device.type != "cpu" or torch.compiler.is_compiling():
        return False
    return not torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def _unnest(name: str, value: Any, offsets: Any) -> tuple[Any, Any]:
    """Return the values and offsets of a jagged nested tensor; return other arguments unchanged."""
    if not (isinstance(value, Tensor) and value.is_nested):
        return value, offsets
    if value.layout != torch.jagged:
        bad_value(name, "be a nested tensor of layout torch.jagged", value.layout)
    if value.dim() != 2:
        bad_value(name, "be nested lists of scalars", f"a nested tensor of {value.dim()} dimensions")
    value = value.contiguous()
    if offsets is None:
        return value.values(), value.offsets()
    if values_are_cheap(value.offsets()) and not np.array_equal(value.offsets(), torch.as_tensor(offsets)):
        bad_value(name, "have the list lengths of scores", value.offsets().diff().tolist())
    return value.values(), offsets


def _real(name: str, value: Any) -> Tensor:
    """Convert scores, labels, weights or offsets to a tensor of real numbers; other values are an error."""
    value = as_tensor(name, value)
    if value.dtype == torch.bool or value.is_complex():
        bad_type(name, "be real numbers", value.dtype)
    return value.to(_WIDER.get(value.dtype, value.dtype))


def as_tensor(name: str, value: Any) -> Tensor:
    """Convert scores, labels, weights or offsets to a tensor; a series of pandas or polars is read by position.

    Args:
        name: name of the argument, for the error.
        value: tensor, array, series or list of numbers.
    """
    if isinstance(value, Tensor):
        return value
    given = value
    try:
        # PyTorch would read a series of pandas by its index. An array on a GPU stays on the GPU.
        if hasattr(value, "__array__") and not hasattr(value, "__cuda_array_interface__"):
            value = np.asarray(value)
        if isinstance(value, np.ndarray) and not _shareable(value):
            # Copy the array, because PyTorch cannot use its memory.
            value = value.astype(value.dtype.newbyteorder("="), order="C")
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        ragged = isinstance(value, list | tuple) and len({len(each) for each in value if hasattr(each, "__len__")}) > 1
        hint = "lists of different lengths (join them and give offsets, or pad them and give a mask)"
        frame = "a data frame (give one of its columns; measure_run takes a run and qrels as data frames)"
        other = frame if hasattr(given, "columns") else _type_name(value)
        bad_type(name, "be a tensor or an array of numbers", hint if ragged else other)


def _shareable(array: np.ndarray[Any, Any]) -> bool:
    """Return True if scores can use the memory of an array (writeable, native byte order, no negative strides)."""
    return array.flags.writeable and array.dtype.isnative and min(array.strides, default=0) >= 0


def _type_name(value: Any) -> str:
    """Return the type of scores, labels or other arguments as text, for an error."""
    return f"an array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__


def _aligned(name: str, value: Any, scores: Tensor, offsets: Any) -> Tensor:
    """Return labels or weights as a tensor; check that they have the shape and device of `scores`."""
    value, _ = _unnest(name, value, offsets)
    value = as_tensor(name, value)
    if value.dtype == torch.bool:
        value = value.to(torch.uint8)  # binary labels
    value = _same_device(name, _real(name, value), scores)
    if value.shape != scores.shape:
        wrong_shape(name, value, scores, offsets)
    return value


def _mask(mask: Any, scores: Tensor) -> Tensor:
    mask = mask if isinstance(mask, Tensor) else torch.as_tensor(np.array(mask))
    if mask.dtype != torch.bool:
        bad_type("mask", "be boolean, True for a real document", mask.dtype)
    if mask.shape != scores.shape:
        wrong_shape("mask", mask, scores)
    return _same_device("mask", mask, scores)


def _offsets(offsets: Any, scores: Tensor) -> Tensor:
    offsets = _same_device("offsets", _real("offsets", offsets), scores)
    if offsets.dtype.is_floating_point:
        bad_type("offsets", "be integers", offsets.dtype)
    offsets = offsets.long()  # before any subtraction, because differences of unsigned integers are never negative
    if scores.dim() != 1:
        bad_value("scores", "be flat, (documents,), if offsets are given", tuple(scores.shape))
    if offsets.dim() != 1 or offsets.numel() == 0:
        bad_value("offsets", "be one-dimensional with lists + 1 entries", tuple(offsets.shape))
    if values_are_cheap(offsets):
        check_offsets(offsets, scores.shape[0])
    return offsets


def _same_device(name: str, value: Tensor, scores: Tensor) -> Tensor:
    if value.device != scores.device:
        bad_value(name, f"be on the device of scores, {scores.device}", value.device)
    return value


def _longest(offsets: Tensor) -> int:
    if offsets.numel() < 2:
        return 0
    if not torch.compiler.is_compiling():
        return int(offsets.diff().max())
    # The compiler does not know this number, and the number must not be 0 or 1, which the compiler treats separately.
    longest = int(offsets.diff().max().clamp(min=2).item())
    torch._check(longest >= 2)
    return longest
