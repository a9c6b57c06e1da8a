"""`rankgrad auto`: a model from one command, resumed after kills, within its limits."""

import json
import shutil

import numpy as np
import pytest
from programs import finished, killed
from programs import run_here as run
from tiny_study import no_processes, one_thread

from rankgrad import models
from rankgrad.data import load

pytest.importorskip("lightgbm")

DATA = "synthetic:lists=30,features=10,mean_length=8"
QUICK = ("auto", "--data", DATA, "--trials", 3, "--folds", 2, "--jobs", 1)

_one_thread = pytest.fixture(one_thread, autouse=True, scope="module")
_no_processes = pytest.fixture(no_processes)


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """The folder of a finished search, and what it printed; no test may change it."""
    out = tmp_path_factory.mktemp("search") / "best"
    with pytest.MonkeyPatch.context() as patch:
        no_processes(patch)
        return out, run(*QUICK, "--out", out)


@pytest.fixture
def out(searched, tmp_path):
    """A folder with a copy of the finished search."""
    return shutil.copytree(searched[0], tmp_path / "best")


@pytest.mark.usefixtures("_no_processes")
def test_auto_saves_a_model_that_all_commands_read(searched, out):
    printed = searched[1]
    assert "lightgbm" in printed
    assert "nDCG@10 on lists that were not used to choose the ensemble" in printed
    assert "latency: " in printed
    test = load(DATA).test
    scores = models.load(out).score_lists(test)
    assert "nDCG@10" in run("evaluate", out)
    found = json.loads((out / "metrics.json").read_text())["test"]["nDCG@10"]
    assert found == pytest.approx(models.load(out).evaluate(test, ["nDCG@10"])["nDCG@10"])
    assert "the calibration was fitted on the training lists" in run("calibrate", out)  # `auto` also trains on these
    assert "the calibration" not in run("calibrate", out, "--split", "test")
    (out / "calibration.json").unlink()
    again = run(*QUICK, "--out", out)  # everything is already trained
    assert "model: " in again
    assert (models.load(out).score_lists(test) == scores).all()
    run("auto", "--data", DATA, "--trials", 5, "--folds", 2, "--jobs", 1, "--out", out)  # it continues
    rows = json.loads((out / "search" / "result.json").read_text())["leaderboard"]
    assert len(rows) == 5


@pytest.mark.usefixtures("_no_processes")
def test_forms_and_json(out):
    made = json.loads(run(*QUICK, "--single", "--out", out, "--json", "--quiet"))
    assert made["form"] == "single model"
    assert sum(member["models"] for member in made["members"]) == 1
    made = json.loads(run(*QUICK, "--distil", "lightgbm", "--out", out, "--json", "--quiet"))
    assert made["form"].startswith("student of the ")
    assert (out / "model.txt").is_file()
    assert not list(out.glob("part-*"))
    assert "the student has" in run(*QUICK, "--distil", "lightgbm", "--out", out)
    made = json.loads(run(*QUICK, "--max-latency", "10s", "--out", out, "--json", "--quiet"))
    assert not (out / "model.txt").exists() or made["members"][0]["model"] == "lightgbm"
    assert made["latency"] < 10
    assert "nDCG@10" in str(made["test"])


@pytest.mark.usefixtures("_no_processes")
def test_overwrite_removes_the_search_and_the_parts(out, tmp_path):
    (out / "mine.txt").write_text("kept")
    with pytest.raises(ValueError, match="the folder of a search with seed=1"):
        run(*QUICK, "--seed", 1, "--out", out)
    run(*QUICK, "--seed", 1, "--overwrite", "--single", "--out", out)
    assert not list(out.glob("part-*"))
    assert (out / "mine.txt").read_text() == "kept"
    assert json.loads((out / "search" / "search.json").read_text())["settings"]["seed"] == 1
    run("train", "--data", DATA, "--model", "linear", "--epochs", 1, "--out", tmp_path / "other")
    with pytest.raises(ValueError, match=r"out must be a new folder .*; got .*, which contains a model"):
        run(*QUICK, "--out", tmp_path / "other")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--minutes", 1), "--minutes and --trials must not be given together"),
        (("--max-latency", "fast"), "be a duration such as 2ms"),
        (("--memory", "much"), "memory must be a size such as 4GB"),
        (("--distil", "forest"), "distil must be"),
        (("--single", "--distil", "mlp"), "not be given together"),
        (("--jobs", 0), "jobs must be at least 1"),
        (("--metric", "nDGC@10"), "nDGC"),
    ],
)
@pytest.mark.usefixtures("_no_processes")
def test_wrong_options_get_a_sentence(tmp_path, words, message):
    with pytest.raises(ValueError, match=message):
        run(*QUICK, *words, "--out", tmp_path / "best")


@pytest.mark.usefixtures("_no_processes")
def test_an_interrupted_save_keeps_the_earlier_model(out, tmp_path, monkeypatch):
    scores = models.load(out).score_lists(load(DATA).test)

    def broken(self, folder):
        (folder / "part-1").mkdir(parents=True)
        raise OSError("disk full")

    monkeypatch.setattr("rankgrad.models.blend.BlendModel.save", broken)
    with pytest.raises(OSError, match="disk full"):
        run(*QUICK, "--out", out)
    assert np.array_equal(models.load(out).score_lists(load(DATA).test), scores)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="out must be a folder"):
        run(*QUICK, "--out", tmp_path / "file")


def same_model(first, second):
    """Whether two folders have the same model, by the scores of all test lists."""
    test = load(DATA).test
    return np.array_equal(models.load(first).score_lists(test), models.load(second).score_lists(test))


@pytest.mark.long  # a program starts in several seconds, twelve times
def test_killed_searches_end_in_the_same_model(tmp_path):
    words = ("auto", "--data", DATA, "--trials", 6, "--folds", 2, "--jobs", 1, "--seed", 4)
    assert finished(*words, "--out", tmp_path / "whole").returncode == 0
    out = tmp_path / "parts"
    out.mkdir()
    count, _ = killed((*words, "--out", out), out, kills=10, seed=10)
    assert count >= 5
    assert same_model(tmp_path / "whole", out)
