"""The estimator: scikit-learn's conventions, row order, lists in every form, and its tools around it."""

import json
import pickle
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from paths import ROOT
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import _num_samples

from rankgrad.data import load
from rankgrad.estimators import neural as module
from rankgrad.estimators.blend import blend
from rankgrad.estimators.neural import Ranker
from rankgrad.metrics import ndcg
from rankgrad.models.registry import kind_named
from rankgrad.run.log import JsonLines
from rankgrad.training import Model, Settings, SettingsError, train
from rankgrad.trees import TreeRanker


def made(lists=15, features=4, seed=0):
    """Scattered rows of lists of 2 to 8 documents, labels from the features."""
    rng = np.random.default_rng(seed)
    qid = rng.permutation(np.repeat(np.arange(lists), rng.integers(2, 9, lists)))
    X = rng.normal(size=(len(qid), features)).astype(np.float32)
    y = np.clip(np.round(X[:, 0] + X[:, 1] + 1), 0, 3).astype(int)
    return X, y, qid


X, Y, QID = made()


def quick(**settings):
    return Ranker(**{"model": "mlp:widths=8", "epochs": 3, **settings})


@pytest.fixture(scope="module")
def fitted():
    return quick().fit(X, Y, qid=QID)


@pytest.fixture
def trained(monkeypatch):
    """What `fit` hands to the kind of ranker."""
    calls, kind = [], kind_named("neural")
    real = kind.fit

    def spy(settings, data, validation, **how):
        calls.append((data, validation, data.weights))
        return real(settings, data, validation, **how)

    monkeypatch.setattr(kind, "fit", spy, raising=False)
    return calls


# scikit-learn's conventions


def test_its_tags_say_what_it_takes():
    tags = get_tags(Ranker())
    assert tags.estimator_type == "ranker"
    assert tags.target_tags.required
    assert tags.target_tags.positive_only
    assert tags.input_tags.sparse
    assert not tags.input_tags.allow_nan
    assert get_tags(Ranker(missing="mean")).input_tags.allow_nan


class OneList(Ranker):
    """Rows without a query are one list: for scikit-learn's checks, which know no queries."""

    def fit(self, X, y, qid=None, sample_weight=None):
        return super().fit(X, y, qid=self._one(X, qid), sample_weight=sample_weight)

    def score(self, X, y, qid=None, sample_weight=None):
        return super().score(X, y, qid=self._one(X, qid), sample_weight=sample_weight)

    def _one(self, X, qid):
        return np.zeros(_num_samples(X)) if qid is None else qid


WEIGHTS = "a document twice in a list is more than one of twice the weight: it is ranked twice"


def test_it_passes_the_checks_of_scikit_learn():
    expected = {f"check_sample_weight_equivalence_on_{kind}_data": WEIGHTS for kind in ("dense", "sparse")}
    results = check_estimator(OneList(epochs=2), expected_failed_checks=expected, on_skip=None)
    assert sum(result["status"] == "passed" for result in results) >= 40


def test_without_lists_it_fails_checks_for_that_reason_only():
    def reasons(error):
        while error is not None:
            yield str(error)
            error = error.__cause__ or error.__context__

    for result in check_estimator(Ranker(epochs=2), on_skip=None, on_fail=None):
        if result["status"] == "failed":
            assert any("qid or group must be given" in why for why in reasons(result["exception"])), result


