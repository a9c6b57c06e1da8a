"""Missing, categorical and sparse columns: equal to doing it by hand, with every kind of ranker; saved and exported."""

import json
import warnings
from datetime import date

import numpy as np
import pytest
from scipy import sparse
from sklearn.impute import SimpleImputer

import rankgrad as rg
from rankgrad.data import Preprocessing, from_arrays
from rankgrad.data.categories import encode, find_categories
from rankgrad.data.preprocessing.missing_values import INDICATED
from rankgrad.data.tables.reader import read_columns, stream_table
from rankgrad.models import load
from rankgrad.models.registry import kind_of
from rankgrad.training.model import Model

pd = pytest.importorskip("pandas")
RNG = np.random.default_rng(5)
LISTS, LENGTH, FEATURES = 60, 12, 5
QID = np.repeat(np.arange(LISTS), LENGTH)
X = RNG.normal(size=(LISTS * LENGTH, FEATURES)).astype(np.float32)
SHOP = RNG.choice(np.array(["ant", "bee", "cat", "dog", "eel", "fox"], dtype=object), len(X))
Y = ((X[:, 0] > 0).astype(int) + np.isin(SHOP, ["ant", "cat", "fox"])).astype(int)
HOLES = np.where((RNG.random(X.shape) < 0.2) & (np.arange(FEATURES) > 1), np.nan, X).astype(np.float32)
FRAME = pd.DataFrame(X, columns=[f"x{place}" for place in range(FEATURES)]).assign(shop=SHOP)
TYPED = FRAME.astype({"shop": "category"})
QUICK = {"model": "mlp:widths=16", "epochs": 8, "lr": 0.01, "holdout": 0.0, "device": "cpu"}
TREES = {
    "lightgbm": {"trees": 15, "num_leaves": 8, "min_data_in_leaf": 5, "cat_smooth": 1.0, "threads": 1},
    "xgboost": {"trees": 15, "max_depth": 3, "max_cat_to_onehot": 2, "threads": 1},
}


def network(**options):
    return rg.Ranker(**{**QUICK, **options})


def trees(framework, **options):
    return rg.trees.TreeRanker(framework, holdout=0.0, **{**TREES[framework], **options})


def onnx_scores(path, rows):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    given = {"features": rows.reshape(LISTS, LENGTH, -1), "mask": np.ones((LISTS, LENGTH), dtype=bool)}
    return session.run(["scores"], given)[0].reshape(-1)


# Missing values


@pytest.mark.parametrize("missing", ["zero", "mean", "indicator"])
def test_missing_values_are_filled_as_by_hand(missing, tmp_path):
    strategy = "constant" if missing == "zero" else "mean"
    by_hand = SimpleImputer(strategy=strategy, fill_value=0.0, add_indicator=missing == "indicator")
    filled = by_hand.fit_transform(HOLES.astype(np.float64)).astype(np.float32)
    assert filled.shape[1] == FEATURES + 3 * (missing == "indicator")
    standardise = Preprocessing.parse("standardise").fit(from_arrays(filled[:, :FEATURES], Y, qid=QID)[0])
    # Indicators are not standardised.
    filled = np.column_stack([standardise.transform(filled[:, :FEATURES]), INDICATED * filled[:, FEATURES:]])
    expected = network(preprocess="none").fit(filled, Y, qid=QID).predict(filled)
    ranker = network(missing=missing).fit(HOLES, Y, qid=QID)
    np.testing.assert_allclose(ranker.predict(HOLES), expected, rtol=1e-5, atol=1e-6)
    ranker.save(tmp_path / "model")
    np.testing.assert_array_equal(rg.Ranker.load(tmp_path / "model").predict(HOLES), ranker.predict(HOLES))
    assert load(tmp_path / "model").takes_missing
    ranker.model_.export(tmp_path / "model.onnx")
    np.testing.assert_allclose(onnx_scores(tmp_path / "model.onnx", HOLES), ranker.predict(HOLES), atol=1e-5)
    # A column that is complete in training may have NaN later; it has no indicator.
    later = HOLES.copy()
    later[0, 0] = np.nan
    assert np.isfinite(ranker.predict(later)).all()


