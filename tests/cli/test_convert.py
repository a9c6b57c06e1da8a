"""`rankgrad convert` as it is typed."""

import json
import subprocess
import sys
from functools import partial

import pytest
from programs import invoke, run_here

from rankgrad.data import cache as caches
from rankgrad.data.cache import CacheError, open_cache

TEXT = "1 qid:a 1:0.5 2:nan # d1\n0 qid:b 1:1 # d2\n\n1 qid:a 1:2 # d3\n"


run = partial(invoke, "convert")


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text(TEXT)
    return path


def test_convert_says_what_it_read(source, tmp_path):
    options = ["--regroup", "--missing", "-1", "--features", "4"]
    result = run(source, tmp_path / "cache", *options)
    assert result.exit_code == 0, result.output
    assert f"3 documents in 2 lists, 4 features, from {source}" in result.output
    assert "4 lines: 3 documents, 1 blank, 0 comments" in result.output
    assert "1 missing value\n" in result.output
    assert "1 run of documents moved, to join the documents of each query" in result.output
    assert f"{tmp_path / 'cache'}: written" in result.output
    assert open_cache(tmp_path / "cache").features.tolist() == [[0.5, -1, 0, 0], [2, 0, 0, 0], [1, 0, 0, 0]]
    assert f"{tmp_path / 'cache'}: is up to date" in run(source, tmp_path / "cache", *options).output


def test_several_files_and_no_docids(tmp_path):
    parts = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for place, part in enumerate(parts):
        part.write_text(f"0 qid:{place} 1:1 # d\n")
    result = run(*parts, tmp_path / "cache", "--no-docids")
    assert f"2 documents in 2 lists, 1 feature, from 2 files, {parts[0]} first" in result.output
    assert open_cache(tmp_path / "cache").docids is None


def test_verify_checks_all_of_a_cache_in_every_command(source, tmp_path, monkeypatch):
    monkeypatch.setattr(caches, "_END", 128)
    monkeypatch.setattr(caches, "_SETTLED", -1)
    source.write_text("".join(f"{row % 2} qid:{row // 9} 1:{row} 2:0.5\n" for row in range(90)))
    cache, model = tmp_path / "cache", tmp_path / "model"
    run_here("convert", source, cache)
    run_here("train", "--data", cache, "--epochs", 1, "--model", "linear", "--out", model)
    features = bytearray((cache / "features.npy").read_bytes())
    features[400] ^= 1
    (cache / "features.npy").write_bytes(features)
    manifest = json.loads((cache / "manifest.json").read_text())
    del manifest["sha256"]
    manifest["arrays"]["features"]["state"] = caches._state(cache / "features.npy")  # as a failing disk leaves it
    (cache / "manifest.json").write_text(json.dumps(manifest))
    for command in (("inspect", cache), ("evaluate", model, "--data", cache)):
        run_here(*command)
        with pytest.raises(CacheError, match=r"features\.npy is damaged"):
            run_here(*command, "--verify")
    assert "written" in run_here("convert", "--verify", source, cache)


def test_what_is_wrong_is_said(source, tmp_path):
    error = run(source, tmp_path / "cache").exception
    assert str(error).startswith(f"{source}:1: value 'nan' of feature 2 is not finite; expected")
    error = run(source, tmp_path / "cache", "--missing", "many").exception
    assert str(error).startswith("--missing must be 'error', 'zero', 'mean', 'indicator', a number that")
    error = run(source, tmp_path / "cache", "--missing", "mean").exception
    assert str(error).startswith("--missing must be 'error', 'zero', a number, or 'nan' to keep NaN")
    assert not (tmp_path / "cache").exists()


def test_help_stays_light():
    code = "import sys, rankgrad.cli.convert; sys.exit(bool({'numba', 'numpy', 'rich.progress'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_warning_is_one_sentence_without_a_line_of_code(tmp_path):
    text = tmp_path / "a.txt"
    text.write_text("2 qid:1 1:0.5 2:1\n0 qid:1 1:0.1 2:0\n1 qid:2 1:0.")
    told = run(str(text), str(tmp_path / "cache"))
    assert told.exit_code == 0
    assert told.stderr.startswith(f"warning: {text}:3: no feature after 1, and the file ends without a newline")
    assert "UserWarning" not in told.stderr
