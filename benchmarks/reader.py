"""Time the reader on a dense LETOR file of 136 features, against scikit-learn's: `python benchmarks/reader.py`.

Correctness comes first: no time is printed unless every array is bitwise equal to scikit-learn's. Speeds are medians of
interleaved runs in one process, ratios are to `load_svmlight_file` in the same run. Then a larger file is read in a
new process, into memory and into a mapped cache. Its peak resident memory minus the result must be at most 256 MB. The
memory of Python and the imported libraries (torch, Numba) before reading is not counted, and is also printed. The
promised size is `--gigabytes 4`.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import sklearn
from setting import where
from sklearn.datasets import load_svmlight_file
from turns import in_turns

from rankgrad.data.cache import open_cache
from rankgrad.data.letor.reader import read_letor

FEATURES = 136
ALLOWED = 256e6
VERSIONS = where(numba=numba.__version__, scikit_learn=sklearn.__version__)

# Runs in a separate process. VmHWM and not getrusage, whose peak is inherited from the parent process.
PROBE = """
import json, sys
from rankgrad.data.letor.reader import read_letor
def memory(key):
    line = next(line for line in open("/proc/self/status") if line.startswith(key))
    return int(line.split()[1]) * 1024
warm, path, cache = sys.argv[1:]
read_letor(warm)
before = memory("VmRSS")
found = []
data = read_letor(path, cache=cache or None, report=found.append)
arrays = [data.features, data.labels, data.offsets, data.qids]
print(json.dumps([before, memory("VmHWM"), sum(array.nbytes for array in arrays), found[0].seconds]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=300, help="size of the file that is timed")
    parser.add_argument("--gigabytes", type=float, default=1.0, help="size of the file for the peak memory")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", help="folder of the temporary files; it needs space for text and cache")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path = Path(folder) / "dense.txt"
        documents = write(path, int(arguments.megabytes * 1e6))
        speed(path, documents, arguments.repeats)
        opening(path, Path(folder) / "opening")
        path.unlink()
        write(path, int(arguments.gigabytes * 1e9))
        memory(path, Path(folder) / "cache")


def write(path: Path, size: int) -> int:
    """Write a file like MSLR-WEB30K: counts, many zeros, up to six decimals; return the number of documents."""
    chance = np.random.default_rng(0)
    rows = []
    for _ in range(2000):
        values = np.where(chance.random(FEATURES) < 0.4, 0, chance.gamma(0.5, 20, FEATURES))
        whole = chance.random(FEATURES) < 0.4
        numbers = [f"{v:.0f}" if w else f"{v:.6f}".rstrip("0").rstrip(".") for v, w in zip(values, whole, strict=True)]
        rows.append(" ".join(f"{place}:{number}" for place, number in enumerate(numbers, 1)))
    written = documents = 0
    with open(path, "w") as file:
        while written < size:
            written += file.write(f"{documents % 5} qid:{documents // 120} {rows[documents * 7 % 2000]}\n")
            documents += 1
    return documents


def speed(path: Path, documents: int, repeats: int) -> None:
    contenders: dict[str, Callable[[], Any]] = {
        # Without query_id: scikit-learn collects the ids in a time quadratic in the number of documents.
        "scikit-learn": lambda: load_svmlight_file(str(path), dtype=np.float32),
        "rankgrad": lambda: read_letor(path),
    }
    check(contenders["scikit-learn"](), contenders["rankgrad"](), documents)
    size = path.stat().st_size / 1e6
    times = in_turns(contenders, repeats, slow=["scikit-learn"])
    base = size / statistics.median(times["scikit-learn"].wall)
    print(f"{size:.0f} MB, {documents:,} documents x {FEATURES}; arrays bitwise equal")
    for name, (wall, cpu) in times.items():
        middle = size / statistics.median(wall)
        spread = f"{size / max(wall):.0f} to {size / min(wall):.0f}"
        print(
            f"{name:<14}{middle:8.0f} MB/s ({spread}), {size / statistics.median(cpu):.0f} MB per CPU second, "
            f"{middle / base:.1f} x scikit-learn  [{VERSIONS}]"
        )


def check(theirs: Any, ours: Any, documents: int) -> None:
    matrix, labels = theirs
    same = matrix.toarray().tobytes() == ours.features.tobytes() and np.array_equal(labels, ours.labels)
    if not same or not np.array_equal(ours.row_qids, np.arange(documents) // 120):
        sys.exit("the arrays are not bitwise equal to scikit-learn's; no times are printed")


def opening(path: Path, cache: Path) -> None:
    read_letor(path, cache=cache)
    times = in_turns({"opening": lambda: open_cache(cache)}, 7)["opening"].wall
    print(f"opening its cache: {statistics.median(times) * 1e3:.1f} ms ({max(times) * 1e3:.1f} at most)  [{VERSIONS}]")


def memory(path: Path, cache: Path) -> None:
    warm = path.with_name("warm.txt")
    warm.write_text("1 qid:1 1:1 # d\n")
    for name, place in {"in memory": "", "into a cache": str(cache)}.items():
        command = [sys.executable, "-c", PROBE, str(warm), str(path), place]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        before, peak, result, seconds = json.loads(run.stdout)
        if not result < peak:
            sys.exit(f"a peak of {peak:,} bytes cannot be that of a result of {result:,}; nothing is printed")
        size, added = path.stat().st_size, peak - before - result
        verdict = "within" if added <= ALLOWED else "BEYOND"
        print(
            f"{size / 1e9:.1f} GB {name}: {size / 1e6 / seconds:.0f} MB/s; reading took the result, "
            f"{result / 1e6:,.0f} MB, and {added / 1e6:,.0f} MB, {verdict} {ALLOWED / 1e6:.0f}; with the "
            f"{before / 1e6:.0f} MB of Python and libraries before it, a peak of {peak / 1e6:,.0f} MB  [{VERSIONS}]"
        )


if __name__ == "__main__":
    main()