def test_missing_values_are_an_error_by_default():
    with pytest.raises(ValueError, match=r"X must not contain NaN \(or set missing to .*\); got NaN in column 2"):
        network().fit(HOLES, Y, qid=QID)
    frame = pd.DataFrame(HOLES, columns=list("abcde"))
    with pytest.raises(ValueError, match="got NaN in 'c'"):
        network().fit(frame, Y, qid=QID)
    fitted = network().fit(X, Y, qid=QID)
    with pytest.raises(ValueError, match="X must not contain NaN"):
        fitted.predict(HOLES)
    with pytest.raises(ValueError, match="missing must be one of 'error', 'zero', 'mean', 'indicator'; got 'median'"):
        network(missing="median").fit(X, Y, qid=QID)
    with pytest.raises(ValueError, match="infinity"):
        network(missing="mean").fit(np.where(np.isnan(HOLES), np.inf, HOLES), Y, qid=QID)
    data = from_arrays(HOLES, Y, qid=QID, missing=np.nan)[0]
    with pytest.raises(ValueError, match=r"missing must be 'zero', .*; got missing values in the features 3, 4"):
        rg.training.train(rg.training.Settings(epochs=1), data)


def test_a_column_without_any_value_and_a_warm_start():
    empty = HOLES.copy()
    empty[:, 4] = np.nan
    ranker = network(missing="indicator").fit(empty, Y, qid=QID)
    assert np.isfinite(ranker.predict(empty)).all()
    again = network(missing="indicator", epochs=1).fit(empty, Y, qid=QID, init_model=ranker)
    assert again.model_.steps.added == 3
    with pytest.raises(ValueError, match="preprocess must be"):
        network(missing="mean").fit(empty, Y, qid=QID, init_model=network(missing="zero").fit(empty, Y, qid=QID))


@pytest.mark.parametrize("model", ["mlp:widths=16", "linear", "context_aware:blocks=1,heads=1,width=16"])
def test_contributions_of_features_with_several_columns(model):
    ranker = network(model=model, missing="indicator", categorical=["shop"])
    frame = pd.DataFrame(HOLES, columns=FRAME.columns[:-1]).assign(shop=SHOP)
    ranker.fit(frame, Y, qid=QID)
    found = ranker.explain(frame, Y, qid=QID, query=3)
    assert found.contributions.shape == (FEATURES + 1,)
    gap = found.scores[0] - found.scores[1]
    total = found.contributions.sum() + sum(found.others.values())
    assert total == pytest.approx(gap, abs=1e-5)
    gradients = ranker.feature_importance(frame, Y, qid=QID, method="gradient")
    assert gradients.values.shape == (FEATURES + 1,)
    assert gradients.values[-1] > 0
    lost = ranker.feature_importance(frame, Y, qid=QID, repeats=2)
    assert lost.values[-1] > 0.02  # the shop decides about a part of the label


# Categorical columns


def codes(values, categories=("ant", "bee", "cat", "dog", "eel", "fox")):
    return np.array([categories.index(value) if value in categories else np.nan for value in values], dtype=np.float32)


