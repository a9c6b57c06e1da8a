"""Change the source in one place, and see whether the tests notice: `python tests/long/mutants.py --seed 1 --count 50`.

A mutant is a copy of the package in which one operator or one number differs. The tests of the mirrored folder run on
it. A mutant that no test notices is either equivalent to the original, or a test is missing.
"""

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from paths import ROOT

FOLDERS = ("losses", "relax", "metrics", "data")  # src/rankgrad/X is tested by tests/X
SECONDS = 900  # a mutant that takes longer is in an endless loop, which is noticed
SWAPS: dict[type, type] = {ast.Lt: ast.LtE, ast.Gt: ast.GtE, ast.Eq: ast.NotEq, ast.Add: ast.Sub, ast.Mult: ast.Div}
SWAPS |= {ast.And: ast.Or, ast.Is: ast.IsNot, ast.In: ast.NotIn}
SWAPS |= {after: before for before, after in SWAPS.items()}


class Place(NamedTuple):
    """Where a module is changed: a node of its syntax tree."""

    path: Path  # from the root of the repository
    number: int  # place of the node in `ast.walk`
    line: int


def places(path: Path) -> Iterator[Place]:
    """All places of a module that can be changed. Types and text are left out."""
    tree = ast.parse((ROOT / path).read_text())
    typed = {
        id(part)
        for node in ast.walk(tree)
        for kind in ("annotation", "returns")
        if (types := getattr(node, kind, None)) is not None
        for part in ast.walk(types)
    }
    for number, node in enumerate(ast.walk(tree)):
        if id(node) not in typed and change(node) is not None:
            yield Place(path, number, node.lineno)


def change(node: ast.AST) -> str | None:
    """Change a node in place, and describe the change; None for a node that stays as it is."""
    if isinstance(node, ast.Compare):
        before = node.ops[0]
        node.ops[0] = SWAPS.get(type(before), type(before))()
        return None if type(before) not in SWAPS else f"{type(before).__name__} to {type(node.ops[0]).__name__}"
    if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in SWAPS:
        before, node.op = node.op, SWAPS[type(node.op)]()
        return f"{type(before).__name__} to {type(node.op).__name__}"
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        node.value += 1
        return f"{node.value - 1} to {node.value}"
    return None


def mutated(place: Place) -> tuple[str, str]:
    """The text of the changed module, and what was changed."""
    tree = ast.parse((ROOT / place.path).read_text())
    about = change([*ast.walk(tree)][place.number])
    assert about is not None
    return ast.unparse(tree), about


def copied(folder: Path) -> Path:
    """A copy of the source and the tests, without the data beside the repository: mutants must not need it."""
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "docs/when.yaml"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


def failure(root: Path, module: Path) -> str:
    """The end of what the tests of a module's folder print if one fails; empty if all pass."""
    folder = root / "tests" / module.parts[2]
    files = sorted(
        folder.rglob("test_*.py"), key=lambda file: -file.read_text().count(module.stem)
    )  # likely ones first
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not long", *files]
    # With CI, examples of Hypothesis are the same in each run and have no deadline.
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1", "CI": "1"}
    try:
        done = subprocess.run(command, cwd=root, env=environment, timeout=SECONDS, capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        return "takes too long"
    return done.stdout[-2000:] if done.returncode else ""


def run(count: int, seed: int) -> int:
    """Try mutants that are drawn by the seed; the number of those that the tests noticed."""
    modules = [path for folder in FOLDERS for path in sorted((ROOT / "src" / "rankgrad" / folder).rglob("*.py"))]
    every = [place for path in modules for place in places(path.relative_to(ROOT))]
    chosen, noticed = random.Random(seed).sample(every, count), 0
    with tempfile.TemporaryDirectory() as temporary:
        root = copied(Path(temporary) / "copy")
        for folder in FOLDERS:
            assert not (found := failure(root, Path(f"src/rankgrad/{folder}/any.py"))), found
        for place in chosen:
            text, about = mutated(place)
            (root / place.path).write_text(text)
            found = bool(failure(root, place.path))
            shutil.copy(ROOT / place.path, root / place.path)
            noticed += found
            print(f"{'noticed' if found else 'SURVIVED'}  {place.path}:{place.line}  {about}", flush=True)
    return noticed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    print(f"{run(given.count, given.seed)} of {given.count} noticed")
