"""The page of measured speeds, from what `benchmarks/losses.py --json` wrote."""

import json
from pathlib import Path
from typing import Any

TABLES = Path(__file__).parent / "tables"
HEAD = """# How fast the losses are

Forward and backward, float32, five skewed grades. Before a time is taken, value and gradient are held against the plain
loss in float64; one that is wrong gets no time. *fused* is a whole call of the public function, *graph* a replay inside
a CUDA graph, *plain* the readable PyTorch version of the same function, *compiled* that one under `torch.compile`,
*textbook* the loss as it is usually written (`benchmarks/baseline.py`). Times are medians of interleaved samples in one
run.
"""
GPU = "--device cuda --compiled"
ABOUT = {
    "losses-gpu": """\
*nothing* is an autograd function that only writes zeros: what PyTorch itself takes for a call. It runs the backward
pass in a thread of its own; *one thread* is the same call inside `torch.autograd.set_multithreading_enabled(False)`.
Training on one GPU runs inside CUDA graphs, with the optimisers that can be recorded and without loss scaling.
`fastsort_ndcg` has no kernel on a GPU: plain waits for the device in every round of pooling. Rax, which needs JAX, was
not measured.

"""
}
TAIL = """## How

- **n exponentials instead of n^2.** sigmoid(a - b) = e^a / (e^a + e^b): what is left are divisions, which vectorise.
  Lists whose scores are so far apart that e^a would overflow take an exact path.
- **Only the pairs that count.** Relevant documents first, sorted once; a cutoff visits the pairs it keeps.
- **No n x n matrix.** Every document's sums are made in registers, by one thread, in one order: memory is linear, and
  the result does not depend on the number of threads.
- **Value and slopes in one go.** The backward pass is one product.

What stays plain: `mse`, `rmse`, `bce` and `rank_cosine` (one pass already), `ot_ndcg`, `softrank_ndcg`, `list_ap` and
`NeuralLoss`; on a GPU `fastsort_ndcg`, too.
"""


def performance_page() -> str:
    """The whole page."""
    parts = [HEAD]
    for name, title, command in (
        ("losses-cpu", "On two CPU cores", "python benchmarks/losses.py --json docs/tables/losses-cpu.json"),
        ("losses-gpu", "On one GPU", f"python benchmarks/losses.py {GPU} --json docs/tables/losses-gpu.json"),
    ):
        path = TABLES / f"{name}.json"
        if path.exists():
            rows = json.loads(path.read_text())
            first = rows[0]
            where = f"{first['chip']}, torch {first['torch']}, commit {first['commit']}"
            parts.append(f"## {title}\n\n{where}; `{command}`.\n\n{ABOUT.get(name, '')}{table(rows)}\n")
    return "\n".join([*parts, TAIL])


def table(rows: list[dict[str, Any]]) -> str:
    """Losses and shapes downwards, contenders across."""
    graph = any("graph" in row for row in rows)
    kinds = [("graph", "graph"), ("fused", "fused"), ("one thread", "one thread")] if graph else [("fused", "fused")]
    kinds += [("plain", "plain"), *([("compiled", "compiled")] if graph else []), ("baseline", "textbook")]
    head = ["loss", "lists x documents", *(title for _, title in kinds), "plain / fused", "textbook / fused"]
    head += ["bytes a document"] if graph else []
    lines = [head, ["---"] * len(head)]
    for row in rows:
        cells = [row["loss"], f"{row['lists']} x {row['documents']:,}", *(time(row, kind) for kind, _ in kinds)]
        cells += [f"{row[key]:.1f}" if key in row else "" for key in ("times plain", "times baseline")]
        cells += [f"{row['bytes a document']:.0f}" if "bytes a document" in row else ""] if graph else []
        lines.append(cells)
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def time(row: dict[str, Any], kind: str) -> str:
    """A time with a unit that suits it."""
    if kind not in row:
        return ""
    seconds = row[kind]["seconds"]
    return f"{seconds * 1e6:.0f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"
