"""Inspection: every kind of trouble is found where it was put, and clean data is left in peace."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import rankgrad.data.inspection_scan as scanning
from rankgrad.cli.inspect import inspect as verb
from rankgrad.data.dataset import Dataset, Splits
from rankgrad.data.inspection import inspect
from rankgrad.data.synthetic import synthetic

runner = CliRunner()
app = typer.Typer()
app.command("inspect")(verb)


@pytest.fixture
def data():
    return synthetic(60, features=14, seed=4)


def kinds(seen, severity=None):
    return {finding.kind for finding in seen.findings if severity in (None, finding.severity)}


def only(seen, kind):
    (finding,) = [finding for finding in seen.findings if finding.kind == kind]
    return finding


def with_features(dataset, **columns):
    """The data set with some columns replaced: `_3=values` is feature 3, counted from 1 as in files."""
    x = dataset.features.copy()
    for name, values in columns.items():
        x[:, int(name[1:]) - 1] = values
    return replace(dataset, features=x)


def test_clean_data_is_left_in_peace(data):
    seen = inspect(data)
    assert kinds(seen, "error") == kinds(seen, "warning") == set()
    assert [split.name for split in seen.splits] == ["train", "validation", "test"]
    train = seen.splits[0]
    assert (train.lists, train.documents, train.features) == (60, len(data.train.labels), 14)
    assert sum(train.histogram) == 60
    assert sum(train.grades.values()) == train.documents
    assert list(train.lengths) == sorted(train.lengths)
    assert train.lengths[-1] == data.train.lengths.max()
    json.dumps(seen.to_json())


def test_constant_and_copied_features(data):
    x = data.train.features
    seen = inspect(with_features(data.train, _2=7.0, _5=0.0, _9=x[:, 0], _14=x[:, 0]))
    assert only(seen, "constant features").what == "Features 2, 5 are constant."
    assert only(seen, "duplicate features").what == "Features are copies of each other: 1 = 9 = 14."


@pytest.mark.parametrize("row", [0, 50, -1])
def test_a_column_that_differs_in_one_row_is_no_copy(data, row, monkeypatch):
    monkeypatch.setattr(scanning, "_ROWS", 37)
    x = data.train.features
    nearly = x[:, 0].copy()
    nearly[row] += 1
    assert "duplicate features" not in kinds(inspect(with_features(data.train, _9=nearly)))


def test_blocks_change_nothing(data, monkeypatch):
    x = data.train.features
    small = with_features(data.train, _2=7.0, _9=x[:, 0])
    whole = inspect(small)
    monkeypatch.setattr(scanning, "_ROWS", 37)
    assert kinds(inspect(small)) == kinds(whole) >= {"constant features", "duplicate features"}


def test_a_column_with_blocks_exchanged_is_no_copy(data, monkeypatch):
    monkeypatch.setattr(scanning, "_ROWS", 37)
    turned = data.train.features[:, 0].copy()
    turned[:74] = np.roll(turned[:74], 37)
    assert "duplicate features" not in kinds(inspect(with_features(data.train, _9=turned)))


@pytest.mark.parametrize("sign", [1, -1])
def test_a_feature_that_gives_the_label_away(data, sign):
    labels = data.train.labels
    # Useless across lists, perfect within each: what a leak made of per-query ranks looks like.
    shift = np.repeat(np.random.default_rng(0).normal(0, 100, len(data.train)), data.train.lengths)
    seen = inspect(replace(data, train=with_features(data.train, _3=sign * labels + shift)))
    finding = only(seen, "label given away")
    assert finding.severity == "error"
    assert finding.what.startswith("Feature 3 alone puts 100.0% of ")
    assert finding.what.endswith(f"pairs in the {'' if sign > 0 else 'reverse '}order of their labels.")
    noisy = sign * labels + np.random.default_rng(1).normal(0, 0.45, len(labels))
    assert only(inspect(with_features(data.train, _3=noisy)), "label given away").severity == "warning"


def test_repeated_documents(data):
    train = data.train
    rows = np.r_[np.arange(len(train.labels)), 0]
    rows = np.sort(rows)
    offsets = train.offsets + (np.arange(len(train.offsets)) > 0)
    twice = train.take_rows(rows, offsets)
    seen = inspect(twice)
    assert (
        only(seen, "duplicate documents").what
        == "1 document has the same features and label as another document of the list."
    )
    labels = twice.labels.copy()
    labels[1] = labels[0] + 1
    finding = only(inspect(replace(twice, labels=labels)), "contradicting documents")
    assert finding.severity == "warning"
    assert finding.what.startswith("1 document in 1 list has the same features as another")


def test_the_same_document_in_two_lists_is_no_duplicate():
    x, labels = np.ones((4, 2), np.float32), np.array([0, 0, 1, 1], dtype=np.float32)
    repeats = {"duplicate documents", "contradicting documents"}
    assert not kinds(inspect(Dataset(x, labels, np.arange(5), np.arange(4)))) & repeats


def test_scan_leaves_nan_out_of_ranges():
    x = np.array([[1, np.nan], [3, 2], [np.nan, 5]], dtype=np.float32)
    seen = scanning.scan(Dataset(x, np.array([0.0, 1.0, 0.0]), np.array([0, 3]), np.array([1])))
    assert seen.low.tolist() == [1, 2]
    assert seen.high.tolist() == [3, 5]
    assert (seen.missing.tolist(), seen.infinite.tolist()) == ([1, 1], [0, 0])


def test_shared_queries(data):
    leaking = Splits(data.train, data.validation, data.train.take([3, 4]))
    finding = only(inspect(leaking), "shared queries")
    assert (finding.severity, finding.where) == ("error", "train, test")
    assert finding.what.startswith("2 query ids in both splits (3, 4), with ")
    renumbered = replace(data, test=replace(data.test, qids=np.arange(len(data.test))))
    assert only(inspect(renumbered), "shared queries").severity == "warning"


def test_labels_that_teach_nothing(data):
    zeros = replace(data.train, labels=np.zeros_like(data.train.labels))
    assert only(inspect(zeros), "one grade").severity == "error"
    negative = replace(data.train, labels=data.train.labels - 1)
    assert only(inspect(negative), "negative labels").severity == "error"
    large = replace(data.train, labels=data.train.labels * 40)
    assert only(inspect(large), "large labels").severity == "warning"


def test_features_with_names_are_named():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3)).astype(np.float32)
    labels = (x[:, 1] > 0).astype(np.float32)
    x[5, 2] = 2e30
    data = Dataset(x, labels, np.arange(0, 401, 10), np.arange(40), feature_names=("bm25", "clicks", "price"))
    seen = inspect(data)
    assert only(seen, "label given away").what.startswith("Feature 'clicks' alone puts 100.0% of ")
    assert only(seen, "missing fills").what.startswith("Feature 'price' has values beyond 1e30")


def test_lists_that_teach_nothing():
    x = np.arange(9, dtype=np.float32)[:, None]
    labels = np.array([0, 0, 2, 2, 1, 0, 1, 0, 0], dtype=np.float32)
    seen = inspect(Dataset(x, labels, np.array([0, 2, 4, 5, 5, 7, 9]), np.arange(6)))
    assert only(seen, "empty queries").what == "3 of 6 lists (50%) have no relevant document."
    assert only(seen, "one grade lists").what == "1 of 6 lists (17%) have the same label above 0 for all documents."
    assert only(seen, "single documents").what == "1 of 6 lists (17%) have a single document."
    assert only(seen, "no documents").what == "1 of 6 lists (17%) have no document."
    assert seen.splits[0].empty == 3


def test_missing_and_heavy(data):
    rng = np.random.default_rng(0)
    rows = len(data.train.labels)
    filled = np.where(rng.random(rows) < 0.2, -1.0, rng.random(rows))
    heavy = np.exp(4 * rng.standard_normal(rows))
    huge = np.where(rng.random(rows) < 0.1, 3e38, rng.random(rows))
    odd = with_features(data.train, _1=filled, _4=huge)
    odd = with_features(odd, _6=np.where(rng.random(rows) < 0.1, np.nan, heavy), _7=heavy)
    seen = inspect(odd)
    fills = [finding.what for finding in seen.findings if finding.kind == "missing fills"]
    assert fills[0].startswith("Feature 1 has only one distinct negative value")
    assert fills[1].startswith("Feature 4 has values beyond 1e30")
    assert "values are missing: feature 6 " in only(seen, "missing values").what
    assert only(seen, "missing values").severity == "warning"
    infinite = replace(data.train, features=np.where(np.arange(14) == 3, np.inf, data.train.features))
    finding = only(inspect(infinite), "not finite")
    assert finding.severity == "error"
    assert finding.what.endswith("infinite values in feature 4.")
    assert only(seen, "heavy tails").do == "Preprocess with log1p,standardise."


def test_widths_that_differ(data):
    narrow = replace(data.test, features=data.test.features[:, :9])
    finding = only(inspect(replace(data, test=narrow)), "widths differ")
    assert finding.what == "The splits have 14 features (train), 14 features (validation), 9 features (test)."


def test_an_empty_data_set_is_said_to_be_empty():
    nothing = Dataset(np.zeros((0, 2), np.float32), np.zeros(0, np.float32), np.array([0]), np.zeros(0, np.int64))
    assert kinds(inspect(nothing)) == {"no documents"}


def test_large_data_is_sampled_and_says_so(data, monkeypatch):
    monkeypatch.setattr(scanning, "SAMPLE", 200)
    monkeypatch.setattr(sys.modules["rankgrad.data.inspection"], "SAMPLE", 200)  # the module, not the function
    seen = inspect(with_features(data.train, _3=data.train.labels))
    assert seen.splits[0].sampled
    assert only(seen, "label given away").what.startswith("Feature 3 alone puts 100.0% of 2")


def test_findings_come_worst_first(data):
    zeros = replace(data.train, labels=np.zeros_like(data.train.labels))
    severities = [finding.severity for finding in inspect(with_features(zeros, _2=1.0)).findings]
    assert severities == sorted(severities, key=["error", "warning", "note"].index)


def test_foreign_data_is_refused():
    with pytest.raises(TypeError, match="data must be a Dataset or Splits; got list"):
        inspect([])


def test_the_verb_prints_and_exits(tmp_path):
    clean = runner.invoke(app, ["synthetic:lists=40,features=12"])
    assert clean.exit_code == 0
    assert "documents by label" in clean.output
    seen = json.loads(runner.invoke(app, ["synthetic:lists=40,features=12", "--json"]).output)
    assert [split["lists"] for split in seen["splits"]] == [40, 13, 13]
    bad = tmp_path / "bad.txt"
    bad.write_text("0 qid:1 1:1 2:3\n0 qid:1 1:2 2:1\n")
    assert runner.invoke(app, [str(bad)]).exit_code == 0
    assert runner.invoke(app, [str(bad), "--strict"]).exit_code == 1
    assert "Every label is 0." in runner.invoke(app, [str(bad)]).output
