"""Time our losses and those of Rax, forward and backward in float32: `python benchmarks/rax_losses.py [--device cuda]`.

This repository does not install Rax, which needs JAX: run `pip install rax`. Every loss of both libraries gets the same
lists; value and gradient of all contenders are compared with plain in float64 before a time is measured, as in
`losses.py`. *rax* is value and gradient as one jitted function, compiled before, with arrays on the device, like our
*value_and_grad*; calls are queued and waited for at the end of a sample, like ours. On a GPU, *rax inside* is a pass
inside one jitted loop, and *graph* is one of ours inside a CUDA graph: the time that remains if the whole training step
is compiled.

A shape with a mask has lists from 20 documents to the full width; both libraries get the mask. The long list shows the
memory.
"""

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from contenders import Contender, Wrong, check, graphed, in_one_call, once, peak_memory, sample, step
from losses import COMPILED, CPU_SHAPES, data, in_one_thread
from setting import setting
from torch import Tensor

from rankgrad import losses

ABSENT = "Rax was not compared: it is not installed here (pip install rax)"
SHORTEST = 20  # documents of the shortest list with a mask


class Shape(NamedTuple):
    """A batch: full lists, or with a mask."""

    lists: int
    documents: int
    masked: bool = False


SHAPES = (*(Shape(*shape) for shape in CPU_SHAPES), Shape(64, 240, masked=True), Shape(1, 8192))
CUDA_SHAPES = (*SHAPES[:-1], Shape(64, 1000), SHAPES[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=("cpu", "cuda"))
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these losses")
    parser.add_argument("--compiled", action="store_true", help="also plain under torch.compile, which takes minutes")
    parser.add_argument("--repeats", type=int, default=9, help="number of samples of each contender")
    parser.add_argument("--threads", type=int, default=2, help="number of CPU threads of both")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    try:
        import rax_calls
    except ModuleNotFoundError as missing:
        sys.exit(f"{ABSENT}; {missing}")
    rax_calls.use(arguments.device)
    if arguments.device == "cuda":
        from rankgrad.kernels.cuda import native

        native.wait()
    rows = []
    for name in arguments.only or rax_calls.CALLS:
        for shape in CUDA_SHAPES if arguments.device == "cuda" else SHAPES:
            rows.append(measure(name, shape, arguments.device, arguments.repeats, arguments.compiled))
            print(line(rows[-1]), flush=True)
            if arguments.json:  # keep the rows if a later one fails
                arguments.json.write_text(json.dumps(rows, indent=1))


def measure(name: str, shape: Shape, device: str, repeats: int, compiled: bool) -> dict[str, Any]:
    """Return one row of the table; wrong contenders have no time."""
    import rax_calls

    scores, labels = data(shape.lists, shape.documents, device)
    mask = lengths_mask(shape, device) if shape.masked else None
    loss = partial(losses.parse_loss(name), mask=mask)
    ways = ours(loss, scores, labels, device, compiled and not shape.masked)
    ways["rax"] = partial(rax_calls.called, name, scores, labels, mask)
    if device == "cuda":
        ways["rax inside"] = partial(rax_calls.inside, name, scores, labels, mask)
    row: dict[str, Any] = {"loss": name, **shape._asdict(), **setting(device), **rax_calls.VERSIONS}
    right, correct = {}, truth(loss, scores, labels)
    for kind, make in ways.items():
        try:
            contender = make()
            check(contender, correct)
            right[kind] = contender
        except (Wrong, RuntimeError) as wrong:  # RuntimeError: out of memory, or cannot be compiled
            row.setdefault("refused", {})[kind] = str(wrong).strip().split("\n")[0]
    for kind, (middle, spread) in sample(right, repeats, device).items():
        passes = getattr(right[kind], "passes", 1)
        row[kind] = {"seconds": middle / passes, "spread": spread / passes}
    if not fits(scores) and "rax" in right:
        row["rax bytes a document"] = rax_calls.planned_memory(name, scores, labels, mask) / scores.numel()
    if not fits(scores) and "fused" in right and device == "cuda":
        row["bytes a document"] = peak_memory(right["fused"]) / scores.numel()
    return row


def ours(
    loss: Callable[..., Tensor], scores: Tensor, labels: Tensor, device: str, compiled: bool
) -> dict[str, Callable[[], Contender]]:
    """Return functions that make our contenders at this shape, by kind."""
    fused = partial(step, loss, scores, labels, "fused")
    found: dict[str, Callable[[], Contender]] = {"fused": fused}
    found["value_and_grad"] = partial(in_one_call, loss, scores, labels)
    if device == "cuda":
        found |= {"one thread": lambda: in_one_thread(fused()), "graph": lambda: graphed(fused())}
    if fits(scores):
        found["plain"] = partial(step, loss, scores, labels, "plain")
    if compiled and scores.shape == COMPILED:
        whole = torch.compile(lambda *batch: loss(*batch), dynamic=False)
        found["compiled"] = partial(step, whole, scores, labels, "plain")
    return found


def truth(loss: Callable[..., Tensor], scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the result of plain in float64; if its n x n matrices do not fit, of the CPU kernel, checked before."""
    if fits(scores):
        return once(step(loss, scores.double(), labels, "plain"))
    return once(step(loss, scores.double().cpu(), labels.cpu(), "fused"))


def fits(scores: Tensor) -> bool:
    """Return True if plain has enough memory for this list."""
    return scores.shape[-1] <= 2000


def lengths_mask(shape: Shape, device: str) -> Tensor:
    """Return the mask of lists of all lengths from the shortest to the full width."""
    lengths = torch.linspace(SHORTEST, shape.documents, shape.lists).long()
    return (torch.arange(shape.documents) < lengths[:, None]).to(device)


def line(row: dict[str, Any]) -> str:
    """Return a row as text, with commit, versions and chip."""
    kinds = ("graph", "value_and_grad", "fused", "one thread", "plain", "compiled", "rax", "rax inside")
    times = [f"{kind} {row[kind]['seconds'] * 1e6:,.0f} µs" for kind in kinds if kind in row]
    refused = [f"{kind} is wrong, not timed: {why}" for kind, why in row.get("refused", {}).items()]
    masked = ", masked" if row["masked"] else ""
    where = f"{row['commit']}, torch {row['torch']}, JAX {row['JAX']}, {row['chip']}"
    memory = [
        f"{row[key]:,.0f} {key.replace(' a ', ' per ')}"
        for key in ("bytes a document", "rax bytes a document")
        if key in row
    ]
    what = "; ".join([*times, *memory, *refused])
    return f"{row['loss']} {row['lists']} x {row['documents']}{masked}: {what} [{where}]"


if __name__ == "__main__":
    main()
