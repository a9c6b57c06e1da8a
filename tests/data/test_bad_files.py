"""Files that are not LETOR text, each with the exact words it is refused with."""

import gzip
import lzma
import os
import warnings
import zlib

import pytest

from rankgrad.data import load, memory_limits
from rankgrad.data.letor import read_letor, streams
from rankgrad.data.letor.errors import LetorError
from rankgrad.data.tables.errors import FILL_ADVICE

SHAPE = "expected `label qid:ID feature:value ...`"
RISE = "expected ids in increasing order"
PIECE = "expected `feature:value` without spaces"
FINITE = f"expected a finite number {FILL_ADVICE}"
LABEL = "expected a finite number, 0 or more"
CUT = "and the file ends without a newline (is the file truncated?)"
KIND = "expected plain, gzip or xz data with UTF-8 or ASCII text"

# What is wrong in one line, which stands as line 3 of a file, between sound ones of the same query.
LINES = {
    "no qid": (b"1 1:0.5 2:0.1", f"no qid after the label; {SHAPE}"),
    "label only": (b"1", f"no qid after the label; {SHAPE}"),
    "empty qid": (b"1 qid: 1:0.5", "qid is empty; expected `qid:ID` without spaces"),
    "qid too long": (b"1 qid:" + b"x" * 256 + b" 1:1", "qid is 256 bytes long; expected at most 255 bytes"),
    "qid after a feature": (b"1 1:0.5 qid:1", f"'qid:1' is after '1:0.5'; {SHAPE}"),
    "two qids": (b"1 qid:1 qid:2 1:0.5", "a second qid, 'qid:2'; expected one qid per line"),
    "qid in capitals": (b"1 QID:1 1:0.5", f"no qid after the label; {SHAPE}"),
    "label missing": (b"qid:1 1:0.5", f"no label before 'qid:1'; {SHAPE}"),
    "label not a number": (b"good qid:1 1:0.5", f"label 'good' is not a number; {LABEL}"),
    "label nan": (b"nan qid:1 1:0.5", f"label 'nan' is not finite; {LABEL}"),
    "label too large": (b"1e39 qid:1 1:0.5", f"label '1e39' is too large for float32; {LABEL}"),
    "label negative": (b"-1 qid:1 1:0.5", f"label '-1' is negative; {LABEL}"),
    "id twice": (b"1 qid:1 1:0.5 1:0.5", f"feature 1 is given twice; {RISE}"),
    "id falling": (b"1 qid:1 2:0.5 1:0.5", f"feature 1 comes after feature 2; {RISE}"),
    "id 0": (b"1 qid:1 0:0.5", "feature id 0 is below 1; expected ids from 1"),
    "id negative": (b"1 qid:1 -3:0.5", "feature id -3 is below 1; expected ids from 1"),
    "id not a number": (b"1 qid:1 age:0.5", "feature id 'age' is not an integer; expected ids from 1"),
    "id a fraction": (b"1 qid:1 1.5:0.5", "feature id '1.5' is not an integer; expected ids from 1"),
    "id empty": (b"1 qid:1 :0.5", "feature id '' is not an integer; expected ids from 1"),
    "id absurd": (
        b"1 qid:1 4000000000:1",
        "feature id 4000000000 is above 1000000; expected smaller ids (or set features= to the number of features)",
    ),
    "id endless": (
        b"1 qid:1 " + b"1" * 5000 + b":1",
        "feature id '" + "1" * 37 + "...' is longer than 18 digits; expected ids from 1",
    ),
    "id that would wrap around to 1": (
        b"1 qid:1 18446744073709551617:1",
        "feature id '18446744073709551617' is longer than 18 digits; expected ids from 1",
    ),
    "value missing": (b"1 qid:1 1:0.5 2:", f"feature 2 has no value; {PIECE}"),
    "value missing inside": (b"1 qid:1 1: 2:0.5", f"feature 1 has no value; {PIECE}"),
    "space after the colon": (b"1 qid:1 1: 0.5", f"feature 1 has a space before its value; {PIECE}"),
    "space before the colon": (b"1 qid:1 1 :0.5", f"'1' has no colon; {PIECE}"),
    "colon missing": (b"1 qid:1 0.5 0.25", f"'0.5' has no colon; {PIECE}"),
    "value not a number": (b"1 qid:1 1:0.5x", "value '0.5x' of feature 1 is not a number; expected a decimal number"),
    "value with a comma": (b"1 qid:1 1:0,5", "value '0,5' of feature 1 is not a number; expected a decimal number"),
    "value of two colons": (b"1 qid:1 1:2:3", "value '2:3' of feature 1 is not a number; expected a decimal number"),
    "value half an exponent": (b"1 qid:1 1:1e", "value '1e' of feature 1 is not a number; expected a decimal number"),
    "value hexadecimal": (b"1 qid:1 1:0x10", "value '0x10' of feature 1 is not a number; expected a decimal number"),
    "nan": (b"1 qid:1 1:NaN", f"value 'NaN' of feature 1 is not finite; {FINITE}"),
    "infinity": (b"1 qid:1 1:1 2:-inf", f"value '-inf' of feature 2 is not finite; {FINITE}"),
    "1.8e308": (b"1 qid:1 1:1.8e308", f"value '1.8e308' of feature 1 is too large for float32; {FINITE}"),
    "1e39": (b"1 qid:1 1:-1e39", f"value '-1e39' of feature 1 is too large for float32; {FINITE}"),
    "39 digits": (
        b"1 qid:1 1:" + b"9" * 39,
        f"value '{'9' * 39}' of feature 1 is too large for float32; {FINITE}",
    ),
    "nul": (b"1 qid:1 1:0.5 \0\0", "byte 0x00 at column 15 looks like binary data; expected lines of text"),
    "nul in a comment": (b"1 qid:1 1:1 # \0", "byte 0x00 at column 15 looks like binary data; expected lines of text"),
    "control in a qid": (b"1 qid:\x01 1:1", "byte 0x01 at column 7 looks like binary data; expected lines of text"),
    "not UTF-8": (b"1 qid:caf\xe9 1:0.5", "byte 0xe9 at column 10 is not UTF-8; expected UTF-8 or ASCII text"),
    "carriage return": (
        b"1 qid:1 1:1\r0 qid:1 1:1",
        r"carriage return inside the line, at column 12; expected lines that end in \n or \r\n",
    ),
    "carriage return in a comment": (
        b"# old\r1 qid:1 1:1",
        r"carriage return inside the line, at column 6; expected lines that end in \n or \r\n",
    ),
    "docid too long": (
        b"1 qid:1 1:1 #" + b"x" * 256,
        "comment is 256 characters long; expected a document id of at most 255 characters, or docids=False",
    ),
}


