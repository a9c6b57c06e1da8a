"""Files of trees for search engines: interpreters that read only the file give the scores of the model."""

import dataclasses
import itertools
import json

import numpy as np
import pytest
from engine_interpreters import scores_of
from small_trees import every_framework, lists, plan

from rankgrad.atomic_files import read_json, write_json
from rankgrad.models import load
from rankgrad.trees import engine_files, tree_arrays
from rankgrad.trees.boosting import boost
from rankgrad.trees.engine_scores import engine_scores
from rankgrad.trees.tree_arrays import Forest, Tree

NAMES = [f"feature_{number}" for number in range(1, 5)]
UNBRANCHED = "model must be trained without missing values for the format ranklib, which reads a missing value as 0"
WHOLE, MISSING = lists(0), lists(0, nan=True)
ZEROS = dataclasses.replace(WHOLE, features=np.where(np.abs(WHOLE.features) < 0.5, np.float32(0), WHOLE.features))
TINY = dataclasses.replace(WHOLE, features=WHOLE.features * np.array([1e-9, -1e-20, 1e7, 1], dtype=np.float32))
CASES = [
    ("lightgbm", {"loss": "lambdarank"}),
    ("lightgbm", {"loss": "native:lambdarank"}),
    ("lightgbm", {"loss": "softmax", "boosting": "dart"}),
    ("xgboost", {"loss": "lambdarank"}),
    ("xgboost", {"loss": "native:rank:ndcg", "base_score": 0.25}),
    ("xgboost", {"loss": "softmax", "booster": "dart", "rate_drop": 0.5}),
]


def hard_rows(model, nan, count=300):
    """Thresholds, the float32 numbers on both sides of them, numbers near 0, random numbers and missing values."""
    forest = tree_arrays.read_splits(model.content(), model.framework, "onnx")
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((count, model.features), dtype=np.float32)
    for feature in range(model.features):
        found = np.concatenate([tree.threshold[(tree.left != -1) & (tree.feature == feature)] for tree in forest.trees])
        near = [np.nextafter(found, np.float32(side)) for side in (-np.inf, np.inf)]
        values = np.concatenate([found, *near, [0, 1e-36, -1e-36, 1e-7, -1e-7], [np.nan] if nan else []])
        drawn = np.clip(rng.choice(values.astype(np.float32), count), np.float32(-3e38), np.float32(3e38))
        rows[:, feature] = np.where(rng.random(count) < 0.8, drawn, rows[:, feature])
    return rows


def check(model, format, path, nan):
    done = model.export(path, format=format)
    assert (done.format, done.difference < 1e-6) == (format, True)
    rows = hard_rows(model, nan)
    expected = model.score(rows)
    scale = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(scores_of(path, format, rows, NAMES), expected, rtol=0, atol=1e-6 * scale)
    assert len(set(expected.tolist())) > 10


@pytest.mark.parametrize("format", engine_files.FORMATS)
@pytest.mark.parametrize(("framework", "settings"), CASES, ids=str)
def test_engines_give_the_scores_of_the_model(framework, settings, format, tmp_path):
    for number, data in enumerate((WHOLE, ZEROS, TINY)):
        model = boost(plan(framework, **settings), data, None)
        # Without missing values in training, XGBoost sends NaN right; RankLib and Solr take a missing feature as 0.
        nan = framework == "lightgbm" or format in ("elasticsearch", "vespa")
        check(model, format, tmp_path / f"model{number}.json", nan)


@pytest.mark.parametrize("format", [format for format in engine_files.FORMATS if format != "ranklib"])
@every_framework
def test_missing_values_have_their_branch(framework, format, tmp_path):
    model = boost(plan(framework), MISSING, None)
    assert engine_files.has_missing_branch(tree_arrays.read_splits(model.content(), framework, "onnx"))
    check(model, format, tmp_path / "model.json", nan=True)


@every_framework
def test_ranklib_refuses_a_model_that_was_trained_with_missing_values(framework, tmp_path):
    model = boost(plan(framework), MISSING, None)
    with pytest.raises(ValueError, match=rf"^{UNBRANCHED}; got \d+ splits that send a missing value and 0 to diff"):
        model.export(tmp_path / "model.txt", format="ranklib")
    assert not [*tmp_path.iterdir()]


