"""Write and read a small summary of an experiment: the first metric per query, and means of the other metrics.

`pack` stores complete results. A summary stores only the numbers that tables and tests need. For thousands of runs, it
is one file of a few hundred kilobytes. A value has 16 bits. The values of a query are next to each other, because a
query has similar values in most runs, and similar values are compressed well.
"""

import json
import lzma
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.atomic_files import write_bytes
from rankgrad.errors import bad_value
from rankgrad.experiments.recipes.recipe import Recipe, parse_recipe
from rankgrad.experiments.recipes.yaml_file import parse_yaml
from rankgrad.experiments.runs.results import CellResult, Results
from rankgrad.experiments.seed_variance import RunValues

SUMMARY = ".summary.xz"
FORMAT = 1
_LARGEST = 65_000  # largest stored value; 65,535 is NaN
_MISSING = 65_535


@dataclass(frozen=True)
class RowSummary:
    """Final runs of one ranker with one loss on one data set, all folds and seeds."""

    data: str  # name of the data set in tables
    model: str
    loss: str
    values: RunValues  # values of the first metric
    means: Mapping[str, NDArray[np.float64]]  # mean over the queries, (folds, seeds), by metric
    chosen: tuple[Mapping[str, Any], ...]  # searched settings that validation chose, per fold
    trials: int  # number of combinations of settings that were tried per fold
    seconds: float  # mean seconds of training per run
    epoch_seconds: float  # seconds per epoch, median over the runs; 0 if unknown


@dataclass(frozen=True)
class Summary:
    """Summary of the final runs of an experiment."""

    recipe: Recipe
    metric: str  # metric whose values per query are stored
    rows: tuple[RowSummary, ...]
    runs: int  # number of runs, including tuning
    missing: int  # number of runs without a result; incomplete rows are left out
    seconds: float  # total seconds of training
    commits: Mapping[str, int]  # number of runs per commit
    machines: Mapping[str, int]  # number of runs per machine

    def row(self, data: str, model: str, loss: str) -> RowSummary:
        """Return the row of the summary for a data set, a ranker and a loss."""
        for each in self.rows:
            if (each.data, each.model, each.loss) == (data, model, loss):
                return each
        bad_value("row", "be a row of the summary (data set, ranker, loss)", repr((data, model, loss)))


def write_summary(results: Results, file: str | os.PathLike[str]) -> int:
    """Write the summary of an experiment from its results; return the number of complete rows."""
    recipe = results.recipe
    if recipe is None:
        bad_value("results", "contain a recipe", "none")
    metric = recipe.metrics[0]
    final: dict[tuple[str, str, str], list[CellResult]] = {}
    for run in results.final():
        final.setdefault((run.cell.label, run.cell.model, run.cell.loss), []).append(run)
    rows: list[dict[str, Any]] = []
    blocks: list[NDArray[np.uint16]] = []
    for source in recipe.data:
        for row in recipe.rows(source):
            runs = final.get((source.label, row.model, row.loss), [])
            seeds = row.seeds(source)
            if len(runs) != len(source.folds) * len(seeds):
                continue
            values = RunValues.of(runs, metric)
            found, scale = _stored(values.values)
            places = {(run.cell.fold, run.cell.seed): run for run in runs}
            ordered = [[places[fold, seed] for seed in seeds] for fold in source.folds]
            rows.append(
                {
                    "data": source.label,
                    "model": row.model,
                    "loss": row.loss,
                    "scale": scale,
                    "shape": found.shape,
                    "folds": np.unique(values.folds, return_counts=True)[1].tolist(),
                    "means": {
                        name: [[round(run.test[name], 6) for run in part] for part in ordered]
                        for name in recipe.metrics
                    },
                    "chosen": [_searched(recipe, part[0]) for part in ordered],
                    "trials": len(recipe.trials_of(row)) * len(row.variants),
                    "seconds": round(float(np.mean([run.seconds for run in runs])), 3),
                    "epoch_seconds": round(float(np.median([run.epoch_seconds for run in runs])), 5),
                }
            )
            blocks.append(found)
    header = {
        "format": FORMAT,
        "recipe": recipe.dump(),
        "name": recipe.name,
        "metric": metric,
        "rows": rows,
        "runs": len(results.cells),
        "missing": len(results.missing),
        "seconds": round(sum(run.seconds for run in results.cells), 1),
        "commits": Counter(run.commit for run in results.cells),
        "machines": Counter(run.machine for run in results.cells),
    }
    # Rows of the same lists are next to each other for every query, because their values are similar.
    body = b"".join(np.concatenate(part).T.tobytes() for part in _same_lists(rows, blocks))
    text = json.dumps(header, separators=(",", ":")).encode() + b"\n"
    write_bytes(Path(file), lzma.compress(text + body, preset=9))
    return len(rows)


