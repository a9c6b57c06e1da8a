"""Calibration: values of scikit-learn, the order of the scores, saved folders, ONNX files, and errors."""

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from rankgrad import models
from rankgrad.data import from_arrays
from rankgrad.models.calibration import LogisticCurve, fit_calibration
from rankgrad.models.reliability import expected_calibration_error, measure_reliability

RNG = np.random.default_rng(0)
SCORES = RNG.normal(size=400).round(2)
LABELS = RNG.binomial(2, 1 / (1 + np.exp(1 - 1.5 * SCORES)))
DATA = from_arrays(SCORES[:, None], LABELS, qid=np.repeat(np.arange(40), 10))[0]


def test_isotonic_is_that_of_scikit_learn():
    new = np.linspace(-5, 5, 301)
    found = fit_calibration(SCORES, DATA, method="isotonic", target="grade").cumulative(new)
    for place in range(2):
        peer = IsotonicRegression(out_of_bounds="clip").fit(SCORES, np.greater(LABELS, place))
        np.testing.assert_allclose(found[:, place], peer.predict(new), atol=1e-12)


def test_platt_is_that_of_scikit_learn():
    base = LogisticRegression(C=np.inf).fit(SCORES[:, None], LABELS > 0)
    peer = CalibratedClassifierCV(FrozenEstimator(base), method="sigmoid", ensemble=False).fit(
        SCORES[:, None], LABELS > 0
    )
    logits = base.decision_function(SCORES[:, None])
    found = fit_calibration(logits, DATA, method="platt").values(logits)
    np.testing.assert_allclose(found, peer.predict_proba(SCORES[:, None])[:, 1], atol=1e-4)


@pytest.mark.parametrize("method", ["isotonic", "platt"])
def test_grades_are_ordered_and_never_contradict_the_scores(method):
    found = fit_calibration(SCORES, DATA, method=method, target="grade")
    ordered = np.sort(SCORES)
    assert (np.diff(found.cumulative(ordered), axis=1) <= 0).all()
    assert (np.diff(found.values(ordered)) >= 0).all()
    np.testing.assert_allclose(found.probabilities(SCORES) @ found.grades, found.values(SCORES), atol=1e-12)


def test_ece_is_that_of_a_plain_loop():
    p, y = np.sort(RNG.random(60)), RNG.random(60) < 0.5
    gaps = [abs(p[at : at + 6].sum() - y[at : at + 6].sum()) for at in range(0, 60, 6)]
    assert expected_calibration_error(p, y, bins=10) == pytest.approx(sum(gaps) / 60)


@pytest.mark.parametrize("seed", range(5))
def test_the_interval_of_ece_contains_its_estimate(seed):
    rng = np.random.default_rng(seed)
    p = rng.random(300)
    found = measure_reliability(p, rng.random(300) < p, np.arange(0, 301, 10), bootstrap=200)
    assert 0 <= found.interval[0] <= found.ece <= found.interval[1]
    assert found.interval[0] < found.interval[1]


def test_probabilities_of_reversed_scores_are_constant():
    with pytest.warns(UserWarning, match="the scores are not higher for relevant documents"):
        found = fit_calibration(-SCORES, DATA).values(SCORES)
    assert np.ptp(found) == 0
    assert found[0] == pytest.approx((LABELS > 0).mean(), abs=0.01)


def test_bad_input_is_one_sentence():
    with pytest.raises(ValueError, match="data must contain documents with and without label > 5; got no documents"):
        fit_calibration(SCORES, DATA, threshold=5)
    with pytest.raises(ValueError, match="scores must be finite for a calibration; got NaN"):
        fit_calibration(np.full(400, np.nan), DATA)
    with pytest.raises(ValueError, match="data must contain held-out lists with documents; got no documents"):
        fit_calibration(SCORES[:0], DATA.take(slice(0)))
    for wrong in (SCORES[:10], SCORES[:, None]):
        with pytest.raises(ValueError, match=r"^scores must have the shape \(400,\), one score per document; got \(\d"):
            fit_calibration(wrong, DATA)
    with pytest.raises(ValueError, match=r"^scores must differ between documents; got equal scores$"):
        fit_calibration(np.ones(400), DATA)
    with pytest.raises(ValueError, match=r"^offsets must end with 3, the number of documents; got 2$"):
        measure_reliability([0.2, 0.3, 0.4], [0, 1, 1], [0, 2])
    for bins in (0, True, 2.5):
        with pytest.raises(ValueError, match=f"^bins must be an integer of at least 1; got {bins}$"):
            expected_calibration_error([0.2], [1], bins=bins)
    assert expected_calibration_error([0.2, 0.3], [0, 1], bins=np.int64(2)) == pytest.approx(0.45)


