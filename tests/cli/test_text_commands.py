"""`rankgrad text`: from files of text to a re-ranked and measured run, as typed."""

import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_collection import TOPICS, made_collection
from programs import invoke, run_here
from tiny_encoder import tiny_encoder
from typer.main import get_command

import rankgrad as rg
from rankgrad.cli import app
from rankgrad.cli.overwrite import remove_run
from rankgrad.cli.text import scoring
from rankgrad.cli.text.search import snippet
from rankgrad.cli.text.text_models import _embeddings_path
from rankgrad.cli.text.training_lists import TextLists
from rankgrad.data import load
from rankgrad.data.evaluation import evaluate_lists
from rankgrad.experiments.statistics import holm
from rankgrad.metrics import read_qrels, read_run, write_run
from rankgrad.text import BiEncoderRanker, CrossEncoderRanker, candidate_lists, folds, fuse, to_run
from rankgrad.text.bi_encoder import BiEncoder
from rankgrad.text.encoder_files import replace_encoder, settle_encoder
from rankgrad.text.training import TextTraining
from rankgrad.training import Settings, train

pytest.importorskip("transformers")
pytest.importorskip("bm25s")

OPTIONS = get_command(app).commands["text"].commands
QUICK = ("--device", "cpu", "--lr", "1e-3")


def text(*words):
    return run_here("text", *words)


def complaint(*words):
    with pytest.raises((ValueError, OSError, ImportError)) as caught:
        text(*words)
    return str(caught.value)


