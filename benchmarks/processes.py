"""Compare one process with two on the same global batch: `python benchmarks/processes.py [--json FILE]`.

Each process has one thread; they communicate with gloo. Printed: seconds per epoch, the largest difference of the final
weights, and the bytes of gradients per step. A ring of N processes moves 2 (N - 1) / N of these in and out of each one.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from setting import setting

import rankgrad as rg
from rankgrad.atomic_files import read_tensors
from rankgrad.training import Settings, train

MODEL = "mlp:widths=1024-256"
SETTINGS = Settings(model=MODEL, loss="approx_ndcg", epochs=4, batch_size=64, optimiser="sgd", lr=0.01, device="cpu")


def main() -> None:
    """Run both, compare them, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scale", type=float, default=0.04, help="share of WEB30K's lists")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.out:
        torch.set_num_threads(1)
        data = rg.data.web30k_shape(options.scale).train
        train(SETTINGS, data, out=options.out)
        return
    with tempfile.TemporaryDirectory() as folder:
        found = {count: run(count, options.scale, Path(folder) / str(count)) for count in (1, 2)}
        weights = [read_tensors(Path(folder) / name / "model.safetensors")[0] for name in ("1", "2")]
    size = sum(value.numel() for value in weights[0].values())
    apart = max(float((weights[1][name] - value).abs().max()) for name, value in weights[0].items())
    row = {
        **setting(),
        "model": MODEL,
        "parameters": size,
        "one process, s an epoch": round(found[1], 3),
        "two processes, s an epoch": round(found[2], 3),
        "speed-up": round(found[1] / found[2], 2),
        "weights differ by at most": float(f"{apart:.2g}"),
        "bytes of gradients a step": 4 * size,
    }
    print("\n".join(f"{name}: {value}" for name, value in row.items()))
    if options.json:
        options.json.write_text(json.dumps(row, indent=1) + "\n")


def run(processes: int, scale: float, out: Path) -> float:
    """Train with a number of processes, and return the seconds of the fastest epoch."""
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"] if processes > 1 else []
    command = [sys.executable, *launcher, __file__, "--scale", str(scale), "--out", str(out)]
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    rows = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return min(row["seconds"] for row in rows)


if __name__ == "__main__":
    main()
