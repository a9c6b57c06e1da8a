"""Train the ranker of a cell, and return its training in the same form for every kind of ranker."""

from typing import Any, NamedTuple

from rankgrad.data import Dataset
from rankgrad.experiments.runs import provenance
from rankgrad.experiments.runs.cell import Cell
from rankgrad.models.protocol import TrainedModel
from rankgrad.models.registry import kind_of


class TrainedCell(NamedTuple):
    """A trained ranker, and the record of its training."""

    model: TrainedModel
    device: str
    validation: dict[str, float]  # by metric; empty without validation lists
    epoch: int  # number of the epoch, or number of trees, that was kept
    history: list[dict[str, Any]]  # one row per epoch or tree, with its number under `epoch`
    learned: dict[str, Any]  # parameters that the loss has learned
    parameters: int  # number of parameters of the ranker
    versions: dict[str, str]


def train_cell(cell: Cell, data: Dataset, validation: Dataset | None, device: str | None = None) -> TrainedCell:
    """Train the ranker of a cell; `device` replaces the device in its settings."""
    kind = kind_of(cell.settings["model"])
    settings = kind.on_device(cell.settings, device or cell.settings.get("device", "cpu"))
    model = kind.fit(settings, data, validation, progress=False)
    history = [{"epoch" if key == kind.unit else key: row[key] for key in row} for row in model.history]
    validated = {} if validation is None else model.validated(validation, cell.settings.get("metric", "nDCG@10"))
    versions = {**provenance.versions(), **kind.versions(settings)}
    used = settings.get("device", "cpu")
    return TrainedCell(model, used, validated, model.kept, history, model.metrics.get("loss", {}), model.size, versions)
