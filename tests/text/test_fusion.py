"""Fusion: features of runs for rankers, weighted sums of scores, reciprocal ranks."""

from dataclasses import replace

import numpy as np
import pytest

import rankgrad as rg
from rankgrad.metrics import measure_run
from rankgrad.text import Collection, Texts, features, folds, fuse, reciprocal_rank_fusion, to_run

NDCG = "nDCG(gain='linear')@10"
RUNS = {
    "bm25": {"q1": {"a": 9.0, "b": 5.0, "c": 1.0}, "q2": {"a": 2.0}},
    "dense": {"q1": {"c": 0.5, "d": 0.25}, "q3": {"e": 0.5, "d": 0.5}},
}


def small():
    documents, queries = Texts(tuple("abcde"), ("",) * 5), Texts(("q1", "q2", "q3"), ("",) * 3)
    return Collection(documents, queries, {"q1": {"a": 2, "d": -1}, "q3": {"e": 1}}, name="small")


def table(data):
    """The rows of a data set by query and document."""
    pairs = zip(data.row_qids.tolist(), data.docids.tolist(), strict=True)
    return dict(zip(pairs, data.features.tolist(), strict=True))


def test_features_are_the_scores():
    data = features(small(), RUNS)
    assert data.feature_names == ("bm25", "dense")
    assert data.texts is None  # the first two features are no numbers
    assert table(data) == {
        ("q1", "a"): [9, 0.25], ("q1", "b"): [5, 0.25], ("q1", "c"): [1, 0.5], ("q1", "d"): [1, 0.25],
        ("q2", "a"): [2, 0], ("q3", "d"): [0, 0.5], ("q3", "e"): [0, 0.5],
    }  # fmt: skip
    labels = {pair: label for pair, label in zip(table(data), data.labels.tolist(), strict=True) if label}
    assert labels == {("q1", "a"): 2, ("q3", "e"): 1}
    assert {*table(features(small(), RUNS, depth=1))} == {("q1", "a"), ("q1", "c"), ("q2", "a"), ("q3", "d")}


def test_other_columns():
    length = {document: number for number, document in enumerate("abcde")}
    clicks = {"q1": {"a": 4.0, "c": 2.0}}
    data = features(small(), RUNS, columns={"length": length, "clicks": clicks})
    assert data.feature_names == ("bm25", "dense", "length", "clicks")
    assert table(data)["q1", "c"] == [1, 0.5, 2, 2]
    assert table(data)["q1", "d"] == [1, 0.25, 3, 2]  # the lowest value of the query
    assert table(data)["q3", "e"] == [0, 0.5, 4, 0]


def test_standardised_features():
    plain = features(small(), RUNS)
    for name, function in {
        "zscore": lambda x: (x - x.mean()) / x.std(),
        "minmax": lambda x: (x - x.min()) / (x.max() - x.min()),
    }.items():
        data = features(small(), RUNS, standardise=name)
        for start, end in zip(plain.offsets[:-1], plain.offsets[1:], strict=True):
            for column in range(2):
                values = plain.features[start:end, column].astype(np.float64)
                expected = function(values) if len({*values}) > 1 else np.zeros(len(values))
                np.testing.assert_allclose(data.features[start:end, column], expected, atol=1e-6)


@pytest.mark.parametrize("standardise", ["zscore", "minmax"])
def test_equal_scores_become_exactly_0(standardise):
    equal = {"q1": dict.fromkeys("abc", 0.1)}  # the mean of three times 0.1 is not 0.1
    assert fuse([equal], standardise=standardise) == {"q1": dict.fromkeys("abc", 0.0)}


@pytest.mark.parametrize("fusion", [fuse, lambda runs: fuse(runs, standardise="minmax"), reciprocal_rank_fusion])
def test_a_query_that_no_run_has_a_document_for_stays_empty(fusion):
    fused = fusion([{"q1": {"a": 1.0}, "q2": {}}, {"q2": {}}])
    assert {query: list(scores) for query, scores in fused.items()} == {"q1": ["a"], "q2": []}


@pytest.mark.parametrize("standardise", ["zscore", "minmax", "none"])
def test_fused_runs_are_weighted_sums_of_features(standardise):
    fused = fuse(RUNS, {"dense": 2.0, "bm25": 0.5}, standardise=standardise)
    data = features(small(), RUNS, standardise=standardise)
    expected = to_run(data, data.features.astype(np.float64) @ [0.5, 2.0])
    assert fused.keys() == expected.keys()
    for query, scores in fused.items():
        assert scores == pytest.approx(expected[query], abs=1e-5)
        assert list(scores.values()) == sorted(scores.values(), reverse=True)
    assert fuse(list(RUNS.values()), [0.5, 2.0], standardise=standardise) == fused
    assert fuse(RUNS, standardise=standardise) == fuse(RUNS, [1, 1], standardise=standardise)