def test_all_complaints_come_together_and_only_from_fit():
    ranker = Ranker(loss="lamdaloss", epochs=0)
    with pytest.raises(SettingsError, match=r"(?s)did you mean 'lambdaloss'.*epochs must be at least 1"):
        ranker.fit(X, Y, qid=QID)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"holdout": 1.0}, "holdout must be a number of at least 0 and below 1; got 1.0"),
        ({"save_steps": 5}, "out must be a folder if trackers or save_steps are set; got None"),
        ({"trackers": ("tensorboard",)}, "out must be a folder if trackers or save_steps are set; got None"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        quick(**settings).fit(X, Y, qid=QID)


def test_fitted_attributes(fitted):
    assert isinstance(fitted.model_, Model)
    assert [row["epoch"] for row in fitted.history_] == [1, 2, 3]
    assert fitted.best_epoch_ == 1 + int(np.argmax([row["nDCG@10"] for row in fitted.history_]))
    assert fitted.n_features_in_ == 4
    assert not hasattr(fitted, "feature_names_in_")


def test_unfitted_says_so(tmp_path):
    for call in (
        lambda r: r.predict(X),
        lambda r: r.rank(X, QID),
        lambda r: r.score(X, Y, QID),
        lambda r: r.save(tmp_path),
    ):
        with pytest.raises(NotFittedError):
            call(quick())


# Lists in, scores out


@pytest.mark.parametrize("model", ["mlp:widths=8", "context_aware:width=8,blocks=1,feed_forward=8"])
def test_scores_are_in_row_order_wherever_the_rows_of_a_query_lie(model):
    ranker = quick(model=model).fit(X, Y, qid=QID)
    order = np.argsort(QID, kind="stable")
    sizes = np.bincount(QID)
    scattered = ranker.predict(X, qid=QID)
    assert np.ptp(scattered) > 0
    np.testing.assert_allclose(scattered[order], ranker.predict(X[order], group=sizes), rtol=1e-5, atol=1e-6)
    shuffled = np.random.default_rng(1).permutation(len(QID))
    np.testing.assert_allclose(
        scattered[shuffled], ranker.predict(X[shuffled], qid=[f"q{q}" for q in QID[shuffled]]), rtol=1e-5, atol=1e-6
    )
    if not ranker.model_.ranker.list_aware:
        np.testing.assert_allclose(scattered, ranker.predict(X), rtol=1e-5, atol=1e-6)


def test_scattered_and_grouped_rows_train_the_same_ranker():
    first = {query: place for place, query in reversed(list(enumerate(QID)))}
    order = np.argsort([first[query] for query in QID], kind="stable")  # queries by first appearance
    # Lists are held out by their query's id, which a group has not.
    scattered = quick(holdout=0).fit(X, Y, qid=QID)
    grouped = quick(holdout=0).fit(
        X[order], Y[order], group=[np.sum(query == QID) for query in dict.fromkeys(QID[order])]
    )
    np.testing.assert_array_equal(scattered.predict(X), grouped.predict(X))


@pytest.mark.parametrize(
    "settings", [{"model": "context_aware:width=8,blocks=1,feed_forward=8"}, {"preprocess": "standardise_per_query"}]
)
def test_where_lists_matter_predict_asks_for_them(settings):
    ranker = quick(**settings).fit(X, Y, qid=QID)
    with pytest.raises(
        ValueError, match=r"qid or group must be given, because with .* a score depends on the whole list"
    ):
        ranker.predict(X)
    assert ranker.predict(X, QID).shape == Y.shape


def test_many_rows_without_lists_are_scored_in_blocks(fitted, monkeypatch):
    whole, widths = fitted.predict(X), []
    score = Model.score
    monkeypatch.setattr(module, "_ROWS", 7)
    monkeypatch.setattr(
        Model, "score", lambda self, x, offsets: widths.extend(np.diff(offsets)) or score(self, x, offsets)
    )
    np.testing.assert_allclose(fitted.predict(X), whole, rtol=1e-5, atol=1e-6)
    assert max(widths) == 7
    assert sum(widths) == len(X)


def test_rank_counts_from_one_and_the_earlier_row_wins_a_tie(fitted):
    doubled, qid = np.repeat(X, 2, axis=0), np.repeat(QID, 2)
    scores, ranks = fitted.predict(doubled, qid=qid), fitted.rank(doubled, qid=qid)
    for row in range(len(qid)):
        ahead = [
            scores[o] > scores[row] or (scores[o] == scores[row] and o < row) for o in np.flatnonzero(qid == qid[row])
        ]
        assert ranks[row] == 1 + sum(ahead)


def test_score_is_the_mean_ndcg_at_10(fitted):
    scores = fitted.predict(X, qid=QID)
    values = [float(ndcg(scores[q == QID], Y[q == QID], k=10)) for q in range(15)]
    assert fitted.score(X, Y, qid=QID) == pytest.approx(np.mean(values))
    heavy = np.where(QID < 3, 2.0, 0.5)  # one weight a list, on each of its rows
    expected = np.average(values, weights=[2.0] * 3 + [0.5] * 12)
    assert fitted.score(X, Y, qid=QID, sample_weight=heavy) == pytest.approx(expected)
    assert fitted.score(X, Y * 0, qid=QID) == 0.0


def test_a_list_is_asked_for(fitted):
    for call in (lambda: quick().fit(X, Y), lambda: fitted.score(X, Y), lambda: fitted.rank(X)):
        with pytest.raises(ValueError, match=r"qid or group must be given, because ranking is per list.*got neither"):
            call()
    with pytest.raises(ValueError, match="exactly one of qid and group must be given; got both"):
        quick().fit(X, Y, qid=QID, group=[len(Y)])


def test_wrong_rows_are_named(fitted):
    with pytest.raises(ValueError, match="X has 3 features, but Ranker is expecting 4 features as input"):
        fitted.predict(X[:, :3])
    with pytest.raises(ValueError, match=rf"qid must have one query id per row, \({len(Y)},\); got \({len(Y) - 1},\)"):
        fitted.predict(X, qid=QID[1:])
    with pytest.raises(ValueError, match="labels must be finite and at least 0; got -1"):
        quick().fit(X, Y - 1, qid=QID)
    with pytest.raises(ValueError, match=r"X must not contain NaN \(or set missing to .*\); got NaN in column 1"):
        quick().fit(np.where(np.arange(X.shape[1]) == 1, np.nan, X), Y, qid=QID)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_are_taken_and_their_columns_watched(library, fitted):
    make = pytest.importorskip(library).DataFrame
    names = ["bm25", "age", "clicks", "length"]
    frame = make({name: X[:, j] for j, name in enumerate(names)} | {"qid": QID, "grade": Y})
    ranker = quick().fit(frame[names], frame["grade"], qid=frame["qid"])
    assert ranker.feature_names_in_.tolist() == names
    np.testing.assert_array_equal(ranker.predict(frame[names], qid=frame["qid"]), fitted.predict(X, qid=QID))
    np.testing.assert_array_equal(ranker.predict(frame[names[::-1]]), fitted.predict(X))
    np.testing.assert_array_equal(ranker.rank(frame[names[::-1]], qid=QID), fitted.rank(X, qid=QID))
    assert ranker.score(frame[names[::-1]], Y, qid=QID) == fitted.score(X, Y, qid=QID)
    with pytest.warns(UserWarning, match="X has columns that the ranker does not use: 'qid', 'grade'"):
        np.testing.assert_array_equal(ranker.predict(frame), fitted.predict(X))
    with pytest.raises(ValueError, match="X must have the 4 columns of `fit`; got no column 'length'"):
        ranker.predict(frame[names[:3]])


# Weights, and what chooses the epoch


def test_weights_stay_with_their_rows(trained):
    marks = X.copy()
    marks[:, 3] = np.arange(len(Y)) + 1
    quick().fit(marks, Y, qid=QID, sample_weight=marks[:, 3].tolist())
    ((data, _, weights),) = trained
    assert len(weights) < len(Y)  # some lists are held out
    np.testing.assert_array_equal(weights, data.features[:, 3])


def test_weights_change_what_is_learnt_and_are_refused_by_losses_without():
    plain, even = quick().fit(X, Y, qid=QID), quick().fit(X, Y, qid=QID, sample_weight=np.ones(len(Y)))
    np.testing.assert_allclose(plain.predict(X), even.predict(X), rtol=1e-4, atol=1e-5)
    uneven = quick().fit(X, Y, qid=QID, sample_weight=np.where(X[:, 2] > 0, 1.0, 0.01))
    assert np.abs(uneven.predict(X) - plain.predict(X)).max() > 1e-3
    for weights, message in (
        (np.ones(3), f"have one value per row, \\({len(Y)},\\)"),
        (-np.ones(len(Y)), "be finite and at least 0"),
        (np.zeros(len(Y)), "contain a weight above 0; got only zeros"),
    ):
        with pytest.raises(ValueError, match=f"sample_weight must {message}"):
            quick().fit(X, Y, qid=QID, sample_weight=weights)
    with pytest.raises(ValueError, match="sample_weight must be None for approx_ndcg, which takes no weights"):
        quick(loss="approx_ndcg").fit(X, Y, qid=QID, sample_weight=np.ones(len(Y)))


def test_lists_are_held_out_whole(trained):
    labels = np.where(QID % 3 == 0, 1, Y)  # five of the lists, and chance ones, have equal labels
    quick().fit(X, labels, qid=QID)
    quick(seed=1).fit(X, labels, qid=QID)
    quick(holdout=0).fit(X, labels, qid=QID)
    (data, held, _), (_, other, _), (everything, none, _) = trained
    telling = [q for q in range(15) if np.ptp(labels[q == QID]) > 0]
    assert len(set(held.qids) & set(telling)) == round(0.2 * len(telling))
    assert len(set(held.qids) - set(telling)) == round(0.2 * (15 - len(telling)))
    assert sorted([*data.qids, *held.qids]) == list(range(15))
    assert held.qids.tolist() != other.qids.tolist()
    assert none is None
    assert len(everything) == 15


def test_one_list_is_not_held_out(trained):
    quick(holdout=0.9).fit(X, Y, group=[len(Y)])
    assert trained[0][1] is None


XV, YV, QV = made(lists=6, seed=1)
V_ORDER, V_SIZES = np.argsort(QV, kind="stable"), np.bincount(QV)
FORMS = {
    "pair": {"eval_set": (XV, YV), "eval_qid": QV},
    "list": {"eval_set": [(XV, YV)], "eval_qid": [QV]},
    "mixed": {"eval_set": [(XV, YV)], "eval_qid": QV.tolist()},
    "tuples": {"eval_set": ((XV, YV),), "eval_qid": (QV,)},
    "group": {"eval_set": (XV[V_ORDER], YV[V_ORDER]), "eval_group": V_SIZES},
    "groups": {"eval_set": [(XV[V_ORDER], YV[V_ORDER])], "eval_group": [V_SIZES]},
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_an_eval_set_chooses_the_epoch_in_whatever_form_it_comes(form):
    ranker = quick(epochs=6, lr=0.05).fit(X, Y, qid=QID, **form)
    best = max(row["nDCG@10"] for row in ranker.history_)
    assert ranker.score(XV, YV, qid=QV) == pytest.approx(best, abs=1e-6)


def test_the_first_of_several_sets_chooses():
    both = {"eval_set": [(XV, YV), (X, Y)], "eval_qid": [QV, QID]}
    with pytest.warns(UserWarning, match="contains 2 sets: the first set selects the epoch"):
        ranker = quick().fit(X, Y, qid=QID, **both)
    alone = quick().fit(X, Y, qid=QID, **FORMS["pair"])
    np.testing.assert_array_equal(ranker.predict(X), alone.predict(X))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"eval_set": (XV, YV)}, "exactly one of eval_qid and eval_group must be given; got neither"),
        ({"eval_set": XV, "eval_qid": QV}, r"eval_set must be \(X, y\) or a list of such pairs; got ndarray"),
        ({"eval_set": (XV, YV), "eval_qid": QV[1:]}, "eval_set: qid must have one query id per row"),
        ({"eval_set": (XV[:, :2], YV), "eval_qid": QV}, "eval_set: X has 2 features"),
        (
            {"eval_set": [(XV, YV)], "eval_qid": [QV, QV]},
            r"eval_qid or eval_group must have one entry per set of eval_set \(1\); got 2",
        ),
    ],
)
def test_a_wrong_eval_set_is_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        quick().fit(X, Y, qid=QID, **wrong)


