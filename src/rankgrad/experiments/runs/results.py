"""Read and write the results of cells: a folder with one JSON file and one `.npz` file per cell, or one packed file."""

import io
import json
import lzma
import os
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.atomic_files import write_bytes
from rankgrad.errors import bad_value
from rankgrad.experiments.recipes.recipe import Recipe, load_recipe, parse_recipe
from rankgrad.experiments.recipes.yaml_file import parse_yaml
from rankgrad.experiments.runs.cell import FORMAT, Cell
from rankgrad.experiments.runs.packed_results import archive_members, read_npz
from rankgrad.experiments.runs.result_checks import check_record
from rankgrad.metrics import parse_metric

RECIPE, CELLS, FAILED, PACKED = "recipe.yaml", "cells", "failed", ".tar.xz"
_MEMBERS = re.compile(rf"{RECIPE}|{CELLS}/[0-9a-f]{{16}}\.(json|npz)")

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class CellResult:
    """Result of one cell. The values per query are read from disk when they are first used."""

    cell: Cell
    validation: dict[str, float]  # value by metric; NaN if the loss was not finite; a run with NaN is never chosen
    test: dict[str, float]  # mean by metric; empty for tuning cells, which never use the test lists
    epoch: int  # number of the epoch (or number of trees) of the final model
    history: list[dict[str, Any]]  # one row per epoch or tree
    learned: dict[str, Any]  # parameters that the loss has learned
    seconds: float  # seconds of training; the first run of a process also loads libraries and compiles kernels
    peak_memory: int  # peak memory in bytes
    parameters: int  # number of parameters of the ranker
    commit: str
    versions: dict[str, str]  # versions of Python and of packages
    machine: str
    finished: str  # date and time in UTC
    epoch_seconds: float = 0.0  # median of the seconds per epoch, without validation
    peak_memory_of: str = "cell"  # "cell" or "process"; the peak of a process may include earlier cells
    device: str = "cpu"
    threads: int = 1  # number of threads of PyTorch
    warnings: tuple[str, ...] = ()  # warnings from reading the data
    error: str | None = None  # message if the loss was not finite
    arrays: Callable[[], Arrays] = field(default=dict, repr=False, compare=False)  # function that reads the arrays
    file: str = field(default="result", repr=False, compare=False)  # name of the file in error messages

    def values(self, metric: str) -> NDArray[np.float64]:
        """Return the value of a metric of the cell for each test query, `(lists,)`; NaN for a skipped query."""
        return np.asarray(self._array(str(parse_metric(metric))), dtype=np.float64)

    @property
    def queries(self) -> NDArray[np.str_]:
        """Ids of the test queries of the cell, `(lists,)`."""
        return self._array("queries")

    @property
    def scores(self) -> NDArray[np.float32]:
        """Scores of the test documents of the cell, in the order of the data, `(documents,)`."""
        return self._array("scores")

    @cached_property
    def _read(self) -> Arrays:
        return self.arrays()

    def _array(self, name: str) -> Any:
        if name not in self._read:
            kept = ", ".join(self._read) or "none"
            bad_value(f"the result of {self.cell} ({self.file})", f"contain the array {name!r}", f"arrays: {kept}")
        return self._read[name]


@dataclass(frozen=True)
class Results:
    """Results of the cells of a recipe, in the order of the recipe; results of other recipes are left out."""

    recipe: Recipe | None
    cells: list[CellResult]
    missing: list[Cell]  # cells without a result; a final cell is listed only after its tuning cells have run
    failed: dict[str, str] = field(default_factory=dict)  # traceback of each failed cell, by its key

    def final(self) -> list[CellResult]:
        """Return the results of the final cells, from which the table is computed."""
        return [result for result in self.cells if result.cell.stage == "final"]

    def tuned(self) -> list[CellResult]:
        """Return the results of the tuning cells, from which the settings are chosen."""
        return [result for result in self.cells if result.cell.stage == "tune"]