@pytest.fixture
def refused(tmp_path):
    """The words that a file is refused with, without the folder it is in."""

    def refused(data: bytes, name: str = "bad.txt", **options) -> str:
        (tmp_path / name).write_bytes(data)
        with pytest.raises(LetorError) as caught:
            read_letor(tmp_path / name, **options)
        return str(caught.value).replace(f"{tmp_path}{os.sep}", "")

    return refused


@pytest.mark.parametrize("block", [1, 4 << 20])
@pytest.mark.parametrize("kind", LINES)
def test_bad_line(refused, monkeypatch, kind, block):
    monkeypatch.setattr(streams, "BLOCK", block)
    line, message = LINES[kind]
    assert refused(b"1 qid:1 1:0.5\n# comment\n" + line + b"\n0 qid:1 1:0.5\n") == f"bad.txt:3: {message}"
    assert refused(b"\xef\xbb\xbf0 qid:1 1:0.5\r\n" + line + b"\r\n") == f"bad.txt:2: {message}"


def test_a_last_line_that_is_bad_and_has_no_newline_may_be_cut(refused):
    assert refused(b"1 qid:1 1:1 2:1\n1 qid:1 1:1 2:") == f"bad.txt:2: feature 2 has no value, {CUT}; {PIECE}"
    assert refused(b"1 qid:1 1:1 2:1\n1 qi") == f"bad.txt:2: no qid after the label, {CUT}; {SHAPE}"


