"""A cell of an experiment: all settings of one training run, and the key of its result file."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

from rankgrad.data import loading

FORMAT = 1  # version of the result files; a new version changes the key of every cell


def data_label(data: str, binary: bool) -> str:
    """Return the name of a cell's data set in tables: WEB30K-b is WEB30K with binary labels."""
    return f"{loading.data_label(data)}{'-b' if binary else ''}"


@dataclass(frozen=True)
class Cell:
    """One training run of a recipe: data set and fold, ranker, loss, settings, seed.

    Example:
        >>> cell = Cell("MQ2008", False, 1, "MLP", "LambdaLoss", None, {"seed": 0}, ("nDCG@10",), "tune", False, 0)
        >>> cell.key, str(cell)
        ('...', 'MQ2008 fold 1, MLP, LambdaLoss, trial 1')
        >>> Cell.of(cell.to_json()) == cell
        True
    """

    data: str  # name of a data set, as in `rankgrad.data.load`, or a folder
    binary: bool  # True: all labels above 0 are set to 1
    fold: int | None  # number of the fold, from 1; None for a data set without folds
    model: str  # name of the ranker
    loss: str  # name of the loss
    variant: str | None  # spec of the loss if the recipe has `variants` of it; otherwise None
    settings: dict[str, Any]  # settings of the run, including the seed
    metrics: tuple[str, ...]  # metrics on the test lists or, for a tuning cell, on the validation lists
    stage: str  # "tune" or "final"
    refit: bool  # True: train on the train and validation lists, for the number of epochs in the settings
    trial: int  # number of the combination of settings, from 0

    @cached_property
    def key(self) -> str:
        """Hash of all fields of the cell, 16 hexadecimal digits; the name of the result file."""
        content = {field.name: getattr(self, field.name) for field in fields(self)}  # `asdict` would copy all values
        canonical = json.dumps({"format": FORMAT, **content}, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

    @property
    def label(self) -> str:
        """Name of the cell's data set in tables."""
        return data_label(self.data, self.binary)

    @property
    def seed(self) -> int:
        """Random seed of the cell's run."""
        return int(self.settings.get("seed", 0))

    @property
    def lists(self) -> tuple[str, bool, int | None]:
        """Data that the cell reads; cells with the same data run in the same process if possible."""
        return self.data, self.binary, self.fold

    @property
    def group(self) -> tuple[str, bool, int | None, str, str]:
        """Data, ranker and loss of the cell; validation chooses one tuning cell of each group."""
        return (*self.lists, self.model, self.loss)

    def to_json(self) -> dict[str, Any]:
        """Return the cell as a dictionary that can be written as JSON."""
        return {**asdict(self), "metrics": list(self.metrics)}

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "Cell":
        """Make a cell from a dictionary.

        Args:
            values: return value of `to_json`.
        """
        return cls(**{**values, "metrics": tuple(values["metrics"])})

    def __str__(self) -> str:
        fold = "" if self.fold is None else f" fold {self.fold}"
        variant = f" ({self.variant})" if self.variant else ""
        number = f"trial {self.trial + 1}" if self.stage == "tune" else f"seed {self.seed}"
        return f"{self.label}{fold}, {self.model}, {self.loss}{variant}, {number}"
