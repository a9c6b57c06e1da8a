"""Convert the rows of a ranker to padded lists and back, only by gather operations, which never wait for the GPU."""

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from rankgrad.errors import bad_value
from rankgrad.lists import values_are_cheap

_UNUSED = cast(Tensor, None)  # not used by a pointwise ranker


@dataclass(frozen=True)
class ListIndex:
    """Positions of a ranker's rows in lists. Linear layers take rows; only layers that mix documents need padded lists.

    The indices are computed once and used by every layer. A pointwise ranker uses none of them.
    """

    real: Tensor | None  # (rows,) True for a row that is a document; None if all rows are documents
    mask: Tensor = _UNUSED  # (lists, n) True for a document, False for padding
    keys: Tensor = _UNUSED  # (lists, n) the mask, but never all False in a list, because a softmax needs an entry
    gather: tuple[Tensor, Tensor] | None = None  # row of each slot, (lists * n,); slot of each row, (rows,)
    position: Tensor = _UNUSED  # (rows,) position of a document in its input list, from 0

    @staticmethod
    def flat(offsets: Tensor, documents: int, width: int | None, gathers: bool = True) -> "ListIndex":
        """Return the list index of flat rows, `(documents, ...)`; rows from `offsets[-1]` on belong to no list."""
        cheap = values_are_cheap(offsets)
        last = int(offsets[-1]) if cheap else None
        if last is not None and last > documents:
            bad_value("offsets", f"have a last value of at most {documents}, the number of documents", last)
        real = None if last == documents else torch.arange(documents, device=offsets.device) < offsets[-1]
        if not gathers:
            return ListIndex(real)
        if cheap and int(offsets[0]) != 0:
            bad_value("offsets", "start at 0", int(offsets[0]))
        starts, ends = offsets[:-1], offsets[1:]
        lengths, lists = ends - starts, offsets.shape[0] - 1
        width = _width(lengths, width, cheap) if documents else 0
        columns = torch.arange(width, device=offsets.device)
        mask = columns < lengths[:, None]
        keys = columns < lengths.clamp(min=1)[:, None]
        # Padding repeats the last document of the same list, so a list never receives values of another list.
        row = torch.minimum(starts[:, None] + columns, ends[:, None] - 1).clamp(min=0).flatten()
        rows = torch.arange(documents, device=offsets.device)
        if lists * width == 0:
            return ListIndex(real, mask, keys, (row, rows), rows)
        owner = torch.searchsorted(ends.contiguous(), rows, right=True).clamp(max=lists - 1)
        position = rows - starts[owner]
        # A row that belongs to no list has no padded slot: any valid slot can be used.
        slot = (owner * width + position).clamp(max=lists * width - 1)
        return ListIndex(real, mask, keys, (row, slot), position)

    @staticmethod
    def padded(mask: Tensor) -> "ListIndex":
        """Return the list index of rows that are already padded lists, `(lists * n, ...)`."""
        keys = mask | ~mask.any(-1, keepdim=True)
        return ListIndex(mask.flatten(), mask, keys, None, (mask.cumsum(-1) - 1).clamp(min=0).flatten())

    def clean(self, rows: Tensor) -> Tensor:
        """Return a ranker's rows `(rows, d)` with 0 in rows that are not documents."""
        return rows if self.real is None else torch.where(self.real[:, None], rows, 0.0)

    def pad(self, rows: Tensor) -> Tensor:
        """Return a ranker's rows `(rows, d)` as padded lists `(lists, n, d)`; the values of padding are finite."""
        lists, n = self.keys.shape
        if self.gather is None:
            return rows.view(lists, n, rows.shape[1])
        row, slot = self.gather
        if lists * n == 0:
            return rows.new_zeros(lists, n, rows.shape[1]) + rows.sum() * 0
        return _Move.apply(rows, row, slot, None, self.real).view(lists, n, rows.shape[1])

    def unpad(self, padded: Tensor) -> Tensor:
        """Return padded lists `(lists, n, d)` as a ranker's rows `(rows, d)`; padding is dropped."""
        flat = padded.reshape(-1, padded.shape[-1])
        if self.gather is None:
            return flat
        row, slot = self.gather
        if flat.shape[0] == 0:
            return flat.new_zeros(slot.shape[0], flat.shape[1]) + flat.sum()  # zeros that stay in the graph
        return _Move.apply(flat, slot, row, None, self.mask.flatten())

    def each(self, lists: Tensor) -> Tensor:
        """Repeat the vector of each list, `(lists, d)`, for all rows of the list, `(rows, d)`."""
        return self.unpad(lists[:, None].expand(-1, self.keys.shape[1], -1))


class _Move(torch.autograd.Function):
    """Compute `values[to]`, with 0 where `kept` is False. The backward pass is also a gather, so it is deterministic.

    `back` is the new position of each value. `kept_back` is True for values with a new position; None if all values
    have a new position.
    """

    @staticmethod
    def forward(values: Tensor, to: Tensor, back: Tensor, kept: Tensor | None, kept_back: Tensor | None) -> Tensor:
        moved = values.index_select(0, to)
        return moved if kept is None else torch.where(kept[:, None], moved, 0.0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        to, back, kept, kept_back = ctx.saved_tensors
        return _Move.apply(gradients[0], back, to, kept_back, kept), None, None, None, None


def _width(lengths: Tensor, width: int | None, cheap: bool) -> int:
    """Return the width of a ranker's padded lists. If the offsets are on the CPU, check the argument `width`."""
    if lengths.shape[0] == 0:
        return width or 0
    if width is None:
        width = longest = int(lengths.max())
    elif cheap:
        longest = int(lengths.max())
    else:
        return width
    if cheap and int(lengths.min()) < 0:
        bad_value("offsets", "not decrease", "decreasing offsets")
    if longest > width:
        bad_value("width", f"be at least the length of the longest list, {longest}", width)
    return width
