"""The preprocessing step that replaces missing values, which are NaN, before all other steps."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from rankgrad.data.preprocessing.steps import Array, PreprocessingStep, is_tensor
from rankgrad.errors import bad_value, one_of

FILLS = ("zero", "mean", "indicator")
MISSING = ("error", *FILLS)  # values of the setting `missing` of neural rankers


@dataclass(frozen=True, eq=False)
class FillMissing(PreprocessingStep):
    """Replace NaN by 0 or by the mean of the column in the training data.

    With `fill="indicator"`, NaN becomes the mean, as with `fill="mean"`. In addition, each column that has NaN in the
    training data gets a second column at the end, which is 1 where the value is missing and 0 elsewhere. The weights of
    this column in the first layer of the network are the learned value of a missing entry.
    """

    name: ClassVar[str] = "missing"
    fitted: ClassVar[tuple[str, ...]] = ("value", "indicated")
    fill: str = "mean"
    value: NDArray[np.float32] | None = None  # (f,), values that replace NaN
    indicated: NDArray[np.int64] | None = None  # columns that have an indicator column; None if there are none

    def __post_init__(self) -> None:
        one_of("missing", self.fill, FILLS)

    @property
    def added(self) -> int:
        """Number of indicator columns."""
        return 0 if self.indicated is None else len(self.indicated)

    def fit(self, blocks: Iterable[NDArray[np.float32]]) -> "FillMissing":
        known, total, rows = np.zeros(0), np.zeros(0), 0
        for block in blocks:
            if not rows:
                known, total = np.zeros(block.shape[1]), np.zeros(block.shape[1])
            missing = np.isnan(block)
            known += (~missing).sum(0)
            total += np.where(missing, 0, block).sum(0, dtype=np.float64)
            rows += len(block)
        if rows == 0:
            bad_value("dataset", "contain at least one document", "none")
        # The mean of a column without any value is 0.
        mean = np.zeros_like(total) if self.fill == "zero" else total / np.maximum(known, 1)
        indicated = np.flatnonzero((known < rows) & (self.fill == "indicator"))
        return replace(self, value=mean.astype(np.float32), indicated=indicated if len(indicated) else None)

    def transform(self, x: Array, offsets: Array | None = None, mask: Array | None = None) -> Array:
        value, indicated = self._array("value", x), self.indicated
        if is_tensor(x):
            import torch

            missing = x.isnan()
            filled = torch.where(missing, value, x)
            if indicated is None:
                return filled
            columns = torch.as_tensor(indicated, device=x.device)
            return torch.cat([filled, missing.index_select(-1, columns).to(x.dtype)], dim=-1)
        lost = np.isnan(x)
        known: Array = np.where(lost, value, x)
        if indicated is None:
            return known
        return np.concatenate([known, lost[..., indicated].astype(np.float32)], axis=-1)