def test_a_last_line_shorter_than_all_others_is_cut(refused, tmp_path):
    dense = b"".join(b"1 qid:1 1:1 2:%d 3:3\n" % row for row in range(10))
    message = f"no feature after 2, {CUT}; expected features 1 to 3, as on all earlier lines"
    assert refused(dense + b"1 qid:1 1:1 2:1") == f"bad.txt:11: {message}"
    message = f"no feature after 0, {CUT}; expected features 1 to 3, as on all earlier lines"
    assert refused(dense + b"1 qid:9") == f"bad.txt:11: {message}"
    commented = b"".join(b"1 qid:1 1:1 # d%d\n" % row for row in range(10))
    assert (
        refused(commented + b"1 qid:1 1:1")
        == f"bad.txt:11: no comment, {CUT}; expected a comment, as on all earlier lines"
    )
    # Lines that say less for a reason: ended by a newline, or sparse before.
    for sound in (dense + b"1 qid:1 1:1 2:1\n", dense + b"1 qid:1 2:1\n1 qid:1 1:1", dense + b"1 qid:1 1:1 2:1 # d"):
        (tmp_path / "sound.txt").write_bytes(sound)
        assert len(read_letor(tmp_path / "sound.txt").labels) >= 11


def test_a_cut_last_line_shows_from_two_lines_on(refused, tmp_path):
    first = b"1 qid:1 " + b" ".join(b"%d:0.5" % feature for feature in range(1, 13))
    message = f"no feature after 2, {CUT}; expected features 1 to 12, as on all earlier lines"
    assert refused(first + b"\n1 qid:1 1:1 2:1") == f"bad.txt:2: {message}"
    # Legal without its last newline.
    path = tmp_path / "sound.txt"
    for sound in (first + b"\n" + first, first + b"\n1 qid:1 2:1", b"1 qid:1 1:1 4:1\n1 qid:1 1:1", first):
        path.write_bytes(sound)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert len(read_letor(path).labels) == 1 + sound.count(b"\n")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"1 qid:1 1:1 2:1\n1 qid:1 1:1", "no feature after 1, {}; expected features 1 to 2, as on all earlier lines"),
        (b"1 qid:1 1:1 # d\n1 qid:1 1:1", "no comment, {}; expected a comment, as on all earlier lines"),
        (b"1 qid:1 1:1 7:1\n1 qid:1", "no feature, {}; expected features, as on all earlier lines"),
    ],
)
def test_too_little_to_be_sure_of_a_cut_is_a_warning(tmp_path, text, told):
    path = tmp_path / "small.txt"
    path.write_bytes(text)
    with pytest.warns(UserWarning, match="is the file truncated") as caught:
        assert len(read_letor(path).labels) == 2
    assert [str(each.message) for each in caught] == [f"{path}:2: {told.format(CUT)}"]


def test_a_matrix_out_of_proportion_to_its_text(refused, tmp_path, monkeypatch):
    text = b"0 qid:1 1:1 2:0.5\n" * 4000
    data = text + b"0 qid:1 1:1 # 1000001:1\n0 qid:1 2:1 1000000:1\n" + text
    size = "8,002 documents x 1,000,000 features are 32.0 GB, almost all 0"
    meant = "smaller ids, or sparse=True (--sparse) for a sparse matrix, or features=1000000 for a dense matrix"
    message = f"bad.txt:4002: feature id 1000000 makes the data too large: {size}; expected {meant}"
    assert refused(data) == message
    assert refused(data, cache=tmp_path / "cache") == message
    assert not (tmp_path / "cache").exists()
    monkeypatch.setattr(streams, "BLOCK", 64)
    assert refused(data) == message
    # What is stated is meant, what is small is harmless.
    monkeypatch.setattr(memory_limits, "FREE", 1000)
    (tmp_path / "wide.txt").write_bytes(b"0 qid:1 1:1\n" * 9 + b"1 qid:1 9000:1\n")
    assert read_letor(tmp_path / "wide.txt", features=9000).features.shape == (10, 9000)
    with pytest.raises(LetorError, match=r"wide\.txt:10: feature id 9000 makes the data too large"):
        read_letor(tmp_path / "wide.txt")


@pytest.mark.parametrize(("features", "given"), [(46, 46), (136, 136), (220, 220), (700, 490), (5_000, 100)])
def test_a_set_as_wide_as_those_in_use_is_in_proportion(features, given):
    for documents in (1, 10**6, 10**8):
        assert not memory_limits.too_sparse(documents, features, documents * given * len("99:0.5 "))