def test_reciprocal_ranks():
    fused = reciprocal_rank_fusion(RUNS)
    assert fused["q1"] == pytest.approx({"a": 1 / 61, "b": 1 / 62, "c": 1 / 63 + 1 / 61, "d": 1 / 62})
    assert list(fused["q1"]) == ["c", "a", "b", "d"]
    assert fused["q2"] == {"a": 1 / 61}
    assert reciprocal_rank_fusion([RUNS["bm25"]], k=0)["q1"] == {"a": 1.0, "b": 0.5, "c": 1 / 3}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fuse({}), "runs must contain at least one run; got none"),
        (lambda: fuse(RUNS["bm25"]), r"runs must be several runs, each \{query: \{document: score\}\}; got another"),
        (lambda: fuse(RUNS, {"bm25": 1.0}), r"weights must have the names of the runs, 'bm25', 'dense'; got \['bm25'"),
        (lambda: fuse(RUNS, [1.0]), r"weights must be 2 finite numbers, one per run; got \[1\.0\]"),
        (lambda: fuse(RUNS, standardise="z"), "standardise must be one of 'none', 'zscore', 'minmax'; got 'z'"),
        (lambda: fuse([{"q1": {"a": float("nan")}}]), "runs must have finite scores; got NaN or infinity in query"),
        (lambda: features(small(), RUNS, standardise="z"), "standardise must be one of 'none', 'zscore', 'minmax'; "),
        (lambda: features(small(), RUNS["bm25"]), "runs must be several runs"),
        (lambda: features(small(), RUNS, columns={"bm25": {}}), "columns must have names that no run has; got 'b"),
        (lambda: features(small(), RUNS, columns={"size": {"a": 1}}), "column 'size' must have a value for each"),
        (lambda: reciprocal_rank_fusion(RUNS, k=-1), "k must be a finite number of at least 0; got -1"),
    ],
)  # fmt: skip
def test_bad_calls_of_fusion(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def drawn(queries=60, documents=300, size=40, seed=0):
    """A collection with two runs; each sees the labels through noise of its own and on its own scale."""
    draw = np.random.default_rng(seed)
    ids, qids = tuple(f"d{n}" for n in range(documents)), tuple(f"q{n}" for n in range(queries))
    qrels, runs = {}, {"words": {}, "meaning": {}}
    for query in qids:
        chosen = draw.choice(documents, size, replace=False)
        labels = draw.choice([0, 0, 0, 1, 2], size)
        qrels[query] = {ids[n]: int(label) for n, label in zip(chosen, labels, strict=True)}
        for name, scale in (("words", 20), ("meaning", 0.1)):
            scores = 5 + scale * (labels + 1.5 * draw.standard_normal(size) + 3 * draw.standard_normal())
            found = np.argsort(-scores)[:30]  # a run does not contain all documents
            runs[name][query] = {ids[chosen[n]]: float(scores[n]) for n in found}
    return Collection(Texts(ids, ("",) * documents), Texts(qids, ("",) * queries), qrels), runs


def test_a_ranker_on_held_out_queries_beats_each_run():
    collection, runs = drawn(queries=90)
    data = features(collection, runs, standardise="zscore")
    parts = folds(data, 1, parts=3, queries=collection.queries.ids)
    train, held, test = parts.train, parts.validation, parts.test
    ranker = rg.Ranker(model="linear", loss="softmax", epochs=4, lr=0.05, batch_size=10)
    known = {"eval_set": (held.features, held.labels), "eval_qid": held.row_qids}
    ranker.fit(train.features, train.labels, qid=train.row_qids, **known)
    qrels = {query: collection.qrels[query] for query in test.qids.tolist()}

    def ndcg(run):
        return measure_run(run, qrels, NDCG, complete=True, bootstrap=0)[NDCG]

    alone = max(ndcg(run) for run in runs.values())
    assert ndcg(to_run(test, ranker.predict(test.features, qid=test.row_qids))) > alone + 0.03
    assert ndcg(fuse(runs)) > alone + 0.03
    assert ndcg(reciprocal_rank_fusion(runs)) > alone + 0.01


def test_trees_fit_on_the_features():
    pytest.importorskip("lightgbm")
    collection, runs = drawn(queries=20)
    data = features(collection, runs, columns={"length": dict.fromkeys(collection.documents.ids, 3.0)})
    ranker = rg.trees.TreeRanker(loss="lambdarank", trees=5)
    ranker.fit(data.features, data.labels, qid=data.row_qids)
    found = to_run(replace(data, texts=collection), ranker.predict(data.features, qid=data.row_qids))
    assert found.keys() == {*collection.queries.ids}
