"""Ids are kept: text byte for byte, integers exactly; what cannot be kept is refused in one sentence, everywhere."""

import datetime
import re
from decimal import Decimal

import numpy as np
import pytest

import rankgrad as rg
from rankgrad.data import from_arrays, from_frame, read_table
from rankgrad.ids import document_ids, query_ids

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
feather = pytest.importorskip("pyarrow.feather")
parquet = pytest.importorskip("pyarrow.parquet")

BIG = 2**53
UTF = "be integers, or text in UTF-8"
NUL = "be integers, or text that does not end with a NUL character"


def arrow(values):
    return pa.array(values, pa.uint64() if values[0] == 2**64 - 1 else None)


def in_file(ids, role, path):
    """Read ids from the column `role` of a table file, whose other columns are filled."""
    rows = len(ids)
    columns = {"qid": pa.array(np.zeros(rows, int)), role: ids, "label": pa.array(np.zeros(rows))}
    table = pa.table({**columns, "x": pa.array(np.arange(1.0, rows + 1))})
    (parquet.write_table if path.suffix == ".parquet" else feather.write_feather)(table, path)
    data = read_table(path)
    return data.qids if role == "qid" else data.docids


# Values of distinct ids, the ids, and the same as a column of Arrow, pandas and polars.
KEPT = {
    "integers": ([BIG, BIG + 1, -7], [BIG, BIG + 1, -7]),
    "large integers": ([2**64 - 1, 2**64 - 2, 5], ["18446744073709551615", "18446744073709551614", "5"]),
    "whole floats": ([1.0, 2.0, float(BIG - 1)], [1, 2, BIG - 1]),
    "text": (["2024-01-01", "2024-01-01T00:00:00Z", " 1.0", "007", "é\0x"],) * 2,
    "decimals": ([Decimal("1.00"), Decimal(10**30)], ["1", "1" + "0" * 30]),
    "bytes": (["ü".encode(), b"b"], ["ü", "b"]),
}


@pytest.mark.parametrize("kind", KEPT)
def test_ids_are_kept_in_every_front(kind, tmp_path):
    values, ids = KEPT[kind]
    fronts = [values, np.array(values, dtype=object), pd.Series(values), pl.Series(values, strict=False), arrow(values)]
    fronts += [pa.chunked_array([arrow(values)]), pd.Series(values, dtype=object)]
    for front in fronts:
        assert query_ids(front).tolist() == ids
        assert document_ids(front).tolist() == [str(each) for each in ids]
    X, y = np.arange(1.0, len(ids) + 1)[:, None], np.ones(len(ids))
    assert from_arrays(X, y, qid=values, docids=values)[0].qids.tolist() == ids
    assert rg.metrics.evaluate(X[:, 0], y, "nDCG", qid=values).queries == tuple(ids)
    for make in (pd.DataFrame, pl.DataFrame, pa.table):
        column = values if make is pd.DataFrame else arrow(values)
        data = from_frame(make({"qid": column, "docid": column, "label": y, "x": X[:, 0]}))
        assert (data.qids.tolist(), data.docids.tolist()) == (ids, [str(each) for each in ids])
    for name in ("t.parquet", "t.arrow"):
        for column in (arrow(values), arrow(values).dictionary_encode()):
            assert in_file(column, "qid", tmp_path / name).tolist() == ids
            assert in_file(column, "docid", tmp_path / name).tolist() == [str(each) for each in ids]


@pytest.mark.parametrize(
    ("values", "got", "must"),
    [
        ([1.0, 1e19], "1e+19", "be integers or text, or floats below 2^53"),
        ([1.0, float(BIG)], "9007199254740992.0", "be integers or text, or floats below 2^53"),
        ([1.0, 1.5], "1.5", "be integers or text"),
        ([1.0, float("inf")], "inf", "be integers or text"),
        (["a", "a\0"], r"'a\x00'", NUL),
        ([b"a", b"\xff"], r"b'\xff'", UTF),
        ([True, False], "a value of the type bool", "be integers or text"),
        ([[1], [2]], "a value of the type list", "be integers or text"),
        ([datetime.date(2024, 1, 1)] * 2, "a value of the type date", "be integers or text"),
        (["a" * 200_000] + ["b"] * 1999, "a text of 200,000 characters", "be integers or short text"),
        (["a", "\ud800"], r"'\ud800'", UTF),
    ],
)
def test_what_cannot_be_kept_is_refused_in_one_sentence(values, got, must, tmp_path):
    rows, row = len(values), 0 if isinstance(values[0], bool | list | datetime.date) or len(values) > 2 else 1
    X, y = np.arange(1.0, rows + 1)[:, None], np.ones(rows)
    frames = [pd.DataFrame({"qid": pd.Series(values, dtype=object), "label": y, "x": X[:, 0]})]
    if "\ud800" not in values:  # only Python has such a text
        frames += [pl.DataFrame({"qid": values, "label": y, "x": X[:, 0]})]
        frames += [frames[1].to_arrow(), pa.table({"qid": pa.array(values), "label": y, "x": X[:, 0]})]
        for number, table in enumerate(frames[2:]):
            for role in ("docid",) if rows > 2 else ("qid", "docid"):  # a query id is stored once per list
                for name in ("t.parquet", "t.arrow"):
                    with pytest.raises(ValueError, match=rf"{name}: row {row + 1}: .* in column '{role}'") as caught:
                        in_file(table["qid"], role, tmp_path / name)
                    assert "expected " + must.removeprefix("be ")[:15] in str(caught.value), number
    for call in (
        lambda: from_arrays(X, y, qid=np.array(values, dtype=object) if isinstance(values[0], list) else values),
        *(lambda frame=frame: from_frame(frame) for frame in frames),
    ):
        with pytest.raises(ValueError, match=r"qid must ") as caught:
            call()
        text = str(caught.value)
        assert "\n" not in text
        if "type" not in got:
            assert text.startswith(f"qid must {must}"), text
            assert re.search(rf"; got {re.escape(got)} in row {row}$", text), text


