"""Missing, categorical and sparse columns on the command line: train, evaluate, predict, from every format."""

import io
import json

import numpy as np
import pytest
from programs import finished
from programs import invoke as run
from programs import stdout_of as rankgrad
from tiny_study import no_processes

import rankgrad as rg
from rankgrad.data import read_letor, write_letor

_no_processes = pytest.fixture(no_processes)
pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
RNG = np.random.default_rng(1)
QID = np.repeat(np.arange(40), 8)
FRAME = pd.DataFrame({"qid": QID, "label": RNG.integers(0, 3, len(QID)), "x": RNG.normal(size=len(QID))})
FRAME = FRAME.assign(shop=RNG.choice(["ant", "bee", "cat"], len(QID)), size=RNG.choice([5, 10, 20], len(QID)))
FRAME["label"] += (FRAME["shop"] == "bee") * 2
HOLES = FRAME.assign(x=np.where(RNG.random(len(QID)) < 0.2, np.nan, FRAME["x"]))
QUICK = ("--epochs", "4", "--lr", "0.01", "--holdout", "0")


def message(*arguments):
    error = run(*arguments).exception
    assert isinstance(error, ValueError)
    return str(error)


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
        assert len(rankgrad("predict", out, tmp_path / name, "--format", "csv").splitlines()) == len(FRAME) + 1
    few = FRAME[FRAME["shop"] != "ant"]  # a file with fewer categories has the categories of the model
    few.to_csv(tmp_path / "few.csv", index=False)
    np.testing.assert_allclose(
        scores(out, tmp_path / "few.csv"), found["t.csv"][(FRAME["shop"] != "ant").to_numpy()], atol=1e-6
    )
    told = json.loads(rankgrad("evaluate", out, "--data", tmp_path / "few.csv", "--json"))
    assert told
    config = json.loads((out / "config.json").read_text())
    assert config["categories"] == {"1": ["ant", "bee", "cat"], "2": ["5", "10", "20"]}


def test_numbers_as_categories_from_every_format(tmp_path):
    frame = FRAME.assign(size=RNG.choice([0.1, 2.0, np.nan], len(QID)))[["qid", "label", "x", "size"]]
    frame.to_csv(tmp_path / "t.csv", index=False)  # "2.0"
    frame.astype({"x": "float32", "size": "float32"}).to_parquet(tmp_path / "narrow.parquet")
    frame.to_parquet(tmp_path / "wide.parquet")
    for name in ("t.csv", "narrow.parquet"):
        out = tmp_path / f"run-{name}"
        rankgrad("train", "--data", tmp_path / name, "--categorical", "size", *QUICK, "--out", out)
        assert json.loads((out / "config.json").read_text())["categories"] == {"1": ["2", "0.1"]}
        expected = scores(out, tmp_path / "t.csv")
        for other in ("narrow.parquet", "wide.parquet"):
            np.testing.assert_allclose(scores(out, tmp_path / other), expected, atol=1e-5)
    told = json.loads(rankgrad("explain", out, "--data", tmp_path / "t.csv", "--query", 3, "--json"))
    assert {str(value) for row in told["features"] if row["feature"] == "size" for value in row["values"]} <= {
        *("2", "0.1", "None"),
    }
    shops = tmp_path / "shops"
    FRAME.to_csv(tmp_path / "s.csv", index=False)
    rankgrad("train", "--data", tmp_path / "s.csv", "--categorical", "shop", *QUICK, "--out", shops)
    told = rankgrad("explain", shops, "--data", tmp_path / "s.csv", "--query", 3, "--documents", "1", "2")
    line = next(line for line in told.splitlines() if line.strip().startswith("shop"))
    assert line.split()[2:4] == FRAME[FRAME["qid"] == 3]["shop"].tolist()[:2]
    assert "and a category by a missing value." in told
    FRAME.assign(shop="yak").to_csv(tmp_path / "s.csv", index=False)
    done = run("predict", shops, tmp_path / "s.csv")
    assert done.stderr.count("100% of the values of the categorical column 'shop' are unknown to the model") == 1


