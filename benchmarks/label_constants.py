"""Time that would be saved by constants of the labels stored with the data: `python benchmarks/label_constants.py`.

Ideal DCG, gains and the order of the labels (for ListMLE) are the same at every step. Their part of a step, forward and
backward, on the CPU in float32, is timed with the helper functions of the kernels. RankNet and similar losses do not
divide by the number of pairs, so they have no constants. On a GPU, the approx and pairwise kernels compute the ideal
order in the launch that computes the ranks by score, so no launch can be saved; `smooth_ndcg` has a separate launch.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from losses import CPU_SHAPES, chosen, data
from rich.console import Console
from rich.table import Table
from setting import setting

import rankgrad as rg
from rankgrad.kernels.cpu import discounts, helper, kernel, launch
from rankgrad.kernels.cpu.ideal import ideal_dcg, shares
from rankgrad.kernels.cpu.order import bits, by_label
from rankgrad.kernels.cpu.parallel import spread
from rankgrad.lists import as_lists
from rankgrad.losses.metric_formula import MetricFormula

ALL = 1 << 30
# Constants of the labels that a loss uses, and the last rank that counts.
TAKES = {
    "lambdarank": ("gains", ALL),
    "lambdaloss@5": ("gains", 5),
    "approx_ndcg": ("gains", ALL),
    "LearnDCG": ("gains", ALL),
    "neural_ndcg": ("gains", ALL),
    "softsort_ndcg": ("gains", ALL),
    "smooth_ndcg": ("ideal", 10),
    "listmle": ("order", ALL),
}


@helper
def _gains(l, labels, label_bits, documents, discount, out):
    place = np.arange(l * documents, (l + 1) * documents)
    shares(labels, label_bits, place, discount, False, out[l])


@helper
def _ideal(l, labels, label_bits, documents, discount, out):
    place = np.arange(l * documents, (l + 1) * documents)
    out[l, 0], out[l, 1] = ideal_dcg(labels, label_bits, place, discount, False)


@helper
def _order(l, labels, label_bits, documents, discount, out):
    by_label(labels, label_bits, np.arange(l * documents, (l + 1) * documents))


@kernel
def _all_gains(labels, label_bits, documents, discount, out):
    spread(_gains, len(out), (labels, label_bits, documents, discount, out))


@kernel
def _all_ideals(labels, label_bits, documents, discount, out):
    spread(_ideal, len(out), (labels, label_bits, documents, discount, out))


@kernel
def _all_orders(labels, label_bits, documents, discount, out):
    spread(_order, len(out), (labels, label_bits, documents, discount, out))


KERNELS = {"gains": _all_gains, "ideal": _all_ideals, "order": _all_orders}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, help="number of CPU threads (default: PyTorch's choice)")
    parser.add_argument("--repeats", type=int, default=200, help="number of samples of each")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    rows = [measure(name, *shape, arguments.repeats) for name in TAKES for shape in CPU_SHAPES]
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))
    table = Table(title=f"{rows[0]['commit']}, torch {rows[0]['torch']}, {rows[0]['chip']}")
    for column in ("loss", "lists x documents", "a step", "constants of the labels", "share"):
        table.add_column(column, justify="left" if column == "loss" else "right")
    for row in rows:
        times = [f"{row[kind] * 1e6:.0f} µs" for kind in ("step", "constants")]
        table.add_row(row["loss"], f"{row['lists']} x {row['documents']:,}", *times, f"{100 * row['share']:.1f}%")
    Console(width=100).print(table)


def measure(name: str, lists: int, documents: int, repeats: int) -> dict[str, Any]:
    """Return one row: the time of a step of the loss, and of the part that is the same at every step."""
    scores, labels = data(lists, documents, "cpu")
    scores.requires_grad_()
    loss = chosen("cpu", True)[name].loss
    flat, out = labels.numpy().reshape(-1), np.empty((lists, documents), np.float32)
    kind, depth = TAKES[name]
    discount = discounts(documents)[:depth]

    def step() -> None:
        scores.grad = None
        with rg.backend("fused"):
            loss(scores, labels).backward()

    def constants() -> None:
        launch(KERNELS[kind], flat, bits(flat), documents, discount, out)

    if kind == "gains":
        constants()
        check(out, labels, depth)
    whole, part = sample(step, constants, repeats)
    row = {"loss": name, "lists": lists, "documents": documents, "step": whole, "constants": part}
    return {**row, "share": part / whole, **setting("cpu")}


def check(found: np.ndarray[Any, Any], labels: torch.Tensor, depth: int) -> None:
    """Check that gains divided by ideal DCG equal those of the plain losses."""
    lists = as_lists(labels.double(), labels)
    truth = MetricFormula("nDCG", min(depth, labels.shape[1])).gains(lists)
    torch.testing.assert_close(torch.from_numpy(found).double(), truth, rtol=1e-5, atol=1e-7)


def sample(first: Callable[[], None], second: Callable[[], None], repeats: int) -> tuple[float, float]:
    """Return the shortest time of both in seconds, run in turns: other programs can only make them slower."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for function, seconds in zip((first, second), times, strict=True):
            start = time.perf_counter()
            function()
            seconds.append(time.perf_counter() - start)
    return min(times[0]), min(times[1])


if __name__ == "__main__":
    main()
