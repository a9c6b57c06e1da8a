"""The preprocessing step that replaces missing values (NaN). It is applied before all other steps."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from rankgrad.data.preprocessing.steps import Array, PreprocessingStep, is_tensor
from rankgrad.errors import bad_value, one_of

FILLS = ("zero", "mean", "indicator")
# Value of an indicator if the value of the feature is missing. Networks learn less noise from a small number; with
# indicators that are standardised, they are worse than without indicators (studies/missing-values).
INDICATED = 0.1


@dataclass(frozen=True, eq=False)
class FillMissing(PreprocessingStep):
    """Replace NaN by 0 or by the mean of the column in the training data.

    With `fill="indicator"`, NaN also becomes the mean. In addition, each column that has NaN in the training data has
    an indicator column: `INDICATED` if the value is missing, otherwise 0. `Preprocessing` appends the indicator columns
    after all steps, so no step changes them. The first layer of a network has weights for the indicator column, so the
    network learns the effect of a missing value.
    """

    name: ClassVar[str] = "missing"
    fitted: ClassVar[tuple[str, ...]] = ("value", "indicated")
    fill: str = "mean"
    value: NDArray[np.float32] | None = None  # (f,), values that replace NaN
    indicated: NDArray[np.int64] | None = None  # columns with an indicator column; None if no column has one

    def __post_init__(self) -> None:
        one_of("missing", self.fill, FILLS)

    @property
    def added(self) -> int:
        """Number of columns that indicate missing values."""
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
        value = self._array("value", x)
        if is_tensor(x):
            return x.where(~x.isnan(), value)
        return np.where(np.isnan(x), value, x)

    def indicators(self, x: Array) -> Array:
        """Return the indicator columns of features with missing values, `(..., added)`.

        Args:
            x: features before all steps, `(..., f)`.
        """
        columns = np.zeros(0, dtype=np.int64) if self.indicated is None else self.indicated
        if not is_tensor(x):
            return np.isnan(x[..., columns]) * np.float32(INDICATED)
        import torch

        chosen = x.index_select(-1, torch.as_tensor(columns, device=x.device))
        return chosen.isnan() * torch.tensor(INDICATED, dtype=x.dtype, device=x.device)
