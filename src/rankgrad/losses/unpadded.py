"""UnpaddedLists in the layout in which they were given, for losses that take sums over lists and so need no padding.

One list of 200,000 documents among 20,000 short ones would be 4 billion places of padding.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from rankgrad.lists import Lists


class UnpaddedLists(NamedTuple):
    """Checked documents, `(documents,)` with offsets or else `(..., n)`; 0 wherever there is no document."""

    scores: Tensor
    labels: Tensor  # in the dtype of scores
    weights: Tensor | None  # in the dtype of scores
    mask: Tensor | None  # of the padded layout
    offsets: Tensor | None  # of the flat layout

    @classmethod
    def of(cls, lists: Lists) -> "UnpaddedLists":
        """The documents of these lists."""
        if lists.given.offsets is None:
            return cls(lists.scores, lists.labels, lists.weights, lists.mask, None)
        scores, labels, _, offsets, weights = lists.given
        return cls(
            scores, labels.to(scores.dtype), None if weights is None else weights.to(scores.dtype), None, offsets
        )

    @property
    def lengths(self) -> Tensor:
        """The number of documents of each list, `(...)`."""
        if self.offsets is None:
            assert self.mask is not None
            return self.mask.sum(-1)
        return self.offsets.diff()

    def total(self, values: Tensor) -> Tensor:
        """The sum over each list, `(...)`, of one value per document."""
        if self.offsets is None:
            return (values if self.mask is None else torch.where(self.mask, values, 0.0)).sum(-1)
        # PyTorch adds up a segment one by one: in float32 a long list would lose digits. MPS has no float64.
        wide = values.dtype if values.device.type == "mps" else torch.float64
        total: Tensor = _Total.apply(values.to(wide), self.offsets)
        return total.to(values.dtype)

    def largest(self, values: Tensor) -> Tensor:
        """The largest of values that are at least 0, one per document, in each list, `(...)`; not differentiable."""
        if self.offsets is None:
            return values.amax(-1).detach() if values.shape[-1] else values.sum(-1).detach()
        return _reduce_segments(values.detach(), self.offsets, "max", initial=0.0)

    def each(self, per_list: Tensor) -> Tensor:
        """A value per list, `(...)`, at each of its documents."""
        if self.offsets is None:
            return per_list[..., None]
        return torch.repeat_interleave(per_list, self.lengths, output_size=self.scores.shape[0])


class _Total(torch.autograd.Function):
    """Sums of segments. PyTorch's own have no second derivative."""

    @staticmethod
    def forward(values: Tensor, offsets: Tensor) -> Tensor:
        """`(documents,)` to `(lists,)`."""
        return _reduce_segments(values, offsets, "sum", initial=0.0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        """Keep the offsets."""
        ctx.save_for_backward(inputs[1])
        ctx.documents = inputs[0].shape[0]

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        """Each document has the derivative of its list."""
        (offsets,) = ctx.saved_tensors
        return torch.repeat_interleave(upstream[0], offsets.diff(), output_size=ctx.documents), None


def _reduce_segments(values: Tensor, offsets: Tensor, how: str, initial: float) -> Tensor:
    """PyTorch checks the lengths on the CPU, where compiled code has not looked at the offsets; elsewhere it waits."""
    unsafe = values.device.type != "cpu" or offsets.shape[0] == 1  # of no lists there is no shortest one to check
    return torch.segment_reduce(values, how, lengths=offsets.diff(), axis=0, unsafe=unsafe, initial=initial)
