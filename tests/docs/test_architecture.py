"""The picture of the architecture is right: its modules exist, none is missing, and imports go down only."""

import importlib
import re
import sys

import numpy as np
import pandas as pd
import pytest
from paths import ROOT, SOURCE
from safetensors.torch import load_file
from test_imports import MODULES, imported, module_name
from typer.testing import CliRunner

from rankgrad.cli import app


@pytest.fixture(scope="module")
def architecture():
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        return importlib.import_module("pages.architecture")
    finally:
        sys.path.remove(str(ROOT / "docs"))


def test_every_module_exists(architecture):
    names = [name for row in architecture.LAYERS for name, _ in row] + [name for _, name, _ in architecture.PATH]
    for name in names:
        path = SOURCE / name.replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__init__.py").exists(), name


def row_of(module, rows):
    """The row of a module, by the longest name that begins it; None for foundations that the picture leaves out."""
    parts = module.removeprefix("rankgrad.").split(".")
    for end in range(len(parts), 0, -1):
        if (row := rows.get(".".join(parts[:end]))) is not None:
            return row
    return None


def test_imports_go_down_only(architecture):
    rows = {name: number for number, row in enumerate(architecture.LAYERS) for name, _ in row}
    seen, upward = set(), []
    for path in MODULES:
        module = module_name(path)
        if (row := row_of(module, rows)) is None:
            continue
        seen.add(row)
        for other in imported(path.read_text(encoding="utf-8")) - {"rankgrad"}:
            target = row_of(other, rows)
            same = other.split(".")[1] == module.split(".")[1] or row == len(architecture.LAYERS) - 1
            if target is not None and not (target > row or (same and target == row)):
                upward.append(f"{module} imports {other}")
    assert upward == []
    assert seen == set(range(len(architecture.LAYERS)))


def test_no_layer_is_missing(architecture):
    shown = {name.split(".")[0] for row in architecture.LAYERS for name, _ in row}
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert packages <= shown


def test_the_whole_path_by_hand_is_train(tmp_path, monkeypatch):
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (command,) = re.findall(r"`rankgrad (train .*?)`", page)
    assert len(code.splitlines()) <= 60
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(300), rng.integers(3, 25, size=300))
    table = pd.DataFrame(rng.normal(size=(len(qid), 5)), columns=[*"abcde"]).assign(qid=qid)
    grades = table["a"] + 0.8 * rng.normal(size=len(qid)) + 1
    table.assign(label=grades.clip(0, 3).astype(int)).to_parquet(tmp_path / "rows.parquet")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "architecture.md", "exec"), {})
    done = CliRunner().invoke(app, command.split())
    assert done.exit_code == 0, done.output
    by_hand, trained = (load_file(folder + "/model.safetensors") for folder in ("by-hand", "run"))
    assert by_hand.keys() == trained.keys()
    assert all(by_hand[name].equal(trained[name]) for name in trained)
