"""Tables on the command line: the same model from every format, rows in any order, scores in the order of the file."""

import builtins
import csv as csv_of_python
import io
import json
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from paths import SHARED
from programs import finished, invoke
from programs import stdout_of as rankgrad
from safetensors.numpy import load_file

from rankgrad import Ranker
from rankgrad.cli.score_files import writing_scores
from rankgrad.data import from_arrays, load, read_letor, read_table, write_cache, write_letor, write_parquet

pa = pytest.importorskip("pyarrow")
csv = pytest.importorskip("pyarrow.csv")
feather = pytest.importorskip("pyarrow.feather")
parquet = pytest.importorskip("pyarrow.parquet")

NAMES = ("t.txt", "t.csv", "t.parquet", "t.arrow")
MQ2008 = SHARED / "data" / "MQ2008"


@pytest.fixture(scope="module", params=["generated", "MQ2008"])
def files(request, tmp_path_factory):
    """One table in four formats, in the same row order."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "MQ2008" and not MQ2008.is_dir():
        pytest.skip("MQ2008 is not in ../shared/data")
    if request.param == "generated":
        data = load("synthetic:lists=60,features=12").train
    else:
        data = load("MQ2008", fold=1, root=MQ2008.parent).train.take(slice(0, 150))
    write_letor(data, folder / "t.txt")
    write_parquet(data, folder / "t.parquet")
    table = parquet.read_table(folder / "t.parquet")
    csv.write_csv(table, folder / "t.csv")
    feather.write_feather(table, folder / "t.arrow")
    order = np.random.default_rng(0).permutation(len(table))
    csv.write_csv(table.take(pa.array(order)), folder / "shuffled.csv")
    return SimpleNamespace(folder=folder, data=data, order=order, table=table)


def scores(model, path, *options):
    return np.loadtxt(io.StringIO(rankgrad("predict", model, path, *options)))


def test_every_format_gives_the_same_model_and_the_same_scores(files, tmp_path):
    found = {}
    for name in NAMES:
        rankgrad("train", "--data", files.folder / name, "--epochs", 3, "--out", tmp_path / name)
        found[name] = load_file(tmp_path / name / "model.safetensors")
    for name in NAMES[1:]:
        assert found[name].keys() == found["t.txt"].keys()
        for weight in found["t.txt"]:
            np.testing.assert_array_equal(found[name][weight], found["t.txt"][weight])
        names = json.loads((tmp_path / name / "config.json").read_text())["feature_names"]
        assert names == files.table.column_names[-len(names) :]
    expected = rankgrad("predict", tmp_path / "t.txt", files.folder / "t.txt")
    for model in NAMES:
        for name in NAMES:
            assert rankgrad("predict", tmp_path / model, files.folder / name) == expected
    read = [read_letor(files.folder / "t.txt"), *(read_table(files.folder / name) for name in NAMES[1:])]
    for data in read:
        ranker = Ranker(epochs=3).fit(data.features, data.labels, qid=data.row_qids)
        text = "".join(f"{score:.9g}\n" for score in ranker.predict(data.features, qid=data.row_qids))
        assert text == expected


@pytest.mark.parametrize(
    ("model", "most"),
    [("mlp", 0), ("lightgbm", 0), ("context_aware:width=16,blocks=1,feed_forward=16", 1e-6)],
)
def test_shuffled_rows_keep_their_scores(files, tmp_path, model, most):
    if model == "lightgbm":
        pytest.importorskip("lightgbm")
    rankgrad("train", "--data", files.folder / "t.csv", "--model", model, "--epochs", 3, "--out", tmp_path / "a")
    straight = scores(tmp_path / "a", files.folder / "t.csv")[files.order]
    shuffled = scores(tmp_path / "a", files.folder / "shuffled.csv", "--regroup")
    assert np.abs(shuffled - straight).max() <= most * np.abs(straight).max()
    rankgrad("convert", files.folder / "shuffled.csv", tmp_path / "cache", "--regroup")
    np.testing.assert_array_equal(scores(tmp_path / "a", tmp_path / "cache"), shuffled)
    with pytest.raises(ValueError, match="occurs again"):
        rankgrad("evaluate", tmp_path / "a", "--data", files.folder / "shuffled.csv")
    metrics, ties = [], ("-m", "nDCG(ties=expected)")
    for name in ("t.csv", "shuffled.csv"):
        out = rankgrad("evaluate", tmp_path / "a", "--data", files.folder / name, "--regroup", "--json", *ties)
        metrics += [each["mean"] for each in json.loads(out)["metrics"].values()]
    assert metrics[0] == pytest.approx(metrics[1], abs=1e-5)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A model of a table with names of its own, and the table."""
    folder = tmp_path_factory.mktemp("named")
    rng = np.random.default_rng(0)
    rows = 120
    table = pa.table(
        {
            "url": [f"u{row}" for row in range(rows)],
            "search": [f"s {row // 6}" for row in range(rows)],
            "stars": rng.integers(0, 3, rows),
            "bm25": rng.normal(size=rows),
            "age": rng.normal(size=rows),
            "id": np.arange(rows),
            "trust": rng.random(rows),
        }
    )
    parquet.write_table(table, folder / "train.parquet")
    options = ("--label", "stars", "--query", "search", "--docid", "url", "--drop", "id", "--weight", "trust")
    data = ("--data", folder / "train.parquet")
    rankgrad("train", *data, *options, "--epochs", 2, "--loss", "softmax", "--out", folder / "a")
    return SimpleNamespace(folder=folder, model=folder / "a", table=table, options=options)


