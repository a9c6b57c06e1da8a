"""Text data sets in recipes and in the commands that take `--data`, with a tiny encoder."""

import json

import numpy as np
import pytest
from programs import run_here
from tiny_collection import tiny_collection
from tiny_encoder import tiny_encoder

pytest.importorskip("transformers")
pytest.importorskip("bm25s")

from rankgrad.atomic_files import read_json, read_tensors, write_json
from rankgrad.cli.data_source import DataSource
from rankgrad.cli.terminal_tables import TEXT_METRICS
from rankgrad.data import load
from rankgrad.data.evaluation import AS_TREC_EVAL
from rankgrad.errors import bad_value
from rankgrad.experiments import load_recipe, parse_recipe
from rankgrad.experiments.recipes.data_sets import read_recipe_data
from rankgrad.experiments.report.query_explorer import ranked_lists
from rankgrad.experiments.runs.results import read_results
from rankgrad.experiments.runs.run_recipe import lock_results, run_recipe
from rankgrad.experiments.tables.table import table
from rankgrad.experiments.tuning import Search, tune
from rankgrad.metrics import measure_run, trec
from rankgrad.parallel.process_pool import run_in_this_process
from rankgrad.text import load as load_collection
from rankgrad.text.list_sampling import training_steps

SPEC = "text:path=cranfield,depth=6"  # the folder of the recipe, with a tiny collection


def said(text):
    """A text of the terminal without its line breaks."""
    return " ".join(text.split())


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("root")
    tiny_encoder(folder / "encoder", words=["wing flap heat slab shock"], hidden=16, layers=1)
    return tiny_collection(folder / "cranfield").parent


@pytest.fixture(scope="module")
def model(root):
    """A run of `rankgrad train`."""
    words = ["--data", SPEC, "--fold", 1, "--data-root", root, "--model", "cross_encoder", "--epochs", 1]
    told = run_here("train", *words, "--set", f"encoder={root / 'encoder'}", "--device", "cpu", "--out", root / "run")
    assert AS_TREC_EVAL in said(told)
    return root / "run"


def measured(scores, data, metrics):
    run = trec.to_run(scores, data.offsets, data.qids, data.docids.tolist())
    return measure_run(run, data.texts.qrels, metrics, bootstrap=0)


def test_the_smoke_form_of_the_recipe_for_texts_runs(root, tmp_path):
    recipe = load_recipe("smoothi-table2").reduced("smoke").with_settings({"encoder": str(root / "encoder")})
    with lock_results(recipe, tmp_path / "out"):
        steps = list(run_recipe(recipe, tmp_path / "out", run_in_this_process, root=root))
    assert [step.error for step in steps] == [None] * 3
    results = read_results(tmp_path / "out")
    assert not results.missing
    made = table(results, "cranfield")
    assert AS_TREC_EVAL in made.notes
    assert [row.loss for row in made.rows] == ["Pairwise hinge", "Approx-NDCG@N", "SmoothI-NDCG@N"]
    test = read_recipe_data("text:path=cranfield,depth=5", fold=1, root=root).test
    order = [[query for query in test.texts.qrels if query in test.qids].index(query) for query in test.qids.tolist()]
    for row, result in zip(made.rows, results.final(), strict=True):
        found = measured(result.scores, test, made.metrics)
        for metric in made.metrics:
            assert row.entries[metric].mean == pytest.approx(found.means[metric], abs=1e-12)
            assert result.values(metric).tolist() == [found.values[metric][place] for place in order]
        assert result.validation.keys() == {"P(ties='trec')@20"}
    ranked, _ = ranked_lists(made, results.final(), root)
    words = {text["query"] for text in ranked.texts}
    assert words == {test.texts.queries.full(test.texts.queries.numbers[query]) for query in test.qids.tolist()}


def test_results_are_read_where_the_encoder_is_not(root, tmp_path):
    recipe = load_recipe("smoothi-table2").with_settings({"encoder": str(tmp_path / "gone"), "epochs": 3})
    assert recipe.models["BERT"].settings["epochs"] == 3
    (tmp_path / "recipe.yaml").write_text(recipe.dump())
    assert load_recipe(tmp_path / "recipe.yaml").final_count == 15
    with pytest.raises(
        ValueError, match="set must contain only settings that a ranker of the recipe has; got 'encodr'; did you"
    ):
        recipe.with_settings({"encodr": "x"})


