"""Compare losses in trees, with one setting: `python benchmarks/tree_losses.py [--root DIR] [--jobs 2] [--json FILE]`.

Three tables of NDCG@10, exponential gain, five folds. **same**: our losses and native ones of the frameworks on MQ2008.
**sets**: softmax and listnet, plain and smoothed, and LightGBM's rank_xendcg on all sets of `tree_data`.
**learned**: LearnDCG's scalars, fixed and updated in each round.
"""

import argparse
import json
import os
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from setting import setting
from tree_data import SETS, five_folds
from trees import BUDGET, FOLDS, PARAMS, against, run_all, versions

SEEDS = 20


class Run(NamedTuple):
    """A row: settings of `TreeRanker`, and the rows that it is compared with."""

    loss: str
    rivals: tuple[str, ...] = ()
    framework: str = "lightgbm"
    more: dict[str, Any] = {}  # noqa: RUF012


NATIVE = "native:rank_xendcg"
SMOOTHED = {
    NATIVE: Run(NATIVE),
    "softmax": Run("softmax", (NATIVE,)),
    "softmax, smooth=0.5": Run("softmax", (NATIVE, "softmax"), more={"smooth": 0.5}),
    "softmax, smooth=drawn": Run("softmax", (NATIVE, "softmax"), more={"smooth": "drawn"}),
    "listnet": Run("listnet", (NATIVE,)),
    "listnet, smooth=0.5": Run("listnet", (NATIVE, "listnet"), more={"smooth": 0.5}),
    "listnet, smooth=drawn": Run("listnet", (NATIVE, "listnet"), more={"smooth": "drawn"}),
}
DRAWN = "xe_ndcg:gamma=drawn"
TARGETS = {**SMOOTHED, "xe_ndcg": Run("xe_ndcg", (NATIVE,)), DRAWN: Run(DRAWN, (NATIVE,))}
SAME = {
    "native:lambdarank": Run("native:lambdarank"),
    "lambdarank": Run("lambdarank", ("native:lambdarank",)),
    **TARGETS,
    "xgboost native:rank:ndcg": Run("native:rank:ndcg", framework="xgboost"),
    "xgboost lambdarank": Run("lambdarank", ("xgboost native:rank:ndcg",), "xgboost"),
}
LEARNED = {
    "learndcg": Run("learndcg"),
    "learndcg, loss_lr=0.01": Run("learndcg", ("learndcg",), more={"loss_lr": 0.01}),
    "learndcg:discount=curved, loss_lr=0.01": Run("learndcg:discount=curved", ("learndcg",), more={"loss_lr": 0.01}),
}


def runs(data: str, seed: int) -> dict[str, Run]:
    """Return the runs on a data set with a seed; small differences are measured with many seeds."""
    if data != "MQ2008":
        return SMOOTHED
    return {**SAME, **LEARNED} if seed < 3 else TARGETS


def main() -> None:
    """Run all sets, folds and seeds, print the tables, and write them with --json."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--root", default="../shared/data", help="folder of the data sets")
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--cells", type=Path, help="folder of the results of each run; existing results are reused")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    keys = [(data, fold, seed) for data in options.sets for seed in range(options.seeds) for fold in FOLDS]
    found = run_all(cell, keys, options)
    rows = []
    for data in options.sets:
        every = {}  # per row: values (seeds, queries), and the facts of each run
        for name in runs(data, 0):
            seeds = [seed for seed in range(options.seeds) if name in runs(data, seed)]
            results = [[found[data, fold, seed][name] for fold in FOLDS] for seed in seeds]
            values = np.stack([np.concatenate([run["values"] for run in seed]) for seed in results])
            every[name] = values, [*chain(*results)]
        folds = np.repeat(FOLDS, [len(found[data, fold, 0]["softmax"]["values"]) for fold in FOLDS])
        tables = {"same": SAME, "sets": SMOOTHED, "learned": LEARNED} if data == "MQ2008" else {"sets": SMOOTHED}
        rows += [
            {"table": table, "data": data, **each}
            for table in tables
            for each in table_rows(tables[table], every, folds)
        ]
    for each in rows:
        print("  ".join(f"{key}: {value}" for key, value in each.items()), flush=True)
    if options.json:
        facts = {**setting(), **versions(), "params": PARAMS, "budget": BUDGET}
        facts["sets"] = {data: counts(data, options.root) for data in options.sets}
        options.json.write_text(json.dumps({**facts, "rows": rows}, indent=1) + "\n")


def table_rows(table: dict[str, Run], every: dict[str, Any], folds: Any) -> list[dict[str, Any]]:
    """Return a row per run and rival: the mean, its spread over seeds, the difference, and the final scalars."""
    rows = []
    for name, run in table.items():
        values, known = every[name]
        by_seed = 100 * values.mean(1)
        row: dict[str, Any] = {"what": name, "seeds": len(values), "empty zero": by_seed.mean()}
        row["spread"] = by_seed.std(ddof=1) if len(by_seed) > 1 else 0.0
        row["validation"] = 100 * float(np.mean([each["validation"] for each in known]))
        row["trees"] = float(np.mean([each["trees"] for each in known]))
        scalars = {each: [one["learned"][each] for one in known] for each in known[0]["learned"]}
        learned = {
            each: [round(v, 3) for v in (min(all_), float(np.mean(all_)), max(all_))] for each, all_ in scalars.items()
        }
        for rival in run.rivals or (None,):
            tested = {} if rival is None else {"against": rival, **against(values, every[rival][0], folds)}
            line = {key: round(float(v), 6) if isinstance(v, float) else v for key, v in {**row, **tested}.items()}
            rows.append({**line, "learned": learned} if learned else line)
    return rows


def cell(data: str, fold: int, seed: int, root: str) -> dict[str, Any]:
    """Return for each row the test NDCG@10 per query, and facts about the run."""
    import torch

    import rankgrad as rg
    from rankgrad.trees import TreeRanker
    from rankgrad.trees.boosting import boost

    torch.set_num_threads(1)
    train, validation, test = five_folds(data, fold, root)
    found = {}
    for name, run in runs(data, seed).items():
        settings = {**BUDGET, **PARAMS[run.framework], **run.more}
        model = boost(TreeRanker(run.framework, run.loss, seed=seed, **settings).plan(), train, validation)
        scores = model.score(test.features)
        values = rg.metrics.ndcg(scores, test.labels, offsets=test.offsets, k=10, reduction="none").tolist()
        best = model.history[model.metrics["trees"] - 1]
        learned = {scalar: best[scalar] for scalar in model.metrics.get("loss", {})}
        known = {"validation": model.metrics["validation"]["nDCG@10"], "trees": model.metrics["trees"]}
        found[name] = {"values": values, "learned": learned, **known}
    return found


def counts(data: str, root: str) -> dict[str, int]:
    """Return the number of lists of a data set, and of those without a relevant document."""
    tests = [five_folds(data, fold, root)[2] for fold in FOLDS]
    empty = [np.maximum.reduceat(test.labels, test.offsets[:-1]) == 0 for test in tests]
    return {"lists": sum(map(len, tests)), "without a relevant document": int(sum(each.sum() for each in empty))}


if __name__ == "__main__":
    main()