def test_columns_are_recorded_and_used_again(trained, tmp_path):
    assert json.loads((trained.model / "data.json").read_text())["columns"] == {
        "label": "stars",
        "qid": "search",
        "drop": ["id"],
        "docid": "url",
        "weight": "trust",
    }
    other = trained.table.select(["age", "search", "stars", "url", "bm25", "trust"])
    csv.write_csv(other, tmp_path / "other.csv")
    rankgrad("evaluate", trained.model, "--data", tmp_path / "other.csv")
    assert rankgrad("predict", trained.model, tmp_path / "other.csv") == rankgrad(
        "predict", trained.model, trained.folder / "train.parquet"
    )
    frame = other.to_pandas()
    ranker = Ranker.load(trained.model)
    assert ranker.feature_names_in_.tolist() == ["bm25", "age"]
    with pytest.warns(UserWarning, match="does not use"):
        found = ranker.predict(frame, qid=frame["search"])
    np.testing.assert_array_equal(found, ranker.predict(frame[["bm25", "age"]], qid=frame["search"]))


def test_a_column_option_replaces_only_its_own_recorded_column(trained, tmp_path):
    """With `--query` alone, the label of the training is still the label, not another column with a usual name."""
    rows = len(trained.table)
    both = trained.table.append_column("label", pa.array(np.arange(rows) % 2))
    renamed = both.rename_columns(["query" if name == "search" else name for name in both.column_names])
    parquet.write_table(both, tmp_path / "both.parquet")
    parquet.write_table(renamed, tmp_path / "renamed.parquet")
    expected = rankgrad("evaluate", trained.model, "--data", tmp_path / "both.parquet", "--json")
    other = rankgrad("evaluate", trained.model, "--data", tmp_path / "both.parquet", "--label", "label", "--json")
    values = [json.loads(text)["metrics"] for text in (expected, other)]
    assert values[0] != values[1]
    for name, *given in (
        ("both.parquet", "--query", "search"),
        ("both.parquet", "--docid", "url"),
        ("both.parquet", "--drop", "label"),
        ("renamed.parquet", "--query", "query"),
    ):
        found = rankgrad("evaluate", trained.model, "--data", tmp_path / name, *given, "--json")
        assert json.loads(found)["metrics"] == values[0], given
    out = tmp_path / "scores.csv"
    rankgrad("predict", trained.model, tmp_path / "both.parquet", "--query", "search", "--out", out)
    assert out.read_text().startswith("search,url,score\n")


