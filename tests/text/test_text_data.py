"""Text data sets by name: `text:path=...` in `load`, and metrics with all qrels."""

import subprocess
import sys

import numpy as np
import pytest
from paths import SHARED
from tiny_collection import tiny_collection

from rankgrad import metrics
from rankgrad.data import datasets, load, loading
from rankgrad.data.evaluation import AS_TREC_EVAL, evaluate_lists
from rankgrad.text import candidate_lists, folds
from rankgrad.text import load as load_collection
from rankgrad.text.bm25 import BM25Index

pytest.importorskip("bm25s")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tiny_collection(tmp_path_factory.mktemp("root") / "tiny").parent


def test_a_spec_is_the_candidates_of_bm25_in_folds(root):
    splits = load("text:path=tiny,depth=4", fold=2, root=root)
    collection = load_collection(root / "tiny")
    run = BM25Index.build(collection.documents).search(collection.queries, k=4)
    wanted = folds(candidate_lists(collection, run, depth=4), 2)
    for name in ("train", "validation", "test"):
        part, other = getattr(splits, name), getattr(wanted, name)
        assert part.docids.tolist() == other.docids.tolist()
        assert part.qids.tolist() == other.qids.tolist()
        assert np.array_equal(part.features, other.features)
        assert part.name == f"tiny fold 2 {name}"
    again = load("text:path=tiny,depth=4", fold=3, root=root)
    assert again.train.texts is splits.train.texts  # read once per process
    three = [load("text:path=tiny,parts=3", fold=fold, root=root).test.qids for fold in (1, 2, 3)]
    assert sorted(np.concatenate(three).tolist()) == sorted(collection.queries.ids)


@pytest.mark.filterwarnings("ignore:Queries without labels")
def test_options_reach_the_collection_and_bm25(root, tmp_path):
    (tmp_path / "some.tsv").write_text("q0\twing\nq1\tflap\nq2\theat\nq3\tslab\nq4\tshock\n")
    (tmp_path / "judged").write_text("q0 0 d0a 3\n")
    spec = f"text:path=tiny,queries={tmp_path / 'some.tsv'},qrels={tmp_path / 'judged'},name=mine,k1=0,b=0"
    data = loading.text_source(spec).lists(root)
    assert (len(data), data.name, data.labels.max()) == (5, "mine", 3)
    # With k1=0, each word counts once in a document: all documents with the word have the same score.
    assert {
        len(set(data.features[start:end, 2])) for start, end in zip(data.offsets[:-1], data.offsets[1:], strict=True)
    } == {1}
    usual = loading.text_source("text:path=tiny").lists(root)
    assert len(set(usual.features[: usual.offsets[1], 2])) > 1