def test_a_recipe_for_texts_says_each_error_once():
    raw = {
        "title": "Small", "data": ["text:path=a,parts=3", {"name": "text:path=b/a,name=other", "binary": True}],
        "models": {"Text": {"model": "bi_encoder", "lr": 0, "search": {"epochs": [1, 2]}, "losses": {"A": "softmax"}}},
        "metrics": ["AP"], "trials": 2, "folds": "all",
    }  # fmt: skip
    with pytest.raises(ValueError, match="Small") as error:
        parse_recipe(raw, "Small")
    assert sorted(str(error.value).splitlines()[1:]) == [
        "models.Text: encoder must be a folder or the name of a model on the Hugging Face hub; got ''",
        "models.Text: lr must be above 0 and finite; got 0",
    ]
    raw["models"]["Text"] |= {"encoder": "some/model", "lr": 1e-4}
    recipe = parse_recipe(raw)
    assert [(source.label, len(source.folds)) for source in recipe.data] == [("a", 3), ("other-b", 5)]
    raw["data"] = ["text:path=a", "text:path=b/a"]
    with pytest.raises(ValueError, match="data set must be given only once; got 'a'"):
        parse_recipe(raw)
    raw["data"] = ["text:path=a,depht=3"]
    with pytest.raises(ValueError, match=r"data\[0\]: option must be an option of text .*'depht'; did you mean"):
        parse_recipe(raw)
    raw["data"] = ["text:path=gone"]
    assert "root must contain gone" in parse_recipe(raw).available()[1]["gone"]


def test_binary_labels_are_also_those_of_qrels(root):
    splits = read_recipe_data(SPEC, binary=True, fold=1, root=root)
    assert splits.train.texts is splits.validation.texts is splits.test.texts
    assert {label for judged in splits.test.texts.qrels.values() for label in judged.values()} == {1}
    assert set(splits.test.labels) == {0, 1}