def test_the_call_of_pyterrier():
    order = np.argsort(QID, kind="stable")
    ranker = quick()
    ranker.fit(
        np.stack(list(X[order])),
        Y[order],
        group=np.bincount(QID),
        eval_set=[(np.stack(list(XV[V_ORDER])), YV[V_ORDER])],
        eval_group=[V_SIZES],
    )
    assert ranker.predict(np.stack(list(XV))).shape == YV.shape


# Kept, copied, interrupted


def test_saved_and_loaded_it_is_the_same(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcd"))
    ranker = quick(lr=np.float32(0.01), epochs=np.int64(4), holdout=0.3).fit(frame, Y, qid=QID)
    ranker.save(tmp_path / "model")
    loaded = Ranker.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(frame), ranker.predict(frame))
    assert loaded.get_params() == {**ranker.get_params(), "lr": pytest.approx(0.01), "epochs": 4}
    assert loaded.history_ == ranker.history_
    assert loaded.best_epoch_ == ranker.best_epoch_
    assert loaded.n_features_in_ == 4
    np.testing.assert_array_equal(loaded.predict(frame[list("dcba")]), ranker.predict(frame))
    assert {path.suffix for path in (tmp_path / "model").iterdir()} == {".json", ".jsonl", ".safetensors"}


def test_a_folder_of_a_training_run_loads_even_after_a_kill(tmp_path):
    lists = load("synthetic:lists=30,features=10").train
    model = train(Settings(model="linear", epochs=2), lists, out=tmp_path / "run")
    with open(tmp_path / "run" / "log.jsonl", "a") as log:
        log.write('{"epoch": 3, "lo')
    ranker = Ranker.load(tmp_path / "run")
    np.testing.assert_array_equal(ranker.predict(lists.features), model.score(lists.features))
    assert ranker.get_params()["model"] == "linear"
    assert ranker.history_ == model.history
    assert clone(ranker).fit(X, Y, qid=QID).n_features_in_ == 4


