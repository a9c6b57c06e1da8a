"""`rankgrad importance` and `rankgrad explain`: tables, JSON, charts, and errors in one sentence."""

import json
import re

import pytest
from programs import run_here as run
from tiny_study import one_thread

from rankgrad import models
from rankgrad.data import load
from rankgrad.data.synthetic import true_features

DATA = "synthetic:lists=90,features=10,seed=2"

_one_thread = pytest.fixture(one_thread, autouse=True, scope="module")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "a"
    run("train", "--data", DATA, "--model", "mlp:widths=16", "--epochs", 5, "--out", path)
    return path


def test_importance_prints_a_table_with_bars(folder):
    told = run("importance", folder, "--repeats", 2, "--top", 3)
    assert "loss of nDCG@10" in told
    assert "95% interval" in told
    assert "█" in told
    assert len(re.findall(r"^ *feature \d+ ", told, re.MULTILINE)) == 3
    assert "7 other features are less important (--top prints more)." in told
    assert "shuffled over all documents, 2 times" in told


def test_importance_is_that_of_the_model(folder):
    told = json.loads(run("importance", folder, "--data", DATA, "--repeats", 2, "--seed", 3, "-m", "AP", "--json"))
    found = models.load(folder).feature_importance(load(DATA).test, "AP", repeats=2, seed=3)
    assert told == found.to_dict(20)
    assert {row["feature"] for row in told["features"]} == {f"feature {at + 1}" for at in true_features(10, seed=2)}
    gradient = json.loads(run("importance", folder, "--method", "gradient", "--json"))
    assert sum(row["importance"] for row in gradient["features"]) == pytest.approx(1)


def test_charts_are_written(folder, tmp_path):
    pytest.importorskip("vl_convert")
    told = run("importance", folder, "--repeats", 1, "--out", tmp_path / "new" / "a.svg")
    assert f"Wrote {tmp_path / 'new' / 'a.svg'}." in told
    drawn = (tmp_path / "new" / "a.svg").read_text()
    assert "feature 10" in drawn
    query = load(DATA).test.qids[0]
    run("explain", folder, "--query", query, "--out", tmp_path / "b.html")
    page = (tmp_path / "b.html").read_text()
    assert "contribution to the score of" in page
    assert "https://cdn" not in page.partition("<body>")[0].partition("<script src")[2]


def test_gain_needs_no_data(tmp_path):
    pytest.importorskip("lightgbm")
    run("train", "--data", DATA, "--model", "lightgbm", "--epochs", 5, "--out", tmp_path / "a")
    (tmp_path / "a" / "data.json").unlink()
    told = json.loads(run("importance", tmp_path / "a", "--method", "gain", "--json"))
    assert told["unit"] == "share of the gain of all splits"
    with pytest.raises(ValueError, match="data must be given"):
        run("importance", tmp_path / "a")


def test_explain_prints_two_documents(folder):
    query = load(DATA).test.qids[2]
    told = run("explain", folder, "--query", query, "--documents", 2, 1, "--top", 4)
    assert f"query {query}, nDCG@10 0." in told
    assert "A: document 2, rank" in told
    assert "6 other" in told
    assert "(integrated gradients)" in told
    parts = json.loads(run("explain", folder, "--query", query, "--documents", 2, 1, "--json"))
    gap = sum(row["contribution"] for row in parts["features"]) + sum(parts["others"].values())
    assert gap == pytest.approx(parts["gap"], abs=1e-5)
    scores = [row["score"] for row in parts["documents"]]
    assert parts["gap"] == pytest.approx(scores[0] - scores[1])


def test_explain_reads_the_columns_of_a_table(tmp_path):
    lines = ["topic,grade,name,x,y"]
    lines += [f"t{row // 5},{row % 3},d{row},{row % 3 + row % 2},{row % 4}" for row in range(60)]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    columns = ("--label", "grade", "--docid", "name")
    run(
        *("train", "--data", tmp_path / "a.csv", "--query", "topic", *columns, "--model", "linear", "--epochs", 2),
        *("--out", tmp_path / "m"),
    )
    given = ("explain", tmp_path / "m", "--data", tmp_path / "a.csv", "--query", "t3", "--documents", "d16", "d17")
    told = run(*given)
    assert "A: d16, rank" in told
    assert " x " in told
    assert run(*given, "--query-column", "topic", *columns) == told


def test_errors_name_the_options(folder):
    with pytest.raises(ValueError, match="query must be the id of a query in the data; got 'x'"):
        run("explain", folder, "--query", "x")
    with pytest.raises(ValueError, match=r"top must be at least 1; got 0\nout must end in .html, .svg, .png; got"):
        run("importance", folder, "--top", 0, "--out", "a.pdf")
    with pytest.raises(ValueError, match="method must be one of"):
        run("importance", folder, "--method", "shap")
    with pytest.raises(ValueError, match="method must be 'permutation' or 'gradient' for Model; got 'gain'"):
        run("importance", folder, "--method", "gain")
    with pytest.raises(ValueError, match="must have 10 columns"):
        run("importance", folder, "--data", "synthetic:lists=6,features=12")
