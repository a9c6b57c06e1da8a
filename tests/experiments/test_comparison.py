"""Two models on the same lists, from scores and from the command line."""

import json
import os
from dataclasses import replace
from functools import partial
from io import StringIO

import numpy as np
import pytest
import scipy.stats
import torch
from programs import invoke, stdout_of
from rich.console import Console

from rankgrad.cli.compare import _lists
from rankgrad.cli.data_source import DataSource
from rankgrad.data import Dataset, load, synthetic, write_letor
from rankgrad.experiments.comparison import ComparedQuery, RankedDocument, compare, compare_scores, top_documents
from rankgrad.metrics import evaluate
from rankgrad.training import Model, Settings, train

DATA = "synthetic:lists=60,features=12,seed=3"


@pytest.fixture(scope="module")
def data():
    return load(DATA)


@pytest.fixture(scope="module")
def folders(tmp_path_factory, data):
    """Two models of the same data, one with a feature less, and one that does not say its data."""
    top = tmp_path_factory.mktemp("runs")
    for name, loss, epochs in (("a", "lambdaloss", 12), ("b", "mse", 1)):
        settings = Settings(model="linear", loss=loss, epochs=epochs, lr=0.02, device="cpu")
        train(settings, data.train, data.validation, progress=False).save(top / name)
        DataSource(DATA, holdout=0.2).keep(top / name)
    Model.load(top / "a").save(top / "silent")
    small = synthetic(20, features=11, seed=3)
    train(Settings(model="linear", epochs=1, device="cpu"), small.train, small.validation, progress=False).save(
        top / "small"
    )
    return top


rankgrad_compare = partial(invoke, "compare")


def test_numbers_are_those_of_the_metrics_and_of_scipy(data):
    test = data.test
    noise = np.random.default_rng(0).normal(size=(2, len(test.labels)))
    a = test.best + noise[0]
    b = np.where(np.arange(len(a)) < test.offsets[5], a, test.best + 2 * noise[1])  # five lists alike
    found = compare(a, b, test, ["nDCG@10", "AP"])
    for own in found.metrics:
        x, y = (evaluate(s, test.labels, own.metric, offsets=test.offsets) for s in (a, b))
        assert (own.a, own.b) == pytest.approx((x[own.metric], y[own.metric]))
        assert own.difference == pytest.approx(own.a - own.b)
        assert own.interval[0] < own.difference < own.interval[1]
        assert own.t == pytest.approx(scipy.stats.ttest_rel(x.values[own.metric], y.values[own.metric]).pvalue)
        assert own.queries == len(test)
        assert own.wins == (x.values[own.metric] > y.values[own.metric]).sum()
        assert own.losses == (x.values[own.metric] < y.values[own.metric]).sum()
        assert own.wins + own.losses < own.queries  # some are equal
    assert found.metrics[0].wins > found.metrics[0].losses


def test_queries_that_differ_most_come_first(data):
    test = data.test
    a, b = test.best, test.features[:, 0]
    found = compare(a, b, test, "nDCG@10", most=len(test))
    values = [evaluate(s, test.labels, "nDCG@10", offsets=test.offsets).values["nDCG@10"] for s in (a, b)]
    apart = dict(zip(map(str, test.qids), np.abs(values[0] - values[1]), strict=True))
    shown = [apart[query.query] for query in found.queries]
    assert shown == sorted(apart.values(), reverse=True)[: len(shown)]
    assert all(value > 0 for value in shown)
    assert sum(value > 0 for value in apart.values()) == len(shown)


