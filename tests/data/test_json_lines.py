"""JSON lines: ids are kept whatever they look like, and keys may begin in any row."""

import json
import warnings

import numpy as np
import pytest

from rankgrad.data import TableError, read_table
from rankgrad.data.tables.reader import read_columns, stream_table

pytest.importorskip("pyarrow")
FAR = 5  # rows of more than 1 MB, so that a later row is not in the first block of 4 MB
PAD = "x" * (1 << 20)


def written(path, rows, far=False, **more):
    """Write rows of JSON text; with `far`, long rows of the query `far` come first, with the keys `more`."""
    first = [json.dumps({"qid": "far", "label": 0, "x": 1, "pad": PAD, **more})] * FAR if far else []
    path.write_text("".join(row + "\n" for row in [*first, *rows]), encoding="utf-8")
    return path


DATES = ["2024-01-01", "2024-01-01T00:00:00Z", "2024-01-01 00:00:00", "no date"]


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize(
    ("given", "ids"),
    [
        (DATES, DATES),
        ([2**64 - 1, 2**64 - 2, 5], [str(2**64 - 1), str(2**64 - 2), "5"]),
        ([2**53, 2**53 + 1, 1.0], [2**53, 2**53 + 1, 1]),
        ([2**70, 2**70 + 1, -(2**63)], [str(2**70), str(2**70 + 1), str(-(2**63))]),
        ([1.0, 2e3, -0.0], [1, 2000, 0]),
        (["007", 7, "7.0", "é", "a\0b"], ["007", "7", "7.0", "é", "a\0b"]),
    ],
)
def test_ids_are_kept(tmp_path, far, given, ids):
    rows = [json.dumps({"qid": each, "docid": each, "label": 1, "x": row}) for row, each in enumerate(given)]
    path = written(tmp_path / "t.jsonl", rows, far, docid=None)
    found = read_table(path, drop=["pad"] if far else ())
    assert found.qids.tolist() == (["far", *map(str, ids)] if far else ids)
    assert found.docids.tolist() == [""] * FAR * far + [str(each) for each in ids]
    parts = [*stream_table(path)]
    assert [str(qid) for part in parts for qid in part.qids.tolist()] == ["far"] * far + [str(each) for each in ids]


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("1.5", "1.5 in column 'qid'; expected integers or text"),
        ("9007199254740992.0", "9007199254740992.0 in column 'qid'; expected integers or text, or floats below 2"),
        ("true", "a value of the type bool in column 'qid'; expected integers or text"),
        ("[1]", "a value of the type list in column 'qid'; expected integers or text"),
        ('"\\ud800"', r"'\\ud800' in column 'qid'; expected text in UTF-8"),
        ('"a\\u0000"', r"'a\\x00' in column 'qid'; expected integers, or text that does not end with a NUL"),
        ("null", "no value in column 'qid'; expected a value in every row"),
        ('1, "qid": 2', "not JSON .the key 'qid' occurs twice.; expected one JSON object per line"),
        ('1, "x": "a"', r"\"a\" in column 'x'; expected a number .or exclude the column with drop=."),
    ],
)
def test_what_cannot_be_kept_is_named_with_its_row(tmp_path, far, value, message):
    x = "" if '"x"' in value else ', "x": 3'
    path = written(
        tmp_path / "t.jsonl", ['{"qid": 1, "label": 0, "x": 2}'] * 3 + [f'{{"qid": {value}, "label": 0{x}}}'], far
    )
    with pytest.raises(TableError, match=rf"t.jsonl: row {4 + FAR * far}: {message}") as caught:
        read_table(path, drop=["pad"] if far else ())
    assert "\n" not in str(caught.value)


def test_keys_that_begin_late(tmp_path):
    late = '{"qid": "a", "docid": "d", "label": 1, "x": 2, "clicks": 3, "grade": 1, "note": "text"}'
    path = written(tmp_path / "t.jsonl", [late], far=True)
    expected = np.array([[1, np.nan]] * FAR + [[2, 3]], np.float32)
    for cache in (None, tmp_path / "cache", tmp_path / "cache"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = read_table(path, drop=["pad", "grade"], missing="nan", cache=cache)
        assert found.feature_names == ("x", "clicks")
        np.testing.assert_array_equal(found.features, expected)
        assert found.docids.tolist() == [""] * FAR + ["d"]
    with pytest.raises(TableError, match=r"row 1: a missing value in column 'clicks'"):
        read_table(path, features=["x", "clicks"])  # both names are known only after the first block
    one = read_columns(path, model=("clicks",), missing="nan")
    np.testing.assert_array_equal(one.features, expected[:, 1:])
    with pytest.raises(
        TableError, match=r"document ids that begin later; expected document ids that begin in the first 4"
    ):
        [*stream_table(path, model=("x",), missing="nan")]
    parts = [*stream_table(path, model=("clicks", "x"), missing="nan", documents=1)]
    np.testing.assert_array_equal(np.concatenate([part.features for part in parts]), expected[:, ::-1])


def test_categories_keep_large_integers(tmp_path):
    rows = [json.dumps({"qid": 1, "label": 0, "c": value}) for value in (2**53, 2**53 + 1, 1.5, "text", None)]
    found = read_table(written(tmp_path / "t.jsonl", rows), categorical=["c"], missing="nan")
    assert found.categories == {0: (str(2**53), str(2**53 + 1), "1.5", "text")}
    assert found.features[:, 0].tolist()[:4] == [0, 1, 2, 3]
    assert np.isnan(found.features[4, 0])
