"""Candidate lists, folds of queries, pools, hard negatives, and runs that trec_eval measures in the same way."""

import itertools
import random
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from paths import SHARED

import rankgrad as rg
from rankgrad.metrics import evaluate, measure_run, read_run, write_run
from rankgrad.text import BM25Index, Collection, Texts, candidate_lists, folds, hard_negatives, load, pool, to_run

TREC = {
    "map": "AP",
    "P_10": "P@10",
    "recall_100": "R@100",
    "ndcg_cut_10": "nDCG(gain='linear')@10",
    "ndcg_cut_20": "nDCG(gain='linear')@20",
    "recip_rank": "RR",
}


def drawn(documents=120, queries=30, seed=0):
    """A collection with equal scores, negative and missing labels, excluded documents and a query without words."""
    draw = random.Random(seed)
    words = [f"w{number}" for number in range(25)]
    texts = tuple(" ".join(draw.choices(words, k=draw.randint(0, 5))) for _ in range(documents))
    asked = tuple(" ".join(draw.choices(words, k=2)) if place else "" for place in range(queries))
    ids = tuple(f"d{number}" for number in range(documents))
    qids = tuple(f"q{number}" for number in range(queries))
    qrels = {query: {each: draw.choice([-1, 0, 0, 1, 2, 3]) for each in draw.sample(ids, 12)} for query in qids}
    excluded = {query: frozenset(draw.sample(ids, 3)) for query in qids[::2]}
    return Collection(Texts(ids, texts), Texts(qids, asked), qrels, excluded, name="drawn")


@pytest.fixture(scope="module")
def collection():
    return drawn()


@pytest.fixture(scope="module")
def run(collection):
    pytest.importorskip("bm25s")
    return BM25Index.build(collection.documents).search(collection.queries, 50, collection.excluded)


def small(**changes):
    documents, queries = Texts(tuple("abcde"), ("",) * 5), Texts(("q1", "q2", "q3"), ("",) * 3)
    collection = Collection(
        documents, queries, {"q1": {"a": 2, "e": 1, "c": -1, "d": 0, "x": 1}, "q2": {"b": 1, "c": 0}}
    )
    return replace(collection, **changes)


def rows(data):
    return {one.qid: list(zip(one.docids.tolist(), one.labels.tolist(), strict=True)) for one in data}


def test_columns_labels_and_texts(collection, run):
    with pytest.warns(UserWarning, match="1 of 30 queries have no candidates, and are left out"):
        data = candidate_lists(collection, run, depth=10)
    assert data.texts is collection
    assert data.feature_names == ("query", "document", "bm25")
    assert (data.name, data.features.dtype, data.labels.dtype) == ("drawn", np.float32, np.float32)
    assert data.qids.tolist() == [query for query in collection.queries.ids if run[query]]
    for one in data:
        found = one.docids.tolist()
        assert found == list(run[one.qid])[:10]
        assert {collection.queries.ids[int(number)] for number in one.features[:, 0]} == {one.qid}
        assert [collection.documents.ids[int(number)] for number in one.features[:, 1]] == found
        assert one.features[:, 2].tolist() == [run[one.qid][each] for each in found]
        assert one.labels.tolist() == [max(collection.qrels[one.qid].get(each, 0), 0) for each in found]
        assert not {*found} & collection.excluded.get(one.qid, frozenset())


def test_a_run_in_a_file_has_the_same_candidates(collection, run, tmp_path):
    write_run(tmp_path / "run.txt", run)
    with pytest.warns(UserWarning, match="no candidates"):
        one, other = (candidate_lists(collection, each, depth=7) for each in (run, read_run(tmp_path / "run.txt")))
    assert one.docids.tolist() == other.docids.tolist()  # equal scores are at the end of many lists
    np.testing.assert_array_equal(one.features, other.features)


