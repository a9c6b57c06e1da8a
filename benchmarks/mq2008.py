"""Print NDCG@10 on MQ2008, five folds, by ranker and loss: `python benchmarks/mq2008.py [--root DIR] [--json FILE]`.

The gain is exponential; an empty list counts 1 in one column and 0 in another. Each ranker has one setting (below) for
all losses; the epoch is chosen on the validation lists. The mean is over folds and seeds, the spread over seeds.
"""

import argparse
import json
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from setting import setting

LOSSES = ("lambdaloss", "approx_ndcg", "ranknet", "listnet")
SETTINGS = {
    "mlp": {"model": "mlp:widths=64-32", "lr": 1e-3},
    "context_aware": {
        "model": "context_aware:width=64,blocks=2,heads=2,feed_forward=128,dropout=0.4",
        "preprocess": "none",
        "optimiser": "adamw",
        "lr": 1e-3,
        "weight_decay": 0.1,
        "patience": 15,
    },
}
METRICS = ("nDCG(empty='one')@10", "nDCG@10")


def main() -> None:
    """Run all cells on all cores, print the table, and write it with --json."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--root", default="../shared/data", help="folder of MQ2008")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    cells = [
        (ranker, loss, fold, seed, options.root)
        for ranker in SETTINGS
        for loss in LOSSES
        for fold in range(1, 6)
        for seed in range(options.seeds)
    ]
    began = time.perf_counter()
    # Spawned, not forked: a process that is forked after a parallel kernel fails.
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        found = dict(zip(cells, pool.map(cell, cells), strict=True))
    rows = []
    for ranker in SETTINGS:
        for loss in LOSSES:
            values = np.array(
                [
                    [found[ranker, loss, fold, seed, options.root][:2] for fold in range(1, 6)]
                    for seed in range(options.seeds)
                ]
            )
            by_seed = 100 * values.mean(1)  # (seeds, 2)
            seconds = np.mean([found[ranker, loss, fold, 0, options.root][2] for fold in range(1, 6)])
            row = {"ranker": ranker, "loss": loss, "seconds a run": round(float(seconds), 1)}
            row |= {
                "empty one": by_seed[:, 0].mean(),
                "empty zero": by_seed[:, 1].mean(),
                "spread": by_seed[:, 0].std(ddof=1),
            }
            rows.append({name: round(value, 2) if isinstance(value, float) else value for name, value in row.items()})
            print("  ".join(f"{name}: {value}" for name, value in rows[-1].items()))
    minutes = (time.perf_counter() - began) / 60
    print(f"{len(cells)} runs in {minutes:.1f} minutes, {options.jobs} processes")
    if options.json:
        facts = {**setting(), "seeds": options.seeds, "settings": SETTINGS, "rows": rows}
        options.json.write_text(json.dumps(facts, indent=1) + "\n")


def cell(what: tuple[str, str, int, int, str]) -> tuple[float, float, float]:
    """Return the test NDCG@10 under both conventions, and the seconds of the run."""
    import torch

    import rankgrad as rg

    torch.set_num_threads(1)
    ranker, loss, fold, seed, root = what
    data = rg.data.load("MQ2008", fold=fold, root=root)
    settings = rg.training.Settings(**SETTINGS[ranker], loss=loss, seed=seed, device="cpu")
    began = time.perf_counter()
    model = rg.training.train(settings, data.train, data.validation)
    seconds = time.perf_counter() - began
    result = model.evaluate(data.test, list(METRICS))
    return (*(float(result[metric]) for metric in METRICS), seconds)


if __name__ == "__main__":
    main()
