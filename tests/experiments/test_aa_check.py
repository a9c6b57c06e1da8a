"""The A/A check: its rates on drawn rows, its summary file, and the command."""

import json
import lzma
from functools import partial

import numpy as np
import pytest
from made_results import DATA, make
from programs import invoke, run_here

from rankgrad.experiments.aa_check import FalsePositives, _halves, aa_check, aa_checks
from rankgrad.experiments.runs.results import read_results
from rankgrad.experiments.runs.summary import read_summary, write_summary
from rankgrad.experiments.seed_variance import TESTS, RunValues

FOLDS = np.repeat([1, 2, 3], 40)


def rows(count=4, seeds=6, run=0.012):
    generator = np.random.default_rng(0)
    return [
        RunValues(
            0.5 + generator.normal(0, run, (seeds, 3))[:, FOLDS - 1] + generator.normal(0, 0.05, (seeds, len(FOLDS))),
            FOLDS,
        )
        for _ in range(count)
    ]


def test_tests_with_training_runs_keep_their_level_and_tests_without_do_not():
    found = aa_check(rows(20), splits=500)
    for test in TESTS:
        assert 0.02 < found.drawn[test].rate < 0.085, test
    for test in ("t, queries only", "randomisation, queries only"):
        assert found.drawn[test].rate > 0.15
        assert found.real[test].rate > 0.1
    assert found.rows == 20
    assert found.seeds == (6,)