def test_a_spec_is_checked_before_anything_is_read(root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RANKGRAD_DATA", raising=False)
    loading.check_source("text:path=tiny", fold=5, root=root)
    for spec, said in {
        "text": "name must have the option path, such as text:path=cranfield; got 'text'",
        "text:depth=5": "name must have the option path",
        "text:path=tiny,deph=5": "option must be an option of text .*; got 'deph'; did you mean 'depth'",
        "text:path=tiny,depth=0": "depth of text must be at least 1; got 0",
        "text:path=tiny,depth=x": "depth of text must be an integer; got 'x'",
        "text:path=tiny,b=2": "b of text must be from 0 to 1; got 2",
        "text:path=tiny,parts=2": "parts of text must be at least 3; got 2",
        "text:path=tiny,topic=heading": "topic must be 'title', .*; got 'heading'",
    }.items():
        with pytest.raises(ValueError, match=said):
            loading.check_source(spec, fold=1, root=root)
    for fold in (None, 0, 6):
        with pytest.raises(ValueError, match=f"fold must be 1 to 5 for a text data set; got {fold}"):
            loading.check_source("text:path=tiny", fold=fold, root=root)
    with pytest.raises(FileNotFoundError, match=r"root must contain gone \(put it there, .*\); got no such file"):
        loading.check_source("text:path=gone", fold=1, root=root)
    (tmp_path / "text").mkdir()
    assert not loading.is_text("text")  # an existing folder is a folder


def test_paths_are_in_the_root_then_in_the_current_folder(root, tmp_path, monkeypatch):
    monkeypatch.chdir(root)
    assert loading.text_source("text:path=tiny,depth=7").absolute() == f"text:path={root}/tiny,depth=7"
    assert loading.text_source("text:path=tiny").absolute(tmp_path) == f"text:path={root}/tiny"
    assert loading.text_source("text:path=other").absolute("/data") == "text:path=/data/other"
    assert loading.text_source("text:path=ir_datasets:a/b").absolute("/data") == "text:path=ir_datasets:a/b"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RANKGRAD_DATA", str(root))
    assert len(load("text:path=tiny", fold=1).test) == 3


def test_names_in_tables_and_lists():
    for spec, label in {
        "text:path=/a/Robust04,depth=150": "Robust04",
        "text:path=robust,name=Robust04": "Robust04",
        "text(path=x/cranfield)": "cranfield",
        "MQ2008": "MQ2008",
        "text": "text",
        "text:a=(": "text:a=(",
    }.items():
        assert loading.data_label(spec) == label
    assert any(facts.name == "text" and "text:path=FOLDER" in facts.note for facts in datasets())


def test_importing_data_does_not_import_text():
    code = "import sys, rankgrad.data; rankgrad.data.load('synthetic:lists=5'); print('rankgrad.text' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_metrics_are_those_of_trec_eval_with_all_qrels(root):
    pytrec_eval = pytest.importorskip("pytrec_eval")
    test = load("text:path=tiny,depth=4", fold=1, root=root).test
    scores = np.round(np.random.default_rng(0).normal(size=len(test.labels)), 1)  # with ties
    specs = {"nDCG(gain='linear')@10": "ndcg_cut_10", "AP": "map", "P@5": "P_5", "R@10": "recall_10"}
    found = evaluate_lists(scores, test, [*specs])
    run = metrics.trec.to_run(scores, test.offsets, test.qids, test.docids.tolist())
    theirs = pytrec_eval.RelevanceEvaluator(test.texts.qrels, {"ndcg_cut", "map", "P", "recall"}).evaluate(run)
    for ours, name in specs.items():
        assert found.values[ours] == pytest.approx([theirs[query][name] for query in test.qids.tolist()])
    listed = metrics.evaluate(scores, test.labels, [*specs], offsets=test.offsets)
    assert found["AP"] < listed["AP"]  # a relevant document of each query is not among the candidates
    assert found["nDCG(gain='linear')@10"] < listed["nDCG(gain='linear')@10"]
    assert found.notes() == [AS_TREC_EVAL, "intervals are rough: they are over fewer than 10 lists"]
    assert found.conventions["AP"]["ties"] == "trec"
    assert found.queries == tuple(test.qids.tolist())


@pytest.mark.filterwarnings("ignore:Queries without labels")
def test_queries_without_qrels_are_skipped_and_own_metrics_see_lists(root, tmp_path):
    (tmp_path / "judged").write_text("q3 0 d3a 1\nq5 0 d5c 1\n")
    data = loading.text_source(f"text:path=tiny,qrels={tmp_path / 'judged'}").lists(root)

    def first_label(scores, labels):
        return labels[scores.argmax()]

    found = evaluate_lists(data.features[:, 2], data, ["AP", first_label, "nDCG(ties='expected')@3"])
    known = [place for place, query in enumerate(data.qids.tolist()) if query in ("q3", "q5")]
    assert np.flatnonzero(~np.isnan(found.values["AP"])).tolist() == known
    assert found.values["AP"][known].tolist() == [1.0, 0.0]
    assert found["AP"] == 0.5
    own = next(name for name in found if "first_label" in name)
    assert len(found.values[own]) == len(data)
    assert [*found][1] == own  # the order of the metrics is that of the caller
    assert found.conventions["nDCG(ties='expected')@3"]["ties"] == "expected"
    with pytest.raises(ValueError, match=r"data must contain a query that is in the qrels .*; got none in 2"):
        evaluate_lists(data.features[: data.offsets[2], 2], data.take([0, 1]), "AP")


def test_cranfield_by_name():
    if not (SHARED / "data" / "cranfield").is_dir():
        pytest.skip("needs ../shared/data/cranfield")
    metric, values = "nDCG(gain='linear')@10", []
    for fold in range(1, 6):
        with pytest.warns(UserWarning, match="Documents without text are kept"):  # for every fold
            test = load("text:path=cranfield", fold=fold, root=SHARED / "data").test
        values += evaluate_lists(test.features[:, 2], test, metric, bootstrap=0).values[metric].tolist()
    assert len(values) == 225
    assert np.mean(values) == pytest.approx(0.398, abs=0.01)
