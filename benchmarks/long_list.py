"""Measure a training step on one list of 100,000 documents, for each loss with linear memory, and its memory.

Each loss runs in a separate process, because the peak memory of a process never decreases. Run by `losses.py --long`.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from peak_memory import forget_peak, memory, peak
from setting import setting
from torch import Tensor

import rankgrad as rg

DOCUMENTS = 100_000
ALLOWED = 1e9  # bytes, for the whole process on the CPU
LOSSES = (
    *("ranknet", "hinge", "lambdarank", "lambdaloss"),
    *("approx_ndcg", "approx_mrr", "approx_ap", "approx_precision", "LearnDCG"),
    *("softmax", "listnet", "xe_ndcg", "poly1_softmax", "unique_softmax", "listmle", "p_listmle"),
)


def rows(device: str) -> list[dict[str, Any]]:
    """Return one row per loss."""
    found = []
    for name in LOSSES:
        command = [sys.executable, __file__, name, device, str(torch.get_num_threads())]
        answer = subprocess.run(command, capture_output=True, text=True)
        if answer.returncode:
            print(f"{name}: {answer.stderr.strip().splitlines()[-1]}")
            continue
        row = {**json.loads(answer.stdout), **setting(device)}
        verdict = "under" if row["MB in all"] < ALLOWED / 1e6 else "OVER"
        where = f"{row['commit']}, torch {row['torch']}, {row['chip']}"
        print(
            f"{name}: {row['fused']['seconds']:.2f} s, {row['MB extra']:.0f} MB extra, {row['MB in all']:.0f} MB in "
            f"all, {verdict} 1 GB [{where}]"
        )
        found.append(row)
    return found


def train(name: str, device: str, steps: int = 3) -> dict[str, Any]:
    """Measure steps of a small model on a long list, after one on a short list that compiles the kernels."""
    made = getattr(rg.losses, name)
    loss = made().to(device) if isinstance(made, type) else made
    _step(loss, DOCUMENTS // 1000, device)
    before = memory(device)
    forget_peak(device)
    times = [_step(loss, DOCUMENTS, device) for _ in range(steps)]
    total = peak(device)
    return {
        "loss": name,
        "lists": 1,
        "documents": DOCUMENTS,
        "fused": {"seconds": statistics.median(times), "spread": (max(times) - min(times)) / 2},
        "MB extra": (total - before) / 1e6,
        "MB in all": total / 1e6,
    }


def _step(loss: Callable[..., Tensor], documents: int, device: str) -> float:
    """Run forward and backward, and return the seconds. The derivatives must add up to 0, as for all these losses."""
    generator = torch.Generator().manual_seed(documents)
    features = torch.randn(documents, 8, generator=generator).to(device)
    labels = torch.randint(0, 5, (documents,), generator=generator).to(device)
    model = torch.nn.Linear(8, 1).to(device)
    start = time.perf_counter()
    scores = model(features)[:, 0]
    scores.retain_grad()
    with rg.backend("fused"):
        loss(scores, labels).backward()
    if device == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    # A constant added to all scores changes nothing, so the derivatives add up to 0.
    slopes = scores.grad.double()
    if not slopes.sum().abs() <= 1e-4 * slopes.abs().sum():
        sys.exit(f"derivatives add up to {float(slopes.sum()):.2g}; no time is printed")
    return seconds


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[3]))
    print(json.dumps(train(sys.argv[1], sys.argv[2])))
