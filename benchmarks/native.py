"""Time eager losses on a GPU, without and with the C++ module: `PYTHONPATH=src python benchmarks/native.py --out FILE`.

`eager` is a whole public call with its backward pass, `value_and_grad` the same without one; *off* is the default, *on*
is `RANKGRAD_NATIVE=1`. Value and gradient of all four are first compared with the plain loss in float64, and a wrong
one gets no time. Times are medians of interleaved samples in one run, in microseconds.
"""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from contenders import Contender, Wrong, check, in_one_call, once, sample, step
from losses import data
from rich.console import Console
from rich.table import Table
from setting import setting
from torch import Tensor

import rankgrad as rg
from rankgrad import losses

LISTS, DOCUMENTS = 64, 240
KINDS = ("eager off", "eager on", "value_and_grad off", "value_and_grad on")
LOSSES: dict[str, Callable[..., Tensor]] = {
    "ranknet": losses.ranknet,
    "approx_ndcg": losses.approx_ndcg,
    "learndcg": losses.LearnDCG(),
    "lambdarank": losses.lambdarank,
    "lambdaloss@5": partial(losses.lambdaloss, k=5),
    "softmax": losses.softmax,
    "listmle": losses.listmle,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15, help="number of samples of each contender (default 15)")
    parser.add_argument("--out", type=Path, help="also write the rows to this JSON file")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("benchmarks/native.py needs an NVIDIA GPU, and PyTorch finds none here.", file=sys.stderr)
        sys.exit(2)
    if not built():
        print("benchmarks/native.py needs a C++ compiler (CXX, or c++) that builds the module.", file=sys.stderr)
        sys.exit(2)
    rows = [measure(name, "cuda", LISTS, DOCUMENTS, arguments.repeats) for name in LOSSES]
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1))
    show(rows)


def built() -> bool:
    """Wait for the compiler, and return True if the C++ module is available."""
    from rankgrad.kernels.cuda import native

    with rg.backend(native=True):
        return native.wait()


def measure(name: str, device: str, lists: int, documents: int, repeats: int) -> dict[str, Any]:
    """Return a row of the table; wrong contenders have no time."""
    scores, labels = data(lists, documents, device)
    loss = LOSSES[name].to(device) if isinstance(LOSSES[name], torch.nn.Module) else LOSSES[name]
    truth = once(step(loss, scores.double(), labels, "plain"))
    row: dict[str, Any] = {"loss": name, "lists": lists, "documents": documents, **setting(device)}
    right = {}
    for kind, contender in contenders(loss, scores, labels).items():
        try:
            check(contender, truth)  # the first call of a kind is recorded
            check(contender, truth)  # later calls are timed
            right[kind] = contender
        except (Wrong, RuntimeError) as wrong:
            row.setdefault("refused", {})[kind] = str(wrong).strip().split("\n")[0]
    for kind, (middle, spread) in sample(right, repeats, device).items():
        row[kind] = {"seconds": middle, "spread": spread}
    return row


def contenders(loss: Callable[..., Tensor], scores: Tensor, labels: Tensor) -> dict[str, Contender]:
    """Return the four ways to call a loss, by kind."""
    found = {}
    for state in ("off", "on"):
        eager, in_one = step(loss, scores, labels, "fused"), in_one_call(loss, scores, labels)
        found[f"eager {state}"] = replace(eager, native=state == "on")
        found[f"value_and_grad {state}"] = replace(in_one, native=state == "on")
    return found


def show(rows: list[dict[str, Any]]) -> None:
    """Print the table, in microseconds, with half the interquartile range."""
    first = rows[0]
    shape = f"{first['lists']} x {first['documents']}"
    table = Table(title=f"{shape}, microseconds; {first['commit']}, torch {first['torch']}, {first['chip']}")
    table.add_column("loss")
    for kind in KINDS:
        table.add_column(kind, justify="right")
    for row in rows:
        times = [_time(row[kind]) if kind in row else row["refused"][kind] for kind in KINDS]
        table.add_row(row["loss"], *times)
    Console(width=None if sys.stdout.isatty() else 140).print(table)


def _time(time: dict[str, float]) -> str:
    return f"{time['seconds'] * 1e6:.1f} ± {time['spread'] * 1e6:.1f}"


if __name__ == "__main__":
    main()
