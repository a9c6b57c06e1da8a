"""What version 0.2 wrote is read and resumed: models of all kinds, killed runs, a cache, a search, a study, an index.

`tests/version_0_2/record.py` recorded `tests/version_0_2/folders.tar.xz` with the code of that version.
"""

import json
import shutil
import tarfile

import numpy as np
import pytest
from paths import TESTS
from programs import run_here as run
from tiny_study import one_thread
from version_0_2 import record

import rankgrad as rg

_one_thread = pytest.fixture(one_thread, autouse=True, scope="module")
NEEDS = {"lightgbm": ("lightgbm", "blend", "auto", "trees"), "xgboost": ("xgboost",)}
NEEDS |= {"transformers": ("bi", "cross", "text", "index"), "bm25s": ("bi", "cross", "text", "index")}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    top = tmp_path_factory.mktemp("v0.2")
    with tarfile.open(TESTS / "version_0_2" / "folders.tar.xz") as packed:
        packed.extractall(top, filter="data")
    return top


@pytest.fixture
def folder(recorded, tmp_path, monkeypatch):
    """A copy, which a test may change; the working directory."""
    shutil.copytree(recorded, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def need(name):
    for package, names in NEEDS.items():
        if name in names:
            pytest.importorskip(package)


def check_scores(folder, name):
    run(*record.command(name).split())
    expected = json.loads((folder / "expected.json").read_text())["scores"][name]
    assert record.scores(name) == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("name", [name for name in record.SCORED if name not in record.STOPPED])
def test_models_score_as_they_did(folder, name):
    need(name)
    check_scores(folder, name)


@pytest.mark.parametrize("name", record.STOPPED)
def test_a_killed_run_ends_as_it_did(folder, name):
    need(name)
    expected, before = json.loads((folder / "expected.json").read_text())["log"][name], record.log(name)
    assert len(before) < len(expected)
    if name == "text":
        record.text_run()
    else:
        run(*record.KILLED[name][1].split(), "--resume")
    for row, known in zip(record.log(name), expected, strict=True):
        assert row == pytest.approx(known, rel=1e-4, abs=1e-5)
    check_scores(folder, name)


def test_a_cache_and_an_index_are_read(folder):
    np.testing.assert_array_equal(rg.data.open_cache("cache").features, rg.data.read_letor("file.txt").features)
    need("index")
    run("text", "search", "index", "--out", "bm25.txt")
    assert "nDCG" in run("text", "evaluate", "index", "bm25.txt")


@pytest.mark.parametrize("name", ["auto", "study"])
def test_what_is_finished_is_not_run_again(folder, name):
    need(name)
    done = {
        path: path.stat().st_mtime_ns for pattern in ("fit.json", "cells/*") for path in (folder / name).rglob(pattern)
    }
    run(*next(words for words in record.COMMANDS if words.endswith(f"--out {name}")).split())
    assert done
    assert done == {path: path.stat().st_mtime_ns for path in done}
    if name == "study":
        run("report", "study", "--out", "report.html")
        assert "RankNet" in (folder / "report.html").read_text()