def test_truth_values_as_categories_from_every_format(tmp_path):
    frame = FRAME.assign(new=RNG.choice([True, False], len(QID)))[["qid", "label", "x", "new"]]
    frame["label"] = frame["new"] * 2 + (frame["x"] > 0)
    frame.to_csv(tmp_path / "t.csv", index=False)  # "True", "False"
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    found = []
    for name in ("t.csv", "t.parquet", "t.jsonl"):
        out = tmp_path / f"run-{name}"
        rankgrad("train", "--data", tmp_path / name, "--categorical", "new", *QUICK, "--out", out)
        assert json.loads((out / "config.json").read_text())["categories"] == {"1": ["false", "true"]}
        found += [scores(out, tmp_path / other) for other in ("t.csv", "t.parquet", "t.jsonl")]
        found.append(rg.Ranker.load(out).predict(frame[["x", "new"]]))
        found.append(rg.Ranker.load(out).predict(frame[["x", "new"]].astype({"new": "category"})))
    for each in found[1:]:
        np.testing.assert_allclose(each, found[0], atol=1e-5)


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
    assert "a missing value in column 'x'" in told
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
    assert message("train", *given, "median").startswith("--missing must be 'error', 'zero', 'mean', 'indicator', a n")


@pytest.mark.parametrize("model", ["linear", "lightgbm"])
def test_sparse_letor_text(model, tmp_path):
    (tmp_path / "data").mkdir()
    lines = [
        f"{label} qid:{query} 1:{x:.3f} {5_000 + place % 7}:1"
        for place, (query, label, x) in enumerate(zip(QID, FRAME["label"], FRAME["x"], strict=True))
    ]
    (tmp_path / "data" / "train.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "data" / "test.txt").write_text("\n".join(lines[:80]) + "\n")
    (tmp_path / "one.txt").write_text("\n".join(lines) + "\n")
    given = ("--model", model, "--sparse", "--epochs", "2", "--holdout", "0")
    rankgrad("train", "--data", tmp_path / "data", *given, "--out", tmp_path / "run")
    rankgrad("evaluate", tmp_path / "run")
    assert "score A - B" in rankgrad("explain", tmp_path / "run", "--query", 3, "--top", 3)
    data = read_letor(tmp_path / "one.txt", sparse=True)
    assert data.features.nnz == len(QID) + np.count_nonzero(np.round(FRAME["x"], 3))
    model = rg.models.load(tmp_path / "run")
    np.testing.assert_allclose(
        scores(tmp_path / "run", tmp_path / "one.txt"), model.score_lists(data), rtol=1e-5, atol=1e-6
    )


@pytest.fixture
def holes(tmp_path):
    """A folder of tables with missing values, and one file."""
    table = HOLES.drop(columns="shop").assign(title="text")
    for name, part in {"train": table, "vali": table[table["qid"] < 15], "test": table[table["qid"] >= 30]}.items():
        (tmp_path / "data").mkdir(exist_ok=True)
        part.to_csv(tmp_path / "data" / f"{name}.csv", index=False)
    table.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path


@pytest.mark.usefixtures("_no_processes")
def test_tune_trees_and_networks_on_missing_values(holes):
    given = ("tune", "--data", holes / "data", "--budget", 1, "--epochs", 2, "--jobs", 1)
    told = message(*given, "--out", holes / "no")
    assert "a missing value in column 'x'; expected a finite number (or set missing=" in told
    trees = rankgrad(*given, "--model", "lightgbm", "--vary", "lr=0.03..0.2", "--out", holes / "trees")
    assert "learning_rate      0.03 to 0.2" in trees
    rankgrad(*given, "--missing", "mean", "--model", "linear", "--out", holes / "linear")
    kept = json.loads((holes / "trees" / "data.json").read_text())
    assert kept["missing"] == "nan"


def test_commands_with_missing_values(holes):
    quick = ("--data", holes / "t.csv", "--epochs", 2, "--holdout", 0)
    parts = [holes / "trees", holes / "network"]
    rankgrad("train", *quick, "--model", "lightgbm", "--out", parts[0], "--cache", holes / "cc")
    rankgrad("train", *quick, "--missing", "mean", "--out", parts[1], "--cache", holes / "cd")
    blend = f"blend:parts={parts[0]}|{parts[1]}"
    rankgrad("train", "--data", holes / "t.csv", "--model", blend, "--out", holes / "blend")
    for model in (*parts, holes / "blend"):
        rankgrad("evaluate", model, "--data", holes / "t.csv")
    told = rankgrad("compare", *parts, "--data", holes / "t.csv", "--queries", 1)
    assert "40 lists of" in told
    assert "train" not in told.partition("lists of")[2].splitlines()[0]
    told = message("train", *quick, "--missing", "nan", "--out", holes / "no")
    assert told.startswith("missing must be 'zero', 'mean' or 'indicator' for a network")
    assert told.endswith("in the features 'x'")


@pytest.mark.usefixtures("_no_processes")
def test_auto_reads_missing_values(holes):
    rankgrad("auto", "--data", holes / "t.csv", "--trials", 2, "--folds", 2, "--jobs", 1, "--out", holes / "best")
    rankgrad("evaluate", holes / "best", "--data", holes / "t.csv")
    X, y = HOLES[["x", "size"]], HOLES["label"]
    ranker = rg.AutoRanker(trials=2, folds=2).fit(X, y, qid=QID)
    assert np.isfinite(ranker.predict(X, QID)).all()
    complete = rg.AutoRanker(trials=2, folds=2).fit(FRAME[["x", "size"]], y, qid=QID)
    with pytest.raises(ValueError, match="X must not contain NaN"):
        complete.predict(X, QID)
    with pytest.warns(UserWarning, match="the first set is added to the training lists"):
        rg.AutoRanker(trials=1, folds=2).fit(X, y, qid=QID, eval_set=[(X, y)] * 2, eval_qid=[QID] * 2)


def test_inspect_counts_missing_and_infinite_values(holes):
    told = rankgrad("inspect", holes / "t.csv")
    share = HOLES["x"].isna().mean()
    assert f"'x' {share:.1%}" in told
    table = HOLES.drop(columns="shop").astype({"size": "float64"})
    table.loc[3, "size"] = np.inf
    table.to_csv(holes / "inf.csv", index=False)
    found = json.loads(rankgrad("inspect", holes / "inf.csv", "--json"))
    assert any("counted as missing: 'size' 1" in warning for warning in found["warnings"])
    assert len(rankgrad("inspect", "--help").splitlines()) <= 40
    assert all(f"--{name}" in rankgrad("inspect", "--help") for name in ("query", "label", "docid"))


def test_columns_of_the_other_model_and_of_none(tmp_path):
    table = HOLES.drop(columns="shop").rename(columns={"qid": "search", "label": "clicks"})
    table["search"] = "query " + table["search"].astype(str)
    table.to_csv(tmp_path / "t.csv", index=False)
    names = ("--data", tmp_path / "t.csv", "--query", "search", "--label", "clicks")
    rankgrad("train", *names, "--model", "lightgbm", *QUICK[:2], "--holdout", 0, "--out", tmp_path / "run")
    rg.Ranker(epochs=1, holdout=0.0, missing="mean").fit(HOLES[["x", "size"]], HOLES["label"], qid=QID).save(
        tmp_path / "python"
    )
    told = rankgrad("compare", tmp_path / "python", tmp_path / "run", "--data", tmp_path / "t.csv", "--queries", 1)
    assert "query query" not in told
    assert "\nquery " in told
    told = message("evaluate", tmp_path / "python", *names[:4])
    assert "label must be given" in told
    assert "saved from Python does not record columns" in told
    rankgrad("evaluate", tmp_path / "python", *names)
    (tmp_path / "killed").mkdir()
    (tmp_path / "killed" / "run.json").write_text("{}")
    told = message("evaluate", tmp_path / "killed", *names)
    assert f"rankgrad train --resume --out {tmp_path / 'killed'}" in told


def test_a_column_that_has_lost_all_values_is_one_line(tmp_path):
    FRAME.drop(columns="shop").to_csv(tmp_path / "t.csv", index=False)
    FRAME.drop(columns="shop").assign(x=np.nan).to_csv(tmp_path / "lost.csv", index=False)
    model = ("--model", "lightgbm", "--epochs", 3, "--holdout", 0)
    rankgrad("train", "--data", tmp_path / "t.csv", *model, "--out", tmp_path / "run")
    told = "warning: columns without a value in any row, which are treated as missing: 'x'\n"
    for command in (
        ("predict", tmp_path / "run", tmp_path / "lost.csv"),
        ("evaluate", tmp_path / "run", "--data", tmp_path / "lost.csv"),
    ):
        done = finished(*command)
        assert done.returncode == 0
        assert done.stderr.count(told) == 1, done.stderr
        assert "UserWarning" not in done.stderr