def test_the_width_of_one_split_does_not_fill_memory_with_another(tmp_path, monkeypatch):
    monkeypatch.setattr(memory_limits, "FREE", 1 << 20)
    (tmp_path / "train.txt").write_text("0 qid:1 1:1\n" * 1000)
    (tmp_path / "test.txt").write_text("0 qid:1 100000:1\n")
    with pytest.raises(LetorError, match=r"train\.txt: feature id 100000 makes the data too large: 1,000 documents x"):
        load(tmp_path)


def test_an_xz_file_that_asks_for_all_memory(refused):
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 20}]
    packed = bytearray(lzma.compress(b"1 qid:1 1:1\n", filters=filters))
    assert packed[16] == 16  # the size of the dictionary, in the filter flags of the block header
    packed[16] = 38  # 2 GiB
    packed[20:24] = zlib.crc32(bytes(packed[12:20])).to_bytes(4, "little")
    assert "xz data is damaged (Memory usage limit exceeded)" in refused(bytes(packed))


def test_a_query_that_returns(refused):
    data = b"1 qid:7 1:1\n1 qid:9 1:1\n\n1 qid:7 1:1\n1 qid:9 1:1\n"
    message = "qid 7 occurs again after qid 9 (first at bad.txt:1)"
    expected = "expected the documents of a query on consecutive lines, or regroup=True"
    assert refused(data) == f"bad.txt:4: {message}; {expected}"
    # The first error in the file is reported, in whichever pass it is found.
    assert refused(data + b"junk\n") == f"bad.txt:4: {message}; {expected}"
    assert refused(data + b"junk\n", regroup=True).startswith("bad.txt:6: label 'junk'")


def test_a_query_that_returns_in_another_file(tmp_path):
    for name, text in {"a.txt": "1 qid:x 1:1\n1 qid:y 1:1\n", "b.txt": "\n0 qid:z 1:1\n0 qid:x 1:1\n"}.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(LetorError) as caught:
        read_letor([tmp_path / "a.txt", tmp_path / "b.txt"])
    wrong = f"{tmp_path / 'b.txt'}:3: qid x occurs again after qid z (first at {tmp_path / 'a.txt'}:1)"
    assert str(caught.value) == f"{wrong}; expected the documents of a query on consecutive lines, or regroup=True"


def test_a_bad_line_in_the_second_file(tmp_path):
    (tmp_path / "a.txt").write_text("1 qid:1 1:1\n" * 3)
    (tmp_path / "b.txt").write_text("1 qid:1 1:1\n1 qid:1 1:x\n")
    with pytest.raises(LetorError, match=r"b\.txt:2: value 'x' of feature 1 is not a number") as caught:
        read_letor([tmp_path / "a.txt", tmp_path / "b.txt"])
    assert (caught.value.path, caught.value.line) == (tmp_path / "b.txt", 2)


def test_features_beyond_those_stated(refused):
    message = "feature id 4 is above the number of features, 3; expected ids from 1 to 3"
    assert refused(b"1 qid:1 3:1\n1 qid:1 1:1 4:1\n", features=3) == f"bad.txt:2: {message}"


def test_missing_does_not_let_labels_or_words_pass(refused):
    assert refused(b"nan qid:1 1:nan\n", missing=0) == f"bad.txt:1: label 'nan' is not finite; {LABEL}"
    message = "value 'null' of feature 1 is not a number; expected a decimal number"
    assert refused(b"1 qid:1 1:null\n", missing=0) == f"bad.txt:1: {message}"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "1: empty file; expected at least one document"),
        (b"\xef\xbb\xbf", "1: empty file; expected at least one document"),
        (gzip.compress(b"", mtime=0), "1: empty file; expected at least one document"),
        (b"# a\n\n \n", "3: blank lines and comments only; expected at least one document"),
        ("1 qid:1 1:1\n".encode("utf-16"), rf"1: UTF-16 text (the file starts with b'\xff\xfe'); {KIND}"),
        (b"\xfe\xff\0001", rf"1: UTF-16 text (the file starts with b'\xfe\xff'); {KIND}"),
        (b"BZh91AY", f"1: bzip2 data (the file starts with b'BZh'); {KIND}"),
        (b"PK\x03\x04\x14", rf"1: a zip archive (the file starts with b'PK\x03\x04'); {KIND}"),
        (b"\x28\xb5\x2f\xfd\x04", rf"1: zstandard data (the file starts with b'(\xb5/\xfd'); {KIND}"),
        (b"\x89PNG\r\n\x1a\n\0\0", "1: byte 0x89 at column 1 is not UTF-8; expected UTF-8 or ASCII text"),
        (b"\x7fELF\x02\0\0", "1: byte 0x7f at column 1 looks like binary data, " + CUT + "; expected lines of text"),
    ],
    ids=["empty", "bom", "empty gzip", "comments", "utf-16", "utf-16 be", "bzip2", "zip", "zstd", "png", "elf"],
)
def test_not_a_file_of_lines(refused, data, message):
    assert refused(data) == f"bad.txt:{message}"