def test_evaluate_says_that_the_model_was_trained_on_the_lists(trained):
    done = finished("evaluate", trained.model, "--data", trained.folder / "train.parquet")
    assert "warning: the model was trained on these lists, so these values are higher than on new lists" in done.stderr


def test_columns_of_text_have_advice(trained, tmp_path):
    table = trained.table.append_column("size", pa.array(["0,5"] * len(trained.table)))
    csv.write_csv(table, tmp_path / "t.csv")
    done = finished("inspect", tmp_path / "t.csv", *trained.options)
    told = "not features: 'size' (to use categories, set --categorical; replace dates, and numbers with a decimal comma"
    assert told in " ".join(done.stdout.split())


def test_features_cannot_be_dropped(trained):
    data = trained.folder / "train.parquet"
    with pytest.raises(ValueError, match=r"drop must not contain a feature that the model needs or .*; got 'age'"):
        rankgrad("evaluate", trained.model, "--data", data, "--drop", "age")
    with pytest.raises(ValueError, match=r"drop must not contain a feature .* that features names; got 'age'"):
        rankgrad("inspect", data, "--label", "stars", "--query", "search", "--features", "age", "--drop", "age")


def test_predict_ignores_labels_that_are_text(trained, tmp_path):
    words = pa.array(["good"] * len(trained.table))
    table = trained.table.set_column(trained.table.column_names.index("stars"), "stars", words)
    parquet.write_table(table, tmp_path / "words.parquet")
    expected = rankgrad("predict", trained.model, trained.folder / "train.parquet")
    assert rankgrad("predict", trained.model, tmp_path / "words.parquet") == expected


def test_scores_do_not_replace_the_input(trained, tmp_path):
    csv.write_csv(trained.table, tmp_path / "rows.csv")
    before = (tmp_path / "rows.csv").read_bytes()
    (tmp_path / "link.csv").symlink_to(tmp_path / "rows.csv")
    for out in ("rows.csv", "link.csv"):
        with pytest.raises(ValueError, match=f"out must be another file than the input; got .*{out}"):
            rankgrad("predict", trained.model, tmp_path / "rows.csv", "--out", tmp_path / out)
    assert (tmp_path / "rows.csv").read_bytes() == before


def test_missing_columns_are_an_error_and_extra_columns_a_warning(trained, tmp_path):
    csv.write_csv(trained.table.drop_columns(["age"]), tmp_path / "less.csv")
    with pytest.raises(
        ValueError, match=r"less\.csv: the table must have the 2 features of the model as columns; got no column 'age'"
    ):
        rankgrad("predict", trained.model, tmp_path / "less.csv")
    more = trained.table.append_column("extra", pa.array(np.zeros(120)))
    csv.write_csv(more, tmp_path / "more.csv")
    done = invoke("evaluate", trained.model, "--data", tmp_path / "more.csv")
    assert done.exit_code == 0
    assert "has columns that the model does not use: 'extra'" in done.stderr


@pytest.mark.parametrize(
    "command", ["train", pytest.param("tune", marks=pytest.mark.long), "inspect", "compare", "convert"]
)
def test_every_command_that_reads_data_takes_columns(trained, tmp_path, command):
    data = trained.folder / "train.parquet"
    given = {
        "train": ("--data", data, "--epochs", 1, "--out", tmp_path / "a", "--loss", "softmax"),
        "tune": (
            "--data",
            data,
            "--budget",
            2,
            "--epochs",
            1,
            "--jobs",
            1,
            "--loss",
            "softmax",
            "--out",
            tmp_path / "a",
        ),
        "inspect": (data, "--json"),
        "compare": (trained.model, trained.model, "--data", data, "--json"),
        "convert": (data, tmp_path / "cache"),
    }[command]
    out = rankgrad(command, *given, *trained.options)
    if command == "inspect":
        assert json.loads(out)["splits"][0]["features"] == 2
    with pytest.raises(ValueError, match="label must be a column of the table; got 'star'; did you mean 'stars'"):
        rankgrad(command, *given, *(("--overwrite",) if command in ("train", "tune") else ()), "--label", "star")