@pytest.mark.filterwarnings("ignore:1 of 3 queries")
def test_relevant_documents_are_added_with_the_lowest_score():
    run = {"q1": {"d": 3.0, "c": 1.0, "b": 2.0}, "q2": {"a": -1.0}}
    labelled = small(qrels={**small().qrels, "q3": {"a": 1}})  # without candidates, q3 is left out all the same
    data = candidate_lists(labelled, run, depth=2, add_relevant=True, name="mine")
    assert rows(data) == {"q1": [("d", 0), ("b", 0), ("a", 2), ("e", 1)], "q2": [("a", 0), ("b", 1)]}
    assert data.feature_names == ("query", "document", "mine")
    # The lowest score of the query is that of c, below the depth.
    assert data.features[:, 2].tolist() == [3, 2, 1, 1, -1, -1]
    assert rows(candidate_lists(small(), run, depth=1)) == {"q1": [("d", 0)], "q2": [("a", 0)]}
    excluded = small(excluded={"q1": frozenset("de")})
    assert rows(candidate_lists(excluded, run, depth=1, add_relevant=True))["q1"] == [("b", 0), ("a", 2)]
    assert rows(candidate_lists(small(), run, depth=None))["q1"] == [("d", 0), ("b", 0), ("c", 0)]


@pytest.mark.filterwarnings("ignore:1 of 3 queries")
def test_several_runs():
    runs = {"bm25": {"q1": {"d": 3.0, "c": 1.0}}, "dense": {"q1": {"a": 0.5, "d": 0.25}, "q2": {"b": 0.75}}}
    data = candidate_lists(small(), runs)
    assert data.feature_names == ("query", "document", "bm25", "dense")
    assert rows(data) == {"q1": [("d", 0), ("a", 2), ("c", 0)], "q2": [("b", 1)]}
    assert data.features[:, 2:].tolist() == [[3, 0.25], [1, 0.5], [1, 0.25], [0, 0.75]]


def test_unknown_ids_are_left_out_with_a_sentence():
    run = {"q1": {"a": 1.0, "zz": 2.0}, "q9": {"a": 1.0}, "q2": {"a": 1.0}, "q3": {"a": 1.0}}
    with pytest.warns(UserWarning, match="bm25 has 2 ids of queries and documents that are not in the collection"):
        data = candidate_lists(small(), run)
    assert rows(data)["q1"] == [("a", 2)]
    assert data.qids.tolist() == ["q1", "q2", "q3"]


def test_ties_are_in_the_order_of_the_documents():
    run = {query: {"e": 1.0, "b": 1.0, "d": 2.0, "a": 1.0} for query in ("q1", "q2", "q3")}
    data = candidate_lists(small(), run, depth=3)
    assert data[0].docids.tolist() == ["d", "a", "b"]


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ({"q1": {"a": float("nan")}}, "bm25 must have scores that are finite in float32; got nan in query 'q1'"),
        ({"q1": {"a": 1e39}}, "bm25 must have scores that are finite in float32"),
        ({"query": {"q1": {"a": 1.0}}}, "run must not have the name 'query' or 'document'; got 'query'"),
        ({"q1": {}}, "run must contain a document of the collection; got none"),
    ],
)
@pytest.mark.filterwarnings("ignore:. of 3 queries")
def test_bad_runs(run, message):
    with pytest.raises(ValueError, match=message):
        candidate_lists(small(), run)


def test_numbers_that_float32_does_not_represent(monkeypatch):
    monkeypatch.setattr("rankgrad.text.candidates.LARGEST", 4)
    with pytest.raises(ValueError, match="documents must be at most 4 in a text data set; got 5"):
        candidate_lists(small(), {"q1": {"a": 1.0}})