def test_evaluate_and_compare_find_the_lists_of_the_run(model, root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = json.loads(run_here("evaluate", model, "--json", "--each", "-m", "AP", "-m", "nDCG@10"))
    kept = json.loads((model / "metrics.json").read_text())["test"]
    assert json.loads((model / "config.json").read_text())["settings"]["device"] == "cpu"
    assert told["metrics"]["AP"]["mean"] == pytest.approx(kept["AP"])
    test = load(SPEC, fold=1, root=root).test
    assert told["queries"] == test.qids.tolist()
    assert told["about"] == AS_TREC_EVAL
    same = json.loads(run_here("compare", model, model, "--json", "-m", "AP"))
    assert same["metrics"][0]["a"] == pytest.approx(kept["AP"])
    assert same["about"] == AS_TREC_EVAL


def test_predict_writes_a_run_that_measures_the_same(model, root, tmp_path, monkeypatch):
    monkeypatch.setenv("RANKGRAD_DATA", str(root))
    run_here("predict", model, SPEC, "--out", tmp_path / "run.trec")
    run = trec.read_run(tmp_path / "run.trec")
    assert {*run} == {*load_collection(root / "cranfield").queries.ids}  # all queries, not those of a fold
    kept = json.loads((model / "metrics.json").read_text())["test"]
    test = load(SPEC, fold=1).test
    part = {query: run[query] for query in test.qids.tolist()}
    assert measure_run(part, test.texts.qrels, TEXT_METRICS).means == pytest.approx(kept)
    (tmp_path / "letor.txt").write_text("0 qid:1 1:3 2:2 3:4\n1 qid:1 1:2 2:2 3:2\n")
    with pytest.raises(ValueError, match=r"data must be a text data set: text:path=FOLDER, or .*"):
        run_here("predict", model, tmp_path / "letor.txt")


def test_tune_tries_settings_of_an_encoder(root, tmp_path):
    settings = {"model": "bi_encoder", "encoder": str(root / "encoder"), "epochs": 1, "device": "cpu"}
    search, source = Search(settings, budget=2), DataSource(SPEC, fold=2, root=str(root))
    search.check()
    trials = [trial for trial, _, _ in tune(search, source, tmp_path, run_in_this_process)]
    assert [trial.epoch for trial in trials] == [1, 1]
    assert all(0 < trial.value < 1 for trial in trials)
    assert {*trials[1].drawn} == {"lr", "list_size", "batch_size", "weight_decay"}


@pytest.mark.parametrize(
    ("model", "begun", "add_relevant"),
    [
        ("bi_encoder", None, ",add_relevant=True"),
        ("bi_encoder", SPEC, ""),  # by version 0.2
        ("cross_encoder", f"{SPEC},add_relevant=True", ",add_relevant=True"),
        ("linear", None, ""),
    ],
)
def test_tune_adds_relevant_documents_for_new_searches_of_text_rankers(
    model, begun, add_relevant, tmp_path, monkeypatch
):
    def check(_, search, source, overwrite):
        bad_value("data", "be seen", source.data)

    monkeypatch.setattr("rankgrad.cli.tune._check_folder", check)
    (tmp_path / "trials").mkdir()
    if begun is not None:
        write_json(tmp_path / "trials" / "search.json", {"data": {"data": begun, "seed": 0}}, seal=True)
    with pytest.raises(ValueError, match=rf"data must be seen; got {SPEC}{add_relevant}$"):
        run_here("tune", "--data", SPEC, "--fold", 1, "--model", model, "--set", "encoder=x", "--out", tmp_path)


def test_both_commands_train_on_the_same_lists(root, tmp_path):
    """The lists of `text train` and `train --data text:` contain the relevant documents that BM25 missed."""
    run_here("text", "index", root / "cranfield", "--out", tmp_path / "index")
    encoder = str(root / "encoder")
    words = ("--fold", 2, "--model", "bi_encoder", "--epochs", 2, "--lr", "1e-3", "--device", "cpu", "--out")
    told = run_here("text", "train", tmp_path / "index", "--encoder", encoder, "--depth", 6, *words, tmp_path / "a")
    run_here("train", "--data", SPEC, "--data-root", root, "--set", f"encoder={encoder}", *words, tmp_path / "b")
    assert "train: 9 lists, 63 documents" in said(told)
    first, second = (read_tensors(tmp_path / name / "last.safetensors")[0] for name in "ab")
    assert first.keys() == second.keys()
    assert all(np.array_equal(first[name], second[name]) for name in first)
    for name in ("metrics.json", "config.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    assert len(load(SPEC, fold=2, root=root).train.labels) == 54  # for rankers of features


def test_a_run_of_version_0_2_keeps_its_training_lists(root, tmp_path):
    """Version 0.2 trained on the candidates only, and recorded the spec without `add_relevant`."""
    words = ("--fold", 2, "--model", "bi_encoder", "--set", f"encoder={root / 'encoder'}", "--device", "cpu")
    old = f"{SPEC},add_relevant=false"
    run_here("train", "--data", old, "--data-root", root, *words, "--epochs", 2, "--out", tmp_path / "whole")
    run_here("train", "--data", old, "--data-root", root, *words, "--epochs", 1, "--out", tmp_path / "a")
    record = read_json(tmp_path / "a" / "data.json")
    assert record["data"] == f"text:path={root / 'cranfield'},depth=6,add_relevant=False"
    record["data"] = record["data"].removesuffix(",add_relevant=False")
    write_json(tmp_path / "a" / "data.json", record, seal=True)
    run_here(
        "train", "--resume", "--data", SPEC, "--data-root", root, "--fold", 2, "--epochs", 2, "--out", tmp_path / "a"
    )
    whole, again = (read_tensors(tmp_path / name / "last.safetensors")[0] for name in ("whole", "a"))
    assert all(np.array_equal(whole[name], again[name]) for name in whole)


def test_a_ranker_of_features_also_trains_on_candidates(root, tmp_path):
    words = ["--data", SPEC, "--fold", 1, "--data-root", root, "--model", "linear", "--epochs", 1]
    assert "3 features" in run_here("train", *words, "--out", tmp_path / "linear")
    assert AS_TREC_EVAL in said(run_here("evaluate", tmp_path / "linear", "-m", "AP"))


def test_lists_without_a_pair_are_left_out_of_training():
    labels, offsets = np.array([1.0, 4.0, 0.0, 1.0, 2.0]), np.array([0, 2, 5])
    options = {"batch_size": 1, "list_size": 4, "seed": 0, "epoch": 0}
    assert [step.lists.tolist() for step in training_steps(labels, offsets, sampling="pairs", **options)] == [[1]]
    assert len(training_steps(labels, offsets, sampling="relevant", **options)) == 2
