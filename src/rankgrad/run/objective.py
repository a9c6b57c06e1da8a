"""The objective of a training: one value per list, from the scores and the whole batch. Usually, it calls a loss."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rankgrad.losses.from_text import TextLoss


class Batch(NamedTuple):
    """The lists of one training batch, on the device. Tensors are flat: one row per document, list after list."""

    features: Any  # tensor (documents, f); None for texts and trees
    labels: Tensor  # (documents,)
    offsets: Tensor  # (lists + 1,)
    weights: Tensor | None = None  # (documents,)
    width: int = 0  # number of documents of the longest list; 0 for texts and trees
    columns: Mapping[str, Tensor] = MappingProxyType({})  # named columns of the data set, (documents,) each


def objective(loss: TextLoss, scores: Tensor, batch: Batch, reduction: str = "none") -> Tensor:
    """Return what a training minimises: one value per list, `(lists,)`, or their sum.

    A loss receives the labels, the lists and the weights of the batch. A custom function of `(scores, batch)` receives
    the whole batch.

    Args:
        loss: a loss, or a custom function as `as_loss` returns it.
        scores: scores `(documents,)`.
        batch: lists of the scores.
        reduction: `"none"` or `"sum"`.
    """
    given: dict[str, Any] = {} if batch.weights is None else {"weights": batch.weights}
    given |= {"batch": batch} if loss.takes_batch else {}
    return loss(scores, batch.labels, offsets=batch.offsets, reduction=reduction, **given)


def column_tensors(data: Any, rows: Any = slice(None), device: Any = "cpu") -> dict[str, Tensor]:
    """Return the named columns of a data set, or of some of its rows, as tensors.

    Args:
        data: a data set.
        rows: numbers of the rows.
        device: device of the tensors.
    """
    columns = getattr(data, "columns", None) or {}
    return {name: torch.from_numpy(np.array(values[rows])).to(device) for name, values in columns.items()}