@pytest.mark.filterwarnings("ignore:1 of 30 queries")
def test_folds(collection, run):
    data = candidate_lists(collection, run, depth=5)
    parts = [folds(data, fold) for fold in range(1, 6)]
    tests = [each.test.qids.tolist() for each in parts]
    assert sorted(itertools.chain(*tests)) == sorted(data.qids.tolist())
    for number, each in enumerate(parts):
        assert each.validation.qids.tolist() == tests[number - 1]
        assert sorted(each.train.qids.tolist()) == sorted(itertools.chain(*(tests[number - n] for n in (2, 3, 4))))
        assert each.train.texts is collection
        assert each.test.name == f"drawn fold {number + 1} test"
    assert sorted(map(len, tests)) == [5, 6, 6, 6, 6]
    backwards = folds(data.take(slice(None, None, -1)), 2).test.qids.tolist()
    assert backwards[::-1] == tests[1]
    # Lists that are missing change nothing: the queries of the collection are divided, not those of the lists.
    assert folds(data.take(slice(10, None)), 3).test.qids.tolist() == [q for q in tests[2] if q in data.qids[10:]]
    plain = replace(data, texts=None)
    assert folds(plain, 4, queries=collection.queries.ids).test.qids.tolist() == tests[3]
    assert len(folds(plain, 7, parts=10).train) == 23


def test_folds_do_not_change_between_releases():
    queries = Texts(tuple(map(str, range(1, 16))), ("",) * 15)
    collection = Collection(Texts(("a",), ("",)), queries)
    data = candidate_lists(collection, {query: {"a": 1.0} for query in queries.ids})
    assert [folds(data, fold).test.qids.tolist() for fold in range(1, 6)] == [
        ["4", "13", "15"],
        ["5", "6", "11"],
        ["2", "7", "9"],
        ["3", "10", "14"],
        ["1", "8", "12"],
    ]
    assert folds(data, 1).train.labels.max() == 0  # lists without labels are also there


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fold": 0}, "fold must be from 1 to 5; got 0"),
        ({"fold": 6}, "fold must be from 1 to 5; got 6"),
        ({"fold": 1, "parts": 2}, "parts must be at least 3, for training, validation and test; got 2"),
        ({"fold": 1, "queries": ["q1"]}, "queries must contain each query of data; got no query 'q2'"),
    ],
)
def test_bad_folds(options, message):
    data = candidate_lists(small(), {query: {"a": 1.0} for query in ("q1", "q2", "q3")})
    with pytest.raises(ValueError, match=message):
        folds(data, **options)


def test_pools():
    one, other = {"q1": {"a": 3.0, "b": 2.0, "c": 1.0}}, {"q2": {"a": 1.0}, "q1": {"b": 1.0, "d": 0.5, "e": 0.0}}
    assert pool([one, other], 2) == {"q1": ["a", "b", "d"], "q2": ["a"]}
    assert pool({"x": other, "y": one}, None) == {"q2": ["a"], "q1": ["b", "a", "d", "e", "c"]}


def test_hard_negatives():
    run = {"q1": {"a": 5.0, "b": 4.0, "c": 3.0, "d": 2.0, "e": 1.0}, "q3": {"e": 1.0}}
    assert hard_negatives(small(), run) == {"q1": ["b", "c", "d"], "q3": ["e"]}
    assert hard_negatives(small(), run, first=2, last=4) == {"q1": ["c", "d"], "q3": []}
    assert hard_negatives(small(excluded={"q1": frozenset("b")}), run, number=1) == {"q1": ["c"], "q3": ["e"]}


def trec_eval(run, qrels):
    pytrec_eval = pytest.importorskip("pytrec_eval")
    return pytrec_eval.RelevanceEvaluator(qrels, set(TREC)).evaluate(run)


def check_as_trec_eval(run, qrels, path):
    """A run in memory, and in a file, has the values of trec_eval; queries without documents count."""
    write_run(path, run)
    for each in (run, read_run(path)):
        theirs = trec_eval(each, qrels)
        ours = measure_run(each, qrels, TREC.values(), complete=True, bootstrap=0)
        assert ours.queries == tuple(qrels)
        for measure, metric in TREC.items():
            expected = [theirs.get(query, {}).get(measure, 0.0) for query in qrels]
            np.testing.assert_allclose(ours.values[metric], expected, atol=1e-9, err_msg=measure)
    return ours


