"""Time the reader of tables against the reader of LETOR text, and measure its memory: `python benchmarks/tables.py`.

Correctness comes first: no time is printed unless every array is bitwise equal to that of LETOR text. The same
generated documents (136 features, as in MSLR-WEB30K) are written as LETOR text, Parquet with float32 and with float64
columns, Arrow and CSV. Speeds are medians of interleaved runs in one process. Then `rankgrad predict` scores a larger
Parquet file (row groups of up to 256 MB) in a new process. Its peak resident memory must be below 1 GB. The promised
size is `--gigabytes 4`.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.feather as feather
import pyarrow.parquet as parquet
from reader import VERSIONS
from turns import in_turns

import rankgrad as rg

FEATURES = 136
ALLOWED = 1e9

# Runs in a separate process.
PROBE = """
import sys
from rankgrad.cli import app
try:
    app(sys.argv[1:])
except SystemExit as done:
    if done.code:
        raise
line = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(int(line.split()[1]) * 1024)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.1, help="size of the timed data, as share of MSLR-WEB30K")
    parser.add_argument("--gigabytes", type=float, default=1.0, help="size of the Parquet file for the peak memory")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--folder", help="folder of the temporary files")
    parser.add_argument("--json", help="file for the results")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as place:
        folder = Path(place)
        data = rg.data.web30k_shape(scale=arguments.scale).train
        rg.data.write_letor(data, folder / "dense.txt")
        found: dict[str, Any] = {"documents": len(data.labels)}
        found["speed"] = speed(folder, len(data.labels), arguments.repeats)
        found["memory"] = memory(folder, arguments.gigabytes)
    found["where"] = VERSIONS
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(found, indent=1) + "\n")


def speed(folder: Path, documents: int, repeats: int) -> dict[str, Any]:
    data = rg.data.read_letor(folder / "dense.txt")
    tables = {kind: _table(data, kind) for kind in ("float32", "float64")}
    parquet.write_table(tables["float32"], folder / "float32.parquet")
    parquet.write_table(tables["float64"], folder / "float64.parquet")
    feather.write_feather(tables["float64"], folder / "float64.arrow")
    csv.write_csv(tables["float32"], folder / "float32.csv")
    del tables
    contenders: dict[str, Callable[[], Any]] = {"LETOR text": lambda: rg.data.read_letor(folder / "dense.txt")}
    for name in ("float32.parquet", "float64.parquet", "float64.arrow", "float32.csv"):
        contenders[name] = lambda name=name: rg.data.read_table(folder / name)  # type: ignore[misc]
    for name, read in contenders.items():
        found = read()
        same = found.features.tobytes() == data.features.tobytes() and np.array_equal(found.labels, data.labels)
        if not same or not np.array_equal(found.row_qids, data.row_qids):
            sys.exit(f"the arrays of {name} are not bitwise equal to those of LETOR text; no times are printed")
    times = in_turns(contenders, repeats)
    print(f"{documents:,} documents x {FEATURES}; arrays bitwise equal; medians of {repeats}  [{VERSIONS}]")
    base, base_cpu = map(statistics.median, times["LETOR text"])
    result = {}
    for name in contenders:
        seconds, used = map(statistics.median, times[name])
        size = (folder / ("dense.txt" if name == "LETOR text" else name)).stat().st_size
        result[name] = {"documents_per_second": documents / seconds, "ratio": base / seconds, "cpu": base_cpu / used}
        print(
            f"{name:<16} {size / 1e6:6.0f} MB  {documents / seconds / 1e3:8,.0f} thousand documents per second, "
            f"{base / seconds:4.1f} x LETOR text ({base_cpu / used:.1f} x in CPU time)"
        )
    return result


def _table(data: Any, kind: str) -> Any:
    columns = {"label": data.labels, "qid": data.row_qids}
    columns |= {f"f{place + 1}": data.features[:, place].astype(kind) for place in range(FEATURES)}
    return pa.table(columns)


def memory(folder: Path, gigabytes: float) -> dict[str, float]:
    """Score a large Parquet file with row groups of up to 256 MB, and print the peak memory of the process."""
    data = rg.data.read_letor(folder / "dense.txt")
    ranker = rg.Ranker(model="mlp", epochs=1).fit(data.features[:6000], data.labels[:6000], qid=data.row_qids[:6000])
    ranker.save(folder / "model")
    rows = int(256e6 // (4 * FEATURES))
    path, written, group = folder / "large.parquet", 0, 0
    rng = np.random.default_rng(0)
    schema = pa.schema([("qid", pa.int64()), *((f"f{place + 1}", pa.float32()) for place in range(FEATURES))])
    with parquet.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        while path.stat().st_size < gigabytes * 1e9:
            qids = (np.arange(rows) + group * rows) // 120
            values = rng.random((FEATURES, rows), dtype=np.float32)
            writer.write_table(pa.Table.from_arrays([pa.array(qids), *map(pa.array, values)], schema=schema), rows)
            written, group = written + rows, group + 1
    size = path.stat().st_size
    begun = time.perf_counter()
    command = [sys.executable, "-c", PROBE, "predict", str(folder / "model"), str(path), "--out", str(folder / "s.txt")]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, peak = time.perf_counter() - begun, float(run.stdout.split()[-1])
    with (folder / "s.txt").open() as scores:
        if sum(1 for _ in scores) != written:
            sys.exit("the number of scores differs from the number of rows; nothing is printed")
    verdict = "within" if peak < ALLOWED else "BEYOND"
    print(
        f"predict: {size / 1e9:.1f} GB of Parquet, row groups of {rows * FEATURES * 4 / 1e6:.0f} MB, {written:,} "
        f"documents in {seconds:.0f} s; peak memory {peak / 1e6:,.0f} MB, {verdict} {ALLOWED / 1e6:,.0f}  [{VERSIONS}]"
    )
    return {"gigabytes": size / 1e9, "documents": written, "seconds": seconds, "peak_megabytes": peak / 1e6}


if __name__ == "__main__":
    main()
