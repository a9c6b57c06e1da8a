"""Recipes are run cell by cell: each once, whole or not at all, whatever dies; settings are searched alike."""

import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
import yaml
from typer.testing import CliRunner

from rankgrad.cli.experiment import experiment
from rankgrad.cli.tune import tune
from rankgrad.data import Dataset, load
from rankgrad.experiments import facts, parse, pool, work
from rankgrad.experiments.cell import Cell
from rankgrad.experiments.pool import Pool, Task, here
from rankgrad.experiments.results import chosen, pack, read, unpack
from rankgrad.experiments.run import run
from rankgrad.experiments.study import study
from rankgrad.experiments.tables import tables
from rankgrad.experiments.tune import Search
from rankgrad.training import Model, Settings, train
from rankgrad.trees import TreeRanker

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

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(experiment)
app.command()(tune)


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """As in a pool, so that the digits are the same."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a run that nothing stopped."""
    folder = tmp_path_factory.mktemp("results") / "whole"
    go(RECIPE, folder)
    return folder


def go(recipe, folder, runner=here):
    """Run what is left; the steps."""
    recipe = parse(recipe)
    with work.opened(recipe, folder):
        return list(work.work(recipe, folder, runner))


def numbers(folder):
    """All that must be the same, however the runs went: everything but times and memory."""
    found = {}
    for each in read(folder).cells:
        history = [{name: value for name, value in row.items() if "seconds" not in name} for row in each.history]
        arrays = {name: array.tobytes() for name, array in each.arrays().items()}
        found[each.cell.key] = (each.validation, each.test, each.epoch, history, arrays)
    return found


APP = """
import typer
from rankgrad.cli.experiment import experiment
from rankgrad.cli.tune import tune
app = typer.Typer(pretty_exceptions_enable=False)
app.command()(experiment)
app.command()(tune)
app()
"""


