"""The page of measured speeds, from what `benchmarks/losses.py --json` and `benchmarks/rax_losses.py --json` wrote."""

from typing import Any

from pieces import grid, paragraph, read, where

HEAD = """# How fast the losses are

Forward and backward, float32, five skewed grades. Before a time is taken, value and gradient are held against the plain
loss in float64; one that is wrong gets no time. *fused* is a whole call of the public function with its backward pass,
*value_and_grad* the same by `losses.value_and_grad`, which needs none, *graph* a replay inside a CUDA graph, *plain*
the readable PyTorch version of the same function, *compiled* that one under `torch.compile`, *textbook* the loss as it
is usually written (`benchmarks/baseline.py`). Times are medians of interleaved samples in one run.
"""
GPU = "--device cuda --compiled --repeats 7"
ABOUT = {
    "losses-gpu": """\
*nothing* is an autograd function that only writes zeros: what PyTorch itself takes for a call. It runs the backward
pass in a thread of its own; *one thread* is the same call inside `torch.autograd.set_multithreading_enabled(False)`.
The C++ module was on (`RANKGRAD_NATIVE=1`), which it is not by default.
Training on one GPU runs inside CUDA graphs, with the optimisers that can be recorded and without loss scaling.
`fastsort_ndcg` has no kernel on a GPU: plain waits for the device in every round of pooling.

"""
}
UNMEASURED = "Rax, which needs JAX, was not measured here.\n\n"
RAX = """## Beside Rax

[Rax](https://github.com/google/rax) has some of the same losses on JAX. Each loss that both have gets the same lists;
value and gradient of both are held against plain in float64 first. *Rax* is its value and gradient as one jitted
function, compiled before and its arrays on the device, as our *value_and_grad* is; calls of both are queued and waited
for at the end of a sample, and both have the same cores. *masked* lists are 20 documents long up to the width, and both
are told. Bytes are beside the input: ours as PyTorch counts them, Rax's as XLA plans them.

Rax averages over all pairs of a batch and multiplies LambdaRank's weights by the width; it was told to add up, and
divided by that constant, inside its jitted function. ListMLE ranks tied labels by position, as Rax does. `approx_ndcg`
was put together from Rax's metric and its soft ranks: `rax.approx_t12n` fails under today's JAX, which has no
`jax.util`.
"""
RAX_TABLES = (
    ("rax-cpu", "CPU", "python benchmarks/rax_losses.py --device cpu --repeats 7 --json docs/tables/rax-cpu.json"),
    (
        "rax-gpu",
        "GPU",
        "RANKGRAD_NATIVE=1 python benchmarks/rax_losses.py --device cuda --repeats 5 --json docs/tables/rax-gpu.json",
    ),
)
ABOUT_RAX = {
    "CPU": "Where a loss is one pass over the scores, its time is that of a call, and JAX's costs less than PyTorch's.",
    "GPU": """\
*Rax inside* is a pass inside one jitted loop, as *graph* is one of ours inside a CUDA graph: what is left of both where
the whole training step is compiled. Of the nine losses, seven were measured there; of hinge not the long list.""",
}
COMPARED = (  # theirs, ours, and what both are
    ("rax", "fused", "than a call of ours with its backward pass"),
    ("rax", "value_and_grad", "than our value_and_grad"),
    ("rax inside", "graph", "inside a compiled step"),
)
TAIL = """## How

- **n exponentials instead of n^2.** sigmoid(a - b) = e^a / (e^a + e^b): what is left are divisions, which vectorise.
  Lists whose scores are so far apart that e^a would overflow take an exact path.
- **Only the pairs that count.** Relevant documents first, sorted once; a cutoff visits the pairs it keeps.
- **No n x n matrix.** Every document's sums are made in registers, by one thread, in one order: memory is linear, and
  the result does not depend on the number of threads.
- **Value and slopes in one go.** The backward pass is one product. `losses.value_and_grad(loss, scores, labels)` leaves
  that out, too: `value, gradient = ...; scores.backward(gradient)`.
- **No Python between the kernels, on request.** With `RANKGRAD_NATIVE=1` or `with rg.backend("auto", native=True):` a
  call on a GPU like one that was made before is run by a small C++ module, which the machine's compiler builds in the
  background of the first such call. Until then, and without a compiler, Python does the same with the same results. It
  is off by default, and then no compiler is started. `python benchmarks/native.py` measures both.
- **Threads that are free take the next task.** Where other programs want the cores, too, OpenMP's threads wait for each
  other in a loop that takes their time: `OMP_WAIT_POLICY=passive`, set before Python starts, is better there.

## Compiled code, and forked processes

The first call of a loss on a machine compiles its kernel. What is compiled is kept in `RANKGRAD_CACHE`, or in
`$XDG_CACHE_HOME/rankgrad`, or in `~/.cache/rankgrad`, and later processes load it. Loading compiled code runs it, so
each folder of compiled code there must belong to the user and be writable by nobody else; rankgrad makes it so. An
entry that is damaged is compiled again. Where nothing can be kept (a full disk, no home folder, a folder of another
user), losses work, every process compiles for itself, and one sentence on stderr says why.

A process that was forked (`multiprocessing` on Linux before Python 3.14, a worker of `DataLoader`) runs kernels in one
thread, for OpenMP's threads do not survive a fork. After kernels have used several threads in the parent, rankgrad also
sets `torch.set_num_threads(1)` in the child, as `DataLoader` does; otherwise PyTorch waits forever for the threads of
the parent. Where only PyTorch has used threads before the fork, this call is yours to make. A spawned process has all
threads. With `NUMBA_THREADING_LAYER=workqueue` kernels that several Python threads call run one after the other.

## What stays plain

`mse`, `rmse`, `bce` and `rank_cosine` (one pass already), `ot_ndcg`, `softrank_ndcg`, `list_ap` and
`NeuralLoss`; on a GPU `fastsort_ndcg`, too.
"""


