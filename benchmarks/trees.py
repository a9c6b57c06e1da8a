"""Tune trees on MQ2008, five folds: `python benchmarks/trees.py [--root DIR] [--seeds 3] [--jobs 2] [--json FILE]`.

NDCG@10, exponential gain: LightGBM's lambdarank against our losses, and against blends. Each loss has 18 settings per
fold and up to 600 trees, and stops 50 trees after the best; LambdaMART also has the search of
an earlier study on MQ2008 (four settings), where it is better. Settings, number of trees and blend weights are chosen
on the validation lists.
"""

import argparse
import itertools
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from setting import setting

FOLDS = range(1, 6)
PARAMS: dict[str, dict[str, Any]] = {
    "lightgbm": {"learning_rate": 0.05, "num_leaves": 15, "min_data_in_leaf": 50, "feature_fraction": 0.7},
    "xgboost": {"eta": 0.05, "max_depth": 4, "colsample_bytree": 0.7, "subsample": 0.8, "min_child_weight": 0.1},
}
PARAMS["lightgbm"] |= {"bagging_fraction": 0.8, "bagging_freq": 1}
GRID = {"num_leaves": (7, 15, 31), "min_data_in_leaf": (20, 50, 100), "learning_rate": (0.05, 0.1)}
# Search space of the study, which chooses with the first seed.
STUDIED = {"learning_rate": (0.03, 0.1), "num_leaves": (7, 15)}
RIVAL = "native:lambdarank"
TREES = ("lambdarank", "ranknet", "xe_ndcg", "unique_softmax")
KEPT = 4  # number of settings per loss in a blend
NEURAL = ("lambdaloss", "approx_ndcg", "listnet")
MODEL = "mlp:widths=64-32"
BUDGET = {"trees": 600, "patience": 50, "threads": 1}
STUDY, CHOSEN = f"{RIVAL}, the study's search", "best of our tree losses"
BLENDED, RESEEDED = f"blend of {RIVAL}, all settings", f"blend of {RIVAL}, {KEPT} settings x {len(TREES)} seeds"
OURS, WITH_MLPS = "blend of our trees", "blend of our trees and MLPs"
# The rivals of a row, if not only RIVAL: a blend must be compared with blends, not only with a single ranker.
RIVALS = {RIVAL: [], BLENDED: [RIVAL, STUDY], RESEEDED: [RIVAL, STUDY]}
RIVALS |= {ours: [RIVAL, STUDY, BLENDED, RESEEDED] for ours in (OURS, WITH_MLPS)}