def test_folders_of_tables(trained, tmp_path):
    csv.write_csv(trained.table.slice(0, 90), tmp_path / "train.csv")
    csv.write_csv(trained.table.slice(90), tmp_path / "test.csv")
    out = rankgrad(
        "train", "--data", tmp_path, *trained.options, "--loss", "softmax", "--epochs", 1, "--out", tmp_path / "a"
    )
    assert "on 5 test lists" in out
    rankgrad("evaluate", tmp_path / "a")
    write_letor(load("synthetic:lists=5,features=12").train, tmp_path / "vali.txt")
    with pytest.raises(ValueError, match="must contain tables only, or LETOR text only"):
        rankgrad("evaluate", tmp_path / "a")


def test_a_cache_of_a_table_and_inspect(trained, tmp_path):
    rankgrad("convert", trained.folder / "train.parquet", tmp_path / "cache", *trained.options)
    seen = json.loads(rankgrad("inspect", tmp_path / "cache", "--json"))
    assert (seen["splits"][0]["lists"], seen["splits"][0]["features"]) == (20, 2)
    assert rankgrad("predict", trained.model, tmp_path / "cache") == rankgrad(
        "predict", trained.model, trained.folder / "train.parquet"
    )


def test_formats_of_scores(trained, tmp_path):
    data = trained.folder / "train.parquet"
    expected = scores(trained.model, data)
    for name in ("s.csv", "s.parquet"):
        rankgrad("predict", trained.model, data, "--out", tmp_path / name)
    read = csv.read_csv(tmp_path / "s.csv")
    assert read.column_names == ["search", "url", "score"]  # the names of the input
    assert read["url"].to_pylist() == trained.table["url"].to_pylist()
    assert read["search"].to_pylist() == trained.table["search"].to_pylist()
    np.testing.assert_array_equal(np.float32(read["score"].to_numpy()), np.float32(expected))
    stored = parquet.read_table(tmp_path / "s.parquet")
    np.testing.assert_array_equal(stored["score"].to_numpy(), np.float32(expected))
    assert stored["url"].to_pylist() == trained.table["url"].to_pylist()
    with pytest.raises(ValueError, match="out must be a file for the format parquet"):
        rankgrad("predict", trained.model, data, "--format", "parquet")


@pytest.mark.parametrize(("ids", "more"), [(True, ()), (False, ()), (True, ("--regroup",)), (False, ("--regroup",))])
def test_the_best_documents_of_each_query(trained, tmp_path, ids, more):
    table = trained.table if ids else trained.table.drop_columns(["url"])
    table = table.take(np.random.default_rng(0).permutation(len(table))) if more else table
    csv.write_csv(table, tmp_path / "lists.csv")
    command = ("predict", trained.model, tmp_path / "lists.csv", *more)
    frame = table.to_pandas().assign(score=scores(*command[1:]), row=np.arange(len(table)) + 1)
    queries = frame.groupby("search", sort=False)
    frame = frame.assign(rank=queries["score"].rank(ascending=False).astype(int), place=queries.ngroup())
    best = frame[frame["rank"] <= 2].sort_values(["place", "rank"])
    names = ["search", "url", "score", "rank"] if ids else ["search", "row", "score", "rank"]
    for ending, read in (("csv", csv.read_csv), ("parquet", parquet.read_table)):
        rankgrad(*command, "--top", 2, "--out", tmp_path / f"best.{ending}")
        found = read(tmp_path / f"best.{ending}").to_pandas()
        assert found.columns.tolist() == names
        np.testing.assert_allclose(found.pop("score"), best["score"], rtol=1e-6)
        assert found.to_numpy().tolist() == best[[name for name in names if name != "score"]].to_numpy().tolist()
    spaceless = table.set_column(table.column_names.index("search"), "search", pa.array(frame["place"]))
    csv.write_csv(spaceless, tmp_path / "lists.csv")
    run = [line.split() for line in rankgrad(*command, "--top", 2, "--format", "trec").splitlines()]
    documents = best["url"] if ids else "document-" + best["row"].astype(str)
    assert [[line[2], int(line[3])] for line in run] == list(map(list, zip(documents, best["rank"], strict=True)))
    with pytest.raises(
        ValueError, match="top must be used with the format csv, parquet or trec, which contain ids; got"
    ):
        rankgrad(*command, "--top", 2)


