"""Search of settings: its space and rounds, and `rankgrad tune`."""

import json
from dataclasses import replace

import pytest
from programs import killed
from tiny_study import TINY, invoke, no_processes, one_thread

from rankgrad.data import load
from rankgrad.experiments.tuning import Search
from rankgrad.training import Model

_one_thread = pytest.fixture(one_thread, autouse=True, scope="module")
_no_processes = pytest.fixture(no_processes)


def test_a_search_tries_the_default_first_and_keeps_what_is_given():
    search = Search({"model": "mlp:widths=8", "epochs": 90}, 27, ("lr",), (("clip", [0.1, 1.0]),))
    search.check()
    assert {"lr", "model.widths"}.isdisjoint(search.space)
    assert {"clip", "model.dropout", "batch_size"} <= search.space.keys()
    drawn = search.draws()
    assert drawn[0] == {}
    assert len(drawn) == 27
    assert replace(search, budget=40).draws()[:27] == drawn
    assert search.halving_rounds() == [(27, 10), (9, 30), (3, 90)]
    assert replace(search, budget=1).halving_rounds() == [(1, 90)]
    assert Search({"model": "lambdaloss-dnn"}, 4).space.keys() == {
        "lr",
        "weight_decay",
        "batch_size",
        "preprocess",
    }
    with pytest.raises(ValueError, match="schedule must not depend on the number of epochs"):
        Search({"model": "mlp", "schedule": "cosine"}, 9).check()
    with pytest.raises(ValueError, match="did you mean 'dropout'"):
        Search({"model": "mlp"}, 9, vary=(("model.droput", [0.1]),)).check()
    with pytest.raises(ValueError, match="lr must be above 0"):
        Search({"model": "mlp"}, 9, vary=(("lr", [0.0]),)).check()


@pytest.mark.parametrize("model", ["linear", "mlp", "context_aware", "attsets", "attention_mil", "dasalc"])
def test_every_search_space_fits_its_model(model):
    search = Search({"model": model}, 60)
    search.check()
    for drawn in search.draws():
        search.kind.check(search.settings(drawn))


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
    for said in ("importance", "out-of-bag R²", "test lists, which were not used in the search", "rankgrad predict"):
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
    # It resumes: nothing is done again, more trials are added to the first ones.
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "best" / "trials").rglob("*.safetensors")}
    more = [15 if word == 12 else word for word in TUNE]
    invoke(*more, "--out", tmp_path / "best")
    assert len(list((tmp_path / "best").rglob("after-3.json"))) == 15
    kept = [path for path, stamp in stamps.items() if path.stat().st_mtime_ns == stamp]
    assert len(kept) > len(stamps) / 2
    with pytest.raises(ValueError, match=r"contain a search with seed 5 .*best, which contains a search with seed 0"):
        invoke(*TUNE, "--seed", 5, "--out", tmp_path / "best")


@pytest.mark.long
@pytest.mark.usefixtures("_no_processes")
def test_a_killed_search_ends_in_the_same_model(tmp_path):
    command = [*TUNE, "--jobs", 2, "--set", "batch_size=1", "--set", "patience=none"]
    command[command.index(9)] = 36
    count, _ = killed((*command, "--out", tmp_path / "killed"), tmp_path / "killed" / "trials", 3, seed=0)
    assert count > 1
    invoke(*command, "--out", tmp_path / "whole")
    left, right = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("killed", "whole"))
    assert left == right


def test_tune_complains_at_once(tmp_path):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        invoke("tune", "--data", "MQ2080", "--model", "mpl", "--budget", 0, "--device", "gpu", "--out", tmp_path / "a")
    said = str(caught.value).splitlines()
    assert [line.split()[0] for line in said][:1] == ["model"]
    assert any("'MQ2008'" in line for line in said)
    with pytest.raises(ValueError, match="set must have the form name=value; got 'lr'"):
        invoke("tune", "--data", TINY, "--set", "lr")
