"""The cache of a data set: mapped, whole or not there, and never out of date without a word."""

import copy
import io
import json
import os
import pickle
import shutil
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from programs import finished

from rankgrad.data import cache as caches
from rankgrad.data.cache import CacheError, open_cache
from rankgrad.data.letor import reader
from rankgrad.data.letor.errors import LetorError
from rankgrad.data.letor.reader import read_letor

TEXT = "".join(f"{row % 3} qid:q{row // 9} 1:{row} 2:0.5 3:{row / 7} # d{row}\n" for row in range(900))
FILES = {"manifest.json", "features.npy", "labels.npy", "offsets.npy", "qids.npy", "docids.npy"}


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture
def folder(tmp_path, source):
    read_letor(source, cache=tmp_path / "cache")
    return tmp_path / "cache"


@pytest.fixture
def no_reading(monkeypatch):
    def read(*_):
        raise AssertionError("the text was read again")

    return lambda: monkeypatch.setattr(reader, "read_files", read)


def assert_same(a, b):
    for name in caches.ARRAYS:
        assert np.array_equal(getattr(a, name), getattr(b, name)), name


def test_a_second_read_maps_and_copies_nothing(source, folder, no_reading):
    plain = read_letor(source)
    no_reading()
    summaries = []
    begun = time.perf_counter()
    data = read_letor(source, cache=folder, report=summaries.append)
    assert time.perf_counter() - begun < 0.1
    assert_same(data, plain)
    assert data.name == plain.name
    for name in caches.ARRAYS[:5]:
        array = getattr(data, name)
        assert isinstance(array, np.memmap)
        assert not array.flags.writeable
    assert summaries[0].cached
    assert (summaries[0].documents, summaries[0].lines) == (900, 900)
    assert "mapped from a cache" in str(summaries[0])
    assert_same(open_cache(folder), plain)
    assert_same(open_cache(folder, verify=True), plain)


def test_what_is_in_the_folder(source, folder):
    assert {path.name for path in folder.iterdir()} == FILES
    assert sorted(path.name for path in folder.parent.iterdir()) == ["cache", "train.txt"]
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["version"] == 1
    assert manifest["sources"][0]["size"] == len(TEXT)
    assert manifest["sources"][0]["mtime_ns"] == source.stat().st_mtime_ns
    assert {"ends", "sha256"} <= manifest["sources"][0].keys()
    assert np.load(folder / "qids.npy", allow_pickle=False)[1] == "q1"


def test_no_docids_no_file(tmp_path, source):
    data = read_letor(source, docids=False, cache=tmp_path / "cache")
    assert data.docids is None
    assert not (tmp_path / "cache" / "docids.npy").exists()


def cut(path):
    os.truncate(path, path.stat().st_size - 2)


def flip(path):
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def edit(**changes):
    def edit(path):
        manifest = json.loads(path.read_text())
        del manifest["sha256"]
        path.write_text(json.dumps({**manifest, **changes}))

    return edit


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("features.npy", cut, "features.npy is damaged; expected the content that the manifest describes"),
        ("labels.npy", flip, "labels.npy is damaged; expected the content that the manifest describes"),
        ("docids.npy", flip, "docids.npy is damaged; expected the content that the manifest describes"),
        ("offsets.npy", os.remove, f"offsets.npy is missing; expected {caches._ADVICE}"),
        ("manifest.json", os.remove, f"no manifest.json; expected {caches._ADVICE}"),
        (
            "manifest.json",
            edit(version=2),
            "the cache has version 2; expected version 1 (convert the source files again)",
        ),
        ("manifest.json", edit(format="x"), f"manifest.json is not the manifest of a cache; expected {caches._ADVICE}"),
        ("manifest.json", edit(arrays={}), f"manifest.json is not complete; expected {caches._ADVICE}"),
        ("manifest.json", edit(sources=[{}]), f"manifest.json is not complete; expected {caches._ADVICE}"),
        ("manifest.json", edit(summary=[]), f"manifest.json is not complete; expected {caches._ADVICE}"),
    ],
)
def test_a_damaged_cache_is_refused_or_rebuilt(source, folder, caplog, name, damage, message):
    damage(folder / name)
    with pytest.raises(CacheError) as caught:
        open_cache(folder)
    assert str(caught.value) == f"{folder}: {message}"
    assert_same(read_letor(source, cache=folder), read_letor(source))
    assert f"{folder}: {message}; writing the cache again" in caplog.text
    assert_same(open_cache(folder), read_letor(source))