def test_standard_input(trained, files, tmp_path, monkeypatch):
    csv.write_csv(trained.table, tmp_path / "t.csv")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO((tmp_path / "t.csv").read_bytes())))
    text = rankgrad("predict", trained.model, "-", "--input", "csv", input=(tmp_path / "t.csv").read_bytes())
    assert text == rankgrad("predict", trained.model, trained.folder / "train.parquet")
    with pytest.raises(ValueError, match=r"^standard input: .*no column 'bm25'"):
        rankgrad("predict", trained.model, "-", "--input", "csv", input=b"search,x\n1,2\n")


def test_options_of_tables_are_refused_for_letor_text(files, tmp_path):
    with pytest.raises(ValueError, match="label must be given only for a table"):
        rankgrad("train", "--data", files.folder / "t.txt", "--label", "y", "--out", tmp_path / "a")


def test_outputs_that_are_not_plain_files(trained, tmp_path):
    data = trained.folder / "train.parquet"
    expected = rankgrad("predict", trained.model, data)
    (tmp_path / "real.txt").touch(mode=0o600)
    (tmp_path / "link.txt").symlink_to("real.txt")
    rankgrad("predict", trained.model, data, "--out", tmp_path / "link.txt")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == expected
    assert (tmp_path / "real.txt").stat().st_mode & 0o777 == 0o600
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit((tmp_path / "pipe").read_text)
        rankgrad("predict", trained.model, data, "--out", tmp_path / "pipe")
        assert read.result(60) == expected
    assert (tmp_path / "pipe").is_fifo()


def test_formats_of_scores_that_do_not_exist(trained, tmp_path):
    data = trained.folder / "train.parquet"
    for name in ("s.csv.gz", "s.tsv", "s.jsonl"):
        with pytest.raises(ValueError, match=r"out must end with .csv, .parquet, .trec, .run or .txt"):
            rankgrad("predict", trained.model, data, "--out", tmp_path / name)
    with pytest.raises(ValueError, match=r"query ids must have no spaces in a TREC run .*; got 's 0'"):
        rankgrad("predict", trained.model, data, "--out", tmp_path / "s.trec")


@pytest.mark.parametrize("qids", [["a\rb", "a\0b", "2024-01-01"], [2**53 + 1, 2**53, -1], ["007", "7,0", 'q"']])
def test_ids_are_written_as_they_are(qids, tmp_path):
    docids = ["d\re", "", 'd, "1"\n']
    data = from_arrays([[1.0], [2.0], [3.0]], [0, 1, 2], qid=qids, docids=docids)[0]
    for kind in ("csv", "parquet"):
        with writing_scores(kind, str(tmp_path / f"s.{kind}"), "tag", {}) as writer:
            writer.write(data, data.features[:, 0])
    with (tmp_path / "s.csv").open(newline="", encoding="utf-8") as file:
        read = [*csv_of_python.reader(file)][1:]
    assert [row[:2] for row in read] == [[str(qid), docid] for qid, docid in zip(qids, docids, strict=True)]
    found = parquet.read_table(tmp_path / "s.parquet").to_pydict()
    assert (found["qid"], found["docid"]) == (qids, docids)
    for ids in (docids, ["d", "a b", "a_b"]):
        spaced = from_arrays([[1.0], [2.0], [3.0]], [0, 1, 2], qid=[1, 1, 1], docids=ids)[0]
        with (
            pytest.raises(ValueError, match=r"document ids must have no spaces in a TREC run \(or use --format csv\)"),
            writing_scores("trec", str(tmp_path / "s.trec"), "tag", {}) as writer,
        ):
            writer.write(spaced, data.features[:, 0])


