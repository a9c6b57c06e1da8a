"""Trees on the command line, as neural rankers are: resumed, tuned, exported, started from a model."""

import json

import numpy as np
import pytest
from programs import run_here as run
from tiny_study import no_processes, one_thread

from rankgrad import models
from rankgrad.data import load
from rankgrad.trees import boosting

DATA = "synthetic:lists=30,features=10"
FRAMEWORKS = {
    "lightgbm": ("model.txt", "bagging_fraction=0.5", "bagging_freq=1", "feature_fraction=0.5", "num_leaves=4"),
    "xgboost": ("model.json", "subsample=0.5", "colsample_bytree=0.5", "max_depth=2"),
}

_one_thread = pytest.fixture(one_thread, autouse=True, scope="module")
_no_processes = pytest.fixture(no_processes)
every_framework = pytest.mark.parametrize("framework", FRAMEWORKS)


def words(framework):
    _, *sampled = FRAMEWORKS[framework]
    return ("train", "--data", DATA, "--model", framework, *(word for one in sampled for word in ("--set", one)))


@every_framework
def test_a_run_is_resumed_and_ends_in_the_same_trees(framework, tmp_path, monkeypatch):
    pytest.importorskip(framework)
    monkeypatch.setattr(boosting, "SEGMENT", 4)
    file = FRAMEWORKS[framework][0]
    told = run(*words(framework), "--epochs", 10, "--patience", "none", "--seed", 3, "--out", tmp_path / "whole")
    assert "of 10 trees, nDCG@10" in told
    run(*words(framework), "--epochs", 8, "--patience", "none", "--seed", 3, "--out", tmp_path / "parts")
    assert (tmp_path / "parts" / file).read_bytes() != (tmp_path / "whole" / file).read_bytes()
    with pytest.raises(ValueError, match="out must be a new folder"):
        run(*words(framework), "--out", tmp_path / "parts")
    # All that was given is known; only what is to differ is said.
    run("train", "--resume", "--epochs", 10, "--out", tmp_path / "parts")
    assert (tmp_path / "parts" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()
    with pytest.raises(ValueError, match="seed must be 3"):
        run("train", "--resume", "--seed", 4, "--epochs", 12, "--out", tmp_path / "parts")
    log = [json.loads(line) for line in (tmp_path / "parts" / "log.jsonl").read_text().splitlines()]
    assert [row["tree"] for row in log] == [*range(1, 11)]
    assert "nDCG@10" in run("evaluate", tmp_path / "parts")


@pytest.mark.parametrize(("option", "trees"), [("--verbose", range(1, 31)), ("--debug", range(3, 31, 3))])
def test_each_tree_has_a_line_only_if_details_are_asked_for(option, trees, tmp_path):
    pytest.importorskip("lightgbm")
    told = run(option, *words("lightgbm"), "--epochs", 30, "--patience", "none", "--out", tmp_path / "a")
    lines = [line for line in told.splitlines() if line.startswith("tree ")]
    assert [line.split("  ")[0] for line in lines] == [f"tree {tree}/30" for tree in trees]
    assert all("nDCG@10 0." in line for line in lines)


def test_the_frameworks_names_are_settings(tmp_path):
    pytest.importorskip("lightgbm")
    told = run("train", "--data", DATA, "--model", "lightgbm", "--set", "n_estimators=3", "--out", tmp_path / "a")
    assert "of 3 trees" in told
    with pytest.raises(ValueError, match="trees must be given only once; got epochs=2 and trees=3"):
        run(*words("lightgbm"), "--epochs", 2, "--set", "n_estimators=3", "--out", tmp_path / "b")


@every_framework
@pytest.mark.usefixtures("_no_processes")
def test_trees_are_tuned(framework, tmp_path):
    pytest.importorskip(framework)
    told = run("tune", "--data", DATA, "--model", framework, "--budget", 4, "--epochs", 9, "--out", tmp_path / "best")
    assert "successive halving: 4 for 3 trees, then the best 2 for 9 trees" in told
    assert "learning_rate" in told or "eta" in told
    best = models.load(tmp_path / "best")
    assert best.unit == "tree"
    found = [json.loads(path.read_text()) for path in (tmp_path / "best").rglob("after-9.json")]
    lists = load(DATA).validation
    assert best.evaluate(lists, ["nDCG@10"])["nDCG@10"] == pytest.approx(max(each["value"] for each in found))


@every_framework
def test_trees_are_exported_and_added_to(framework, tmp_path):
    pytest.importorskip(framework)
    folder, file = tmp_path / "a", FRAMEWORKS[framework][0]
    run(*words(framework), "--epochs", 4, "--out", folder)
    told = run("export", folder, tmp_path / file)
    assert file in told
    assert (tmp_path / file).read_bytes() == (folder / file).read_bytes()
    with pytest.raises(ValueError, match=r"path must|format must|must be"):
        run("export", folder, tmp_path / "a.pt2")
    if framework == "lightgbm":  # the other is in test_trees_export.py
        pytest.importorskip("onnxruntime")
        assert "scores of onnxruntime agree with the model's scores" in run("export", folder, tmp_path / "a.onnx")
    run(*words(framework), "--epochs", 4, "--patience", "none", "--init-model", folder, "--out", tmp_path / "b")
    first, more = models.load(folder), models.load(tmp_path / "b")
    lists = load(DATA).test
    assert more.size > first.size
    assert not np.array_equal(more.score(lists.features), first.score(lists.features))
