"""`rankgrad calibrate`, `predict --calibrated` and the ECE of `evaluate`."""

import csv
import json

import numpy as np
import pytest
from programs import run_here as run
from tiny_study import one_thread

from rankgrad import models
from rankgrad.data import load

DATA = "synthetic:lists=200,features=10,seed=2"

_one_thread = pytest.fixture(one_thread, autouse=True, scope="module")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "a"
    run(
        "train",
        "--data",
        DATA,
        "--model",
        "mlp:widths=16",
        "--loss",
        "softmax",
        "--epochs",
        20,
        "--lr",
        0.01,
        "--out",
        path,
    )
    return path


@pytest.fixture(scope="module")
def letor(tmp_path_factory):
    """The test lists as LETOR text."""
    test, path = load(DATA).test, tmp_path_factory.mktemp("files") / "test.txt"
    lines = [
        f"{label:g} qid:{qid} " + " ".join(f"{at}:{value:.9g}" for at, value in enumerate(row, 1))
        for label, qid, row in zip(test.labels, test.row_qids, np.asarray(test.features), strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_calibrate_fits_validation_lists_and_measures_on_test_lists(folder, tmp_path):
    pytest.importorskip("vl_convert")
    told = run("calibrate", folder, "--out", tmp_path / "a.svg")
    data = load(DATA)
    assert f"platt, fitted on {len(data.validation)} lists" in told
    assert f"The ECE was measured on the {len(data.test)} test lists." in told
    assert "share of documents with label" in (tmp_path / "a.svg").read_text()
    model = models.load(folder)
    known, model.calibration = model.calibration, None
    before = model.reliability(data.test)[0].ece
    assert model.calibrate(data.validation) == known
    after = model.reliability(data.test)[0].ece
    assert f"{before:.4f}" in told
    assert f"{after:.4f}" in told
    assert after < 0.6 * before


def test_grades_without_test_lists_are_measured_by_cross_validation(folder, letor):
    told = json.loads(run("calibrate", folder, "--data", letor, "--target", "grade", "--method", "isotonic", "--json"))
    grades = np.unique(load(DATA).test.labels)
    assert told["measured"] == "cross-validation"
    assert told["calibration"]["grades"] == grades.tolist()
    assert [each["event"] for each in told["after"]] == [f"label > {grade:g}" for grade in grades[:-1]]
    assert [each["event"] for each in told["before"]] == ["label > 0"]
    assert "label > 1" in run("calibrate", folder, "--data", letor, "--target", "grade")


def test_predict_writes_probabilities_next_to_scores(folder, letor, tmp_path):
    run("calibrate", folder)
    model, test = models.load(folder), load(DATA).test
    run("predict", folder, letor, "--calibrated", "--out", tmp_path / "a.csv")
    with (tmp_path / "a.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [*rows[0]] == ["qid", "docid", "score", "probability"]
    np.testing.assert_allclose([float(row["probability"]) for row in rows], model.calibrated(test), rtol=1e-5)
    np.testing.assert_allclose([float(row["score"]) for row in rows], model.score_lists(test), rtol=1e-5, atol=1e-6)
    told = run("predict", folder, letor, "--calibrated")
    np.testing.assert_allclose([*map(float, told.split())], model.calibrated(test), rtol=1e-5)
    run("predict", folder, letor, "--calibrated", "--out", tmp_path / "a.parquet")
    from pyarrow import parquet

    assert parquet.read_table(tmp_path / "a.parquet").column_names[-2:] == ["score", "probability"]


def test_evaluate_shows_the_ece_beside_ndcg(folder, tmp_path):
    run("calibrate", folder)
    ece = models.load(folder).reliability(load(DATA).test)[0].ece
    told = run("evaluate", folder)
    assert "nDCG@10" in told
    assert "ECE" in told
    assert f"{ece:.4f}" in told
    assert json.loads(run("evaluate", folder, "--json"))["reliability"][0]["ece"] == ece
    (folder / "calibration.json").unlink()
    assert "ECE" not in run("evaluate", folder)
    assert "reliability" not in json.loads(run("evaluate", folder, "--json"))
    pytest.importorskip("vl_convert")
    run("evaluate", folder, "--reliability", tmp_path / "b.svg")
    assert "sigmoid of the score: ECE" in (tmp_path / "b.svg").read_text()


def test_bad_input_is_one_sentence(folder, letor, tmp_path):
    (folder / "calibration.json").unlink(missing_ok=True)
    with pytest.raises(ValueError, match="model must be calibrated"):
        run("predict", folder, letor, "--calibrated")
    with pytest.raises(ValueError, match="calibrated must be used with the format scores, csv or parquet; got trec"):
        run("predict", folder, letor, "--calibrated", "--format", "trec")
    with pytest.raises(ValueError, match=r"method must be .*\ntarget must be .*"):
        run("calibrate", folder, "--method", "beta", "--target", "x")
    with pytest.raises(ValueError, match="data must contain documents with and without label > 9"):
        run("calibrate", folder, "--threshold", 9)
    assert not (folder / "calibration.json").exists()
    assert "the calibration was fitted on the training lists" in run("calibrate", folder, "--split", "train")
