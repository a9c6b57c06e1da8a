"""Boosted trees in other programs, importance of features, callbacks, and trees that are added to others."""

import dataclasses
from dataclasses import replace

import numpy as np
import pytest
from small_trees import FRAMEWORKS, QID, X, Y, every_framework, lists, plan, quick

from rankgrad.metrics import nDCG
from rankgrad.models import kind_of, load
from rankgrad.trees import boosting, tree_arrays
from rankgrad.trees.boosting import boost

TRAIN, HELD = lists(0, nan=True), lists(7, nan=True)
ZEROS = dataclasses.replace(TRAIN, features=np.where(np.abs(TRAIN.features) < 0.5, np.float32(0), TRAIN.features))
CASES = [
    ("lightgbm", {}), ("lightgbm", {"zero_as_missing": True}), ("lightgbm", {"use_missing": False}),
    ("lightgbm", {"loss": "native:lambdarank", "boosting": "dart"}), ("xgboost", {}),
    ("xgboost", {"booster": "dart", "rate_drop": 0.5}), ("xgboost", {"base_score": 0.25}),
]  # fmt: skip


@pytest.mark.parametrize(("framework", "settings"), CASES, ids=str)
def test_onnx_gives_the_scores_of_the_model(framework, settings, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    model = boost(plan(framework, **settings), ZEROS, None)
    done = model.export(tmp_path / "model.onnx")
    assert (done.format, done.engine) == ("onnx", "onnxruntime")
    assert done.difference < 1e-6
    session = runtime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    # Thresholds themselves, their neighbours and what is missing, at a shape that `export` has not tried.
    known = tree_arrays.read_splits(model.content(), framework, "onnx").trees
    found = np.concatenate([tree.threshold for tree in known])
    values = np.concatenate([found, *(np.nextafter(found, np.float32(end)) for end in (-9, 9)), [0, np.nan, 1e-36]])
    rows = np.random.default_rng(0).choice(values.astype(np.float32), (5, 40, 4))
    mask = np.arange(40) < np.array([40, 3, 0, 17, 1])[:, None]
    (scores,) = session.run(["scores"], {"features": rows, "mask": mask})
    np.testing.assert_allclose(scores[mask], model.score(rows[mask]), rtol=1e-5, atol=1e-6)
    assert (scores[~mask] == 0).all()


def test_thresholds_are_rounded_down():
    exact = np.array([0.1, -0.1, 1e-40, 1e300, -1e300, 0.5])
    near = tree_arrays.rounded_down(exact)
    assert near.dtype == np.float32
    assert (near.astype(np.float64) <= exact).all()
    with np.errstate(over="ignore"):
        assert (np.nextafter(near, np.float32(np.inf)).astype(np.float64) > exact).all()


@every_framework
def test_the_frameworks_own_file(framework, tmp_path):
    model = boost(plan(framework), TRAIN, None)
    ending = {"lightgbm": ".txt", "xgboost": ".json"}[framework]
    done = model.export(tmp_path / f"trees{ending}")
    assert (done.format, done.difference) == (framework, 0.0)
    assert done.path.read_bytes() == model.content()
    assert model.export(tmp_path / "trees.bin", format=framework).path.is_file()
    with pytest.raises(ValueError, match=rf"path must end in \.onnx or {ending} for trees of {framework}"):
        model.export(tmp_path / "model.pt2")
    with pytest.raises(
        ValueError, match=f"format must be one of 'onnx', '{framework}', 'elasticsearch', .*; got 'torch'"
    ):
        model.export(tmp_path / "model", format="torch")


def test_what_onnx_cannot_hold_is_one_sentence(tmp_path):
    pytest.importorskip("onnxruntime")
    model = boost(plan("lightgbm", linear_tree=True), lists(0), None)
    with pytest.raises(
        ValueError, match=r"must have only constant leaves for the format onnx .*model\.txt.*; got linear"
    ):
        model.export(tmp_path / "model.onnx")
    assert not [*tmp_path.iterdir()]


@every_framework
def test_importance_is_the_share_of_the_gain(framework):
    model = boost(plan(framework), lists(0), None)
    shares = model.feature_importance(method="gain").values
    assert shares.shape == (4,)
    assert shares.sum() == pytest.approx(1)
    assert set(np.argsort(-shares)[:2]) == {0, 1}  # the labels are made of these
    shuffled = model.feature_importance(lists(7), repeats=1).values
    assert set(np.argsort(-shuffled)[:2]) == {0, 1}
    assert not np.allclose(shuffled, shares)


@every_framework
def test_callbacks_see_each_tree_and_may_end_the_training(framework):
    seen, others = [], []
    ranker = quick(framework, holdout=0.0)
    ranker.fit(X, Y, qid=QID, callbacks=[lambda row: seen.append(row) or row["tree"] == 5, others.append])
    assert [row["tree"] for row in seen] == [row["tree"] for row in others] == [1, 2, 3, 4, 5]
    assert seen == ranker.history_
    assert ranker.model_.rounds == ranker.best_trees_ == 5
    with pytest.raises(TypeError, match="callbacks must be functions with one argument, a log row; got str"):
        ranker.fit(X, Y, qid=QID, callbacks=["print"])


def test_a_bar_of_trees(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # which makes a terminal of it
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr("rankgrad.run.log._on_terminal", lambda: True)
    boost(plan("lightgbm", trees=3), TRAIN, HELD)
    told = capsys.readouterr().err
    assert "tree 3/3" in told
    assert "\x1b[" in told  # a bar moves the cursor
    boost(plan("lightgbm", trees=3), TRAIN, HELD, progress=False)
    assert capsys.readouterr().err == ""


def test_lines_of_trees_where_there_is_no_terminal(capsys):
    boost(plan("lightgbm", trees=3), TRAIN, HELD)
    assert capsys.readouterr().err == ""
    boost(plan("lightgbm", trees=3), TRAIN, HELD, progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("  ")[0] for line in lines] == ["tree 1/3", "tree 2/3", "tree 3/3"]
    assert all("nDCG@10 0." in line for line in lines)


@every_framework
def test_a_metric_may_be_an_object(framework):
    told = plan(framework, trees=5, metric=nDCG @ 5)
    model = boost(told, TRAIN, HELD)
    text = boost(replace(told, metric="nDCG@5"), TRAIN, HELD)
    assert model.metrics == text.metrics
    assert model.settings["metric"] == "nDCG@5"
    assert model.content() == text.content()


@every_framework
def test_trees_are_added_to_those_of_another_model(framework, tmp_path, monkeypatch):
    monkeypatch.setattr(boosting, "SEGMENT", 4)
    ranker, new = quick(framework, holdout=0.0, trees=6), lists(5)
    x, y, group = new.features, new.labels, new.lengths
    first = ranker.fit(X, Y, qid=QID).model_
    kept = first.content()
    whole = quick(framework, holdout=0.0, trees=11).fit(X, Y, qid=QID).model_
    for init in (ranker, first):  # on the same lists, the result is that of one longer training
        more = quick(framework, holdout=0.0, trees=5).fit(X, Y, qid=QID, init_model=init)
        np.testing.assert_array_equal(more.predict(X), whole.score(X))
        assert (more.best_trees_, more.model_.rounds, len(more.history_)) == (5, 11, 5)
    other = quick(framework, holdout=0.0, trees=5).fit(x, y, group=group, init_model=first)
    assert first.content() == kept
    assert not np.array_equal(other.predict(x), more.predict(x))
    other.save(tmp_path)
    np.testing.assert_array_equal(load(tmp_path).score(x), other.predict(x))


@every_framework
def test_trees_that_cannot_be_added_to_are_errors(framework):
    told = plan(framework, trees=2)
    model = boost(told, TRAIN, None)
    other = boost(plan({"lightgbm": "xgboost", "xgboost": "lightgbm"}[framework], trees=2), TRAIN, None)
    with pytest.raises(ValueError, match=f"init_model must contain trees of {framework}; got trees of"):
        boost(told, TRAIN, None, init_model=other)
    with pytest.raises(TypeError, match="init_model must be a TreeModel; got str"):
        boost(told, TRAIN, None, init_model="model")
    narrow = dataclasses.replace(TRAIN, features=TRAIN.features[:, :3])
    with pytest.raises(ValueError, match="init_model must have 3 features, the number of features in the lists; got 4"):
        boost(told, narrow, None, init_model=model)
    dropping = {
        "lightgbm": {"boosting": "rf", "bagging_fraction": 0.5, "bagging_freq": 1},
        "xgboost": {"booster": "dart"},
    }
    loss = {"lightgbm": "native:lambdarank", "xgboost": "lambdarank"}[framework]
    odd = boost(plan(framework, trees=2, loss=loss, **dropping[framework]), TRAIN, None)
    with pytest.raises(ValueError, match="init_model must have no trees of rf or dart"):
        boost(told, TRAIN, None, init_model=odd)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_each_drawn_value_passes_the_check(framework, tmp_path):
    pytest.importorskip(framework)
    kind, settings = kind_of(framework), {"model": framework, "trees": 3}
    space = kind.space(settings)
    rng = np.random.default_rng(0)
    for _ in range(5):
        draw = {
            name: each["low"] + rng.random() * (each["high"] - each["low"])
            if isinstance(each, dict)
            else rng.choice(each)
            for name, each in space.items()
        }
        drawn = kind.drawn(settings, draw)
        kind.check(drawn)
    model = kind.fit({**drawn, "threads": 1}, TRAIN, HELD, out=tmp_path, progress=False)
    assert model.settings["params"].get("bagging_freq") == (1 if framework == "lightgbm" else None)
    assert kind.has_run(tmp_path)
    assert kind.resumes(tmp_path)
    assert not kind.has_run(tmp_path / "other")
    other = {"lightgbm": "eta=0.1", "xgboost": "learning_rate=0.1"}[framework]
    assert space.keys() - kind.space({"model": f"{framework}:{other}"}).keys() == {kind.rate}
    longer = kind.fit(
        {**drawn, **kind.for_length(5), "threads": 1}, TRAIN, HELD, out=tmp_path, resume=True, progress=False
    )
    assert len(longer.history) == 5


def gaps(scores, labels):
    """A loss of one list, as a user writes it."""
    return ((scores - scores.mean()) - (labels - labels.mean())).square().sum()


def first_is_best(scores, labels):
    """A metric of one list."""
    return float(labels[scores.argmax()] == labels.max())


@every_framework
def test_a_loss_and_a_metric_of_ones_own(framework, tmp_path, monkeypatch):
    monkeypatch.setattr(boosting, "SEGMENT", 4)
    ranker = quick(framework, loss=gaps, metric=first_is_best, trees=6, patience=None).fit(X, Y, qid=QID)
    assert ranker.score(X, Y, qid=QID) > 0.8
    name = ranker.model_.settings["metric"]
    assert "first_is_best" in name
    assert "gaps" in ranker.model_.settings["loss"]
    assert ranker.model_.metrics["validation"][name] == max(row[name] for row in ranker.history_)
    told = quick(framework, loss=gaps, metric=first_is_best, trees=6).plan()
    with pytest.raises(ZeroDivisionError):
        boost(told, TRAIN, HELD, out=tmp_path, callbacks=[lambda row: 1 / (row["tree"] - 5) > 1])
    resumed = boost(told, TRAIN, HELD, out=tmp_path, resume=True)
    assert resumed.content() == boost(told, TRAIN, HELD).content()
    mixed = quick(framework, loss="0.7*softmax+0.3*bce", trees=3).fit(X, Y, qid=QID)
    assert mixed.model_.rounds == mixed.best_trees_


def test_callbacks_of_the_framework_are_told_what_to_use():
    callback = pytest.importorskip("lightgbm")
    must = r"callbacks must be functions of one log row, a dict \(.* patience\); got a callback of lightgbm"
    for each in (callback.early_stopping(5), callback.log_evaluation(1)):
        with pytest.raises(TypeError, match=must):
            quick(trees=2).fit(X, Y, qid=QID, callbacks=[each])
