"""Missing, categorical and sparse columns on the command line: train, evaluate, predict, from every format."""

import io
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import rankgrad as rg
from rankgrad.cli import app
from rankgrad.data import read_letor, write_letor

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
RNG = np.random.default_rng(1)
QID = np.repeat(np.arange(40), 8)
FRAME = pd.DataFrame({"qid": QID, "label": RNG.integers(0, 3, len(QID)), "x": RNG.normal(size=len(QID))})
FRAME = FRAME.assign(shop=RNG.choice(["ant", "bee", "cat"], len(QID)), size=RNG.choice([5, 10, 20], len(QID)))
FRAME["label"] += (FRAME["shop"] == "bee") * 2
HOLES = FRAME.assign(x=np.where(RNG.random(len(QID)) < 0.2, np.nan, FRAME["x"]))
QUICK = ("--epochs", "4", "--lr", "0.01", "--holdout", "0")


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def message(*arguments):
    error = run(*arguments).exception
    assert isinstance(error, ValueError)
    return str(error)


def rankgrad(*arguments):
    done = run(*arguments)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def scores(*arguments):
    return np.loadtxt(io.StringIO(rankgrad("predict", *arguments)))


@pytest.mark.parametrize("model", ["mlp:widths=16", "lightgbm"])
def test_categories_from_every_format(model, tmp_path):
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    FRAME.to_parquet(tmp_path / "t.parquet")
    FRAME.to_csv(tmp_path / "t.tsv", index=False, sep="\t")
    found = {}
    for name in ("t.csv", "t.parquet", "t.tsv"):
        out = tmp_path / f"run-{name}"
        told = rankgrad(
            "train", "--data", tmp_path / name, "--categorical", "shop,size", "--model", model, *QUICK, "--out", out
        )
        assert "categorical: 'shop', 'size'" in told
        found[name] = scores(out, tmp_path / name)
        np.testing.assert_array_equal(found[name], found["t.csv"])
        np.testing.assert_array_equal(scores(out, tmp_path / "t.csv"), found["t.csv"])
    few = FRAME[FRAME["shop"] != "ant"]  # a file with fewer categories has the categories of the model
    few.to_csv(tmp_path / "few.csv", index=False)
    np.testing.assert_allclose(
        scores(out, tmp_path / "few.csv"), found["t.csv"][(FRAME["shop"] != "ant").to_numpy()], atol=1e-6
    )
    told = json.loads(rankgrad("evaluate", out, "--data", tmp_path / "few.csv", "--json"))
    assert told
    config = json.loads((out / "config.json").read_text())
    assert config["categories"] == {"1": ["ant", "bee", "cat"], "2": ["5", "10", "20"]}


def test_feature_numbers_of_letor_text(tmp_path):
    codes = FRAME.assign(shop=FRAME["shop"].map({"ant": 3.0, "bee": 7.0, "cat": 9.0}))
    data = rg.data.from_frame(codes)
    write_letor(data, tmp_path / "t.txt")
    rankgrad("train", "--data", tmp_path / "t.txt", "--categorical", "2", *QUICK, "--out", tmp_path / "run")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["categories"] == {"1": ["3", "7", "9"]}
    ranker = rg.Ranker(epochs=4, lr=0.01, holdout=0.0, categorical=[1])
    ranker.fit(data.features, data.labels, qid=data.row_qids)
    np.testing.assert_allclose(scores(tmp_path / "run", tmp_path / "t.txt"), ranker.predict(data.features), atol=1e-6)
    rankgrad("evaluate", tmp_path / "run", "--data", tmp_path / "t.txt")
    told = message("train", "--data", tmp_path / "t.txt", "--categorical", "9", *QUICK, "--out", tmp_path / "no")
    assert told == "categorical must be feature numbers from 1 to 3 for LETOR text; got '9'"


@pytest.mark.parametrize("missing", ["zero", "mean", "indicator"])
def test_missing_values(missing, tmp_path):
    HOLES.drop(columns="shop").to_csv(tmp_path / "t.csv", index=False)
    told = message("train", "--data", tmp_path / "t.csv", *QUICK, "--out", tmp_path / "no")
    assert "a missing, infinite or too large value in column 'x'" in told
    rankgrad("train", "--data", tmp_path / "t.csv", "--missing", missing, *QUICK, "--out", tmp_path / "run")
    found = scores(tmp_path / "run", tmp_path / "t.csv")
    features = HOLES[["x", "size"]].to_numpy()
    ranker = rg.Ranker(epochs=4, lr=0.01, holdout=0.0, missing=missing).fit(features, HOLES["label"], qid=QID)
    np.testing.assert_allclose(found, ranker.predict(features), atol=1e-6)
    # A model that was saved by the estimator does not record its data, and takes NaN as well.
    ranker.save(tmp_path / "saved")
    rankgrad("evaluate", tmp_path / "saved", "--data", tmp_path / "t.csv")
    rankgrad("evaluate", tmp_path / "run", "--split", "train")


def test_trees_take_missing_values_without_an_option(tmp_path):
    HOLES.drop(columns="shop").to_csv(tmp_path / "t.csv", index=False)
    rankgrad(
        "train",
        "--data",
        tmp_path / "t.csv",
        "--model",
        "lightgbm",
        *QUICK[:2],
        "--holdout",
        0,
        "--out",
        tmp_path / "run",
    )
    ranker = rg.trees.TreeRanker(trees=4, holdout=0.0).fit(HOLES[["x", "size"]], HOLES["label"], qid=QID)
    np.testing.assert_allclose(
        scores(tmp_path / "run", tmp_path / "t.csv"), ranker.predict(HOLES[["x", "size"]]), atol=1e-6
    )
    given = ("--data", tmp_path / "t.csv", "--out", tmp_path / "no", "--missing")
    told = message("train", *given, "mean", "--model", "lightgbm")
    assert told == "missing must not be given with lightgbm, which has no such setting; got 'mean'"
    assert message("train", *given, "median").startswith("missing must be 'error', a number that replaces")


@pytest.mark.parametrize("model", ["linear", "lightgbm"])
def test_sparse_letor_text(model, tmp_path):
    (tmp_path / "data").mkdir()
    lines = [
        f"{label} qid:{query} 1:{x:.3f} {100_000 + place % 7}:1"
        for place, (query, label, x) in enumerate(zip(QID, FRAME["label"], FRAME["x"], strict=True))
    ]
    (tmp_path / "data" / "train.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "data" / "test.txt").write_text("\n".join(lines[:80]) + "\n")
    (tmp_path / "one.txt").write_text("\n".join(lines) + "\n")
    given = ("--model", model, "--sparse", "--epochs", "2", "--holdout", "0")
    rankgrad("train", "--data", tmp_path / "data", *given, "--out", tmp_path / "run")
    rankgrad("evaluate", tmp_path / "run")
    data = read_letor(tmp_path / "one.txt", sparse=True)
    assert data.features.nnz == len(QID) + np.count_nonzero(np.round(FRAME["x"], 3))
    model = rg.models.load(tmp_path / "run")
    np.testing.assert_allclose(
        scores(tmp_path / "run", tmp_path / "one.txt"), model.score_lists(data), rtol=1e-5, atol=1e-6
    )
