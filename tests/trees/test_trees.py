"""The estimator around boosted trees: training, stopping, settings, errors."""

import sys
import warnings

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold
from small_trees import FRAMEWORKS, QID, X, Y, every_framework, quick, rows

from rankgrad import losses
from rankgrad.trees import TreeRanker
from rankgrad.trees.settings import checked_trees, spelled_settings

NATIVE = [
    ("lightgbm", "native:lambdarank"), ("lightgbm", "native:rank_xendcg"), ("xgboost", "native:rank:ndcg"),
    ("xgboost", "native:rank:pairwise"), ("lightgbm", "lambdarank"), ("xgboost", "softmax"), ("lightgbm", "ranknet@5"),
]  # fmt: skip


@pytest.mark.parametrize(("framework", "loss"), NATIVE)
def test_it_learns_and_predicts_in_row_order(framework, loss):
    ranker = quick(framework, loss=loss).fit(X, Y, qid=QID)
    assert ranker.score(X, Y, qid=QID) > 0.85
    assert ranker.n_features_in_ == 4
    scores = ranker.predict(X)
    assert scores.shape == Y.shape
    order = np.random.default_rng(5).permutation(len(Y))
    np.testing.assert_array_equal(ranker.predict(X[order], QID[order]), scores[order])
    ranks = ranker.rank(X, QID)
    for query in np.unique(QID):
        here = np.equal(QID, query)
        np.testing.assert_array_equal(ranks[here], 1 + np.argsort(np.argsort(-scores[here], kind="stable")))


@every_framework
def test_early_stopping_is_on_our_metric(framework):
    x, y, qid = rows(seed=7)
    ranker = quick(framework, trees=60, patience=5)
    ranker.fit(X, Y, qid=QID, eval_set=(x, y), eval_qid=qid)
    values = [row["nDCG@10"] for row in ranker.history_]
    assert ranker.best_trees_ == 1 + int(np.argmax(values))
    assert len(values) <= ranker.best_trees_ + 5
    assert ranker.score(x, y, qid=qid) == pytest.approx(max(values), abs=1e-6)
    assert ranker.model_.metrics["validation"]["nDCG@10"] == max(values)


@every_framework
def test_without_patience_all_trees_grow_and_the_best_are_kept(framework):
    x, y, qid = rows(seed=7)
    y = np.random.default_rng(0).permutation(y)  # nothing to be learned of, so that the last tree is not the best
    ranker = quick(framework, trees=30, patience=None).fit(X, Y, qid=QID, eval_set=(x, y), eval_qid=qid)
    values = [row["nDCG@10"] for row in ranker.history_]
    assert len(values) == 30
    assert ranker.best_trees_ < 30
    assert ranker.score(x, y, qid=qid) == pytest.approx(max(values), abs=1e-6)


