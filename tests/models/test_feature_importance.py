"""Importance of features: the features that made the labels are found, with intervals; the errors are sentences."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from small_trees import FRAMEWORKS, every_framework, quick, rows
from tiny_study import one_thread

import rankgrad as rg
from rankgrad.data import Preprocessing, from_arrays
from rankgrad.data.synthetic import synthetic, true_features
from rankgrad.models import kind_of
from rankgrad.models.feature_importance import FeatureImportance, _interval
from rankgrad.training.model import Model

_one_thread = pytest.fixture(one_thread, autouse=True, scope="module")

TREES = {"trees": 60, "learning_rate": 0.2, "num_leaves": 15, "loss": "xe_ndcg"}
NETWORK = {"epochs": 15, "lr": 0.01, "preprocess": "log1p,standardise", "loss": "softmax"}
KINDS = {"lightgbm": TREES, "mlp:widths=64-32": NETWORK}
every_kind = pytest.mark.parametrize("spec", KINDS)


def recall(spec, seed, lists, features, noise, **more):
    """The share of the true features whose interval is above 0, and the number of false features."""
    data = synthetic(lists, features=features, seed=seed, mean_length=20, noise=noise)
    model = kind_of(spec).fit({"model": spec, **KINDS[spec], **more}, data.train)
    found = model.feature_importance(data.test)
    assert (found.lists, found.repeats, found.unit) == (lists // 3, 5, "loss of nDCG@10")
    assert (found.low <= found.values).all()
    assert (found.values <= found.high).all()
    names = {f"feature {place + 1}" for place in true_features(features, seed=seed)}
    return len({*found.found} & names) / len(names), {*found.found} - names


@every_kind
def test_true_features_are_found(spec):
    if spec == "lightgbm":
        pytest.importorskip("lightgbm")
    shares, wrong = zip(*(recall(spec, seed, 800, 14, noise=0.1) for seed in (0, 1)), strict=True)
    assert np.mean(shares) >= 0.95
    assert max(map(len, wrong)) <= 2


@pytest.mark.long
@every_kind
def test_true_features_are_found_among_many(spec):
    found = [recall(spec, seed, 6_000, 46, noise=0.4) for seed in range(2)]
    assert np.mean([share for share, _ in found]) >= 0.95


def test_true_features_are_those_that_the_utility_depends_on():
    """A network on these columns alone reaches the best order; a network on all other columns does not."""
    data = synthetic(400, features=20, seed=3, noise=0.0)
    places = true_features(20, seed=3)
    assert len(places) == 10
    reached = {}
    for name, columns in (("true", [*places]), ("others", [at for at in range(20) if at not in places])):
        parts = [replace(part, features=part.features[:, columns]) for part in (data.train, data.test)]
        model = kind_of("mlp").fit({"model": "mlp:widths=64-32", **NETWORK}, parts[0])
        reached[name] = model.evaluate(parts[1], "nDCG@10")["nDCG@10"]
    assert reached["true"] > 0.85
    assert reached["others"] < 0.7


def linear(weights, names=None):
    model = Model(rg.rankers.build("linear", features=len(weights)), Preprocessing())
    with torch.no_grad():
        model.ranker.head.weight.copy_(torch.tensor([weights]))
    model.feature_names = names
    return model


def lists(seed=0, count=30):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count * 8, 3)).astype(np.float32)
    x[:, 2] = np.repeat(rng.normal(size=count), 8)  # constant in each list
    y = np.digitize(x[:, 0], [0.0, 1.0]).astype(np.float32)
    return from_arrays(x, y, qid=np.repeat(np.arange(count), 8))[0]


def test_importance_is_the_mean_loss_over_lists_and_shuffles():
    data, model = lists(), linear([1.0, 0.2, 0.0])
    found = model.feature_importance(data, "nDCG@5", repeats=2, seed=7)
    rng, drops = np.random.default_rng(7), np.zeros((2, 2))
    for column in range(2):
        for repeat in range(2):
            x = data.features.copy()
            x[:, column] = x[rng.permutation(len(x)), column]
            shuffled = rg.metrics.ndcg(model.score(x, data.offsets), data.labels, offsets=data.offsets, k=5)
            drops[repeat, column] = found.baseline - float(shuffled)
    np.testing.assert_allclose(found.values[:2], drops.mean(axis=0), atol=1e-6)
    assert found.values[2] == found.low[2] == found.high[2] == 0.0


def test_shuffles_within_lists_keep_a_feature_of_the_query():
    data, model = lists(), linear([1.0, 0.0, 3.0])
    assert model.feature_importance(data).values[2] > 0.05
    inside = model.feature_importance(data, within_lists=True)
    assert inside.values[2] == 0.0
    assert inside.values[0] > 0.05


def test_a_metric_of_which_lower_is_better_has_positive_losses():
    found = linear([1.0, 0.0, 0.0]).feature_importance(lists(), "ARP")
    assert found.low[0] > 0
    assert found.unit == "loss of ARP"


def test_names_are_those_of_the_columns():
    data = replace(lists(), feature_names=("bm25", "age", "year"))
    assert linear([1.0, 0.1, 0.0]).feature_importance(data).names == ("bm25", "age", "year")
    # The columns of the data may be in another order than those of the model.
    found = linear([0.0, 1.0, 0.0], ("year", "bm25", "age")).feature_importance(data)
    assert found.names == ("year", "bm25", "age")
    assert found.found == ("bm25",)
    assert linear([1.0, 0.1, 0.0]).feature_importance(lists()).names[2] == "feature 3"


def test_intervals_contain_the_mean_as_often_as_they_say():
    rng, inside = np.random.default_rng(0), 0
    tries, repeats, queries = 400, 5, 40
    a = rng.normal(size=(tries, 1, queries, 1))
    b = 0.5 * rng.normal(size=(tries, repeats, 1, 1))  # the effect of a shuffle on all lists
    for losses in a + b + 0.5 * rng.normal(size=(tries, repeats, queries, 1)):
        low, high = _interval(losses)
        inside += bool(low[0] <= 0 <= high[0])
    assert 0.92 <= inside / tries <= 0.98


@every_framework
def test_gain_and_split_of_trees_are_those_of_the_framework(framework):
    x, y, qid = rows()
    ranker = quick(framework).fit(x, y, qid=qid)
    booster = ranker.model_.booster
    for method, kind in (("gain", "total_gain"), ("split", "weight")):
        if framework == "lightgbm":
            own = booster.feature_importance(method).astype(float)
        else:
            known = booster.get_score(importance_type=kind)
            own = np.array([known.get(f"f{place}", 0.0) for place in range(4)])
        found = ranker.feature_importance(method=method)
        np.testing.assert_allclose(found.values, own / own.sum(), atol=1e-9)
        assert found.low is None
        assert set(found.order(2)) == {0, 1}  # the labels are made of these


def test_gradients_of_a_linear_ranker_are_its_weights():
    data = lists()
    found = linear([2.0, -1.0, 0.0]).feature_importance(data, method="gradient")
    sizes = np.array([2.0, 1.0, 0.0]) * data.features.std(axis=0)
    np.testing.assert_allclose(found.values, sizes / sizes.sum(), rtol=1e-5)
    np.testing.assert_allclose(found.high, found.values, atol=1e-6)  # equal in every list


@pytest.mark.parametrize("model", ["mlp:widths=16", "context_aware:width=16,feed_forward=16,blocks=1"])
def test_gradients_find_the_feature_that_made_the_labels(model):
    data = lists(count=60)
    trained = kind_of(model).fit({"model": model, "epochs": 10, "lr": 0.01}, data)
    assert trained.feature_importance(data, method="gradient").found[0] == "feature 1"


def test_every_estimator_has_importance():
    x, y, qid = rows()
    rankers = [rg.Ranker(model="linear", epochs=20, lr=0.05).fit(x, y, qid=qid)]
    for framework in FRAMEWORKS:
        try:
            rankers.append(quick(framework).fit(x, y, qid=qid))
        except pytest.skip.Exception:
            continue
    rankers.append(rg.blend(rankers).fit(x, y, qid=qid))
    for ranker in rankers:
        found = ranker.feature_importance(x, y, qid=qid, repeats=2)
        assert set(found.order(2)) == {0, 1}
        assert found.to_frame().columns.tolist() == ["feature", "importance", "low", "high"]
        assert found.to_dict(1)["features"][0]["feature"] == found.names[found.order(1)[0]]
    with pytest.raises(ValueError, match="method must be 'permutation' for BlendModel; got 'gain'"):
        rankers[-1].feature_importance(method="gain")
    with pytest.raises(ValueError, match="method must be 'permutation' or 'gradient' for Model; got 'split'"):
        rankers[0].feature_importance(method="split")


def test_errors_are_one_sentence():
    model = linear([1.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="data must be given for the method 'permutation'; got None"):
        model.feature_importance()
    with pytest.raises(ValueError, match="method must be 'permutation' or 'gradient' for Model; got 'shap'"):
        model.feature_importance(lists(), method="shap")
    with pytest.raises(ValueError, match="repeats must be at least 1; got 0"):
        model.feature_importance(lists(), repeats=0)
    with pytest.raises(ValueError, match=r"features must have 2 columns, as in training; got \(240, 3\)"):
        linear([1.0, 0.0]).feature_importance(lists())
    with pytest.raises(ValueError, match=r"features must have 2 columns, as in training; got \(240, 3\)"):
        linear([1.0, 0.0]).feature_importance(lists(), method="gradient")


def test_one_list_has_no_interval():
    found = linear([1.0, 0.0, 0.0]).feature_importance(lists(count=1))
    assert np.isnan(found.low).all()
    assert found.found == ()
    assert isinstance(found, FeatureImportance)
