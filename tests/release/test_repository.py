"""Facts about the repository and its release: one version everywhere, files that parse, a small size."""

import re
import subprocess
import zlib

import pytest
import yaml
from paths import ROOT

import rankgrad

PACKED, ARCHIVE = 6_000_000, 1_000_000  # largest total and largest single archive, in bytes
FORMS = [*ROOT.glob(".github/**/*.yml"), ROOT / "CITATION.cff"]


def tracked():
    found = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True)
    if found.returncode:
        pytest.skip("not a git repository")
    return [ROOT / name for name in found.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


def test_tracked_files_are_small():
    sizes = {path: len(zlib.compress(path.read_bytes(), 6)) for path in tracked()}
    assert 1_000_000 < sum(sizes.values()) < PACKED
    archives = [path for path in sizes if path.suffix in (".xz", ".gz", ".zip", ".npz", ".safetensors")]
    assert archives
    assert [path for path in archives if path.stat().st_size > ARCHIVE] == []


def test_one_version():
    version = rankgrad.__version__
    assert f'\nversion = "{version}"\n' in (ROOT / "pyproject.toml").read_text()
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert re.search(rf"(?m)^## {re.escape(version)}\b", (ROOT / "CHANGELOG.md").read_text())


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_yaml_parses(path):
    read = yaml.safe_load(path.read_text())
    if path.parent.name == "workflows":
        assert read["jobs"]
        for job in read["jobs"].values():
            assert job["runs-on"]
            assert all("uses" in step or "run" in step for step in job["steps"])
        # A target of make that a workflow calls exists.
        targets = [word for line in re.findall(r"run: make (.+)", path.read_text()) for word in line.split()]
        known = re.findall(r"(?m)^([\w-]+):", (ROOT / "Makefile").read_text())
        assert set(targets) <= set(known)


def test_lowest_versions_are_those_of_the_package():
    text = (ROOT / "pyproject.toml").read_text()
    declared = dict(re.findall(r'"([\w-]+)>=([\d.]+)"', text.partition("dependencies = [")[2].partition("]")[0]))
    lowest = dict(re.findall(r"(?m)^([\w-]+)==([\d.]+)$", (ROOT / "constraints-lowest.txt").read_text()))
    assert set(lowest) == set(declared)
    for name, version in declared.items():
        if name != "torch":  # there is only one CPU build to test with
            assert (lowest[name] + ".").startswith(version + "."), name
