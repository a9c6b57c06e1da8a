"""Models that LightGBM and XGBoost trained without rankgrad: their scores, names, categories and files."""

import json

import numpy as np
import pytest
from small_trees import FRAMEWORKS, QID, X, Y, every_framework, grouped, quick
from typer.testing import CliRunner

import rankgrad as rg
from rankgrad.cli import app
from rankgrad.models import load
from rankgrad.trees import TreeModel, TreeRanker

SORTED, LABELS, SIZES = grouped(X, Y, QID)
NAMES = ["price", "größe", "clicks", "age"]


def foreign(framework, rows=SORTED, labels=LABELS, sizes=SIZES, **settings):
    """A booster that the framework trained itself."""
    package = pytest.importorskip(framework)
    known = {**FRAMEWORKS[framework], **settings}
    if framework == "lightgbm":
        data = package.Dataset(rows, labels, group=sizes)
        return package.train({"objective": "lambdarank", "verbose": -1, "num_threads": 1, **known}, data, 12)
    names = [*rows.columns] if hasattr(rows, "columns") else None
    data = package.DMatrix(np.asarray(rows), labels, feature_names=names)
    data.set_group(sizes)
    return package.train({"objective": "rank:ndcg", "nthread": 1, **known}, data, 12)


def own_scores(booster, framework, rows):
    if framework == "lightgbm":
        return booster.predict(rows, raw_score=True)
    return booster.inplace_predict(rows, predict_type="margin", validate_features=False)


def frame(rows=SORTED):
    return pytest.importorskip("pandas").DataFrame(rows, columns=NAMES)


@every_framework
def test_a_booster_scores_as_in_its_framework(framework, tmp_path):
    booster = foreign(framework, frame())
    model = TreeModel.from_booster(booster)
    assert model.feature_names == tuple(NAMES)
    assert (model.framework, model.features) == (framework, 4)
    np.testing.assert_array_equal(model.score(SORTED), np.float32(own_scores(booster, framework, SORTED)))
    model.save(tmp_path)
    np.testing.assert_array_equal(load(tmp_path).score(SORTED), model.score(SORTED))
    assert load(tmp_path).feature_names == tuple(NAMES)


@every_framework
def test_a_model_file_is_a_ranker_that_finds_columns_by_name(framework, tmp_path):
    booster = foreign(framework, frame())
    path = tmp_path / {"lightgbm": "old.txt", "xgboost": "old.json"}[framework]
    booster.save_model(path)
    ranker = TreeRanker.load(path)
    expected = np.float32(own_scores(booster, framework, SORTED))
    np.testing.assert_allclose(ranker.predict(frame()[NAMES[::-1]]), expected, rtol=1e-6)
    assert ranker.framework == framework
    np.testing.assert_allclose(load(path).score(SORTED), expected, rtol=1e-6)
    with pytest.warns(UserWarning, match="init_model may have been trained on them: give eval_set, or set holdout=0"):
        more = quick(framework, trees=3).fit(frame(), LABELS, group=SIZES, init_model=booster)
    assert more.model_.rounds == 12 + more.best_trees_


