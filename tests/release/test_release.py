"""The release as a stranger installs it: distributions, clean environments, extras, the lowest versions.

`make release-check` runs these tests; each environment takes a minute or more.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
from paths import ROOT, SHARED

pytestmark = pytest.mark.long

CORE = ("test_lists.py", "test_specs.py", "losses/test_losses.py", "losses/test_loss_text.py",
        "rankers/test_rankers.py", "training/test_training.py", "data/test_letor.py",
        "estimators/test_neural_estimator.py", "metrics")  # fmt: skip
EXTRAS = ("report", "frames", "trees", "text", "export", "ray")


def run(*command, cwd, **variables):
    """Run a command without the source tree, and return its output."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True,
        env={**kept, "OMP_NUM_THREADS": "1", **variables},
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


def environment(folder, *packages, constraints="constraints.txt", python=sys.executable):
    """A new virtual environment with packages; the path of its programs."""
    run(python, "-m", "venv", folder, cwd=folder.parent)
    install = ("-m", "pip", "install", "--quiet", "--no-compile", "--constraint", ROOT / constraints)
    run(folder / "bin" / "python", *install, *packages, cwd=folder.parent)
    assert "No broken requirements" in run(folder / "bin" / "python", "-m", "pip", "check", cwd=folder.parent)
    return folder / "bin"


@pytest.fixture(scope="session")
def distributions(tmp_path_factory):
    """Wheel and source distribution, built from the tracked files."""
    pytest.importorskip("build")
    top = tmp_path_factory.mktemp("release")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (top / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, top / "tree" / name)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", top / "dist", top / "tree", cwd=top)
    return {path.suffix: path for path in (top / "dist").iterdir()}


@pytest.fixture(scope="session")
def installed(distributions, tmp_path_factory):
    return environment(tmp_path_factory.mktemp("clean") / "venv", distributions[".whl"])


def test_distributions_are_complete(distributions):
    pytest.importorskip("twine")
    told = run(sys.executable, "-m", "twine", "check", "--strict", *distributions.values(), cwd=ROOT.parent)
    assert len(re.findall("PASSED", told)) == 2
    names = zipfile.ZipFile(distributions[".whl"]).namelist()
    expected = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")}
    assert expected <= set(names)
    assert "rankgrad/py.typed" in names
    assert any(name.startswith("rankgrad/recipes/") and name.endswith(".yaml") for name in names)
    assert not [name for name in names if name.startswith(("tests", "docs"))]
    with tarfile.open(distributions[".gz"]) as source:
        parts = {Path(*Path(name).parts[1:]).as_posix() for name in source.getnames()}
    assert {"LICENSE", "CITATION.cff", "tests/paths.py", "examples/serve_onnx.py"} <= parts
    assert not [part for part in parts if part.startswith("docs/")]


def test_a_clean_environment_runs(installed, tmp_path):
    where = run(installed / "python", "-c", "import rankgrad; print(rankgrad.__file__)", cwd=tmp_path)
    assert str(ROOT / "src") not in where
    told = run(installed / "rankgrad", "demo", "--lists", "100", "--epochs", "2", "--out", "demo", cwd=tmp_path)
    assert "lambdaloss" in told.lower()
    shutil.copy(ROOT / "README.md", tmp_path)
    lines = "import doctest; done = doctest.testfile('README.md', module_relative=False, optionflags="
    lines += "doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS); print(done); assert done.attempted and not done.failed"
    run(installed / "python", "-c", lines, cwd=tmp_path)


@pytest.mark.skipif(not (SHARED / "data" / "MQ2008").is_dir(), reason="MQ2008 is not there")
def test_a_recipe_runs_by_its_name(installed, tmp_path):
    command = ("experiment", "smoothi-table1", "--only", "MQ2008", "--smoke", "--jobs", "1")
    told = run(installed / "rankgrad", *command, "--data-root", SHARED / "data", cwd=tmp_path)
    assert "SmoothI" in told


@pytest.mark.parametrize("extra", EXTRAS)
def test_every_extra_resolves(distributions, installed, extra, tmp_path):
    wanted = f"{distributions['.whl']}[{extra}]"
    command = ("-m", "pip", "install", "--dry-run", "--quiet", "--constraint", ROOT / "constraints.txt", wanted)
    run(installed / "python", *command, cwd=tmp_path)


def test_the_lowest_versions_pass_the_core_tests(distributions, tmp_path):
    packages = (distributions[".whl"], "pytest", "hypothesis")
    programs = environment(tmp_path / "venv", *packages, constraints="constraints-lowest.txt")
    # Some tests read the sources and the documentation; the tests import the installed package.
    for name in ("tests", "src", "docs", "README.md", "conftest.py", "pyproject.toml"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    tests = [tmp_path / "tests" / name for name in CORE]
    run(programs / "python", "-m", "pytest", "-q", "-m", "not long", *tests, cwd=tmp_path)


@pytest.mark.parametrize("version", ["3.10", "3.12", "3.13"])
def test_other_versions_of_python(distributions, version, tmp_path):
    """The wheel installs and computes a loss and a metric in the interpreters that this machine has."""
    found = shutil.which(f"python{version}")
    choices = [Path(found)] if found else []
    choices += sorted(Path(sysconfig.get_config_var("prefix")).parent.glob(f"{version}.*/bin/python"))
    works = [path for path in choices if subprocess.run([path, "-c", ""], capture_output=True).returncode == 0]
    if not works:
        pytest.skip(f"no Python {version}")
    programs = environment(tmp_path / "venv", distributions[".whl"], python=works[0])
    lines = "import torch, rankgrad as rg; x = torch.randn(2, 5); y = torch.ones(2, 5).cumsum(1) % 3; "
    lines += "print(rg.losses.lambdaloss(x, y), rg.metrics.ndcg(x, y), rg.Ranker)"
    run(programs / "python", "-c", lines, cwd=tmp_path)
    run(programs / "rankgrad", "demo", "--lists", "30", "--epochs", "1", "--out", "demo", cwd=tmp_path)