@pytest.mark.parametrize("framework", TREES)
def test_categories_of_trees_are_those_of_the_framework(framework, tmp_path):
    rows = np.column_stack([HOLES, codes(SHOP)])
    rows[::7, -1] = np.nan
    frame = pd.DataFrame(HOLES, columns=FRAME.columns[:-1]).assign(shop=np.where(np.isnan(rows[:, -1]), None, SHOP))
    native = "native:lambdarank" if framework == "lightgbm" else "native:rank:ndcg"
    ranker = trees(framework, loss=native, categorical=["shop"]).fit(frame, Y, qid=QID)
    group = np.full(LISTS, LENGTH)
    if framework == "lightgbm":
        lightgbm = pytest.importorskip("lightgbm")
        params = {"objective": "lambdarank", "num_leaves": 8, "min_data_in_leaf": 5, "cat_smooth": 1.0, "seed": 0}
        params |= {"verbosity": -1, "num_threads": 1, "force_col_wise": True}
        made = lightgbm.Dataset(rows, Y, group=group, categorical_feature=[FEATURES], params=dict(params))
        expected = lightgbm.train(params, made, 15).predict(rows, raw_score=True)
    else:
        xgboost = pytest.importorskip("xgboost")
        kinds = ["q"] * FEATURES + ["c"]
        made = xgboost.DMatrix(rows, Y, feature_types=kinds, enable_categorical=True)
        made.set_group(group)
        params = {"objective": "rank:ndcg", "max_depth": 3, "max_cat_to_onehot": 2, "base_score": 0.0, "nthread": 1}
        expected = xgboost.train(params, made, 15).predict(made, output_margin=True)
    np.testing.assert_allclose(ranker.predict(frame), expected, rtol=1e-5, atol=1e-6)
    ranker.save(tmp_path / "model")
    np.testing.assert_array_equal(rg.trees.TreeRanker.load(tmp_path / "model").predict(frame), ranker.predict(frame))
    ranker.model_.export(tmp_path / "model.onnx")
    np.testing.assert_allclose(onnx_scores(tmp_path / "model.onnx", rows), ranker.predict(frame), atol=1e-5)
    found = ranker.explain(frame, Y, qid=QID, query=3)
    assert found.contributions.sum() == pytest.approx(found.scores[0] - found.scores[1], abs=1e-5)
    with pytest.warns(UserWarning, match="100% of the values of the categorical column 'shop' are unknown"):
        strange = ranker.predict(frame.assign(shop="yak"))  # an unknown category is a missing category
    np.testing.assert_array_equal(strange, ranker.predict(frame.assign(shop=None)))


def test_embeddings_learn_categories(tmp_path):
    ranker = network(epochs=30).fit(TYPED, Y, qid=QID)
    assert ranker.categories_ == {FEATURES: ("ant", "bee", "cat", "dog", "eel", "fox")}
    without = network(epochs=30).fit(X, Y, qid=QID)
    assert ranker.score(TYPED, Y, qid=QID) > without.score(X, Y, qid=QID) + 0.05
    # Equal to the network on the columns and the vectors, by hand.
    model = ranker.model_
    vectors = model.ranker.embeddings[0].weight.detach().numpy()[codes(SHOP).astype(int) + 1]
    rows = np.column_stack([model.steps.transform(np.column_stack([X, codes(SHOP)]))[:, :FEATURES], vectors])
    by_hand = Model(model.ranker.network, rg.data.Preprocessing())
    np.testing.assert_allclose(ranker.predict(TYPED), by_hand.score(rows.astype(np.float32)), atol=1e-6)
    ranker.save(tmp_path / "model")
    np.testing.assert_array_equal(rg.Ranker.load(tmp_path / "model").predict(TYPED), ranker.predict(TYPED))
    ranker.model_.export(tmp_path / "model.onnx")
    given = np.column_stack([X, codes(SHOP)]).astype(np.float32)
    np.testing.assert_allclose(onnx_scores(tmp_path / "model.onnx", given), ranker.predict(TYPED), atol=1e-5)
    with pytest.warns(UserWarning, match="are unknown to the model"):
        unknown = ranker.predict(FRAME.assign(shop="yak"))
    np.testing.assert_array_equal(unknown, ranker.predict(FRAME.assign(shop=None)))
    assert np.isfinite(unknown).all()


def test_every_form_of_a_table_gives_the_same_ranker():
    expected = network().fit(TYPED, Y, qid=QID).predict(TYPED)
    polars, arrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    array = FRAME.to_numpy(dtype=object)
    for table, given in [
        (FRAME, ["shop"]),
        (polars.from_pandas(TYPED), None),
        (arrow.Table.from_pandas(TYPED), None),
        (array, [FEATURES]),
    ]:
        ranker = network(categorical=given).fit(table, Y, qid=QID)
        np.testing.assert_array_equal(ranker.predict(table), expected)
    shuffled = TYPED[TYPED.columns[::-1]]
    np.testing.assert_array_equal(network().fit(TYPED, Y, qid=QID).predict(shuffled), expected)


