"""All cells of a recipe, in a folder: tuned, chosen, run with every seed. What is done is not done again."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rankgrad.atomic_files import clear_leftovers, write_bytes
from rankgrad.experiments.recipes.recipe import Recipe
from rankgrad.experiments.runs.cell import Cell
from rankgrad.experiments.runs.process_pool import Runner, Task
from rankgrad.experiments.runs.results import (
    CELLS,
    FAILED,
    RECIPE,
    CellResult,
    chosen,
    failure_file,
    outcome_file,
    outcome_of,
)
from rankgrad.experiments.runs.run_cell import run_cell
from rankgrad.lock import locked


class CellProgress(NamedTuple):
    """A cell is done, or has failed."""

    cell: Cell
    outcome: CellResult | None
    error: str | None  # the traceback of a cell that failed
    done: int  # cells so far, with those of earlier runs
    total: int  # cells of the whole recipe


def run_recipe(
    recipe: Recipe,
    folder: str | os.PathLike[str],
    runner: Runner,
    *,
    root: str | os.PathLike[str] | None = None,
    device: str | None = None,
    cache: str | os.PathLike[str] | None = None,
) -> Iterator[CellProgress]:
    """Run what is left of a recipe, and say so cell by cell.

    First the tuning cells. A row is chosen only when all its settings have been tried, so that tuning is equal; then
    its final cells follow. A cell that fails leaves its traceback in `failed/`, and is tried again by the next run.

    Args:
        recipe: what to run; all its data must be there.
        folder: of the results.
        runner: what runs the tasks.
        root, device, cache: as for `run`.
    """
    folder = Path(folder).absolute()
    # Absolute: a process elsewhere has another current folder.
    where = (str(folder), _absolute(root if root is not None else os.environ.get("RANKGRAD_DATA", ".")))
    options = (device, None if cache is None else _absolute(cache))
    total, done = len(recipe.cells_to_tune()) + recipe.final_count, 0
    for cells in _stages(recipe, folder):
        left = {cell.key: cell for cell in cells if not outcome_file(cell, folder).exists()}
        done += len(cells) - len(left)
        tasks = [Task(cell.key, _task, (cell, *where, *options), cell.lists) for cell in left.values()]
        for finished in runner(tasks):
            cell, error = left[finished.task.name], finished.error
            outcome = None if error else outcome_of(cell, folder)
            if outcome is None:
                path = outcome_file(cell, folder)
                error = error or f"{path} was not written here: all machines must share this folder\n"
                write_bytes(failure_file(cell, folder), f"{cell}\n\n{error}".encode())
            done += 1
            yield CellProgress(cell, outcome, error, done, total)


def _stages(recipe: Recipe, folder: Path) -> Iterator[list[Cell]]:
    """The tuning cells; and then, by what these have come to, the final ones."""
    tuning = recipe.cells_to_tune()
    yield tuning
    tried = {cell.key: found for cell in tuning if (found := outcome_of(cell, folder)) is not None}
    yield recipe.final_cells(chosen(recipe, tried))


@contextmanager
def opened(recipe: Recipe, folder: Path) -> Iterator[None]:
    """The folder for one run at a time: with the recipe in it, and without what a killed run left half-written."""
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
