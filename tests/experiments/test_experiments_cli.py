"""`rankgrad experiment` as typed: its output and its exit status."""

import json
import os
import re
import shutil
import signal
import time
from pathlib import Path

import pytest
import yaml
from programs import program, wait_until
from tiny_study import RECIPE, TINY, invoke, no_processes, numbers, one_thread, slower, whole_run

from rankgrad.experiments import parse_recipe
from rankgrad.experiments.runs import run_recipe
from rankgrad.experiments.runs.results import read_results

_one_thread = pytest.fixture(one_thread, autouse=True, scope="module")
_no_processes = pytest.fixture(no_processes)
whole = pytest.fixture(whole_run, scope="module")


@pytest.fixture
def recipe_file(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(RECIPE))
    return path


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
    assert "resuming from results/tiny.tar.xz" in told.stdout
    assert "/8" not in told.stderr
    told = invoke("experiment", recipe_file, "--smoke")
    assert "2 final cells" in told.stdout
    assert Path("results/tiny-smoke/recipe.yaml").is_file()
    assert "Smoke run (--smoke): a short test of the recipe, not a result." in told.output


@pytest.mark.usefixtures("_no_processes")
def test_overwrite_runs_the_cells_again_and_json_is_all_of_standard_output(recipe_file, tmp_path):
    other = "synthetic:lists=30,features=11"
    recipe_file.write_text(yaml.safe_dump({**RECIPE, "data": [TINY, other], "trials": 1}))
    command = ("experiment", recipe_file, "--out", tmp_path / "out", "--json")
    first = invoke(*command)
    found = json.loads(first.stdout)
    assert [table["data"] for table in found["tables"]] == [TINY, other]
    assert (found["failed"], found["results"]) == ({}, str(tmp_path / "out"))
    assert "12 cells" not in first.stdout
    ended = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out" / "cells").iterdir()}
    assert invoke(*command).stderr.count(": nDCG@10") == 0  # all cells are done
    again = invoke(*command, "--overwrite", "--only", TINY)
    assert again.stderr.count(": nDCG@10") == len(ended) / 2 / 2  # one of two data sets; two files per cell
    newer = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out" / "cells").iterdir()}
    assert newer.keys() == ended.keys()
    assert sum(newer[name] != ended[name] for name in newer) == len(ended) / 2
    assert json.loads(again.stdout)["tables"] == found["tables"][:1]


@pytest.mark.usefixtures("_no_processes")
def test_sets_that_are_not_there_are_named_and_the_rest_runs(recipe_file, tmp_path):
    recipe_file.write_text(yaml.safe_dump({**RECIPE, "data": ["MQ2007", TINY], "trials": 1}))
    told = invoke("experiment", recipe_file, "--out", tmp_path / "out", "--data-root", tmp_path)
    assert told.exit_code == 0
    assert re.search(r"MQ2007 is left out: (--data-)?root must contain MQ2007 as .*put the files there", told.stderr)
    assert {cell.data for cell in read_results(tmp_path / "out").missing} == {"MQ2007"}
    with pytest.raises(FileNotFoundError, match="root must contain MQ2007"):
        invoke("experiment", recipe_file, "--only", "MQ2007", "--out", tmp_path / "out", "--data-root", tmp_path)
    with pytest.raises(ValueError, match="only must be"):
        invoke("experiment", recipe_file, "--only", "MQ2080")


@pytest.mark.usefixtures("_no_processes")
def test_failed_cells_are_named_and_the_exit_status_says_so(recipe_file, tmp_path, monkeypatch):
    monkeypatch.setattr(run_recipe, "run_cell", lambda *_, **__: 1 / 0)
    told = invoke("experiment", recipe_file, "--out", tmp_path / "out")
    assert told.exit_code == 1
    assert "4 cells failed; the same command runs them again" in told.stderr
    assert re.search(r"failed: .*MSE, trial 1: ZeroDivisionError.*failed/[0-9a-f]{16}\.txt", told.stderr)


def test_ctrl_c_says_how_to_go_on(tmp_path):
    (tmp_path / "a.yaml").write_text(parse_recipe(slower(100_000)).dump())
    going = program("experiment", tmp_path / "a.yaml", "--jobs", 1, "--out", tmp_path / "out")
    wait_until(lambda: (tmp_path / "out" / "recipe.yaml").is_file())
    time.sleep(1.0)
    os.killpg(going.pid, signal.SIGINT)  # as a terminal does
    out, err = going.communicate(timeout=30)
    assert going.returncode == 130, err
    assert "Stopped; no new cell is done. To resume, run the same command again" in err
    assert "Traceback" not in out + err
