"""A ranker made of rankers: normalised scores, fitted weights, one interface, one folder."""

import json
import pickle

import numpy as np
import pytest
from programs import run_here, stdout_of
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from rankgrad.estimators.blend import Blend, blend
from rankgrad.estimators.neural import Ranker
from rankgrad.estimators.rows import RowRanker
from rankgrad.models import load as read_model
from rankgrad.models.blend import standardise_per_list
from rankgrad.trees import TreeModel, TreeRanker


def made(lists=30, features=3, seed=0):
    rng = np.random.default_rng(seed)
    qid = rng.permutation(np.repeat(np.arange(lists), rng.integers(2, 9, lists)))
    X = rng.normal(size=(len(qid), features)).astype(np.float32)
    y = np.clip(np.round(X[:, 0] + X[:, 1] + 1), 0, 3).astype(int)
    return X, y, qid


X, Y, QID = made()
VX, VY, VQID = made(seed=1)


class Column:
    """A model whose score is a column of the features."""

    categories, takes_missing = None, False

    features = 3

    def __init__(self, column, scale=1.0, shift=0.0):
        self.column, self.scale, self.shift = column, scale, shift

    def score(self, features, offsets=None):
        return (features[:, self.column] * self.scale + self.shift).astype(np.float32)


class Fitted(RowRanker):
    """A fitted ranker around a model."""

    def __init__(self, *column):
        self.model_, self.n_features_in_ = Column(*column), 3

    def fit(self):
        return self


@pytest.fixture(scope="module")
def parts():
    return [Ranker(model=model, epochs=3, lr=0.05).fit(X, Y, qid=QID) for model in ("linear", "mlp:widths=8")]


@pytest.fixture(scope="module")
def fitted(parts):
    return blend(parts).fit(VX, VY, qid=VQID)


def test_scores_are_normalised_in_each_list():
    features = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)
    features[4:6, 0] = 7.3  # a list of ties
    offsets = np.array([0, 4, 4, 6, 9])
    columns = standardise_per_list([Column(0), Column(1, 1e3, 5.0)], features, offsets)
    for start, stop in ((0, 4), (6, 9)):
        np.testing.assert_allclose(columns[start:stop].mean(0), 0, atol=1e-6)
        np.testing.assert_allclose(columns[start:stop].std(0), 1, rtol=1e-6)
    assert (columns[4:6, 0] == 0).all()
    scaled = standardise_per_list([Column(0, 50.0, -3.0)], features, offsets)
    np.testing.assert_allclose(scaled[:, 0], columns[:, 0], atol=1e-5)
    assert standardise_per_list([Column(0)], features[:0], np.array([0, 0])).shape == (0, 1)


def test_weights_go_to_what_ranks_better():
    both = blend([Fitted(0), Fitted(2)], even=0.01).fit(VX, VY, qid=VQID)  # the last column says nothing
    assert both.weights_[0] > 0.9
    assert both.weights_.sum() == pytest.approx(1)
    alike = blend([Fitted(0), Fitted(1), Fitted(2, -1.0)], even=0.0).fit(VX, VY, qid=VQID)
    assert (alike.weights_ >= 0).all()
    assert alike.score(VX, VY, qid=VQID) > both.score(VX, VY, qid=VQID) + 0.02
    even = blend([Fitted(0), Fitted(2)], even=1e4).fit(VX, VY, qid=VQID)
    np.testing.assert_allclose(even.weights_, 0.5, atol=1e-3)


@pytest.mark.parametrize("loss", ["xe_ndcg", "lambdaloss@5", "approx_ndcg"])
def test_any_loss_fits_the_weights(loss):
    both = blend([Fitted(0), Fitted(2)], loss=loss, even=0.0).fit(VX, VY, qid=VQID)
    assert both.weights_[0] > 0.7


def test_weights_of_rows_are_honoured():
    first = VQID < 15
    y = np.where(first, np.round(VX[:, 0] + 2), np.round(VX[:, 2] + 2)).clip(0)
    heavy = blend([Fitted(0), Fitted(2)]).fit(VX, y, qid=VQID, sample_weight=np.where(first, 1.0, 1e-6))
    light = blend([Fitted(0), Fitted(2)], loss="softmax").fit(VX, y, qid=VQID, sample_weight=np.where(first, 1e-6, 1.0))
    # A loss whose targets are normalised in each list takes a list's weight out again.
    assert heavy.weights_[0] == pytest.approx(0.5, abs=0.15)
    assert light.weights_[0] < 0.2


