"""Quality with missing values: `python benchmarks/missing_values.py [--jobs 2] [--json FILE]`.

Values of generated lists are removed, in training, validation and test lists alike: either at random, or large values
more often than small ones, so that a missing value says something. Networks with each treatment of missing values, and
trees, are trained with the same loss. Values are nDCG@10 of the test lists, means over the seeds; a seed determines
lists, removed values and training. Intervals are 95% t intervals over the seeds.

Expected: all rankers lose little if few values are missing at random; `indicator` is better than `mean` if large values
are missing more often.
"""

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from setting import setting

LISTS, FEATURES, LENGTH = 400, 20, 20
SHARES = (0.0, 0.1, 0.25, 0.4)
CAUSES = ("at random", "large values more often")
RANKERS: dict[str, dict[str, Any]] = {
    f"network, {treatment}": {
        "model": "mlp:widths=64-32",
        "lr": 0.003,
        "epochs": 60,
        "patience": 15,
        "missing": treatment,
    }
    for treatment in ("zero", "mean", "indicator")
} | {
    "LightGBM": {
        "model": "lightgbm",
        "trees": 300,
        "patience": 50,
        "num_leaves": 15,
        "learning_rate": 0.05,
        "threads": 1,
    },
    "XGBoost": {"model": "xgboost", "trees": 300, "patience": 50, "max_depth": 4, "eta": 0.05, "threads": 1},
}
LOSS = "softmax"


def without(features: np.ndarray, share: float, cause: str, rng: np.random.Generator) -> np.ndarray:
    """Return features of which a share is NaN, in each column."""
    chance = np.full(features.shape, share)
    if cause == CAUSES[1]:
        ranks = stats.rankdata(features, axis=0, method="average") / len(features)
        chance = 2 * share * ranks  # its mean is `share`
    return np.where(rng.random(features.shape) < chance, np.nan, features).astype(np.float32)


def cell(ranker: str, cause: str, share: float, seed: int) -> float:
    """Train a ranker, and return its nDCG@10 on the test lists."""
    import torch

    import rankgrad as rg

    torch.set_num_threads(1)
    data = rg.data.synthetic(LISTS, features=FEATURES, mean_length=LENGTH, seed=seed)
    rng = np.random.default_rng(seed)
    train, held, test = (
        replace(part, features=without(np.asarray(part.features), share, cause, rng))
        for part in (data.train, data.validation, data.test)
    )
    settings = {**RANKERS[ranker], "loss": LOSS, "seed": seed}
    if share == 0:
        settings.pop("missing", None)
    model = rg.models.kind_of(settings["model"]).fit(settings, train, held)
    return float(model.evaluate(test, ["nDCG(empty='skip')@10"])["nDCG(empty='skip')@10"])


def main() -> None:
    """Train all cells, print one row per ranker, cause and share, and write them with --json."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    keys = [(ranker, cause, share) for ranker in RANKERS for cause in CAUSES for share in SHARES]
    with ProcessPoolExecutor(options.jobs) as pool:
        cells = {key: [pool.submit(cell, *key, seed) for seed in range(options.seeds)] for key in keys}
        rows = []
        for (ranker, cause, share), found in cells.items():
            values = [each.result() for each in found]
            low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
            row = {"ranker": ranker, "cause": cause, "share": share, "ndcg": round(float(np.mean(values)), 5)}
            row |= {"low": round(float(low), 5), "high": round(float(high), 5)}
            rows.append(row | {"values": [round(value, 5) for value in values]})
            print(f"{ranker:20} {cause:24} {share:.0%} {row['ndcg']:.4f} [{low:.4f}, {high:.4f}]", flush=True)
    if options.json:
        facts = {**setting(), "lists": LISTS, "features": FEATURES, "seeds": options.seeds, "loss": LOSS}
        options.json.write_text(json.dumps({**facts, "rankers": RANKERS, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