LONG = b"".join(b"1 qid:1 1:%d\n" % (row * 7919 % 1000) for row in range(5000))


@pytest.mark.parametrize(("kind", "pack"), [("gzip", gzip.compress), ("xz", lzma.compress)])
def test_truncated_and_damaged_streams(refused, kind, pack):
    packed = pack(LONG)
    message = refused(packed[:-20])
    assert message.endswith(f": {kind} data ends early; expected the complete file (is it still being copied?)")
    line = int(message.split(":")[1])
    assert 1 < line <= 5001
    if kind == "gzip":  # cut inside its checksum: every line is there
        assert refused(packed[:-3]).startswith("bad.txt:5001: gzip data ends early")
    at = len(packed) // 2
    damaged = packed[:at] + bytes([packed[at] ^ 0xFF]) + packed[at + 1 :]
    message = refused(damaged)
    assert f": {kind} data is damaged (" in message
    assert message.endswith(f"; expected an undamaged {kind} file")
    assert f"{kind} data is damaged (" in refused(packed + b"junk" * 5)


def test_no_feature_anywhere(refused):
    expected = "`feature:value` pairs (or set features= to the number of features)"
    message = f"bad.txt: no document has a feature; expected {expected}"
    assert refused(b"1 qid:1\n0 qid:2 # x\n") == message


def test_a_line_without_end(refused, monkeypatch):
    monkeypatch.setattr(streams, "LONGEST_LINE", 1 << 20)
    monkeypatch.setattr(streams, "BLOCK", 1 << 16)
    data = b"1 qid:1 1:1\n" * 3 + b"x" * (3 << 20)
    assert refused(data) == "bad.txt:4: line is longer than 1 MiB; expected lines of text"


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError) as missing:
        read_letor(tmp_path / "none.txt")
    assert str(missing.value) == f"{tmp_path / 'none.txt'}: no such file; expected a file of LETOR text"
    with pytest.raises(IsADirectoryError) as folder:
        read_letor(tmp_path)
    assert str(folder.value) == f"{tmp_path}: is a folder; expected a file of LETOR text"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LetorError) as pipe:
        read_letor(tmp_path / "pipe")
    expected = "not a regular file; expected a regular file, which can be read twice: to count, and to parse"
    assert str(pipe.value) == f"{tmp_path / 'pipe'}: {expected}"


def test_more_than_memory_can_hold(tmp_path):
    (tmp_path / "wide.txt").write_text("1 qid:1 1:1\n" * 1000)
    with pytest.raises(
        ValueError, match=r"features must fit in the memory of [\d,]+ GB \(or give a folder as cache\); got 1,000 x 10,"
    ):
        read_letor(tmp_path / "wide.txt", features=10_000_000_000)


def test_a_file_that_grows_while_it_is_read(tmp_path):
    path = tmp_path / "growing.txt"
    path.write_text("1 qid:1 1:1\n")

    def grow(done: int, total: int) -> None:
        if done == 12:
            path.write_text("1 qid:1 1:1\n" * 3)

    with pytest.raises(
        LetorError, match=r"growing\.txt: changed while it was read; expected a file to which no other process writes"
    ):
        read_letor(path, progress=grow)


def test_a_file_rewritten_in_place_between_the_looks(tmp_path):
    """With its size and time as they were, only the number of documents tells."""
    path = tmp_path / "rewritten.txt"
    path.write_text("1 qid:1 1:1\n# a comment\n")
    before = path.stat()

    def rewrite(done: int, total: int) -> None:
        if done == total / 2:
            path.write_text("1 qid:1 1:1\n0 qid:1 1:2\n")
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    with pytest.raises(LetorError, match="changed while it was read"):
        read_letor(path, progress=rewrite)


def test_there_are_at_least_25_kinds():
    assert len({message for _, message in LINES.values()}) >= 25