@pytest.mark.parametrize(
    ("options", "table", "message"),
    [
        ({}, FRAME, r"X must have numbers in all columns \(or categorical=\['shop'\] .*\); got text in 'shop'"),
        (
            {},
            FRAME.assign(shop=pd.Timestamp("2026-01-02")),
            r"X must have numbers in all columns \(replace a date .*\); got dates in 'shop'",
        ),
        ({}, FRAME.assign(shop=date(2026, 1, 2)), "got dates in 'shop'"),
        ({"categorical": ["shup"]}, FRAME, "categorical must be names of columns; got 'shup'; did you mean 'shop'"),
        ({"categorical": [9]}, X, "categorical must be positions of columns, from 0 to 4; got 9"),
        ({"categorical": [0]}, sparse.csr_matrix(X), "X must be dense if a column is categorical; got csr_matrix"),
        ({"model": rg.rankers.MLP(6), "categorical": ["shop"]}, FRAME, "model must be a name such as 'mlp'"),
    ],
)
def test_wrong_categories_are_one_sentence(options, table, message):
    with pytest.raises(ValueError, match=message):
        network(**options).fit(table, Y, qid=QID)


def test_missing_numbers_beside_categories_are_an_error():
    frame = TYPED.assign(x1=np.where(X[:, 1] > 1, np.nan, X[:, 1]))
    with pytest.raises(ValueError, match=r"X must not contain NaN .*; got NaN in 'x1'"):
        network().fit(frame, Y, qid=QID)


