"""A recipe that takes a second to run, on lists that are made up; and what tests of experiments do with one."""

import programs
import torch

from rankgrad.experiments import parse_recipe
from rankgrad.experiments.runs import run_recipe
from rankgrad.experiments.runs.cell import Cell
from rankgrad.experiments.runs.results import read_results
from rankgrad.parallel import process_pool
from rankgrad.parallel.process_pool import run_in_this_process

TINY = "synthetic:lists=30,features=12"


RECIPE = {
    "title": "Tiny", "answers": None, "data": [TINY], "models": {"Linear": {"model": "linear"}},
    "losses": {"MSE": "mse", "Cosine": "rank_cosine"}, "settings": {"epochs": 3, "batch_size": 8},
    "search": {"lr": [0.001, 0.01, 0.1]}, "trials": 2, "seeds": [0, 1], "metrics": ["nDCG@10", "AP(empty='skip')"],
    "smoke": {"seeds": [0], "trials": 1},
}  # fmt: skip


CELL = Cell(
    TINY, False, None, "Linear", "MSE", None, {"model": "linear", "loss": "mse", "epochs": 2, "seed": 0},
    ("nDCG@10", "P@3"), "final", False, 0,
)  # fmt: skip


def one_thread():
    """A fixture: torch as in a pool, so that the digits are the same."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def whole_run(tmp_path_factory):
    """A fixture: the folder of a run that nothing stopped, one for all tests, none of which may change it."""
    folder = tmp_path_factory.getbasetemp() / "whole"
    go(RECIPE, folder)  # what is done is not done again
    return folder


def no_processes(monkeypatch):
    """A fixture: a pool that works in this process, for tests of what the commands print."""
    monkeypatch.setattr(process_pool.Pool, "run", lambda _, tasks, until=None: run_in_this_process(tasks, until))


def go(recipe, folder, runner=run_in_this_process):
    """Run what is left; the steps."""
    recipe = parse_recipe(recipe)
    with run_recipe.lock_results(recipe, folder):
        return list(run_recipe.run_recipe(recipe, folder, runner))


def numbers(folder):
    """All that must be the same, however the runs went: everything but times and memory."""
    found = {}
    for each in read_results(folder).cells:
        history = [{name: value for name, value in row.items() if "seconds" not in name} for row in each.history]
        arrays = {name: array.tobytes() for name, array in each.arrays().items()}
        found[each.cell.key] = (each.validation, each.test, each.epoch, history, arrays)
    return found


def slower(epochs, seeds=2):
    """A recipe of so long or so many cells that a kill hits some of them."""
    return {**RECIPE, "seeds": [*range(seeds)], "settings": {"epochs": epochs, "batch_size": 2, "patience": None}}


def invoke(*arguments):
    """The result of a command, which may end with a failure."""
    done = programs.invoke(*arguments)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done