def performance_page() -> str:
    """The whole page."""
    parts = [HEAD]
    for name, title, command in (
        (
            "losses-cpu",
            "On two CPU cores",
            "python benchmarks/losses.py --repeats 15 --json docs/tables/losses-cpu.json",
        ),
        (
            "losses-gpu",
            "On one GPU",
            f"RANKGRAD_NATIVE=1 python benchmarks/losses.py {GPU} --json docs/tables/losses-gpu.json",
        ),
    ):
        if rows := read(name):
            about = ABOUT.get(name, "")
            if name == "losses-gpu" and not read("rax-gpu"):
                about += UNMEASURED
            parts.append(f"## {title}\n\n{where(rows[0])}; `{command}`.\n\n{about}{table(rows)}\n")
    return "\n".join([*parts, *beside_rax(), *with_and_without(), TAIL])


def with_and_without() -> list[str]:
    """The section on the C++ module, where it was measured."""
    if not (rows := read("native-gpu")):
        return []
    kinds = ("eager off", "eager on", "value_and_grad off", "value_and_grad on")
    lines = [[row["loss"], *(time(row, kind) for kind in kinds)] for row in rows]
    measured = f"{where(rows[0])}; `python benchmarks/native.py --out docs/tables/native-gpu.json`."
    shape = f"{rows[0]['lists']} lists of {rows[0]['documents']} documents"
    about = paragraph(f"Calls on {shape} without (*off*, the default) and with (*on*) the C++ module. {measured}")
    return [f"## With and without C++\n\n{about}\n\n{grid(['loss', *kinds], lines)}\n"]


def beside_rax() -> list[str]:
    """The section on Rax: what it is, and a table for each device on which it was measured."""
    parts = []
    for name, device, command in RAX_TABLES:
        if rows := read(name):
            first = rows[0]
            measured = f"{device}: {where(first)}, Rax {first['Rax']}, JAX {first['JAX']}; `{command}`."
            text = paragraph(f"{ABOUT_RAX[device]} {faster(rows)}")
            parts.append(f"{measured}\n\n{text}\n\n{rax_table(rows)}\n")
    return [RAX, *parts] if parts else []


