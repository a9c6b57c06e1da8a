"""Run all cells of a recipe: tune, choose settings, run final cells. Cells with a result are not run again."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rankgrad.atomic_files import clear_leftovers, write_bytes
from rankgrad.experiments.recipes.recipe import Recipe
from rankgrad.experiments.runs.cell import Cell
from rankgrad.experiments.runs.results import (
    CELLS,
    FAILED,
    RECIPE,
    CellResult,
    chosen_results,
    failure_file,
    read_cell_result,
    result_file,
)
from rankgrad.experiments.runs.run_cell import run_cell
from rankgrad.lock import locked
from rankgrad.parallel.process_pool import Runner, Task


class CellProgress(NamedTuple):
    """Progress of an experiment, after a cell is done or has failed."""

    cell: Cell
    result: CellResult | None  # None if the cell has failed
    error: str | None  # traceback of a failed cell; otherwise None
    done: int  # number of cells that are done or have failed, including those of earlier runs
    total: int  # number of cells of the recipe


def run_recipe(
    recipe: Recipe,
    folder: str | os.PathLike[str],
    runner: Runner,
    *,
    root: str | os.PathLike[str] | None = None,
    device: str | None = None,
    cache: str | os.PathLike[str] | None = None,
) -> Iterator[CellProgress]:
    """Run the cells of a recipe, and yield the progress after each cell; a cell that has a result is not run again.

    The tuning cells are run first. The final cells of a row are run only after all settings of the row have been
    tried. Therefore all rows are tuned equally. The traceback of a failed cell is written to `failed/`. The next call
    runs this cell again.

    Args:
        recipe: recipe to run; all its data sets must exist.
        folder: folder of the results.
        runner: function that runs the tasks, such as `Pool.run`.
        root, device, cache: arguments of `run_cell`.
    """
    folder = Path(folder).absolute()
    # The paths must be absolute, because a process on another machine may have a different current folder.
    where = (str(folder), _absolute(root if root is not None else os.environ.get("RANKGRAD_DATA", ".")))
    options = (device, None if cache is None else _absolute(cache))
    total, done = len(recipe.cells_to_tune()) + recipe.final_count, 0
    for cells in _stages(recipe, folder):
        left = {cell.key: cell for cell in cells if not result_file(cell, folder).exists()}
        done += len(cells) - len(left)
        tasks = [Task(cell.key, _task, (cell, *where, *options), cell.lists) for cell in left.values()]
        for finished in runner(tasks):
            cell, error = left[finished.task.name], finished.error
            result = None if error else read_cell_result(cell, folder)
            if result is None:
                path = result_file(cell, folder)
                how = "all machines must share this folder"
                error = error or f"{path} must exist after the cell has run ({how}); got no such file\n"
                write_bytes(failure_file(cell, folder), f"{cell}\n\n{error}".encode())
            done += 1
            yield CellProgress(cell, result, error, done, total)


def _stages(recipe: Recipe, folder: Path) -> Iterator[list[Cell]]:
    """Yield first the tuning cells of a recipe, then its final cells, whose settings depend on the tuning results."""
    tuning = recipe.cells_to_tune()
    yield tuning
    tried = {cell.key: found for cell in tuning if (found := read_cell_result(cell, folder)) is not None}
    yield recipe.final_cells(chosen_results(recipe, tried))


@contextmanager
def lock_results(recipe: Recipe, folder: Path) -> Iterator[None]:
    """Lock the results folder of a recipe, remove incomplete files of killed runs, and write the recipe file."""
    with locked(folder):
        for place in (folder / CELLS, folder / FAILED):
            clear_leftovers(place)
        text = recipe.dump().encode()
        if not (folder / RECIPE).is_file() or (folder / RECIPE).read_bytes() != text:
            write_bytes(folder / RECIPE, text)
        yield


def _task(cell: Cell, folder: str, root: str | None, device: str | None, cache: str | None) -> None:
    run_cell(cell, folder, root, device=device, cache=cache)


def _absolute(path: str | os.PathLike[str]) -> str:
    return str(Path(path).absolute())
