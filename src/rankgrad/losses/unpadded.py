"""Lists in the layout of the input, without added padding, for losses that need only sums over lists.

With one list of 200,000 documents and 20,000 short lists, the padded lists would have 4 billion positions.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from rankgrad.lists import Lists


class UnpaddedLists(NamedTuple):
    """Checked lists in the layout of the input: `(documents,)` with offsets, or `(..., n)` with 0 in padding."""

    scores: Tensor
    labels: Tensor  # in the dtype of scores
    weights: Tensor | None  # in the dtype of scores
    mask: Tensor | None  # mask of the padded layout; None in the flat layout
    offsets: Tensor | None  # offsets of the flat layout; None in the padded layout

    @classmethod
    def of(cls, lists: Lists) -> "UnpaddedLists":
        """Make `UnpaddedLists` from checked lists."""
        if lists.given.offsets is None:
            return cls(lists.scores, lists.labels, lists.weights, lists.mask, None)
        scores, labels, _, offsets, weights = lists.given
        return cls(
            scores, labels.to(scores.dtype), None if weights is None else weights.to(scores.dtype), None, offsets
        )

    @property
    def lengths(self) -> Tensor:
        """Number of documents of each list of `UnpaddedLists`, `(...)`."""
        if self.offsets is None:
            assert self.mask is not None
            return self.mask.sum(-1)
        return self.offsets.diff()

    def total(self, values: Tensor) -> Tensor:
        """Return the sum of `values` (one per document) over each list of `UnpaddedLists`, `(...)`."""
        if self.offsets is None:
            return (values if self.mask is None else torch.where(self.mask, values, 0.0)).sum(-1)
        # PyTorch sums a segment sequentially: in float32, the sum of a long list is not precise. MPS has no float64.
        wide = values.dtype if values.device.type == "mps" else torch.float64
        total: Tensor = _Total.apply(values.to(wide), self.offsets)
        return total.to(values.dtype)

    def largest(self, values: Tensor) -> Tensor:
        """Return the largest of `values` in each list of `UnpaddedLists`, `(...)`, without a gradient.

        `values` contains one number of at least 0 per document.
        """
        if self.offsets is None:
            return values.amax(-1).detach() if values.shape[-1] else values.sum(-1).detach()
        return _reduce_segments(values.detach(), self.offsets, "max", initial=0.0)

    def each(self, per_list: Tensor) -> Tensor:
        """Repeat the value of each list, `(...)`, for all documents of the list, in the layout of `UnpaddedLists`."""
        if self.offsets is None:
            return per_list[..., None]
        return torch.repeat_interleave(per_list, self.lengths, output_size=self.scores.shape[0])


class _Total(torch.autograd.Function):
    """Autograd function for sums over flat lists. It has a second derivative, unlike PyTorch's segment sum."""

    @staticmethod
    def forward(values: Tensor, offsets: Tensor) -> Tensor:
        """Return the sum of values `(documents,)` over each flat list, `(lists,)`."""
        return _reduce_segments(values, offsets, "sum", initial=0.0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        """Save the offsets of the flat lists for `backward`."""
        ctx.save_for_backward(inputs[1])
        ctx.documents = inputs[0].shape[0]

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        """Return, for each document, the upstream gradient of the sum over the document's flat list."""
        (offsets,) = ctx.saved_tensors
        return torch.repeat_interleave(upstream[0], offsets.diff(), output_size=ctx.documents), None


def _reduce_segments(values: Tensor, offsets: Tensor, how: str, initial: float) -> Tensor:
    """Compute the sum or maximum of each flat list. Lengths are checked only on the CPU, to avoid a synchronisation."""
    unsafe = values.device.type != "cpu" or torch.compiler.is_compiling()
    unsafe = unsafe or offsets.shape[0] == 1  # without lists, the check finds no minimum
    return torch.segment_reduce(values, how, lengths=offsets.diff(), axis=0, unsafe=unsafe, initial=initial)
