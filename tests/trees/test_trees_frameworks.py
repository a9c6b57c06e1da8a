"""Objectives inside LightGBM and XGBoost: what they are called with, and what their own are equal to."""

import numpy as np
import pytest
import torch
from programs import finished
from small_trees import QID, X, Y, grouped, rows

from rankgrad.metrics import ndcg
from rankgrad.trees import TreeRanker, objective


@pytest.mark.parametrize("weighted", [False, True])
def test_lightgbm_calls_it_with_four_arguments(weighted):
    lgb = pytest.importorskip("lightgbm")
    x, y, sizes = grouped(X, Y, QID)
    seen = []

    class Spy(type(objective("lambdarank"))):
        def derivatives(self, scores, labels, offsets, weights=None):
            seen.append((scores.dtype, np.diff(offsets).tolist(), weights))
            return super().derivatives(scores, labels, offsets, weights)

    weight = np.linspace(0.5, 2, len(y)) if weighted else None
    ranker = lgb.LGBMRanker(objective=Spy("lambdarank", "auto"), n_estimators=3, verbosity=-1, min_child_samples=3)
    ranker.fit(x, y, group=sizes, sample_weight=weight)
    assert len(seen) == 3
    assert seen[0][:2] == (np.float32, sizes.tolist())
    assert (seen[0][2] is not None) == weighted
    if weighted:
        np.testing.assert_allclose(seen[0][2], weight, rtol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_lightgbms_two_interfaces_grow_the_same_trees(weighted):
    lgb = pytest.importorskip("lightgbm")
    x, y, sizes = grouped(X, Y, QID)
    weight = np.linspace(0.5, 2, len(y)) if weighted else None
    shared = {"num_leaves": 4, "min_child_samples": 3, "verbosity": -1, "seed": 0, "num_threads": 1}
    data = lgb.Dataset(x, y, group=sizes, weight=weight)
    booster = lgb.train({"objective": objective("lambdarank"), **shared}, data, num_boost_round=5)
    ranker = lgb.LGBMRanker(objective=objective("lambdarank"), n_estimators=5, **shared)
    ranker.fit(x, y, group=sizes, sample_weight=weight)
    np.testing.assert_allclose(booster.predict(x), ranker.predict(x), rtol=1e-6)
    if not weighted:
        ours = TreeRanker(n_estimators=5, holdout=0.0, n_jobs=1, num_leaves=4, min_child_samples=3)
        np.testing.assert_allclose(ours.fit(x, y, group=sizes).predict(x), booster.predict(x), rtol=1e-5)
    with pytest.raises(ValueError, match=r"group must be given to lightgbm\.Dataset, because"):
        lgb.train({"objective": objective("lambdarank"), **shared}, lgb.Dataset(x, y), num_boost_round=1)


def test_an_objective_of_the_other_framework_is_refused_in_one_sentence():
    lgb, xgb = pytest.importorskip("lightgbm"), pytest.importorskip("xgboost")
    x, y, sizes = grouped(X, Y, QID)
    with pytest.raises(TypeError, match=r"dtrain must be an xgboost\.DMatrix.*objective\(loss, 'lightgbm'\)\); got"):
        lgb.LGBMRanker(objective=objective("softmax", "xgboost"), verbosity=-1).fit(x, y, group=sizes)
    data = xgb.DMatrix(x, y)
    data.set_group(sizes)
    with pytest.raises(TypeError, match=r"y_pred must be scores.*objective\(loss, 'xgboost'\)\); got DMatrix"):
        xgb.train({}, data, 1, obj=objective("softmax", "lightgbm"))


def test_it_is_lightgbms_own_lambdarank_but_for_the_norm():
    pytest.importorskip("lightgbm")
    shared = {"trees": 20, "holdout": 0.0, "num_leaves": 8, "min_data_in_leaf": 3, "threads": 1}
    x, y, sizes = grouped(*rows(lists=60, seed=3))
    native = TreeRanker(
        loss="native:lambdarank", lambdarank_norm=False, lambdarank_truncation_level=4, sigmoid=2.0, **shared
    )
    ours = TreeRanker(loss="lambdaloss@4:scheme=ndcg2pp,mu=0,sigma=2", **shared)
    found = [ranker.fit(x, y, group=sizes).predict(x) for ranker in (native, ours)]
    np.testing.assert_allclose(*found, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("told", [{}, {"smooth": 0.5}, {"smooth": "drawn"}], ids=str)
@pytest.mark.parametrize("loss", ["softmax", "listnet"])
def test_the_ranker_and_a_loop_of_ones_own_agree(loss, told):
    lgb = pytest.importorskip("lightgbm")
    x, y, sizes = grouped(X, Y, QID)
    shared = {"num_leaves": 4, "min_child_samples": 3, "learning_rate": 0.1}
    loop = lgb.LGBMRanker(objective=objective(loss, **told), n_estimators=5, n_jobs=1, verbosity=-1, **shared)
    ranker = TreeRanker(loss=loss, trees=5, holdout=0.0, threads=1, **told, **shared)
    found = [each.fit(x, y, group=sizes).predict(x) for each in (loop, ranker)]
    np.testing.assert_allclose(*found, rtol=1e-6)
    plain = TreeRanker(loss=loss, trees=5, holdout=0.0, threads=1, **shared).fit(x, y, group=sizes).predict(x)
    assert np.array_equal(plain, found[1]) == (not told)  # unless asked, the loss as it is published


def test_xgboost_takes_a_weight_a_list():
    xgb = pytest.importorskip("xgboost")
    x, y, sizes = grouped(X, Y, QID)
    lists = xgb.DMatrix(x, y)
    lists.set_group(sizes)
    each = np.linspace(0.5, 2, len(sizes))
    lists.set_weight(each)
    own = objective("lambdarank", "xgboost")
    scores = np.random.default_rng(0).normal(size=len(y)).astype(np.float32)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    expected = own.derivatives(scores, y.astype(np.float32), offsets, np.repeat(each, sizes).astype(np.float32))
    for a, b in zip(own(scores, lists), expected, strict=True):
        np.testing.assert_allclose(a, b)
    booster = xgb.train({"max_depth": 2, "base_score": 0.0}, lists, 10, obj=own)
    offsets = torch.tensor(offsets)
    assert ndcg(booster.predict(lists), y, offsets=offsets) > ndcg(np.zeros(len(y)), y, offsets=offsets) + 0.1
    with pytest.raises(ValueError, match="dtrain must have lists"):
        own(scores, xgb.DMatrix(x, y))


def test_threads_of_pytorch_and_lightgbm_get_along():
    pytest.importorskip("lightgbm")
    pytest.importorskip("xgboost")
    program = (
        "import numpy as np, torch; from rankgrad.trees import TreeRanker; torch.set_num_threads(2)\n"
        "r = np.random.default_rng(0); x = r.normal(size=(2000, 8)); y = (x[:, 0] > 0) * 1; a = torch.randn(500, 500)\n"
        "for name in ('lightgbm', 'xgboost'):\n"
        "    for loss in ('lambdarank', 'softmax', 'approx_ndcg'):\n"
        "        TreeRanker(name, loss, trees=5, threads=2).fit(x, y, group=[20] * 100); (a @ a).sum().item()\n"
        "print('done', torch.get_num_threads())"
    )
    done = finished(code=program)
    assert done.stdout.split() == ["done", "2"], done.stderr


def test_importing_loads_no_framework():
    imports = "import sys, rankgrad.trees, rankgrad.estimators.blend"
    program = f"{imports}; print([n for n in ('lightgbm', 'xgboost') if n in sys.modules])"
    done = finished(code=program)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize(
    ("framework", "options"), [("lightgbm", {"boosting": "dart"}), ("xgboost", {"booster": "dart", "rate_drop": 0.5})]
)
def test_dart_keeps_all_trees_because_later_trees_change_earlier_ones(framework, options):
    """The metric of fewer trees was that of another model."""
    pytest.importorskip(framework)
    rng = np.random.default_rng(0)
    x, qid = rng.normal(size=(400, 4)), np.repeat(np.arange(40), 10)
    y = (x[:, 0] + rng.normal(size=400) > 0.5) * 2
    ranker = TreeRanker(framework, trees=25, patience=3, threads=1, **options)
    ranker.fit(x[:300], y[:300], qid=qid[:300], eval_set=(x[300:], y[300:]), eval_qid=qid[300:])
    assert ranker.best_trees_ == len(ranker.history_) == 25
    kept = ranker.model_.metrics["validation"]["nDCG@10"]
    assert ranker.score(x[300:], y[300:], qid=qid[300:]) == pytest.approx(kept, abs=1e-6)
