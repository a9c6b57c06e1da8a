"""The ranker of a cell, trained: a neural one or trees, with what its training came to in the same words."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

from rankgrad.data import Dataset
from rankgrad.experiments import facts
from rankgrad.experiments.cell import Cell
from rankgrad.experiments.trees import is_tree
from rankgrad.training import Settings, train


class Scorer(Protocol):
    """What scores lists."""

    def score(self, features: Any, offsets: Any = None) -> NDArray[Any]: ...


class Trained(NamedTuple):
    """A ranker and its training; of trees, an epoch is a tree, and a parameter a leaf."""

    model: Scorer
    device: str
    validation: dict[str, float]  # by metric; empty without validation lists
    epoch: int  # that was kept
    history: list[dict[str, Any]]  # a row an epoch
    learned: dict[str, Any]  # by a loss that has parameters
    parameters: int
    versions: dict[str, str]


def ranker_of(cell: Cell, data: Dataset, validation: Dataset | None, device: str | None = None) -> Trained:
    """Train what a cell says; `device` goes before its own, and means nothing to trees."""
    if is_tree(cell.settings.get("model")):
        return _trees(cell.settings, data, validation)
    settings = Settings.of({"device": "cpu", **cell.settings, **({"device": device} if device else {})})
    model = train(settings, data, validation, progress=False)
    known, size = model.metrics, sum(parameter.numel() for parameter in model.ranker.parameters())
    judged = {} if validation is None else known.get("validation", {})
    told = known["epoch"], model.history, known.get("loss", {}), size, facts.versions()
    return Trained(model, settings.device, judged, *told)


def _trees(settings: Mapping[str, Any], data: Dataset, validation: Dataset | None) -> Trained:
    from rankgrad.trees.boosting import boost
    from rankgrad.trees.model import framework
    from rankgrad.trees.settings import ranker

    plan = ranker(settings).plan()
    model = boost(plan, data, validation)
    history = [{"epoch": row["tree"], **{key: row[key] for key in row if key != "tree"}} for row in model.history]
    # The package may go by another name than its module: xgboost-cpu.
    versions = {**facts.versions(), plan.framework: framework(plan.framework).__version__}
    known = model.metrics
    told = known["trees"], history, known.get("loss", {}), model.size, versions
    return Trained(model, "cpu", known.get("validation", {}), *told)
