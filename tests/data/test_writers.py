"""Data sets written and read again: LETOR text, Parquet, the cache. Nothing changes, or one sentence says why not."""

import gzip
import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankgrad.data import (
    CacheError,
    Dataset,
    from_arrays,
    open_cache,
    read_letor,
    read_parquet,
    write_cache,
    write_letor,
    write_parquet,
)

FLOATS = st.integers(0, 0xFF7FFFFF).map(lambda bits: float(np.uint32(bits).view(np.float32)))
QIDS = st.one_of(
    st.integers(-(10**17), 10**17),
    st.text(st.characters(min_codepoint=33, exclude_characters="#\x7f", exclude_categories=["Cs"]), min_size=1),
)
DOCIDS = st.text(st.characters(exclude_characters="\0\r\n", exclude_categories=["Cs"]), min_size=1).map(
    lambda text: text.strip("\t\v\f ") or "x"
)


def made(documents=7, features=3, docids=True, qids=("a", "7", "c")):
    rng = np.random.default_rng(0)
    ids = np.array([f"page {row} # {row}" for row in range(documents)]) if docids else None
    qid = np.sort(np.arange(documents) % len(qids))
    rows = rng.normal(size=(documents, features)).astype(np.float32)
    rows[:2] = [[0.0, 1e-38, 3.4028235e38], [-0.0, 1 / 3, -16777216.0]]
    return from_arrays(rows, np.arange(documents) / 4, qid=np.array(qids)[qid], docids=ids, name="made")[0]


def assert_same(found, data):
    for name in ("features", "labels", "offsets", "qids"):
        np.testing.assert_array_equal(getattr(found, name), getattr(data, name), strict=True, err_msg=name)
    if data.docids is None:
        assert found.docids is None
    else:
        np.testing.assert_array_equal(found.docids, data.docids)


def read_back(data, path):
    """The data set, written in the form that the name says and read again."""
    if path.suffix == ".parquet":
        pytest.importorskip("pyarrow")
        write_parquet(data, path)
        return read_parquet(path, label="label", qid="qid", docid=None if data.docids is None else "docid")
    if path.name == "cache":
        write_cache(data, path)
        return open_cache(path, verify=True)
    write_letor(data, path)
    return read_letor(path)


EVERY_FORM = pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.xz", "a.parquet", "cache"])


@EVERY_FORM
def test_blocks_and_row_groups_change_nothing(name, tmp_path, monkeypatch):
    monkeypatch.setattr("rankgrad.data.writers._BLOCK", 7)  # two documents
    monkeypatch.setattr("rankgrad.data.writers._ROW_GROUP", 7)
    data = made(documents=11)
    assert_same(read_back(data, tmp_path / name), data)


@EVERY_FORM
@pytest.mark.parametrize("docids", [True, False])
@pytest.mark.parametrize("qids", [("a", "7", "c"), (30, 7, -2)])
def test_what_is_written_is_read(name, docids, qids, tmp_path):
    data = made(docids=docids, qids=qids)
    assert_same(read_back(data, tmp_path / name), data)
    assert [path.name for path in tmp_path.iterdir()] == [name]  # nothing temporary is left
    assert_same(read_back(data.take([2, 0]), tmp_path / name), data.take([2, 0]))  # a file is replaced


def test_the_text_is_as_short_as_it_can_be(tmp_path):
    rows = np.array([[0.1, 3.0, 1e-5], [2.5e10, -0.0, 1 / 3]], dtype=np.float32)
    write_letor(from_arrays(rows, [2, 0.5], qid=["v1.0", "b"], docids=["v1.0 ", "d"])[0].take([1]), tmp_path / "a.txt")
    assert (tmp_path / "a.txt").read_text() == "0.5 qid:b 1:2.5e+10 2:0 3:0.33333334 # d\n"
    write_letor(from_arrays(rows, [2, 0.5], qid=["v1.0", "b"])[0], tmp_path / "a.txt.gz")
    first = gzip.decompress((tmp_path / "a.txt.gz").read_bytes()).decode().splitlines()[0]
    assert first == "2 qid:v1.0 1:0.1 2:3 3:1e-05"