def program(*arguments, code=APP):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def invoke(*arguments):
    done = CliRunner().invoke(app, [*map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


# A pool of processes.


def die_once(flag):
    if not os.path.exists(flag):
        open(flag, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


def test_a_pool_lives_through_the_death_of_its_processes(tmp_path):
    tasks = [Task("fine", pow, (2, 5)), Task("dies", os._exit, (3,)), Task("fails", int, ("x",))]
    tasks += [Task("dies once", die_once, (str(tmp_path / "flag"),)), Task("late", pow, (3, 2))]
    with Pool(2) as workers:
        done = {each.task.name: each for each in workers.run(tasks)}
        again = [each.value for each in workers.run([Task("more", torch.get_num_threads)])]
    assert (done["fine"].value, done["late"].value, done["dies once"].value) == (32, 9, "alive")
    assert done["dies"].error == "The process died 2 times, with exit status 3.\n"
    assert "ValueError: invalid literal" in done["fails"].error
    assert again == [1]
    assert done.keys() == {task.name for task in tasks}


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def wait_until(condition, seconds=60):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it never came about"
        time.sleep(0.02)


WAITING = """
import os, time
from rankgrad.experiments.pool import Pool, Task
with Pool(1) as pool:
    for done in pool.run([Task("first", os.getpid), Task("then", time.sleep, (600,))]):
        print(done.value, flush=True)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")
def test_processes_do_not_outlive_a_killed_parent():
    parent = program(code=WAITING)
    child = int(parent.stdout.readline())
    assert not gone(child)
    parent.kill()
    parent.wait()
    try:
        wait_until(lambda: gone(child), seconds=10)
    finally:
        if not gone(child):
            os.kill(child, signal.SIGKILL)


# One cell.


def test_a_key_depends_on_everything_and_on_nothing_else():
    others = {"data": "MQ2008", "binary": True, "fold": 2, "model": "M", "loss": "L", "variant": "v", "stage": "tune"}
    others |= {"settings": {**CELL.settings, "seed": 1}, "metrics": ("AP",), "refit": True, "trial": 1}
    assert others.keys() == CELL.to_json().keys()
    keys = {CELL.key, *(replace(CELL, **{name: value}).key for name, value in others.items())}
    assert len(keys) == len(others) + 1
    assert all(re.fullmatch("[0-9a-f]{16}", key) for key in keys)
    assert replace(CELL, settings=dict(reversed(CELL.settings.items()))).key == CELL.key
    assert Cell.of(json.loads(json.dumps(CELL.to_json()))).key == CELL.key == "bbe9697684d430ac"


def test_a_cell_is_run_once_and_keeps_what_the_model_did(tmp_path):
    run(CELL, tmp_path)
    files = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()}
    assert set(files) == {f"{CELL.key}.json", f"{CELL.key}.npz"}
    run(CELL, tmp_path)
    assert files == {path.name: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()}
    (outcome,) = read(tmp_path).cells
    splits = load(TINY)
    model = train(Settings.of({**CELL.settings, "device": "cpu"}), splits.train, splits.validation)
    np.testing.assert_array_equal(outcome.scores, model.score(splits.test.features, splits.test.offsets))
    judged = model.evaluate(splits.test, ["nDCG@10", "P@3"])
    assert outcome.test == judged.means
    np.testing.assert_array_equal(outcome.values("ndcg@10"), judged.values["nDCG@10"])
    assert outcome.queries.tolist() == [str(query) for query in splits.test.qids]
    assert outcome.validation == model.metrics["validation"]
    assert (outcome.epoch, len(outcome.history), outcome.parameters) == (model.metrics["epoch"], 2, 13)
    assert outcome.seconds > 0
    assert 50e6 < outcome.peak_memory < 50e9
    assert outcome.commit
    assert outcome.machine
    assert outcome.versions["torch"].startswith("2.")
    with pytest.raises(ValueError, match=r"array must be one that is kept of .*nDCG@10, P@3.*; got 'AP'"):
        outcome.values("AP")


@pytest.mark.parametrize(
    ("framework", "loss"),
    [("lightgbm", "native:lambdarank"), ("lightgbm", "learndcg"), ("xgboost", "native:rank:ndcg")],
)
def test_a_cell_of_trees_keeps_the_same_record(framework, loss, tmp_path):
    pytest.importorskip(framework)
    size = {"num_leaves": 4, "min_data_in_leaf": 5} if framework == "lightgbm" else {"max_depth": 2}
    own = {"model": framework, "loss": loss, "trees": 6, "patience": 3, "seed": 1, "metric": "nDCG@10", **size}
    own |= {"loss_lr": 0.1} if loss == "learndcg" else {}
    cell = replace(CELL, model="Trees", settings=own)
    run(cell, tmp_path)
    (outcome,) = read(tmp_path).cells
    splits = load(TINY)
    ranker = TreeRanker(**{"framework" if name == "model" else name: value for name, value in own.items()})
    held = {"eval_set": (splits.validation.features, splits.validation.labels), "eval_group": splits.validation.lengths}
    ranker.fit(splits.train.features, splits.train.labels, group=splits.train.lengths, **held)
    np.testing.assert_array_equal(outcome.scores, ranker.predict(splits.test.features))
    assert outcome.test["nDCG@10"] == pytest.approx(outcome.values("nDCG@10").mean())
    assert outcome.validation == ranker.model_.metrics["validation"]
    assert outcome.epoch == ranker.best_trees_
    assert [row["epoch"] for row in outcome.history] == [*range(1, len(ranker.history_) + 1)]
    assert all(row["seconds"] >= 0 and 0 <= row["nDCG@10"] <= 1 for row in outcome.history)
    assert ranker.best_trees_ < outcome.parameters <= 4 * ranker.best_trees_
    assert outcome.versions[framework]
    assert outcome.device == "cpu"
    scalars = [row.get("alpha") for row in outcome.history]
    assert len(set(scalars)) == (len(scalars) if loss == "learndcg" else 1)
    assert set(outcome.learned) == ({"alpha", "gain_base", "discount_base"} if loss == "learndcg" else set())


def test_a_refit_of_trees_grows_as_many_as_it_is_told(tmp_path):
    pytest.importorskip("lightgbm")
    own = {"model": "lightgbm:num_leaves=4", "loss": "softmax", "trees": 3, "patience": None, "seed": 0}
    run(replace(CELL, refit=True, settings=own), tmp_path)
    (outcome,) = read(tmp_path).cells
    assert (outcome.epoch, outcome.validation, outcome.history) == (3, {}, [])
    assert 6 <= outcome.parameters <= 12


def test_a_cell_is_done_when_its_last_file_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr("rankgrad.experiments.run.write_json", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(CELL, tmp_path)
    assert [path.name for path in (tmp_path / "cells").iterdir()] == [f"{CELL.key}.npz"]
    assert read(tmp_path).cells == []


def test_a_tuning_cell_never_sees_the_test_lists(tmp_path, monkeypatch):
    monkeypatch.setattr(Model, "score", lambda *_: pytest.fail("something was scored"))
    run(replace(CELL, stage="tune"), tmp_path)
    (outcome,) = read(tmp_path).cells
    assert outcome.test == {}
    assert list((tmp_path / "cells").glob("*.npz")) == []
    assert 0 < outcome.validation["nDCG@10"] < 1


def test_a_loss_that_is_not_finite_is_the_last_choice_and_no_final_result(tmp_path):
    wild = {**CELL.settings, "lr": 1e30, "epochs": 9}
    run(replace(CELL, settings=wild, stage="tune"), tmp_path)
    (outcome,) = read(tmp_path).cells
    assert math.isnan(outcome.validation["nDCG@10"])
    assert "the loss must be finite" in outcome.error
    with pytest.raises(ArithmeticError, match="the loss must be finite"):
        run(replace(CELL, settings=wild), tmp_path)
    assert len(list((tmp_path / "cells").iterdir())) == 1


def test_a_refit_trains_on_train_and_validation_to_the_last_epoch(tmp_path):
    cell = replace(CELL, refit=True, settings={**CELL.settings, "epochs": 3, "patience": None})
    run(cell, tmp_path)
    (outcome,) = read(tmp_path).cells
    splits = load(TINY)
    parts = [splits.train, splits.validation]
    lengths = np.concatenate([part.lengths for part in parts])
    both = Dataset(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in ("features", "labels")),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        qids=np.arange(len(lengths)),
    )
    model = train(Settings.of({**cell.settings, "device": "cpu"}), both)
    np.testing.assert_array_equal(outcome.scores, model.score(splits.test.features, splits.test.offsets))
    assert outcome.epoch == 3
    assert outcome.validation == {}


def test_binary_labels(tmp_path):
    run(CELL, tmp_path)
    run(replace(CELL, binary=True), tmp_path)
    plain, binary = sorted(read(tmp_path).cells, key=lambda each: each.cell.binary)
    test = load(TINY).test
    judged = replace(test, labels=(test.labels > 0).astype(np.float32))
    model = Model(torch.nn.Identity(), None)  # only to judge given scores
    model.score = lambda *_: binary.scores
    assert binary.test == model.evaluate(judged, ["nDCG@10", "P@3"]).means
    assert not np.array_equal(plain.scores, binary.scores)


def test_memory_is_measured_anew_for_each_cell():
    if not facts.forget_peak():
        pytest.skip("this system does not forget a process's peak")
    held = np.ones(30_000_000)  # 240 MB
    high = facts.peak_memory()
    del held
    facts.forget_peak()
    assert facts.peak_memory() < high - 200e6


# A whole recipe.


def test_a_recipe_is_tuned_chosen_and_run_with_every_seed(whole):
    results = read(whole)
    assert (len(results.tuned()), len(results.final()), results.missing, results.failed) == (4, 4, [], {})
    for loss in ("MSE", "Cosine"):
        tried = {
            each.cell.settings["lr"]: each.validation["nDCG@10"] for each in results.tuned() if each.cell.loss == loss
        }
        finals = [each for each in results.final() if each.cell.loss == loss]
        assert {each.cell.settings["lr"] for each in finals} == {max(tried, key=tried.get)}
        assert sorted(each.cell.settings["seed"] for each in finals) == [0, 1]
    assert len({each.cell.settings["lr"] for each in results.tuned()}) == 2
    assert yaml.safe_load((whole / "recipe.yaml").read_text()) == RECIPE


def test_trees_are_rows_like_any_other(tmp_path):
    pytest.importorskip("lightgbm")
    trees = {
        "model": "lightgbm", "trees": 20, "patience": 5, "min_data_in_leaf": 5, "bagging_fraction": 0.7,
        "bagging_freq": 1, "losses": {"MSE": "mse", "LambdaMART": "native:lambdarank"},
        "search": {"learning_rate": [0.05, 0.2], "num_leaves": [4]},
    }  # fmt: skip
    both = {**RECIPE, "models": {**RECIPE["models"], "LightGBM": trees}, "notes": "Some."}
    go(both, tmp_path)
    results = read(tmp_path)
    assert (len(results.tuned()), len(results.final()), results.missing) == (8, 8, [])
    (made,) = tables(results)
    assert [(row.model, row.loss, row.trials) for row in made.rows] == [
        ("Linear", "MSE", (2,)), ("Linear", "Cosine", (2,)), ("LightGBM", "MSE", (2,)), ("LightGBM", "LambdaMART", (2,))
    ]  # fmt: skip
    for row in made.rows:
        assert row.entries["nDCG@10"].complete
        assert row.entries["nDCG@10"].spread > 0, "seeds must matter"
    assert sum(row.entries["nDCG@10"].p is not None for row in made.rows) == 2  # of each model one is the best
    assert not any("not equal" in note for note in made.notes)
    assert any("± is the standard deviation over seeds" in note for note in made.notes)
    (wide,) = tables(replace(results, recipe=parse({**both, "spread": "interval"})))
    for narrow, row in zip(made.rows, wide.rows, strict=True):  # of two seeds: t.ppf(0.975, 1) / sqrt(2)
        assert row.entries["nDCG@10"].spread == pytest.approx(8.98463 * narrow.entries["nDCG@10"].spread, rel=1e-4)
    assert any("± is the 95% interval over seeds" in note for note in wide.notes)
    shown = study(results, "both", lists=False)
    assert shown.losses == ("MSE", "Cosine", "LambdaMART")
    assert shown.step == "epoch or tree"
    curves = [row for row in shown.rows["curves"] if row["loss"] == "LambdaMART"]
    assert [row["epoch"] for row in curves] == [*range(1, len(curves) + 1)]
    rates = {(row["model"], row["lr"]) for row in shown.rows["sensitivity"]}
    assert {("LightGBM", 0.05), ("LightGBM", 0.2)} < rates
    for panel in shown.panels():
        panel.draw(shown.choice(model="LightGBM")).to_dict()


def test_processes_give_the_same_numbers_and_what_is_done_is_not_done_again(whole, tmp_path):
    with Pool(2) as workers:
        steps = go(RECIPE, tmp_path, workers.run)
    assert [step.done for step in steps] == [*range(1, 9)]
    assert {step.total for step in steps} == {8}
    assert numbers(tmp_path) == numbers(whole)
    assert go(RECIPE, tmp_path, lambda tasks: iter(()) if not tasks else pytest.fail("done again")) == []
    more = go({**RECIPE, "seeds": [0, 1, 2]}, tmp_path)
    assert [(step.cell.settings["seed"], step.done, step.total) for step in more] == [(2, 9, 10), (2, 10, 10)]
    assert len(read(tmp_path).final()) == 6


def test_a_cell_that_fails_is_told_and_tried_again(whole, tmp_path, monkeypatch):
    real, broken = work.run, next(each.cell for each in read(whole).tuned() if each.cell.loss == "MSE")

    def fragile(cell, *arguments, **options):
        if cell.key == broken.key:
            raise MemoryError("none left")
        real(cell, *arguments, **options)

    monkeypatch.setattr(work, "run", fragile)
    steps = go(RECIPE, tmp_path)
    assert [step.cell.key for step in steps if step.error] == [broken.key]
    results = read(tmp_path)
    # Tuning is equal or not at all: nothing is chosen of the settings that did run.
    assert {each.cell.loss for each in results.final()} == {"Cosine"}
    assert [cell.key for cell in results.missing] == [broken.key]
    assert "MemoryError: none left" in results.failed[broken.key]
    assert str(broken) in (tmp_path / "failed" / f"{broken.key}.txt").read_text()
    monkeypatch.setattr(work, "run", real)
    go(RECIPE, tmp_path)
    assert numbers(tmp_path) == numbers(whole)
    assert read(tmp_path).failed == {}


def test_a_diverged_setting_is_not_chosen(tmp_path):
    go({**RECIPE, "search": {"lr": [1e30, 0.01]}, "losses": {"MSE": "mse"}, "settings": {"epochs": 9}}, tmp_path)
    results = read(tmp_path)
    assert {each.cell.settings["lr"] for each in results.final()} == {0.01}
    assert len(results.tuned()) == 2


def test_what_a_killed_run_left_is_cleared_and_one_run_works_at_a_time(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "a")
    half, other = tmp_path / "a" / "cells" / ".0123456789abcdef.json.4242", tmp_path / "a" / ".mine.txt"
    half.write_text("{")
    other.write_text("mine")
    recipe = parse(RECIPE)
    with work.opened(recipe, tmp_path / "a"):
        assert not half.exists()
        assert other.exists()
        with pytest.raises(ValueError, match="no other run is at work"), work.opened(recipe, tmp_path / "a"):
            pass


def test_outcomes_of_other_recipes_in_the_folder_are_left_out(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "a")
    smaller = parse({**RECIPE, "losses": {"MSE": "mse"}, "seeds": [0]})
    (tmp_path / "a" / "recipe.yaml").write_text(smaller.dump())
    results = read(tmp_path / "a")
    assert (len(results.tuned()), len(results.final())) == (2, 1)
    assert chosen(smaller, {each.cell.key: each for each in results.tuned()[:1]}) == []


def test_a_packed_file_holds_the_results_and_is_gone_on_from(whole, tmp_path):
    assert pack(whole, tmp_path / "a.tar.xz") == 8
    packed, plain = read(tmp_path / "a.tar.xz"), read(whole)
    assert [each.cell for each in packed.cells] == [each.cell for each in plain.cells]
    assert [each.test for each in packed.cells] == [each.test for each in plain.cells]
    for ours, theirs in zip(packed.final(), plain.final(), strict=True):
        np.testing.assert_allclose(ours.values("nDCG@10"), theirs.values("nDCG@10"), rtol=1e-6)
        assert ours.queries.tolist() == theirs.queries.tolist()
        with pytest.raises(ValueError, match="array must be one that is kept"):
            ours.scores  # noqa: B018
    unpack(tmp_path / "a.tar.xz", tmp_path / "b")
    assert go(RECIPE, tmp_path / "b", lambda tasks: iter(()) if not tasks else pytest.fail("done again")) == []
    pack(tmp_path / "b", tmp_path / "b.tar.xz")
    assert (tmp_path / "a.tar.xz").read_bytes() == (tmp_path / "b.tar.xz").read_bytes()
    pack(whole, tmp_path / "c.tar.xz", scores=True)
    assert len(read(tmp_path / "c.tar.xz").final()[0].scores) == len(load(TINY).test.labels)
    (tmp_path / "bad.tar.xz").write_bytes((tmp_path / "a.tar.xz").read_bytes()[:500])
    with pytest.raises(ValueError, match=r"bad.tar.xz must be packed results"):
        read(tmp_path / "bad.tar.xz")


def killed(arguments, folder, kills, seed):
    """Start a command, kill it and what it is doing at a random moment, and so on; how often it was killed."""
    rng, count = random.Random(seed), 0
    for _ in range(kills):
        before, going = set(folder.rglob("*.json")), program(*arguments)
        while going.poll() is None and set(folder.rglob("*.json")) == before:  # until it has done something
            time.sleep(0.01)
        time.sleep(rng.random() * 0.5)
        going.kill()
        going.communicate(timeout=60)  # until no process that could write is left
        count += going.returncode == -signal.SIGKILL
    going = program(*arguments)
    out, err = going.communicate(timeout=300)
    assert going.returncode == 0, err
    return count, out


def slower(epochs, seeds=2):
    """A recipe of so long or so many cells that a kill hits some of them."""
    return {**RECIPE, "seeds": [*range(seeds)], "settings": {"epochs": epochs, "batch_size": 2, "patience": None}}


@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.long)])
def test_a_killed_run_ends_in_the_same_table(tmp_path, kills):
    recipe, jobs = (slower(12), 1) if kills == 1 else (slower(40, seeds=12), 2)
    (tmp_path / "a.yaml").write_text(parse(recipe).dump())
    out = tmp_path / "killed"
    count, told = killed(("experiment", tmp_path / "a.yaml", "--jobs", jobs, "--out", out), out, kills, seed=kills)
    assert count > kills / 2
    go(recipe, tmp_path / "whole")
    assert numbers(out) == numbers(tmp_path / "whole")
    assert not list(out.rglob(".*.json.*"))
    assert "nDCG@10" in told


@pytest.mark.long
def test_ray_gives_the_same_table(whole, tmp_path):
    ray = pytest.importorskip("ray")
    from rankgrad.experiments.ray_pool import RayPool

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        with RayPool(None) as cluster:
            assert cluster.jobs == 2
            go(RECIPE, tmp_path, cluster.run)
            (died,) = cluster.run([Task("dies", os._exit, (3,))])
    finally:
        ray.shutdown()
    assert numbers(tmp_path) == numbers(whole)
    assert "WorkerCrashedError" in died.error


# As typed.


@pytest.fixture
def recipe_file(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(RECIPE))
    return path


@pytest.fixture
def _no_processes(monkeypatch):
    """A pool that works in this process: what is tested is what the verbs say."""
    monkeypatch.setattr(pool.Pool, "run", lambda _, tasks: here(tasks))


@pytest.mark.usefixtures("_no_processes")
def test_experiment_shows_the_table_and_the_next_command(recipe_file, whole, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = invoke("experiment", recipe_file, "--pack")
    assert told.exit_code == 0
    for said in ("Tiny: 4 cells to tune and 4 final cells", "nDCG@10", "MSE", "Cosine", "rankgrad report results/tiny"):
        assert said in told.stdout
    assert re.search(
        r"^8/8 synthetic:lists=30,features=12, Linear, \w+, seed 1: nDCG@10 0\.\d+", told.stderr, re.MULTILINE
    )
    assert numbers(Path("results/tiny")) == numbers(whole)
    shutil.rmtree("results/tiny")
    told = invoke("experiment", recipe_file)
    assert "going on from results/tiny.tar.xz" in told.stdout
    assert "/8" not in told.stderr
    told = invoke("experiment", recipe_file, "--smoke")
    assert "2 final cells" in told.stdout
    assert Path("results/tiny-smoke/recipe.yaml").is_file()


@pytest.mark.usefixtures("_no_processes")
def test_sets_that_are_not_there_are_named_and_the_rest_runs(recipe_file, tmp_path):
    recipe_file.write_text(yaml.safe_dump({**RECIPE, "data": ["MQ2007", TINY], "trials": 1}))
    told = invoke("experiment", recipe_file, "--out", tmp_path / "out", "--data-root", tmp_path)
    assert told.exit_code == 0
    assert re.search(r"MQ2007 is left out: root must hold MQ2007 as .*Put them there", told.stderr)
    assert {cell.data for cell in read(tmp_path / "out").missing} == {"MQ2007"}
    with pytest.raises(FileNotFoundError, match="root must hold MQ2007"):
        invoke("experiment", recipe_file, "--only", "MQ2007", "--out", tmp_path / "out", "--data-root", tmp_path)
    with pytest.raises(ValueError, match="only must be"):
        invoke("experiment", recipe_file, "--only", "MQ2080")


@pytest.mark.usefixtures("_no_processes")
def test_failed_cells_are_named_and_the_exit_status_says_so(recipe_file, tmp_path, monkeypatch):
    monkeypatch.setattr(work, "run", lambda *_, **__: 1 / 0)
    told = invoke("experiment", recipe_file, "--out", tmp_path / "out")
    assert told.exit_code == 1
    assert "4 cells failed; the same command tries them again" in told.stderr
    assert re.search(r"failed: .*MSE, trial 1: ZeroDivisionError.*failed/[0-9a-f]{16}\.txt", told.stderr)


def test_ctrl_c_says_how_to_go_on(tmp_path):
    (tmp_path / "a.yaml").write_text(parse(slower(100_000)).dump())
    going = program("experiment", tmp_path / "a.yaml", "--jobs", 1, "--out", tmp_path / "out")
    wait_until(lambda: (tmp_path / "out" / "recipe.yaml").is_file())
    time.sleep(1.0)
    os.killpg(going.pid, signal.SIGINT)  # as a terminal does
    out, err = going.communicate(timeout=30)
    assert going.returncode == 130, err
    assert "Stopped; nothing new is done. To go on: the same command" in err
    assert "Traceback" not in out + err


# Settings for one's own data.


def test_a_search_tries_the_default_first_and_keeps_what_is_given():
    search = Search(Settings(model="mlp:widths=8", epochs=90), 27, ("lr",), (("clip", [0.1, 1.0]),))
    search.check()
    assert {"lr", "model.widths"}.isdisjoint(search.space)
    assert {"clip", "model.dropout", "batch_size"} <= search.space.keys()
    drawn = search.draws()
    assert drawn[0] == {}
    assert len(drawn) == 27
    assert replace(search, budget=40).draws()[:27] == drawn
    assert search.rungs() == [(27, 10), (9, 30), (3, 90)]
    assert replace(search, budget=1).rungs() == [(1, 90)]
    assert Search(Settings(model="lambdaloss-dnn"), 4).space.keys() == {
        "lr",
        "weight_decay",
        "batch_size",
        "preprocess",
    }
    with pytest.raises(ValueError, match="schedule must not depend on the number of epochs"):
        Search(Settings(schedule="cosine"), 9).check()
    with pytest.raises(ValueError, match=r"did you mean 'model\.dropout'"):
        Search(Settings(), 9, vary=(("model.droput", [0.1]),)).check()
    with pytest.raises(ValueError, match="lr must be above 0"):
        Search(Settings(), 9, vary=(("lr", [0.0]),)).check()


@pytest.mark.parametrize("model", ["linear", "mlp", "context_aware", "attsets", "attention_mil", "dasalc"])
def test_every_search_space_fits_its_model(model):
    search = Search(Settings(model=model), 60)
    search.check()
    for drawn in search.draws():
        search.settings(drawn).check()


TUNE = ("tune", "--data", TINY, "--model", "linear", "--loss", "mse", "--budget", 12, "--epochs", 9, "--set", "seed=1")


@pytest.mark.usefixtures("_no_processes")
def test_tune_saves_the_best_model_and_says_what_mattered(tmp_path):
    told = invoke(*TUNE, "--out", tmp_path / "best")
    assert told.exit_code == 0
    for said in (
        "lr",
        "0.0001 to 0.01, log scale",
        "successive halving: 12 for 3 epochs, then the best 4 for 9 epochs",
    ):
        assert said in told.stdout
    for said in ("importance", "out-of-bag R²", "test lists, which chose nothing", "rankgrad predict"):
        assert said in told.stdout
    rounds = [[json.loads(path.read_text()) for path in (tmp_path / "best").rglob(f"after-{n}.json")] for n in (3, 9)]
    assert [len(trials) for trials in rounds] == [12, 4]
    best = sorted((trial["value"] for trial in rounds[0]), reverse=True)
    assert {trial["name"] for trial in rounds[1]} == {trial["name"] for trial in rounds[0] if trial["value"] >= best[3]}
    winner = max(rounds[1], key=lambda trial: trial["value"])
    model = Model.load(tmp_path / "best")
    assert model.settings["lr"] == winner["drawn"].get("lr", 0.001)
    assert model.settings["seed"] == 1
    validation = load(TINY).validation
    assert model.evaluate(validation, ["nDCG@10"])["nDCG@10"] == pytest.approx(winner["value"])
    # It goes on: nothing is done again, more trials are added to the first ones.
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "best" / "trials").rglob("*.safetensors")}
    more = [15 if word == 12 else word for word in TUNE]
    invoke(*more, "--out", tmp_path / "best")
    assert len(list((tmp_path / "best").rglob("after-3.json"))) == 15
    kept = [path for path, stamp in stamps.items() if path.stat().st_mtime_ns == stamp]
    assert len(kept) > len(stamps) / 2
    with pytest.raises(ValueError, match="out must be a new folder, or go on with seed 0; got 5"):
        invoke(*TUNE, "--seed", 5, "--out", tmp_path / "best")


@pytest.mark.long
def test_a_killed_search_ends_in_the_same_model(tmp_path):
    command = [*TUNE, "--jobs", 2, "--set", "batch_size=1", "--set", "patience=none"]
    command[command.index(9)] = 36
    count, _ = killed((*command, "--out", tmp_path / "killed"), tmp_path / "killed" / "trials", 3, seed=0)
    assert count > 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool.Pool, "run", lambda _, tasks: here(tasks))
        invoke(*command, "--out", tmp_path / "whole")
    left, right = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("killed", "whole"))
    assert left == right


def test_tune_complains_at_once(tmp_path):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        invoke("tune", "--data", "MQ2080", "--model", "mpl", "--budget", 0, "--device", "gpu", "--out", tmp_path / "a")
    said = str(caught.value).splitlines()
    assert [line.split()[0] for line in said][:1] == ["model"]
    assert any("'MQ2008'" in line for line in said)
    with pytest.raises(ValueError, match="set must be written name=value; got 'lr'"):
        invoke("tune", "--data", TINY, "--set", "lr")
