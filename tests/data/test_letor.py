"""The LETOR reader on sound files: real sets, every legal way to write one, and the same arrays from each."""

import gzip
import io
import logging
import lzma
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import SHARED
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from rankgrad.data import LetorError
from rankgrad.data.assemble import reorder
from rankgrad.data.letor import read_letor, streams
from rankgrad.data.letor.chunks import stream_letor
from rankgrad.group_rows import group_runs

DATA = SHARED / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the shared data folder is not beside the repository")

TEXT = """\
2 qid:10 1:0.5 2:-1e-3 3:7 #docid = GX000-00-0000000 inc = 1 prob = 0.02
0 qid:10 1:0 2:0.25 3:0 # page 7

# a comment of its own
# and another
1 qid:3 1:.5 2:5. 3:+1E2
"""


@pytest.fixture
def write(tmp_path):
    def write(text: str | bytes, name: str = "train.txt") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


def same(a, b) -> bool:
    pairs = [(a.features, b.features), (a.labels, b.labels), (a.offsets, b.offsets), (a.qids, b.qids)]
    bitwise = all(x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes() for x, y in pairs)
    return bitwise and (a.docids is b.docids is None or np.array_equal(a.docids, b.docids))


def test_a_small_file(write):
    data = read_letor(write(TEXT))
    assert data.features.tolist() == np.float32([[0.5, -1e-3, 7], [0, 0.25, 0], [0.5, 5, 100]]).tolist()
    assert data.features.dtype == data.labels.dtype == np.float32
    assert data.labels.tolist() == [2, 0, 1]
    assert data.offsets.tolist() == [0, 2, 3]
    assert data.qids.tolist() == [10, 3]
    assert data.docids.tolist() == ["GX000-00-0000000", "page 7", ""]
    assert read_letor(write(TEXT), docids=False).docids is None


@needs_data
def test_mq2008_has_its_published_facts():
    summaries = []
    data = read_letor([DATA / f"MQ2008/S{part}.txt.gz" for part in range(1, 6)], report=summaries.append)
    assert (len(data), *data.features.shape) == (784, 15_211, 46)
    assert np.bincount(data.labels.astype(int)).tolist() == [12_279, 2_001, 931]
    assert int((np.maximum.reduceat(data.labels, data.offsets[:-1]) == 0).sum()) == 220
    assert data.docids[:2].tolist() == ["GX008-86-4444840", "GX037-06-11625428"]
    assert np.char.startswith(data.docids, "GX").all()
    assert (summaries[0].lines, summaries[0].documents, summaries[0].lists) == (15_211, 15_211, 784)


@needs_data
@pytest.mark.parametrize("name", ["MSLR-sample/train.txt.gz", "MSLR-sample/test.txt.gz", "MQ2008/S1.txt.gz"])
def test_bitwise_equal_to_scikit_learn(name):
    data = read_letor(DATA / name)
    # scikit-learn parses to double and rounds to float32, as we do.
    matrix, labels, qids = load_svmlight_file(str(DATA / name), dtype=np.float32, query_id=True)
    assert data.features.tobytes() == matrix.toarray().tobytes()
    assert np.array_equal(data.labels, labels)
    assert np.array_equal(data.row_qids, qids)


@needs_data
def test_sparse_rewriting_of_the_mslr_sample_loads_equal(write):
    dense = read_letor(DATA / "MSLR-sample/train.txt.gz")
    lines = gzip.decompress((DATA / "MSLR-sample/train.txt.gz").read_bytes()).decode().splitlines()
    sparse = [" ".join(t for t in line.split() if t.startswith("qid") or not is_zero(t)) for line in lines]
    path = write("\n".join(sparse) + "\n")
    assert path.stat().st_size < sum(map(len, lines)) * 0.9
    assert same(read_letor(path, features=136), dense)


def is_zero(token: str) -> bool:
    return ":" in token and float(token.split(":")[1]) == 0


@pytest.mark.parametrize(
    "fashion", ["gzip", "two gzip members", "xz", "crlf", "bom", "no last newline", "tabs", "named txt"]
)
def test_fashions_of_writing_give_the_same(write, fashion):
    plain, raw = read_letor(write(TEXT, "plain.txt")), TEXT.encode()
    written = {
        "gzip": gzip.compress(raw),
        "two gzip members": gzip.compress(raw[:50]) + gzip.compress(raw[50:]) + b"\0" * 100,
        "xz": lzma.compress(raw),
        "crlf": raw.replace(b"\n", b"\r\n"),
        "bom": b"\xef\xbb\xbf" + raw,
        "no last newline": raw[:-1],
        "tabs": raw.replace(b" qid", b"\t \x0c\x0bqid").replace(b" 3:", b"  3:"),
        "named txt": gzip.compress(raw),
    }[fashion]
    suffix = {"gzip": ".gz", "xz": ".xz"}.get(fashion, "")
    assert same(read_letor(write(written, "other.txt" + suffix)), plain)


