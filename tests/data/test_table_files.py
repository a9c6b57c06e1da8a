"""Tables: all formats give the same lists, columns are chosen by name, bad rows are named."""

import gzip
import json
import sys
from unittest.mock import patch

import numpy as np
import pytest

from rankgrad.data import Columns, TableError, from_arrays, from_frame, open_cache, read_letor, read_table, write_letor
from rankgrad.data.tables.columns import choose
from rankgrad.data.tables.files import format_of, open_table
from rankgrad.data.tables.reader import read_columns, stream_table

pa = pytest.importorskip("pyarrow")
csv = pytest.importorskip("pyarrow.csv")
feather = pytest.importorskip("pyarrow.feather")
parquet = pytest.importorskip("pyarrow.parquet")


def lists(seed=0, queries=40, features=5):
    """Return lists whose values are hard to read exactly: few digits, many digits, tiny, huge, negative zero."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 9, queries)
    qid = np.repeat(rng.permutation(1000)[:queries], lengths)
    X = (rng.normal(size=(len(qid), features)) * 10.0 ** rng.integers(-30, 30, (len(qid), features))).astype(np.float32)
    X[rng.random(X.shape) < 0.3] = 0
    docids = [f'd{row}, "{row}"' for row in range(len(qid))]
    return from_arrays(X, rng.integers(0, 5, len(qid)), qid=qid, docids=docids)[0]


def as_table(data, kind=np.float64):
    columns = {"qid": data.row_qids, "label": data.labels.astype(np.int64), "docid": data.docids}
    for place in range(data.features.shape[1]):
        columns[f"f{place + 1}"] = data.features[:, place].astype(kind)
    return pa.table(columns)


def write(table, path):
    """Write a table in the format of the ending of the path."""
    endings = "".join(path.suffixes)
    if endings == ".parquet":
        parquet.write_table(table, path, row_group_size=37)
    elif endings == ".arrow":
        feather.write_feather(table, path, chunksize=19)
    elif endings == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    else:
        options = csv.WriteOptions(delimiter="\t" if ".tsv" in endings else ",")
        sink = pa.BufferOutputStream()
        csv.write_csv(table, sink, options)
        content = sink.getvalue().to_pybytes()
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


NAMES = ("t.csv", "t.tsv", "t.csv.gz", "t.jsonl", "t.parquet", "t.arrow")
every_format = pytest.mark.parametrize("name", NAMES)


@every_format
def test_every_format_gives_the_lists_of_letor_text(tmp_path, name):
    data = lists()
    write_letor(data, tmp_path / "t.txt")
    found = read_table(write(as_table(data), tmp_path / name))
    assert found.feature_names == ("f1", "f2", "f3", "f4", "f5")
    assert found.rows is None
    for field in ("features", "labels", "offsets", "qids", "docids"):
        np.testing.assert_array_equal(getattr(found, field), getattr(data, field), err_msg=field)
        if field != "docids":  # LETOR text has other rules for comments
            np.testing.assert_array_equal(getattr(read_letor(tmp_path / "t.txt"), field), getattr(data, field))


@every_format
def test_rows_in_any_order(tmp_path, name):
    data = lists()
    order = np.random.default_rng(1).permutation(len(data.labels))
    path = write(as_table(data).take(pa.array(order)), tmp_path / name)
    with pytest.raises(TableError, match=r"row \d+: qid \d+ occurs again .*; expected .* or regroup=True"):
        read_table(path)
    for cache in (None, tmp_path / "cache", tmp_path / "cache"):
        found = read_table(path, regroup=True, cache=cache)
        np.testing.assert_array_equal(found.in_row_order(found.features[:, 2].copy()), data.features[order, 2])
        np.testing.assert_array_equal(found.in_row_order(np.asarray(found.docids)), data.docids[order])
        assert {*found.qids.tolist()} == {*data.qids.tolist()}
    kept = open_cache(tmp_path / "cache")
    assert isinstance(kept.rows, np.memmap)
    assert kept.feature_names == found.feature_names
    letor = read_letor(write_shuffled(data, order, tmp_path), regroup=True)
    np.testing.assert_array_equal(letor.in_row_order(letor.features[:, 2].copy()), data.features[order, 2])


def write_shuffled(data, order, folder):
    path = folder / "shuffled.txt"
    qid = data.row_qids[order]
    lines = [
        f"{data.labels[row]:g} qid:{q} " + " ".join(f"{j + 1}:{v!r}" for j, v in enumerate(data.features[row].tolist()))
        for q, row in zip(qid, order, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int8, np.int64, np.uint16, np.float16, bool])
def test_every_type_of_number(tmp_path, kind):
    values = np.random.default_rng(0).integers(0, 100, 50).astype(kind)
    table = pa.table({"qid": np.zeros(50, np.int64), "label": values.astype(np.float32), "x": values, "y": values})
    found = read_table(write(table, tmp_path / "t.parquet"))
    np.testing.assert_array_equal(found.features, np.stack([values, values], 1).astype(np.float32))


def test_types_of_query_ids(tmp_path):
    def read(ids, name="t.parquet"):
        table = pa.table({"qid": ids, "label": [0, 1, 0], "x": [1.0, 2.0, 3.0]})
        return read_table(write(table, tmp_path / name)).qids

    assert read(["7", "7", "9"]).dtype == np.int64
    assert read([7.0, 7.0, 9.0]).tolist() == [7, 9]
    assert read([-0.0, 0.0, 9.0]).tolist() == [0, 9]
    assert read(["07", "07", "9"]).tolist() == ["07", "9"]
    assert read(pa.array(["a", "a", "b"]).dictionary_encode()).tolist() == ["a", "b"]
    assert read(["a b", "a b", "9"], "t.csv").tolist() == ["a b", "9"]
    assert read([2**40, 2**40, 3], "t.jsonl").tolist() == [2**40, 3]
    with pytest.raises(TableError, match=r"row 3: 9\.5 in column 'qid'; expected integers or text"):
        read([7.0, 7.0, 9.5])
    with pytest.raises(TableError, match="row 2: no value in column 'qid'; expected a value in every row"):
        read(["a", None, "b"])


@pytest.mark.parametrize(
    ("values", "categories"),
    [
        ([3, 1, 3, None], ("1", "3")),
        ([2**53 + 1, 2**53, 7, None], ("7", "9007199254740992", "9007199254740993")),
        ([0.5, 2.0, 0.5, None], ("2", "0.5")),
        (["b", "a", "b", None], ("a", "b")),
    ],
)
def test_a_categorical_column_has_the_same_categories_in_every_format(tmp_path, values, categories):
    pd = pytest.importorskip("pandas")
    category = pd.Categorical(pd.array(values, dtype="Int64" if isinstance(values[0], int) else None))
    frame = pd.DataFrame({"qid": [1, 1, 1, 1], "label": [1, 0, 2, 1], "x": [1.0, 2.0, 3.0, 4.0], "c": category})
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_feather(tmp_path / "t.arrow")
    expected = from_frame(frame, missing="nan")
    assert expected.categories == {1: categories}
    found = [read_table(tmp_path / name, missing="nan") for name in ("t.parquet", "t.arrow")]
    for data in (*found, from_frame(pa.Table.from_pandas(frame), missing="nan")):
        assert data.categories == expected.categories
        np.testing.assert_array_equal(data.features, expected.features)
    assert np.isnan(expected.features[3, 1])
    if isinstance(values[0], int):  # a model of version 0.2 was trained on the numbers in a Parquet file
        numbers = [read_columns(tmp_path / name, model=("x", "c"), missing="nan") for name in ("t.parquet", "t.arrow")]
        np.testing.assert_array_equal(numbers[0].features[:3, 1], np.array(values[:3], np.float32))
        np.testing.assert_array_equal(numbers[1].features, numbers[0].features)


def test_a_folder_of_parquet_files_with_partitions(tmp_path):
    data = lists()
    table = as_table(data)
    half = int(data.offsets[20])
    for name, part in (("year=2023/b.parquet", table.slice(0, half)), ("year=2024/a.parquet", table.slice(half))):
        (tmp_path / name).parent.mkdir()
        parquet.write_table(part, tmp_path / name)
    (tmp_path / "_SUCCESS").touch()
    assert format_of(tmp_path) == "parquet"
    found = read_table(tmp_path)
    np.testing.assert_array_equal(found.features, data.features)
    with_year = read_table(tmp_path, features=["f*", "year"])
    assert with_year.feature_names[-1] == "year"
    assert with_year.features[:, -1].tolist() == [2023.0] * half + [2024.0] * (len(data.labels) - half)


# Columns


NUMERIC = {"Query": False, "grade": True, "bm25_title": True, "bm25_body": True, "url": False, "clicks": True}


def test_columns_with_usual_names():
    found = choose(Columns(), NUMERIC)
    assert found.by_role == {"qid": "Query", "label": "grade"}
    assert found.features == ("bm25_title", "bm25_body", "clicks")
    assert found.unused == ("url",)


def test_names_and_patterns():
    assert choose(Columns(features="bm25*"), NUMERIC).features == ("bm25_title", "bm25_body")
    assert choose(Columns(features=("clicks", "bm25_b*")), NUMERIC).features == ("clicks", "bm25_body")
    assert choose(Columns(drop=("bm25*",)), NUMERIC).features == ("clicks",)
    assert choose(Columns(weight="clicks"), NUMERIC).features == ("bm25_title", "bm25_body")
    assert choose(Columns(), NUMERIC, model=("clicks", "bm25_body")).features == ("clicks", "bm25_body")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (Columns(label="grad"), "label must be a column of the table; got 'grad'; did you mean 'grade'"),
        (Columns(label="url"), "label must be a numeric column; got text in column 'url'"),
        (Columns(features=("bm52*",)), "features must be columns of the table; got 'bm52\\*'"),
        (Columns(features=("url",)), "features must be numeric columns; got 'url'"),
        (Columns(features=("grade",)), "features must not contain the column of labels"),
        (Columns(drop=("clicks", "bm25*")), "features must contain at least one numeric column; got none"),
    ],
)
def test_columns_that_cannot_be_chosen(columns, message):
    with pytest.raises((ValueError, TypeError), match=message):
        choose(columns, NUMERIC)


def test_columns_of_a_model_and_their_absence():
    with pytest.raises(ValueError, match="the 2 features of the model as columns; got no column 'pagerank'"):
        choose(Columns(), NUMERIC, model=("clicks", "pagerank"))
    numeric = {name: value for name, value in NUMERIC.items() if name != "Query"}
    with pytest.raises(ValueError, match="qid must be given, because no column is named 'qid', 'query_id'"):
        choose(Columns(), numeric)


def test_left_out_columns_are_named(tmp_path):
    table = pa.table({"qid": [1, 1], "label": [0, 1], "url": ["a", "b"], "x": [1.0, 2.0], "z": [3.0, 4.0]})
    path = write(table, tmp_path / "t.csv")
    with pytest.warns(UserWarning, match="columns without numbers are not features: 'url'"):
        read_table(path)
    with pytest.warns(UserWarning, match="has columns that the model does not use: 'z'"):
        assert read_columns(path, model=("x",)).features.tolist() == [[1.0], [2.0]]


# Bad files


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot be read as CSV"),
        ("qid,label,x\n", "no rows; expected at least one document"),
        ("qid,label,x\n1,0,2\n1,0\n", "row 2: 2 values; expected 3 values, as in the header"),
        ("qid,label,x\n1,0,2\n1,0,abc\n", "columns without numbers|'abc'|numeric"),
        ("qid,label,x\n1,-1,2\n", "row 1: label -1; expected a finite number of at least 0"),
        ("qid,label,x\n1,0,2\n1,,2\n", "row 2: no label; expected a finite number"),
        ("qid,label,x\n1,0,2\n1,0,\n", "row 2: a missing value in column 'x'"),
        ("qid,label,x\n1,0,1e39\n", "row 1: a value too large for float32 .1e.39. in column 'x'"),
        ("qid,label,x,x\n1,0,1,2\n", "the column names 'x' occur several times"),
        ("a,label,x\n1,0,1\n", "qid must be given, because no column is named"),
    ],
)
def test_a_bad_csv_file_is_named_with_its_row(tmp_path, text, message):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        read_table(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_text_that_begins_after_the_first_block_is_found(tmp_path):
    path = tmp_path / "t.csv"
    rows = ["1,0,2.5"] * 700_000  # the types of columns are inferred from the first 4 MB
    path.write_text("\n".join(["qid,label,x", *rows, "1,0,oops", *rows[:9]]) + "\n")
    with pytest.raises(TableError, match=r"row 700001: 'oops' in column 'x'; expected a number"):
        read_table(path)


@pytest.mark.parametrize("line", ['{"qid": 1, "label": ', '{"qid": 1, "label": 0, "x": "a"}', "[1]"])
def test_a_bad_line_of_json(tmp_path, line):
    path = tmp_path / "t.jsonl"
    path.write_text('{"qid": 1, "label": 0, "x": 2.5}\n' + line + "\n")
    with pytest.raises(TableError, match=r"t\.jsonl: .*expected"):
        read_table(path)


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
def test_a_damaged_file(tmp_path, name):
    path = write(as_table(lists()), tmp_path / name)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(TableError, match=r"cannot be read as .*; expected a complete file of this format"):
        read_table(path)


def test_missing_values_are_replaced(tmp_path):
    table = pa.table({"qid": [1, 1, 1], "label": [0, 1, 0], "x": pa.array([1.0, None, np.inf]), "n": [1, None, 3]})
    for name in ("t.parquet", "t.csv", "t.jsonl"):
        if name == "t.jsonl":
            table = table.set_column(2, "x", pa.array([1.0, None, None]))
        found = read_table(write(table, tmp_path / name), missing=-1.0)
        assert found.features.tolist() == [[1.0, 1.0], [-1.0, -1.0], [-1.0, 3.0]]


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_infinite_values_are_counted_when_they_become_missing(tmp_path, name):
    pl = pytest.importorskip("polars")
    table = pl.DataFrame(
        {"qid": [1, 1, 2], "label": [0, 1, 2], "a": [1.0, float("inf"), None], "b": [1e39, -float("inf"), 0.5]}
    )
    (table.write_csv if name == "t.csv" else table.write_parquet)(tmp_path / name)
    told = rf"{name}: infinite values, which are counted as missing: 'a' 1, 'b' 2$"
    with pytest.warns(UserWarning, match=told):
        data = read_table(tmp_path / name, missing="nan")
    assert np.isnan(data.features).tolist() == [[False, True], [True, True], [True, False]]
    with pytest.warns(UserWarning, match=told):
        [*stream_table(tmp_path / name, features=2, missing="nan")]
    with pytest.warns(UserWarning, match=r"features: infinite values.*: 'a' 1, 'b' 2$"):
        from_frame(table, missing=0.0)
    with pytest.raises(TableError, match=r"row 1: a value too large for float32 \(1e\+39\) in column 'b'"):
        read_table(tmp_path / name)


def test_infinite_values_are_counted_in_several_threads(tmp_path):
    columns = {f"f{place}": np.full(60_000, np.inf) for place in range(3)}
    table = pa.table({"qid": np.zeros(60_000, int), "label": np.zeros(60_000), **columns})
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=100)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with (
            pytest.warns(UserWarning, match=r": 'f0' 60,000, 'f1' 60,000, 'f2' 60,000$"),
            patch("rankgrad.data.letor.passes.threads", lambda: 8),
        ):
            read_table(tmp_path / "t.parquet", missing="nan")
    finally:
        sys.setswitchinterval(before)


def test_other_delimiters_and_quotes(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('qid;label;"x;1"\n"a;b";1;2.5\n"a;b";0;3\n')
    found = read_table(path)
    assert (found.qids.tolist(), found.feature_names) == (["a;b"], ("x;1",))


def test_a_file_that_is_not_a_table(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file; expected a table"):
        read_table(tmp_path / "t.csv")
    (tmp_path / "t.txt").touch()
    with pytest.raises(ValueError, match=r"path must end with .csv, .tsv"):
        read_table(tmp_path / "t.txt")
    assert open_table(write(as_table(lists()), tmp_path / "data"), "csv").names[:2] == ["qid", "label"]


# Streams


@every_format
@pytest.mark.parametrize("documents", [1, 50, 10**6])
def test_a_stream_has_all_lists_in_order(tmp_path, name, documents, monkeypatch):
    monkeypatch.setattr("rankgrad.data.tables.files._FEWEST", 7)
    monkeypatch.setattr("rankgrad.data.tables.files._MOST", 7)
    data = lists()
    parts = [*stream_table(write(as_table(data), tmp_path / name), documents=documents)]
    assert len(parts) > 1 or documents > 50
    np.testing.assert_array_equal(np.concatenate([part.features for part in parts]), data.features)
    np.testing.assert_array_equal(np.concatenate([part.qids for part in parts]), data.qids)
    np.testing.assert_array_equal(np.concatenate([part.lengths for part in parts]), data.lengths)
    np.testing.assert_array_equal(np.concatenate([part.docids for part in parts]), data.docids)


def test_a_stream_checks_the_number_of_features_and_the_queries(tmp_path):
    data = lists()
    path = write(as_table(data), tmp_path / "t.parquet")
    with pytest.raises(TableError, match="5 feature columns; expected 6, the number of features of the model"):
        next(stream_table(path, features=6))
    again = pa.concat_tables([as_table(data), as_table(data)])
    with pytest.raises(TableError, match=r"qid \d+ occurs again"):
        [*stream_table(write(again, path), features=5)]


# Mistakes that files of other programs invite


@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_ids_are_read_as_they_are_written(tmp_path, name):
    tab = "\t" if name == "t.tsv" else ","
    ids = ["007", "7", "9007199254740992", "9007199254740993", "99999999999999999999999", "NA", "null", "1.50"]
    rows = [f"{qid},0{qid},1,2.5".replace(",", tab) for qid in ids]
    (tmp_path / name).write_text("\n".join(["qid,docid,label,x".replace(",", tab), *rows]) + "\n")
    found = read_table(tmp_path / name)
    assert found.qids.tolist() == ids
    assert found.docids.tolist() == [f"0{qid}" for qid in ids]


def test_large_ids_in_json_lines(tmp_path):
    rows = [{"qid": 9007199254740992 + place, "label": 0, "x": 1.5} for place in range(3)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read_table(tmp_path / "t.jsonl").qids.tolist() == [row["qid"] for row in rows]


def test_no_query_id_in_text(tmp_path):
    (tmp_path / "t.csv").write_text("qid,label,x\na,1,2\n,0,1\n")
    with pytest.raises(TableError, match="row 2: no value in column 'qid'"):
        read_table(tmp_path / "t.csv")


def test_the_index_of_a_data_frame_is_not_a_feature(tmp_path):
    frame = pytest.importorskip("pandas").DataFrame({"qid": [1, 1, 2], "label": [0, 1, 0], "x": [1.0, 2.0, 3.0]})
    frame.iloc[[1, 0, 2]].to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv")
    for name in ("t.parquet", "t.csv"):
        with pytest.warns(UserWarning, match="the index of a data frame is not a feature"):
            assert read_table(tmp_path / name).feature_names == ("x",)


def test_one_bad_cell_is_an_error_and_does_not_drop_the_column(tmp_path):
    (tmp_path / "t.csv").write_text("qid,label,x,y\n1,0,1,2\n1,1,oops,3\n1,0,3,4\n1,0,,5\n")
    message = r"row 2: 'oops' in column 'x'; expected a number \(or exclude the column with drop=\)"
    with pytest.raises(TableError, match=message):
        read_table(tmp_path / "t.csv", missing=0.0)
    with pytest.raises(TableError, match=message):
        read_columns(tmp_path / "t.csv", model=("x", "y"))
    assert read_columns(tmp_path / "t.csv", model=("y",)).feature_names == ("y",)  # the model does not use x
    assert read_table(tmp_path / "t.csv", drop=["x"]).feature_names == ("y",)


def test_text_of_polars(tmp_path):
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"qid": ["a", "a", "b"], "docid": ["x", "y", "z"], "label": [0, 1, 0], "f": [1.0, 2.0, 3.0]})
    frame.write_ipc(tmp_path / "t.arrow")
    frame.with_columns(pl.col("qid").cast(pl.Categorical)).write_ipc(tmp_path / "c.arrow")
    for name in ("t.arrow", "c.arrow"):
        found = read_table(tmp_path / name)
        assert (found.qids.tolist(), found.docids.tolist()) == (["a", "b"], ["x", "y", "z"])


def test_text_that_is_not_utf_8(tmp_path):
    (tmp_path / "t.csv").write_bytes("qid,label,é\n1,0,1\n".encode("latin-1"))
    with pytest.raises(TableError, match="a header that is not UTF-8; expected a file in UTF-8"):
        read_table(tmp_path / "t.csv")


def test_a_second_label_is_doubtful(tmp_path):
    (tmp_path / "t.csv").write_text("qid,label,rel,x\n1,0,0,1\n1,1,1,2\n")
    with pytest.warns(UserWarning, match="'rel' will be a feature; is it a label or an id"):
        read_table(tmp_path / "t.csv")


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_a_cache_of_a_table_with_missing_values(name, tmp_path):
    table = pa.table({"qid": [1, 1, 2], "label": [1, 0, 2], "x": [0.5, None, 2.0], "y": [1.0, 2.0, float("inf")]})
    (csv.write_csv if name == "t.csv" else parquet.write_table)(table, tmp_path / name)
    with pytest.raises(TableError, match=r"row 2: a missing value in column 'x', and such values in 1 more column;"):
        read_table(tmp_path / name)
    with pytest.raises(TableError, match=r"row 3: an infinite value in column 'y';"):
        read_table(tmp_path / name, drop=["x"])
    plain = read_table(tmp_path / name, missing="nan")
    expected = np.array([[0.5, 1], [np.nan, 2], [2, np.nan]], np.float32)
    np.testing.assert_array_equal(plain.features, expected)
    for _ in range(2):
        mapped = read_table(tmp_path / name, missing="nan", cache=tmp_path / "cache")
        np.testing.assert_array_equal(mapped.features, expected)
        stamp = (tmp_path / "cache" / "manifest.json").stat().st_mtime_ns
    read_table(tmp_path / name, missing=float("nan"), cache=tmp_path / "cache")
    assert (tmp_path / "cache" / "manifest.json").stat().st_mtime_ns == stamp
