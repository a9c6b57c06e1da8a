"""Explanations of one list: contributions sum to the difference of the scores, and are those of exact methods."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from small_trees import every_framework, plan, quick, rows
from small_trees import lists as tree_lists
from tiny_study import one_thread

import rankgrad as rg
from rankgrad.data import Preprocessing, from_arrays
from rankgrad.rankers.custom import as_ranker
from rankgrad.training import contributions
from rankgrad.training.model import Model
from rankgrad.trees.boosting import boost

_one_thread = pytest.fixture(one_thread, autouse=True, scope="module")

POINTWISE = (
    "linear",
    "mlp:widths=32-16",
    "mlp:widths=64,activation=gelu,output=tanh",
    "mlp:widths=32,norm=batch,input_norm=batch",
)
LIST_AWARE = (
    "context_aware:width=8,feed_forward=8,blocks=1",
    "context_aware:width=8,feed_forward=8,blocks=1,activation=gelu,position=fixed",
    "attsets",
    "dasalc:width=8,layers=1,heads=2",
)
STEPS = ("none", "log1p,standardise", "standardise_per_query", "quantile,clip=1")


def data(count=4, length=6, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.lognormal(size=(count * length, 5)).astype(np.float32)
    y = rng.integers(0, 3, len(x)).astype(np.float32)
    return from_arrays(x, y, qid=np.repeat([f"q{place}" for place in range(count)], length))[0]


def network(spec, steps="log1p,standardise", seed=0):
    torch.manual_seed(seed)
    return Model(as_ranker(spec, 5), Preprocessing.parse(steps).fit(data()))


def total(found):
    return found.contributions.sum() + sum(found.others.values())


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("spec", POINTWISE)
def test_contributions_of_networks_sum_to_the_gap(spec, steps):
    model, lists = network(spec, steps), data()
    found = model.explain(lists, "q1", (2, 5))
    scores = model.score_lists(lists)[6:12]
    assert found.gap == pytest.approx(float(scores[1]) - float(scores[4]), abs=1e-9)
    assert total(found) == pytest.approx(found.gap, abs=1e-5)
    assert found.error <= contributions.TOLERANCE
    assert found.others == {}


@pytest.mark.parametrize("spec", LIST_AWARE)
def test_contributions_of_list_aware_networks_sum_to_the_gap(spec):
    model = network(spec)
    found = model.explain(data(), "q2", (1, 4))
    assert total(found) == pytest.approx(found.gap, abs=1e-5)
    assert found.error <= 1e-3 * np.abs(found.contributions).sum()
    assert abs(found.others["other documents"]) > 1e-8
    assert ("positions in the input" in found.others) == ("position" in spec)


def test_integration_is_exact_without_the_last_correction(monkeypatch):
    """The errors are divided over the contributions. Without this, the sum must also be exact."""
    monkeypatch.setattr(contributions, "_shares", lambda parts: torch.zeros_like(parts))
    for spec in POINTWISE:
        found = network(spec).explain(data(), "q1", (2, 5))
        assert total(found) == pytest.approx(found.gap, abs=1e-5)


def test_contributions_of_a_linear_ranker_are_exact():
    model, lists = network("linear"), data()
    found = model.explain(lists, "q0", (1, 2))
    ready = model.steps.transform(lists.features[:6])
    weight = model.ranker.head.weight.detach().numpy()[0]
    np.testing.assert_allclose(found.contributions, weight * (ready[0] - ready[1]), atol=1e-6)
    assert found.method == "integrated gradients"


@pytest.mark.parametrize("spec", [POINTWISE[1], LIST_AWARE[0]])
def test_exchanged_documents_have_opposite_contributions(spec):
    model = network(spec)
    one, other = model.explain(data(), "q0", (1, 3)), model.explain(data(), "q0", (3, 1))
    np.testing.assert_allclose(one.contributions, -other.contributions, atol=1e-5)


def test_a_feature_that_the_documents_share_contributes_nothing():
    model, lists = network("mlp:widths=32-16"), data()
    features = lists.features.copy()
    features[0, 3] = features[1, 3]
    rng = np.random.default_rng(0)
    same = from_arrays(features, rng.integers(0, 2, len(features)), qid=lists.row_qids)[0]
    assert model.explain(same, "q0", (1, 2)).contributions[3] == 0.0


@every_framework
def test_contributions_of_trees_are_differences_of_the_shap_values_of_the_framework(framework):
    model = boost(plan(framework), tree_lists(0), None)
    lists = tree_lists(7, nan=True)
    place = int(np.argmax(lists.lengths >= 4))
    one = lists[place]
    if framework == "lightgbm":
        own = model.booster.predict(one.features, pred_contrib=True)
    else:
        import xgboost

        own = model.booster.predict(xgboost.DMatrix(one.features), pred_contribs=True)
    np.testing.assert_allclose(model.shap_values(one.features), own, atol=1e-6)
    np.testing.assert_allclose(own.sum(axis=1), model.score(one.features), atol=1e-5)
    found = model.explain(lists, one.qid, (4, 2))
    np.testing.assert_allclose(found.contributions, (own[3] - own[1])[:-1], atol=1e-6)
    assert total(found) == pytest.approx(found.gap, abs=1e-5)
    assert np.abs(found.contributions).max() > 0


@pytest.mark.parametrize(
    ("framework", "settings"),
    [
        ("lightgbm", {"loss": "native:lambdarank", "boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1}),
        ("lightgbm", {"boosting": "dart"}),
        ("xgboost", {"booster": "dart"}),
    ],
)
def test_other_boosters_have_contributions(framework, settings):
    model, lists = boost(plan(framework, **settings), tree_lists(0), None), tree_lists(0)
    np.testing.assert_allclose(model.shap_values(lists.features).sum(axis=1), model.score(lists.features), atol=1e-5)
    place = int(np.argmax(lists.lengths))
    scores = model.score(lists[place].features)
    found = model.explain(lists, lists.qids[place], (scores.argmax() + 1, scores.argmin() + 1))
    assert total(found) == pytest.approx(found.gap, abs=1e-5)
    assert found.gap > 0


def test_linear_trees_have_no_contributions():
    model = boost(plan("lightgbm", linear_tree=True), tree_lists(0), None)
    with pytest.raises(ValueError, match="model must have only constant leaves for TreeSHAP values; got linear trees"):
        model.explain(tree_lists(0), 1)
    constant = boost(plan("lightgbm"), tree_lists(0), None)  # its trees come first in the continued model
    mixed = boost(plan("lightgbm", linear_tree=True), tree_lists(0), None, init_model=constant)
    assert "is_linear=1" not in mixed.booster.model_to_string(num_iteration=1)
    with pytest.raises(ValueError, match="model must have only constant leaves for TreeSHAP values; got linear trees"):
        mixed.explain(tree_lists(0), 1)


def test_contributions_of_blends_are_weighted_sums():
    x, y, qid = rows()
    parts = [rg.Ranker(model="mlp:widths=8", epochs=2).fit(x, y, qid=qid), quick("lightgbm").fit(x, y, qid=qid)]
    blend = rg.blend(parts).fit(x, y, qid=qid)
    found = blend.explain(x, y, qid=qid, query=3, documents=(1, 2))
    assert total(found) == pytest.approx(found.gap, abs=1e-5)
    lists = from_arrays(x, y, qid=qid)[0]
    one, expected = lists[[*lists.qids].index(3)], np.zeros(4)
    for ranker, weight in zip(parts, blend.model_.weights, strict=True):
        own = ranker.model_.contributions(one.features, 0, 1).values
        expected += weight * own / ranker.model_.score(one.features).std()
    np.testing.assert_allclose(found.contributions, expected, rtol=1e-4)


def test_losses_are_those_of_the_list_without_the_feature():
    model, lists = network("mlp:widths=32-16"), data()
    found = model.explain(lists, "q3", metric="nDCG@3")
    one = lists[3]
    for column in range(5):
        x = one.features.copy()
        x[:, column] = x[:, column].mean()
        changed = rg.metrics.ndcg(model.score(x), one.labels, offsets=np.array([0, 6]), k=3)
        assert found.losses[column] == pytest.approx(found.value - float(changed), abs=1e-6)
    assert found.ranks == (1, 2)
    assert found.documents == tuple(f"document {at + 1}" for at in np.argsort(-model.score(one.features))[:2])
    assert np.abs(found.losses).max() > 0


def test_terms_sum_to_the_gap_and_tables_have_every_feature():
    found = network(LIST_AWARE[0]).explain(data(), "q2", (1, 4))
    terms = found.terms(2)
    assert [name for name, _ in terms[2:]] == ["3 other features", "other documents"]
    assert sum(value for _, value in terms) == pytest.approx(found.gap, abs=1e-5)
    assert len(found.to_frame()) == 5
    told = found.to_dict(1)
    assert told["features"][0]["feature"] == found.names[found.order(1)[0]]
    assert [each["rank"] for each in told["documents"]] == [*found.ranks]


def shops(count=40, length=6):
    """Lists in which a category decides about the label, in another order than that of its code."""
    pd, rng = pytest.importorskip("pandas"), np.random.default_rng(3)
    shop = rng.choice(["a", "b", "c", "d", None], count * length)
    x, y = rng.normal(size=(count * length, 2)), np.isin(shop, ["a", "d"]).astype(int)
    frame = pd.DataFrame({"bm25": x[:, 0], "shop": shop, "age": x[:, 1]})
    return frame, y, np.repeat(np.arange(count), length)


@pytest.mark.parametrize("kind", ["network", "lightgbm", "xgboost"])
def test_explanations_of_categories(kind):
    options = {"holdout": 0.0, "categorical": ["shop"]}
    if kind == "network":
        ranker = rg.Ranker(model="mlp:widths=16", epochs=20, lr=0.02, **options)
    else:
        ranker = quick(kind, **options, **({"cat_smooth": 1, "min_data_in_leaf": 5} if kind == "lightgbm" else {}))
    frame, y, qid = shops()
    ranker.fit(frame, y, qid=qid)
    found = ranker.explain(frame, y, qid=qid, query=2, documents=(1, 3))
    one = frame[qid == 2]
    expected = [None if shop is None else shop for shop in one["shop"].iloc[[0, 2]].tolist()]
    assert found.shown_values(1) == expected
    assert {row["feature"]: row["values"] for row in found.to_dict()["features"]}["shop"] == expected
    assert found.to_frame().set_index("feature").loc["shop", "value of document 1"] == expected[0]
    # Without the feature, all categories of the list are missing.
    for shop in (one["shop"], "d"):
        given = frame.copy()
        given.loc[qid == 2, "shop"] = shop
        found = ranker.explain(given, y, qid=qid, query=2)
        scores = ranker.predict(given.assign(shop=None)[qid == 2])
        changed = rg.metrics.ndcg(scores, y[qid == 2], offsets=np.array([0, 6]), k=10)
        assert found.losses[1] == pytest.approx(found.value - float(changed), abs=1e-6)
    # A data set with other codes gives the same explanation.
    some = pytest.importorskip("pandas").DataFrame(one).assign(qid="q", label=y[qid == 2])
    data = rg.data.from_frame(some[some["shop"] != "a"], categorical=["shop"])
    other = ranker.model_.explain(data, "q")
    mask = (one["shop"] != "a").to_numpy()
    same = ranker.explain(one[mask], y[qid == 2][mask], qid=["q"] * mask.sum(), query="q")
    assert str(other) == str(same)
    if kind == "network":
        own, expected = (
            ranker.model_.feature_importance(each, method="gradient").values
            for each in (data, ranker._lists(one[mask], y[qid == 2][mask], ["q"] * mask.sum(), None, reset=False)[0])
        )
        np.testing.assert_array_equal(own, expected)


def test_an_explanation_prints_a_table():
    found = rg.models.ListExplanation(
        query="q",
        documents=("x", "y"),
        labels=(2.0, 0.0),
        ranks=(1, 2),
        scores=(1.5, 0.25),
        names=("bm25", "shop"),
        contributions=np.array([0.25, 1.0]),
        others={},
        values=np.array([[3.5, 1.0], [1.0, np.nan]], dtype=np.float32),
        method="TreeSHAP differences",
        error=0.0,
        metric="nDCG@10",
        value=0.75,
        losses=np.array([0.0, 0.125]),
        categories={1: ("books", "toys")},
    )
    assert str(found).splitlines() == [
        "query q, nDCG@10 0.7500",
        "A: x, rank 1, score 1.5000, label 2",
        "B: y, rank 2, score 0.2500, label 0",
        "feature  score A - B     A        B  loss of nDCG@10",
        "shop         +1.0000  toys  missing          +0.1250",
        "bm25         +0.2500   3.5        1                0",
        "The contributions to score A - B sum to +1.2500 (TreeSHAP differences).",
        "loss of nDCG@10: decrease of the metric if the feature is replaced by its mean in the list, "
        "and a category by a missing value.",
    ]


class Foreign(rg.models.TrainedModel):
    """A model of a kind without contributions."""

    features = 5

    def score(self, features, offsets=None):
        return features[:, 0]

    def save(self, folder):
        raise NotImplementedError


def test_errors_are_one_sentence():
    model, lists = network("linear"), data()
    with pytest.raises(ValueError, match="query must be the id of a query in the data; got 'q9'"):
        model.explain(lists, "q9")
    with pytest.raises(ValueError, match=r"documents must be ids of documents .* from 1 to 6; got '7'"):
        model.explain(lists, "q0", (1, 7))
    with pytest.raises(ValueError, match="documents must be two different documents; got 2 twice"):
        model.explain(lists, "q0", (2, 2))
    with pytest.raises(ValueError, match="documents must be two documents; got 3 documents"):
        model.explain(lists, "q0", (1, 2, 3))
    with pytest.raises(ValueError, match="model must be of a kind that can compute contributions; got Foreign"):
        Foreign().explain(lists, "q0")
    with pytest.raises(ValueError, match="query must have at least two documents; got 1"):
        model.explain(data(length=1), "q0")
    narrow = Model(rg.rankers.build("linear", features=4), Preprocessing())
    with pytest.raises(ValueError, match=r"features must have 4 columns, as in training; got \(6, 5\)"):
        narrow.explain(lists, "q0")


def test_documents_of_an_estimator_have_the_given_ids():
    x, y, qid = rows()
    ids = np.array([f"p{row}" for row in range(len(y))])
    order = np.random.default_rng(0).permutation(len(y))
    ranker = quick("lightgbm").fit(x, y, qid=qid)
    plain = ranker.explain(x, y, qid=qid, query=3, documents=(2, 1))
    first, second = ids[qid == 3][[1, 0]]
    shuffled = {"qid": qid[order], "docids": ids[order], "query": 3}
    named = ranker.explain(x[order], y[order], **shuffled, documents=(first, second))
    assert named.documents == (first, second)
    np.testing.assert_allclose(named.contributions, plain.contributions)
    with pytest.raises(ValueError, match=r"docids must have one id per row, \(\d+,\); got \(3,\)"):
        ranker.explain(x, y, qid=qid, docids=["a", "b", "c"], query=3)


def test_a_number_without_a_printed_digit_is_0():
    found = network("linear").explain(data(), "q0")
    tiny = np.full(len(found.names), -1e-6)
    rows = replace(found, contributions=tiny, losses=-tiny).rows()
    assert {(row[1], row[4]) for row in rows[1 : 1 + len(tiny)]} == {("0", "0")}


def test_a_number_that_is_nan_is_printed_as_nan():
    found = network("linear").explain(data(), "q0")
    unknown = np.full(len(found.names), np.nan)
    rows = replace(found, contributions=unknown, losses=unknown).rows()
    assert {(row[1], row[4]) for row in rows[1 : 1 + len(unknown)]} == {("nan", "nan")}


def test_losses_of_a_list_that_the_metric_skips_are_nan():
    lists = data()
    lists = replace(lists, labels=np.zeros_like(lists.labels))
    text = str(network("linear").explain(lists, "q0", metric="nDCG(empty='skip')@5"))
    assert [line.split()[-1] for line in text.splitlines()[4:9]] == ["nan"] * 5