def test_rows_come_back_in_their_order(fitted):
    scores = fitted.predict(X, QID)
    order = np.random.default_rng(3).permutation(len(Y))
    np.testing.assert_allclose(fitted.predict(X[order], QID[order]), scores[order], atol=1e-5)
    assert fitted.rank(X, QID).max() == np.bincount(QID).max()
    assert fitted.score(X, Y, qid=QID) > 0.6


def test_saved_and_loaded_it_predicts_identically(fitted, tmp_path):
    fitted.save(tmp_path / "a")
    again = Blend.load(tmp_path / "a")
    np.testing.assert_array_equal(again.predict(X, QID), fitted.predict(X, QID))
    np.testing.assert_array_equal(again.weights_, fitted.weights_)
    assert (again.loss, again.even) == (fitted.loss, fitted.even)
    nested = blend([fitted, fitted]).fit(VX, VY, qid=VQID)
    nested.save(tmp_path / "b")
    np.testing.assert_array_equal(Blend.load(tmp_path / "b").predict(X, QID), nested.predict(X, QID))
    names = {path.suffix for path in (tmp_path / "b").rglob("*") if path.is_file()}
    assert names <= {".json", ".jsonl", ".safetensors"}
    for path, kind in ((tmp_path / "a", Ranker), (tmp_path / "a", TreeRanker), (tmp_path / "a" / "part-1", Blend)):
        with pytest.raises(ValueError, match="a model of kind"):
            kind.load(path)


def test_trees_and_neural_rankers_together(parts, tmp_path):
    pytest.importorskip("lightgbm")
    trees = TreeRanker(trees=10, num_leaves=4, min_data_in_leaf=3, threads=1).fit(X, Y, qid=QID)
    both = blend([trees, *parts]).fit(VX, VY, qid=VQID)
    both.save(tmp_path)
    np.testing.assert_array_equal(Blend.load(tmp_path).predict(X, QID), both.predict(X, QID))
    features, offsets = X[:6], np.array([0, 2, 6])
    np.testing.assert_array_equal(read_model(tmp_path).score(features, offsets), both.model_.score(features, offsets))


