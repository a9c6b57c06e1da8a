"""Time NDCG@10 over 6,000 lists of 120 documents, against pytrec_eval and others: `python benchmarks/metrics.py`.

Correctness comes first: no time is printed for a value that is wrong. Times are medians of interleaved runs, ratios are
to pytrec_eval in the same run.
"""

import argparse
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from rankgrad import metrics

Contender = Callable[[], np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lists", type=int, default=6000)
    parser.add_argument("--documents", type=int, default=120)
    parser.add_argument("--repeats", type=int, default=7)
    # pytrec_eval has one thread. Ours has one by default also: more are slower on a busy machine.
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    scores, labels = data(arguments.lists, arguments.documents)
    contenders = {"pytrec_eval": pytrec_eval(scores, labels), **ours(scores, labels), **others(scores, labels)}
    expected = contenders["pytrec_eval"]()
    for name, contender in contenders.items():
        worst = float(np.abs(contender() - expected).max())
        if not worst <= 1e-6:
            sys.exit(f"{name} differs from pytrec_eval by {worst:.2g}; no times are printed")
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for repeat in range(arguments.repeats):
        for name, contender in contenders.items():
            if name.startswith("scikit-learn") and repeat >= 2:
                continue  # a run takes seconds: two runs are enough for the order of magnitude
            start = time.perf_counter()
            contender()
            times[name].append(time.perf_counter() - start)
    show(times, f"{arguments.lists} x {arguments.documents}")


def data(lists: int, documents: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return scores without ties, so that all tools rank in the same way, and skewed labels, as in web search."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.stack([torch.randperm(documents, generator=generator) for _ in range(lists)]).float()
    grades = torch.tensor([0.5, 0.3, 0.13, 0.05, 0.02])
    return scores, torch.multinomial(grades.expand(lists, -1), documents, replacement=True, generator=generator)


def pytrec_eval(scores: torch.Tensor, labels: torch.Tensor) -> Contender:
    """Make the contender pytrec_eval; its time does not include building its dictionaries."""
    import pytrec_eval as peer

    names = [f"d{i}" for i in range(scores.shape[1])]
    gains = (2**labels - 1).tolist()
    qrels = {f"q{i}": dict(zip(names, row, strict=True)) for i, row in enumerate(gains)}
    run = {f"q{i}": dict(zip(names, row, strict=True)) for i, row in enumerate(scores.tolist())}
    evaluator = peer.RelevanceEvaluator(qrels, {"ndcg_cut_10"})

    def measure() -> np.ndarray:
        values = evaluator.evaluate(run)
        return np.array([values[query]["ndcg_cut_10"] for query in run])

    return measure


def ours(scores: torch.Tensor, labels: torch.Tensor) -> dict[str, Contender]:
    lists, documents = scores.shape
    flat_scores, flat_labels, offsets = scores.ravel(), labels.ravel(), torch.arange(lists + 1) * documents
    return {
        "rankgrad, padded": lambda: metrics.ndcg(scores, labels, k=10, reduction="none").numpy(),
        "rankgrad, flat": lambda: metrics.ndcg(
            flat_scores, flat_labels, offsets=offsets, k=10, reduction="none"
        ).numpy(),
        "rankgrad, ties expected": lambda: metrics.ndcg(
            scores, labels, k=10, ties="expected", reduction="none"
        ).numpy(),
        "rankgrad, evaluate 5 metrics": lambda: metrics.evaluate(
            scores, labels, ["nDCG@10", "nDCG@5", "RR@10", "AP", "P@5"], bootstrap=0
        ).values["nDCG@10"],
    }


def others(scores: torch.Tensor, labels: torch.Tensor) -> dict[str, Contender]:
    """Return the other libraries that are installed."""
    gains = (2**labels - 1).float()
    contenders: dict[str, Contender] = {}
    try:
        from sklearn.metrics import ndcg_score

        rows, targets = scores.numpy(), gains.numpy()
        contenders["scikit-learn, a loop"] = lambda: np.array(
            [ndcg_score(targets[i : i + 1], rows[i : i + 1], k=10) for i in range(len(rows))]
        )
    except ImportError:
        pass
    try:
        from torchmetrics.functional.retrieval import retrieval_normalized_dcg

        contenders["torchmetrics, a loop"] = lambda: np.array(
            [float(retrieval_normalized_dcg(s, g, top_k=10)) for s, g in zip(scores, gains, strict=True)]
        )
    except ImportError:
        pass
    return contenders


def show(times: dict[str, list[float]], shape: str) -> None:
    baseline = statistics.median(times["pytrec_eval"])
    setting = f"{commit()} torch {torch.__version__} {chip()}"
    print(f"NDCG@10, {shape}, values equal to 1e-6; ratio to pytrec_eval, goal: at most 0.2")
    for name, runs in times.items():
        median, spread = statistics.median(runs), max(runs) - min(runs)
        print(f"{name:30} {median:8.4f} s  +- {spread / 2:.4f}  ratio {median / baseline:6.3f}  {setting}")


def commit() -> str:
    where = Path(__file__).parent
    found = subprocess.run(["git", "-C", where, "describe", "--always", "--dirty"], capture_output=True, text=True)
    return found.stdout.strip() or "no commit"


def chip() -> str:
    info = Path("/proc/cpuinfo")
    names = [line for line in info.read_text().splitlines() if line.startswith("model name")] if info.exists() else []
    name = names[0].split(":")[1].strip() if names else platform.processor() or platform.machine()
    return f"{name}, {torch.get_num_threads()} thread(s)"


if __name__ == "__main__":
    main()