def all_right(nan):
    """Rows whose missing values have the labels of large numbers: all splits send missing values to the right."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(len(WHOLE.labels), 4)).astype(np.float32)
    labels = (rows[:, 0] > 0.3).astype(np.float32)
    if nan:
        rows[:, 0] = np.where(rows[:, 0] > 1, np.float32(np.nan), rows[:, 0])
    return dataclasses.replace(WHOLE, features=rows, labels=labels)


@every_framework
def test_missing_values_that_all_splits_send_right(framework, tmp_path):
    """The file of XGBoost is then that of a training without missing values, so the model must record which it was."""
    size = {"lightgbm": {"num_leaves": 2}, "xgboost": {"max_depth": 1}}[framework]
    model = boost(plan(framework, **size), all_right(nan=True), None)
    forest = tree_arrays.read_splits(model.content(), framework, "onnx")
    assert not any(tree.missing_left[tree.left != -1].any() for tree in forest.trees)
    model.save(tmp_path / "saved")
    more = boost(plan(framework, **size), all_right(nan=False), None, init_model=model)
    for kept in (model, load(tmp_path / "saved"), more):
        assert kept.trained_missing
        with pytest.raises(ValueError, match=f"^{UNBRANCHED}; got"):
            kept.export(tmp_path / "model.txt", format="ranklib")
        kept.export(tmp_path / "model.json", format="solr")
        found = scores_of(tmp_path / "model.json", "solr", all_right(nan=True).features, NAMES)
        np.testing.assert_allclose(found, kept.score(all_right(nan=True).features), atol=1e-6)


@every_framework
def test_a_model_that_records_nothing_about_missing_values(framework, tmp_path):
    """A file of LightGBM contains the kind of missing values of each split, a file of XGBoost does not."""
    model = boost(plan(framework), WHOLE, None)
    model.save(tmp_path / "saved")
    assert load(tmp_path / "saved").trained_missing is False
    config = read_json(tmp_path / "saved" / "config.json")
    del config["trained_missing"]
    write_json(tmp_path / "saved" / "config.json", config, seal=True)
    old = load(tmp_path / "saved")
    assert old.trained_missing is None
    assert boost(plan(framework, trees=1), WHOLE, None, init_model=old).trained_missing is None
    assert boost(plan(framework, trees=1), MISSING, None, init_model=old).trained_missing is True
    old.export(tmp_path / "model.json", format="solr")
    assert ("missing" in (tmp_path / "model.json").read_text()) == (framework == "xgboost")
    if framework == "lightgbm":
        old.export(tmp_path / "model.txt", format="ranklib")
    else:
        with pytest.raises(ValueError, match=f"^{UNBRANCHED}; got"):
            old.export(tmp_path / "model.txt", format="ranklib")


def test_splits_that_send_missing_values_left_without_missing_values_in_training(tmp_path):
    """XGBoost's exact method does so. The rule has no meaning, so RankLib can express the model."""
    model = boost(plan("xgboost", tree_method="exact"), WHOLE, None)
    forest = tree_arrays.read_splits(model.content(), "xgboost", "onnx")
    assert all(tree.missing_left[tree.left != -1].all() for tree in forest.trees)
    for format in engine_files.FORMATS:
        check(model, format, tmp_path / "model.json", nan=format in ("elasticsearch", "vespa"))


@pytest.mark.parametrize("format", engine_files.FORMATS)
def test_what_engines_cannot_hold_is_one_sentence(format, tmp_path):
    linear = boost(plan("lightgbm", linear_tree=True), WHOLE, None)
    with pytest.raises(ValueError, match=rf"must have only constant leaves for the format {format} .*; got linear"):
        linear.export(tmp_path / "model", format=format)
    zero = boost(plan("lightgbm", zero_as_missing=True), ZEROS, None)
    with pytest.raises(ValueError, match=rf"^model must not treat 0 as a missing value for the format {format}; got"):
        zero.export(tmp_path / "model", format=format)
    codes = np.floor(np.abs(WHOLE.features[:, :1]) * 3).clip(max=2).astype(np.float32)
    coded = np.concatenate([WHOLE.features[:, 1:], codes], axis=1)
    for framework in ("lightgbm", "xgboost"):
        known = dataclasses.replace(WHOLE, features=coded, labels=codes[:, 0] % 2, categories={3: ("a", "b", "c")})
        model = boost(plan(framework), known, None)
        must = "before training, replace a category by a number, such as its mean label, or remove the feature"
        with pytest.raises(ValueError, match=rf"only numerical splits for the format {format} \({must}\); .*column 3$"):
            model.export(tmp_path / "model", format=format)
    assert not [*tmp_path.iterdir()]