def read_results(path: str | os.PathLike[str], recipe: Recipe | None = None) -> Results:
    """Read the results of a recipe from a folder, or from a file that `pack` wrote.

    Args:
        path: path of the folder or file.
        recipe: recipe to use instead of the recipe in the folder; several recipes may share a folder.

    Example:
        >>> read_results("no/such/results")
        Traceback (most recent call last):
        ValueError: results must be a folder with recipe.yaml and cells, or a packed .tar.xz file; got no/such/results
    """
    path = Path(path)
    if path.is_dir() and ((path / CELLS).is_dir() or (path / RECIPE).is_file()):
        if recipe is None and (path / RECIPE).is_file():
            recipe = replace(load_recipe(path / RECIPE), name=_named(path))
        failed = {file.stem: file.read_text(encoding="utf-8") for file in sorted((path / FAILED).glob("*.txt"))}
        return _in_recipe_order(recipe, {each.cell.key: each for each in _read_result_files(path)}, failed)
    if path.is_file() and path.name.endswith(PACKED):
        content = _members(path)
        found = {}
        for name in [name for name in content if name.endswith(".json")]:
            arrays = name.removesuffix("json") + "npz"
            result = _parse_result(content[name], f"{path}: {name}", _lazily(content.get(arrays), f"{path}: {arrays}"))
            found[result.cell.key] = result
        if recipe is None and RECIPE in content:
            where = f"{path}: {RECIPE}"
            recipe = parse_recipe(parse_yaml(content[RECIPE], where), _named(path), where)
        return _in_recipe_order(recipe, found, {})
    bad_value("results", f"be a folder with {RECIPE} and {CELLS}, or a packed {PACKED} file", path)


def chosen_results(recipe: Recipe, results: Mapping[str, CellResult]) -> list[Any]:
    """Return the best tuning result of each data set, fold, ranker and loss of a recipe, by its validation value.

    A row is left out until all settings of the row have been tried. Therefore all rows are tuned equally.
    """
    waiting = {cell.group for cell in recipe.cells_to_tune() if cell.key not in results}
    return recipe.chosen(each for each in results.values() if each.cell.group not in waiting)


def result_file(cell: Cell, folder: Path) -> Path:
    """Return the path of a cell's result file; the arrays of the result are in the `.npz` file of the same name."""
    return folder / CELLS / f"{cell.key}.json"


def failure_file(cell: Cell, folder: Path) -> Path:
    """Return the path of the file that contains the traceback of a failed cell."""
    return folder / FAILED / f"{cell.key}.txt"


def read_cell_result(cell: Cell, folder: Path) -> CellResult | None:
    """Read the result of a cell from the results folder; return None if there is no result."""
    path = result_file(cell, folder)
    return _read_result_file(path) if path.is_file() else None


def pack(
    folder: str | os.PathLike[str], file: str | os.PathLike[str], *, scores: bool = False, history: bool = True
) -> int:
    """Write all results of a folder to one small `.tar.xz` file, which `unpack` reads.

    Values per query become float32. Scores are left out by default. Equal results give equal files. If `history` is
    False, the file is smaller: only the learning curves of final runs with seed 0 are written, and the numbers of these
    curves and the values per query are rounded to four digits.

    Returns:
        Number of results.
    """
    folder = Path(folder)
    keys = [path.stem for path in _files(folder) if _read_result_file(path)]
    members: dict[str, bytes] = {}
    if (folder / RECIPE).is_file():
        members[RECIPE] = (folder / RECIPE).read_bytes()
    for key in keys:
        record = json.loads((folder / CELLS / f"{key}.json").read_text(encoding="utf-8"))
        if not history:
            curves = record["cell"]["stage"] == "final" and not record["cell"]["settings"].get("seed", 0)
            record["history"] = [_short_numbers(row) for row in record["history"]] if curves else []
        members[f"{CELLS}/{key}.json"] = json.dumps(record, separators=(",", ":")).encode()
        if (folder / CELLS / f"{key}.npz").is_file():
            path = folder / CELLS / f"{key}.npz"
            arrays = read_npz(path, str(path))
            wanted = {name: array for name, array in arrays.items() if scores or name != "scores"}
            small = {name: _small(array, rounded=not history) for name, array in wanted.items()}
            members[f"{CELLS}/{key}.npz"] = npz_bytes(small)
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    write_bytes(Path(file), lzma.compress(whole.getvalue(), preset=9))
    return len(keys)


