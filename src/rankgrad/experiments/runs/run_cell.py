"""Run one cell: read its lists, train, evaluate, write the result. A cell with a result is not run again."""

import math
import os
import time
import warnings
from collections.abc import Mapping
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankgrad.atomic_files import write_bytes, write_json
from rankgrad.data import Dataset, Splits
from rankgrad.data.assemble import join_lists
from rankgrad.data.evaluation import evaluate_lists
from rankgrad.experiments.recipes import data_sets
from rankgrad.experiments.runs import provenance
from rankgrad.experiments.runs.cell import FORMAT, Cell
from rankgrad.experiments.runs.results import failure_file, npz_bytes, result_file
from rankgrad.models.protocol import TrainedModel
from rankgrad.models.registry import kind_of
from rankgrad.run import NotFinite


class TrainedCell(NamedTuple):
    """The trained ranker of a cell, and the record of its training."""

    model: TrainedModel
    device: str
    validation: dict[str, float]  # value by metric; empty without validation lists
    epoch: int  # number of the epoch, or number of trees, of the model
    history: list[dict[str, Any]]  # one row per epoch or tree; the key `epoch` has the number of the epoch or tree
    learned: dict[str, Any]  # parameters that the loss has learned
    parameters: int  # number of parameters of the ranker
    versions: dict[str, str]


def run_cell(
    cell: Cell,
    folder: str | os.PathLike[str],
    root: str | os.PathLike[str] | None = None,
    *,
    device: str | None = None,
    cache: str | os.PathLike[str] | None = None,
) -> None:
    """Run a cell and write `cells/<key>.json`; for a final cell, also write `cells/<key>.npz`.

    A tuning cell never uses the test lists. If the loss of a tuning cell is not finite, the validation value
    of the result is NaN. In a final cell, a loss that is not finite is an error.

    Args:
        cell: cell to run; a cell that has a result is not run again.
        folder: folder of the results.
        root: folder of the data sets.
        device: device to use; None: the device in the cell's settings, or the CPU if the settings have no device. The
            device is written to the result, but does not change the key of the cell.
        cache: folder for memory-mapped copies of the data.
    """
    import torch

    path = result_file(cell, Path(folder))
    if path.exists():
        return
    splits, warned = _read_lists(cell.data, cell.binary, cell.fold, _text(root), _text(cache))
    data, validation = splits.train, splits.validation
    if cell.refit and validation is not None:
        data, validation = join_lists([data, validation]), None
    exact = provenance.reset_peak()
    began, trained, error = time.perf_counter(), None, None
    try:
        trained = _train(cell, data, validation, device)
    except NotFinite as failure:
        if cell.stage != "tune":
            raise
        error = str(failure)
    seconds = time.perf_counter() - began
    test: Mapping[str, float] = {}
    if trained is not None and cell.stage == "final":
        assert splits.test is not None  # `read_recipe_data` checks it
        test, arrays = _evaluate(cell, trained.model, splits.test)
        write_bytes(path.with_suffix(".npz"), npz_bytes(arrays))
    record = {
        "format": FORMAT,
        "cell": cell.to_json(),
        "validation": {cell.settings.get("metric", "nDCG@10"): math.nan},
        "test": dict(test),
        "epoch": 0,
        "history": [],
        "learned": {},
        "parameters": 0,
        "device": device or cell.settings.get("device", "cpu"),
        "versions": provenance.versions(),
        **({} if trained is None else _training_record(trained)),
        "seconds": round(seconds, 3),
        "epoch_seconds": _median([row["seconds"] for row in trained.history if "seconds" in row]) if trained else 0.0,
        "peak_memory": provenance.peak_memory(),
        "peak_memory_of": "cell" if exact else "process",
        "threads": torch.get_num_threads(),
        "warnings": list(warned),
        "error": error,
        "commit": provenance.commit(),
        "machine": provenance.machine(),
        "finished": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    write_json(path, _finite(record))
    failure_file(cell, Path(folder)).unlink(missing_ok=True)


def _train(cell: Cell, data: Dataset, validation: Dataset | None, device: str | None = None) -> TrainedCell:
    """Train the ranker of a cell; `device` replaces the device in the settings of the cell."""
    kind = kind_of(cell.settings["model"])
    settings = kind.on_device(cell.settings, device or cell.settings.get("device", "cpu"))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "adapt=.* is deprecated")  # a recipe describes an experiment as it was
        model = kind.fit(settings, data, validation, progress=False)
    history = [{"epoch" if key == kind.unit else key: row[key] for key in row} for row in model.history]
    validated = {} if validation is None else model.validated(validation, cell.settings.get("metric", "nDCG@10"))
    versions = {**provenance.versions(), **kind.versions(settings)}
    used = settings.get("device", "cpu")
    return TrainedCell(model, used, validated, model.kept, history, model.metrics.get("loss", {}), model.size, versions)


@lru_cache(maxsize=2)
def _read_lists(
    data: str, binary: bool, fold: int | None, root: str | None, cache: str | None
) -> tuple[Splits, tuple[str, ...]]:
    """Return the lists of a cell, and the warnings of the reader. Both are cached for later cells of this process."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        splits = data_sets.read_recipe_data(data, binary=binary, fold=fold, root=root, cache=cache)
    texts = [str(warning.message) for warning in caught if issubclass(warning.category, UserWarning)]
    return splits, tuple(dict.fromkeys(texts))


def _evaluate(cell: Cell, model: TrainedModel, test: Dataset) -> tuple[dict[str, float], dict[str, Any]]:
    """Evaluate a final cell on the test lists; return the mean by metric, and the arrays of the result.

    The metrics of text data sets are computed as in trec_eval, with all qrels: see `evaluate_lists`.
    """
    scores = model.score_lists(test)
    found = evaluate_lists(scores, test, cell.metrics, bootstrap=0)
    return found.means, {"queries": np.asarray(found.queries).astype(str), **found.values, "scores": scores}


def _training_record(trained: TrainedCell) -> dict[str, Any]:
    return {name: value for name, value in trained._asdict().items() if name != "model"}


def _median(seconds: list[float]) -> float:
    """Return the median of the seconds per epoch of a cell, or 0 if no times are known.

    A mean would include the compilation of kernels.
    """
    return float(np.median(seconds)) if seconds else 0.0


def _finite(value: Any) -> Any:
    """Replace NaN and infinite numbers of a result by None, because JSON has no such numbers."""
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _text(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else str(path)
