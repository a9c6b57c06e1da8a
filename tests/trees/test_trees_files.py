"""Boosted trees on disk and on the command line."""

import numpy as np
import pytest
from small_trees import QID, X, Y, every_framework, quick
from typer.testing import CliRunner

from rankgrad.cli import app
from rankgrad.models import load
from rankgrad.trees import TreeRanker


@every_framework
def test_saved_and_loaded_it_predicts_identically(framework, tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcd"))
    ranker = quick(framework, loss="lambdarank@5", seed=3).fit(frame, Y, qid=QID)
    ranker.save(tmp_path / "model")
    again = TreeRanker.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(frame), ranker.predict(frame))
    assert again.get_params() == ranker.get_params()
    assert again.feature_names_in_.tolist() == list("abcd")
    assert again.best_trees_ == ranker.best_trees_
    again.save(tmp_path / "twice")
    np.testing.assert_array_equal(TreeRanker.load(tmp_path / "twice").predict(frame), ranker.predict(frame))


@pytest.mark.parametrize("loss", ["lambdarank", "native:lambdarank"])
def test_plain_lightgbm_loads_the_file(loss, tmp_path):
    lgb = pytest.importorskip("lightgbm")
    ranker = quick(loss=loss).fit(X, Y, qid=QID)
    ranker.save(tmp_path)
    plain = lgb.Booster(model_file=str(tmp_path / "model.txt"))
    assert plain.num_trees() == ranker.best_trees_
    np.testing.assert_allclose(plain.predict(X), ranker.predict(X), rtol=1e-6)


@pytest.mark.parametrize("loss", ["lambdarank", "native:rank:ndcg"])
def test_plain_xgboost_loads_the_file(loss, tmp_path):
    xgb = pytest.importorskip("xgboost")
    ranker = quick("xgboost", loss=loss).fit(X, Y, qid=QID)
    ranker.save(tmp_path)
    plain = xgb.Booster(model_file=str(tmp_path / "model.json"))
    assert plain.num_boosted_rounds() == ranker.best_trees_
    np.testing.assert_allclose(plain.predict(xgb.DMatrix(X)), ranker.predict(X), rtol=1e-6)


def command(*arguments):
    done = CliRunner().invoke(app, [*map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize(
    ("model", "loss"), [("lightgbm:num_leaves=4", "native:lambdarank"), ("xgboost:max_depth=2", "lambdarank@10")]
)
def test_one_flag_away_on_the_command_line(model, loss, tmp_path):
    pytest.importorskip(model.partition(":")[0])
    data = ("--data", "synthetic:lists=40,features=12")
    out = tmp_path / "run"
    said = command("train", *data, "--model", model, "--loss", loss, "--epochs", 8, "--lr", 0.2, "--out", out)
    assert "of 8 trees, nDCG@10" in said
    ranker = TreeRanker.load(out)
    assert ranker.trees == 8
    assert ranker.get_params()["learning_rate" if "lightgbm" in model else "eta"] == 0.2
    assert "nDCG@10" in command("evaluate", out)
    lines = tmp_path / "test.txt"
    values = np.random.default_rng(0).normal(size=(5, 12)).astype(np.float32)
    lines.write_text(
        "".join(f"0 qid:1 {' '.join(f'{i}:{v!r}' for i, v in enumerate(row.tolist(), 1))}\n" for row in values)
    )
    command("predict", out, lines, "--out", tmp_path / "scores.txt")
    np.testing.assert_allclose(np.loadtxt(tmp_path / "scores.txt"), ranker.predict(values), rtol=1e-6)


def test_what_trees_do_not_have_is_said(tmp_path):
    pytest.importorskip("lightgbm")
    data = ("--data", "synthetic:lists=40,features=12", "--out", tmp_path / "run")
    with pytest.raises(ValueError, match="preprocess must not be given with lightgbm, which has no such setting"):
        command("train", *data, "--model", "lightgbm", "--preprocess", "none")


@every_framework
def test_resumed_on_the_command_line(framework, tmp_path):
    pytest.importorskip(framework)
    data, out = ("--data", "synthetic:lists=40,features=12"), tmp_path / "run"
    command("train", *data, "--model", framework, "--epochs", 3, "--seed", 5, "--out", out)
    command("train", "--resume", "--epochs", 6, "--out", out)
    command("train", *data, "--model", framework, "--epochs", 6, "--seed", 5, "--out", tmp_path / "whole")
    assert load(out).content() == load(tmp_path / "whole").content()
    assert len((out / "log.jsonl").read_text().splitlines()) == 6
