"""Join lists into batches of tensors, for `torch.utils.data.DataLoader`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from rankgrad.data.dataset import DocumentList
from rankgrad.errors import bad_type, bad_value, one_of

if TYPE_CHECKING:
    from torch import Tensor


_Batch = TypeVar("_Batch", "PaddedBatch", "FlatBatch")
_NONE: dict[str, Any] = {}  # never changed


class PaddedBatch(NamedTuple):
    """Batch of padded lists. `labels`, `mask` and `weights` are named as the arguments of losses and metrics."""

    features: "Tensor"  # (lists, n, f), 0 at padding
    labels: "Tensor"  # (lists, n), 0 at padding
    mask: "Tensor"  # (lists, n), True for a document
    weights: "Tensor | None"  # (lists, n), document weights, 0 at padding; None if the data set has no weights
    qids: list[Any]  # query id of each list
    columns: "Mapping[str, Tensor]" = _NONE  # (lists, n) each, 0 at padding, columns that are used in training only

    def to(self, device: Any, non_blocking: bool = False) -> "PaddedBatch":
        """Return the batch with all tensors on a device.

        Args:
            device: device, or its name.
            non_blocking: True to copy from pinned memory without waiting, as in `torch.Tensor.to`.
        """
        return _moved(self, device, non_blocking)


class FlatBatch(NamedTuple):
    """Batch of flat lists. `labels`, `offsets` and `weights` are named as the arguments of losses and metrics."""

    features: "Tensor"  # (documents, f)
    labels: "Tensor"  # (documents,)
    offsets: "Tensor"  # (lists + 1,), list `l` has the documents from `offsets[l]` to `offsets[l + 1]`
    weights: "Tensor | None"  # (documents,), document weights; None if the data set has no weights
    qids: list[Any]  # query id of each list
    columns: "Mapping[str, Tensor]" = _NONE  # (documents,) each, columns that are used in training only

    def to(self, device: Any, non_blocking: bool = False) -> "FlatBatch":
        """Return the batch with all tensors on a device.

        Args:
            device: device, or its name.
            non_blocking: True to copy from pinned memory without waiting, as in `torch.Tensor.to`.
        """
        return _moved(self, device, non_blocking)


@overload
def collate(lists: Sequence[DocumentList], *, layout: Literal["padded"] = "padded") -> PaddedBatch: ...
@overload
def collate(lists: Sequence[DocumentList], *, layout: Literal["flat"]) -> FlatBatch: ...
def collate(lists: Sequence[DocumentList], *, layout: str = "padded") -> PaddedBatch | FlatBatch:
    """Join lists into a batch. A `DataLoader` for a `Dataset` needs this function as its `collate_fn`.

    For flat batches, use `collate_fn=functools.partial(rankgrad.data.collate, layout="flat")`.

    Args:
        lists: lists of one data set.
        layout: layout of the batch: `"padded"` (all lists have the length of the longest list, with a mask) or
            `"flat"` (the documents of all lists, with offsets).

    Example:
        >>> from rankgrad.data import from_arrays
        >>> data, _ = from_arrays([[1.0], [2.0], [3.0]], [0, 1, 2], qid=["a", "b", "b"])
        >>> collate([data[0], data[1]]).labels
        tensor([[0., 0.],
                [1., 2.]])
        >>> collate([data[0], data[1]], layout="flat").offsets
        tensor([0, 1, 3])
    """
    import torch

    one_of("layout", layout, ("padded", "flat"))
    if not lists or not all(isinstance(each, DocumentList) for each in lists):
        got = "none" if not lists else next(type(each).__name__ for each in lists if not isinstance(each, DocumentList))
        bad_type("lists", "be lists of a data set, `dataset[i]`", got)
    weighted = [each.weights is not None for each in lists]
    if any(weighted) and not all(weighted):
        bad_value("lists", "all have weights, or all have no weights", "lists with and lists without weights")
    named = [each.columns or {} for each in lists]
    if any(each.keys() != named[0].keys() for each in named):
        bad_value("lists", "all have the same columns", "lists with different columns")
    lengths = np.array([len(each.labels) for each in lists])
    n = int(lengths.max())

    def join(arrays: list[NDArray[np.float32]]) -> "Tensor":
        rows = np.concatenate(arrays)
        if layout == "flat":
            return torch.from_numpy(rows)
        padded = np.zeros((len(arrays), n, *rows.shape[1:]), dtype=rows.dtype)
        padded[real] = rows
        return torch.from_numpy(padded)

    real = np.arange(n) < lengths[:, None]  # (lists, n)
    features, labels = join([each.features for each in lists]), join([each.labels for each in lists])
    weights = join([each.weights for each in lists if each.weights is not None]) if all(weighted) else None
    qids = [each.qid for each in lists]
    columns = {name: join([each[name] for each in named]) for name in named[0]}
    if layout == "flat":
        return FlatBatch(features, labels, torch.from_numpy(np.append(0, np.cumsum(lengths))), weights, qids, columns)
    return PaddedBatch(features, labels, torch.from_numpy(real), weights, qids, columns)


def _moved(batch: _Batch, device: Any, non_blocking: bool) -> _Batch:
    from torch import Tensor

    def moved(part: Any) -> Any:
        if isinstance(part, dict):
            return {name: moved(values) for name, values in part.items()}
        return part.to(device, non_blocking=non_blocking) if isinstance(part, Tensor) else part

    return type(batch)(*map(moved, batch))
