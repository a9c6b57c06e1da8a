"""The picture of the architecture is right: its modules exist, none is missing, and imports go down only."""

import importlib
import sys

import pytest
from paths import ROOT, SOURCE
from test_imports import MODULES, imported, module_name


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
