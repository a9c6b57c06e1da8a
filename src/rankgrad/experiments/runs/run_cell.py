"""Run one cell: read its lists, train, judge, write what it came to. Doing it again does nothing."""

import math
import os
import time
import warnings
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from rankgrad.atomic_files import write_bytes, write_json
from rankgrad.data import Dataset, Splits
from rankgrad.experiments.recipes import data_sets
from rankgrad.experiments.runs import provenance
from rankgrad.experiments.runs.cell import FORMAT, Cell
from rankgrad.experiments.runs.results import failure_file, npz, outcome_file
from rankgrad.experiments.runs.train_cell import TrainedCell, ranker_of
from rankgrad.metrics import evaluate
from rankgrad.models.protocol import NotFinite, TrainedModel


def run_cell(
    cell: Cell,
    folder: str | os.PathLike[str],
    root: str | os.PathLike[str] | None = None,
    *,
    device: str | None = None,
    cache: str | os.PathLike[str] | None = None,
) -> None:
    """Run a cell and write `cells/<key>.json`, for a final cell with `cells/<key>.npz` beside it.

    A tuning cell never looks at the test lists. One whose loss is not finite has been tried, too: it comes to NaN on
    validation. A final cell like that is an error.

    Args:
        cell: what to run; nothing is done if its result is there.
        folder: of the results.
        root: the folder that the data sets lie in.
        device: instead of the one in the cell's settings, which is the CPU unless they say so. It is noted in the
            result, and is no part of the key.
        cache: a folder for memory-mapped copies of the data.
    """
    import torch

    done = outcome_file(cell, Path(folder))
    if done.exists():
        return
    splits, said = _lists(cell.data, cell.binary, cell.fold, _text(root), _text(cache))
    data, validation = splits.train, splits.validation
    if cell.refit and validation is not None:
        data, validation = _joined(data, validation), None
    exact = provenance.forget_peak()
    began, trained, error = time.perf_counter(), None, None
    try:
        trained = ranker_of(cell, data, validation, device)
    except NotFinite as failure:
        if cell.stage != "tune":
            raise
        error = str(failure)
    seconds = time.perf_counter() - began
    test: Mapping[str, float] = {}
    if trained is not None and cell.stage == "final":
        test, arrays = _judge(cell, trained.model, splits.test)
        write_bytes(done.with_suffix(".npz"), npz(arrays))
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
        **({} if trained is None else _said(trained)),
        "seconds": round(seconds, 3),
        "epoch_seconds": _median([row["seconds"] for row in trained.history if "seconds" in row]) if trained else 0.0,
        "peak_memory": provenance.peak_memory(),
        "peak_memory_of": "cell" if exact else "process",
        "threads": torch.get_num_threads(),
        "warnings": list(said),
        "error": error,
        "commit": provenance.commit(),
        "machine": provenance.machine(),
        "finished": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    write_json(done, _finite(record))
    failure_file(cell, Path(folder)).unlink(missing_ok=True)


@lru_cache(maxsize=2)
def _lists(
    data: str, binary: bool, fold: int | None, root: str | None, cache: str | None
) -> tuple[Splits, tuple[str, ...]]:
    """A cell's lists, and what was warned about; a process that runs many cells reads them once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        splits = data_sets.read_cell_data(data, binary=binary, fold=fold, root=root, cache=cache)
    said = [str(warning.message) for warning in caught if issubclass(warning.category, UserWarning)]
    return splits, tuple(dict.fromkeys(said))


def _joined(train: Dataset, validation: Dataset) -> Dataset:
    """The lists of both."""
    return replace(
        train,
        features=np.concatenate([train.features, validation.features]),
        labels=np.concatenate([train.labels, validation.labels]),
        offsets=np.concatenate([train.offsets, validation.offsets[1:] + train.offsets[-1]]),
        qids=np.concatenate([train.qids, validation.qids]),
        docids=None,
        best=None,
    )


def _judge(cell: Cell, model: TrainedModel, test: Dataset) -> tuple[dict[str, float], dict[str, Any]]:
    """Means by metric, and the arrays that are kept: queries, values of each, scores."""
    scores = model.score(test.features, test.offsets)
    found = evaluate(scores, np.asarray(test.labels), cell.metrics, offsets=test.offsets, bootstrap=0)
    return found.means, {"queries": np.asarray(test.qids).astype(str), **found.values, "scores": scores}


def _said(trained: TrainedCell) -> dict[str, Any]:
    return {name: value for name, value in trained._asdict().items() if name != "model"}


def _median(seconds: list[float]) -> float:
    """The first epoch of a process may compile kernels: a median does not see that."""
    return float(np.median(seconds)) if seconds else 0.0


def _finite(value: Any) -> Any:
    """The same with None for what JSON has no word for."""
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _text(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else str(path)
