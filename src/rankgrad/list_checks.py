"""Check the shapes and the values of lists. An error names the likely mistake, such as an inverted mask."""

import math
from typing import Any, NoReturn

import torch
from torch import Tensor

from rankgrad.errors import bad_value, warn_caller


def check_labels(labels: Tensor, mask: Tensor | None, lowest: float | None) -> None:
    """Check that the labels of real positions are finite and not below `lowest`; None means no limit.

    If all of them are 0, but labels of the padding are not, there is a warning about the mask.
    """
    low, high = _ends(labels, mask)
    fault = _fault(low, high, lowest)
    if fault is None:
        if mask is not None and low == high == 0 and _ends(labels, ~mask)[1] > 0:
            told = "all labels of documents are 0, but not those of the padding"
            warn_caller(f"{told}; {_IS_IT_INVERTED}")
        return
    must, got = fault
    if mask is not None and not bool(mask.all()) and _fault(*_ends(labels, ~mask), lowest) is None:
        bad_value("labels", must, f"{got}; {_IS_IT_INVERTED}")
    if must == "be finite":
        bad_value("labels", must, got)
    if not low.is_integer():
        bad_value("labels", must, f"{got}; are scores and labels swapped? The order is (scores, labels)")
    bad_value("labels", f"{must} (mark padding with mask, not with a label)", got)


def check_weights(weights: Tensor, mask: Tensor | None) -> None:
    """Check that the weights of real positions are finite and at least 0."""
    fault = _fault(*_ends(weights, mask), 0.0)
    if fault is not None:
        inverted = mask is not None and not bool(mask.all()) and _fault(*_ends(weights, ~mask), 0.0) is None
        hint = f"; {_IS_IT_INVERTED}" if inverted else ""
        bad_value("weights", "be finite and at least 0", f"{fault[1]}{hint}")


def check_offsets(offsets: Tensor, documents: int) -> None:
    """Check that integer offsets start at 0, never decrease, and end at the number of documents."""
    first, last, decrease = int(offsets[0]), int(offsets[-1]), bool((offsets.diff() < 0).any())
    if first != 0 or last != documents:
        got = f"{first} to {last}"
        if int(offsets.sum()) == documents:
            got += "; these look like list lengths: offsets are the cumulative sums of the lengths, with a leading 0"
        elif last == documents and not decrease:
            got += "; is the leading 0 missing?"
        bad_value("offsets", f"run from 0 to the number of documents, {documents}", got)
    if decrease:
        bad_value("offsets", "not decrease", offsets.tolist() if offsets.numel() < 20 else "decreasing offsets")


def wrong_shape(name: str, value: Tensor, scores: Tensor, offsets: Any = None) -> NoReturn:
    """Raise an error for labels, weights or a mask that do not have the shape of the scores, with a correction."""
    hint = _correction(name, tuple(value.shape), tuple(scores.shape), offsets)
    bad_value(name, f"have the shape of scores, {tuple(scores.shape)}", f"{tuple(value.shape)}{hint and '; ' + hint}")


def warn_of_gradient_of_labels() -> None:
    """Warn that labels require a gradient and scores do not; PyTorch cannot compile a warning."""
    if not torch.compiler.is_compiling():
        warn_caller("labels require a gradient, but scores do not: are they swapped? The order is (scores, labels)")


def warn_of_single_documents(scores: Tensor) -> None:
    """Warn if scores `(n, 1)` without a mask are n lists of one document; Python shows this warning once per line."""
    if torch.compiler.is_compiling() or scores.dim() < 2 or scores.shape[-1] != 1 or scores.numel() < 2:
        return
    told = "scores of shape (n, 1) are n lists with one document each, which have no order"
    advice = "for one list of n documents, use scores.squeeze(-1) and labels.squeeze(-1)"
    warn_caller(f"{told}; {advice}")


_IS_IT_INVERTED = "is the mask inverted? It must be True for a document and False for padding"


def _ends(values: Tensor, mask: Tensor | None) -> tuple[float, float]:
    """Return the smallest and the largest value of real positions; padding counts as 0. Without values, both are 0."""
    if values.numel() == 0:
        return 0.0, 0.0
    values = values.detach()
    # Indexing with the mask would be several times slower.
    low, high = (values if mask is None else torch.where(mask, values, 0)).aminmax()
    return float(low), float(high)


def _fault(low: float, high: float, lowest: float | None) -> tuple[str, object] | None:
    """Return the condition that labels or weights violate and the value that violates it; None if all are valid."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return "be finite", high if math.isfinite(low) else low
    if lowest is not None and low < lowest:
        return f"be at least {lowest:g}", f"{low:g}"
    return None


def _correction(name: str, shape: tuple[int, ...], expected: tuple[int, ...], offsets: Any) -> str:
    """Return what the caller of a loss probably needs to write, for an argument of a wrong shape; "" if unknown."""
    if name == "weights" and offsets is not None:
        lists = len(offsets) - 1 if hasattr(offsets, "__len__") else None
        return "for one weight per list, use weights.repeat_interleave(offsets.diff())" if shape == (lists,) else ""
    if name == "weights" and expected and shape in (expected[:-1], (*expected[:-1], 1)):
        wide = "weights[..., None]" if shape == expected[:-1] else "weights"
        return f"for one weight per list, use {wide}.expand_as(scores)"
    if expected == (*shape, 1):
        return f"scores.squeeze(-1) has the shape of {name}"
    return f"{name}.squeeze(-1) has the shape of scores" if shape == (*expected, 1) else ""