@pytest.fixture(autouse=True)
def _wide_screen(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")


class Folders:
    """A collection, an encoder, an index, a BM25 run and a trained model."""

    def __init__(self, root):
        self.root, self.index, self.bm25, self.model = root, root / "index", root / "bm25.txt", root / "model"
        self.files = made_collection(root / "wings")
        words = " ".join([*TOPICS, "on number of a", *(f"word{number}" for number in range(40))])
        self.encoder = tiny_encoder(root / "encoder", words=words, hidden=16, layers=1)
        self.told = text("index", self.files, "--out", self.index)
        text("search", self.index, "--out", self.bm25)
        words = ("--loss", "lambdaloss@10", "--fold", 1, "--epochs", 2, "--out", self.model)
        self.trained = text("train", self.index, "--encoder", self.encoder, *QUICK, *words)
        self.collection = rg.text.load(self.index / "collection")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return Folders(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def cross(made):
    """The folder of a cross-encoder."""
    words = ("--model", "cross_encoder", "--epochs", 1, "--max-length", 64, *QUICK, "--out", made.root / "cross")
    text("train", made.index, "--encoder", made.encoder, *words)
    return made.root / "cross"


def test_defects_of_a_collection_are_told_once_and_nothing_is_lost(made, tmp_path):
    for sentence in (
        "Documents without text are kept: 1, such as 'empty'.",
        "Documents that have the id of an earlier document but a different text are left out: 1, such as 'd0'",
        "Some queries of the qrels are not in the collection: 1, such as 'stranger'.",
        "Some labels are for documents that are not in the collection: 1, such as 'unknown'; "
        "they count in the ideal DCG",
    ):
        assert made.told.count(sentence) == 1
    assert "39 documents, 12 queries" in made.told
    assert "warning" not in made.trained
    documents = made.collection.documents
    assert len(documents.texts[documents.numbers["long"]]) == 100_000
    assert documents.texts[documents.numbers["d0"]].startswith("wing")
    assert read_run(made.bm25)["qc"].keys() == {"лист"}
    text("search", made.index, "--encoder", made.encoder, "--device", "cpu", "--out", tmp_path / "dense.txt")
    dense = read_run(tmp_path / "dense.txt")
    assert all(scores.keys() == set(documents.ids) for scores in dense.values())  # also the empty and the long one
    text("rerank", made.model, made.index, "--run", tmp_path / "dense.txt", "--out", tmp_path / "run.txt")
    assert {query: set(scores) for query, scores in read_run(tmp_path / "run.txt").items()} == {
        query: set(scores) for query, scores in dense.items()
    }


def test_evaluate_equals_pytrec_eval(made, tmp_path):
    pytrec_eval = pytest.importorskip("pytrec_eval")
    ttest = pytest.importorskip("scipy.stats").ttest_rel
    text("rerank", made.model, made.index, "--out", tmp_path / "a.txt")
    text("rerank", made.model, made.index, "--run", made.bm25, "--fuse", "--out", tmp_path / "b.txt")
    runs = [made.bm25, tmp_path / "a.txt", tmp_path / "b.txt"]
    found = json.loads(text("evaluate", made.index, *runs, "--json", "--each"))
    qrels = {query: labels for query, labels in read_qrels(made.files / "qrels.txt").items() if query != "stranger"}
    names = {"ndcg_cut_10": "nDCG(gain='linear')@10", "ndcg_cut_20": "nDCG(gain='linear')@20", "map": "AP"}
    names["P_10"] = "P@10"
    judge = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10,20", "map", "P.10"})
    values = {}
    for run in runs:
        expected = judge.evaluate(read_run(run))
        ours = found["runs"][str(run)]
        for theirs, name in names.items():
            values[run, name] = [expected[query][theirs] for query in ours["queries"]]
            np.testing.assert_allclose(ours["metrics"][name]["values"], values[run, name], atol=1e-6)
    assert found["queries"] == len(qrels) == 12
    for name in names.values():
        p = [ttest(values[run, name], values[runs[0], name]).pvalue for run in runs[1:]]
        p = np.nan_to_num(p, nan=1.0)  # of equal values
        rows = [row for row in found["tests"] if row["metric"] == name]
        np.testing.assert_allclose([row["p"] for row in rows], p, atol=1e-6)
        np.testing.assert_allclose([row["holm"] for row in rows], holm(p), atol=1e-6)
    told = text("evaluate", made.index, *runs, "-m", "AP")
    assert "on 12 queries; paired t-test; Holm's correction for 2 comparisons per metric" in told.replace("\n", " ")
    assert "95% interval" in text("evaluate", made.index, made.bm25)


def test_a_fold_is_measured_on_its_test_queries_only(made):
    first = rg.text.BM25Index.load(made.index / "bm25").search(made.collection.queries)
    test = folds(candidate_lists(made.collection, first), 1).test
    found = json.loads(text("evaluate", made.index, made.bm25, made.model, "--fold", 1, "--json", "--each"))
    run = found["runs"][str(made.model)]
    assert sorted(run["queries"]) == sorted(test.qids.tolist())
    kept = json.loads((made.model / "metrics.json").read_text())["test"]
    assert {name: each["mean"] for name, each in run["metrics"].items()} == pytest.approx(kept)
    again = json.loads(text("evaluate", made.index, made.model / "test-run.txt", "--fold", 1, "--json"))
    assert again["runs"][str(made.model / "test-run.txt")]["metrics"]["AP"]["mean"] == pytest.approx(kept["AP"])


def test_measured_queries_that_a_run_or_its_teachers_saw_are_told(made, tmp_path):
    def told(*words):
        return re.sub(r"\s+", "", text(*words))

    def sentence(count, folder, fold="fold1of5"):
        return f"{count}measuredquerieswereusedinthetrainingof{folder}({fold})"

    assert "wereusedinthetraining" not in told("evaluate", made.index, made.model, "--fold", 1)
    assert sentence("10of12", made.model) in told("evaluate", made.index, made.model)
    assert sentence("3of3", made.model) in told("evaluate", made.index, made.model, "--fold", 1, "--folds", 4)
    (tmp_path / "other.tsv").write_text("q0\theat slab\n")
    (tmp_path / "other.txt").write_text("q0 0 d0 1\n")
    other = ("--queries", tmp_path / "other.tsv", "--qrels", tmp_path / "other.txt")
    assert "wereusedinthetraining" not in told("evaluate", made.index, made.model, *other)
    words = ("--epochs", 1, *QUICK, "--out")
    student = ("distil", made.index, "--encoder", f"static:{made.encoder}", "--teacher", made.model)
    assert sentence("3of3", made.model) in told(*student, "--fold", 2, *words, tmp_path / "a")
    assert sentence("3of3", made.model) in told("evaluate", made.index, tmp_path / "a", "--fold", 2)
    tuned = ("train", made.index, "--init-model", tmp_path / "a", "--fold", 1)
    assert sentence("2of2", tmp_path / "a", "fold2of5") in told(*tuned, *words, tmp_path / "b")
    begun = ("train", made.index, "--encoder", made.model, "--fold", 3)
    assert sentence("3of3", made.model) in told(*begun, *words, tmp_path / "c")
    pseudo = ("--pseudo", "--encoder", made.encoder)
    assert "wereusedinthetraining" not in told("train", made.index, *pseudo, *words, tmp_path / "d")
    assert "wereusedinthetraining" not in told("evaluate", made.index, tmp_path / "d")


def test_rerank_gives_the_scores_of_the_ranker_and_fusion_adds_z_scores(made, tmp_path):
    text("rerank", made.model, made.index, "--run", made.bm25, "--depth", 5, "--out", tmp_path / "a.txt")
    first = read_run(made.bm25)
    expected = BiEncoderRanker.load(made.model, "cpu").rerank(made.collection, first, depth=5)
    found = read_run(tmp_path / "a.txt")
    assert found.keys() == expected.keys()
    for query, scores in expected.items():
        assert found[query] == pytest.approx(scores, abs=1e-4)
    text("rerank", made.model, made.index, "--run", made.bm25, "--depth", 5, "--fuse", "--out", tmp_path / "b.txt")
    known = {query: {each: first[query][each] for each in scores} for query, scores in found.items()}
    for query, scores in fuse([known, found]).items():
        assert read_run(tmp_path / "b.txt")[query] == pytest.approx(scores, abs=1e-9)


def test_pretrained_encoders_rerank(made, cross, tmp_path):
    text("rerank", made.encoder, made.index, "--device", "cpu", "--out", tmp_path / "a.txt")
    expected = BiEncoderRanker(made.encoder, device="cpu").rerank(made.collection, read_run(made.bm25))
    assert read_run(tmp_path / "a.txt")["q0"] == pytest.approx(expected["q0"], abs=1e-4)
    text("rerank", cross / "encoder", made.index, "--device", "cpu", "--out", tmp_path / "b.txt")
    expected = CrossEncoderRanker(cross / "encoder", device="cpu").rerank(made.collection, read_run(made.bm25))
    assert read_run(tmp_path / "b.txt")["q0"] == pytest.approx(expected["q0"], abs=1e-4)


def test_search_fuses_and_keeps_embeddings(made, tmp_path, monkeypatch):
    words = ("search", made.index, "--encoder", made.encoder, "--device", "cpu", "--k", 20)
    text(*words, "--keep", "--out", tmp_path / "dense.txt")
    again = ("rerank", made.encoder, made.index, "--device", "cpu", "--run", made.bm25, "--out")
    shutil.move(made.index / "embeddings", tmp_path)
    text(*again, tmp_path / "encoded.txt")
    shutil.move(tmp_path / "embeddings", made.index)
    text("rerank", made.model, made.index, "--out", tmp_path / "other.txt")  # another encoder encodes the documents
    inputs = BiEncoder._document_inputs  # loading an encoder reads one text
    for name in ("cli.text.text_models._encoded", "text.bi_encoder.BiEncoder._document_inputs"):
        monkeypatch.setattr(
            f"rankgrad.{name}",
            lambda *given: inputs(*given) if len(given[1]) == 1 else pytest.fail("documents were encoded"),
        )
    text(*again, tmp_path / "kept.txt")
    for query, scores in read_run(tmp_path / "encoded.txt").items():
        assert read_run(tmp_path / "kept.txt")[query] == pytest.approx(scores, abs=1e-4)
    text(*words, "--fuse", "--out", tmp_path / "fused.txt")
    text("search", made.index, "--k", 20, "--out", tmp_path / "bm25.txt")
    expected = fuse([read_run(tmp_path / "bm25.txt"), read_run(tmp_path / "dense.txt")])
    for query, scores in read_run(tmp_path / "fused.txt").items():
        assert len(scores) == 20
        assert scores == pytest.approx({each: expected[query][each] for each in scores}, abs=1e-6)
    shutil.rmtree(made.index / "embeddings")


@pytest.mark.parametrize("harm", ["flipped", "cut", "no array", "queries.jsonl", "qrels.txt"])
def test_damage_to_an_index_is_noticed(made, tmp_path, harm):
    index = shutil.copytree(made.index, tmp_path / "index")
    words = ("search", index, "--encoder", made.encoder, "--device", "cpu", "--k", 20, "--out")
    text(*words, tmp_path / "a.txt", "--keep")
    path = next((index / "embeddings").iterdir())
    content = path.read_bytes()
    path.write_bytes(content[:-32])  # as in an index of version 0.2, without a hash
    text(*words, tmp_path / "b.txt")
    assert (tmp_path / "b.txt").read_bytes() == (tmp_path / "a.txt").read_bytes()
    if "." in harm:
        path = index / "collection" / harm
        content = path.read_bytes().replace(b"1", b"3")
    elif harm == "flipped":
        content = content[:-100] + bytes([content[-100] ^ 128]) + content[-99:]  # the sign of a number
    else:
        content = content[:-40] if harm == "cut" else b"x" * len(content)
    path.write_bytes(content)
    for again in ((*words, tmp_path / "c.txt"), ("evaluate", index, made.bm25))[: 2 if "." in harm else 1]:
        assert f"{path} must be unchanged since it was written" in complaint(*again)


def test_kept_embeddings_and_scores_are_of_the_same_texts(made):
    documents = made.collection.documents
    ranker = BiEncoderRanker(made.encoder, device="cpu")
    first = read_run(made.bm25)
    found = set()
    for change in ({}, {"titles": documents.titles[::-1]}, {"texts": documents.texts[::-1]}):
        collection = replace(made.collection, documents=replace(documents, **change))
        identity = scoring._identity(ranker.fitted(), candidate_lists(collection, first))
        found.add((_embeddings_path(made.index, collection, ranker.fitted()), json.dumps(identity)))
    assert [len(set(each)) for each in zip(*found, strict=True)] == [3, 3]


def test_a_query_prints_documents_with_snippets(made, tmp_path):
    told = text("search", made.index, "--query", "wing flutter", "--k", 3)
    assert len(re.findall(r"^ (d\d+|long) +\d\.\d{3}", told, re.MULTILINE)) == 3
    assert "no document contains a word of the query" in text("search", made.index, "--query", "zebra")
    (tmp_path / "other.tsv").write_text("x1\theat slab\n")
    text("search", made.index, "--queries", tmp_path / "other.tsv", "--out", tmp_path / "run.txt")
    assert read_run(tmp_path / "run.txt").keys() == {"x1"}
    assert snippet("a  short\ntext", "text") == "a short text"
    long = "x" * 500 + " The WING " + "y" * 500
    assert "WING" in snippet(long, "the wing")
    assert len(snippet(long, "the wing")) == 160


def test_an_interrupted_training_resumes_to_the_same_bytes(made, tmp_path, monkeypatch):
    words = ("--encoder", made.encoder, "--fold", 2, "--epochs", 3, *QUICK)
    text("train", made.index, *words, "--out", tmp_path / "whole")
    validate, calls = TextTraining.validate, []

    def interrupted(self):
        calls.append(self)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return validate(self)

    monkeypatch.setattr(TextTraining, "validate", interrupted)
    done = invoke("text", "train", made.index, *words, "--out", tmp_path / "a")
    assert done.exit_code == 130
    command = re.search(r"Stopped. To resume: rankgrad (.*)", done.output)[1]
    assert command == f"text train --resume --out {tmp_path / 'a'}"
    assert "got 3" in complaint(*command.split()[1:], "--fold", 3)
    run_here(*command.split())
    for name in ("encoder/model.safetensors", "test-run.txt", "run.json", "text.json", "metrics.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    assert len((tmp_path / "a" / "log.jsonl").read_text().splitlines()) == 3


def test_an_interrupted_rerank_resumes_to_the_same_bytes(made, cross, tmp_path, monkeypatch):
    monkeypatch.setattr(scoring, "PAIRS", 40)
    words = ("rerank", cross, made.index, "--device", "cpu", "--out")
    text(*words, tmp_path / "whole.txt")
    score, calls = rg.text.model.TextModel.score_lists, []

    def interrupted(self, data):
        calls.append(data)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return score(self, data)

    monkeypatch.setattr(rg.text.model.TextModel, "score_lists", interrupted)
    done = invoke("text", *words, tmp_path / "a.txt")
    assert (done.exit_code, (tmp_path / "a.txt").exists()) == (130, False)
    assert "Stopped. The same command resumes." in done.output
    blocks, partial = len(calls) - 1, tmp_path / "a.txt.partial"
    calls += [None] * 3
    head, *lines = partial.read_text().splitlines(keepends=True)
    assert len(lines) == blocks == 2
    (tmp_path / "c.txt.partial").write_text(head + re.sub(r"(\.\d\d)\d", r"\g<1>7", lines[0]) + lines[1])  # damaged
    (tmp_path / "d.txt.partial").write_text("".join([head, *lines[::-1]]))
    for name in "cd":
        assert "resuming" not in text(*words, tmp_path / f"{name}.txt")
        assert (tmp_path / f"{name}.txt").read_bytes() == (tmp_path / "whole.txt").read_bytes()
    with partial.open("a") as file:
        file.write('{"scores": [1.0, 2')  # the process ended while it wrote a line
    told = text(*words, tmp_path / "a.txt")
    assert f"resuming: {blocks} of" in told
    assert (tmp_path / "a.txt").read_bytes() == (tmp_path / "whole.txt").read_bytes()
    assert not (tmp_path / "a.txt.partial").exists()
    shutil.copy(tmp_path / "whole.txt", tmp_path / "b.txt.partial")  # of another program
    text(*words, tmp_path / "b.txt")
    assert (tmp_path / "b.txt").read_bytes() == (tmp_path / "whole.txt").read_bytes()


def test_a_resumed_rerank_never_leaves_kept_scores_incomplete(made, cross, tmp_path, monkeypatch):
    monkeypatch.setattr(scoring, "PAIRS", 40)
    model, data = rg.models.load(cross), candidate_lists(made.collection, read_run(made.bm25))
    scoring.score_in_blocks(model, data, tmp_path / "a.txt")
    kept = (tmp_path / "a.txt.partial").read_bytes()

    def killed(path, *_, **__):
        Path(path).write_bytes(b"")  # a write in place first makes the file empty; os.replace has a temporary file here
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_text", killed)
    monkeypatch.setattr("os.replace", killed)
    with pytest.raises(KeyboardInterrupt):
        scoring.score_in_blocks(model, data, tmp_path / "a.txt")
    assert (tmp_path / "a.txt.partial").read_bytes() == kept


def test_warm_start_on_pseudo_queries_then_fine_tuning(made, tmp_path):
    warm = ("--model", "cross_encoder", "--encoder", made.encoder, "--pseudo", "--epochs", 1, "--max-length", 32)
    told = text("train", made.index, *warm, *QUICK, "--fold", 1, "--out", tmp_path / "warm")
    assert "validation: 2 lists" in told  # real queries choose the epoch
    assert "on 2 test queries of fold 1" in told
    tuned = ("--init-model", tmp_path / "warm", "--fold", 1, "--epochs", 1, *QUICK)
    text("train", made.index, *tuned, "--out", tmp_path / "a")
    settings = rg.models.load(tmp_path / "a").settings
    assert (settings["model"], settings["max_length"]) == ("cross_encoder", 32)
    assert TextLists.kept(tmp_path / "a").init_model == str(tmp_path / "warm")


def test_distillation_from_a_model_a_run_and_an_order(made, tmp_path, monkeypatch):
    student = ("--encoder", f"static:{made.encoder}", "--epochs", 1, *QUICK)
    text("distil", made.index, "--teacher", made.model, *student, "--fold", 1, "--out", tmp_path / "a")
    taught = read_run(tmp_path / "a" / "teacher-run.txt")
    expected = BiEncoderRanker.load(made.model, "cpu").rerank(made.collection, read_run(made.bm25))
    assert len(taught) == 8
    for query, scores in taught.items():
        assert scores == pytest.approx(expected[query], abs=1e-4)
    monkeypatch.setattr("rankgrad.cli.text.scoring.score_in_blocks", lambda *_: pytest.fail("the teacher scored again"))
    text("distil", "--resume", "--epochs", 2, "--out", tmp_path / "a")
    assert len((tmp_path / "a" / "log.jsonl").read_text().splitlines()) == 2
    assert rg.models.load(tmp_path / "a").settings["loss"] == "listnet:targets=softmax"
    scale = ("--standardise", "zscore", "--temperature", "0.5", "--cosine-temperature", "0.1")
    text("distil", made.index, "--teacher", made.bm25, *student, *scale, "--out", tmp_path / "b")
    assert rg.models.load(tmp_path / "b").settings["temperature"] == 0.1
    rows = [{"query": "q0", "documents": ["d6", "лист"]}, {"query": "q3", "documents": ["d3", "d9", "d5"]}]
    order = tmp_path / "order.jsonl"
    order.write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = text(
        "distil", made.index, "--teacher", order, "--loss", "ranknet", *student, "--holdout", 0, "--out", tmp_path / "c"
    )
    assert "no validation lists: the model has the weights of the last epoch" in told
    assert rg.models.load(tmp_path / "c").feature_names == ("query", "document", "first", "order")
    order.write_text('{"query": "q0"}\n')
    told = complaint("distil", made.index, "--teacher", order, *student, "--out", tmp_path / "d")
    assert 'order.jsonl:1 must have the form {"query": id, "documents": [id, ...]}' in told


def test_errors_about_a_teacher_name_the_teacher(made, tmp_path):
    (tmp_path / "empty").mkdir()
    train(Settings(model="linear", epochs=1, device="cpu"), load("synthetic:lists=9,features=10").train).save(
        tmp_path / "features"
    )
    words = ("distil", made.index, "--encoder", made.encoder, *QUICK, "--out", tmp_path / "a", "--teacher")
    told = complaint(*words, tmp_path / "empty")
    assert told.startswith("teacher must be a folder with the files of a Hugging Face model, such as config.json; got")
    told = complaint(*words, tmp_path / "features")
    assert told.startswith("teacher must be a text ranker, written by `rankgrad text train`; got")
    assert complaint("rerank", tmp_path / "empty", made.index, "--out", tmp_path / "b").startswith(
        "model must be a folder"
    )


def test_evaluate_ranks_the_documents_of_a_teacher_run(made, tmp_path):
    short = {query: dict([*scores.items()][-3:]) for query, scores in read_run(made.bm25).items()}
    write_run(tmp_path / "teacher.txt", short, "teacher")
    student = ("--encoder", f"static:{made.encoder}", "--epochs", 1, *QUICK, "--fold", 1, "--out", tmp_path / "a")
    told = text("distil", made.index, "--teacher", tmp_path / "teacher.txt", *student)
    assert "teacher.txt" in told
    assert "bm25" not in told
    found = json.loads(text("evaluate", made.index, tmp_path / "a", "--fold", 1, "--json"))
    kept = json.loads((tmp_path / "a" / "metrics.json").read_text())["test"]
    run = found["runs"][str(tmp_path / "a")]
    assert {name: each["mean"] for name, each in run["metrics"].items()} == pytest.approx(kept)


def test_distillation_on_pseudo_queries(made, tmp_path):
    student = ("--encoder", made.encoder, "--pseudo", "--epochs", 1, *QUICK)
    text("distil", made.index, "--teacher", made.model, *student, "--out", tmp_path / "a")
    assert set(read_run(tmp_path / "a" / "teacher-run.txt")) <= set(made.collection.documents.ids)
    text("distil", made.index, "--teacher", made.model, "--fuse", *student, "--out", tmp_path / "b")
    alone, fused = (rg.models.load(tmp_path / name) for name in "ab")
    assert alone.weights_hash() != fused.weights_hash()  # the first run also teaches
    assert [row["lr"] for row in alone.history] == [row["lr"] for row in fused.history]


def test_overwrite_replaces_a_run_and_nothing_else(made, tmp_path):
    out = tmp_path / "a"
    words = ("train", made.index, "--encoder", made.encoder, "--epochs", 1, *QUICK, "--out", out)
    text(*words, "--fold", 1)
    (out / "notes.txt").write_text("mine")
    assert "be a new folder (or add --resume or --overwrite); got" in complaint(*words)
    done = invoke("text", *words, "--seed", 1, "--overwrite", "--json")
    found = json.loads(done.stdout)
    assert found["settings"] == json.loads((out / "run.json").read_text())["settings"]
    assert (found["settings"]["seed"], found["trained"], found["test"]) == (1, 1, None)
    assert not (out / "test-run.txt").exists()
    remove_run(out)
    assert [path.name for path in out.iterdir()] == ["notes.txt"]
    (out / "encoder").mkdir()
    remove_run(out)
    assert (out / "encoder").is_dir()


def test_an_index_is_replaced_only_if_it_is_one(made, tmp_path):
    shutil.copytree(made.index, tmp_path / "index")
    words = ("index", made.files, "--out", tmp_path / "index")
    assert "be a new folder (or add --overwrite); got" in complaint(*words)
    assert "39 documents" in text(*words, "--overwrite")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    assert "which contains other files" in complaint("index", made.files, "--out", tmp_path / "mine")
    assert "outside of the folder" in complaint("index", made.files, "--out", made.files / "index")
    about = json.loads((tmp_path / "index" / "index.json").read_text())
    about = {name: value for name, value in about.items() if name != "sha256"} | {"complete": False}
    (tmp_path / "index" / "index.json").write_text(json.dumps(about))
    assert "; got an incomplete index" in complaint("search", tmp_path / "index", "--query", "x")
    text(*words)
    (tmp_path / "index" / "collection" / "documents.jsonl").write_text('{"id": "d1", "text": "new"}\n')
    assert "must have the documents that were indexed" in complaint("search", tmp_path / "index", "--query", "x")


def test_an_index_without_a_copy_reads_the_files_again(made, tmp_path):
    files = made_collection(tmp_path / "files")
    text("index", files, "--no-copy", "--out", tmp_path / "index")
    assert not (tmp_path / "index" / "collection").exists()
    told = text("search", tmp_path / "index", "--out", tmp_path / "run.txt")
    assert "warning" not in told
    assert (tmp_path / "run.txt").read_bytes() == made.bm25.read_bytes()
    found = json.loads(text("evaluate", tmp_path / "index", tmp_path / "run.txt", "--json"))
    assert found["queries"] == 12
    (files / "documents.jsonl").write_text((files / "documents.jsonl").read_text().replace("wing", "ring"))
    assert "must have the documents that were indexed" in complaint("search", tmp_path / "index", "--query", "wing")
    shutil.rmtree(files)
    assert "no such file or folder" in complaint("search", tmp_path / "index", "--query", "wing")


def test_a_folder_of_texts_with_spaces_in_names(tmp_path):
    (tmp_path / "papers" / "new ones").mkdir(parents=True)
    for name, content in {"wing flutter": "flutter of a wing", "new ones/heat": "heat in a slab"}.items():
        (tmp_path / "papers" / f"{name}.txt").write_text(content)
    (tmp_path / "queries.tsv").write_text("q 1\twing\n")
    told = text("index", tmp_path / "papers", "--queries", tmp_path / "queries.tsv", "--out", tmp_path / "index")
    assert "white space in ids is replaced by _" in told
    text("search", tmp_path / "index", "--out", tmp_path / "run.txt")
    assert read_run(tmp_path / "run.txt") == {"q_1": {"wing_flutter": pytest.approx(0.2, abs=0.2)}}
    assert "qrels must be given" in complaint("evaluate", tmp_path / "index", tmp_path / "run.txt")


def test_columns_and_options_of_an_index(tmp_path):
    (tmp_path / "items.csv").write_text("key,content\na1,wings of birds\na2,the the\n")
    words = ("index", tmp_path / "items.csv", "--column", "documents.id=key", "--column", "documents.text=content")
    found = json.loads(text(*words, "--stopwords", "none", "--stemmer", "none", "--json", "--out", tmp_path / "index"))
    assert (found["documents"], found["words"]) == (2, 4)
    assert found["bytes"] > 0
    assert "queries must be given, because" in complaint("search", tmp_path / "index", "--out", tmp_path / "run.txt")
    assert "column must have the form table.part=name" in complaint(
        "index", tmp_path / "items.csv", "--column", "id", "--out", tmp_path / "b"
    )


def test_a_text_run_is_a_model_of_rankgrad_and_of_hugging_face(made):
    model = rg.models.load(made.model)
    data = candidate_lists(made.collection, read_run(made.bm25))
    expected = BiEncoderRanker.load(made.model, "cpu").predict(data)
    np.testing.assert_array_equal(model.score_lists(data), expected)
    from transformers import AutoModel

    assert AutoModel.from_pretrained(made.model / "encoder").config.hidden_size == 16


def test_commands_for_features_refuse_a_text_run_in_one_sentence(made, tmp_path):
    (tmp_path / "lists.txt").write_text("1 qid:1 1:1\n0 qid:1 1:2\n")
    for words in (
        ("evaluate", made.model),
        ("compare", made.model, made.model),
        ("predict", made.model, tmp_path / "lists.txt"),
        ("train", "--resume", "--out", made.model),
    ):
        with pytest.raises(ValueError, match=r"must be a ranker that uses features \(.*\); got a text ranker"):
            run_here(*words)


def test_a_report_compares_a_text_run_with_its_first_stage(made, tmp_path):
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    from rankgrad.cli.report import _first_stage, _lists_of, _run_study

    name, parts, warnings = _lists_of(made.model, None, None)
    assert (name, warnings) == ("wings, fold 1", [])
    assert {part: len(data) for part, data in parts.items()} == {"train": 8, "validation": 2, "test": 2}
    study = _run_study(made.model, None, True)
    assert [row[0].text for row in study.tables[0].rows][1:] == ["random order", "BM25"]
    lists = TextLists.kept(made.model).read().splits.test
    wanted = evaluate_lists(lists.features[:, 2], lists, ["nDCG@10"])
    assert dict(zip(study.tables[0].heads, study.tables[0].rows[2], strict=True))["nDCG@10"].value == wanted["nDCG@10"]
    assert study.rows["importance"] == []
    assert not any("feature" in text for text in (*study.summary, *study.tables[0].notes))
    TextLists(str(made.index), run="runs/splade.txt").keep(tmp_path)
    assert _first_stage(tmp_path) == "run splade.txt"


def test_all_that_is_wrong_is_said_at_once(made, tmp_path, monkeypatch):
    monkeypatch.setattr(TextLists, "read", lambda _: pytest.fail("the collection was read"))
    words = ("train", made.index, "--out", tmp_path / "a")
    wrong = ("--loss", "sofmax", "--lr", 0, "--fold", 9, "--device", "gpu", "--passages", "last")
    told = complaint(*words, "--encoder", "/no/such/folder", *wrong).splitlines()
    for start in ("encoder", "loss", "lr", "fold", "device", "passages"):
        assert sum(line.startswith(f"{start} must") for line in told) == 1, start
    assert "encoder must be given" in complaint(*words)
    assert "model must be one of 'bi_encoder', 'cross_encoder'" in complaint(
        *words, "--encoder", made.encoder, "--model", "mlp"
    )
    assert "holdout must not be given with --fold" in complaint(
        *words, "--encoder", made.encoder, "--fold", 1, "--holdout", 0.1
    )
    assert "index must be given" in complaint("train", "--encoder", made.encoder, "--out", tmp_path / "a")
    assert "be an existing folder, or the name of a model" in complaint(*words, "--encoder", made.root / "nothing")
    assert "init_model must be a bi_encoder; got" not in complaint(*words, "--init-model", made.encoder)
    assert "teacher must be" in complaint("distil", made.index, "--encoder", made.encoder, "--out", tmp_path / "a")
    student = ("distil", made.index, "--encoder", made.encoder, "--out", tmp_path / "a", "--teacher")
    for name in (made.root / "nothing", "teacher.txt", "order.jsonl"):
        must = "be an existing text ranker, TREC run or order of documents (.jsonl), or the name of a model on"
        assert complaint(*student, name).startswith(f"teacher must {must}")
    assert "must be the folder of a text run" in complaint("train", "--resume", "--out", tmp_path / "a")
    assert "runs must be TREC runs" in complaint("evaluate", made.index, tmp_path / "none.txt")
    assert "encoder must be given with --fuse" in complaint("search", made.index, "--query", "x", "--fuse")
    assert "must be an index folder, written by `rankgrad text index`" in complaint("evaluate", made.files, made.bm25)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(("package", "words"), [("bm25s", "BM25 needs bm25s"), ("transformers", "a text ranker needs")])
def test_a_missing_package_is_one_sentence(package, words, made, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    command = ("index", made.files) if package == "bm25s" else ("train", made.index, "--encoder", made.encoder)
    told = complaint(*command, "--out", tmp_path / "a")
    assert told.startswith(words)
    assert told.endswith("pip install 'rankgrad[text]'")


def test_validation_lists_of_another_collection_do_not_change_the_training(made, tmp_path):
    data = rg.text.pseudo_lists(made.collection, number=12)
    judged = candidate_lists(made.collection, read_run(made.bm25))
    weights = []
    for validation in (None, judged):
        ranker = BiEncoderRanker(made.encoder, epochs=2, lr=1e-3, device="cpu").fit(
            data, validation, out=tmp_path / str(len(weights))
        )
        weights.append(rg.atomic_files.read_tensors(tmp_path / str(len(weights)) / "last.safetensors")[0])
        assert ranker.model_ is not None
    name = "module.network.body.encoder.layer.0.output.dense.weight"
    np.testing.assert_array_equal(weights[0][name], weights[1][name])


def test_runs_with_unknown_ids_are_told(made, tmp_path):
    run = {query: {**scores, "nobody": 9.0} for query, scores in read_run(made.bm25).items()}
    write_run(tmp_path / "run.txt", run)
    told = text("rerank", made.model, made.index, "--run", tmp_path / "run.txt", "--out", tmp_path / "a.txt")
    assert "12 ids of queries and documents that are not in the collection; these ids are left out" in told
    assert all("nobody" not in scores for scores in read_run(tmp_path / "a.txt").values())
    data = candidate_lists(made.collection, read_run(made.bm25))
    assert to_run(data, np.zeros(len(data.labels))).keys() == read_run(tmp_path / "a.txt").keys()


def test_a_reader_between_the_renames_of_a_save_does_not_disturb_it(tmp_path, monkeypatch):
    replace_encoder(tmp_path, lambda folder: (folder / "weights").write_text("old"))
    rename, read = Path.rename, []

    def renamed(self, target):
        rename(self, target)
        if self.name == "encoder":
            read.append((settle_encoder(tmp_path) / "weights").read_text())

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", renamed)
        replace_encoder(tmp_path, lambda folder: (folder / "weights").write_text("new"))
    assert read == ["new"]
    assert [path.name for path in tmp_path.iterdir()] == ["encoder"]
    assert (tmp_path / "encoder" / "weights").read_text() == "new"


def test_an_interrupted_save_is_read_from_a_folder_that_cannot_be_changed(tmp_path, monkeypatch):
    replace_encoder(tmp_path, lambda folder: (folder / "weights").write_text("whole"))
    (tmp_path / "encoder").rename(tmp_path / "encoder.new")

    def refused(self, target):
        raise PermissionError(f"{self} -> {target}")

    monkeypatch.setattr(Path, "rename", refused)
    with pytest.raises(PermissionError, match="cannot be renamed to encoder"):
        replace_encoder(tmp_path, lambda _: pytest.fail("the only copy was removed"))
    assert (settle_encoder(tmp_path) / "weights").read_text() == "whole"


def test_what_does_not_fit_is_refused(made, tmp_path):
    foreign = tmp_path / "foreign.txt"
    foreign.write_text("other Q0 d1 1 1.0 x\n")
    assert "the run may be of another collection" in complaint("evaluate", made.index, foreign)
    again = rg.text.load(made.index)  # the folder of an index contains its collection
    assert again.documents == made.collection.documents
    told = complaint(
        "train", made.index, "--model", "cross_encoder", "--encoder", f"static:{made.encoder}", "--out", tmp_path / "a"
    )
    assert "encoder must have layers for a cross_encoder (static: is for a bi_encoder only)" in told
