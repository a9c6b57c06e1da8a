"""Count the functions and modules that a job passes through: `python benchmarks/paths.py --base COMMIT`.

A call counts if the function is defined in a module of the package outside of `losses`, `metrics`, `relax`, `kernels`,
`rankers` and `lists.py`. Calls that happen while a module is imported do not count, and a comprehension belongs to its
function. A generator is called each time when it continues. For each job, in a new process:

- functions: number of different functions that are called,
- modules: number of different modules that contain these functions,
- changes: number of calls whose function is in another module than the function of the previous call that counts.

The input is fixed: a table of 60 lists with 10 documents, or a collection of 60 texts; one epoch, or one tree. `auto`
has one candidate, two folds, and as many trees as it chooses. Without `--base`, only the working tree is counted.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
INNER = ("losses", "metrics", "relax", "kernels", "rankers", "lists.py")
COUNTS = ("functions", "modules", "changes")


def main() -> None:
    """Count on both sides, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--base", help="commit to compare with")
    parser.add_argument("--job", choices=JOBS, action="append", help="only this job; repeatable")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--count", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.count:
        print(json.dumps(count(options.count)))
        return
    names = options.job or list(JOBS)
    new = {name: in_process(name, ROOT / "src") for name in names}
    if options.base is None:
        rows = [[name, *(f"{new[name][each]:,}" for each in COUNTS)] for name in names]
        print_table(["job", *COUNTS], rows)
        return
    with source_of(options.base) as source:
        base = {name: in_process(name, source) for name in names}
    heads = ["job", *(f"{each}, {side}" for each in COUNTS for side in ("base", "new", "ratio"))]
    rows = []
    for name in names:
        pairs = [(base[name][each], new[name][each]) for each in COUNTS]
        rows.append([name, *(cell for b, n in pairs for cell in (f"{b:,}", f"{n:,}", f"{n / b:.2f}"))])
    print_table(heads, rows)
    if options.json:
        options.json.write_text(json.dumps({"base": base, "new": new}, indent=1) + "\n")


def print_table(heads: list[str], rows: list[list[str]]) -> None:
    """Print a Markdown table."""
    for row in (heads, ["---"] * len(heads), *rows):
        print(f"| {' | '.join(row)} |")


@contextmanager
def source_of(commit: str) -> Any:
    """Give the folder `src` of a commit, unpacked for the time of the block."""
    with tempfile.TemporaryDirectory() as top:
        packed = subprocess.run(["git", "-C", ROOT, "archive", commit, "src"], check=True, stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "-C", top], input=packed.stdout, check=True)
        yield Path(top) / "src"


def in_process(name: str, source: Path) -> dict[str, int]:
    """Count a job in a new process that imports the package from a folder, in an empty working directory."""
    path = os.pathsep.join([str(source), str(ROOT / "tests")])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as here:
        words = [sys.executable, __file__, "--count", name]
        done = subprocess.run(words, env=environment, cwd=here, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"the job {name!r} failed with {source}")
    return json.loads(done.stdout.splitlines()[-1])


def count(name: str) -> dict[str, int]:
    """Run a job in this process, and count."""
    import rankgrad

    job = JOBS[name]()
    calls = Calls(Path(rankgrad.__file__).parent)
    threading.setprofile(calls)
    sys.setprofile(calls)
    try:
        job()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    modules = [path for path, *_ in calls.made]
    changes = sum(one != other for one, other in pairwise(modules))
    return {"functions": len(set(calls.made)), "modules": len(set(modules)), "changes": changes}


class Calls:
    """Profiler that collects the calls that count, as file, line and name of the function."""

    def __init__(self, package: Path) -> None:
        self.package, self.imports = f"{package}{os.sep}", 0
        self.made: list[tuple[str, int, str]] = []

    def __call__(self, frame: Any, event: str, _: Any) -> None:
        """Take one event of the interpreter."""
        code = frame.f_code
        if code.co_name == "<module>":
            self.imports += {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not self.imports and code.co_filename.startswith(self.package):
            place = code.co_filename[len(self.package) :]
            comprehension = code.co_name.startswith("<") and code.co_name != "<lambda>"
            if not comprehension and place.split(os.sep)[0] not in INNER:
                self.made.append((place, code.co_firstlineno, code.co_name))


def rows() -> Any:
    """Return a data frame with the columns of 60 lists of 10 documents."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(600, 5)), columns=[*"abcde"])
    label = (table["a"] + 0.3 * rng.normal(size=600) + 1).clip(0, 3).astype(int)
    return table.assign(label=label, qid=np.repeat(np.arange(60), 10))


def command(*words: str) -> None:
    """Run a command of the command line in this process, quietly."""
    from rankgrad.cli import main

    sys.argv = ["rankgrad", *words, "--quiet"]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise


def train() -> Callable[[], Any]:
    """`rankgrad train` on a Parquet file."""
    rows().to_parquet("rows.parquet")
    return lambda: command("train", "--data", "rows.parquet", "--epochs", "1", "--out", "run")


def ranker() -> Callable[[], Any]:
    """`Ranker.fit` on a data frame."""
    import rankgrad as rg

    table = rows()
    return lambda: rg.Ranker(epochs=1).fit(table[[*"abcde"]], table["label"], qid=table["qid"])


def trees() -> Callable[[], Any]:
    """`TreeRanker.fit` on a data frame."""
    import rankgrad as rg

    table = rows()
    return lambda: rg.trees.TreeRanker(trees=1).fit(table[[*"abcde"]], table["label"], qid=table["qid"])


def text() -> Callable[[], Any]:
    """`rankgrad text train` on an index."""
    from tiny_collection import WORDS, tiny_collection
    from tiny_encoder import tiny_encoder

    tiny_encoder("encoder", words=WORDS)
    command("text", "index", str(tiny_collection("collection")), "--out", "index")
    words = ("text", "train", "index", "--encoder", "encoder", "--epochs", "1", "--out", "run")
    return lambda: command(*words)


def auto() -> Callable[[], Any]:
    """One candidate of `AutoRanker`."""
    import rankgrad as rg

    table = rows()
    ranker = rg.AutoRanker(trials=1, folds=2)
    return lambda: ranker.fit(table[[*"abcde"]], table["label"], qid=table["qid"])


JOBS = {
    "train on Parquet": train,
    "Ranker.fit(frame)": ranker,
    "TreeRanker.fit(frame)": trees,
    "text train": text,
    "one auto trial": auto,
}

if __name__ == "__main__":
    main()
