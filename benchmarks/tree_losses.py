"""Losses in LightGBM on MQ2008, five folds: `python benchmarks/tree_losses.py [--root DIR] [--jobs 2] [--json FILE]`.

Two tables of NDCG@10, exponential gain, with the one setting of `benchmarks/trees.py`. **Softmax**: what LightGBM's
rank_xendcg has that our softmax has not, over 20 seeds. **Learned**: LearnDCG's scalars fixed, and updated each round.
"""

import argparse
import json
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from setting import setting
from trees import BUDGET, FOLDS, PARAMS, against, versions

SEEDS = {"softmax": 20, "learned": 3}
# By table and name: the settings. The first of a table is what the others are measured against.
ROWS: dict[str, dict[str, dict[str, Any]]] = {
    "softmax": {
        "native:rank_xendcg": {"loss": "native:rank_xendcg"},
        "softmax": {"loss": "softmax"},
        "listnet": {"loss": "listnet"},
        "xe_ndcg": {"loss": "xe_ndcg"},
        "softmax, smooth=0.5": {"loss": "softmax", "smooth": 0.5},
        "softmax, smooth=drawn": {"loss": "softmax", "smooth": "drawn"},
        "listnet, smooth=drawn": {"loss": "listnet", "smooth": "drawn"},
    },
    "learned": {
        "learndcg": {"loss": "learndcg"},
        "learndcg, loss_lr=0.01": {"loss": "learndcg", "loss_lr": 0.01},
        "learndcg:discount=curved, loss_lr=0.01": {"loss": "learndcg:discount=curved", "loss_lr": 0.01},
    },
}


def main() -> None:
    """Run all folds and seeds, print both tables, keep them with --json."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--root", default="../shared/data", help="where MQ2008 lies")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    began = time.perf_counter()
    cells = [
        (kind, fold, seed, options.root) for kind, seeds in SEEDS.items() for seed in range(seeds) for fold in FOLDS
    ]
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        found = dict(zip(cells, pool.map(cell, cells), strict=True))
    rows = []
    for kind, seeds in SEEDS.items():
        every = {}  # row: values (seeds, queries), and what is kept of each run
        for name in ROWS[kind]:
            runs = [[found[kind, fold, seed, options.root][name] for fold in FOLDS] for seed in range(seeds)]
            every[name] = np.stack([np.concatenate([run["values"] for run in own]) for own in runs]), [*chain(*runs)]
        rows += [row(kind, name, every) for name in ROWS[kind]]
    for each in rows:
        print("  ".join(f"{key}: {value}" for key, value in each.items()), flush=True)
    print(f"{len(cells)} cells in {(time.perf_counter() - began) / 60:.1f} minutes, {options.jobs} processes")
    if options.json:
        facts = {**setting(), **versions(), "seeds": SEEDS, "params": PARAMS["lightgbm"], "budget": BUDGET}
        options.json.write_text(json.dumps({**facts, "rows": rows}, indent=1) + "\n")


def row(kind: str, name: str, every: dict[str, Any]) -> dict[str, Any]:
    """The mean, its spread over seeds, the difference to the first row, and where scalars went."""
    values, runs = every[name]
    by_seed, first = 100 * values.mean(1), next(iter(every))
    told: dict[str, Any] = {"table": kind, "what": name, "empty zero": by_seed.mean(), "spread": by_seed.std(ddof=1)}
    told["validation"] = 100 * float(np.mean([run["validation"] for run in runs]))
    told["trees"] = float(np.mean([run["trees"] for run in runs]))
    if name != first:
        told |= {"against": first, **against(values, every[first][0])}
    told = {key: round(float(v), 4) if isinstance(v, float | np.floating) else v for key, v in told.items()}
    scalars = {each: [run["learned"][each] for run in runs] for each in runs[0]["learned"]}
    learned = {each: [round(min(v), 3), round(float(np.mean(v)), 3), round(max(v), 3)] for each, v in scalars.items()}
    return told | ({"learned": learned} if learned else {})


def cell(what: tuple[str, int, int, str]) -> dict[str, Any]:
    """Of each row of a table: test NDCG@10 of each query, and what is known of the run, for a fold and a seed."""
    import torch

    import rankgrad as rg
    from rankgrad.trees import TreeRanker
    from rankgrad.trees.boosting import boost

    torch.set_num_threads(1)
    kind, fold, seed, root = what
    data = rg.data.load("MQ2008", fold=fold, root=root)
    found = {}
    for name, own in ROWS[kind].items():
        model = boost(TreeRanker(seed=seed, **own, **BUDGET, **PARAMS["lightgbm"]).plan(), data.train, data.validation)
        scores = model.score(data.test.features)
        values = rg.metrics.ndcg(scores, data.test.labels, offsets=data.test.offsets, k=10, reduction="none").numpy()
        best = model.history[model.metrics["trees"] - 1]
        learned = {scalar: best[scalar] for scalar in model.metrics.get("loss", {})}
        told = {"validation": model.metrics["validation"]["nDCG@10"], "trees": model.metrics["trees"]}
        found[name] = {"values": values, "learned": learned, **told}
    return found


if __name__ == "__main__":
    main()