def test_an_estimator_and_its_data_without_names(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    fitted = lightgbm.LGBMRanker(n_estimators=5, verbose=-1, n_jobs=1).fit(SORTED, LABELS, group=SIZES)
    model = TreeModel.from_booster(fitted)
    assert model.feature_names is None
    np.testing.assert_array_equal(model.score(SORTED), np.float32(fitted.predict(SORTED, raw_score=True)))


def test_categories_of_a_data_frame_keep_their_codes(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    table = frame(SORTED * [[0, 1, 1, 1]]).assign(
        lang=np.array(["de", "en", "fr"])[np.digitize(SORTED[:, 0], [-0.4, 0.4])]
    )  # as much as the first feature
    table["lang"] = table["lang"].astype("category")
    data = lightgbm.Dataset(table, LABELS, group=SIZES)
    settings = {"objective": "lambdarank", "verbose": -1, "num_threads": 1, "min_data_per_group": 1, "cat_smooth": 1}
    settings |= {"max_cat_to_onehot": 8, "cat_l2": 0}
    booster = lightgbm.train({**settings, **FRAMEWORKS["lightgbm"]}, data, 12)
    assert "num_cat=1" in booster.model_to_string()
    booster.save_model(tmp_path / "old.txt")
    ranker = TreeRanker.load(tmp_path / "old.txt")
    assert ranker.categories_ == {4: ("de", "en", "fr")}
    text = table.assign(lang=table["lang"].astype(str))  # without the codes of the frame
    np.testing.assert_array_equal(ranker.predict(text), np.float32(booster.predict(table, raw_score=True)))
    ranker.save(tmp_path / "new")
    np.testing.assert_array_equal(TreeRanker.load(tmp_path / "new").predict(text), ranker.predict(text))


def test_a_threshold_may_be_infinite(tmp_path):
    """LightGBM writes `inf` if a split only divides the missing values from all others."""
    rows = SORTED.copy()
    rows[LABELS == 0, 2] = np.nan
    rows[:, [0, 1, 3]] = 0
    booster = foreign("lightgbm", rows)
    booster.save_model(tmp_path / "old.txt")
    assert "inf" in (tmp_path / "old.txt").read_text().partition("\nthreshold=")[2].partition("\n")[0]
    found = load(tmp_path / "old.txt")
    np.testing.assert_array_equal(found.score(rows), np.float32(booster.predict(rows, raw_score=True)))
    found.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").score(rows), found.score(rows))


def command(*arguments):
    done = CliRunner().invoke(app, [*map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def test_commands_accept_a_model_file(tmp_path):
    booster = foreign("lightgbm", frame())
    old, new, file, scores = (tmp_path / name for name in ("old.txt", "new", "rows.csv", "scores.txt"))
    booster.save_model(old)
    table = frame().assign(label=LABELS, qid=np.repeat(np.arange(len(SIZES)), SIZES))
    table[["qid", *NAMES[::-1], "label"]].to_csv(file, index=False)
    command("predict", old, file, "--query", "qid", "--out", scores)
    np.testing.assert_allclose(np.loadtxt(scores), booster.predict(SORTED, raw_score=True), rtol=1e-6)
    model = ("--model", "lightgbm:num_leaves=4,min_data_in_leaf=3", "--epochs", 3, "--init-model", old)
    command("train", "--data", file, "--label", "label", "--query", "qid", *model, "--out", new)
    assert load(new).rounds > 12
    data = ("--data", file, "--label", "label", "--query", "qid")
    ours = TreeModel.from_booster(old).score(SORTED)
    expected = f"{rg.metrics.evaluate(ours, LABELS, ['nDCG@10'], group=SIZES)['nDCG@10']:.4f}"
    assert expected in command("evaluate", old, *data)
    assert expected in command("compare", old, new, *data)
    assert "größe" in command("importance", old, *data)
    assert "größe" in command("explain", old, *data[:4], "--query-column", "qid", "--query", 3)
    command("export", old, tmp_path / "served.onnx")
    with pytest.raises(ValueError, match="must be the folder of a model"):
        command("calibrate", old, *data)


@pytest.mark.parametrize("given", [3, "none.txt", {"a": 1}, np.ones(3)])
def test_other_objects_are_refused(given):
    pytest.importorskip("lightgbm")
    with pytest.raises((TypeError, FileNotFoundError), match="LightGBM or XGBoost"):
        TreeModel.from_booster(given)


def test_a_damaged_file_is_refused_and_named(tmp_path):
    path = tmp_path / "old.txt"
    foreign("lightgbm").save_model(path)
    path.write_text(path.read_text()[:-2000])
    with pytest.raises(ValueError, match=r"old\.txt must be a valid model of lightgbm"):
        load(path)
    path.write_bytes(b"\x00\x01")
    with pytest.raises(ValueError, match=r"save_model\('model\.json'\)"):
        load(path)


def test_fields_must_agree_with_the_booster():
    booster = foreign("lightgbm")
    with pytest.raises(ValueError, match="must have 5 features, and be of lightgbm; got 4 features of lightgbm"):
        TreeModel(booster, "lightgbm", 5)


def test_names_of_features_are_in_the_files_of_the_frameworks(tmp_path):
    for framework in FRAMEWORKS:
        ranker = quick(framework).fit(frame(X), Y, qid=QID)
        ranker.save(tmp_path / framework)
        plain = TreeModel.load(tmp_path / framework).booster
        names = plain.feature_name() if framework == "lightgbm" else plain.feature_names
        assert [*names] == NAMES, framework


def test_evaluate_takes_the_model_of_a_file():
    booster = foreign("lightgbm")
    scores = TreeModel.from_booster(booster).score(SORTED)
    assert rg.metrics.evaluate(scores, LABELS, ["nDCG@10"], group=SIZES)["nDCG@10"] > 0.7


@pytest.mark.parametrize(
    "objective",
    [
        "huber",
        "fair",
        "poisson",
        "quantile",
        "mape",
        "tweedie",
        "cross_entropy",
        "binary",
        "regression_l1",
        "regression",
    ],
)
def test_objectives_of_lightgbm_with_one_score_are_read_and_saved(objective, tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    settings = {"objective": objective, "reg_sqrt": True, "verbose": -1, "num_threads": 1}
    booster = lightgbm.train(settings, lightgbm.Dataset(SORTED, LABELS > 0), 3)
    model = TreeModel.from_booster(booster)
    np.testing.assert_allclose(model.score(SORTED), booster.predict(SORTED, raw_score=True), rtol=1e-6)
    model.save(tmp_path)
    np.testing.assert_array_equal(load(tmp_path).score(SORTED), model.score(SORTED))


@pytest.mark.parametrize(
    "objective",
    [
        *(
            "binary:logistic",
            "binary:logitraw",
            "binary:hinge",
            "reg:logistic",
            "reg:absoluteerror",
            "reg:squaredlogerror",
        ),
        *("reg:pseudohubererror", "reg:quantileerror", "reg:gamma", "reg:tweedie", "count:poisson", "survival:cox"),
    ],
)
def test_objectives_of_xgboost_with_one_score_are_read_saved_and_exported(objective, tmp_path):
    xgboost = pytest.importorskip("xgboost")
    more = {"quantile_alpha": 0.6} if objective == "reg:quantileerror" else {}
    rows = xgboost.DMatrix(SORTED, (LABELS > 0) + (0 if objective.startswith(("binary", "reg:log")) else 0.5))
    booster = xgboost.train({"objective": objective, "nthread": 1, **more}, rows, 3)
    model = TreeModel.from_booster(booster)
    np.testing.assert_array_equal(model.score(SORTED), booster.predict(rows, output_margin=True))
    model.save(tmp_path)
    model.export(tmp_path / "engine.json", format="elasticsearch")  # compares the scores
    np.testing.assert_array_equal(load(tmp_path).score(SORTED), model.score(SORTED))


def test_models_with_several_scores_or_without_trees_are_refused():
    lightgbm, xgboost = pytest.importorskip("lightgbm"), pytest.importorskip("xgboost")
    labels = np.arange(len(SORTED)) % 3
    several = lightgbm.train(
        {"objective": "multiclass", "num_class": 3, "verbose": -1}, lightgbm.Dataset(SORTED, labels), 2
    )
    with pytest.raises(
        ValueError, match=r"the Booster must be a valid model of lightgbm.*num_class must be 1; got '3'"
    ):
        TreeModel.from_booster(several)
    for settings, message in (
        ({"objective": "multi:softprob", "num_class": 3}, "num_class must be 0; got '3'"),
        ({"booster": "gblinear"}, "name of the booster must be one of 'gbtree'; got 'gblinear'"),
    ):
        with pytest.raises(ValueError, match=message):
            TreeModel.from_booster(xgboost.train(settings, xgboost.DMatrix(SORTED, labels), 2))


def stopped_early(xgboost, **settings):
    """An estimator of XGBoost that has more trees than its best number, which its `predict` uses."""
    shared = {"n_estimators": 40, "learning_rate": 0.6, "early_stopping_rounds": 3, "n_jobs": 1, **settings}
    lists = {"eval_set": [(SORTED[::-1], LABELS[::-1])], "eval_qid": [np.repeat(np.arange(len(SIZES)), SIZES[::-1])]}
    made = xgboost.XGBRanker(**shared)
    made.fit(SORTED, LABELS, qid=np.repeat(np.arange(len(SIZES)), SIZES), verbose=False, **lists)
    assert made.best_iteration + 1 < made.get_booster().num_boosted_rounds()
    return made


@pytest.mark.parametrize("booster", ["gbtree", "dart"])
def test_an_estimator_of_xgboost_scores_with_its_best_number_of_trees(booster, tmp_path):
    xgboost = pytest.importorskip("xgboost")
    made = stopped_early(xgboost, booster=booster)
    expected, all_trees = made.predict(SORTED), made.get_booster().predict(xgboost.DMatrix(SORTED))
    assert (expected != all_trees).any()
    np.testing.assert_array_equal(TreeRanker.from_booster(made).predict(SORTED), expected)
    made.save_model(tmp_path / "estimator.json")
    np.testing.assert_array_equal(TreeRanker.load(tmp_path / "estimator.json").predict(SORTED), expected)
    made.get_booster().save_model(tmp_path / "booster.json")
    for whole in (made.get_booster(), tmp_path / "booster.json"):
        np.testing.assert_array_equal(TreeModel.from_booster(whole).score(SORTED), all_trees)


def test_missing_values_that_are_a_number(tmp_path):
    xgboost, sparse = pytest.importorskip("xgboost"), pytest.importorskip("scipy.sparse")
    rows = np.where(np.abs(SORTED) < 0.3, 0.0, SORTED)
    qid = np.repeat(np.arange(len(SIZES)), SIZES)
    made = xgboost.XGBRanker(n_estimators=5, missing=0.0, n_jobs=1).fit(rows, LABELS, qid=qid)
    ranker = TreeRanker.from_booster(made)
    np.testing.assert_array_equal(ranker.predict(rows), made.predict(rows))
    ranker.save(tmp_path)
    np.testing.assert_array_equal(TreeRanker.load(tmp_path).predict(rows), made.predict(rows))
    with pytest.raises(
        ValueError, match=r"missing of the estimator must be NaN or 0 \(replace -999 in the features by NaN"
    ):
        TreeModel.from_booster(xgboost.XGBRanker(n_estimators=2, missing=-999).fit(rows, LABELS, qid=qid))
    lists = xgboost.DMatrix(sparse.csr_matrix(rows), LABELS)  # what is not stored is missing
    lists.set_group(SIZES)
    booster = xgboost.train({"objective": "rank:ndcg", "nthread": 1}, lists, 5)
    model = TreeModel.from_booster(booster, zero_missing=True)
    for form in (rows, sparse.csr_matrix(rows)):
        np.testing.assert_array_equal(model.score(form), booster.predict(lists))


@every_framework
def test_names_that_look_like_made_ones_are_names(framework):
    """The columns of a frame are found by name, also if the names are f0, f1, ..."""
    table = frame().set_axis([f"f{place}" for place in range(4)], axis=1)
    booster = foreign(framework, table)
    ranker = TreeRanker.from_booster(booster)
    assert ranker.model_.feature_names == ("f0", "f1", "f2", "f3")
    expected = np.float32(own_scores(booster, framework, SORTED))
    np.testing.assert_allclose(ranker.predict(table[table.columns[::-1]]), expected, rtol=1e-6)
    with pytest.raises(ValueError, match="f0"):
        ranker.predict(table.rename(columns={"f0": "g0"}))


def categorical_frame():
    """A frame with text categories, which decide the labels together with integers and truth values."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pandas.DataFrame({"x": SORTED[:, 0], "lang": rng.choice(["de", "en", "fr"], len(SORTED))})
    table["size"], table["new"] = rng.choice([3, 10, 20], len(SORTED)), rng.choice([True, False], len(SORTED))
    labels = 2 * (table["lang"] == "en") + (table["size"] == 10) + table["new"]
    return table.astype(dict.fromkeys(["lang", "size", "new"], "category")), labels.to_numpy()


def with_categories(table, labels, categorical="auto"):
    lightgbm = pytest.importorskip("lightgbm")
    settings = {"objective": "lambdarank", "verbose": -1, "num_threads": 1, "min_data_per_group": 1, "cat_smooth": 1}
    data = lightgbm.Dataset(table, labels, group=SIZES, categorical_feature=categorical)
    return lightgbm.train({**settings, **FRAMEWORKS["lightgbm"]}, data, 8)


def test_categories_may_be_numbers_and_truth_values(tmp_path):
    table, labels = categorical_frame()
    booster = with_categories(table, labels)
    ranker = TreeRanker.from_booster(booster)
    assert ranker.categories_ == {1: ("de", "en", "fr"), 2: ("3", "10", "20"), 3: ("false", "true")}
    expected = np.float32(booster.predict(table, raw_score=True))
    plain = table.astype({"lang": str, "size": int, "new": bool})
    for rows in (table, plain):
        np.testing.assert_array_equal(ranker.predict(rows), expected)
    ranker.save(tmp_path)
    np.testing.assert_array_equal(TreeRanker.load(tmp_path).predict(plain), expected)


@pytest.mark.parametrize("change", ["ordered", "constant", "integers"])
def test_categorical_columns_that_the_file_does_not_show_are_named_by_the_caller(change):
    table, labels = categorical_frame()
    given = "auto"
    if change == "ordered":
        table["size"] = table["size"].cat.as_ordered()
    elif change == "constant":
        table["size"] = table["size"].cat.set_categories([3, 10, 20]).where(table["size"] == 99).fillna(3)
    else:
        table["code"], given = np.arange(len(table)) % 40, ["lang", "size", "new", "code"]
    booster = with_categories(table, labels, given)
    with pytest.raises(
        ValueError, match=r"categorical must name the 3 columns.*TreeRanker.from_booster takes their names"
    ):
        TreeRanker.from_booster(booster)
    ranker = TreeRanker.from_booster(booster, categorical=["lang", "size", "new"])
    expected = np.float32(booster.predict(table, raw_score=True))
    np.testing.assert_array_equal(ranker.predict(table.astype({"lang": str, "size": int})), expected)
    with pytest.raises(ValueError, match="categorical must be"):
        TreeRanker.from_booster(foreign("lightgbm"), categorical=[0])


def test_integer_categories_without_a_frame_can_be_continued():
    rng = np.random.default_rng(0)
    codes = rng.choice([0, 1, 4, 9], len(SORTED))
    rows, labels = np.c_[SORTED, codes], np.isin(codes, [1, 9]) * 2
    booster = with_categories(rows, labels, [4])
    ranker = TreeRanker.from_booster(booster)
    assert ranker.categories_ == {4: tuple("0123456789")}
    unknown = rows.copy()
    unknown[:4, 4] = [12, np.nan, -1, 3]
    np.testing.assert_array_equal(ranker.predict(unknown), np.float32(booster.predict(unknown, raw_score=True)))
    more = quick("lightgbm", trees=2, holdout=0).fit(rows, labels, group=SIZES, init_model=booster)
    assert more.model_.content().count(b"num_cat=0") == booster.model_to_string().count("num_cat=0")


def test_categories_of_a_frame_of_xgboost(tmp_path):
    xgboost = pytest.importorskip("xgboost")
    table, labels = categorical_frame()
    table = table.drop(columns="new")  # XGBoost accepts texts and integers
    made = xgboost.XGBRanker(n_estimators=8, enable_categorical=True, n_jobs=1, max_cat_to_onehot=1)
    made.fit(table, labels, qid=np.repeat(np.arange(len(SIZES)), SIZES))
    made.save_model(tmp_path / "old.json")
    plain = table.astype({"lang": str, "size": int})
    for ranker in (TreeRanker.from_booster(made), TreeRanker.load(tmp_path / "old.json")):
        assert ranker.categories_ == {1: ("de", "en", "fr"), 2: ("3", "10", "20")}
        np.testing.assert_array_equal(ranker.predict(plain), made.predict(table))
    ranker.save(tmp_path / "new")
    np.testing.assert_array_equal(TreeRanker.load(tmp_path / "new").predict(plain), made.predict(table))
    known = json.loads((tmp_path / "old.json").read_text())
    for change in (
        {"enc": known["learner"]["gradient_booster"]["model"]["cats"]["enc"] * 2},
        {"enc": 5},
        {"enc": [[1]]},
    ):
        odd = json.loads(json.dumps(known))
        odd["learner"]["gradient_booster"]["model"]["cats"] |= change
        (tmp_path / "odd.json").write_text(json.dumps(odd))
        with pytest.raises(ValueError, match=r"odd\.json must be a valid model of xgboost"):
            TreeRanker.load(tmp_path / "odd.json")
    table["lang"] = table["lang"].cat.rename_categories({"fr": "français"})
    made.fit(table, labels, qid=np.repeat(np.arange(len(SIZES)), SIZES))
    with pytest.raises(ValueError, match="letters outside ASCII, which XGBoost stores incompletely"):
        TreeModel.from_booster(made)


def test_infinite_values_in_the_training_and_values_that_float32_rounds():
    rows = SORTED.copy()
    rows[:5, 1], rows[:5, 2] = np.inf, -np.inf
    booster = foreign("lightgbm", rows)
    assert "-inf" in booster.model_to_string().partition("feature_infos=")[2].partition("\n")[0]
    np.testing.assert_array_equal(
        TreeModel.from_booster(booster).score(SORTED), np.float32(booster.predict(SORTED, raw_score=True))
    )
    rows = SORTED.copy()
    rows[:, 0] = 1.7e9 + 40 * LABELS
    with pytest.warns(
        UserWarning, match="feature 'Column_0' has values up to 1.7e.09: rankgrad rounds features to float32"
    ):
        TreeModel.from_booster(foreign("lightgbm", rows))


def test_names_that_lightgbm_changed_can_be_given(tmp_path):
    table = frame().rename(columns={"price": "unit price"})
    booster = foreign("lightgbm", table)
    assert booster.feature_name()[0] == "unit_price"
    ranker = TreeRanker.from_booster(booster, feature_names=table.columns)
    expected = np.float32(booster.predict(SORTED, raw_score=True))
    np.testing.assert_array_equal(ranker.predict(table[table.columns[::-1]]), expected)
    ranker.save(tmp_path)
    np.testing.assert_array_equal(TreeRanker.load(tmp_path).predict(table[table.columns[::-1]]), expected)
    told = "no column 'unit_price'.*LightGBM writes _ for a blank: give TreeRanker.from_booster the feature_names"
    with pytest.raises(ValueError, match=told):
        TreeRanker.from_booster(booster).predict(table)
    booster.save_model(tmp_path / "old.txt")
    table.assign(label=LABELS, qid=np.repeat(np.arange(len(SIZES)), SIZES)).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match=told):
        command("predict", tmp_path / "old.txt", tmp_path / "t.csv")
    with pytest.raises(ValueError, match="feature_names must be 4 names, one per feature of the model; got 2"):
        TreeRanker.from_booster(booster, feature_names=["a", "b"])


def test_trees_are_not_moved_to_a_gpu_by_the_option_of_networks(tmp_path):
    with pytest.raises(ValueError, match=r"device must be auto or cpu for lightgbm .*device_type=gpu\); got 'cuda'"):
        rg.models.kind_of("lightgbm").read({"device": "cuda"})


def test_the_text_of_a_model_is_read_and_other_sources_are_explained(tmp_path):
    booster = foreign("lightgbm")
    expected = np.float32(booster.predict(SORTED, raw_score=True))
    np.testing.assert_array_equal(TreeModel.from_booster(booster.model_to_string()).score(SORTED), expected)
    with pytest.raises(ValueError, match=r"TreeRanker.load reads a folder\); got a folder"):
        TreeModel.from_booster(tmp_path)
    foreign("xgboost").save_model(tmp_path / "m.ubj")
    with pytest.raises(ValueError, match=r"save_model.'model.json'. writes one, also from a UBJ file"):
        TreeModel.from_booster(tmp_path / "m.ubj")
