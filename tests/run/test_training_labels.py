"""Labels from which nothing can be learned are an error of every training; labels that are too large are a warning."""

import re
import warnings
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from paths import SHARED
from programs import finished
from programs import run_here as run
from tiny_study import no_processes
from typer.testing import CliRunner

from rankgrad import Ranker
from rankgrad.cli import app
from rankgrad.data import Dataset, inspect, load
from rankgrad.data.inspection_checks import warn_shared
from rankgrad.losses import as_loss
from rankgrad.metrics.custom import as_metric
from rankgrad.run.training_labels import check_lists
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


def checked(data, loss="softmax", metric=None, weights=None):
    """Check lists for a loss; with a metric, they are also the validation lists."""
    loss = as_loss(loss)
    return check_lists(
        data, None if metric is None else data, str(loss), loss.traits, as_metric(metric or "RR"), weights
    )


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


@pytest.mark.parametrize(("kind", "loss"), [("lightgbm", "lambdarank"), ("xgboost", "rank:ndcg")])
def test_native_objectives_tell_of_their_gain(kind, loss):
    """The framework then stops with an error of its own."""
    warns = pytest.warns(UserWarning, match=f"its gain 2.y - 1 in native:{loss} is far above all other gains")
    with warns, pytest.raises(ValueError, match="stopped with the error"):
        made(kind, loss=f"native:{loss}", metric="AP").fit(X, 32 * GRADED, qid=QID)


@pytest.mark.parametrize(
    ("loss", "metric", "users"),
    [
        ("lambdaloss@5", "nDCG@10", "lambdaloss@5 and nDCG@10"),
        ("learndcg", None, "learndcg"),
        ("softmax", "ERR@5", "ERR@5"),
        ("softmax", "nDCG(gain='linear')@10", None),
        ("lambdarank:metric=AP", "RR", None),
        (lambda scores, labels: scores.sum(), "RR", None),
    ],
)
def test_only_what_uses_the_gain_is_named(loss, metric, users):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        checked(as_data(32 * GRADED), loss, metric)
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


RNG, PER = np.random.default_rng(0), 8
PLACE = np.tile(np.arange(PER), 60)
DOUBTFUL = {
    "item": (1000 + RNG.permutation(480), "has another whole number in every row, as an id does"),
    "stamp": (1_700_000_000 + 600 * RNG.integers(0, 9, 480), "has only whole numbers above 16,777,216, which"),
    "item_id": (RNG.integers(0, 50, 480), "has the name of an id"),
    "customerId": (RNG.integers(0, 50, 480), "has the name of an id"),
    "shown": (PLACE + 1, "counts the documents of each list in the order of the rows"),
    "from0": (PLACE, "counts the documents of each list in the order of the rows"),
    "log.position": (RNG.integers(1, 11, 480), "has the name of a position in a ranking"),
    "Rank": (RNG.integers(1, 11, 480), "has the name of a position in a ranking"),
}
SOUND = {
    "views": RNG.integers(0, 10**6, 480),  # all may differ by chance
    "page_rank": RNG.integers(0, 10, 480),
    "rank": RNG.random(480),
    "humid": RNG.integers(0, 50, 480),
    "is_valid": PLACE % 2,
    "paid": RNG.integers(0, 2, 480),
    "price": RNG.integers(1, 10**5, 480),
    "year": RNG.integers(1990, 2026, 480),
    "order": np.sort(RNG.random(480)),
    "constant": np.ones(480),
    "by label": PLACE[::-1],
}


def table_of(columns, **options):
    features = np.stack([*columns.values()], axis=1).astype(np.float32)
    labels = RNG.integers(0, 2, 480).astype(np.float32)
    offsets = np.arange(0, 481, PER)
    return Dataset(features, labels, offsets, np.arange(60), feature_names=tuple(columns), **options)


@pytest.mark.parametrize("name", DOUBTFUL)
def test_features_that_are_ids_or_positions_are_told(name):
    values, what = DOUBTFUL[name]
    data = table_of({**SOUND, name: values})
    with pytest.warns(UserWarning, match=re.escape(what)) as told:
        checked(data)
    assert len(told) == 1
    assert str(told[0].message).startswith(f"the column {name!r} {what}")
    assert str(told[0].message).endswith(": leave it out with drop= if it says nothing about new documents")
    with pytest.warns(UserWarning, match=re.escape(what)) if "name" not in what else quiet():
        checked(replace(data, feature_names=None))


def test_sound_features_are_not_doubted():
    ids = {f"{name} {number}": DOUBTFUL["item"][0] for number, name in enumerate(("a", "b"))}
    with quiet():
        checked(table_of(SOUND))
        checked(table_of(ids, categories={0: ("x",), 1: ("y",)}))
        checked(table_of(ids).take([0, 1]))  # too few rows to tell


@contextmanager
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.skipif(not (SHARED / "data" / "MQ2008").is_dir(), reason="the real data is not in ../shared/data")
@pytest.mark.parametrize("name", ["MQ2008", "OHSUMED", "MSLR-sample", "yandex", "synthetic:lists=60"])
def test_real_data_is_not_doubted(name):
    root = SHARED / "data"
    folder = root / name if name in ("MSLR-sample", "yandex") else name
    splits = load(folder, fold=None if name.startswith(("MSLR", "synthetic")) else 1, root=root)
    with quiet():
        checked(splits.train)
        warn_shared(splits.train, splits.test)


_no_processes = pytest.fixture(no_processes)


@pytest.mark.usefixtures("_no_processes")
@pytest.mark.parametrize(
    "command", [["train", "--epochs", 1, "--model", "linear"], ["auto", "--trials", 1, "--folds", 2]]
)
def test_commands_tell_of_ids_and_of_training_lists_in_the_test(tmp_path, recwarn, command):
    rows = [f"{int(x > 0)},{row // 5},{x:.3f},{row}" for row, x in enumerate(RNG.normal(size=200))]
    head = "label,query,bm25,item"
    (tmp_path / "train.csv").write_text("\n".join([head, *rows[:150]]))
    for name, first, shared in (("again", 140, True), ("apart", 150, False)):
        (tmp_path / "test.csv").write_text("\n".join([head, *rows[first:]]))
        told = CliRunner().invoke(app, [*map(str, command), "--data", str(tmp_path), "--out", str(tmp_path / name)])
        assert told.exit_code == 0, told.output
        text = " ".join([*told.stderr.split(), *(f"warning: {each.message}" for each in recwarn)])
        assert (
            "warning: the column 'item' has another whole number in every row, as an id does: leave it out with" in text
        )
        what = "2 lists of data test have the query and the documents of a training list (28, 29)"
        assert (what.replace("data", tmp_path.name) in text) == shared


@pytest.mark.parametrize("loss", ["listnet", "1*listnet", "0.5*listnet(targets=softmax)+2*xe_ndcg"])
def test_weights_of_lists_without_effect_are_a_warning(loss):
    of_lists = np.repeat(1.0 + np.arange(12) % 3, 5)
    with pytest.warns(UserWarning, match="each list has one weight for all its documents, which has no effect"):
        checked(as_data(GRADED), loss, weights=of_lists)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checked(as_data(GRADED), f"{loss}+0.5*softmax" if "*" in loss else "softmax", weights=of_lists)