def test_missing_values_and_row_order_as_in_training(tmp_path):
    rng = np.random.default_rng(0)
    values = rng.normal(size=60)
    values[3] = np.nan
    table = pa.table({"qid": rng.permutation(np.arange(60) % 10), "label": rng.integers(0, 3, 60), "x": values})
    csv.write_csv(table, tmp_path / "t.csv")
    rankgrad("train", "--data", tmp_path / "t.csv", "--missing", 0, "--regroup", "--epochs", 1, "--out", tmp_path / "a")
    assert len(scores(tmp_path / "a", tmp_path / "t.csv")) == 60
    rankgrad("evaluate", tmp_path / "a", "--data", tmp_path / "t.csv")
    done = invoke("evaluate", tmp_path / "a")
    assert done.exit_code == 0
    assert "there are no test lists: the validation lists, which selected the model, are used" in done.stderr


def test_columns_are_shown_and_a_missing_file_is_called_missing(trained, tmp_path):
    out = rankgrad("inspect", trained.folder / "train.parquet", *trained.options)
    assert "columns: label 'stars', query 'search', docid 'url', weight 'trust', 2 features: 'bm25', 'age'" in out
    shown = json.loads(rankgrad("inspect", trained.folder / "train.parquet", *trained.options, "--json"))
    assert shown["feature_names"] == ["bm25", "age"]
    with pytest.raises(OSError, match=r"nofile\.csv: no such file or folder; expected a data set"):
        rankgrad("inspect", "nofile.csv")


