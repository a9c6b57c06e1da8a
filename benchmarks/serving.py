"""Latency of scoring one list of 100 documents with 136 features, on one core: `python benchmarks/serving.py`.

Rows: `predict` of LightGBM; a run of ONNX Runtime on the exported files of the same trees and of a network; requests to
`examples/serve_onnx.py` with these files, from JSON text to scores. All of them run in one process group on one core.
Scores are compared with those of the models first. `--write` stores the rows in `docs/tables/serving.json`.
"""

import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

import rankgrad as rg

ROOT = Path(__file__).parents[1]
DOCUMENTS, FEATURES, TREES, LEAVES = 100, 136, 300, 31


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=2000, help="number of timed calls per row (default 2000)")
    parser.add_argument("--write", action="store_true", help="store the rows in docs/tables/serving.json")
    options = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # the server inherits it
    torch.set_num_threads(1)
    load = os.getloadavg()[0]
    rows = measure(options.calls)
    for row in rows:
        print(f"{row['ranker']:32} {row['way']:32} p50 {row['p50']:8.3f} ms   p99 {row['p99']:8.3f} ms", flush=True)
    if options.write:
        from setting import setting

        facts = {"documents": DOCUMENTS, "features": FEATURES, "trees": TREES, "leaves": LEAVES, "calls": options.calls}
        facts["load"] = load
        versions = {package: import_module(package).__version__ for package in ("lightgbm", "onnxruntime")}
        made = {**setting(), **facts, "versions": versions, "rows": rows}
        (ROOT / "docs" / "tables" / "serving.json").write_text(json.dumps(made, indent=1) + "\n")


def measure(calls: int) -> list[dict[str, Any]]:
    """Return one row per ranker and way to compute its scores."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200 * 50, FEATURES), dtype=np.float32)
    y = np.clip(np.round(X[:, :5].sum(1) / 2 + 1), 0, 4).astype(int)
    qid = np.repeat(np.arange(200), 50)
    tested = rng.standard_normal((DOCUMENTS, FEATURES), dtype=np.float32)
    settings = {"trees": TREES, "num_leaves": LEAVES, "threads": 1, "patience": None}
    trees = rg.trees.TreeRanker("lightgbm", loss="lambdarank", holdout=0.0, **settings)
    network = rg.Ranker(model="mlp", loss="softmax", epochs=1, holdout=0.0)
    found = []
    for name, ranker in ((f"LightGBM, {TREES} trees", trees), ("network, widths 256 and 128", network)):
        model = ranker.fit(X, y, qid=qid).model_
        if name.startswith("LightGBM"):
            predict = partial(model.booster.predict, tested, num_threads=1)
            found.append(_row(name, "LightGBM predict", predict, calls))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            model.export(path)
            expected = model.score(tested)
            found.append(_row(name, "ONNX Runtime, session.run", _session(path, tested, expected), calls))
            command = [sys.executable, ROOT / "examples" / "serve_onnx.py", path, "0"]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
                try:
                    assert server.stdout is not None
                    address = server.stdout.readline().strip().removeprefix("http://")
                    found.append(_row(name, "HTTP request to the server", _request(address, tested, expected), calls))
                finally:
                    server.kill()
    return found


def _session(path: Path, tested: Any, expected: Any) -> Callable[[], Any]:
    onnxruntime = import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    inputs = {"features": tested[None], "mask": np.ones((1, DOCUMENTS), dtype=bool)}
    _compare(session.run(["scores"], inputs)[0][0], expected)
    return lambda: session.run(["scores"], inputs)


def _request(address: str, tested: Any, expected: Any) -> Callable[[], Any]:
    connection = http.client.HTTPConnection(address, timeout=30)
    content = json.dumps({"features": tested.tolist()})

    def ask() -> Any:
        connection.request("POST", "/", content)
        return json.loads(connection.getresponse().read())["scores"]

    _compare(np.array(ask(), dtype=np.float32), expected)
    return ask


def _compare(scores: Any, expected: Any) -> None:
    difference = float(np.abs(scores - expected).max()) / max(1.0, float(np.abs(expected).max()))
    if not difference < 1e-5:
        sys.exit(f"scores must agree with the model's within 1e-05; got a difference of {difference:g}: no times")


def _row(ranker: str, way: str, call: Callable[[], Any], calls: int) -> dict[str, Any]:
    times = np.empty(calls)
    for place in range(-50, calls):  # the first 50 calls are not counted
        begin = time.perf_counter()
        call()
        if place >= 0:
            times[place] = time.perf_counter() - begin
    p50, p99 = (1000 * float(value) for value in np.quantile(times, [0.5, 0.99]))
    return {"ranker": ranker, "way": way, "p50": p50, "p99": p99}


if __name__ == "__main__":
    main()