def _small(array: NDArray[Any], rounded: bool) -> NDArray[Any]:
    if array.dtype.kind != "f":
        return array
    return (np.round(array, 4) if rounded else array).astype(np.float32)


def _short_numbers(row: dict[str, Any]) -> dict[str, Any]:
    return {name: float(f"{value:.4g}") if isinstance(value, float) else value for name, value in row.items()}


def unpack(file: str | os.PathLike[str], folder: str | os.PathLike[str]) -> None:
    """Write the results of a packed file to a folder; existing files are not replaced."""
    content = _members(Path(file))
    # Arrays are written first, because a cell with a JSON file counts as done.
    for name in sorted(content, key=lambda name: name.endswith(".json")):
        if not (Path(folder) / name).exists():
            write_bytes(Path(folder) / name, content[name])


def npz_bytes(arrays: Arrays) -> bytes:
    """Return the bytes of an `.npz` file with the arrays of a result."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def _in_recipe_order(recipe: Recipe | None, results: dict[str, CellResult], failed: dict[str, str]) -> Results:
    if recipe is None:
        return Results(None, list(results.values()), [], failed)
    wanted = [*recipe.cells_to_tune(), *recipe.final_cells(chosen_results(recipe, results))]
    missing = [cell for cell in wanted if cell.key not in results]
    failed = {cell.key: failed[cell.key] for cell in missing if cell.key in failed}
    return Results(recipe, [results[cell.key] for cell in wanted if cell.key in results], missing, failed)


def _read_result_files(folder: Path) -> Iterator[CellResult]:
    yield from map(_read_result_file, _files(folder))


def _files(folder: Path) -> list[Path]:
    """Return the paths of the result files in a results folder, sorted by name."""
    return [path for path in sorted((folder / CELLS).glob("*.json")) if re.fullmatch(r"[0-9a-f]{16}", path.stem)]


def _read_result_file(path: Path) -> CellResult:
    arrays = path.with_suffix(".npz")
    return _parse_result(path.read_bytes(), str(path), _lazily(arrays, str(arrays)))


def _parse_result(content: bytes, name: str, arrays: Callable[[], Arrays]) -> CellResult:
    """Parse the JSON of a result; `name` is the name of the file in error messages."""
    try:
        record = json.loads(content)
        if isinstance(record, dict) and record.get("format") != FORMAT:
            bad_value("format", f"be {FORMAT}", record.get("format"))
        record = check_record(record)
        names = {each.name for each in fields(CellResult)} - {"cell", "arrays", "file"}
        known = {key: value for key, value in record.items() if key in names}
        for kind in ("validation", "test"):
            known[kind] = {metric: nan if value is None else value for metric, value in known[kind].items()}
        known["warnings"] = tuple(known.get("warnings", ()))
        return CellResult(cell=Cell.of(record["cell"]), arrays=arrays, file=name, **known)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        how = "delete the file, and run the experiment again"
        bad_value(name, f"be the result of a cell ({how})", f"the error {error}")


def _lazily(source: Path | bytes | None, name: str) -> Callable[[], Arrays]:
    def load() -> Arrays:
        if source is None or (isinstance(source, Path) and not source.is_file()):
            return {}
        return read_npz(source, name)

    return load


def _members(file: Path) -> dict[str, bytes]:
    return {name: content for name, content in archive_members(file) if _MEMBERS.fullmatch(name)}


def _named(path: Path) -> str:
    return path.resolve().name.removesuffix(PACKED)