def test_the_command_line_takes_a_blend(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    lines = tmp_path / "test.txt"
    order = np.argsort(QID, kind="stable")
    text = [f"{Y[i]} qid:{QID[i]} " + " ".join(f"{j}:{v!r}" for j, v in enumerate(X[i].tolist(), 1)) for i in order]
    lines.write_text("\n".join(text) + "\n")
    run_here("predict", tmp_path / "model", lines, "--out", tmp_path / "scores")
    np.testing.assert_allclose(np.loadtxt(tmp_path / "scores"), fitted.predict(X, QID)[order], atol=1e-5)
    told = stdout_of("evaluate", tmp_path / "model", "--data", lines, "--json", "-m", "nDCG@10")
    assert json.loads(told)["metrics"]["nDCG@10"]["mean"] == pytest.approx(fitted.score(X, Y, qid=QID), abs=1e-5)


def test_bad_blends(parts, fitted):
    with pytest.raises(ValueError, match="rankers must contain at least one ranker; got none"):
        blend([]).fit(VX, VY, qid=VQID)
    with pytest.raises(NotFittedError):
        blend([Ranker()]).fit(VX, VY, qid=VQID)
    with pytest.raises(NotFittedError):
        blend(parts).predict(X, QID)
    with pytest.raises(ValueError, match="rankers must all have 2 features, the number of features in the lists"):
        blend(parts).fit(VX[:, :2], VY, qid=VQID)
    with pytest.raises(ValueError, match="qid or group must be given, because a blend standardises scores per list"):
        fitted.predict(X)
    with pytest.raises(ValueError, match="even must be at least 0"):
        blend(parts, even=-1).fit(VX, VY, qid=VQID)
    with pytest.raises(ValueError, match="sample_weight must be None for approx_ndcg"):
        blend(parts, loss="approx_ndcg").fit(VX, VY, qid=VQID, sample_weight=np.ones(len(VY)))


def test_any_fitted_estimator_with_predict_is_a_part(parts, fitted, tmp_path):
    line = LinearRegression().fit(X, Y)
    both = blend([parts[0], line]).fit(VX, VY, qid=VQID)
    assert both.weights_.sum() == pytest.approx(1)
    assert both.score(VX, VY, qid=VQID) > 0.6
    alone = blend([line]).fit(VX, VY, qid=VQID)
    for query in range(30):  # the order of one part is that of its predictions
        rows = query == QID
        assert np.argsort(alone.predict(X, QID)[rows]).tolist() == np.argsort(line.predict(X[rows])).tolist()
    again = pickle.loads(pickle.dumps(both))
    np.testing.assert_array_equal(again.predict(X, QID), both.predict(X, QID))
    np.testing.assert_array_equal(clone(both).fit(VX, VY, qid=VQID).weights_, both.weights_)
    for each in (both, blend([fitted, both]).fit(VX, VY, qid=VQID)):
        with pytest.raises(ValueError, match=r"rankers must all be rankers of rankgrad if .*; got LinearRegr"):
            each.save(tmp_path / "model")
    with pytest.raises(ValueError, match=r"rankers of a blend that is explained must .*from_booster.*; got LinearRegr"):
        alone.explain(VX, VY, VQID, query=VQID[0])
    with pytest.raises(ValueError, match="model must be a ranker of rankgrad if it is saved"):
        both.model_.models[1].save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_missing_values_reach_estimators_that_take_them():
    holes = np.where(VX > 1, np.nan, VX)
    trees = HistGradientBoostingRegressor(max_iter=5).fit(X, Y)
    assert np.isfinite(blend([trees]).fit(holes, VY, qid=VQID).predict(holes, VQID)).all()
    with pytest.raises(ValueError, match="X must not contain NaN; got NaN in column 0"):
        blend([trees, LinearRegression().fit(X, Y)]).fit(holes, VY, qid=VQID)


def test_an_estimator_of_a_data_frame_gets_its_columns():
    pd = pytest.importorskip("pandas")
    names = ["bm25", "age", "clicks"]
    table, other = pd.DataFrame(X, columns=names), pd.DataFrame(VX, columns=names)
    chosen = make_pipeline(ColumnTransformer([("all", "passthrough", ["clicks", "bm25"])]), LinearRegression())
    both = blend([chosen.fit(table, Y), LinearRegression().fit(table, Y)]).fit(other, VY, qid=VQID)
    assert both.predict(table, QID).shape == Y.shape
    line, turned = LinearRegression().fit(table, Y), other[names[::-1]]
    np.testing.assert_array_equal(
        blend([line]).fit(turned, VY, qid=VQID).predict(turned, VQID),
        blend([line]).fit(other, VY, qid=VQID).predict(other, VQID),
    )
    with pytest.raises(
        ValueError, match=r"LinearRegression must have the features of X, bm25, age, clicks; got clicks"
    ):
        blend([line, LinearRegression().fit(table[names[::-1]], Y)]).fit(other, VY, qid=VQID)


@pytest.mark.parametrize(
    ("part", "error", "message"),
    [
        (LinearRegression(), NotFittedError, "not fitted yet"),
        (LinearRegression, TypeError, "rankers must be fitted rankers, or fitted estimators with a method predict"),
        ("runs/a", TypeError, "a method predict; got str"),
        (LinearRegression().fit(X[:, :2], Y), ValueError, "rankers must all have 3 features"),
        (LinearRegression().fit(X, np.stack([Y, Y], 1)), ValueError, "predict of LinearRegression must return"),
    ],
    ids=["not fitted", "a class", "text", "features", "two outputs"],
)
def test_parts_that_cannot_be_blended(part, error, message, parts):
    with pytest.raises(error, match=message):
        blend([parts[0], part]).fit(VX, VY, qid=VQID)


def test_a_clone_keeps_the_fitted_rankers(fitted):
    again = clone(fitted)
    assert not hasattr(again, "model_")
    np.testing.assert_array_equal(again.fit(VX, VY, qid=VQID).weights_, fitted.weights_)


def categorical_frame(lists, seed):
    pd = pytest.importorskip("pandas")
    features, _, qid = made(lists, 2, seed)
    shop = np.random.default_rng(seed).choice(["a", "b", "c"], len(qid))
    frame = pd.DataFrame({"bm25": features[:, 0], "shop": pd.Categorical(shop, categories=["a", "b", "c"])})
    return frame.set_axis(range(len(frame), 0, -1)), (shop == "b") + (features[:, 0] > 0), qid


def test_an_estimator_gets_the_rows_of_the_caller(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    frame, y, qid = categorical_frame(30, 0)
    order = np.argsort(qid, kind="stable")
    sizes = np.unique(qid, return_counts=True)[1]
    trees = lightgbm.LGBMRanker(n_estimators=5, min_child_samples=2, n_jobs=1, verbose=-1)
    trees.fit(frame.iloc[order], y[order], group=sizes)
    net = Ranker(model="linear", epochs=2).fit(frame, y, qid=qid)
    other, labels, groups = categorical_frame(20, 1)
    both = blend([trees, net]).fit(other, labels, qid=groups)
    alone = blend([trees]).fit(other, labels, qid=groups)
    for one in (alone, blend([alone]).fit(other, labels, qid=groups)):
        ours, theirs = one.predict(other, groups), trees.predict(other)
        for rows in (groups == query for query in np.unique(groups)):
            theirs[rows] -= theirs[rows].mean()
            theirs[rows] /= max(theirs[rows].std(), 1e-3)  # nearly equal scores count as equal
        np.testing.assert_allclose(ours, theirs, atol=1e-3)
    scores = both.predict(other, groups)
    np.testing.assert_array_equal(both.predict(other.assign(more=1)[["more", "shop", "bm25"]], groups), scores)
    assert both.score(other, labels, qid=groups) > 0.8
    assert both.rank(other, groups).min() == 1
    again = pickle.loads(pickle.dumps(both))
    np.testing.assert_array_equal(again.predict(other, groups), scores)
    with pytest.raises(ValueError, match="X must be the rows of a data frame for LGBMRanker, because other"):
        both.feature_importance(other, labels, groups, repeats=1)
    with pytest.raises(TypeError, match=r"TreeRanker.from_booster return rankers\)"):
        blend([TreeModel.from_booster(trees)]).fit(other, labels, qid=groups)
    ours = blend([TreeRanker.from_booster(trees), net]).fit(other, labels, qid=groups)
    np.testing.assert_allclose(ours.weights_, both.weights_, atol=1e-6)
    ours.save(tmp_path / "both")
    assert json.loads((tmp_path / "both" / "config.json").read_text())["categories"] == {"1": ["a", "b", "c"]}
    assert ours.explain(other, labels, groups, query=groups[0]).contributions.shape == (2,)
    np.testing.assert_array_equal(Blend.load(tmp_path / "both").predict(other, groups), ours.predict(other, groups))
    assert read_model(tmp_path / "both").categories == {1: ("a", "b", "c")}


def test_columns_of_a_blend_are_found_by_name(tmp_path):
    pd = pytest.importorskip("pandas")
    frame, other = pd.DataFrame(X, columns=["a", "b", "c"]), pd.DataFrame(VX, columns=["a", "b", "c"])
    turned = other[["c", "a", "b"]]
    members = [Ranker(model="linear", epochs=2, seed=seed).fit(frame, Y, qid=QID) for seed in (0, 1)]
    both = blend(members).fit(other, VY, qid=VQID)
    expected = both.predict(other, VQID)
    np.testing.assert_array_equal(both.predict(turned, VQID), expected)
    np.testing.assert_array_equal(blend(members).fit(turned, VY, qid=VQID).predict(turned, VQID), expected)
    both.save(tmp_path / "both")
    loaded = Blend.load(tmp_path / "both")
    assert loaded.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(loaded.predict(turned, VQID), expected)
    turned.assign(qid=VQID, label=VY).to_csv(tmp_path / "t.csv", index=False)
    told = stdout_of("predict", tmp_path / "both", tmp_path / "t.csv", "--regroup")
    np.testing.assert_allclose(np.array(told.split(), dtype=float), expected, atol=1e-5)
    order = ["b", "c", "a"]  # a member that was trained on another order, as an older model may be
    other_order = Ranker(model="linear", epochs=2).fit(frame[order], Y, qid=QID)
    mixed = blend([members[0], other_order]).fit(other, VY, qid=VQID)
    parts = np.stack([members[0].predict(other, VQID), other_order.predict(other, VQID)], axis=1)
    assert mixed.model_.models[1].score(VX).tolist() == other_order.model_.score(VX[:, [1, 2, 0]]).tolist()
    found = mixed.predict(turned, VQID)
    for query in np.unique(VQID)[:5]:
        rows = query == VQID
        scaled = (parts[rows] - parts[rows].mean(0)) / parts[rows].std(0)
        np.testing.assert_allclose(found[rows], scaled @ mixed.weights_, atol=1e-4)
    mixed.save(tmp_path / "mixed")
    np.testing.assert_array_equal(Blend.load(tmp_path / "mixed").predict(turned, VQID), found)
    np.testing.assert_array_equal(Blend.load(tmp_path / "mixed").rankers[1].predict(turned, VQID), parts[:, 1])
    shown = mixed.explain(other, VY, VQID, query=VQID[0])
    np.testing.assert_allclose(shown.contributions.sum(), shown.scores[0] - shown.scores[1], atol=1e-5)
    odd = Ranker(model="linear", epochs=2).fit(frame.rename(columns={"a": "z"}), Y, qid=QID)
    with pytest.raises(
        ValueError, match="models of a blend must have the same features; got 'a', 'b', 'c' and 'z', 'b'"
    ):
        blend([members[0], odd]).fit(frame, Y, qid=QID)


def test_a_blend_in_a_search_without_query_ids_still_says_so(parts):
    with pytest.raises(ValueError, match="scikit-learn must pass qid to score"):
        cross_val_score(blend(parts), X, Y, params={"qid": QID}, error_score="raise")
