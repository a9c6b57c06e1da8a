"""Labels from which nothing can be learned are an error of every training; labels that are too large are a warning."""

import warnings

import numpy as np
import pytest
from programs import finished
from programs import run_here as run
from tiny_study import no_processes

from rankgrad import Ranker
from rankgrad.data import Dataset, inspect
from rankgrad.data.training_labels import check_training_labels
from rankgrad.trees import TreeRanker

_no_processes = pytest.fixture(no_processes)
X, QID = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32), np.repeat(np.arange(12), 5)
GRADED = (X[:, 0] > 0).astype(np.float32)
RANKERS = {
    "neural": lambda **settings: Ranker(model="linear", epochs=1, **settings),
    "lightgbm": lambda **settings: TreeRanker("lightgbm", trees=1, threads=1, **settings),
    "xgboost": lambda **settings: TreeRanker("xgboost", trees=1, threads=1, **settings),
}
each_ranker = pytest.mark.parametrize("kind", RANKERS)


def made(kind, **settings):
    if kind != "neural":
        pytest.importorskip(kind)
    return RANKERS[kind](**settings)


def as_data(labels):
    return Dataset(X, labels, np.arange(0, 61, 5), np.arange(12), name="mine")


def write(folder, labels):
    folder.mkdir(exist_ok=True)
    rows = zip(labels, QID, X, strict=True)
    text = "".join(f"{y:g} qid:{q} 1:{x[0]} 2:{x[1]}\n" for y, q, x in rows)
    (folder / "train.txt").write_text(text)
    (folder / "vali.txt").write_text(text.replace(f"{labels[0]:g} qid", "1 qid", 1))
    return folder


@each_ranker
@pytest.mark.parametrize("grade", [0, 1])
@pytest.mark.parametrize("holdout", [0.0, 0.2])
def test_equal_labels_are_an_error(kind, grade, holdout):
    must = "labels must differ, because otherwise nothing can be learned"
    with pytest.raises(ValueError, match=f"^{must}; got {grade} for every document of the training lists$"):
        made(kind, holdout=holdout).fit(X, np.full(60, grade), qid=QID)
    assert inspect(as_data(np.full(60, grade))).findings[0].kind == "one grade"


@each_ranker
def test_large_labels_are_a_warning(kind):
    with pytest.warns(UserWarning, match="the highest label of the training lists is 100000, and its gain"):
        made(kind).fit(X, 100_000 * GRADED, qid=QID)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made(kind).fit(X, 31 * GRADED, qid=QID)
        made(kind, loss="ranknet", metric="AP").fit(X, 100_000 * GRADED, qid=QID)  # neither uses the gain


@pytest.mark.parametrize(
    ("loss", "metric", "users"),
    [
        ("lambdaloss@5", "nDCG@10", "lambdaloss@5 and nDCG@10"),
        ("learndcg", None, "learndcg"),
        ("softmax", "ERR@5", "ERR@5"),
        ("native:rank:ndcg", "AP", "native:rank:ndcg"),
        ("softmax", "nDCG(gain='linear')@10", None),
        ("own:mine.lambda", "RR", None),
    ],
)
def test_only_what_uses_the_gain_is_named(loss, metric, users):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_training_labels(as_data(32 * GRADED), loss, metric)
    end = "is far above all other gains: map the labels to grades from 0 to 31"
    expected = [f"the highest label of mine is 32, and its gain 2^y - 1 in {users} {end}"] if users else []
    assert [str(warning.message) for warning in caught] == expected
    kinds = [finding.kind for finding in inspect(as_data(32 * GRADED)).findings]
    assert "large labels" in kinds


@pytest.mark.usefixtures("_no_processes")
@pytest.mark.parametrize("command", ["train", "tune"])
@pytest.mark.parametrize("file", ["", "train.txt"])
def test_the_commands_refuse_equal_labels_in_one_line(tmp_path, command, file):
    source = write(tmp_path / "set", np.zeros(60)) / file
    with pytest.raises(ValueError, match=r"^labels must differ, because otherwise nothing can be learned; got 0 for"):
        run(command, "--data", source, "--model", "linear", "--epochs", 1, "--out", tmp_path / "a")


@each_ranker
@pytest.mark.parametrize("qid", [np.arange(60), np.repeat(np.arange(12), 5)])
def test_lists_that_teach_nothing_are_told(kind, qid):
    """A query id per row, and labels that belong to the query: no list has an order to learn."""
    labels = (qid % 3).astype(np.float32)
    with pytest.warns(UserWarning, match="has no list whose labels differ.*is the query id the number of a row"):
        made(kind).fit(X, labels, qid=qid)


@pytest.mark.usefixtures("_no_processes")
def test_train_refuses_to_hold_out_lists_that_teach_nothing(tmp_path):
    source = write(tmp_path / "set", np.repeat(np.arange(12) % 3, 5)) / "train.txt"
    settings = ("--data", source, "--model", "linear", "--epochs", 1, "--out", tmp_path / "a")
    with pytest.raises(
        ValueError, match=r"train.txt must contain a list whose labels differ; got none; there is nothing"
    ):
        run("train", *settings)
    assert "warning: train.txt has no list whose labels differ" in finished("train", *settings, "--holdout", 0).stderr


def test_inspect_warns_if_every_list_has_a_single_document():
    found = inspect(Dataset(X, GRADED, np.arange(61), np.arange(60))).findings
    assert {finding.severity for finding in found if finding.kind == "single documents"} == {"warning"}


@each_ranker
@pytest.mark.parametrize("metric", ["nDCG@10", "nDCG(empty='skip')@10"])
def test_validation_lists_that_choose_nothing_are_told(kind, metric):
    """Otherwise, the first epoch or tree would be kept."""
    ranker = RANKERS[kind](metric=metric)
    ranker.set_params(**({"epochs": 3} if kind == "neural" else {"trees": 3}))
    lists = {"eval_set": (X, np.zeros(60)), "eval_qid": QID}
    with pytest.warns(UserWarning, match="has no list whose labels differ, so no epoch or tree is chosen by nDCG"):
        ranker.fit(X, GRADED, qid=QID, **lists)
    assert ranker.model_.kept == 3
    assert "validation" not in ranker.model_.metrics


def test_a_metric_without_a_value_keeps_all_trees():
    pytest.importorskip("lightgbm")

    def none(scores, labels):
        return float("nan")

    ranker = TreeRanker("lightgbm", trees=4, metric=none).fit(X, GRADED, qid=QID, eval_set=(X, GRADED), eval_qid=QID)
    assert ranker.best_trees_ == 4