def test_names_of_features_and_of_the_model(tmp_path):
    named = dataclasses.replace(WHOLE, feature_names=("title", "body", "age", "clicks"))
    model = boost(plan("lightgbm"), named, None)
    model.save(tmp_path / "saved")
    again = load(tmp_path / "saved")
    again.export(tmp_path / "mine.json", format="solr")
    made = json.loads((tmp_path / "mine.json").read_text())
    assert (made["name"], [feature["name"] for feature in made["features"]]) == ("mine", [*named.feature_names])
    rows = hard_rows(model, nan=False)
    found = scores_of(tmp_path / "mine.json", "solr", rows, named.feature_names)
    np.testing.assert_allclose(found, model.score(rows), atol=1e-6)


def chain(depth, thresholds=None):
    """A tree with one split per level."""
    left, threshold = np.full(2 * depth + 1, -1), np.zeros(2 * depth + 1, dtype=np.float32)
    left[: 2 * depth : 2] = np.arange(1, 2 * depth, 2)
    threshold[: 2 * depth : 2] = np.arange(depth) if thresholds is None else thresholds
    nothing = np.zeros(len(left), dtype=np.bool_)
    value = np.where(left == -1, np.arange(len(left)), 0).astype(np.float32)
    return Tree(np.zeros_like(left), threshold, nothing, nothing, left, np.where(left == -1, -1, left + 1), value)


@pytest.mark.parametrize("format", engine_files.FORMATS)
def test_very_deep_trees_are_refused(format, tmp_path):
    """The JSON parsers of the engines limit the depth of a file, and Python limits the depth of a recursion."""
    deep = Forest([chain(engine_files.DEPTH)], False, 0.0, missing=False)
    content = engine_files.write_trees(deep, format, "xgboost", ["a"], "m")
    score = engine_scores(content, format, "xgboost", ["a"])
    assert score(np.array([[engine_files.DEPTH]], dtype=np.float32)) == 2 * engine_files.DEPTH
    must = f"^model must have trees with at most {engine_files.DEPTH} levels for the format {format}; got "
    with pytest.raises(ValueError, match=f"{must}{engine_files.DEPTH + 1} levels$"):
        engine_files.write_trees(
            Forest([chain(engine_files.DEPTH + 1)], False, 0.0, missing=False), format, "xgboost", ["a"], "m"
        )


@pytest.mark.parametrize("format", engine_files.FORMATS)
def test_thresholds_that_are_infinite_become_numbers(format, tmp_path):
    forest = Forest([chain(3, np.array([-np.inf, 2, np.inf], dtype=np.float32))], False, 0.0, missing=False)
    (tmp_path / "model").write_bytes(engine_files.write_trees(forest, format, "xgboost", ["a"], "m"))
    found = scores_of(tmp_path / "model", format, np.array([[-1e38], [1], [2], [3e38]], dtype=np.float32), ["a"])
    assert found == [3, 3, 5, 5]


@pytest.mark.parametrize("format", ["elasticsearch", "solr", "vespa"])
def test_a_split_of_missing_from_all_other_numbers(format, tmp_path):
    """LightGBM gives it an infinite threshold. Another split of the feature is at 1e-35, next to 0."""
    rows = np.maximum(WHOLE.features, 0)
    rows[:, 0] = np.where(WHOLE.labels == 3, np.nan, rows[:, 0])
    model = boost(plan("lightgbm", num_leaves=8), dataclasses.replace(WHOLE, features=rows), None)
    forest = tree_arrays.read_splits(model.content(), "lightgbm", format)
    found = np.concatenate([tree.threshold[(tree.left != -1) & (tree.feature == 0)] for tree in forest.trees])
    assert (found.min(), found.max()) == (np.float32(1e-35), np.inf)
    check(model, format, tmp_path / "model.json", nan=True)