def test_feature_names_that_do_not_fit_are_refused(fitted, tmp_path):
    fitted.save(tmp_path)
    (tmp_path / "estimator.json").write_text(json.dumps({"feature_names": ["a"]}))
    with pytest.raises(ValueError, match="must contain 4 feature names; got 1"):
        Ranker.load(tmp_path)


def test_it_is_cloned_pickled_and_kept_by_joblib(fitted, tmp_path):
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "model_")
    expected = fitted.predict(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(X), expected)
    joblib.dump(fitted, tmp_path / "ranker.joblib")
    np.testing.assert_array_equal(joblib.load(tmp_path / "ranker.joblib").predict(X), expected)


def test_ctrl_c_leaves_it_unfitted_and_the_best_epoch_in_the_folder(tmp_path, monkeypatch):
    ranker = quick(epochs=50).fit(X, Y, qid=QID)
    rows, epoch = [], JsonLines.epoch

    def stop(self, row):
        rows.append(row)
        if len(rows) == 3:
            raise KeyboardInterrupt
        epoch(self, row)

    monkeypatch.setattr(JsonLines, "epoch", stop)
    with pytest.raises(KeyboardInterrupt):
        ranker.set_params(out=tmp_path / "run").fit(X[:, :3], Y, qid=QID)
    with pytest.raises(NotFittedError):
        ranker.predict(X)
    loaded = Ranker.load(tmp_path / "run")
    assert loaded.best_epoch_ == 1 + int(np.argmax([row["nDCG@10"] for row in rows]))
    assert loaded.predict(X[:, :3]).shape == Y.shape