@pytest.mark.parametrize("wrong", [[1], {"9": ["a"]}, {"5": ["a", "a"]}, {"5": [1]}, {"x": ["a"]}])
def test_wrong_categories_in_a_saved_model_are_refused(wrong, tmp_path):
    network(epochs=1).fit(TYPED, Y, qid=QID).save(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["sha256"]  # a file without a hash is read, as files of version 0.1 are
    (tmp_path / "config.json").write_text(json.dumps({**config, "categories": wrong}))
    with pytest.raises(ValueError, match="must map each column to a list of different texts, its categories"):
        rg.Ranker.load(tmp_path)


def fresh(kind, **options):
    return network(**options) if kind == "network" else trees(kind, **options)


@pytest.mark.parametrize("kind", ["network", *TREES])
def test_a_warm_start_keeps_the_categories_of_the_first_model(kind):
    known = SHOP != "ant"
    first = fresh(kind, categorical=["shop"]).fit(FRAME[known], Y[known], qid=QID[known])
    assert first.categories_ == {FEATURES: ("bee", "cat", "dog", "eel", "fox")}
    more = fresh(kind).fit(TYPED, Y, qid=QID, init_model=first)
    assert more.categories_ == more.model_.categories == first.categories_
    data = rg.data.from_frame(TYPED.assign(qid=QID, label=Y))
    np.testing.assert_array_equal(more.predict(TYPED), more.model_.score_lists(data))
    # The first model also says which columns are categorical, and their order.
    other = fresh(kind).fit(FRAME[FRAME.columns[::-1]], Y, qid=QID, init_model=first)
    np.testing.assert_array_equal(other.predict(FRAME), more.predict(TYPED))


@pytest.mark.parametrize("kind", ["network", *TREES])
def test_a_number_is_the_same_category_in_every_precision(kind):
    sizes = RNG.choice([0.1, 0.7, 2.0, 1e-5], len(X))
    wide, narrow = FRAME.assign(shop=sizes), FRAME.assign(shop=sizes.astype(np.float32))
    ranker = fresh(kind, categorical=["shop"]).fit(narrow, Y, qid=QID)
    assert ranker.categories_ == {FEATURES: ("2", "0.1", "0.7", "1e-05")}
    expected = ranker.predict(narrow)
    for same in (wide, FRAME.assign(shop=sizes.astype(str))):
        np.testing.assert_array_equal(ranker.predict(same), expected)
        np.testing.assert_array_equal(fresh(kind, categorical=["shop"]).fit(same, Y, qid=QID).predict(same), expected)


def test_texts_of_numbers():
    assert find_categories(np.array([16777217, 16777216]), "id") == ("16777216", "16777217")
    assert find_categories(["0.30000000000000004", "0.3", "0.30", "inf", "-2.5", 1e-4, "1e-04"], "size") == (
        *("-2.5", "0.0001", "0.3", "0.30", "inf"),
    )
    old = ("0.10000000149011612", "1.0", "1")  # as version 0.1 saved them
    found = encode(np.array([np.float32(0.1), 0.1, "0.1", "1.0", 1, 1.0], dtype=object), old, "size")
    np.testing.assert_array_equal(found, [0, 0, 0, 1, 2, 2])


def test_a_warning_if_most_categories_are_unknown(tmp_path):
    ranker = network(epochs=1).fit(TYPED, Y, qid=QID)
    strange = np.where(np.arange(len(X)) % 4 > 0, "yak", SHOP).astype(object)
    strange[::8] = None
    frame = FRAME.assign(shop=strange, qid=QID, label=Y)
    must = "86% of the values of the categorical column 'shop' are unknown to the model, and are treated as missing"
    frame.to_parquet(tmp_path / "a.parquet")
    columns, names = rg.data.Columns(qid="qid", label="label"), ranker.model_.feature_names
    known = {"shop": ranker.categories_[FEATURES]}
    for score in (
        lambda: ranker.predict(frame[FRAME.columns]),
        lambda: ranker.model_.score_lists(rg.data.from_frame(frame, categorical=["shop"])),
        lambda: ranker.model_.explain(rg.data.from_frame(frame, categorical=["shop"]), 3),
        lambda: read_columns(tmp_path / "a.parquet", columns, model=names, categories=known),
        lambda: [*stream_table(tmp_path / "a.parquet", columns, model=names, categories=known, documents=50)],
    ):
        with pytest.warns(UserWarning, match="of the values of the categorical column 'shop'") as caught:
            score()
        assert len(caught) == 1
        assert str(caught[0].message) == must or "explain" in str(score.__code__.co_names)
    half = FRAME.assign(shop=np.where(np.arange(len(X)) % 2, "yak", SHOP))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ranker.predict(half)
        ranker.predict(FRAME.assign(shop=None))


@pytest.mark.parametrize("kind", ["network", *TREES])
def test_categories_for_a_model_of_numbers_are_refused(kind):
    frame = FRAME.assign(shop=codes(SHOP), qid=QID, label=Y)
    ranker = fresh(kind).fit(frame[FRAME.columns], Y, qid=QID)
    data = rg.data.from_frame(frame, categorical=["shop"])
    with pytest.raises(ValueError, match="feature 'shop' must have numbers, as in the training data; got categories"):
        ranker.model_.score_lists(data)
    with pytest.raises(ValueError, match="feature 'shop' must have numbers"):
        fresh(kind, categorical=["shop"]).fit(TYPED, Y, qid=QID, init_model=ranker)


@pytest.mark.parametrize("kind", ["network", *TREES])
def test_a_categorical_column_without_any_value(kind, tmp_path):
    ranker = fresh(kind, categorical=["shop"]).fit(FRAME.assign(shop=None), Y, qid=QID)
    ranker.save(tmp_path)
    loaded = type(ranker).load(tmp_path)
    assert loaded.categories_ == {FEATURES: ()}
    with pytest.warns(UserWarning, match="100% of the values"):
        np.testing.assert_array_equal(loaded.predict(FRAME), ranker.predict(FRAME.assign(shop=None)))


@pytest.mark.parametrize("kind", ["network", *TREES])
def test_names_of_columns(kind):
    twice = FRAME.rename(columns={"x1": "x0"})
    must = "X must have distinct column names; got the repeated names 'x0'"
    with pytest.raises(ValueError, match=must):
        fresh(kind, categorical=["shop"]).fit(twice, Y, qid=QID)
    with pytest.raises(ValueError, match=must):
        fresh(kind).fit(TYPED, Y, qid=QID).predict(twice)
    numbered = FRAME.set_axis(range(FEATURES + 1), axis=1)
    ranker = fresh(kind, categorical=[FEATURES]).fit(numbered, Y, qid=QID)
    np.testing.assert_array_equal(ranker.predict(numbered), fresh(kind).fit(TYPED, Y, qid=QID).predict(TYPED))


def test_a_blend_of_rankers_with_categories(tmp_path):
    both = rg.blend([network().fit(TYPED, Y, qid=QID), trees("lightgbm").fit(TYPED, Y, qid=QID)])
    both.fit(TYPED, Y, qid=QID)
    expected = both.predict(TYPED, qid=QID)
    both.save(tmp_path / "blend")
    assert load(tmp_path / "blend").categories == {FEATURES: ("ant", "bee", "cat", "dog", "eel", "fox")}
    few = SHOP != "fox"
    other = network(categorical=["shop"]).fit(FRAME[few], Y[few], qid=QID[few])
    for members in ([both.rankers[0], other], [other, both.rankers[0]]):  # each encodes its own categories
        mixed = rg.blend(members).fit(TYPED, Y, qid=QID)
        found, parts = mixed.predict(TYPED, qid=QID), np.stack([each.predict(TYPED) for each in members], axis=1)
        for query in np.unique(QID)[:5]:
            rows = query == QID
            scaled = (parts[rows] - parts[rows].mean(0)) / parts[rows].std(0)
            np.testing.assert_allclose(found[rows], scaled @ mixed.weights_, atol=1e-4)
        mixed.save(tmp_path / f"mixed-{len(members[0].categories_[FEATURES])}")
    loaded = load(tmp_path / "mixed-5")
    assert sorted(loaded.categories[FEATURES]) == ["ant", "bee", "cat", "dog", "eel", "fox"]
    table = rg.data.from_frame(FRAME.assign(qid=QID, label=Y), categorical=["shop"])
    np.testing.assert_allclose(loaded.score_lists(table), found, atol=1e-5)
    numbers = network().fit(FRAME.assign(shop=np.arange(len(FRAME)) % 3), Y, qid=QID)
    with pytest.raises(ValueError, match="models of a blend must all have the same categorical features; got feature"):
        rg.blend([both.rankers[0], numbers]).fit(TYPED, Y, qid=QID)
    data = rg.data.from_frame(FRAME.assign(qid=QID, label=Y), categorical=["shop"])
    np.testing.assert_allclose(load(tmp_path / "blend").score_lists(data), expected, atol=1e-6)
    # Lists with other codes for the same categories give the same weights.
    known = SHOP != "ant"
    parts = [network(categorical=["shop"], seed=seed).fit(FRAME[known], Y[known], qid=QID[known]) for seed in (0, 1)]
    for seed, part in enumerate(parts):
        part.save(tmp_path / str(seed))
    settings = {"model": "blend", "parts": [str(tmp_path / "0"), str(tmp_path / "1")]}
    again = kind_of("blend").fit(settings, data)
    np.testing.assert_array_equal(again.weights, rg.blend(parts).fit(FRAME, Y, qid=QID).weights_)


# Sparse matrices

ZEROS = np.where(RNG.random((len(X), 40)) < 0.85, 0, RNG.normal(size=(len(X), 40))).astype(np.float32)
ZEROS[:, 0] = np.where(Y > 0, 1, ZEROS[:, 0])
CSR = sparse.csr_matrix(ZEROS)


def test_sparse_rows_give_the_network_of_dense_rows():
    streamed = {"data_on": "stream", "preprocess": "log1p,standardise"}
    expected = network(**streamed).fit(ZEROS, Y, qid=QID)
    ranker = network(**streamed).fit(CSR, Y, qid=QID)
    np.testing.assert_array_equal(ranker.predict(CSR), expected.predict(ZEROS))
    np.testing.assert_array_equal(ranker.predict(CSR), ranker.predict(ZEROS))
    assert ranker.score(CSR, Y, qid=QID) == expected.score(ZEROS, Y, qid=QID)


def test_sparse_rows_in_lightgbm_are_zeros():
    expected = trees("lightgbm").fit(ZEROS, Y, qid=QID).predict(ZEROS)
    ranker = trees("lightgbm").fit(CSR, Y, qid=QID)
    np.testing.assert_array_equal(ranker.predict(CSR), expected)
    np.testing.assert_array_equal(ranker.predict(ZEROS), expected)


def test_sparse_rows_in_xgboost_are_missing(tmp_path):
    xgboost = pytest.importorskip("xgboost")
    ranker = trees("xgboost", loss="native:rank:ndcg").fit(CSR, Y, qid=QID)
    made = xgboost.DMatrix(CSR, Y)
    made.set_group(np.full(LISTS, LENGTH))
    params = {"objective": "rank:ndcg", "max_depth": 3, "base_score": 0.0, "nthread": 1}
    expected = xgboost.train(params, made, 15).predict(made, output_margin=True)
    np.testing.assert_allclose(ranker.predict(CSR), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(ranker.predict(ZEROS), ranker.predict(CSR))
    ranker.save(tmp_path / "model")
    loaded = rg.trees.TreeRanker.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(CSR), ranker.predict(CSR))
    ranker.model_.export(tmp_path / "model.onnx")
    np.testing.assert_allclose(onnx_scores(tmp_path / "model.onnx", ZEROS), ranker.predict(CSR), atol=1e-5)
    np.testing.assert_allclose(ranker.model_.shap_values(ZEROS).sum(1), ranker.predict(CSR), atol=1e-4)


@pytest.mark.parametrize("kind", ["network", *TREES])
def test_stored_zeros_and_duplicates_change_nothing(kind):
    wide = CSR.tocoo()
    extra = RNG.integers(0, [[len(X)], [40]], (2, 3_000))  # stored zeros, some of them at the places of other values
    same = sparse.csr_matrix(
        (np.append(wide.data, np.zeros(3_000, np.float32)), np.hstack([wide.coords, extra])), shape=CSR.shape
    )
    double = sparse.csr_matrix((np.repeat(CSR.data / 2, 2), np.repeat(CSR.indices, 2), CSR.indptr * 2), CSR.shape)
    expected = fresh(kind).fit(CSR, Y, qid=QID)
    for given in (same, double):
        before = given.copy()
        ranker = fresh(kind).fit(given, Y, qid=QID)
        np.testing.assert_array_equal(ranker.predict(given), expected.predict(CSR))
        np.testing.assert_array_equal(ranker.predict(CSR), expected.predict(CSR))
        np.testing.assert_array_equal(expected.model_.score(given), expected.predict(CSR))
        for part in ("data", "indices", "indptr"):
            np.testing.assert_array_equal(getattr(given, part), getattr(before, part))
    offsets = np.append(np.arange(0, len(X), LENGTH), len(X))
    data = rg.data.Dataset(same, Y.astype(np.float32), offsets, np.arange(LISTS))
    assert data.features.nnz == CSR.nnz
    np.testing.assert_array_equal(data.features.toarray(), ZEROS)


@pytest.mark.parametrize("kind", ["network", "blend", *TREES])
def test_explanations_of_sparse_rows_are_those_of_dense_rows(kind):
    if kind == "blend":
        ranker = rg.blend([network().fit(CSR, Y, qid=QID), trees("xgboost").fit(CSR, Y, qid=QID)]).fit(CSR, Y, qid=QID)
    else:
        ranker = fresh(kind).fit(CSR, Y, qid=QID)
    found = ranker.explain(CSR, Y, qid=QID, query=3, documents=(1, 2))
    expected = ranker.explain(ZEROS, Y, qid=QID, query=3, documents=(1, 2))
    assert found.to_dict() == expected.to_dict()
    assert np.abs(found.contributions).max() > 0
    assert np.abs(found.losses).max() > 0


def test_sparse_rows_with_missing_values():
    holes = CSR.copy()
    holes.data[::9] = np.nan
    with pytest.raises(ValueError, match="X must not contain NaN"):
        network().fit(holes, Y, qid=QID)
    ranker = network(missing="mean").fit(holes, Y, qid=QID)
    expected = network(missing="mean").fit(holes.toarray(), Y, qid=QID)
    np.testing.assert_allclose(ranker.predict(holes), expected.predict(holes.toarray()), atol=1e-6)
    found = ranker.feature_importance(CSR, Y, qid=QID, repeats=1)
    assert int(np.argmax(found.values)) == 0


def test_an_automatic_search_with_missing_values_and_categories(tmp_path):
    frame = pd.DataFrame(HOLES, columns=FRAME.columns[:-1]).assign(shop=SHOP).astype({"shop": "category"})
    with pytest.raises(ValueError, match="X must not contain NaN"):
        rg.AutoRanker(trials=2, folds=2, missing="error").fit(frame, Y, qid=QID)
    ranker = rg.AutoRanker(trials=2, folds=2).fit(frame, Y, qid=QID)
    assert ranker.score(frame, Y, qid=QID) > 0.85
    ranker.save(tmp_path / "model")
    loaded = rg.AutoRanker.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(frame, qid=QID), ranker.predict(frame, qid=QID))
    with pytest.raises(ValueError, match="features must be dense for an automatic search; got a sparse matrix"):
        rg.AutoRanker(trials=2, folds=2).fit(CSR, Y, qid=QID)


