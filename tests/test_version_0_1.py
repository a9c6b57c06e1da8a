"""What version 0.1.0 wrote is read: models of all kinds, runs, caches, searches, packed studies.

`tests/version_0_1/folders.tar.xz` was made by that version.
"""

import json
import shutil
import tarfile

import numpy as np
import pytest
from paths import TESTS
from programs import run_here as run
from safetensors.torch import load_file
from tiny_study import one_thread

import rankgrad as rg
from rankgrad import models
from rankgrad.data import open_cache, read_letor

_one_thread = pytest.fixture(one_thread, autouse=True, scope="module")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    top = tmp_path_factory.mktemp("v0.1.0")
    with tarfile.open(TESTS / "version_0_1" / "folders.tar.xz") as packed:
        packed.extractall(top, filter="data")
    return top


@pytest.mark.parametrize("name", ["neural", "lightgbm", "xgboost", "blend"])
def test_models_score_as_they_did(folder, name):
    for framework in {"blend": ("lightgbm", "xgboost")}.get(name, (name,) if name != "neural" else ()):
        pytest.importorskip(framework)
    known = json.loads((folder / "expected.json").read_text())
    rows, qid = np.array(known["rows"], dtype=np.float32), np.array(known["qid"])
    expected = pytest.approx(np.array(known["scores"][name]), rel=1e-5, abs=1e-6)
    offsets = np.array([0, 4, 8, 12])
    assert models.load(folder / name).score(rows, offsets) == expected
    estimator = {"neural": rg.Ranker, "blend": type(rg.blend([None]))}.get(name, rg.trees.TreeRanker)
    assert estimator.load(folder / name).predict(rows, qid=qid) == expected


def distance(a, b):
    """The largest difference of a weight."""
    return max(float((a[name] - b[name]).abs().max()) for name in {*a, *b})


@pytest.mark.parametrize("data", [(), ("--data", "file.txt")], ids=["as noted", "named again"])
def test_a_run_that_was_stopped_is_resumed_with_the_lists_it_had(folder, data, tmp_path, monkeypatch):
    shutil.copytree(folder / "stopped", tmp_path / "stopped")
    shutil.copy(folder / "file.txt", tmp_path)
    monkeypatch.chdir(tmp_path)
    told = run("train", "--resume", *data, "--epochs", 6, "--out", "stopped")
    settings = ("--model", "linear", "--loss", "lambdaloss", "--preprocess", "standardise")
    run("train", *settings, "--data", "file.txt", "--epochs", 6, "--out", "new")
    assert "of 6 epochs" in told
    folders = (tmp_path / "stopped", folder / "whole", tmp_path / "new")
    resumed, whole, new = (load_file(each / "model.safetensors") for each in folders)
    assert distance(resumed, whole) < 1e-5  # 0 on a processor that rounds like the one of the recording
    assert distance(new, whole) > 1e-3  # the rule of today holds out other lists
    assert "nDCG@10" in run("evaluate", "stopped", "--split", "validation")


def test_a_run_of_trees_is_evaluated(folder):
    pytest.importorskip("lightgbm")
    assert "nDCG@10" in run("evaluate", folder / "run-trees")


def test_caches_searches_and_packed_studies(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.testing.assert_array_equal(open_cache(folder / "cache").features, read_letor(folder / "file.txt").features)
    shutil.copytree(folder / "tuned", tmp_path / "tuned")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "tuned").rglob("after-*.json")}
    data = "synthetic:lists=20,features=10"
    run("tune", "--data", data, "--model", "linear", "--loss", "mse", "--budget", 4, "--epochs", 9, "--out", "tuned")
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "tuned").rglob("after-*.json")}
    shutil.copy(folder / "study.tar.xz", tmp_path)
    run("report", "study.tar.xz", "--out", "report.html")
    assert "RankNet" in (tmp_path / "report.html").read_text()