def test_threads_share_a_fitted_one():
    ranker = quick(model="context_aware:width=8,blocks=1,feed_forward=8").fit(X, Y, qid=QID)
    parts = [made(lists=5, seed=seed) for seed in range(40)]
    alone = [ranker.predict(x, qid=qid) for x, _, qid in parts]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda part: ranker.predict(part[0], qid=part[2]), parts))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)


# Inside scikit-learn's tools


@pytest.fixture
def routing():
    with config_context(enable_metadata_routing=True):
        yield


def asking(**settings):
    return quick(**settings).set_fit_request(qid=True).set_score_request(qid=True).set_predict_request(qid=True)


def test_pipeline(routing):
    pipeline = make_pipeline(StandardScaler(), asking(preprocess="none", holdout=0)).fit(X, Y, qid=QID)
    direct = quick(holdout=0).fit(X, Y, qid=QID)
    # The loss does not see what is added to all scores, so the last bias follows rounding.
    found, expected = pipeline.predict(X, qid=QID), direct.predict(X)
    np.testing.assert_allclose(found - found.mean(), expected - expected.mean(), rtol=1e-3, atol=1e-4)
    assert pipeline.score(X, Y, qid=QID) == pytest.approx(direct.score(X, Y, qid=QID))


def test_grid_search_with_groups(routing):
    search = GridSearchCV(asking(), {"loss": ["ranknet", "softmax"], "lr": [1e-3, 1e-2]}, cv=GroupKFold(3))
    search.fit(X, Y, qid=QID, groups=QID)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_params_["loss"] in ("ranknet", "softmax")
    np.testing.assert_array_equal(search.predict(X), search.best_estimator_.predict(X))


