"""Recipes are run cell by cell, each once, even if processes die: tuned equally, chosen, run with every seed."""

import os
import shutil
from dataclasses import replace

import numpy as np
import pytest
import yaml
from programs import killed
from tiny_study import RECIPE, TINY, go, numbers, one_thread, slower, whole_run

from rankgrad.data import load
from rankgrad.experiments import parse_recipe
from rankgrad.experiments.report.study import study
from rankgrad.experiments.runs import run_recipe
from rankgrad.experiments.runs.results import chosen_results, pack, read_results, unpack
from rankgrad.experiments.tables.table import tables
from rankgrad.parallel.process_pool import Pool, Task

_one_thread = pytest.fixture(one_thread, autouse=True, scope="module")
whole = pytest.fixture(whole_run, scope="module")


def test_a_recipe_is_tuned_chosen_and_run_with_every_seed(whole):
    results = read_results(whole)
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
    results = read_results(tmp_path)
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
    (wide,) = tables(replace(results, recipe=parse_recipe({**both, "spread": "interval"})))
    for narrow, row in zip(made.rows, wide.rows, strict=True):  # of two seeds: t.ppf(0.975, 1) / sqrt(2)
        assert row.entries["nDCG@10"].spread == pytest.approx(8.98463 * narrow.entries["nDCG@10"].spread, rel=1e-3)
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
    assert len(read_results(tmp_path).final()) == 6


def test_a_cell_that_fails_is_told_and_tried_again(whole, tmp_path, monkeypatch):
    real, broken = (
        run_recipe.run_cell,
        next(each.cell for each in read_results(whole).tuned() if each.cell.loss == "MSE"),
    )

    def fragile(cell, *arguments, **options):
        if cell.key == broken.key:
            raise MemoryError("none left")
        real(cell, *arguments, **options)

    monkeypatch.setattr(run_recipe, "run_cell", fragile)
    steps = go(RECIPE, tmp_path)
    assert [step.cell.key for step in steps if step.error] == [broken.key]
    results = read_results(tmp_path)
    # Tuning is equal or not at all: nothing is chosen of the settings that did run.
    assert {each.cell.loss for each in results.final()} == {"Cosine"}
    assert [cell.key for cell in results.missing] == [broken.key]
    assert "MemoryError: none left" in results.failed[broken.key]
    assert str(broken) in (tmp_path / "failed" / f"{broken.key}.txt").read_text()
    monkeypatch.setattr(run_recipe, "run_cell", real)
    go(RECIPE, tmp_path)
    assert numbers(tmp_path) == numbers(whole)
    assert read_results(tmp_path).failed == {}


def test_a_diverged_setting_is_not_chosen(tmp_path):
    go({**RECIPE, "search": {"lr": [1e30, 0.01]}, "losses": {"MSE": "mse"}, "settings": {"epochs": 9}}, tmp_path)
    results = read_results(tmp_path)
    assert {each.cell.settings["lr"] for each in results.final()} == {0.01}
    assert len(results.tuned()) == 2


def test_what_a_killed_run_left_is_cleared_and_one_run_works_at_a_time(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "a")
    half, other = tmp_path / "a" / "cells" / ".0123456789abcdef.json.4242", tmp_path / "a" / ".mine.txt"
    half.write_text("{")
    other.write_text("mine")
    recipe = parse_recipe(RECIPE)
    with run_recipe.lock_results(recipe, tmp_path / "a"):
        assert not half.exists()
        assert other.exists()
        with pytest.raises(ValueError, match="no other run uses"), run_recipe.lock_results(recipe, tmp_path / "a"):
            pass


def test_results_of_other_recipes_in_the_folder_are_left_out(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "a")
    smaller = parse_recipe({**RECIPE, "losses": {"MSE": "mse"}, "seeds": [0]})
    (tmp_path / "a" / "recipe.yaml").write_text(smaller.dump())
    results = read_results(tmp_path / "a")
    assert (len(results.tuned()), len(results.final())) == (2, 1)
    assert chosen_results(smaller, {each.cell.key: each for each in results.tuned()[:1]}) == []


def test_a_packed_file_holds_the_results_and_is_gone_on_from(whole, tmp_path):
    assert pack(whole, tmp_path / "a.tar.xz") == 8
    packed, plain = read_results(tmp_path / "a.tar.xz"), read_results(whole)
    assert [each.cell for each in packed.cells] == [each.cell for each in plain.cells]
    assert [each.test for each in packed.cells] == [each.test for each in plain.cells]
    for ours, theirs in zip(packed.final(), plain.final(), strict=True):
        np.testing.assert_allclose(ours.values("nDCG@10"), theirs.values("nDCG@10"), rtol=1e-6)
        assert ours.queries.tolist() == theirs.queries.tolist()
        with pytest.raises(ValueError, match=r"the result of .* must contain the array 'scores'; got arrays: "):
            ours.scores  # noqa: B018
    unpack(tmp_path / "a.tar.xz", tmp_path / "b")
    assert go(RECIPE, tmp_path / "b", lambda tasks: iter(()) if not tasks else pytest.fail("done again")) == []
    pack(tmp_path / "b", tmp_path / "b.tar.xz")
    assert (tmp_path / "a.tar.xz").read_bytes() == (tmp_path / "b.tar.xz").read_bytes()
    pack(whole, tmp_path / "short.tar.xz", history=False)
    for run, short in zip(read_results(whole).cells, read_results(tmp_path / "short.tar.xz").cells, strict=True):
        if run.cell.stage == "final" and run.cell.seed == 0:
            assert short.history[-1] == pytest.approx(run.history[-1], rel=1e-3)
            assert len(short.history) == len(run.history)
        else:
            assert short.history == []
    pack(whole, tmp_path / "c.tar.xz", scores=True)
    assert len(read_results(tmp_path / "c.tar.xz").final()[0].scores) == len(load(TINY).test.labels)
    (tmp_path / "bad.tar.xz").write_bytes((tmp_path / "a.tar.xz").read_bytes()[:500])
    with pytest.raises(ValueError, match=r"bad.tar.xz must be packed results"):
        read_results(tmp_path / "bad.tar.xz")


@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.long)])
def test_a_killed_run_ends_in_the_same_table(tmp_path, kills):
    recipe, jobs = (slower(12), 1) if kills == 1 else (slower(40, seeds=12), 2)
    (tmp_path / "a.yaml").write_text(parse_recipe(recipe).dump())
    out = tmp_path / "killed"
    count, told = killed(("experiment", tmp_path / "a.yaml", "--jobs", jobs, "--out", out), out, kills, seed=kills)
    assert count > kills / 2
    go(recipe, tmp_path / "whole")
    assert numbers(out) == numbers(tmp_path / "whole")
    assert read_results(out).missing == []
    assert not list(out.rglob(".*.json.*"))
    assert "nDCG@10" in told


@pytest.mark.long
def test_ray_gives_the_same_table(whole, tmp_path):
    ray = pytest.importorskip("ray")
    from rankgrad.parallel.ray_pool import RayPool

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
