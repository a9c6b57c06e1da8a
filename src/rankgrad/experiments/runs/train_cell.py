"""Train the ranker of a cell, and say what its training came to in the same words for every kind."""

from typing import Any, NamedTuple

from rankgrad.data import Dataset
from rankgrad.experiments.runs import provenance
from rankgrad.experiments.runs.cell import Cell
from rankgrad.models.protocol import TrainedModel
from rankgrad.models.registry import kind_of


class TrainedCell(NamedTuple):
    """A trained ranker and its training."""

    model: TrainedModel
    device: str
    validation: dict[str, float]  # by metric; empty without validation lists
    epoch: int  # or the number of trees, that was kept
    history: list[dict[str, Any]]  # one row per epoch or tree, whose number is under `epoch`
    learned: dict[str, Any]  # by a loss that has parameters
    parameters: int
    versions: dict[str, str]


def ranker_of(cell: Cell, data: Dataset, validation: Dataset | None, device: str | None = None) -> TrainedCell:
    """Train what a cell says; `device` goes before its own."""
    kind = kind_of(cell.settings["model"])
    settings = kind.on_device(cell.settings, device or cell.settings.get("device", "cpu"))
    model = kind.fit(settings, data, validation, progress=False)
    history = [{"epoch" if key == kind.unit else key: row[key] for key in row} for row in model.history]
    judged = {} if validation is None else model.validated(validation, cell.settings.get("metric", "nDCG@10"))
    versions = {**provenance.versions(), **kind.versions(settings)}
    used = settings.get("device", "cpu")
    return TrainedCell(model, used, judged, model.kept, history, model.metrics.get("loss", {}), model.size, versions)