ROUTING = r"call sklearn.set_config\(enable_metadata_routing=True\), and call set_fit_request\(qid=True\)"


@pytest.mark.parametrize("told", [{"qid": QID}, {}], ids=["qid", "no qid"])
@pytest.mark.parametrize("kind", ["neural", "trees", "blend"])
def test_a_search_without_routing_is_an_error_and_not_nan(kind, told, fitted):
    if kind == "trees":
        pytest.importorskip("lightgbm")
    ranker = {"neural": quick(), "trees": TreeRanker(trees=2, threads=1), "blend": blend([fitted])}[kind]
    grid = {"even": [0.1, 0.2]} if kind == "blend" else {"holdout": [0.1, 0.2]}
    # scikit-learn catches the error of a fit, and raises another one if all fits fail.
    with pytest.raises(ValueError, match=rf"(?s)All the 4 fits failed.*{ROUTING}"):
        GridSearchCV(ranker, grid, cv=GroupKFold(2)).fit(X, Y, groups=QID, **told)
    with pytest.raises(ValueError, match=rf"(?s)All the 2 fits failed.*{ROUTING}"):
        cross_val_score(ranker, X, Y, cv=GroupKFold(2), groups=QID, params=told)


@pytest.mark.filterwarnings("ignore:Scoring failed", "ignore:One or more of the test scores")
def test_a_pipeline_in_a_search_without_routing_is_reported():
    pipeline = make_pipeline(StandardScaler(), quick())
    search = GridSearchCV(pipeline, {"ranker__lr": [0.1]}, cv=GroupKFold(2))
    with pytest.warns(UserWarning, match=rf"^scikit-learn must pass qid to score [^\n]*{ROUTING}[^\n]*; got no qid, "):
        search.fit(X, Y, groups=QID, ranker__qid=QID)


def test_a_search_with_its_own_scoring_needs_no_routing():
    def scoring(ranker, X, y):
        return float(ranker.predict(X) @ y)

    search = GridSearchCV(quick(), {"lr": [0.1]}, scoring=scoring, cv=GroupKFold(2)).fit(X, Y, groups=QID, qid=QID)
    assert np.isfinite(search.best_score_)


@pytest.mark.long
def test_cross_validation_in_processes(routing):
    told = {"cv": GroupKFold(2), "params": {"qid": QID, "groups": QID}}
    scores = [cross_val_score(asking(), X, Y, n_jobs=jobs, **told) for jobs in (None, 2)]
    np.testing.assert_allclose(scores[0], scores[1])
    assert (scores[0] > 0.3).all()


# What a first-time user gets


@pytest.mark.parametrize("chosen_by", ["holdout", "eval_set"])
def test_the_defaults_are_good_on_real_data(chosen_by):
    if not (ROOT.parent / "shared" / "data" / "MQ2008").is_dir():
        pytest.skip("MQ2008 is not in ../shared/data")
    data = load("MQ2008", fold=1, root=ROOT.parent / "shared" / "data")
    part, test = data.validation, data.test
    extra = {} if chosen_by == "holdout" else {"eval_set": (part.features, part.labels), "eval_qid": part.row_qids}
    ranker = Ranker().fit(data.train.features, data.train.labels, qid=data.train.row_qids, **extra)
    assert float(ndcg(ranker.predict(test.features), test.labels, offsets=test.offsets, k=10, empty="one")) > 0.75


def test_labels_of_text_are_told_to_be_mapped():
    texts = np.resize(["bad", "good"], len(Y))
    must = r"y must be numbers \(map grades such as 'bad' to 0, 1, 2, ...\); got texts"
    series = pytest.importorskip("pandas").Series(texts)
    for y in (texts, [*texts], texts.astype(object), series, series.astype("category")):
        with pytest.raises(ValueError, match=must):
            quick().fit(X, y, qid=QID)