@pytest.mark.parametrize("factor", [1e300, 1e-30, 1e-200])
@pytest.mark.parametrize("method", ["isotonic", "platt"])
def test_probabilities_do_not_depend_on_the_unit_of_the_scores(method, factor):
    expected = fit_calibration(SCORES, DATA, method=method).values(SCORES)
    found = fit_calibration(SCORES * factor, DATA, method=method).values(SCORES * factor)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_differences_too_small_for_a_logistic_function_are_refused():
    must = "scores must have a larger standard deviation for the method platt"
    with pytest.raises(ValueError, match=f"^{must}; got "):
        fit_calibration(SCORES * 1e-310, DATA)


def test_infinite_scores_have_probabilities():
    scores = np.array([-np.inf, 0.0, np.inf])
    np.testing.assert_array_equal(LogisticCurve(0.0, 0.0)(scores), [0.5, 0.5, 0.5])
    np.testing.assert_array_equal(LogisticCurve(1e-9, 0.0)(scores), [0.0, 0.5, 1.0])
    assert np.isnan(LogisticCurve(0.0, 0.0)(np.array([np.nan])))


def test_empty_lists_do_not_change_reliability():
    given = ([0.2, 0.3, 0.4, 0.9], [0, 1, 0, 1])
    with_empty = measure_reliability(*given, [0, 0, 2, 2, 4, 4])
    without = measure_reliability(*given, [0, 2, 4])
    assert (with_empty.ece, with_empty.interval) == (without.ece, without.interval)
    assert (with_empty.lists, without.lists) == (5, 2)


def test_saved_exported_and_removed_with_new_weights(tmp_path):
    model = models.kind_of("linear").fit({"model": "linear", "epochs": 2, "loss": "bce", "lr": 0.1}, DATA)
    before = model.score_lists(DATA)
    known = model.calibrate(DATA, target="grade")
    model.save(tmp_path)
    again = models.load(tmp_path)
    assert again.calibration == known
    np.testing.assert_array_equal(again.score_lists(DATA), before)
    assert model.export(tmp_path / "a.onnx").calibration < 1e-6
    model.save_weights(tmp_path)
    assert models.load(tmp_path).calibration is None


@pytest.mark.parametrize("name", ["Ranker", "TreeRanker", "blend"])
def test_estimators_have_probabilities_after_calibrate(name, tmp_path):
    import rankgrad as rg

    tree, linear = rg.trees.TreeRanker(trees=5), rg.Ranker(model="linear", loss="softmax", epochs=3, lr=0.1)
    ranker = {
        "Ranker": linear,
        "TreeRanker": tree,
        "blend": rg.blend([tree, linear]),
    }[name]
    X, y, qid = SCORES[:, None], LABELS, np.repeat(np.arange(40), 10)
    half = slice(0, 200), slice(200, None)
    tree.fit(X[half[0]], y[half[0]], qid=qid[half[0]])  # a blend takes trained rankers
    linear.fit(X[half[0]], y[half[0]], qid=qid[half[0]])
    ranker.fit(X[half[0]], y[half[0]], qid=qid[half[0]])
    assert not hasattr(ranker, "predict_proba")
    before = ranker.predict(X[half[1]], qid=qid[half[1]])
    ranker.calibrate(X[half[1]], y[half[1]], qid=qid[half[1]], target="grade")
    shown = ranker.predict_proba(X[half[1]], qid=qid[half[1]])
    assert shown.shape == (200, 3)
    np.testing.assert_allclose(shown.sum(axis=1), 1)
    np.testing.assert_allclose(shown.mean(axis=0), np.bincount(y[half[1]]) / 200, atol=0.03)
    np.testing.assert_array_equal(ranker.predict(X[half[1]], qid=qid[half[1]]), before)
    ranker.save(tmp_path)
    again = type(ranker).load(tmp_path)
    expected = ranker.predict_calibrated(X, qid=qid)
    np.testing.assert_allclose(again.predict_calibrated(X, qid=qid), expected, rtol=1e-6)
    ranker.fit(X[half[0]], y[half[0]], qid=qid[half[0]])
    assert not hasattr(ranker, "predict_proba")
