"""Known sets: where their files are found, that their facts are checked, and what is said when they are not there."""

import gzip
import json
import lzma
import warnings

import numpy as np
import pytest
from paths import SHARED

from rankgrad.data import Columns, TableError, from_frame
from rankgrad.data.benchmarks import BenchmarkFacts, BenchmarkWarning, verify
from rankgrad.data.dataset import Dataset, Splits
from rankgrad.data.loading import datasets, load

DATA = SHARED / "data"
needs_data = pytest.mark.skipif(not (DATA / "MQ2008").is_dir(), reason="the real data is not in ../shared/data")


def letor(qids, features=3, label=1):
    """A small file: two documents a query, the first relevant."""
    rows = []
    for qid in qids:
        for grade in (label, 0):
            pairs = " ".join(f"{j + 1}:{(qid * 7 + j * 3 + grade) % 10}.5" for j in range(features))
            rows.append(f"{grade} qid:{qid} {pairs}\n")
    return "".join(rows)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    with opener(path, "wt") as file:
        file.write(text)


def quiet(*args, **options):
    """Load without the warning that a toy set is not the published one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BenchmarkWarning)
        return load(*args, **options)


@needs_data
@pytest.mark.parametrize("fold", range(1, 6))
def test_mq2008_is_as_published(fold):
    with warnings.catch_warnings():
        warnings.simplefilter("error", BenchmarkWarning)
        splits = load("MQ2008", fold=fold, root=DATA)
    parts = (splits.train, splits.validation, splits.test)
    assert sum(map(len, parts)) == 784
    assert sum(len(part.labels) for part in parts) == 15_211
    assert {part.features.shape[1] for part in parts} == {46}
    assert len(splits.validation) == (156 if fold == 2 else 157)
    queries = np.concatenate([part.qids for part in parts])
    assert len(np.unique(queries)) == 784


@needs_data
def test_the_sample_loads_as_a_folder_without_validation():
    splits = load(DATA / "MSLR-sample")
    assert splits.validation is None
    assert (len(splits.train), len(splits.test)) == (43, 43)
    assert splits.train.features.shape == splits.test.features.shape == (5_000, 136)
    assert set(np.unique(splits.train.labels)) == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("place", ["{}", "MQ2008/{}", "mq2008/Querylevelnorm/{}", "LETOR/MQ2008/{}"])
@pytest.mark.parametrize("packed", ["", ".gz", ".xz"])
def test_folds_are_found(tmp_path, place, packed):
    for number, split in enumerate(("train", "vali", "test")):
        write(tmp_path / place.format(f"Fold2/{split}.txt{packed}"), letor([10 + number]))
    splits = quiet("mq2008", fold=2, root=tmp_path)
    assert [int(part.qids[0]) for part in (splits.train, splits.validation, splits.test)] == [10, 11, 12]


@pytest.mark.parametrize("packed", ["", ".gz", ".xz"])
def test_parts_make_the_folds(tmp_path, packed):
    for part in range(1, 6):
        write(tmp_path / "MQ2007" / f"S{part}.txt{packed}", letor([part]))
    table = ["123 4 5", "234 5 1", "345 1 2", "451 2 3", "512 3 4"]  # as published: train, validation, test
    for fold, expected in enumerate(table, start=1):
        splits = quiet("MQ2007", fold=fold, root=tmp_path)
        parts = (splits.train, splits.validation, splits.test)
        assert " ".join("".join(str(qid) for qid in part.qids) for part in parts) == expected


@pytest.mark.parametrize(
    ("name", "fold", "files"),
    [
        (
            "ohsumed",
            1,
            ["OHSUMED/Fold1/trainingset.txt", "OHSUMED/Fold1/validationset.txt", "OHSUMED/Fold1/testset.txt"],
        ),
        ("yahoo", None, ["ltrc_yahoo/set1.train.txt", "ltrc_yahoo/set1.valid.txt", "ltrc_yahoo/set1.test.txt"]),
        ("YLTR", None, ["set1.train.txt", "set1.valid.txt", "set1.test.txt"]),
        ("web10k", 1, ["MSLR-WEB10K/Fold1/train.txt", "MSLR-WEB10K/Fold1/vali.txt", "MSLR-WEB10K/Fold1/test.txt"]),
        ("istella-s", None, ["istella-s-letor/train.txt", "istella-s-letor/vali.txt", "istella-s-letor/test.txt"]),
    ],
)
def test_file_names_of_the_sets(tmp_path, name, fold, files):
    for number, file in enumerate(files):
        write(tmp_path / file, letor([number + 1]))
    splits = quiet(name, fold=fold, root=tmp_path)
    assert [int(part.qids[0]) for part in (splits.train, splits.validation, splits.test)] == [1, 2, 3]


def test_yahoo_is_as_wide_as_published_though_sparse(tmp_path):
    for split in ("train", "valid", "test"):
        write(tmp_path / f"set1.{split}.txt", "1 qid:1 3:0.5\n0 qid:1 7:0.5\n")
    assert quiet("yahoo", root=tmp_path).test.features.shape == (2, 699)


def test_one_list_cannot_be_split(tmp_path):
    write(tmp_path / "train.txt", letor(range(1)))
    write(tmp_path / "test.txt", letor(range(1)))
    must = "holdout must be 0, or large enough to select a list whose labels differ"
    with pytest.raises(ValueError, match=rf"{must}; got 0.2 with 1 list\(s\) in .* train$"):
        load(tmp_path, holdout=0.2)
    assert len(load(tmp_path).train) == 1


def test_a_large_share_leaves_a_list_to_train_on(tmp_path):
    write(tmp_path / "train.txt", letor(range(2)))
    write(tmp_path / "test.txt", letor(range(1)))
    splits = load(tmp_path, holdout=0.9)
    assert (len(splits.train), len(splits.validation)) == (1, 1)


def test_istella_fills_what_is_missing_and_holds_out(tmp_path):
    write(tmp_path / "istella" / "train.txt", "1 qid:99 1:1.797e308 2:4 3:1\n" + letor(range(20)))
    write(tmp_path / "istella" / "test.txt", letor(range(30, 40)))
    one, again = (quiet("Istella", root=tmp_path) for _ in range(2))
    assert (len(one.train), len(one.validation), len(one.test)) == (17, 4, 10)
    assert not set(one.train.qids) & set(one.validation.qids)
    assert np.array_equal(one.validation.qids, again.validation.qids)
    assert not np.array_equal(one.validation.qids, quiet("Istella", root=tmp_path, seed=1).validation.qids)
    whole = quiet("Istella", root=tmp_path, holdout=0.0)
    assert whole.validation is None
    assert whole.train.features[0].tolist() == [0.0, 4.0, 1.0]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        load("Istella", root=tmp_path)
    assert not [each for each in caught if "infinite" in str(each.message)]  # the set marks missing values in this way


def test_infinite_values_of_a_split_are_told_once(tmp_path):
    write(tmp_path / "train.txt", "1 qid:99 1:inf 2:4\n" + letor(range(20)))
    write(tmp_path / "test.txt", "1 qid:99 1:4 2:inf 9:1\n" + letor(range(30, 40)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        load(tmp_path, missing="nan")
    told = [str(each.message).removeprefix(str(tmp_path)) for each in caught]
    what = "infinite values, which are counted as missing"
    assert told == [f"/train.txt: {what}: 'feature 1' 1", f"/test.txt: {what}: 'feature 2' 1"]


@pytest.mark.parametrize("name", ["vali", "valid", "val", "validation", "dev", "Val"])
def test_the_validation_file_has_the_names_in_use(tmp_path, name):
    for number, split in enumerate(("train", name, "test")):
        write(tmp_path / f"{split}.txt", letor([number]))
    splits = load(tmp_path)
    assert splits.validation is not None
    assert splits.validation.qids.tolist() == [1]


def test_two_files_of_one_split_are_an_error(tmp_path):
    for split in ("train", "val", "dev", "test"):
        write(tmp_path / f"{split}.txt", letor([1]))
    with pytest.raises(ValueError, match=r" must contain one validation file; got val\.txt and dev\.txt$"):
        load(tmp_path)
    (tmp_path / "dev.txt").rename(tmp_path / "val.txt.gz")  # not read: the plain file is
    assert load(tmp_path).validation is not None


def test_a_folder_with_a_train_file_alone_loads(tmp_path):
    write(tmp_path / "train.txt", letor(range(10)))
    splits = load(tmp_path, holdout=0.2)
    assert splits.test is None
    assert (len(splits.train), len(splits.validation)) == (8, 2)
    write(tmp_path / "MQ2008" / "Fold1" / "train.txt", letor([1]))
    with pytest.raises(FileNotFoundError, match="root must contain MQ2008"):  # a benchmark set has a test part
        load("MQ2008", fold=1, root=tmp_path)


def test_splits_of_one_folder_have_one_width(tmp_path):
    write(tmp_path / "train.txt", letor([1], features=3))
    write(tmp_path / "test.txt", letor([2], features=5))
    splits = load(tmp_path)
    assert splits.train.features.shape == splits.test.features.shape == (2, 5)
    assert (splits.train.features[:, 3:] == 0).all()


def test_cache_gives_the_same(tmp_path):
    for split in ("train", "test"):
        write(tmp_path / "data" / f"{split}.txt", letor([1, 2], features=3 if split == "train" else 4))
    plain = load(tmp_path / "data")
    written = []
    for _ in range(2):
        cached = load(tmp_path / "data", cache=tmp_path / "cache")
        assert np.array_equal(cached.train.features, plain.train.features)
        assert np.array_equal(cached.test.qids, plain.test.qids)
        written.append({file: file.stat().st_mtime_ns for file in (tmp_path / "cache").rglob("*.npy")})
    assert written[0] == written[1] != {}  # the second load wrote nothing anew


def test_root_comes_from_the_environment(tmp_path, monkeypatch):
    for split in ("train", "vali", "test"):
        write(tmp_path / "WEB10K" / "Fold3" / f"{split}.txt", letor([1]))
    monkeypatch.setenv("RANKGRAD_DATA", str(tmp_path))
    assert len(quiet("WEB10K", fold=3).train) == 1


def test_differences_are_warned_about(tmp_path):
    for part in range(1, 6):
        write(tmp_path / f"S{part}.txt", letor([part], label=3))
    with pytest.warns(BenchmarkWarning) as caught:
        load("MQ2008", fold=1, root=tmp_path)
    said = str(caught[0].message)
    assert said.startswith(
        "MQ2008, fold 1 differs from the published facts: 784 queries expected, 5 found (779 fewer); "
    )
    assert "46 features expected, 3 found (43 fewer)" in said
    assert "labels 0 to 2 expected, 0 to 3 found" in said
    assert "220 queries without a relevant document expected, 0 found (220 fewer)" in said
    assert "train queries expected, 3 found" in said


def test_verify_says_nothing_where_nothing_is_published():
    data = Dataset(np.zeros((1, 2), np.float32), np.zeros(1, np.float32), np.array([0, 1]), np.array([1]))
    assert verify(BenchmarkFacts("anything"), Splits(data, None, data)) == []
    with pytest.warns(BenchmarkWarning, match=r"3 documents expected, 2 found \(1 fewer\)"):
        verify(BenchmarkFacts("anything", documents=3), Splits(data, None, data))
    assert verify(BenchmarkFacts("anything", documents=3, documents_within=0.5), Splits(data, None, data)) == []


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("MQ208", {}, "name must be a known data set or a folder with a train file; got 'MQ208'; did you mean"),
        ("MQ2008", {"fold": 6}, "fold must be 1 to 5 for MQ2008; got 6"),
        ("MQ2008", {}, "fold must be 1 to 5 for MQ2008; got None"),
        ("Istella", {"fold": 1}, "fold must be None for Istella, which has no folds; got 1"),
        ("synthetic:list=3", {}, "option of synthetic must be a known name; got 'list'; did you mean 'lists'?"),
        ("synthetic:lists=many", {}, "lists of synthetic must be an integer; got 'many'"),
        ("synthetic:lists=40,features=5", {}, "features of synthetic must be at least 10; got 5"),
        ("web30k-shape:scale=-1", {}, "scale of web30k-shape must be above 0; got -1"),
    ],
)
def test_bad_names_and_folds(name, options, message, tmp_path):
    with pytest.raises(ValueError) as error:  # noqa: PT011
        load(name, root=tmp_path, **options)
    assert str(error.value).startswith(message)


def test_what_is_not_there_is_named_with_the_places_looked_at(tmp_path):
    (tmp_path / "MQ2007").mkdir()
    with pytest.raises(FileNotFoundError) as error:
        load("MQ2007", fold=4, root=tmp_path)
    said = str(error.value)
    assert "MQ2007/Fold4/train.txt, vali.txt, test.txt or MQ2007/S1.txt to S5.txt (plain, .gz or .xz; put" in said
    assert f"got no such files in {tmp_path / 'MQ2007'}, {tmp_path}" in said
    assert "RANKGRAD_DATA" in said
    with pytest.raises(
        FileNotFoundError,
        match=r"must contain train\.txt \(plain, .* train.csv; vali\.txt and test\.txt are",
    ):
        load(tmp_path)


def test_names_and_aliases_are_each_one_set():
    names = [known.lower() for facts in datasets() for known in (facts.name, *facts.aliases)]
    assert len(names) == len(set(names))


def test_generated_by_name():
    splits = load("synthetic:lists=9,features=12,grades=3")
    assert len(splits.train) == 9
    assert splits.train.labels.max() <= 2
    assert load("WEB30K-shape:scale=0.0005").train.features.shape[1] == 136


TABLES = ("csv", "csv.gz", "tsv", "jsonl", "parquet", "arrow")


def write_table(path, table):
    """Write an Arrow table in the format that the name ends with."""
    import pyarrow as pa
    from pyarrow import csv, feather, parquet

    kind = path.name.split(".")[1]
    if kind == "parquet":
        parquet.write_table(table, path)
    elif kind == "arrow":
        feather.write_feather(table, path)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    else:
        options = csv.WriteOptions(delimiter="\t" if kind == "tsv" else ",")
        with pa.output_stream(str(path), compression="gzip" if path.suffix == ".gz" else None) as out:
            csv.write_csv(table, out, options)


def parts_of_a_table(rows=20):
    """Five Arrow tables; the columns of each have another order, and a column of text has other values."""
    pa = pytest.importorskip("pyarrow")
    rng, parts = np.random.default_rng(0), []
    for part in range(5):
        columns = {"query": [f"q{part}-{row // 4}" for row in range(rows)], "label": [row % 2 for row in range(rows)]}
        columns |= {"a": rng.integers(0, 9, rows).tolist(), "b": (rng.integers(0, 99, rows) / 4).tolist()}
        columns["kind"] = [f"kind {part + row % 2}" for row in range(rows)]
        parts.append(pa.table(columns).select([*columns][part % 2 :] + [*columns][: part % 2]))
    return parts


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.filterwarnings("ignore:.*are unknown to the model")
@pytest.mark.parametrize("fold", [1, 4])
def test_the_parts_of_a_fold_are_joined_in_every_format(tmp_path, kind, fold):
    pa, parts = pytest.importorskip("pyarrow"), parts_of_a_table()
    folder, train = tmp_path / "set", {1: (0, 1, 2), 4: (3, 4, 0)}[fold]
    folder.mkdir()
    for number, part in enumerate(parts):
        write_table(folder / f"S{number + 1}.{kind}", part)
    names = ["query", "label", "a", "b", "kind"]
    whole = pa.concat_tables([parts[number].select(names) for number in train])
    columns = Columns(features=("a", "b", "kind"), categorical=("kind",))
    got, expected = load(folder, fold=fold, columns=columns).train, from_frame(whole, categorical=["kind"])
    for name in ("features", "labels", "offsets", "qids", "feature_names", "categories"):
        assert np.array_equal(getattr(got, name), getattr(expected, name)), name
    numbers = Columns(features=("a", "b"))
    cached = [load(folder, fold=fold, columns=numbers, cache=tmp_path / "cache").train for _ in range(2)]
    for data in (*cached, load(folder, fold=fold, columns=numbers).train):
        assert np.array_equal(data.features, expected.features[:, :2])
        assert data.qids.tolist() == expected.qids.tolist()


def test_a_key_of_json_lines_may_begin_in_a_later_part(tmp_path):
    pytest.importorskip("pyarrow")
    for number in range(1, 6):
        late = {} if number < 3 else {"late": number}
        rows = [{"qid": f"q{number}-{row // 2}", "label": row % 2, "x": row, **late} for row in range(6)]
        (tmp_path / f"S{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = load(tmp_path, fold=1, missing="nan").train
    assert data.feature_names == ("x", "late")
    assert np.nansum(data.features, axis=0).tolist() == [45.0, 18.0]
    assert np.isnan(data.features[:12, 1]).all()


@pytest.mark.filterwarnings("ignore:.*columns without numbers")
def test_parts_of_a_fold_that_do_not_fit_are_refused(tmp_path):
    parts = parts_of_a_table()
    for number, part in enumerate(parts):
        write_table(tmp_path / f"S{number + 1}.csv", part)
    write_table(tmp_path / "S2.csv", parts[1].drop_columns(["b"]))
    with pytest.raises(TableError, match=r"S2\.csv: no column 'b'; expected the columns of .*S1\.csv"):
        load(tmp_path, fold=1)
    write_table(tmp_path / "S2.csv", parts[0])
    with pytest.raises(TableError, match=r"S1\.csv \+ S2\.csv \+ S3\.csv: row 21: qid q0-0 occurs again"):
        load(tmp_path, fold=1)
    write_table(tmp_path / "S2.csv", parts[1].set_column(2, "b", [["x"] * 20]))
    with pytest.raises(TableError, match=r"S2\.csv: row 1: 'x' in column 'b'"):
        load(tmp_path, fold=1)
    (tmp_path / "S2.csv").unlink()
    write_table(tmp_path / "S2.tsv", parts[1])
    with pytest.raises(TableError, match=r"S2\.tsv: the format tsv; expected csv, as in .*S1\.csv"):
        load(tmp_path, fold=1)
