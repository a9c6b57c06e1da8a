"""The pages about training and scale, from what the benchmarks wrote into `docs/tables`."""

from pathlib import Path
from typing import Any

from pieces import grid, read, where

TABLES = Path(__file__).parent / "tables"


TRAINING = """# Training: what it reaches, and what it costs

`rankgrad train --data DIR --loss lambdaloss@5 --out runs/a`, `rg.Ranker` and `rg.training.train` are one loop with one
set of settings (`rankgrad train --help-all`; [the estimator](ranker.md)). Losses and rankers are written as text,
`name[@k][:key=value,...]`; `rankgrad list losses` and `rankgrad list models` know them.

What a run promises, each a test (`tests/training/test_resume.py`, `tests/training/test_training.py`):

- The seed decides everything. Killed with SIGKILL at any moment and resumed, a run on a CPU ends in the same bits.
- The loss of a step is summed over the lists of the batch in all processes and divided by their number, so one process
  and many with the same batch take the same steps.
- Data on the device and data streamed from the memory map give the same weights, bit by bit.
- A loss that is not finite stops the run, and says the step, the queries and the last good checkpoint.
- The model is a folder of safetensors and JSON. Nothing in it can run code.
"""

SCALE = """# Scale: from one machine to 10^9 documents

What limits training, from what was measured. `python benchmarks/training.py` and `python benchmarks/processes.py` make
the numbers; the rest is arithmetic on them, and is marked as such.
"""


def training_page() -> str:
    """Quality on MQ2008, then speed."""
    parts = [TRAINING]
    if found := read("mq2008-training"):
        rows = []
        for row in found["rows"]:
            numbers = [f"{row[key]:.2f}" for key in ("empty one", "spread", "empty zero", "seconds a run")]
            rows.append([row["ranker"], f"`{row['loss']}`", *numbers])
        head = ["ranker", "loss", "NDCG@10, empty = 1", "sd over seeds", "NDCG@10, empty = 0", "seconds a run"]
        said = "; ".join(f"`{name}`: {_said(settings)}" for name, settings in found["settings"].items())
        parts.append(f"""## MQ2008, five folds

NDCG@10 x 100, exponential gain, mean over five folds and {found["seeds"]} seeds. One setting for each ranker, the same
for every loss, everything else at its default; the epoch is chosen on validation. {said}. This is no comparison of
losses at equal tuning.

{where(found)}; `python benchmarks/mq2008.py --json docs/tables/mq2008-training.json`.

{grid(head, rows)}
""")
    for name, title in (("training-gpu", "On one GPU"), ("training-cpu", "On two CPU cores")):
        if found := read(name):
            parts.append(_speed(name, title, found))
    return "\n".join(parts)


def _said(settings: dict[str, Any]) -> str:
    return ", ".join(f"`{name}={value}`" for name, value in settings.items())


def _speed(name: str, title: str, found: dict[str, Any]) -> str:
    facts, gpu = found["setting"], "gpu" in name
    size = "WEB30K-shaped lists" if gpu else "A twentieth of WEB30K's lists"
    text = f"""## {title}

{size}: {facts["lists"]:,} lists, {facts["documents"]:,} documents, 136 features; `approx_ndcg`, batches of 64 lists.
{where(facts)}; `python benchmarks/training.py --json docs/tables/{name}.json`.

{_runs(found)}

{_parts(found, gpu)}
"""
    request = found["requests"][0]
    known = [each for each in ("mlp 1024", "LightGBM 300 trees") if f"{each}, p50 us" in request]
    lines = [[each, *(f"{request[f'{each}, {kind} us']:.0f} us" for kind in ("p50", "p99", "first"))] for each in known]
    return f"""{text}
One request, on the CPU of that machine: a list of 100 documents, one thread, a loaded model (loading took
{request["load, ms"]:.0f} ms).

{grid(["model", "p50", "p99", "first"], lines)}
"""