def faster(rows: list[dict[str, Any]]) -> str:
    """For which losses and lists Rax takes less time."""
    said = []
    for theirs, ours, how in COMPARED:
        compared = [row for row in rows if ours in row and theirs in row]
        if compared:
            lost = [row for row in compared if ratio(row, theirs, ours) < 1]
            named = "; ".join(slower(name, compared, lost) for name in dict.fromkeys(row["loss"] for row in lost))
            said.append(f"Rax is faster {how} in {len(lost)} of {len(compared)} rows{': ' if lost else ''}{named}.")
    return " ".join(said)


def slower(name: str, compared: list[dict[str, Any]], lost: list[dict[str, Any]]) -> str:
    """A loss, and for which lists it is the slower one, unless that is for all."""
    every, here = (" and ".join(lists(row) for row in rows if row["loss"] == name) for rows in (compared, lost))
    return f"`{name}`" if here == every else f"`{name}` at {here}"


def rax_table(rows: list[dict[str, Any]]) -> str:
    """Losses and lists downwards, ours and Rax's across; the memory of the long list."""
    every = {key for row in rows for key in row}
    kinds = [kind for kind in ("fused", "value_and_grad", "rax", "plain", "compiled") if kind in every]
    kinds += [kind for kind in ("graph", "rax inside") if kind in every]
    ratios = [(theirs, ours) for theirs, ours, _ in COMPARED if {theirs, ours} <= every]
    memory = [key for key in ("bytes a document", "rax bytes a document") if key in every]
    head = [*kinds, *(f"{theirs} / {ours}" for theirs, ours in ratios), *memory]
    lines = []
    for row in rows:
        cells = [row["loss"], lists(row), *(time(row, kind) for kind in kinds)]
        cells += [f"{ratio(row, *pair):.1f}" if set(pair) <= set(row) else "" for pair in ratios]
        lines.append(cells + [f"{row[key]:,.0f}" if key in row else "" for key in memory])
    return grid(["loss", "lists x documents", *(title.replace("rax", "Rax") for title in head)], lines)


def lists(row: dict[str, Any]) -> str:
    """The shape of a batch."""
    return f"{row['lists']} x {row['documents']:,}{' masked' if row['masked'] else ''}"


def ratio(row: dict[str, Any], theirs: str, ours: str) -> float:
    """How many times as long theirs takes."""
    return float(row[theirs]["seconds"] / row[ours]["seconds"])


def table(rows: list[dict[str, Any]]) -> str:
    """Losses and shapes downwards, contenders across."""
    every = {key for row in rows for key in row}
    graph = "graph" in every
    titles = {"graph": "graph", "value_and_grad": "value_and_grad", "fused": "fused", "one thread": "one thread"}
    titles |= {"plain": "plain", "compiled": "compiled", "baseline": "textbook"}
    kinds = [(kind, title) for kind, title in titles.items() if kind in every]
    head = ["loss", "lists x documents", *(title for _, title in kinds), "plain / fused", "textbook / fused"]
    head += ["bytes a document"] if graph else []
    lines = []
    for row in rows:
        cells = [row["loss"], f"{row['lists']} x {row['documents']:,}", *(time(row, kind) for kind, _ in kinds)]
        cells += [f"{row[key]:.1f}" if key in row else "" for key in ("times plain", "times baseline")]
        cells += [f"{row['bytes a document']:.0f}" if "bytes a document" in row else ""] if graph else []
        lines.append(cells)
    return grid(head, lines)


def time(row: dict[str, Any], kind: str) -> str:
    """A time with a unit that suits it."""
    if kind not in row:
        return ""
    seconds = row[kind]["seconds"]
    return f"{seconds * 1e6:.0f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"