@settings(max_examples=30, deadline=None)
@given(
    rows=st.lists(st.lists(st.floats(-(2.0**99), 2.0**99, width=32), min_size=3, max_size=3), min_size=1, max_size=20)
)
def test_what_scikit_learn_writes_is_read_back(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("dump") / "dump.txt"
    matrix = np.array(rows, dtype=np.float32)
    stream = io.BytesIO()
    dump_svmlight_file(matrix, np.zeros(len(rows)), stream, zero_based=False, query_id=np.arange(len(rows)))
    path.write_bytes(stream.getvalue())
    data = read_letor(path, features=3)
    assert data.features.tobytes() == (matrix + np.float32(0)).tobytes()  # -0.0 comes back as 0.0
    assert data.qids.tolist() == list(range(len(rows)))


@pytest.mark.parametrize("block", [1, 10, 64, 200])
def test_blocks_of_any_size_give_the_same(write, monkeypatch, block):
    text = "".join(
        f"{row % 3} qid:{row // 7} 1:{row} 2:0.1 {'# d' + str(row) if row % 2 else ''}\n" for row in range(100)
    )
    path = write(text)
    whole = read_letor(path)
    monkeypatch.setattr(streams, "BLOCK", block)
    monkeypatch.setattr(streams, "_PIECE", 16 * block)
    assert same(read_letor(path), whole)
    assert same(read_letor(write(gzip.compress(text.encode()), "train.gz")), whole)
    assert same(read_letor(write(lzma.compress(text.encode()), "train.xz")), whole)


def test_several_files_are_read_as_one(write):
    first, second = write("1 qid:a 1:1\n0 qid:b 2:1", "1.txt"), write("2 qid:b 1:3\n0 qid:c 1:4\n", "2.txt")
    data = read_letor([first, str(second)])
    assert data.qids.tolist() == ["a", "b", "c"]
    assert data.offsets.tolist() == [0, 1, 3, 4]
    assert data.features.tolist() == [[1, 0], [0, 1], [3, 0], [4, 0]]
    assert data.name == "1.txt and 1 more"


@pytest.mark.parametrize(
    ("tokens", "qids"),
    [
        (["1", "-2", "0"], [1, -2, 0]),
        (["9" * 18, "5"], [int("9" * 18), 5]),
        (["1", "01"], ["1", "01"]),  # as integers they would be one query
        (["-0", "0"], ["-0", "0"]),
        (["9" * 19], ["9" * 19]),
        (["1", "q:2", "größer"], ["1", "q:2", "größer"]),
        (["7", "1.5"], ["7", "1.5"]),
    ],
)
def test_query_ids_are_integers_where_nothing_is_lost(write, monkeypatch, tokens, qids):
    path = write("".join(f"0 qid:{token} 1:1\n" for token in tokens))
    assert read_letor(path).qids.tolist() == qids
    monkeypatch.setattr(streams, "BLOCK", 1)  # one line a block: integers and text meet when blocks are joined
    assert read_letor(path).qids.tolist() == qids


def test_regroup_is_stable_and_counts(write):
    text = "".join(f"{n} qid:{qid} 1:{n} 2:{-n} # d{n}\n" for n, qid in enumerate("abacbba"))
    summaries = []
    data = read_letor(write(text), regroup=True, report=summaries.append)
    assert data.qids.tolist() == ["a", "b", "c"]
    assert data.labels.tolist() == [0, 2, 6, 1, 4, 5, 3]
    assert data.features[:, 1].tolist() == [-0.0, -2, -6, -1, -4, -5, -3]
    assert data.docids.tolist() == ["d0", "d2", "d6", "d1", "d4", "d5", "d3"]
    assert data.offsets.tolist() == [0, 3, 6, 7]
    assert summaries[0].regrouped == 3
    assert "3 runs of documents moved, to join the documents of each query" in str(summaries[0])


@given(qids=st.lists(st.integers(0, 5), min_size=1, max_size=40), width=st.integers(1, 5))
def test_regrouped_rows_are_those_of_a_stable_sort(qids, width):
    rows = np.arange(len(qids) * width).reshape(-1, width)
    starts = np.flatnonzero(np.diff(qids, prepend=-1))
    lists = group_runs(starts, len(qids), np.array(qids)[starts])
    order = sorted(range(len(qids)), key=lambda row: (qids.index(qids[row]), row))
    assert lists.order.tolist() == order
    assert np.diff(lists.offsets).tolist() == [qids.count(qid) for qid in lists.qids]
    assert (lists.source is None, lists.moved) == (order == sorted(order), len(starts) - len(lists.qids))
    moved = rows.copy()
    reorder(moved, lists.order)
    assert np.array_equal(moved, rows[order])


@pytest.mark.parametrize(
    "value", ["nan", "-NaN", "inf", "+Infinity", "1.8e308", "1e39", "-1e39", "1" + "0" * 60, "9" * 39]
)
def test_missing_values_are_filled_and_counted(write, value):
    summaries = []
    data = read_letor(write(f"0 qid:1 1:{value} 2:5\n"), missing=-1.5, report=summaries.append)
    assert data.features.tolist() == [[-1.5, 5]]
    assert summaries[0].missing == 1
    assert np.isnan(read_letor(write(f"0 qid:1 1:{value} 2:5\n"), missing=np.nan).features[0, 0])


INFINITE = "0 qid:1 1:nan 2:inf 4:1\n1 qid:1 1:5 2:-Infinity 3:1e39 4:0\n2 qid:1 2:1e300\n"
TOO_LONG = f"0 qid:2 3:{'9' * 39}.0 4:{'0.' + '1' * 30}\n"


@pytest.mark.parametrize("sparse", [False, True])
def test_infinite_values_are_counted_when_they_become_missing(write, sparse):
    path = write(INFINITE + TOO_LONG)
    told = r"infinite values, which are counted as missing: 'feature 2' 3, 'feature 3' 2$"
    with pytest.warns(UserWarning, match=told):
        data = read_letor(path, missing="nan", sparse=sparse)
    features = data.features.toarray() if sparse else data.features
    assert np.isnan(features).sum(axis=0).tolist() == [1, 3, 2, 0]
    with pytest.warns(UserWarning, match=told):
        [*stream_letor(path, 4, missing=0.0, sparse=sparse)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_letor(write("0 qid:1 1:nan 2:1\n"), missing="nan", sparse=sparse)
    with pytest.raises(LetorError, match="not finite"):
        read_letor(write("0 qid:1 1:1 2:inf\n"), sparse=sparse)


def test_many_infinite_columns_are_not_all_named(write):
    pairs = " ".join(f"{column}:inf" for column in range(1, 14))
    with pytest.warns(UserWarning, match=r"'feature 1' 2, .*, 'feature 10' 2 and 3 more columns$"):
        read_letor(write(f"0 qid:1 {pairs}\n" * 2), missing="nan")


def test_many_long_numbers_do_not_run_out_of_room(write):
    values = [f"0.{n:05d}{'1' * 20}" for n in range(10_000)]
    data = read_letor(write("".join(f"0.{'3' * 25} qid:1 1:{value}\n" for value in values)))
    assert data.features[:, 0].tolist() == np.float32([float(value) for value in values]).tolist()
    assert set(data.labels.tolist()) == {np.float32(1 / 3)}


def test_bytes_that_are_not_utf8_are_replaced_in_comments_and_counted(write):
    summaries = []
    data = read_letor(write(b"0 qid:1 1:1 # caf\xe9\n0 qid:1 1:2 # caf\xc3\xa9\n"), report=summaries.append)
    assert data.docids.tolist() == ["caf\ufffd", "caf\u00e9"]
    assert summaries[0].replaced_docids == 1


def test_the_summary_says_what_was_read(write, caplog):
    summaries, steps = [], []
    path = write(TEXT)
    with caplog.at_level(logging.INFO, logger="rankgrad"):
        read_letor(path, report=summaries.append, progress=lambda *step: steps.append(step))
    expected = f"3 documents in 2 lists, 3 features, from {path}\n6 lines: 3 documents, 1 blank, 2 comments\n"
    assert str(summaries[0]).startswith(expected)
    assert str(summaries[0]) in caplog.text
    assert summaries[0].bytes == len(TEXT)
    assert steps[-1] == (2 * len(TEXT), 2 * len(TEXT))


def test_a_wide_row_needs_features_to_be_stated(write):
    path = write("0 qid:1 2000000:1\n")
    assert read_letor(path, features=2_000_000).features[0, -1] == 1


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"features": 0}, ValueError, "features must be at least 1; got 0"),
        ({"features": 2.5}, TypeError, "features must be an integer or None; got float"),
        (
            {"missing": "zero"},
            ValueError,
            "missing must be 'error', 'nan' or a number that replaces missing values; got 'zero'",
        ),
        ({"missing": np.inf}, ValueError, "missing must be finite or NaN; got inf"),
    ],
)
def test_bad_options(write, options, error, message):
    with pytest.raises(error) as caught:
        read_letor(write(TEXT), **options)
    assert str(caught.value) == message


def test_no_paths():
    with pytest.raises(ValueError, match="paths must contain at least one file; got an empty sequence"):
        read_letor([])


def test_numba_waits_until_something_is_read():
    code = "import sys, rankgrad.data.letor.reader; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
