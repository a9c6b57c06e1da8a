"""A framework of boosted trees is one folder and one line in a list: no other module asks which framework it has."""

import ast

import pytest
from paths import SOURCE

from rankgrad.tree_frameworks import FRAMEWORKS

# Modules that may contain the name of a framework as a value, and why.
VALUES = {
    "models/registry.py": "the kind that reads the trees of all frameworks",
    "models/auto/students.py": "models that a user may choose as students",
    "estimators/trees.py": "default framework",
    "trees/objective.py": "default framework",
    "trees/settings.py": "default framework",
    "settings/trees.py": "default framework",
}


def outside():
    """Modules outside of the folders of the frameworks and of the list, by name."""
    folders = [f"trees/{name}/" for name in FRAMEWORKS]
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).as_posix()
        if name != "tree_frameworks.py" and not any(map(name.startswith, folders)):
            yield name, ast.parse(path.read_text(encoding="utf-8"))


def named(node):
    """Whether a node is the name of a framework, or a collection that contains one."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(map(named, node.elts))
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in FRAMEWORKS


def decided(tree):
    """Lines on which the name of a framework is compared, matched, or a key."""
    for node in ast.walk(tree):
        parts = []
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.Dict):
            parts = node.keys
        elif isinstance(node, ast.Subscript):
            parts = [node.slice]
        elif isinstance(node, ast.MatchValue):
            parts = [node.value]
        if any(map(named, parts)):
            yield node.lineno if hasattr(node, "lineno") else 0


def test_no_module_decides_by_the_name_of_a_framework():
    assert {name: [*decided(tree)] for name, tree in outside() if [*decided(tree)]} == {}
    assert {name for name, tree in outside() if any(map(named, ast.walk(tree)))} == {*VALUES}


def test_no_module_imports_a_framework():
    """`framework_named` imports the folder of a framework; only this folder imports the package."""
    folders = {*FRAMEWORKS, *(f"rankgrad.trees.{name}" for name in FRAMEWORKS)}
    for name, tree in outside():
        for node in ast.walk(tree):
            imported = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            imported += [node.module] if isinstance(node, ast.ImportFrom) else []
            assert not [each for each in imported if any(f"{each}.".startswith(f"{one}.") for one in folders)], name


@pytest.mark.parametrize(
    "text",
    ['framework == "lightgbm"', 'name in ("x", "xgboost")', '{"lightgbm": 1}', 'files["xgboost"]'],
)
def test_the_walk_finds_decisions(text):
    assert [*decided(ast.parse(text))] == [1]
    assert [*decided(ast.parse(text.replace("lightgbm", "mlp").replace("xgboost", "mlp")))] == []