def test_lists_side_by_side():
    labels, a, b = [2, 0, 1, 0], [0.1, 0.4, 0.3, np.nan], [3.0, 1.0, 1.0, 4.0]
    docids = np.array(["d1", "d2", "d3", "d4"])
    own = Dataset(np.zeros((4, 1), np.float32), np.array(labels, np.float32), np.array([0, 4]), np.array(["q"]), docids)
    left = top_documents(np.array(a), np.array(b), own, 0, depth=3)
    assert [(p.rank, p.document, p.label, p.score, p.other) for p in left] == [
        (1, "d2", 0.0, 0.4, 3),
        (2, "d3", 1.0, 0.3, 4),
        (3, "d1", 2.0, 0.1, 2),
    ]
    nan = top_documents(np.array(a), np.array(b), own, 0)[-1]
    assert (nan.document, nan.other) == ("d4", 1)
    with pytest.warns(UserWarning, match="NaN"):
        whole = compare(np.array(a), np.array(b), own)
    assert whole.to_dict()["queries"][0]["list_a"][-1]["score"] is None
    without = Dataset(own.features, own.labels, own.offsets, own.qids)
    assert [p.document for p in top_documents(np.array(b), np.array(a), without, 0)] == ["4", "1", "2", "3"]


def test_a_ranking_against_itself(data):
    own = compare(data.test.best, data.test.best, data.test).metrics[0]
    assert (own.difference, own.interval, own.t, own.randomisation, own.wins) == (0.0, (0.0, 0.0), 1.0, 1.0, 0)
    assert compare(data.test.best, data.test.best, data.test).queries == ()


def test_skipped_queries_and_lower_is_better(data):
    a, b = data.test.best, data.test.features[:, 0]
    metric = "nDCG(empty='skip')@10"
    labels = data.test.labels.copy()
    labels[: data.test.offsets[1]] = 0
    lists = Dataset(data.test.features, labels, data.test.offsets, data.test.qids)
    found = compare(a, b, lists, [metric, "ARP"], most=len(lists))
    assert found.metrics[0].queries < found.metrics[1].queries == len(lists)
    assert str(lists.qids[0]) not in [query.query for query in found.queries]
    assert found.metrics[1].difference < 0  # a better rank is a lower one
    assert found.metrics[1].wins > found.metrics[1].losses
    with pytest.raises(ValueError, match="b must have one score per document"):
        compare(a, b[:-1], data.test)


