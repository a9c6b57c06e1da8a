"""Types that users see: a script with all of them runs, and every public name is there for type checkers.

`make types` has mypy read the script, `tests/typing/user_script.py`: a type that is not known, or a mistake that is not
found, fails there.
"""

import ast
import importlib.util

import pytest
from paths import TESTS

import rankgrad as rg

PACKAGE = TESTS.parent / "src" / "rankgrad"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("user_script", TESTS / "typing" / "user_script.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_script_runs(script):
    pytest.importorskip("lightgbm")
    assert script.by_hand().shape == ()
    assert 0.0 < script.with_data("synthetic:lists=20,features=10") <= 1.0


def test_what_mypy_must_find_is_wrong(script):
    with pytest.raises(TypeError, match="nonsense"):
        script.with_a_mistake()
    with pytest.raises(AttributeError, match="nonsense"):
        script.with_a_wrong_name()


def test_mypy_reads_the_script():
    config = (TESTS.parent / "pyproject.toml").read_text(encoding="utf-8").partition("[tool.mypy]")[2]
    assert "warn_unused_ignores = true" in config
    assert '"tests/typing"' in next(line for line in config.splitlines() if line.startswith("files = "))
    assert (PACKAGE / "py.typed").is_file()


def declared(path):
    """Names that a package imports for type checkers or at once."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_every_public_name_is_declared_and_loads():
    assert set(rg.__all__) <= declared(PACKAGE / "__init__.py")
    for name in rg.__all__:
        assert getattr(rg, name) is not None


def test_no_package_hides_its_names_from_type_checkers():
    """A `__getattr__` at the top of a module gives every name any type, unless type checkers do not see it."""
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert not any(isinstance(node, ast.FunctionDef) and node.name == "__getattr__" for node in tree.body), path