def test_a_loss_with_parameters_is_not_changed_by_a_fit():
    learn = losses.LearnDCG()
    ranker = quick(loss=learn, loss_lr=0.1, trees=5)
    first, again = (ranker.fit(X, Y, qid=QID).predict(X) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert learn.learned()["alpha"] == 1.0
    assert ranker.history_[-1]["alpha"] != 1.0


@pytest.mark.parametrize(
    ("framework", "params", "said"),
    [
        ("lightgbm", {"loss": "learndcg", "loss_lr": -1}, "loss_lr must be None or a number above 0"),
        ("lightgbm", {"loss": "softmax", "loss_lr": 0.1}, "loss_lr must be None for a loss without parameters"),
        ("lightgbm", {"max_iter": 5}, "max_iter must be given as trees"),
        ("lightgbm", {"params": {"max_bin": 9}}, "parameter must be a parameter of lightgbm; got 'params'"),
        (
            "xgboost",
            {"max_dept": 3},
            "parameter must be a parameter of xgboost; got 'max_dept'; did you mean 'max_depth'",
        ),
    ],
)
def test_settings_that_would_be_passed_over_are_errors(framework, params, said):
    with pytest.raises(ValueError, match=said):
        quick(framework, **params).plan()


@every_framework
def test_leaves_are_counted(framework):
    model = quick(framework, trees=3, patience=None, holdout=0.0).fit(X, Y, qid=QID).model_
    if framework == "lightgbm":
        trees = [tree["num_leaves"] for tree in model.booster.dump_model()["tree_info"]]
    else:
        trees = [text.count(":leaf=") for text in model.booster.get_dump()]
    assert len(trees) == 3
    assert model.size == sum(trees) > 3


def test_history_has_what_was_learned_after_each_tree():
    ranker = quick(loss="learndcg", loss_lr=0.1, trees=5).fit(X, Y, qid=QID)
    alphas = [row["alpha"] for row in ranker.history_]
    assert len(set(alphas)) == len(alphas) == 5
    assert ranker.model_.metrics["loss"]["alpha"] == alphas[ranker.best_trees_ - 1]
    assert all(row["seconds"] > 0 and row["judge_seconds"] > 0 for row in ranker.history_)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_settings_as_text_are_those_of_the_ranker(framework):
    given = FRAMEWORKS[framework]
    text = f"{framework}:{','.join(f'{name}={value}' for name, value in given.items())}"
    made = spelled_settings({"model": text, "loss": "softmax", "trees": 7})
    assert checked_trees(made).settings == TreeRanker(framework, "softmax", trees=7, **given).plan()
    with pytest.raises(ValueError, match="max_bin must be given only once, but model also has max_bin=63; got 15"):
        checked_trees(spelled_settings({"model": f"{framework}:max_bin=63", "max_bin": 15}))
    with pytest.raises(ValueError, match="model must have no cutoff"):
        checked_trees(spelled_settings({"model": f"{framework}@5"}))


@every_framework
@pytest.mark.parametrize("native", [False, True])
def test_weights_are_honoured(framework, native):
    loss = {"lightgbm": "native:lambdarank", "xgboost": "native:rank:ndcg"}[framework] if native else "lambdarank"
    first = QID < 20
    other = np.where(first, Y, Y.max() - Y)  # the lists from 20 on teach the opposite
    heavy = np.where(first, 1.0, 1e-4)
    ranker = quick(framework, loss=loss, holdout=0.0)
    with_weights = ranker.fit(X, other, qid=QID, sample_weight=heavy).score(X[first], Y[first], QID[first])
    without = ranker.fit(X, other, qid=QID).score(X[first], Y[first], QID[first])
    assert with_weights > without + 0.05


def test_settings_go_through_clone_and_set_params():
    ranker = quick(num_leaves=5)
    assert clone(ranker).get_params() == ranker.get_params()
    ranker.set_params(num_leaves=7, trees=3)
    assert (ranker.get_params()["num_leaves"], ranker.trees) == (7, 3)
    fitted = ranker.set_params(holdout=0.0).fit(X, Y, qid=QID)
    assert fitted.model_.booster.num_trees() == 3
    assert fitted.best_trees_ == 3
    assert [row["tree"] for row in fitted.history_] == [1, 2, 3]


@every_framework
def test_names_of_the_frameworks_are_accepted(framework):
    pytest.importorskip(framework)
    theirs = {"n_estimators": 6, "random_state": 3, "n_jobs": 1, "early_stopping_rounds": 4, "subsample": 0.9}
    ranker = TreeRanker(framework, **theirs)
    assert (ranker.trees, ranker.seed, ranker.threads, ranker.patience) == (6, 3, 1, 4)
    assert clone(ranker).get_params() == ranker.get_params()
    own = TreeRanker(framework, trees=6, seed=3, threads=1, patience=4, subsample=0.9)
    assert own.get_params() == ranker.get_params()
    np.testing.assert_array_equal(*(each.fit(X, Y, qid=QID).predict(X) for each in (ranker, own)))
    assert ranker.set_params(num_boost_round=2, n_jobs=-1).fit(X, Y, qid=QID).trees == 2
    assert TreeRanker(random_state=None).seed == 0


def test_an_alias_and_its_own_name_are_one_error():
    with pytest.raises(ValueError, match=r"^trees must be given only once; got trees=500 and n_estimators=100$"):
        TreeRanker(trees=500, n_estimators=100)
    with pytest.raises(ValueError, match="threads must be given only once; got n_jobs=1 and nthread=1"):
        TreeRanker(n_jobs=1, nthread=1)
    with pytest.raises(ValueError, match="seed must be given only once"):
        TreeRanker().set_params(random_state=1, seed=2)
    with pytest.raises(ValueError, match="n_estimators must be given as trees; got n_estimators=5"):
        checked_trees(spelled_settings({"model": "lightgbm:n_estimators=5"}))  # recipes and searches add `trees`


def test_a_grid_of_the_frameworks_names():
    pytest.importorskip("lightgbm")
    splits = [*GroupKFold(2).split(X, Y, QID)]
    with config_context(enable_metadata_routing=True):
        ranker = quick(trees=3).set_fit_request(qid=True).set_score_request(qid=True)
        search = GridSearchCV(ranker, {"n_estimators": [1, 4]}, cv=splits).fit(X, Y, qid=QID)
    assert search.best_estimator_.trees == search.best_params_["n_estimators"]
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@every_framework
def test_missing_values_are_the_trees_own_business(framework):
    x, y, qid = rows(seed=1, nan=True)
    ranker = quick(framework).fit(x, y, qid=qid)
    assert np.isfinite(ranker.predict(x, qid)).all()
    assert ranker.score(x, y, qid=qid) > 0.7


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"framework": "catboost"}, "framework must be one of"),
        ({"loss": "lamdarank"}, "did you mean 'lambdarank'"),
        (
            {"loss": "native:rank:ndcg"},
            "native objective must be one of 'lambdarank', 'rank_xendcg'; got 'rank:ndcg'",
        ),
        ({"objective": "lambdarank"}, "objective must be given as loss; got objective='lambdarank'"),
        ({"seed": None}, "seed must be an integer; got None"),
        ({"trees": 0}, "trees must be at least 1; got 0"),
        ({"holdout": 1.0}, "holdout must be a number of at least 0 and below 1"),
        ({"metric": "nDGC@10"}, "nDCG"),
        ({"num_leave": 3}, "parameter must be a parameter of lightgbm; got 'num_leave'; did you mean 'num_leaves'"),
        ({"epochs": 3}, "epochs must be given as trees; got epochs=3"),
        ({"categorical_feature": [0]}, "categorical_feature must be given as categorical; got"),
        ({"cat_feature": [0]}, "cat_feature must be given as categorical; got"),
        ({"eval_at": [5]}, r"eval_at must be given as metric \(such as metric='nDCG@5'\); got eval_at=\[5\]"),
        ({"framework": "xgboost", "enable_categorical": True}, "enable_categorical must be given as categorical; got"),
        ({"label_gain": [0, 1]}, "label_gain must not be given with a loss of rankgrad, which has no such parameter"),
        ({"framework": "xgboost", "ndcg_exp_gain": False}, "ndcg_exp_gain must not be given with a loss of rankgrad"),
        ({"loss": "rank_xendcg"}, "loss must be given as 'native:rank_xendcg', because it is no loss of rankgrad"),
        ({"framework": "xgboost", "loss": "rank:ndcg"}, "loss must be given as 'native:rank:ndcg', because it is"),
        ({"framework": "xgboost", "missing": -999.0}, "missing must not be given, because NaN is the missing value"),
        ({"framework": "xgboost", "importance_type": "gain"}, "importance_type must be given as method of"),
        ({"num_classes": 3}, "num_classes must not be given, because a ranker has one score per document; got num_cla"),
        (
            {"framework": "xgboost", "eta": 0.3, "learning_rate": 0.1},
            "eta must be given only once; got eta=0.3 and lear",
        ),
        ({"eta": 0.3, "shrinkage_rate": 0.1}, "eta must be given only once; got eta=0.3 and shrinkage_rate=0.1"),
        ({"booster": "gblinear", "framework": "xgboost"}, "booster must be gbtree or dart; got booster='gblinear'"),
        ({"smooth": 0.5}, "smooth must be None for losses other than listnet and softmax; got 0.5 for lambdarank"),
        ({"loss": "softmax", "smooth": 2}, "smooth must be None, 'drawn' or a number from 0 to 1; got 2"),
        ({"loss": "native:lambdarank", "smooth": 0.5}, "smooth must be None for a native objective; got 0.5"),
        ({"loss": "native:lambdarank", "loss_lr": 0.5}, "loss_lr must be None for a native objective; got 0.5"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        TreeRanker(**settings).fit(X, Y, qid=QID)


def test_errors_of_the_frameworks_are_one_sentence():
    pytest.importorskip("lightgbm")
    many = np.where(Y.max() == Y, 40, Y)
    with pytest.raises(ValueError, match=r"^lightgbm stopped with the error: Label 40 is not less than .*\(31\)$"):
        quick(loss="native:lambdarank").fit(X, many, qid=QID)
    pytest.importorskip("xgboost")
    with pytest.raises(ValueError, match=r"^xgboost stopped with the error: .*max_depth.*$") as error:
        quick("xgboost", max_depth=-3).fit(X, Y, qid=QID)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eval_metric": "ndcg"}, "eval_metric must be given as a setting of the ranker: metric='nDCG@5'; got the arg"),
        ({"eval_at": [5]}, "eval_at must be given as a setting of the ranker: metric='nDCG@5'"),
        ({"categorical_feature": [0]}, r"categorical_feature must be given as a setting .*: categorical=\[...\]"),
        ({"early_stopping_rounds": 5}, "early_stopping_rounds must be given as a setting .*: patience=..."),
        ({"eval_X": X}, r"eval_X must be given as eval_set=\(X, y\); got the argument eval_X of fit"),
        ({"eval_sets": 1}, "arguments of fit must be among X, y, qid, .*; got 'eval_sets'; did you mean 'eval_set'"),
    ],
)
def test_arguments_of_fit_in_other_libraries_are_settings_here(options, message):
    with pytest.raises(TypeError, match=message):
        quick().fit(X, Y, qid=QID, **options)