def test_messages_name_the_options_as_they_are_typed(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_text("search,label,x\n1,0,1\n")
    monkeypatch.chdir(tmp_path)
    done = finished("inspect", "t.csv")
    assert done.stderr.startswith("rankgrad: t.csv: --query must be given, because no column is named 'qid'")


@pytest.mark.parametrize(("name", "times"), [("t.parquet", 1), ("t.txt", 2)])  # LETOR is counted first, then parsed
def test_a_training_opens_its_file_once(name, times, tmp_path, monkeypatch):
    data = load("synthetic:lists=30,features=10").train
    {"t.txt": write_letor, "t.parquet": write_parquet}[name](data, tmp_path / name)
    opened = []
    openers = [(builtins, "open"), (io, "open"), (pa, "memory_map"), (pa, "OSFile"), (pa, "input_stream")]

    def noted(function):
        def call(path, *more, **options):
            opened.extend([function] if str(path).endswith(name) else [])
            return function(path, *more, **options)

        return call

    for owner, each in (*openers, *((parquet, each) for each in ("read_schema", "read_metadata", "read_table"))):
        monkeypatch.setattr(owner, each, noted(getattr(owner, each)))
    make = parquet.ParquetFile.__init__

    def noted_file(self, source, *more, **options):
        opened.extend(["ParquetFile"] if str(source).endswith(name) else [])
        make(self, source, *more, **options)

    monkeypatch.setattr(parquet.ParquetFile, "__init__", noted_file)
    rankgrad("train", "--data", tmp_path / name, "--model", "linear", "--epochs", 1, "--out", tmp_path / "a")
    assert len(opened) == times, opened


def test_a_query_with_several_lists(tmp_path):
    rng = np.random.default_rng(0)
    query, session = np.repeat(np.arange(40), 6), np.tile([0, 0, 1, 1, 2, 2], 40)
    table = {"query": query, "session": session, "label": np.tile([0, 1], 120), "position": np.tile([1, 2], 120)}
    table |= {"x": rng.normal(size=240) + table["label"], "z": rng.normal(size=240)}
    csv.write_csv(pa.table(table), tmp_path / "t.csv")
    csv.write_csv(pa.table(table).drop(["label", "position"]).slice(0, 30), tmp_path / "new.csv")
    columns = ["--list-id", "session", "--training-columns", "position"]
    model = tmp_path / "a"
    options = ["--model", "linear", "--epochs", 2, "--out", model]
    out = rankgrad("train", "--data", tmp_path / "t.csv", *columns, *options)
    assert (
        "columns: label 'label', query 'query', list_id 'session', training columns 'position', 2 features: 'x', 'z'"
        in out
    )
    assert "train: 96 lists, 192 documents" in out
    assert "validation: 24 lists, 48 documents" in out
    rankgrad("train", "--resume", "--epochs", 3, "--out", model)
    lines = rankgrad("evaluate", model, "--data", tmp_path / "t.csv", "-m", "P@1", "--each").splitlines()
    assert [line.split("\t")[1] for line in lines if line.startswith("P@1\t")] == [*map(str, range(40))]
    assert any("The value of a query is the mean over its lists (120 lists)" in line for line in lines)
    rankgrad("predict", model, tmp_path / "new.csv", "--out", tmp_path / "scores.csv", "--top", 1)
    rows = [row.split(",")[:2] for row in (tmp_path / "scores.csv").read_text().splitlines()]
    assert rows == [["query", "session"], *([str(q), str(own)] for q in range(5) for own in range(3))]
    with pytest.raises(ValueError, match="must have one list per query in a TREC run"):
        rankgrad("predict", model, tmp_path / "new.csv", "--out", tmp_path / "run.trec")
    explained = rankgrad("explain", model, "--data", tmp_path / "t.csv", "--query", "3/1")
    assert "query 3/1, nDCG@10" in explained
    with pytest.raises(
        ValueError, match="query must name one list, as <query id>/<list id>; got '3', which has 3 lists"
    ):
        rankgrad("explain", model, "--data", tmp_path / "t.csv", "--query", "3")
    rankgrad("report", model, "--out", tmp_path / "page.html")
    assert re.search(r'"\d+/1"', (tmp_path / "page.html").read_text())  # the page shows each list
    table["query"] = rng.permutation(query)
    csv.write_csv(pa.table(table), tmp_path / "b.csv")
    with pytest.raises(ValueError, match=r"qid \d+ occurs again after qid \d+"):  # without a list column, as before
        rankgrad("train", "--data", tmp_path / "b.csv", "--drop", "session,position", "--out", tmp_path / "b")


def test_a_folder_of_caches(trained, tmp_path):
    whole = read_table(trained.folder / "train.parquet", label="stars", qid="search", docid="url")
    for name, part in (("train", slice(0, 12)), ("vali", slice(12, 16)), ("test", slice(16, None))):
        write_cache(whole.take(part), tmp_path / "set" / name)
    options = ("--model", "linear", "--epochs", 1, "--out", tmp_path / "a")
    out = rankgrad("train", "--data", tmp_path / "set", *options)
    assert "on 4 test lists" in out
    assert "held out" not in out
    found = load(tmp_path / "set")
    assert (len(found.train), len(found.validation), len(found.test)) == (12, 4, 4)
    assert found.train.feature_names == found.test.feature_names == whole.feature_names
    assert found.test.docids.tolist() == whole.take(slice(16, None)).docids.tolist()
    from_table = rankgrad("evaluate", trained.model, "--data", tmp_path / "set", "--json")  # its columns are not needed
    assert json.loads(from_table)["lists"] == 4
    (tmp_path / "set" / "test" / "labels.npy").unlink()
    with pytest.raises(ValueError, match=r"labels.npy is missing"):
        rankgrad("train", "--data", tmp_path / "set", *options, "--overwrite")
