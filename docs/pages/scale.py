"""Page about scale: measured throughput and memory, and a plan for 10^9 documents."""

import re
from typing import Any

from .measurements import read, where
from .templates import fill, table

DOCUMENT_BYTES = 548  # 136 features and a label in float32


def page() -> str:
    """Return the page."""
    gpu, processes = read("training-gpu"), read("processes")
    rows = [
        [re.sub(r" an? (epoch|step)$", r" per \1", name), str(value)]
        for name, value in processes.items()
        if name not in ("commit", "torch", "chip")
    ]
    return fill(
        "scale",
        gpu_machine=where(gpu["setting"]),
        throughput_table=_throughput_table(gpu),
        cpu_machine=where(processes),
        processes_table=table(["measurement", "value"], rows),
    )


def _throughput_table(found: dict[str, Any]) -> str:
    rows = []
    for run in found["runs"]:
        rate = found["setting"]["documents"] / run["epoch"]
        read_rate = f"{rate * DOCUMENT_BYTES / 1e9:.1f} GB/s"
        rows.append([run["model"], f"{rate / 1e6:.1f} M", read_rate, f"{1e9 / rate / 60:.0f} min"])
    head = ["ranker", "documents per second", "features read", "time per epoch of 10^9 documents (computed)"]
    return table(head, rows)
