"""Quality with missing values: `python studies/missing-values/measure.py [--root DIR] [--jobs 2] [--json FILE]`.

Values are removed from training, validation and test lists alike: either at random, or large values more often than
small ones, so that a missing value says something about the document. Networks with each treatment of missing values,
and trees, are trained with the same loss. Results are nDCG@10 of the test lists, without lists that have no relevant
document: means over the seeds, with 95% t intervals. A seed determines lists (generated lists) or fold (MQ2008),
removed values and training. One row has indicators with the value 1 instead of the default.

Expected: all rankers lose little if few values are missing at random; `indicator` is better than `mean` if large values
are missing more often.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from setting import setting

LISTS, FEATURES, LENGTH, FOLDS = 400, 20, 20, 5
SOURCES = ("generated", "MQ2008")
SHARES = (0.0, 0.1, 0.25, 0.4)
CAUSES = ("at random", "large values more often")
NETWORK = {"model": "mlp:widths=64-32", "lr": 0.003, "epochs": 60, "patience": 15}
TREES = {"trees": 300, "patience": 50, "threads": 1}
RANKERS: dict[str, dict[str, Any]] = {
    "network, zero": {**NETWORK, "missing": "zero"},
    "network, mean": {**NETWORK, "missing": "mean"},
    "network, indicator": {**NETWORK, "missing": "indicator"},
    "network, indicator with the value 1": {**NETWORK, "missing": "indicator", "indicated": 1.0},
    "LightGBM": {"model": "lightgbm", **TREES, "num_leaves": 15, "learning_rate": 0.05},
    "XGBoost": {"model": "xgboost", **TREES, "max_depth": 4, "eta": 0.05},
}
LOSS, METRIC = "softmax", "nDCG(empty='skip')@10"


def without(features: np.ndarray, share: float, cause: str, rng: np.random.Generator) -> np.ndarray:
    """Return features of which a share is NaN, in each column."""
    chance: Any = share
    if cause == CAUSES[1]:
        ranks = stats.rankdata(features, axis=0, method="average") / len(features)
        chance = 2 * share * ranks  # its mean is `share`
    return np.where(rng.random(features.shape) < chance, np.nan, features).astype(np.float32)


def parts(source: str, seed: int, root: str) -> Iterator[Any]:
    """Yield the training, validation and test lists."""
    import rankgrad as rg

    if source == "generated":
        data = rg.data.synthetic(LISTS, features=FEATURES, mean_length=LENGTH, seed=seed)
    else:
        data = rg.data.load(source, fold=1 + seed % FOLDS, root=root)
    yield from (data.train, data.validation, data.test)


def cell(source: str, ranker: str, cause: str, share: float, seed: int, root: str) -> float:
    """Train a ranker, and return its nDCG@10 on the test lists."""
    import torch

    import rankgrad as rg
    from rankgrad.data.preprocessing import missing_values

    torch.set_num_threads(1)
    rng = np.random.default_rng(seed)
    train, held, test = (
        replace(part, features=without(np.asarray(part.features), share, cause, rng))
        for part in parts(source, seed, root)
    )
    settings = {**RANKERS[ranker], "loss": LOSS, "seed": seed}
    shipped = missing_values.INDICATED
    missing_values.INDICATED = settings.pop("indicated", shipped)
    try:
        model = rg.models.kind_of(settings["model"]).fit(settings, train, held)
        return float(model.evaluate(test, [METRIC])[METRIC])
    finally:
        missing_values.INDICATED = shipped


def main() -> None:
    """Train all cells, print one row per source, ranker, cause and share, and write them with --json."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--root", default="../shared/data", help="folder of the data sets")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    keys = [(*key, share) for key in ((s, r, c) for s in SOURCES for r in RANKERS for c in CAUSES) for share in SHARES]
    with ProcessPoolExecutor(options.jobs) as pool:
        cells = {key: [pool.submit(cell, *key, seed, options.root) for seed in range(options.seeds)] for key in keys}
        rows = []
        for (source, ranker, cause, share), found in cells.items():
            values = [each.result() for each in found]
            low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
            row = {"source": source, "ranker": ranker, "cause": cause, "share": share}
            row |= {
                "ndcg": round(float(np.mean(values)), 5),
                "low": round(float(low), 5),
                "high": round(float(high), 5),
            }
            rows.append(row | {"values": [round(value, 5) for value in values]})
            print(
                f"{source:10} {ranker:36} {cause:24} {share:4.0%} {row['ndcg']:.4f} [{low:.4f}, {high:.4f}]", flush=True
            )
    if options.json:
        facts = {**setting(), "lists": LISTS, "features": FEATURES, "seeds": options.seeds, "loss": LOSS}
        options.json.write_text(json.dumps({**facts, "rankers": RANKERS, "rows": rows}) + "\n")


if __name__ == "__main__":
    main()