def forge(folder, name, array):
    """Put another array in a cache, with a manifest that agrees."""
    path = folder / f"{name}.npy"
    if isinstance(array, bytes):
        path.write_bytes(array)
    else:
        np.save(path, array)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["arrays"][name] = caches.file_fingerprint(path)
    del manifest["sha256"]  # as who edits by hand must
    (folder / "manifest.json").write_text(json.dumps(manifest))


def header(shape, kind="<f4"):
    """The start of a `.npy` file, with nothing behind it."""
    made = io.BytesIO()
    np.lib.format.write_array_header_1_0(made, {"descr": kind, "fortran_order": False, "shape": shape})
    return made.getvalue()


OFFSETS = np.arange(101) * 9
FORGED = [
    ("offsets", np.r_[0, 90, 9, OFFSETS[3:]], "the arrays are inconsistent (offsets must not decrease; got 9"),
    ("offsets", np.r_[0, 2**62, OFFSETS[2:]], "the arrays are inconsistent (offsets must not decrease; got 18 after"),
    ("offsets", np.r_[9, OFFSETS[1:]], "the arrays are inconsistent (offsets must run from 0"),
    ("offsets", OFFSETS[:-1], "the arrays are inconsistent (offsets must run from 0"),
    ("offsets", OFFSETS[:0], "the arrays are inconsistent (offsets must run from 0"),
    ("offsets", OFFSETS.astype(np.uint64), "offsets.npy has 936 bytes, dtype uint64 and shape (101,)"),
    ("offsets", OFFSETS.astype(np.float64), "offsets.npy has 936 bytes, dtype float64 and shape (101,)"),
    ("offsets", OFFSETS[:, None], "offsets.npy has 936 bytes, dtype int64 and shape (101, 1)"),
    ("labels", np.zeros(899, np.float32), "the arrays are inconsistent (features must have one row"),
    ("labels", np.zeros(900, ">f4"), "labels.npy has 3,728 bytes, dtype >f4 and shape (900,)"),
    ("labels", np.zeros(900, "<c8"), "labels.npy has 7,328 bytes, dtype complex64 and shape (900,)"),
    ("labels", header((900,)), "labels.npy has 128 bytes, dtype float32 and shape (900,)"),
    ("features", header((2**40, 2**40)), "features.npy has 128 bytes, dtype float32 and shape (1099511627776,"),
    ("features", header((-1, 3)), "features.npy has 128 bytes, dtype float32 and shape (-1, 3)"),
    ("features", np.asfortranarray(np.zeros((900, 3), np.float32)), "features.npy has 10,928 bytes, dtype float32"),
    ("qids", np.array(["q"] * 99), "the arrays are inconsistent (qids must have 100 ids, one per list; got 99"),
    ("docids", np.array(["d"] * 9), "the arrays are inconsistent (docids must have one id per document"),
    ("docids", header((900,), "|O"), "docids.npy has 128 bytes, dtype object and shape (900,)"),
    ("docids", b"PK\x03\x04" + bytes(100), "docids.npy is not a NumPy array ("),
    ("docids", b"", "docids.npy is not a NumPy array ("),
    ("docids", header((900,)).replace(b"(900,)", b"(9\x000,)"), "docids.npy is not a NumPy array ("),
]  # fmt: skip


@pytest.mark.parametrize(("name", "array", "message"), FORGED, ids=range(len(FORGED)))
def test_arrays_that_lie_are_refused(source, folder, name, array, message):
    forge(folder, name, array)
    with pytest.raises(CacheError) as caught:
        open_cache(folder)
    assert str(caught.value).startswith(f"{folder}: {message}")
    assert str(caught.value).endswith("; expected a folder that `rankgrad convert`, `read_letor` or `read_table` wrote")
    assert_same(read_letor(source, cache=folder), read_letor(source))


@pytest.mark.parametrize("changes", [{"name": 5}, {"summary": {"files": [], "bytes": "x"}}, {"sources": [5]}])
def test_a_manifest_of_other_types_is_refused(folder, changes):
    edit(**changes)(folder / "manifest.json")
    with pytest.raises(CacheError, match=r"manifest\.json is not complete"):
        open_cache(folder)