def main() -> None:
    """Run all folds and seeds, print the table, and write it with --json."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--root", default="../shared/data", help="folder of MQ2008")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument(
        "--cells", type=Path, help="folder of the results of each fold and seed; existing results are reused"
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    keys = [(fold, seed) for seed in range(options.seeds) for fold in FOLDS]
    found = run_all(cell, keys, options)
    every = {  # per row: (seeds, queries)
        row: np.stack([np.concatenate([found[fold, seed][row] for fold in FOLDS]) for seed in range(options.seeds)])
        for row in found[keys[0]]
    }
    empty = every.pop("empty")[0]
    folds = np.repeat(FOLDS, [len(found[fold, 0]["empty"]) for fold in FOLDS])
    rows = list(table(every, empty, folds))
    for row in rows:
        print("  ".join(f"{key}: {value}" for key, value in row.items()), flush=True)
    if options.json:
        facts = {**setting(), **versions(), "seeds": options.seeds, "params": PARAMS, "grid": GRID, "studied": STUDIED}
        facts |= {"queries": len(empty), "without a relevant document": int(empty.sum()), "model": MODEL, "kept": KEPT}
        facts["budget"] = BUDGET
        options.json.write_text(json.dumps({**facts, "rows": rows}, indent=1) + "\n")


def run_all(cell: Callable[..., dict[str, Any]], keys: list[Any], options: argparse.Namespace) -> dict[Any, Any]:
    """Run all cells in several processes, and return their results by key."""
    began = time.perf_counter()
    # Spawned, not forked: a process that is forked after a parallel kernel fails.
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        asked = [pool.submit(kept, options.cells, cell, *key, options.root) for key in keys]
        found = {key: each.result() for key, each in zip(keys, asked, strict=True)}
    print(f"{len(keys)} cells in {(time.perf_counter() - began) / 60:.1f} minutes, {options.jobs} processes")
    return found


def table(every: dict[str, Any], empty: Any, folds: Any) -> Iterator[dict[str, Any]]:
    """Yield a row per ranker and rival: the mean under both conventions, the spread over seeds, and the difference."""
    for what, values in every.items():
        by_seed = 100 * values.mean(1)
        row = {"what": what, "empty zero": by_seed.mean(), "empty one": by_seed.mean() + 100 * empty.mean()}
        row["spread"] = by_seed.std(ddof=1) if len(by_seed) > 1 else 0.0
        for rival in RIVALS.get(what, [RIVAL]) or [None]:
            full = row if rival is None else {**row, "against": rival, **against(values, every[rival], folds)}
            yield {key: round(float(v), 6) if isinstance(v, float | np.floating) else v for key, v in full.items()}


def against(values: Any, other: Any, folds: Any) -> dict[str, float]:
    """Compare two rankers, in percent; queries and training runs are both random.

    Args:
        values, other: values of the two rankers, `(seeds, queries)`.
        folds: fold of each query, `(queries,)`.
    """
    from rankgrad.experiments.seed_variance import RunValues, compare_runs

    found = compare_runs(RunValues(values, folds), RunValues(other, folds))
    low, high = found.interval
    parts = {"difference": found.difference, "low": low, "high": high, "detectable": found.detectable}
    return {**{name: 100 * part for name, part in parts.items()}, "p": found.p}


def versions() -> dict[str, str]:
    """Return the versions of the frameworks."""
    import lightgbm
    import xgboost

    return {"lightgbm": lightgbm.__version__, "xgboost": xgboost.__version__}


def kept(folder: Path | None, made: Callable[..., dict[str, Any]], *what: Any) -> dict[str, Any]:
    """Return the result of a cell, from its file if there is one. The last of `what` is the folder of the data."""
    path = None if folder is None else folder / f"{'-'.join(map(str, what[:-1]))}.json"
    if path is not None and path.is_file():
        return json.loads(path.read_text())
    found = made(*what)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found))
    return found


def cell(fold: int, seed: int, root: str) -> dict[str, Any]:
    """Return the test NDCG@10 per query, by row of the table, for a fold and a seed."""
    import torch

    import rankgrad as rg
    from rankgrad.estimators.blend import blend
    from rankgrad.estimators.neural import Ranker
    from rankgrad.trees import TreeRanker

    torch.set_num_threads(1)
    data = rg.data.load("MQ2008", fold=fold, root=root)
    train, validation, test = data.train, data.validation, data.test
    evaluation = {"eval_set": (validation.features, validation.labels), "eval_group": validation.lengths}

    def fit(ranker: Any) -> Any:
        return ranker.fit(train.features, train.labels, group=train.lengths, **evaluation)

    def on(part: Any, ranker: Any) -> Any:
        scores = ranker.model_.score(part.features, part.offsets)
        return rg.metrics.ndcg(scores, part.labels, offsets=part.offsets, k=10, reduction="none").tolist()

    def mixed(rankers: list[Any]) -> Any:
        return blend(rankers).fit(validation.features, validation.labels, group=validation.lengths)

    def boosted(loss: str, **chosen: Any) -> Any:
        return fit(TreeRanker(**{**PARAMS["lightgbm"], **BUDGET, "loss": loss, "seed": seed, **chosen}))

    best = {loss: by_validation(boosted(loss, **chosen) for chosen in combined(GRID)) for loss in (RIVAL, *TREES)}
    first = by_validation(boosted(RIVAL, seed=0, **chosen) for chosen in combined(STUDIED))[0].get_params()
    neural = [fit(Ranker(model=MODEL, loss=loss, seed=seed, device="cpu")) for loss in NEURAL]
    # The same number of rankers in each blend, so that their number gives no advantage.
    ours = [ranker for loss in TREES for ranker in best[loss][:KEPT]]
    seeds = [1000 * again + seed for again in range(1, len(TREES))]
    top = [{name: ranker.get_params()[name] for name in GRID} for ranker in best[RIVAL][:KEPT]]
    reseeded = [*best[RIVAL][:KEPT], *(boosted(RIVAL, **{**chosen, "seed": s}) for chosen in top for s in seeds)]
    rankers = {RIVAL: best[RIVAL][0], STUDY: boosted(RIVAL, **{name: first[name] for name in STUDIED})}
    rankers |= {loss: best[loss][0] for loss in TREES}
    rankers[CHOSEN] = by_validation(best[loss][0] for loss in TREES)[0]
    rankers |= {f"{MODEL} {loss}": ranker for loss, ranker in zip(NEURAL, neural, strict=True)}
    rankers |= {BLENDED: mixed(best[RIVAL]), RESEEDED: mixed(reseeded), OURS: mixed(ours)}
    rankers[WITH_MLPS] = mixed([*ours, *neural])
    perfect = rg.metrics.ndcg(test.labels, test.labels, offsets=test.offsets, k=10, reduction="none")
    values = {name: on(test, ranker) for name, ranker in rankers.items()}
    return {**values, "empty": (perfect == 0).tolist()}


def combined(grid: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all settings of a grid."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def by_validation(rankers: Any) -> list[Any]:
    """Sort rankers by their validation metric, best first."""
    return sorted(rankers, key=lambda ranker: -ranker.model_.metrics["validation"]["nDCG@10"])


if __name__ == "__main__":
    main()