def test_names_that_vespa_would_compute_with_are_refused(tmp_path):
    """Vespa copies a name into an expression: `title-age` would be a difference."""
    good = ("bm25(title)", "fieldMatch(title).completeness", "attribute(age)", "closeness(field,vector)")
    path = tmp_path / "model.json"
    for framework in ("lightgbm", "xgboost"):
        model = boost(plan(framework), dataclasses.replace(WHOLE, feature_names=good), None)
        model.export(path, format="vespa")
        rows = hard_rows(model, nan=False)
        np.testing.assert_allclose(scores_of(path, "vespa", rows, good), model.score(rows), rtol=0, atol=1e-6)
        path.unlink()
    for name in ("title-age", "title age", "1st", "", "a(b) + c(d)", "größe", 'a"b', "x < 1, 2, 3) + if (x"):
        model = boost(plan("xgboost"), dataclasses.replace(WHOLE, feature_names=(name, *good[1:])), None)
        with pytest.raises(ValueError, match=r"^feature_names must be rank features or functions of Vespa"):
            model.export(path, format="vespa")
        assert not path.exists()


@pytest.mark.parametrize("format", ["elasticsearch", "solr"])
def test_names_with_special_characters_are_escaped(format, tmp_path):
    names = ('a"b', "größe\\\n", "<c> & 'd'", "{}: [e], 😀")
    model = boost(plan("lightgbm"), dataclasses.replace(WHOLE, feature_names=names), None)
    model.export(tmp_path / "model.json", format=format)
    rows = hard_rows(model, nan=False)
    found = scores_of(tmp_path / "model.json", format, rows, names)
    np.testing.assert_allclose(found, model.score(rows), rtol=0, atol=1e-6)
    assert (tmp_path / "model.json").read_bytes().isascii()


@pytest.mark.parametrize("format", engine_files.FORMATS)
def test_names_must_differ(format, tmp_path):
    model = boost(plan("lightgbm"), dataclasses.replace(WHOLE, feature_names=("a", "b", "a", "c")), None)
    with pytest.raises(ValueError, match=r"^feature_names must differ from each other; got 'a' twice$"):
        model.export(tmp_path / "model.json", format=format)


@pytest.mark.parametrize("inclusive", [True, False])
@pytest.mark.parametrize("format", engine_files.FORMATS)
def test_every_number_takes_its_branch(format, inclusive, tmp_path):
    """One split; thresholds of all sizes. The tested numbers are the threshold and its neighbours."""
    sizes = [0.0, 1e-45, 1e-38, 1e-35, 1e-20, 1e-9, 1e-6, 2e-6, 3.3e-6, 1e-3, 0.1, 0.7, 1.0, 31.7, 1e5, 3e30]
    for size, sign in itertools.product(sizes, (1, -1)):
        threshold = np.float32(sign * size)
        left, right = np.array([1, -1, -1]), np.array([2, -1, -1])
        usual = np.array([inclusive and bool(threshold >= 0), False, False])
        tree = Tree(
            np.zeros(3, dtype=np.int64), np.array([threshold, 0, 0], dtype=np.float32), usual,
            np.zeros(3, dtype=np.bool_), left, right, np.array([0, 1, 2], dtype=np.float32),
        )  # fmt: skip
        framework = "lightgbm" if inclusive else "xgboost"
        content = engine_files.write_trees(Forest([tree], inclusive, 0.0, missing=False), format, framework, ["a"], "m")
        (tmp_path / "one").write_bytes(content)
        near = [np.nextafter(threshold, np.float32(side)) for side in (-np.inf, np.inf)]
        for value in (threshold, *near):
            known = 0.0 if inclusive and abs(value) <= np.float32(1e-35) else value  # as LightGBM reads a number
            expected = 1 if (known <= threshold if inclusive else known < threshold) else 2
            (found,) = scores_of(tmp_path / "one", format, np.array([[value]], dtype=np.float32), ["a"])
            assert found == expected, (format, inclusive, threshold, value)
