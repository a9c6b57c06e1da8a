"""Trees on MQ2008, five folds: `python benchmarks/trees.py [--root DIR] [--seeds 3] [--jobs 2] [--json FILE]`.

Two tables of NDCG@10, exponential gain. **Same parameters**: our losses and the frameworks' own, one setting for all.
**Tuned**: 18 settings a fold for each loss, up to 600 trees, stopped 50 after the best; LightGBM's lambdarank against
our losses, and against blends. Settings, trees and blend weights are chosen on the validation lists.
"""

import argparse
import itertools
import json
import multiprocessing
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from setting import setting

FOLDS = range(1, 6)
# Each with the row it is to be measured against.
SAME = [
    ("lightgbm", "native:lambdarank", None),
    ("lightgbm", "lambdarank", "native:lambdarank"),
    ("lightgbm", "native:rank_xendcg", None),
    ("lightgbm", "softmax", "native:rank_xendcg"),
    ("lightgbm", "xe_ndcg", "native:rank_xendcg"),
    ("xgboost", "native:rank:ndcg", None),
    ("xgboost", "lambdarank", "native:rank:ndcg"),
]
PARAMS: dict[str, dict[str, Any]] = {
    "lightgbm": {"learning_rate": 0.05, "num_leaves": 15, "min_data_in_leaf": 50, "feature_fraction": 0.7},
    "xgboost": {"eta": 0.05, "max_depth": 4, "colsample_bytree": 0.7, "subsample": 0.8, "min_child_weight": 0.1},
}
PARAMS["lightgbm"] |= {"bagging_fraction": 0.8, "bagging_freq": 1}
GRID = {"num_leaves": (7, 15, 31), "min_data_in_leaf": (20, 50, 100), "learning_rate": (0.05, 0.1)}
RIVAL = "native:lambdarank"
TREES = ("lambdarank", "ranknet", "xe_ndcg", "unique_softmax")
KEPT = 4  # settings of each loss in a blend
NEURAL = ("lambdaloss", "approx_ndcg", "listnet")
MODEL = "mlp:widths=64-32"
BUDGET = {"trees": 600, "patience": 50, "threads": 1}
CHOSEN, BLEND, BLENDED = "best of our tree losses", "blend of our trees and MLPs", f"blend of {RIVAL}"