def _runs(found: dict[str, Any]) -> str:
    head = [
        "ranker",
        "first epoch",
        "epoch",
        "validation",
        f"{found['setting']['epochs']} epochs with all",
        "peak memory",
    ]
    rows = []
    for run in found["runs"]:
        seconds = [f"{run[key]:.2f} s" for key in ("first epoch", "epoch", "validation", "run")]
        rows.append([run["model"], *seconds, f"{run['peak GB']:.1f} GB"])
    return grid(head, rows)


def _parts(found: dict[str, Any], gpu: bool) -> str:
    head = ["ranker", "ranker and optimiser", "loss", "batches"]
    rows = [[row["model"], *(f"{row[key]:.2f} s" for key in head[1:])] for row in found["parts"]]
    if gpu:  # parts are timed eagerly, an epoch is recorded: a share would mean nothing
        return f"Each part by itself and without a CUDA graph, in seconds an epoch:\n\n{grid(head, rows)}"
    for cells, row in zip(rows, found["parts"], strict=True):
        cells.append(f"{row['all but the ranker, share of the epoch']:.0%}")
    head.append("share of the epoch that is not the ranker's")
    return f"Each part by itself, in seconds an epoch:\n\n{grid(head, rows)}"


def scale_page() -> str:
    """Measured throughput and memory, and the plan that follows from them."""
    parts = [SCALE]
    gpu, processes = read("training-gpu"), read("processes")
    if gpu:
        facts = gpu["setting"]
        rows = []
        for run in gpu["runs"]:
            rate = facts["documents"] / run["epoch"]
            rows.append(
                [run["model"], f"{rate / 1e6:.1f} M", f"{rate * 548 / 1e9:.1f} GB/s", f"{1e9 / rate / 60:.0f} min"]
            )
        head = ["ranker", "documents a second", "features read", "an epoch over 10^9 documents (computed)"]
        parts.append(f"""## One H200

{where(facts)}. A document is 136 features and a label in float32, 548 bytes.

{grid(head, rows)}

The losses add 12 to 36 bytes a document ([measured](performance.md)), `neural_ndcg` 456 to 604; a ranker's activations
are those of one batch. So a GPU of 141 GB keeps about 2 x 10^8 documents resident (computed); more are streamed.
""")
    if processes:
        rows = [[name, str(value)] for name, value in processes.items() if name not in ("commit", "torch", "chip")]
        parts.append(f"""## Two processes against one

{where(processes)}; one thread each, gloo, the same global batch;
`python benchmarks/processes.py --json docs/tables/processes.json`.

{grid(["what", "value"], rows)}
""")
    parts.append(PLAN)
    return "\n".join(parts)


PLAN = """## The plan for 10^9 documents

1. **Convert once**, shard by shard: `rankgrad convert part-*.txt cache/` reads in bounded memory. 10^9 documents of 136
   features are 548 GB of memory map on a file system that all machines see (computed).
2. **Start N processes** with `torchrun` or SLURM, `rankgrad train --data-on stream`. Every process draws the same
   plan of an epoch from the seed, takes its share of each batch, and reads only the rows of its lists: a list is one
   contiguous read of about 65 kB. No process talks to another about data.
3. **A step** sends the gradients once: 4 bytes a parameter, 2 (N - 1) / N times. The rankers of the papers have 10^5 to
   10^7 parameters: 0.4 to 40 MB a step, milliseconds on a cluster's network, hidden behind the backward pass by DDP.
4. **What limits first** is reading: a GPU that is fed by the memory map wants the features at the rate in the table
   above, which is that of one good NVMe disk a GPU. Compute is next; the network is last. The plan of an epoch, one
   permutation of the lists, is made in every process: 10^7 lists take about a second and 240 MB (computed).
5. **Global batch.** With N processes either the batch grows with N or each has few lists to itself; the loss is divided
   by the lists of the whole batch, so the learning rate keeps its meaning.

What was not measured here: more than two processes, more than one machine, NCCL, and a set larger than memory.
"""