@given(values=st.lists(FLOATS, min_size=1, max_size=30))
def test_every_float32_survives_letor_text(values, tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "a.txt"
    numbers = np.nan_to_num(np.array(values, dtype=np.float32), nan=1.0, posinf=2.0)
    data = from_arrays(numbers[:, None], np.abs(numbers), qid=[1] * len(values))[0]
    assert_same(read_back(data, path), data)


def test_random_bits_survive_letor_text(tmp_path):
    bits = np.random.default_rng(0).integers(0, 2**32, size=(2000, 20), dtype=np.uint32).view(np.float32)
    data = from_arrays(np.where(np.isfinite(bits), bits, 0), np.zeros(2000), group=[2000])[0]
    assert_same(read_back(data, tmp_path / "a.txt"), data)


def test_a_decimal_that_two_roundings_change_is_written_longer(tmp_path):
    """In float64, the shortest decimal of this number is the middle of two float32."""
    value = np.uint32(0x15AE43FD).view(np.float32)
    assert str(value) == "7.038531e-26"
    assert np.float32(float("7.038531e-26")) != value
    assert_same(read_back(with_values(value), tmp_path / "a.txt"), with_values(value))


@given(qids=st.lists(QIDS, min_size=1, max_size=5), docids=st.lists(DOCIDS, min_size=5, max_size=5))
def test_ids_survive(qids, docids, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ids")
    unique = list(dict.fromkeys(map(str, qids)))
    rows = len(unique)
    data = from_arrays(np.ones((rows, 1)), np.zeros(rows), qid=np.array(unique), docids=docids[:rows])[0]
    for name in ("a.txt", "a.parquet", "cache"):
        found = read_back(data, folder / name)
        assert found.qids.astype(str).tolist() == unique
        assert found.docids.tolist() == docids[:rows]


@pytest.mark.parametrize("docid", ["docid=7", "DocID=", "docid", "#", "docids = 7", ""])
def test_document_ids_that_look_like_the_form_of_letor_4(docid, tmp_path):
    data = from_arrays([[1.0], [2.0]], [0, 1], qid=[1, 1], docids=[docid, "other"])[0]
    assert read_back(data, tmp_path / "a.txt").docids.tolist() == [docid, "other"]


def with_ids(qid="q", docid="d"):
    return replace(from_arrays([[1.0]], [1], qid=[1])[0], qids=np.array([qid]), docids=np.array([docid]))


def with_values(feature=1.0, label=1.0):
    arrays = [np.array([[feature]], dtype=np.float32), np.array([label], dtype=np.float32)]
    return Dataset(*arrays, np.array([0, 1]), np.array([1]))


BAD = {
    "qid with a space": (with_ids("a b"), "query ids must be text of 1 to 255 bytes without spaces.*; got 'a b'"),
    "qid with #": (with_ids("a#b"), "query ids must be"),
    "empty qid": (with_ids(""), "query ids must be"),
    "long qid": (with_ids("é" * 128), "query ids must be"),
    "half of a pair": (with_ids("\ud800"), "query ids must be"),
    "newline": (with_ids(docid="a\nb"), r"document ids must be one line of at most 255 characters.*'a\\nb'"),
    "trailing newline": (with_ids(docid="a\n"), "document ids must be"),
    "space in front": (with_ids(docid=" a"), "document ids must be"),
    "long docid": (with_ids(docid="d" * 256), "document ids must be one line of at most 255 characters"),
    "docid = with spaces": (with_ids(docid="docid = 7"), "document ids must not begin with `docid =`"),
    "infinity": (with_values(math.inf), "features must be finite or NaN to be written as LETOR text; got an inf"),
    "negative label": (with_values(label=-1), "labels must be finite and at least 0; got -1"),
    "NaN label": (with_values(label=math.nan), "labels must be finite and at least 0; got nan"),
    "no document": (made().take([]), "dataset must have at least one document and one feature"),
}


@pytest.mark.parametrize(("data", "message"), BAD.values(), ids=BAD)
def test_what_text_cannot_represent_is_one_sentence(data, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        write_letor(data, tmp_path / "a.txt")
    assert list(tmp_path.iterdir()) == []


def test_ids_that_no_file_can_have_are_refused(tmp_path):
    pytest.importorskip("pyarrow")
    for name, data in (("query", with_ids("\ud800")), ("document", with_ids(docid="\ud800")), ("query", with_ids(""))):
        with pytest.raises(
            ValueError, match=rf"^{name} ids must (be integers, or text in UTF-8|have a value in every)"
        ):
            write_parquet(data, tmp_path / "a")
    large = replace(with_ids(), qids=np.array([2**63 + 1], dtype=np.uint64))
    for name in ("a.parquet", "cache"):
        assert read_back(large, tmp_path / name).qids.tolist() == ["9223372036854775809"]


@pytest.mark.parametrize("write", [write_letor, write_parquet])
def test_lists_that_rows_cannot_restore(write, tmp_path):
    if write is write_parquet:
        pytest.importorskip("pyarrow")
    data = made()
    empty = replace(data, offsets=np.array([0, 3, 3, 7]))
    with pytest.raises(ValueError, match=r"have at least one document per list.*; got no documents for query 7"):
        write(empty, tmp_path / "a")
    with pytest.raises(ValueError, match=r"different query id for each list to be .*; got 2 lists with the id a"):
        write(data.take([0, 1, 0]), tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_a_cache_keeps_empty_lists_and_names(tmp_path):
    data = replace(made(), offsets=np.array([0, 3, 3, 7]))
    found = read_back(data, tmp_path / "cache")
    assert_same(found, data)
    assert found.name == "made"
    assert isinstance(found.features, np.memmap)


def test_a_cache_replaces_itself_but_nothing_else(tmp_path):
    write_cache(made(), tmp_path / "cache")
    mapped = open_cache(tmp_path / "cache")
    write_cache(mapped.take([2, 0]), tmp_path / "cache")
    assert_same(open_cache(tmp_path / "cache"), made().take([2, 0]))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("")
    with pytest.raises(CacheError, match=r"contains 'thesis.tex', which is not part of a cache"):
        write_cache(made(), tmp_path / "other")


def test_nan_is_kept(tmp_path):
    data = with_values(math.nan)
    write_letor(data, tmp_path / "a.txt")
    assert np.isnan(read_letor(tmp_path / "a.txt", missing=np.nan).features).all()
    pytest.importorskip("pyarrow")
    write_parquet(data, tmp_path / "a.parquet")
    found = read_parquet(tmp_path / "a.parquet", label="label", qid="qid", missing=np.nan)
    assert np.isnan(found.features).all()


def test_a_failed_write_keeps_the_old_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    bad = from_arrays([[1.0]] * 3, [0, 0, 0], qid=[1, 2, 3], docids=["a", "b", "c\n"])[0]
    with pytest.raises(ValueError, match="document ids"):
        write_letor(bad, path)
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["a.txt"]


def test_the_columns_and_row_groups_of_parquet(tmp_path, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("rankgrad.data.writers._ROW_GROUP", 12)
    data = made(documents=12, qids=("a", "b", "c", "d"))  # 4 lists of 3 documents with 3 features
    write_parquet(data.take([0, 1, 2]), tmp_path / "a.parquet")
    file = parquet.ParquetFile(tmp_path / "a.parquet")
    assert file.schema_arrow.names == ["label", "qid", "docid", "f1", "f2", "f3"]
    assert {str(field.type) for field in file.schema_arrow} == {"float", "string"}
    assert [file.metadata.row_group(place).num_rows for place in range(file.num_row_groups)] == [3, 3, 3]


def test_parquet_is_written_in_blocks(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("rankgrad.data.writers._ROW_GROUP", 1 << 16)
    write_cache(from_arrays(np.ones((100_000, 20)), np.ones(100_000), group=[100] * 1000)[0], tmp_path / "cache")
    mapped = open_cache(tmp_path / "cache")
    tracemalloc.start()
    write_parquet(mapped, tmp_path / "a.parquet")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < mapped.features.nbytes / 4


def test_writers_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(ModuleNotFoundError, match=r"write_parquet needs pyarrow: pip install 'rankgrad\[frames\]'"):
        write_parquet(made(), tmp_path / "a.parquet")