def main() -> None:
    """Run all folds and seeds, print both tables, keep them with --json."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--root", default="../shared/data", help="where MQ2008 lies")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument(
        "--cells", type=Path, help="folder for the results of each fold and seed; those there are not run"
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    began = time.perf_counter()
    cells = [(fold, seed, options.root, options.cells) for seed in range(options.seeds) for fold in FOLDS]
    # Spawned, not forked: a fork after a parallel kernel dies.
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        found = dict(zip(cells, pool.map(kept, cells), strict=True))
    every = {  # row: (seeds, queries)
        row: np.stack(
            [
                np.concatenate([found[fold, seed, options.root, options.cells][row] for fold in FOLDS])
                for seed in range(options.seeds)
            ]
        )
        for row in found[cells[0]]
    }
    empty = every.pop("empty")[0] > 0
    rows = list(table(every, empty))
    for row in rows:
        print("  ".join(f"{key}: {value}" for key, value in row.items()), flush=True)
    minutes = (time.perf_counter() - began) / 60
    print(f"{len(cells)} cells in {minutes:.1f} minutes, {options.jobs} processes")
    if options.json:
        facts = {**setting(), **versions(), "seeds": options.seeds, "params": PARAMS, "grid": GRID, "budget": BUDGET}
        facts |= {"queries": len(empty), "without a relevant document": int(empty.sum()), "model": MODEL, "kept": KEPT}
        options.json.write_text(json.dumps({**facts, "rows": rows}, indent=1) + "\n")


def table(every: dict[str, Any], empty: Any) -> Iterator[dict[str, Any]]:
    """A row each: the mean under both conventions, the spread over seeds, and the difference to its rival."""
    for name, values in every.items():
        kind, what, rival = name.split("|")
        by_seed = 100 * values.mean(1)
        row = {
            "table": kind,
            "what": what,
            "empty zero": by_seed.mean(),
            "empty one": by_seed.mean() + 100 * empty.mean(),
        }
        row["spread"] = by_seed.std(ddof=1) if len(by_seed) > 1 else 0.0
        # A blend is also measured against a blend, for it is no feat to beat a single ranker with many.
        rivals = [rival, BLENDED] if what.startswith("blend of our") else [rival]
        for each in rivals:
            told = (
                {**row, **against(values, every[f"{kind}|{each}|{RIVAL if each == BLENDED else ''}"])} if each else row
            )
            told |= {"against": each} if each else {}
            yield {key: round(float(v), 4) if isinstance(v, float | np.floating) else v for key, v in told.items()}


def against(values: Any, other: Any) -> dict[str, float]:
    """The difference over queries, each the mean over its seeds: seeds are no more queries."""
    from rankgrad.experiments.statistics import bootstrap, paired_t, randomisation

    mine, theirs = values.mean(0), other.mean(0)
    low, high = bootstrap(mine - theirs)
    found = {"difference": 100 * float((mine - theirs).mean()), "low": 100 * low, "high": 100 * high}
    return found | {"p, t": paired_t(mine, theirs).p, "p, randomisation": randomisation(mine, theirs).p}


def versions() -> dict[str, str]:
    """Of the frameworks."""
    import lightgbm
    import xgboost

    return {"lightgbm": lightgbm.__version__, "xgboost": xgboost.__version__}


def kept(what: tuple[int, int, str, Path | None]) -> dict[str, Any]:
    """The results of a cell, from its file if it has one."""
    fold, seed, root, cells = what
    path = None if cells is None else cells / f"fold-{fold}-seed-{seed}.json"
    if path is not None and path.is_file():
        return {row: np.array(values) for row, values in json.loads(path.read_text()).items()}
    found = cell(fold, seed, root)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({row: values.tolist() for row, values in found.items()}))
    return found


def cell(fold: int, seed: int, root: str) -> dict[str, Any]:
    """Test NDCG@10 of each query, by row of the tables, for a fold and a seed."""
    import torch

    import rankgrad as rg
    from rankgrad.blending import blend
    from rankgrad.ranker import Ranker
    from rankgrad.trees import TreeRanker

    torch.set_num_threads(1)
    data = rg.data.load("MQ2008", fold=fold, root=root)
    train, validation, test = data.train, data.validation, data.test
    held = {"eval_set": (validation.features, validation.labels), "eval_group": validation.lengths}

    def fit(ranker: Any) -> Any:
        return ranker.fit(train.features, train.labels, group=train.lengths, **held)

    def on(part: Any, ranker: Any) -> Any:
        scores = ranker.model_.score(part.features, part.offsets)
        return rg.metrics.ndcg(scores, part.labels, offsets=part.offsets, k=10, reduction="none").numpy()

    def mixed(rankers: list[Any]) -> Any:
        return blend(rankers).fit(validation.features, validation.labels, group=validation.lengths)

    found = {}
    for framework, loss, rival in SAME:
        ranker = fit(TreeRanker(framework, loss, seed=seed, **BUDGET, **PARAMS[framework]))
        against = f"{framework} {rival}" if rival else ""
        found[f"same|{framework} {loss}|{against}"] = on(test, ranker)
    settings = [dict(zip(GRID, values, strict=True)) for values in itertools.product(*GRID.values())]
    best: dict[str, list[Any]] = {}
    for loss in (RIVAL, *TREES):
        shared = {**PARAMS["lightgbm"], **BUDGET, "loss": loss, "seed": seed}
        rankers = [fit(TreeRanker(**{**shared, **chosen})) for chosen in settings]
        best[loss] = sorted(rankers, key=lambda ranker: -ranker.model_.metrics["validation"]["nDCG@10"])
    neural = [fit(Ranker(model=MODEL, loss=loss, seed=seed, device="cpu")) for loss in NEURAL]
    tops = [best[loss][0] for loss in TREES]
    ours = [ranker for loss in TREES for ranker in best[loss][:KEPT]]
    found[f"tuned|{RIVAL}|"] = on(test, best[RIVAL][0])
    for loss in TREES:
        found[f"tuned|{loss}|{RIVAL}"] = on(test, best[loss][0])
    top = max(tops, key=lambda ranker: ranker.model_.metrics["validation"]["nDCG@10"])
    found[f"tuned|{CHOSEN}|{RIVAL}"] = on(test, top)
    for loss, ranker in zip(NEURAL, neural, strict=True):
        found[f"tuned|{MODEL} {loss}|{RIVAL}"] = on(test, ranker)
    # As many rankers in each blend, so that it is not their number that wins.
    found[f"tuned|{BLENDED}|{RIVAL}"] = on(test, mixed(best[RIVAL][: len(ours) + len(neural)]))
    found[f"tuned|blend of our trees|{RIVAL}"] = on(test, mixed(ours))
    found[f"tuned|{BLEND}|{RIVAL}"] = on(test, mixed([*ours, *neural]))
    perfect = rg.metrics.ndcg(test.labels, test.labels, offsets=test.offsets, k=10, reduction="none").numpy()
    return {**found, "empty": (perfect == 0).astype(np.float64)}


if __name__ == "__main__":
    main()
