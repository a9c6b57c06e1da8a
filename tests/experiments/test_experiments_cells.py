"""One cell is run once, completely or not at all, and its result holds the record of its training."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from tiny_study import CELL, TINY, one_thread

from rankgrad.data import Dataset, load
from rankgrad.experiments.runs import provenance
from rankgrad.experiments.runs.cell import Cell
from rankgrad.experiments.runs.results import read_results
from rankgrad.experiments.runs.run_cell import run_cell
from rankgrad.metrics import evaluate
from rankgrad.training import Model, Settings, train
from rankgrad.trees import TreeRanker

_one_thread = pytest.fixture(one_thread, autouse=True, scope="module")


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
    run_cell(CELL, tmp_path)
    files = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()}
    assert set(files) == {f"{CELL.key}.json", f"{CELL.key}.npz"}
    run_cell(CELL, tmp_path)
    assert files == {path.name: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()}
    (result,) = read_results(tmp_path).cells
    splits = load(TINY)
    model = train(Settings.of({**CELL.settings, "device": "cpu"}), splits.train, splits.validation)
    np.testing.assert_array_equal(result.scores, model.score(splits.test.features, splits.test.offsets))
    judged = model.evaluate(splits.test, ["nDCG@10", "P@3"])
    assert result.test == judged.means
    np.testing.assert_array_equal(result.values("ndcg@10"), judged.values["nDCG@10"])
    assert result.queries.tolist() == [str(query) for query in splits.test.qids]
    assert result.validation == model.metrics["validation"]
    assert (result.epoch, len(result.history), result.parameters) == (model.metrics["epoch"], 2, 13)
    assert result.seconds > 0
    assert 50e6 < result.peak_memory < 50e9
    assert result.commit
    assert result.machine
    assert result.versions["torch"].startswith("2.")
    with pytest.raises(ValueError, match=r"the result of .* must contain the array 'AP'; got arrays: .*nDCG@10, P@3"):
        result.values("AP")


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
    run_cell(cell, tmp_path)
    (result,) = read_results(tmp_path).cells
    splits = load(TINY)
    ranker = TreeRanker(**{"framework" if name == "model" else name: value for name, value in own.items()})
    held = {"eval_set": (splits.validation.features, splits.validation.labels), "eval_group": splits.validation.lengths}
    ranker.fit(splits.train.features, splits.train.labels, group=splits.train.lengths, **held)
    np.testing.assert_array_equal(result.scores, ranker.predict(splits.test.features))
    assert result.test["nDCG@10"] == pytest.approx(result.values("nDCG@10").mean())
    assert result.validation == ranker.model_.metrics["validation"]
    assert result.epoch == ranker.best_trees_
    assert [row["epoch"] for row in result.history] == [*range(1, len(ranker.history_) + 1)]
    assert all(row["seconds"] >= 0 and 0 <= row["nDCG@10"] <= 1 for row in result.history)
    assert ranker.best_trees_ < result.parameters <= 4 * ranker.best_trees_
    assert result.versions[framework]
    assert result.device == "cpu"
    scalars = [row.get("alpha") for row in result.history]
    assert len(set(scalars)) == (len(scalars) if loss == "learndcg" else 1)
    assert set(result.learned) == ({"alpha", "gain_base", "discount_base"} if loss == "learndcg" else set())


def test_a_refit_of_trees_grows_as_many_as_it_is_told(tmp_path):
    pytest.importorskip("lightgbm")
    own = {"model": "lightgbm:num_leaves=4", "loss": "softmax", "trees": 3, "patience": None, "seed": 0}
    run_cell(replace(CELL, refit=True, settings=own), tmp_path)
    (result,) = read_results(tmp_path).cells
    assert (result.epoch, result.validation) == (3, {})
    assert [row["epoch"] for row in result.history] == [1, 2, 3]
    assert 6 <= result.parameters <= 12


def test_a_cell_is_done_when_its_last_file_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr("rankgrad.experiments.runs.run_cell.write_json", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run_cell(CELL, tmp_path)
    assert [path.name for path in (tmp_path / "cells").iterdir()] == [f"{CELL.key}.npz"]
    assert read_results(tmp_path).cells == []


def test_a_tuning_cell_never_sees_the_test_lists(tmp_path, monkeypatch):
    monkeypatch.setattr(Model, "score", lambda *_: pytest.fail("something was scored"))
    run_cell(replace(CELL, stage="tune"), tmp_path)
    (result,) = read_results(tmp_path).cells
    assert result.test == {}
    assert list((tmp_path / "cells").glob("*.npz")) == []
    assert 0 < result.validation["nDCG@10"] < 1


def test_a_loss_that_is_not_finite_is_the_last_choice_and_no_final_result(tmp_path):
    wild = {**CELL.settings, "lr": 1e30, "epochs": 9}
    run_cell(replace(CELL, settings=wild, stage="tune"), tmp_path)
    (result,) = read_results(tmp_path).cells
    assert math.isnan(result.validation["nDCG@10"])
    assert "the loss must be finite" in result.error
    with pytest.raises(ArithmeticError, match="the loss must be finite"):
        run_cell(replace(CELL, settings=wild), tmp_path)
    assert len(list((tmp_path / "cells").iterdir())) == 1


def test_a_refit_trains_on_train_and_validation_to_the_last_epoch(tmp_path):
    cell = replace(CELL, refit=True, settings={**CELL.settings, "epochs": 3, "patience": None})
    run_cell(cell, tmp_path)
    (result,) = read_results(tmp_path).cells
    splits = load(TINY)
    parts = [splits.train, splits.validation]
    lengths = np.concatenate([part.lengths for part in parts])
    both = Dataset(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in ("features", "labels")),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        qids=np.arange(len(lengths)),
    )
    model = train(Settings.of({**cell.settings, "device": "cpu"}), both)
    np.testing.assert_array_equal(result.scores, model.score(splits.test.features, splits.test.offsets))
    assert result.epoch == 3
    assert result.validation == {}


def test_binary_labels(tmp_path):
    run_cell(CELL, tmp_path)
    run_cell(replace(CELL, binary=True), tmp_path)
    plain, binary = sorted(read_results(tmp_path).cells, key=lambda each: each.cell.binary)
    test = load(TINY).test
    judged = replace(test, labels=(test.labels > 0).astype(np.float32))
    found = evaluate(binary.scores, judged.labels, ["nDCG@10", "P@3"], offsets=judged.offsets)
    assert binary.test == found.means
    assert not np.array_equal(plain.scores, binary.scores)


def test_memory_is_measured_anew_for_each_cell():
    if not provenance.reset_peak():
        pytest.skip("this system does not forget a process's peak")
    held = np.ones(30_000_000)  # 240 MB
    high = provenance.peak_memory()
    del held
    provenance.reset_peak()
    assert provenance.peak_memory() < high - 200e6