def read_summary(file: str | os.PathLike[str]) -> Summary:
    """Read a summary of an experiment, which `write_summary` wrote."""
    try:
        text, _, body = lzma.decompress(Path(file).read_bytes()).partition(b"\n")
        header = json.loads(text)
        if header["format"] != FORMAT:
            bad_value("format", f"be {FORMAT}", header["format"])
        recipe = parse_recipe(parse_yaml(header["recipe"].encode(), str(file)), header["name"])
        rows = header["rows"]
        values = np.frombuffer(body, dtype=np.uint16)
        if len(values) != sum(row["shape"][0] * row["shape"][1] for row in rows):
            bad_value("number of values", "match the rows of the summary", len(values))
        found: dict[int, NDArray[np.uint16]] = {}
        for places in _groups(rows):
            seeds, queries = sum(rows[place]["shape"][0] for place in places), rows[places[0]]["shape"][1]
            block, values = values[: seeds * queries].reshape(queries, seeds).T, values[seeds * queries :]
            for place in places:
                found[place], block = block[: rows[place]["shape"][0]], block[rows[place]["shape"][0] :]
        made = tuple(_row(row, found[place]) for place, row in enumerate(rows))
        known = {name: header[name] for name in ("metric", "runs", "missing", "seconds", "commits", "machines")}
        return Summary(recipe=recipe, rows=made, **known)
    except (lzma.LZMAError, ValueError, LookupError, TypeError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
        bad_value(str(file), "be a summary of an experiment", f"the error {why}")


def _row(row: Mapping[str, Any], stored: NDArray[np.uint16]) -> RowSummary:
    values = np.where(stored == _MISSING, np.nan, stored * row["scale"])
    folds = np.repeat(np.arange(len(row["folds"])), row["folds"])
    means = {name: np.asarray(numbers) for name, numbers in row["means"].items()}
    rest = {name: row[name] for name in ("data", "model", "loss", "trials", "seconds")}
    rest["epoch_seconds"] = row.get("epoch_seconds", 0.0)  # summaries of early versions do not have it
    return RowSummary(values=RunValues(values, folds), means=means, chosen=tuple(row["chosen"]), **rest)


def _stored(values: NDArray[np.float64]) -> tuple[NDArray[np.uint16], float]:
    """Return the values of a summary as 16-bit integers, and their unit: 0.0001, or more if a value is above 6.5."""
    if (values < 0).any():
        bad_value(
            "metric",
            "have no negative values, because a summary cannot store negative values",
            float(np.nanmin(values)),
        )
    scale = max(1e-4, float(np.nanmax(values, initial=0.0)) / _LARGEST)
    return np.where(np.isnan(values), _MISSING, np.round(np.nan_to_num(values) / scale)).astype(np.uint16), scale


def _groups(rows: list[dict[str, Any]]) -> list[list[int]]:
    """Return, for each data set of the summary, the indices of its rows."""
    groups: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        groups.setdefault(row["data"], []).append(place)
    return list(groups.values())


def _same_lists(rows: list[dict[str, Any]], blocks: list[NDArray[np.uint16]]) -> list[list[NDArray[np.uint16]]]:
    return [[blocks[place] for place in places] for places in _groups(rows)]


def _searched(recipe: Recipe, run: CellResult) -> dict[str, Any]:
    """Return, for the summary, the searched settings of a run and, if the loss has variants, the variant."""
    model = {**recipe.models, **{k: v for source in recipe.data for k, v in source.models.items()}}[run.cell.model]
    found = {name: run.cell.settings[name] for name in model.searched(recipe.search) if name in run.cell.settings}
    return found | ({"loss": run.cell.variant} if run.cell.variant is not None else {})
