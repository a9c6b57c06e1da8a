"""Run a base commit and the working tree side by side, and print what differs: `python tests/guard/compare.py`.

`jobs.py` has the jobs, `bad_inputs.yaml` the bad inputs, `expected_differences.yaml` what may differ, and why. Compared
are tensors, trees, scores, ONNX files, JSON, logs, messages, exit codes, and the peak memory of reading; not times,
versions and paths. A run that base started and that was killed is also resumed by the new code ("resumed on new").
Stored results would not do, because another processor rounds otherwise: base against base must be equal.
"""

import argparse
import fnmatch
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from inputs import write_inputs  # noqa: E402
from jobs import JOBS  # noqa: E402
from observed import differences, of_folder  # noqa: E402

EXPECTED = HERE / "expected_differences.yaml"
SIDES = ("base", "new", "resumed on new")


def main() -> None:
    """Run both sides, compare, and exit with 1 if something differs that is not expected."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--base", default="6bebfaf", help="commit to compare with (default: 6bebfaf)")
    parser.add_argument("--new", help="commit to compare (default: the working tree)")
    parser.add_argument("--only", action="append", help="pattern of names of jobs, such as 'trees/*'; repeatable")
    parser.add_argument("--jobs", type=int, default=2, help="number of processes (default: 2)")
    parser.add_argument("--keep", type=Path, help="folder for everything that is written (default: temporary)")
    parser.add_argument("--list", action="store_true", help="print the names of the jobs, and exit")
    options = parser.parse_args()
    names = [name for name in JOBS if not options.only or any(fnmatch.fnmatch(name, each) for each in options.only)]
    if options.list or not names:
        sys.exit("\n".join(names) or "no job has such a name")
    top = options.keep or Path(tempfile.mkdtemp(prefix="guard-"))
    shutil.rmtree(top, ignore_errors=True)
    begun = time.monotonic()
    try:
        top = top.resolve()
        sources = {
            side: source_of(commit, top / side) for side, commit in (("base", options.base), ("new", options.new))
        }
        write_inputs(top / "data")
        run_all(names, top, sources, options.jobs)
        found = compare(names, top, sources)
    finally:
        if options.keep is None:
            shutil.rmtree(top, ignore_errors=True)
    unexpected, reasons = sort_out(found, yaml.safe_load(EXPECTED.read_text()) or [])
    for reason, count in reasons.items():
        print(f"expected ({count}): {reason}")
    for job, what, base, new in unexpected:
        print(f"{job}\n  {what}\n    base: {shortened(base, new)}\n    new:  {shortened(new, base)}")
    print(f"{len(names)} jobs, {len(unexpected)} unexpected differences, {time.monotonic() - begun:.0f} s")
    sys.exit(bool(unexpected))


def source_of(commit: str | None, folder: Path) -> Path:
    """Return the folder `src` of a commit, unpacked, or of the working tree."""
    folder.mkdir(parents=True)
    if commit is None:
        return ROOT / "src"
    packed = subprocess.run(["git", "-C", ROOT, "archive", commit, "src"], check=True, stdout=subprocess.PIPE)
    subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout, check=True)
    return folder / "src"


def run_all(names: list[str], top: Path, sources: dict[str, Path], processes: int) -> None:
    """Run the jobs of both sides; then resume, with the new code, the runs that base has started."""
    text = [name for name in names if "text" in name]
    others = [name for name in names if name not in text]
    groups = [group for group in (text, *(others[n::processes] for n in range(processes))) if group]
    killed = [name for name in names if "killed" in JOBS[name]]
    with ThreadPoolExecutor(processes) as pool:
        tasks = [(group, top / side / "jobs", sources[side], top) for group in groups for side in ("base", "new")]
        for done in [pool.submit(work, *task) for task in tasks]:
            done.result()
    work(killed, top / SIDES[2] / "jobs", sources["new"], top)


def work(names: list[str], folder: Path, source: Path, top: Path) -> None:
    """Run jobs in a new process with one of the sources. Base leaves a copy of each run that it has started."""
    if not names:
        return
    environment = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{HERE.parent}", "OMP_NUM_THREADS": "1"}
    environment |= {"COLUMNS": "150", "NO_COLOR": "1", "PYTHONHASHSEED": "0", "RANKGRAD_COMMIT": "guard"}
    environment |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    environment["GUARD_HANDOVER"] = str(top / SIDES[2] / "jobs") if folder == top / "base" / "jobs" else ""
    words = [sys.executable, HERE / "worker.py", folder, top / "data", *names]
    subprocess.run(words, env=environment, check=True, stdin=subprocess.DEVNULL)


def compare(names: list[str], top: Path, sources: dict[str, Path]) -> list[tuple[str, str, str, str]]:
    """Return the differences: job, what, value of base, value of the other side."""
    found = []
    for name in names:
        seen = {}
        for side in SIDES if "killed" in JOBS[name] else SIDES[:2]:
            source = sources["base" if side == "base" else "new"]
            places = {str(top / "data"): "DATA", str(source): "SRC", str(ROOT): "ROOT"}
            seen[side] = of_folder(top / side / "jobs" / name, places)
        if not name.startswith("bad/"):
            failed = [what for what, value in seen["base"].items() if what.endswith(".exit") and value]
            found += [(name, what, "a step that ends well", f"failed on base: {seen['base'][what]}") for what in failed]
        if missing := [side for side, each in seen.items() if not any(key.startswith("told.json") for key in each)]:
            found.append((name, "the job itself", "ended", f"failed on {', '.join(missing)}"))
        found += [(name, *each) for each in differences(seen["base"], seen["new"])]
        if SIDES[2] in seen:
            found += [(f"{name}, {SIDES[2]}", *each) for each in differences(seen["base"], seen[SIDES[2]])]
    return found


def sort_out(found: list[tuple[str, str, str, str]], expected: list[dict[str, str]]) -> tuple[list, dict[str, int]]:
    """Return the differences that no entry of the list expects, and how many each reason explains."""
    reasons = {entry["reason"]: 0 for entry in expected}
    unexpected = []
    for job, what, base, new in found:
        for entry in expected:
            given = {"job": job, "what": what, "base": base, "new": new}
            if all(fnmatch.fnmatchcase(given[key], entry.get(key, "*")) for key in given):
                reasons[entry["reason"]] += 1
                break
        else:
            unexpected.append((job, what, base, new))
    return unexpected, reasons


def shortened(text: str, other: str, length: int = 300) -> str:
    """Return a text, from shortly before the first difference to another text."""
    first = next((n for n, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), 0)
    begin = max(0, first - 80)
    return f"{'...' * (begin > 0)}{text[begin : begin + length]}{'...' * (len(text) > begin + length)}"


if __name__ == "__main__":
    main()