def test_float_arrays_beyond_int64_are_refused_and_unsigned_ones_are_text(tmp_path):
    X, y = np.arange(12.0).reshape(6, 2), [1, 0, 1, 0, 1, 0]
    large = np.repeat(np.array([2**63 + 1, 2**63 + 2, 5], dtype=np.uint64), 2)
    for call in (
        lambda qid: from_arrays(X, y, qid=qid),
        lambda qid: rg.metrics.evaluate(X[:, 0], y, "nDCG", qid=qid),
        lambda qid: rg.Ranker(epochs=1).fit(X, y, qid=qid),
    ):
        with pytest.raises(
            ValueError, match=r"^qid must be integers or text, or floats below 2\^53; got 1e\+19 in row"
        ):
            call(np.repeat([1e19, 1.2e19, 1.5e19], 2))
    data = from_arrays(X, y, qid=large)[0]
    assert data.qids.tolist() == ["9223372036854775809", "9223372036854775810", "5"]
    rg.data.write_cache(data, tmp_path / "cache")
    rg.data.write_parquet(data, tmp_path / "t.parquet")
    assert rg.data.open_cache(tmp_path / "cache").qids.tolist() == data.qids.tolist()
    assert read_table(tmp_path / "t.parquet").qids.tolist() == data.qids.tolist()


def test_a_nul_character_inside_an_id_is_written(tmp_path):
    ids = ["a\0b", "a", "a\0c"]
    data = from_arrays([[1.0], [2.0], [3.0]], [0, 1, 2], qid=ids, docids=ids)[0]
    rg.data.write_parquet(data, tmp_path / "t.parquet")
    found = read_table(tmp_path / "t.parquet")
    assert found.qids.tolist() == found.docids.tolist() == ids


def test_one_missing_id_changes_no_other_id(tmp_path):
    columns = {"qid": [1, 1, 1], "docid": [BIG, BIG + 1, None], "label": [1, 0, 0], "x": [1.0, 2, 3]}
    expected = [str(BIG), str(BIG + 1), ""]
    nullable = pd.DataFrame(columns).astype({"docid": object})
    nullable = nullable.assign(docid=pd.array([BIG, BIG + 1, pd.NA], dtype="Int64"))
    category = nullable.assign(docid=pd.Categorical(nullable["docid"]))
    arrow = nullable.assign(docid=nullable["docid"].astype("int64[pyarrow]"))
    for frame in (nullable, category, arrow, pl.DataFrame(columns), pa.table(columns)):
        assert from_frame(frame).docids.tolist() == expected
        assert document_ids(frame["docid"]).tolist() == expected
    pl.DataFrame(columns).write_parquet(tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet").docids.tolist() == expected
    for missing in (None, float("nan"), pd.NA, np.datetime64("NaT")):
        with pytest.raises(ValueError, match=r"qid must "):
            query_ids(["a", missing])
    assert document_ids(["a", None, pd.NA, float("nan")]).tolist() == ["a", "", "", ""]
    assert document_ids(np.ma.array([1, 2], mask=[False, True])).tolist() == ["1", ""]


def test_nulls_and_equal_values_inside_a_dictionary(tmp_path):
    def encoded(indices, values):
        return pa.DictionaryArray.from_arrays(pa.array(indices), pa.array(values))

    with pytest.raises(ValueError, match=r"row 2: no value in column 'qid'; expected a value in every row"):
        in_file(encoded([0, 1, 1], ["a", None]), "qid", tmp_path / "t.arrow")
    assert in_file(encoded([0, 1, 2], ["a", "a", "b"]), "qid", tmp_path / "t.arrow").tolist() == ["a", "b"]
    assert in_file(encoded([0, 1, 0], ["a", None]), "docid", tmp_path / "t.arrow").tolist() == ["a", "", "a"]
