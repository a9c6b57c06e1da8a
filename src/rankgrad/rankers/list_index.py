"""Which rows make a list: between flat rows and padded lists, by gathers alone and without waiting for the device."""

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from rankgrad.errors import bad_value
from rankgrad.lists import values_are_cheap

_UNASKED = cast(Tensor, None)  # by a pointwise ranker


@dataclass(frozen=True)
class ListIndex:
    """The places of rows in lists. Linear layers work on rows; only what mixes the documents of a list is padded.

    The indices are made once and serve every layer. A pointwise ranker asks for none of them.
    """

    real: Tensor | None  # (rows,) whether a row is a document; None: all are
    mask: Tensor = _UNASKED  # (lists, n) whether a place of the padded lists is a document
    keys: Tensor = _UNASKED  # (lists, n) the mask, and one place at least of an empty list: no softmax is of none
    gather: tuple[Tensor, Tensor] | None = None  # the row at each place, (lists * n,); the place of each row, (rows,)
    rank: Tensor = _UNASKED  # (rows,) of a document in its list as it was given, from 0

    @staticmethod
    def flat(offsets: Tensor, documents: int, width: int | None, gathers: bool = True) -> "ListIndex":
        """ListIndex of flat rows, `(documents, ...)`; rows from `offsets[-1]` on belong to no list."""
        cheap = values_are_cheap(offsets)
        last = int(offsets[-1]) if cheap else None
        if last is not None and last > documents:
            bad_value("offsets", f"end at the number of documents, {documents}, or before", last)
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
        # Padding repeats the last document of its own list, so that nothing of another list can reach this one.
        row = torch.minimum(starts[:, None] + columns, ends[:, None] - 1).clamp(min=0).flatten()
        rows = torch.arange(documents, device=offsets.device)
        if lists * width == 0:
            return ListIndex(real, mask, keys, (row, rows), rows)
        owner = torch.searchsorted(ends.contiguous(), rows, right=True).clamp(max=lists - 1)
        rank = rows - starts[owner]
        # A row of no list has no place: any will do, as long as it is one.
        place = (owner * width + rank).clamp(max=lists * width - 1)
        return ListIndex(real, mask, keys, (row, place), rank)

    @staticmethod
    def padded(mask: Tensor) -> "ListIndex":
        """ListIndex of rows that are padded lists, `(lists * n, ...)`, already."""
        keys = mask | ~mask.any(-1, keepdim=True)
        return ListIndex(mask.flatten(), mask, keys, None, (mask.cumsum(-1) - 1).clamp(min=0).flatten())

    def clean(self, rows: Tensor) -> Tensor:
        """The rows `(rows, d)`, 0 where they are no document."""
        return rows if self.real is None else torch.where(self.real[:, None], rows, 0.0)

    def pad(self, rows: Tensor) -> Tensor:
        """Rows `(rows, d)` as padded lists `(lists, n, d)`; padding holds anything finite: see `keys`."""
        lists, n = self.keys.shape
        if self.gather is None:
            return rows.view(lists, n, rows.shape[1])
        row, place = self.gather
        if lists * n == 0:
            return rows.new_zeros(lists, n, rows.shape[1]) + rows.sum() * 0
        return _Move.apply(rows, row, place, None, self.real).view(lists, n, rows.shape[1])

    def unpad(self, padded: Tensor) -> Tensor:
        """Padded lists `(lists, n, d)` as rows `(rows, d)`; what stood in padding is lost."""
        flat = padded.reshape(-1, padded.shape[-1])
        if self.gather is None:
            return flat
        row, place = self.gather
        if flat.shape[0] == 0:
            return flat.new_zeros(place.shape[0], flat.shape[1]) + flat.sum()  # in the graph, though nothing is there
        return _Move.apply(flat, place, row, None, self.mask.flatten())

    def each(self, lists: Tensor) -> Tensor:
        """One vector a list, `(lists, d)`, repeated for each of its rows, `(rows, d)`."""
        return self.unpad(lists[:, None].expand(-1, self.keys.shape[1], -1))


class _Move(torch.autograd.Function):
    """`values[to]`, 0 where not `kept`, whose derivative is the way back: a gather too, so fast and in a fixed order.

    `back` is where each value went; `kept_back` are the values that went anywhere, None: all.
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
    """The width of the padded lists, checked where that costs nothing."""
    if lengths.shape[0] == 0:
        return width or 0
    if width is None:
        width = longest = int(lengths.max())
    elif cheap:
        longest = int(lengths.max())
    else:
        return width
    if cheap and int(lengths.min()) < 0:
        bad_value("offsets", "never fall", "falling ones")
    if longest > width:
        bad_value("width", f"be at least the length of the longest list, {longest}", width)
    return width
