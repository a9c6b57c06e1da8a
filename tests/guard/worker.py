"""Run jobs of the guard with the rankgrad that PYTHONPATH names: `python worker.py FOLDER DATA NAME...`.

Each job runs in a fork of this process, which has imported the large packages, but nothing of rankgrad. So a job costs
no import of PyTorch, and finds nothing that another job has left. Everything is done through public names.
"""

import builtins
import gc
import json
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
import warnings
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(Path(__file__).parent), str(TESTS), str(TESTS / "kinds")]
PACKAGES = (
    "torch._dynamo",
    "lightning_fabric",
    "numba.np.arraymath",
    "pandas",
    "scipy.stats",
    "sklearn.base",
    "rich.table",
)
PACKAGES += ("typer.testing", "lightgbm", "xgboost")
TEXT_PACKAGES = ("transformers.models.bert.modeling_bert", "transformers.models.auto.modeling_auto")
SECONDS = 900  # a job that takes longer is ended


def main(folder: Path, data: Path, names: list[str]) -> None:
    """Run the jobs one after the other, each in a process of its own."""
    from jobs import JOBS

    for package in (*PACKAGES, *(TEXT_PACKAGES if any("text" in name for name in names) else ())):
        import_module(package)
    import_module("torch").set_num_threads(1)
    for name in names:
        here = folder / name
        if not here.exists():
            here.mkdir(parents=True)
            if "killed" in JOBS[name]:
                in_fork(run_until_killed, here, data, JOBS[name])
                if handover := os.environ.get("GUARD_HANDOVER"):
                    shutil.copytree(here, Path(handover) / name)
        in_fork(run_job, here, data, JOBS[name]["steps"])


def in_fork(function: Any, here: Path, *arguments: Any) -> None:
    """Call a function in a child of this process, in the folder of a job."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    signal.alarm(SECONDS)
    os.chdir(here)
    try:
        function(*arguments)
    except BaseException as error:  # the guard itself failed
        Path("guard-failed.txt").write_text(repr(error))
    os._exit(0)


def run_until_killed(data: Path, job: dict[str, Any]) -> None:
    """Run the first step of a job until it has written a file a number of times, and end it with SIGKILL."""
    from killed import kill_after

    kill_after(*job["killed"])
    with told():
        run_step(job["run"], data, names_of_python(data))
    Path("guard-failed.txt").write_text("the run was not killed")


def run_job(data: Path, steps: list[str]) -> None:
    """Run the steps of a job, and write what they told to told.json."""
    found, names = {}, names_of_python(data)
    for number, step in enumerate(steps, 1):
        with told() as texts:
            ended = run_step(step, data, names)
        found[f"{number} {step.strip()}"] = {"exit": ended, **texts}
    Path("told.json").write_text(json.dumps(found, indent=1))


def run_step(step: str, data: Path, names: dict[str, Any]) -> Any:
    """Run a command or Python code; return the exit status, or the error."""
    with warnings.catch_warnings():
        try:
            if not step.startswith("rankgrad "):
                exec(step, names)
                return 0
            from rankgrad.cli import main as command_line

            sys.argv = shlex.split(re.sub(r"\bDATA\b", str(data), step))
            command_line()
        except SystemExit as end:
            return end.code
        except Exception as error:  # a class of its own may be added, but what the user catches stays
            kind = next(each for each in type(error).__mro__ if vars(builtins).get(each.__name__) is each)
            return f"{kind.__name__}: {error}"
        return 0


@contextmanager
def told() -> Any:
    """Catch what is written to the standard streams, also by C++."""
    texts: dict[str, Any] = {}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        before = os.dup(1), os.dup(2)
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        try:
            yield texts
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, stream in enumerate((out, err), 1):
                os.dup2(before[number - 1], number)
                os.close(before[number - 1])
                stream.seek(0)
                texts[("out", "err")[number - 1]] = stream.read().decode(errors="replace").splitlines()


def names_of_python(data: Path) -> dict[str, Any]:
    """Return the names that Python steps use: packages, rows and functions."""
    import numpy as np
    import pandas as pd

    import rankgrad as rg

    names: dict[str, Any] = {"rg": rg, "np": np, "pd": pd, "DATA": str(data), **rows(pd, data)}

    def keep(name: str, array: Any) -> None:
        np.save(f"{name}.npy", np.asarray(array))

    def check(ranker: Any, X: Any, y: Any, *, test: Any = None, save: bool = True, **fit: Any) -> None:
        """Fit an estimator, predict, save and load it."""
        test = names["Xt"] if test is None else test
        keep("scores", ranker.fit(X, y, **fit).predict(test, qid=names["qt"]))
        print(ranker)
        if save:
            ranker.save("model")
            keep("scores of the saved model", type(ranker).load("model").predict(test, qid=names["qt"]))

    def peak(read: Any, end: str, make: Any = str) -> None:
        """Write how much memory the reading of a file needs at most: the least of three processes, as threads differ.

        A small file is read first, because that imports and compiles what is needed. `make` is not measured.
        """
        for number in range(3):
            if not (child := os.fork()):
                read(make(f"{data}/test.{end}"))
                given = make(f"{data}/large.{end}")
                gc.collect()
                Path("/proc/self/clear_refs").write_text("5")
                before = memory("VmRSS")
                kept = read(given)
                Path(f"peak-{number}").write_text(str(memory("VmHWM") - before))
                os._exit(len(kept) == 0)
            os.waitpid(child, 0)
        found = [Path(f"peak-{number}") for number in range(3)]
        Path("peak.json").write_text(json.dumps({"peak bytes": min(int(path.read_text()) for path in found)}))
        for path in found:
            path.unlink()

    names |= {"keep": keep, "check": check, "peak": peak}
    return names


def rows(pd: Any, data: Path) -> dict[str, Any]:
    """Return the training and test rows: a frame with features, labels, query ids, weights."""
    table = pd.read_csv(data / "all.csv")
    test = pd.read_csv(data / "test.csv")
    names = [name for name in table.columns if name[0] == "f"]
    found = {"table": table, "X": table[names], "y": table["label"].to_numpy(), "q": table["qid"].to_numpy()}
    return {
        **found,
        "w": table["weight"].to_numpy(),
        "Xt": test[names],
        "yt": test["label"],
        "qt": test["qid"].to_numpy(),
    }


def memory(key: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(key))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
