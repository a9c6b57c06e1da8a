"""Time NDCG@10 over 6,000 lists of 120 documents, against pytrec_eval and others: `python benchmarks/metrics.py`.

Correctness comes first: no time is printed for a value that is wrong. Times are medians of interleaved runs, ratios are
to pytrec_eval in the same run.
"""

import argparse
import statistics
import sys
from collections.abc import Callable

import numpy as np
import torch
from setting import where
from turns import Times, in_turns

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
    slow = [name for name in contenders if name.startswith("scikit-learn")]  # seconds per run
    show(in_turns(contenders, arguments.repeats, slow), f"{arguments.lists} x {arguments.documents}")


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


def show(times: dict[str, Times], shape: str) -> None:
    baseline = statistics.median(times["pytrec_eval"].wall)
    print(f"NDCG@10, {shape}, values equal to 1e-6; ratio to pytrec_eval, goal: at most 0.2")
    for name, (runs, _) in times.items():
        median, spread = statistics.median(runs), max(runs) - min(runs)
        print(f"{name:30} {median:8.4f} s  +- {spread / 2:.4f}  ratio {median / baseline:6.3f}  {where()}")


if __name__ == "__main__":
    main()