def test_the_command(folders, data, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    done = rankgrad_compare(folders / "a", folders / "b", "-m", "nDCG@10", "-m", "AP", "--queries", "2")
    assert done.exit_code == 0, done.output
    for text in (
        "nDCG@10",
        "AP",
        "95% interval",
        "a is better on",
        "queries with the largest difference in nDCG@10",
        "in a",
        "in b",
    ):
        assert text in done.output
    assert done.output.count("\nquery ") == 2
    scores = Model.load(folders / "a").score(data.test.features, data.test.offsets)
    mean = evaluate(scores, data.test.labels, "nDCG@10", offsets=data.test.offsets)["nDCG@10"]
    assert f"{mean:.4f}" in done.output
    named = [line for line in done.output.splitlines() if str(folders) not in line]
    assert max(map(len, named)) <= 80


def test_two_lists_of_long_ids_fit_a_screen():
    places = [RankedDocument(rank, f"GX237-70-1620{rank:04d}", 2.0, -0.012345 * rank, 117) for rank in range(1, 11)]
    console = Console(width=80, file=StringIO())
    console.print(_lists(ComparedQuery("q", 0.5, 0.25, 120, tuple(places), tuple(places))))
    lines = [line.split() for line in console.file.getvalue().splitlines()]
    assert ["10", "GX23…-16200010", "2", "-0.123", "117", "GX23…-16200010", "2", "-0.123", "117"] in lines


def test_json(folders):
    done = rankgrad_compare(folders / "a", folders / "b", "--json", "--queries", "1")
    found = json.loads(done.output)
    assert (found["a"], found["data"], found["split"], found["notes"]) == (str(folders / "a"), DATA, "test", [])
    assert len(found["queries"]) == 1
    assert len(found["queries"][0]["list_a"]) <= 10
    assert found["metrics"][0]["difference"] == pytest.approx(found["metrics"][0]["a"] - found["metrics"][0]["b"])


def test_another_model_of_the_same_data_says_it(folders):
    one = json.loads(rankgrad_compare(folders / "a", folders / "silent", "--json").output)
    assert one["metrics"][0]["difference"] == 0.0
    assert one["data"] == DATA


@pytest.mark.parametrize(
    ("b", "options", "message"),
    [
        ("small", [], "models must have the same number of features; got 12 for .*a and 11 for .*small"),
        ("nowhere", [], "nowhere must be the folder of a model"),
        ("b", ["-m", "nDGC@10"], "metric must be a known name; got 'nDGC'; did you mean 'nDCG'"),
        ("b", ["--split", "tset"], "split must be one of"),
        ("b", ["--data", "MQ20008"], "data must be a known data set .* did you mean 'MQ2008'"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(folders, b, options, message):
    done = rankgrad_compare(folders / "a", folders / b, *options)
    with pytest.raises(ValueError, match=message):
        raise done.exception


def test_two_models_are_compared(folders):
    with pytest.raises(ValueError, match=r"get two models \(for more rankers, use `rankgrad experiment` .*got 3"):
        raise rankgrad_compare(folders / "a", folders / "b", folders / "c").exception


def test_data_must_be_clear(folders, tmp_path):
    for name, source in (
        ("other", DataSource("synthetic:lists=30", holdout=0.2)),
        ("same", DataSource(DATA, holdout=0.2)),
    ):
        Model.load(folders / "a").save(tmp_path / name)
        source.keep(tmp_path / name)
    with pytest.raises(ValueError, match=r"trained on different data; got synthetic.* for .*a and synthetic"):
        raise rankgrad_compare(folders / "a", tmp_path / "other").exception
    assert rankgrad_compare(folders / "a", tmp_path / "same").exit_code == 0
    (tmp_path / "same" / "data.json").unlink()
    with pytest.raises(
        ValueError, match=r"data must be given, because neither .*silent nor .*same records its training data"
    ):
        raise rankgrad_compare(folders / "silent", tmp_path / "same").exception


def run(*arguments):
    return json.loads(stdout_of(*arguments, "--json"))


def write_folder(folder, **parts):
    folder.mkdir()
    for name, part in parts.items():
        write_letor(part, folder / f"{name}.txt")
    return folder


def test_held_out_shares_of_data_with_a_validation_part_are_not_compared(data, tmp_path):
    folder = write_folder(tmp_path / "data", train=data.train, vali=data.validation, test=data.test)
    networks = ("--model", "linear", "--epochs", 1)
    run("train", "--data", folder, *networks, "--out", tmp_path / "a")
    run("train", "--data", folder, *networks, "--seed", 3, "--holdout", 0.4, "--out", tmp_path / "b")
    run("train", "--data", folder, "--model", "lightgbm", "--epochs", 1, "--out", tmp_path / "trees")
    Model.load(tmp_path / "a").save(tmp_path / "auto")
    DataSource(str(folder), missing="nan", seed=0, trained=("train", "validation")).keep(tmp_path / "auto")
    for other in ("b", "trees", "auto"):
        for split in ("test", "validation", "train"):
            found = run("compare", tmp_path / "a", tmp_path / other, "--split", split)
            assert found["lists"] == len(getattr(data, split))


def test_held_out_lists_must_be_the_same_to_compare_them(data, tmp_path):
    folder = write_folder(tmp_path / "data", train=data.train, test=data.test)
    for name, seed in (("a", 0), ("b", 3)):
        run("train", "--data", folder, "--model", "linear", "--epochs", 1, "--seed", seed, "--out", tmp_path / name)
    assert run("compare", tmp_path / "a", tmp_path / "b")["lists"] == len(data.test)
    for split in ("validation", "train"):
        with pytest.raises(
            ValueError,
            match="^data must be given, because the models held out different validation lists; "
            r"got a share of 0\.2 with seed 0 for .*a and a share of 0\.2 with seed 3 for .*b$",
        ):
            run("compare", tmp_path / "a", tmp_path / "b", "--split", split)


def test_each_model_reads_missing_values_as_in_its_training(data, tmp_path):
    unknown = data.test.features.copy()
    unknown[::3] = np.nan
    test = replace(data.test, features=unknown)
    folder = write_folder(tmp_path / "data", train=data.train, vali=data.validation, test=test)
    models = {"zero": ("linear", "--missing", "0"), "mean": ("linear", "--missing", "mean"), "trees": ("lightgbm",)}
    means = {}
    for name, (model, *options) in models.items():
        run("train", "--data", folder, "--model", model, "--epochs", 1, *options, "--out", tmp_path / name)
        means[name] = run("evaluate", tmp_path / name, "-m", "nDCG@10")["metrics"]["nDCG@10"]["mean"]
    for a, b in (("zero", "trees"), ("trees", "zero"), ("mean", "zero"), ("mean", "trees")):
        found = run("compare", tmp_path / a, tmp_path / b)["metrics"][0]
        given = run("compare", tmp_path / a, tmp_path / b, "--data", folder)["metrics"][0]
        assert (found["a"], found["b"]) == (given["a"], given["b"]) == (means[a], means[b])


def test_lists_that_a_model_may_know_are_warned_about(folders):
    done = json.loads(rankgrad_compare(folders / "a", folders / "b", "--split", "train", "--json").output)
    assert done["notes"] == [f"the model {folders / name} was trained on these lists" for name in ("a", "b")]


def test_roots_that_are_the_same_folder(folders, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, root in (("x", "."), ("y", os.fspath(tmp_path))):
        Model.load(folders / "a").save(tmp_path / name)
        DataSource(DATA, root=root, holdout=0.2).keep(tmp_path / name)
    assert rankgrad_compare("x", "y").exit_code == 0


def test_scores_of_rows_in_any_order_are_compared(data):
    test = data.test
    a, b = test.best, test.features[:, 0]
    expected = compare(a, b, test, ["nDCG@10", "AP"])
    order = np.random.default_rng(0).permutation(len(a))
    qid = test.row_qids[order]
    found = compare_scores(
        torch.tensor(a[order], requires_grad=True), b[order], test.labels[order], ["nDCG@10", "AP"], qid=qid
    )
    assert found["nDCG@10"].difference == pytest.approx(expected["nDCG@10"].difference)
    assert found["ndcg@10"].t == pytest.approx(expected.metrics[0].t)
    assert str(found).splitlines()[1].split()[:4] == [
        "nDCG@10",
        *(f"{value:.4f}" for value in (expected.metrics[0].a, expected.metrics[0].b)),
        f"{expected.metrics[0].difference:+.4f}",
    ]
    with pytest.raises(KeyError):
        found["RR"]


@pytest.mark.parametrize(
    "convert",
    [
        pytest.param(lambda values: np.array(values, dtype=np.float16), id="float16"),
        pytest.param(lambda values: np.array(values, dtype=">f4"), id="big-endian"),
        pytest.param(lambda values: torch.tensor(values, dtype=torch.bfloat16), id="bfloat16"),
        pytest.param(lambda values: torch.tensor(values).to(torch.float8_e4m3fn), id="float8"),
    ],
)
def test_scores_of_all_dtypes_are_compared(convert):
    labels, qid = [2.0, 0.0, 1.0, 0.0, 1.0], [1, 1, 1, 2, 2]
    a, b = [3.0, 1.0, 2.0, 1.0, 2.0], [1.0, 2.0, 3.0, 2.0, 1.0]
    expected = compare_scores(a, b, labels, qid=qid)
    found = compare_scores(convert(a), convert(b), convert(labels), qid=qid)
    assert found["nDCG@10"].difference == pytest.approx(expected["nDCG@10"].difference)
    assert [query.list_a for query in found.queries] == [query.list_a for query in expected.queries] != []


def test_wrong_scores_of_a_comparison_are_refused():
    with pytest.raises(TypeError, match=r"scores must be real numbers; got torch.bool"):
        compare_scores(np.array([True, False]), [1.0, 2.0], [1, 0], qid=[1, 1])
    labels, qid = [1, 0, 1], [1, 1, 2]
    with pytest.raises(ValueError, match=r"b must have one score per row, \(3,\); got \(2,\)"):
        compare_scores([1.0, 2.0, 3.0], [1.0, 2.0], labels, qid=qid)
    with pytest.raises(ValueError, match="exactly one of qid and group must be given; got neither"):
        compare_scores([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], labels)