@pytest.mark.parametrize(("seeds", "divisions"), [(4, 3), (5, 15), (6, 10)])
def test_every_division_of_the_seeds_is_used_once(seeds, divisions):
    row = RunValues(np.arange(seeds)[:, None] + np.zeros((seeds, 3)))
    found = [tuple(sorted((frozenset(a.values[:, 0]), frozenset(b.values[:, 0])), key=sorted)) for a, b in _halves(row)]
    assert len(found) == len(set(found)) == divisions
    assert all(len(a) == len(b) == seeds // 2 and not a & b for a, b in found)


@pytest.mark.parametrize("seeds", [9, 40])
def test_divisions_of_many_seeds_are_drawn(seeds):
    row = RunValues(np.arange(seeds)[:, None] + np.zeros((seeds, 3)))
    found = [(set(a.values[:, 0]), set(b.values[:, 0])) for a, b in _halves(row)]
    assert len(found) == 126
    assert all(len(a) == len(b) == seeds // 2 and not a & b for a, b in found)
    assert np.mean([{0, 1} <= a or {0, 1} <= b for a, b in found]) < 0.7  # 0.83 for the first 126 of 9 seeds


def test_all_data_sets_together():
    groups = {"x": rows(2), "y": rows(3)}
    found = aa_checks(groups, splits=20)
    assert list(found) == ["x", "y", "all"]
    assert found["all"].real["t"].cases == 50
    assert found["all"].real["t"].found == found["x"].real["t"].found + found["y"].real["t"].found
    assert found["all"].rows == 5
    assert list(aa_checks({"x": rows(1)}, splits=5)) == ["x"]
    assert aa_check([RunValues(np.zeros((3, 4)))]).rows == 0  # too few seeds
    assert aa_check([RunValues(np.full((4, 3), np.nan))]).rows == 0  # no query counts


def test_the_interval_of_a_rate():
    low, high = FalsePositives(100, 2000).interval
    assert (low, high) == pytest.approx((0.0413, 0.0604), abs=2e-4)
    assert FalsePositives(0, 0).rate == 0


@pytest.fixture(scope="module")
def summary(tmp_path_factory):
    """Results and the file of their summary, which no test changes."""
    folder = tmp_path_factory.mktemp("summary")
    results = read_results(make(folder / "made"))
    assert write_summary(results, folder / "x.summary.xz") > 0
    return results, folder / "x.summary.xz"


def test_a_summary_keeps_values_means_and_choices(summary):
    results, file = summary
    found = read_summary(file)
    assert found.recipe == results.recipe
    assert (found.runs, found.missing) == (len(results.cells), len(results.missing))
    for row in found.rows:
        runs = [
            o for o in results.final() if (o.cell.label, o.cell.model, o.cell.loss) == (row.data, row.model, row.loss)
        ]
        values = RunValues.of(runs, found.metric)
        np.testing.assert_allclose(row.values.values, values.values, atol=5.1e-5)
        np.testing.assert_array_equal(row.values.folds, values.folds)
        for metric in results.recipe.metrics:
            assert row.means[metric].mean() == pytest.approx(np.mean([o.test[metric] for o in runs]), abs=1e-6)
        assert found.row(row.data, row.model, row.loss) is row
    with pytest.raises(ValueError, match="row must be a row of the summary"):
        found.row("x", "y", "z")


def _spoiled(content, name):
    """Return the content of a summary with one defect."""
    text, _, body = lzma.decompress(content).partition(b"\n")
    header = json.loads(text)
    if name == "format":
        header["format"] = 2
    elif name == "recipe":
        header["recipe"] = header["recipe"].replace("softmax", "softmaxx")
    elif name == "no recipe":
        header["recipe"] = 3
    elif name == "shape":
        header["rows"][0]["shape"] = [5]
    elif name == "folds":
        header["rows"][0]["folds"] = [1]
    elif name == "values":
        body = body[:-2]
    elif name == "odd":
        body = body[:-1]
    text = b"\xff{" if name == "text" else json.dumps(header).encode()
    return b"x" if name == "file" else lzma.compress(text + b"\n" + body, preset=0)


@pytest.mark.parametrize("name", ["file", "text", "format", "recipe", "no recipe", "shape", "folds", "values", "odd"])
def test_a_spoiled_summary_is_named_in_one_message(tmp_path, summary, name):
    file = tmp_path / "x.summary.xz"
    file.write_bytes(_spoiled(summary[1].read_bytes(), name))
    with pytest.raises(ValueError, match=r"x\.summary\.xz must be a summary of an experiment; got the error"):
        read_summary(file)


def test_the_command_checks_a_finished_experiment_and_its_summary(tmp_path, monkeypatch):
    monkeypatch.setattr("rankgrad.experiments.aa_check.aa_checks", partial(aa_checks, splits=200))
    one = {"data": DATA[:1], "losses": {"Softmax": "softmax"}, "models": {"MLP": {"model": "mlp"}}}
    folder = make(tmp_path / "made", seeds=(0, 1, 2, 3), **one)
    recipe = tmp_path / "made.yaml"
    recipe.write_bytes((folder / "recipe.yaml").read_bytes())
    printed = invoke("experiment", recipe, "--out", folder, "--aa", "--json")
    (check,) = json.loads(printed.stdout)["checks"].values()
    assert check["real"]["t"]["cases"] == 3
    assert check["drawn"]["bootstrap"]["cases"] == 200
    only = tmp_path / "elsewhere"
    only.mkdir()
    (tmp_path / "made.summary.xz").rename(only / "made.summary.xz")
    assert "bootstrap" in run_here("experiment", recipe, "--out", only / "made", "--aa")  # without the cells
    assert not (only / "made").exists()
    refused = invoke("experiment", recipe, "--out", only / "made", "--aa", "--only", "Nope")
    assert "'Nope'" in str(refused.exception)
    header, _, _ = lzma.decompress((only / "made.summary.xz").read_bytes()).partition(b"\n")
    (only / "made.summary.xz").write_bytes(
        lzma.compress(json.dumps(json.loads(header) | {"rows": []}).encode() + b"\n")
    )
    refused = invoke("experiment", recipe, "--out", only / "made", "--aa")
    assert "no row has all its runs" in refused.output


def test_the_check_trains_nothing(tmp_path):
    refused = invoke("experiment", "leaderboard", "--out", tmp_path / "none", "--aa")
    assert "run the experiment first, without --aa" in " ".join(str(refused.exception or refused.output).split())
    assert not (tmp_path / "none").exists()