def test_a_manifest_that_nests_without_end_is_refused(folder):
    (folder / "manifest.json").write_text("[" * 200_000)
    with pytest.raises(CacheError, match=r"manifest\.json is damaged"):
        open_cache(folder)


def test_folders_beside_a_cache_may_have_any_name(source, folder):
    for name in ("²", "9" * 40):
        (folder.parent / f".{folder.name}.{socket.gethostname()}.{name}.x").mkdir()
    read_letor(source, cache=folder, missing=0.0)


def test_half_a_manifest_is_noticed(folder):
    cut(folder / "manifest.json")
    with pytest.raises(CacheError, match=r"manifest\.json is damaged; expected"):
        open_cache(folder)


def damage_middle(folder, name="features"):
    """Flip a bit between the ends of a file; size and modification time do not change."""
    path = folder / f"{name}.npy"
    before, data = path.stat(), bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("place", ["in place", "copied", "of version 0.2", "already open"])
def test_a_flipped_bit_in_the_middle_is_noticed(source, folder, monkeypatch, place):
    monkeypatch.setattr(caches, "_END", 256)
    read_letor(source, cache=folder, missing=0.0)  # other options: written again, with these short ends
    if place == "of version 0.2":
        manifest = json.loads((folder / "manifest.json").read_text())
        edit(arrays={k: {n: v[n] for n in ("size", "ends", "sha256")} for k, v in manifest["arrays"].items()})(
            folder / "manifest.json"
        )
    if place == "already open":
        time.sleep(0.11)
        open_cache(folder)
    damage_middle(folder)
    if place == "copied":
        folder = shutil.copytree(folder, folder.with_name("copy"))
    with pytest.raises(CacheError, match=r"features\.npy is damaged; expected"):
        open_cache(folder)
    assert_same(read_letor(source, cache=folder, missing=0.0), read_letor(source))


@pytest.mark.parametrize("copied", [False, True])
def test_all_of_a_cache_is_read_once_after_each_change(source, folder, monkeypatch, copied):
    monkeypatch.setattr(caches, "_END", 256)
    monkeypatch.setattr(caches, "_SETTLED", -1)  # this cache is written in less than a tick
    read_letor(source, cache=folder, missing=0.0)
    if copied:
        folder = shutil.copytree(folder, folder.with_name("copy"))
    hashed, read = caches.hash_of_file, []
    monkeypatch.setattr(caches, "hash_of_file", lambda path: read.append(path.name) or hashed(path))
    counts = []
    for options in ({}, {}, {"verify": True}):
        open_cache(folder, **options)
        counts.append(read.count("features.npy"))
    assert counts == ([1, 1, 2] if copied else [0, 0, 1])


