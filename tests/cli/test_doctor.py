"""`rankgrad doctor`: what is installed and active, and why; its cache is cleared and nothing else is."""

import json
import sys

import pytest
from paths import ROOT, SOURCE
from programs import run_here

from rankgrad.cli.doctor import installed

if sys.version_info >= (3, 11):
    import tomllib


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache of compiled code with two files of ours, and files of other programs."""
    root = tmp_path / "cache"
    monkeypatch.setenv("RANKGRAD_CACHE", str(root))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    for folder, content in (("kernels-0123456789abcdef", "1234"), ("parser-0123456789abcdef", "12"), ("mine", "keep")):
        (root / folder).mkdir(parents=True)
        (root / folder / "file").write_text(content)
    (root / "notes.txt").write_text("keep")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").write_text("keep")
    (root / "native-0123456789abcdef").symlink_to(elsewhere)
    return root


def doctor(*words):
    return json.loads(run_here("doctor", "--json", *words))


def test_versions_kernels_and_reasons(cache, monkeypatch):
    monkeypatch.delenv("RANKGRAD_BACKEND", raising=False)
    found = doctor()
    assert found["versions"]["torch"] == installed("torch")
    assert found["versions"]["Python"].startswith(f"{sys.version_info.major}.{sys.version_info.minor}")
    cpu, gpu, _ = found["kernels"]
    assert (cpu["name"], cpu["state"]) == ("CPU", "fused")
    assert "Numba" in cpu["why"]
    assert gpu["why"]
    assert found["devices"][0]["cores"] >= 1
    monkeypatch.setenv("RANKGRAD_BACKEND", "plain")
    found = doctor()
    assert found["kernels"][0] == {"name": "CPU", "state": "plain", "why": "RANKGRAD_BACKEND is plain"}
    assert found["variables"]["RANKGRAD_BACKEND"] == "plain"
    told = run_here("doctor")
    for said in ("RANKGRAD_BACKEND is plain", "altair", "kernels", str(found["versions"]["torch"])):
        assert said in told


def test_the_cache_is_measured_and_cleared_and_other_files_stay(cache):
    ours = doctor()["caches"][0]
    assert (ours["files"], ours["bytes"], ours["path"]) == (2, 6, str(cache))
    told = run_here("doctor", "--clear-cache")
    assert "removed 2 files of compiled code" in told
    assert doctor()["caches"][0]["files"] == 0
    assert sorted(path.name for path in cache.iterdir()) == ["mine", "native-0123456789abcdef", "notes.txt"]
    assert (cache.parent / "elsewhere" / "file").read_text() == "keep"
    assert (cache / "mine" / "file").read_text() == "keep"


def test_extras_name_their_packages():
    extras = {each["extra"]: each for each in doctor()["extras"]}
    assert extras["report"]["packages"]["altair"] == installed("altair")
    assert set(extras["trees"]["packages"]) == {"lightgbm", "xgboost"}
    assert all(each["for"] for each in extras.values())
    assert installed("no-such-package") is None


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib came with Python 3.11")
def test_every_extra_is_explained_and_every_data_file_is_in_the_wheel():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = {each["extra"] for each in doctor()["extras"]}
    assert extras == set(project["project"]["optional-dependencies"])
    patterns = project["tool"]["setuptools"]["package-data"]["rankgrad"]
    for path in SOURCE.rglob("*"):
        if path.is_file() and path.parent.name != "__pycache__" and path.suffix not in (".py", ".md"):
            assert any(path in SOURCE.glob(pattern) for pattern in patterns), f"{path} is not in the wheel"
