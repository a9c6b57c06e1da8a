"""Measure fidelity, cost and quality of NeuralLoss: `python studies/neural-loss/measure.py [--root DIR] [--json FILE]`.

Fidelity: Spearman correlation of the shipped networks with the true metric on generated lists, by length and by shape.
For comparison: the sigmoid ranks that are input of the network `mended`, at the sharpest of its temperatures, without
learning, and the ideal DCG, which depends on the labels and not on the order.
Cost: forward and backward, relative to `approx_ndcg`. MQ2008: NDCG@10 of one small ranker, five folds, the same setting
for every loss.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from setting import setting
from torch import Tensor

import rankgrad as rg
from rankgrad.losses.surrogate_networks import standardise_scores
from rankgrad.surrogate import fidelity
from rankgrad.surrogate.fidelity import LENGTHS

BEYOND = (500, 1000)
MODEL = {"model": "mlp:widths=64-32", "lr": 1e-3}
LOSSES = ("approx_ndcg", "lambdaloss", "neuralloss", "neuralloss:form=published,grades=3")
METRICS = ("nDCG(empty='one')@10", "nDCG@10")


def main() -> None:
    """Measure, print, and write with --json."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--root", default="../shared/data", help="folder of MQ2008")
    parser.add_argument("--lists", type=int, default=300, help="number of lists per length and shape")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="cpu", help="device of the training; the published form is slow on a CPU")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    facts: dict[str, Any] = {**setting(), "lists": options.lists, "seeds": options.seeds, "ranker": MODEL}
    facts["trained on"] = options.device
    facts["fidelity"] = [row for name, grades, *how in surrogates() for row in faithful(name, grades, *how, options)]
    facts["cost"] = [cost(lists, n) for lists, n in ((64, 20), (64, 120), (8, 500))]
    facts["mq2008"] = []
    for loss in LOSSES:
        facts["mq2008"].append(quality(loss, options))
        if options.json:
            options.json.write_text(json.dumps(facts, indent=1) + "\n")


def surrogates() -> list[tuple[str, int, str, Any]]:
    """Return the name, the number of grades, the target and the function of each surrogate."""
    mended = rg.losses.NeuralLoss()
    sharpest = min(mended.facts["network"]["temperatures"])

    def ranks(scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        spread = standardise_scores(scores, mask)
        return -rg.losses.approx_ndcg(spread, labels, temperature=sharpest, reduction="none")

    found: list[tuple[str, int, str, Any]] = []
    for grades in (3, 5):
        found.append(("published", grades, "dcg", rg.losses.NeuralLoss(grades, "published").estimate))
        found.append(("mended", grades, "ndcg", mended.estimate))
        found.append((f"sigmoid ranks, temperature {sharpest:g}", grades, "ndcg", ranks))
        found.append(("labels alone", grades, "ndcg", lambda scores, labels, mask: torch.ones(len(scores))))
    return found


def faithful(name: str, grades: int, target: str, surrogate: Any, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return a row per length and shape; there are fewer lists of lengths beyond those of the training."""
    rows = fidelity(surrogate, target=target, grades=grades, lengths=LENGTHS, lists=options.lists)
    rows += fidelity(surrogate, target=target, grades=grades, lengths=BEYOND, lists=max(options.lists // 10, 5))
    for row in rows:
        if row.shape == "all":
            print(
                f"{name}, {grades} grades, {row.length} documents: DCG {row.dcg:.4f}, NDCG {row.ndcg:.4f}", flush=True
            )
    kept = [row for row in rows if row.shape == "all" or name in ("published", "mended")]
    return [{"surrogate": name, "grades": grades, **row._asdict()} for row in kept]


def cost(lists: int, n: int, repeats: int = 15) -> dict[str, Any]:
    """Return the best of interleaved times of each form, divided by that of the plain `approx_ndcg`."""
    scores, labels = torch.randn(lists, n, requires_grad=True), torch.randint(0, 3, (lists, n)).float()
    calls = {"approx_ndcg": rg.losses.approx_ndcg, "mended": rg.losses.NeuralLoss()}
    calls["published"] = rg.losses.NeuralLoss(3, "published")
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    with rg.backend("plain"):
        for _ in range(repeats):
            for name, loss in calls.items():
                began = time.perf_counter()
                loss(scores, labels).backward()
                seconds[name].append(time.perf_counter() - began)
    best = {name: min(times) for name, times in seconds.items()}
    row: dict[str, Any] = {"lists": lists, "documents": n, "approx_ndcg ms": round(1e3 * best["approx_ndcg"], 2)}
    row |= {name: round(best[name] / best["approx_ndcg"], 1) for name in ("mended", "published")}
    print(row, flush=True)
    return row


def quality(loss: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the mean test NDCG@10 over folds and seeds, and the spread over seeds."""
    values = np.zeros((options.seeds, 5, len(METRICS)))
    for seed, fold in np.ndindex(options.seeds, 5):
        data = rg.data.load("MQ2008", fold=fold + 1, root=options.root)
        settings = rg.training.Settings(**MODEL, loss=loss, seed=seed, device=options.device)
        model = rg.training.train(settings, data.train, data.validation)
        result = model.evaluate(data.test, list(METRICS))
        values[seed, fold] = [100 * float(result[metric]) for metric in METRICS]
    row = summary(loss, values)
    print(row, flush=True)
    return row


def summary(loss: str, values: Any) -> dict[str, Any]:
    """Return a row of the table from values `(seeds, folds, 2)`."""
    by_seed = values.mean(1)
    numbers = {"empty one": by_seed[:, 0].mean(), "empty zero": by_seed[:, 1].mean()}
    numbers["spread"] = by_seed[:, 0].std(ddof=1) if len(by_seed) > 1 else 0.0
    return {"loss": loss, **{name: round(float(value), 2) for name, value in numbers.items()}}


if __name__ == "__main__":
    main()