def test_verify_notices_damage_that_leaves_no_trace_in_the_times(source, folder, monkeypatch):
    monkeypatch.setattr(caches, "_END", 256)
    monkeypatch.setattr(caches, "_SETTLED", -1)
    read_letor(source, cache=folder, missing=0.0)
    damage_middle(folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["arrays"]["features"]["state"] = caches._state(folder / "features.npy")  # as if nothing was written
    edit(arrays=manifest["arrays"])(folder / "manifest.json")
    open_cache(folder)
    with pytest.raises(CacheError, match=r"features\.npy is damaged"):
        open_cache(folder, verify=True)
    assert_same(read_letor(source, cache=folder, missing=0.0, verify=True), read_letor(source))


@pytest.mark.parametrize("change", ["longer", "touched", "same size and time"])
def test_a_stale_cache_is_refused_or_rebuilt(source, folder, change):
    before = source.stat()
    source.write_text(
        TEXT + "0 qid:new 1:1\n" if change == "longer" else TEXT.replace("0 qid:q0 1:0", "1 qid:q0 1:5", 1)
    )
    if change == "same size and time":
        os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(CacheError) as caught:
        open_cache(folder)
    expected = "expected the original file (or convert the changed file)"
    assert str(caught.value) == f"{folder}: {source} has changed since the conversion; {expected}"
    assert_same(read_letor(source, cache=folder), read_letor(source))
    open_cache(folder)


def test_a_change_in_the_middle_that_keeps_size_and_time_needs_verify(source, folder, monkeypatch):
    monkeypatch.setattr(caches, "_END", 256)
    read_letor(source, cache=folder, missing=0.0)
    before = source.stat()
    source.write_text(TEXT.replace("1:450 ", "1:451 "))
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert read_letor(source, cache=folder, missing=0.0).features[450, 0] == 450
    assert read_letor(source, cache=folder, missing=0.0, verify=True).features[450, 0] == 451


def test_other_options_or_files_rebuild(source, folder):
    assert read_letor(source, cache=folder, features=5).features.shape[1] == 5
    assert read_letor(source, cache=folder, missing=np.nan).features.shape[1] == 3
    other = source.with_name("other.txt")
    other.write_text("1 qid:z 1:1\n")
    assert len(read_letor([source, other], cache=folder)) == 101


def test_a_fill_of_nan_is_equal_to_itself(source, folder, no_reading):
    read_letor(source, cache=folder, missing=np.nan)
    no_reading()
    read_letor(source, cache=folder, missing=np.nan)


def test_lists_taken_from_a_cache_are_what_they_are_in_memory(source, folder):
    plain, mapped = read_letor(source), open_cache(folder)
    lists, again = np.array([7, 3, 3, 90]), np.array([False, True, True, False])
    left, right = mapped.take(lists), plain.take(lists)
    for a, b in (
        (left, right),
        (left.take(again), right.take(again)),
        (left.take(np.zeros(0, int)), right.take(np.zeros(0, int))),
    ):
        assert repr(a).partition(",")[2] == repr(b).partition(",")[2]
        for taken, expected in zip(a, b, strict=True):
            assert all(np.array_equal(x, y) for x, y in zip(taken, expected, strict=True))
        assert "features" not in vars(a)  # nothing was copied
        for same in (pickle.loads(pickle.dumps(a)), copy.copy(a), replace(a, name="x"), replace(a, best=a.labels), a):
            assert_same(same, b)
            assert np.array_equal(same.matrix[:], b.features)
            assert type(same.features) is np.ndarray
            assert same.features.flags.writeable
    with pytest.raises(AttributeError, match="feature"):
        _ = mapped.take(lists).feature


def test_sources_that_are_gone_are_not_missed(source, folder, tmp_path):
    plain = read_letor(source)
    source.unlink()
    folder.rename(tmp_path / "moved")
    assert_same(open_cache(tmp_path / "moved", verify=True), plain)


def test_nothing_but_a_cache_is_replaced(source, tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").write_text("years of work")
    for place, wrong in {mine: "contains 'thesis.tex', which is not part of a cache", source: "is a file"}.items():
        with pytest.raises(CacheError) as caught:
            read_letor(source, cache=place)
        assert str(caught.value) == f"{place}: {wrong}; expected a new folder, an empty folder, or a cache to replace"
    assert (mine / "thesis.tex").read_text() == "years of work"
    (tmp_path / "empty").mkdir()
    read_letor(source, cache=tmp_path / "empty")
    read_letor(source, cache=tmp_path / "new" / "folders" / "cache")


def test_a_bad_source_leaves_the_old_cache_and_nothing_aside(source, folder):
    source.write_text(TEXT + "junk\n")
    with pytest.raises(LetorError, match="label 'junk'"):
        read_letor(source, cache=folder)
    assert {path.name for path in folder.iterdir()} == FILES
    assert sorted(path.name for path in folder.parent.iterdir()) == ["cache", "train.txt"]


def test_who_has_the_old_cache_mapped_keeps_it(source, folder):
    old = open_cache(folder)
    before = old.features.copy()
    source.write_text(TEXT.replace("2:0.5", "2:0.25"))
    new = read_letor(source, cache=folder)
    assert np.array_equal(old.features, before)
    assert not np.array_equal(new.features, before)


def test_two_at_once(source, tmp_path):
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: read_letor(source, cache=tmp_path / "cache"), range(8)))
    for data in found:
        assert_same(data, found[0])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "train.txt"]


def test_killed_while_writing_leaves_no_cache_and_is_cleared_up(source, tmp_path):
    code = f"""
import os, signal
from rankgrad.data.letor.reader import read_letor
die = lambda done, total: done > total / 2 and os.kill(os.getpid(), signal.SIGKILL)
read_letor({str(source)!r}, cache={str(tmp_path / "cache")!r}, progress=die)
"""
    assert finished(code=code).returncode == -signal.SIGKILL
    assert not (tmp_path / "cache").exists()
    left = [path for path in tmp_path.iterdir() if path.name.startswith(".cache.")]
    assert len(left) == 1
    assert_same(read_letor(source, cache=tmp_path / "cache"), read_letor(source))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "train.txt"]
