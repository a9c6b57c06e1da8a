"""Tables in: NumPy, pandas, polars, Arrow and Parquet give the same data set; what is wrong is named."""

import numpy as np
import pytest

from rankgrad.data.frames import from_arrays, from_frame, read_parquet

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

COLUMNS = {
    "query": ["b", "a", "b", "c", "a"],
    "grade": [1, 0, 2, 0, 1],
    "bm25": [1.5, 2.5, 3.5, 4.5, 5.5],
    "clicks": [1, 2, 3, 4, 5],
    "doc": ["d1", "d2", "d3", "d4", "d5"],
}
MAKERS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "lazy": lambda c: pl.DataFrame(c).lazy(), "arrow": pa.table}
every_kind = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


@every_kind
def test_features_are_chosen_and_ordered(make):
    data = from_frame(make(COLUMNS), label="grade", qid="query", features=["clicks", "bm25"])
    assert data.features[0].tolist() == [1, 1.5]
    assert data.docids is None


@every_kind
@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {"label": "grades"}, "label must be a column of the table; got 'grades'; did you mean 'grade'?"),
        ({}, {"features": ["bm52"]}, "features must be columns of the table; got 'bm52'; did you mean 'bm25'?"),
        ({}, {"features": ["doc"]}, "features must be numeric columns; got 'doc'"),
        ({"bm25": [1.0, None, 2.0, 3.0, None]}, {"docid": "doc"}, "got 2 missing or infinite values in 'bm25'"),
        ({"bm25": [1.0, 1e39, 2.0, 3.0, 4.0]}, {"docid": "doc"}, "got 1 missing or infinite values in 'bm25'"),
        (
            {"grade": [1, 0, 2, None, 1]},
            {"docid": "doc"},
            "label must have a value in every row of 'grade'; got 1 nulls",
        ),
        (
            {"query": ["a", None, "b", "c", "a"]},
            {"docid": "doc"},
            "qid must have a value in every row of 'query'; got 1",
        ),
        ({"grade": [1, 0, -2, 0, 1]}, {"docid": "doc"}, "labels must be finite and at least 0; got -2.0"),
    ],
)
def test_what_is_wrong_with_a_frame_is_named(make, change, options, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011
        from_frame(make(COLUMNS | change), **{"label": "grade", "qid": "query"} | options)
    assert message in str(error.value)


@every_kind
def test_missing_is_filled_on_request(make):
    frame = make(COLUMNS | {"bm25": [1.0, None, 2.0, 3.0, None], "clicks": [1, None, 3, 4, 5]})
    data = from_frame(frame, label="grade", qid="query", docid="doc", missing=-1.0)
    assert data.features[2].tolist() == [-1, -1]
    assert data.features[0].tolist() == [1, 1]


@every_kind
def test_scattered_rows_are_an_error_on_request(make):
    options = {"label": "grade", "qid": "query", "docid": "doc", "regroup": False}
    with pytest.raises(
        ValueError,
        match=r"consecutive rows for each query \(or pass regroup=True\); got a query that occurs again in row 2",
    ):
        from_frame(make(COLUMNS), **options)
    sorted_queries = make(COLUMNS | {"query": ["b", "b", "a", "c", "c"]})
    assert from_frame(sorted_queries, **options).qids.tolist() == ["b", "a", "c"]


def test_parquet(tmp_path):
    pl.DataFrame(COLUMNS).write_parquet(tmp_path / "data.parquet")
    whole = read_parquet(tmp_path / "data.parquet", label="grade", qid="query", docid="doc")
    one = read_parquet(tmp_path / "data.parquet", label="grade", qid="query", features=["bm25"])
    assert whole.features.shape == (5, 2)
    assert np.array_equal(one.features, whole.features[:, :1])
    assert whole.name == "data.parquet"
    with pytest.raises(ValueError, match="did you mean 'bm25'"):
        read_parquet(tmp_path / "data.parquet", label="grade", qid="query", features=["bm24"])


@pytest.mark.parametrize("damage", ["cut", "middle", "none of it"])
def test_a_damaged_parquet_file_is_named(tmp_path, damage):
    path = tmp_path / "rows.parquet"
    pd.DataFrame({"q": [1, 1], "y": [0, 1], "x": [0.5, 2.0]}).to_parquet(path)
    data = path.read_bytes()
    path.write_bytes({"cut": data[:-9], "middle": data[:8] + bytes(60) + data[68:], "none of it": b"\x89PNG"}[damage])
    for options in ({}, {"features": ["x"]}):
        with pytest.raises(
            ValueError, match=r"rows\.parquet: cannot be read as Parquet \(.*; expected a complete file"
        ):
            read_parquet(path, label="y", qid="q", **options)


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_unsigned_numbers_are_numbers(kind):
    X, y, qid = np.array([[1], [2], [3]], kind), np.array([0, 1, 2], kind), np.array([7, 5, 7], kind)
    data, _ = from_arrays(X, y, qid=qid)
    assert (data.labels.tolist(), data.offsets.tolist(), data.qids.tolist()) == ([0, 2, 1], [0, 2, 3], [7, 5])
    grouped, _ = from_arrays(X, y, group=np.array([1, 2], kind))
    assert (grouped.offsets.tolist(), grouped.offsets.dtype) == ([0, 1, 3], np.int64)
    for make in (pd.DataFrame, pl.DataFrame, pa.table):
        framed = from_frame(make({"q": qid, "y": y, "x": X[:, 0]}), label="y", qid="q")
        assert (framed.labels.tolist(), framed.labels.dtype) == ([0, 2, 1], np.float32)


def test_arrays_with_groups():
    data, rows = from_arrays(np.arange(6.0).reshape(3, 2), [0, 1, 2], group=[2, 0, 1], docids=["a", "b", "c"])
    assert data.offsets.tolist() == [0, 2, 2, 3]
    assert data.qids.tolist() == [0, 1, 2]
    assert rows.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("X", "y", "options", "message"),
    [
        ([[1.0]], [1], {}, "exactly one of qid and group must be given; got neither"),
        ([[1.0]], [1], {"qid": [1], "group": [1]}, "exactly one of qid and group must be given; got both"),
        ([1.0], [1], {"qid": [1]}, "X must have two dimensions, (rows, f); got (1,)"),
        ([["a"]], [1], {"qid": [1]}, "X must be an array of numbers; got <U1"),
        ([[1.0]], [1, 2], {"qid": [1, 1]}, "X must have one row per label, (2, f); got (1, 1)"),
        ([[1.0]], [1], {"qid": [1, 2]}, "qid must have one query id per row, (1,); got (2,)"),
        ([[1.0]], [1], {"qid": [0.5]}, "qid must be integers or text; got 0.5 in row 0"),
        ([[1.0]], [1], {"qid": [None]}, "qid must have a value in every row; got no value in row 0"),
        ([[1.0]], [1], {"group": [2]}, "group must have the sum 1, the number of rows; got 2"),
        ([[np.nan]], [1], {"qid": [1]}, "got 1 missing or infinite values in 'column 0'"),
        (
            [[np.inf]],
            [1],
            {"qid": [1], "missing": "zero"},
            "missing must be 'error', 'nan' or a number that replaces missing values; got 'zero'",
        ),
        ([[1.0]], [np.nan], {"qid": [1]}, "labels must be finite and at least 0; got nan"),
        ([[1.0]], [1], {"qid": [1], "docids": ["a", "b"]}, "docids must have one id per row, (1,); got (2,)"),
    ],
)
def test_what_is_wrong_with_arrays_is_named(X, y, options, message):
    with pytest.raises((ValueError, TypeError)) as error:
        from_arrays(X, y, **options)
    assert message in str(error.value)


def test_foreign_tables_are_refused():
    with pytest.raises(TypeError, match="frame must be a pandas or polars data frame or an Arrow table; got dict"):
        from_frame(COLUMNS, label="grade", qid="query")


def test_a_column_named_twice_is_refused():
    frame = pd.DataFrame([[1, 2, 3]], columns=["q", "y", "y"])
    with pytest.raises(ValueError, match="frame must have distinct column names; got the repeated names 'y'"):
        from_frame(frame, label="y", qid="q")


@every_kind
def test_usual_names_and_columns_without_numbers(make):
    columns = {**COLUMNS, "title": ["x"] * len(COLUMNS["grade"])}
    with pytest.warns(UserWarning, match="columns without numbers are not features: 'doc', 'title'"):
        data = from_frame(make(columns))
    assert data.feature_names == ("bm25", "clicks")
    chosen = from_frame(make(columns), features=["b*"], docid="doc", weight="clicks")
    assert chosen.feature_names == ("bm25",)
    assert chosen.in_row_order(chosen.weights).tolist() == COLUMNS["clicks"]
    assert chosen.in_row_order(chosen.docids).tolist() == COLUMNS["doc"]
