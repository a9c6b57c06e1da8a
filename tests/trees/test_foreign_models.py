"""Models that LightGBM and XGBoost trained without rankgrad: their scores, names, categories and files."""

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