def test_runs_are_measured_as_trec_eval_does(collection, run, tmp_path):
    ours = check_as_trec_eval(run, collection.qrels, tmp_path / "run.txt")
    assert 0 < ours["AP"] < 1
    # Equal scores decide: with them broken the other way, the values differ.
    backwards = {
        query: {each: s + 1e-3 * n for n, (each, s) in enumerate(found.items())} for query, found in run.items()
    }
    assert measure_run(backwards, collection.qrels, "AP", complete=True, bootstrap=0)["AP"] != pytest.approx(ours["AP"])


@pytest.mark.filterwarnings("ignore:1 of 30 queries")
def test_scores_of_lists_are_a_run(collection, run, tmp_path):
    data = candidate_lists(collection, run, depth=20)
    scores = torch.linspace(0, 1, len(data.labels), requires_grad=True)
    found = to_run(data, scores)
    assert found == to_run(data, scores.detach().numpy())
    assert found["q1"] == dict(zip(data[0].docids.tolist(), scores.tolist(), strict=False))
    ours = check_as_trec_eval(found, collection.qrels, tmp_path / "run.txt")
    metric = TREC["ndcg_cut_10"]
    # In the lists alone, relevant documents that are no candidates do not count.
    assert evaluate(scores.detach(), data.labels, metric, offsets=data.offsets)[metric] > ours[metric]
    with pytest.raises(ValueError, match=r"scores must have one score per document, \(\d+,\); got \(3,\)"):
        to_run(data, [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="data must have document ids; got docids=None"):
        to_run(replace(data, docids=None), scores)


@pytest.mark.skipif(not (SHARED / "data").is_dir(), reason="the shared data folder is not beside the repository")
@pytest.mark.parametrize(("name", "expected"), [("cranfield", 39.1), ("vaswani", 40.1)])
def test_bm25_on_real_collections(name, expected, tmp_path):
    pytest.importorskip("bm25s")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        collection = load(SHARED / "data" / name)
    run = BM25Index.build(collection.documents).search(collection.queries, 100, collection.excluded)
    ours = check_as_trec_eval(run, collection.qrels, tmp_path / "run.txt.gz")
    assert 100 * ours["nDCG(gain='linear')@10"] == pytest.approx(expected, abs=0.1)
    data = candidate_lists(collection, run)
    assert len(data) == len(collection.queries)
    assert sum(len(folds(data, fold).test) for fold in range(1, 6)) == len(data)


def test_rankers_of_features_do_not_read_the_numbers_of_texts():
    words = {f"d{number}": "wing" for number in range(30)}
    queries = {f"q{number}": "wing" for number in range(6)}
    collection = Collection(words, queries, {query: {"d3": 1, "d7": 1} for query in queries})
    rng = np.random.default_rng(0)
    run = {
        query: {document: float(rng.normal() + 3 * (document in ("d3", "d7"))) for document in words}
        for query in queries
    }
    data = candidate_lists(collection, run)
    model = rg.models.registry.kind_of("linear").fit({"model": "linear", "epochs": 2}, data)
    assert model.feature_names == ("bm25",)
    assert model.score_lists(data).shape == data.labels.shape
    only = replace(data, features=data.features[:, :2], feature_names=data.feature_names[:2])
    with pytest.raises(ValueError, match="a feature such as bm25, in addition to the numbers of query and document"):
        only.without_numbers()


def test_collections_from_python_are_checked():
    with pytest.raises(TypeError, match=r"ids must be texts; got 1 \(int\) at position 0"):
        Texts([1, 2], ["a", "b"])
    with pytest.raises(TypeError, match=r"texts must be texts; got None \(NoneType\) at position 1"):
        Texts(["a", "b"], ["x", None])
    with pytest.raises(TypeError, match="documents must be Texts"):
        Collection(["boat"], {"q": "boat"})
    with pytest.raises(TypeError, match=r"qrels must have the form \{query: \{document: label\}\}"):
        Collection({"d": "boat"}, {"q": "boat"}, {"q": ["d"]})