def test_what_is_wrong_with_rows_and_labels_is_told_in_one_sentence():
    table = FRAME.assign(town=SHOP)
    with pytest.raises(ValueError, match=r"categorical=\['shop', 'town'\] for columns of text"):
        network().fit(table, Y, qid=QID)
    fitted = network(categorical=["shop"]).fit(FRAME, Y, qid=QID)
    with pytest.raises(ValueError, match=r"X must have two dimensions.*got a Series \(frame.iloc\[\[0\]\]"):
        fitted.predict(FRAME.iloc[0])
    holes = np.where(np.arange(len(Y)) == 7, np.nan, Y)
    with pytest.raises(ValueError, match=r"y must have a label in every row .*; got NaN in row 7"):
        network(categorical=["shop"]).fit(FRAME, holes, qid=QID)
    polars = pytest.importorskip("polars")
    with pytest.raises(TypeError, match=r"X must be a data frame; got a LazyFrame of polars .X.collect"):
        fitted.predict(polars.DataFrame(FRAME).lazy())


def test_one_row_with_an_unknown_category_is_no_warning():
    """A server scores single rows: a warning about each new shop would fill its log."""
    fitted = network(categorical=["shop"]).fit(FRAME, Y, qid=QID)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.predict(FRAME.iloc[:1].assign(shop="new"))
    with pytest.warns(UserWarning, match="100% of the values of the categorical column 'shop' are unknown"):
        fitted.predict(FRAME.assign(shop="new"))


def test_a_column_that_has_lost_all_values_is_told(tmp_path):
    """A feature whose source has failed: scores get worse, and nothing else shows it."""
    rows, lost = FRAME.drop(columns="shop"), FRAME.drop(columns="shop").assign(x1=np.nan)
    told = "columns without a value in any row, which are treated as missing: 'x1'$"
    for ranker in (network(missing="mean"), trees("lightgbm")):
        ranker.fit(rows, Y, qid=QID)
        for score in (lambda X, fitted=ranker: fitted.predict(X), lambda X, fitted=ranker: fitted.score(X, Y, qid=QID)):
            with pytest.warns(UserWarning, match=told):
                score(lost)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                score(rows)
        with pytest.warns(UserWarning, match=told):
            ranker.model_.score_lists(rg.data.from_frame(lost.assign(qid=QID, label=Y), missing="nan"))