def test_the_missing_value_of_xgboost_may_be_nan(tmp_path):
    pytest.importorskip("xgboost")
    plain, given = (quick("xgboost", **options).fit(X, Y, qid=QID) for options in ({}, {"missing": np.nan}))
    np.testing.assert_array_equal(plain.predict(X), given.predict(X))
    given.save(tmp_path)
    np.testing.assert_array_equal(TreeRanker.load(tmp_path).predict(X), given.predict(X))


def test_parameters_of_objectives_are_accepted_with_native_losses():
    pytest.importorskip("lightgbm")
    settings = {"loss": "native:lambdarank", "holdout": 0.0}
    plain, linear = (quick(**settings, **gain).fit(X, Y, qid=QID) for gain in ({}, {"label_gain": [0, 1, 2, 3]}))
    assert (plain.predict(X) != linear.predict(X)).any()


@pytest.mark.parametrize("loss", ["listnet", "xe_ndcg"])
def test_weights_of_lists_without_effect_are_said(loss):
    of_lists = 1.0 + QID % 3
    ranker = quick(loss=loss, trees=3, holdout=0.0)
    with pytest.warns(UserWarning, match=f"one weight for all its documents, which has no effect, because {loss}"):
        weighted = ranker.fit(X, Y, qid=QID, sample_weight=of_lists).predict(X)
    np.testing.assert_allclose(weighted, ranker.fit(X, Y, qid=QID).predict(X), rtol=1e-4, atol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ranker.fit(X, Y, qid=QID, sample_weight=of_lists + (X[:, 0] > 0))
        quick(loss="softmax", trees=3, holdout=0.0).fit(X, Y, qid=QID, sample_weight=of_lists)


def test_bad_input(tmp_path):
    with pytest.raises(ValueError, match="qid or group must be given"):
        quick().fit(X, Y)
    with pytest.raises(NotFittedError):
        quick().predict(X)
    with pytest.raises(ValueError, match=r"sample_weight must be None for approx_ndcg, which takes no weights"):
        quick(loss="approx_ndcg").fit(X, Y, qid=QID, sample_weight=np.ones(len(Y)))
    quick().fit(X, Y, qid=QID).save(tmp_path)
    (tmp_path / "model.txt").write_text("nothing")
    with pytest.raises(ValueError, match=r"model.txt must match its hash in config.json \(.*; got different"):
        TreeRanker.load(tmp_path)


@every_framework
def test_without_the_extra_one_sentence_says_what_to_do(framework, monkeypatch):
    monkeypatch.setitem(sys.modules, framework, None)
    with pytest.raises(ImportError, match=rf"trees need {framework}: pip install 'rankgrad\[trees\]'"):
        TreeRanker(framework).fit(X, Y, qid=QID)
