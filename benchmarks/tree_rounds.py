"""Time a boosting round with our objective and LightGBM's: `python benchmarks/tree_rounds.py [--lists N] [--json F]`.

The data has the shape of WEB30K (18,919 lists, 136 features); truncation is at 30. All boosters use the same bins, in
turns, so other programs slow all of them. The first trees are compared; no time is printed if they differ.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import lightgbm as lgb
import numpy as np
import torch
from setting import setting

import rankgrad as rg
from rankgrad.trees import objective as make

NATIVE = {"objective": "lambdarank", "lambdarank_truncation_level": 30, "lambdarank_norm": False}
OURS = {"same loss": "lambdaloss@30:scheme=ndcg2pp,mu=0", "lambdarank@30": "lambdarank@30", "softmax": "softmax"}
SHARED = {"verbosity": -1, "num_leaves": 255, "learning_rate": 0.1, "min_data_in_leaf": 50, "metric": "None"}


def main() -> None:
    """Check, time, print, and write with --json."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lists", type=int, default=18_919)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    data = made(options.lists)
    shared = SHARED | {"num_threads": torch.get_num_threads()}
    lists = lgb.Dataset(data.features, data.labels, group=data.lengths, params=shared, free_raw_data=False)
    objectives = {name: make(loss) for name, loss in OURS.items()}
    native = lgb.Booster(shared | NATIVE, lists)
    ours = {name: lgb.Booster(shared | {"objective": "none"}, lists) for name in objectives}
    check(native, ours["same loss"], objectives["same loss"], data)
    seconds: dict[str, list[float]] = {name: [] for name in ("native", *objectives)}
    inside: dict[str, list[float]] = {name: [] for name in objectives}
    for _ in range(options.rounds):
        began = time.perf_counter()
        native.update()
        seconds["native"].append(time.perf_counter() - began)
        for name, booster in ours.items():
            objective = timed(objectives[name], inside[name])
            began = time.perf_counter()
            booster.update(fobj=objective)
            seconds[name].append(time.perf_counter() - began)
    rows = [{"objective": "native lambdarank", "seconds": statistics.median(seconds["native"]), "ratio": 1.0}]
    for name, loss in OURS.items():
        ratio = statistics.median(a / b for a, b in zip(seconds[name], seconds["native"], strict=True))
        row = {"objective": loss, "seconds": statistics.median(seconds[name]), "ratio": ratio}
        rows.append(row | {"in the objective": statistics.median(inside[name])})
    for row in rows:
        print("  ".join(f"{key}: {v:.3f}" if isinstance(v, float) else f"{key}: {v}" for key, v in row.items()))
    if options.json:
        facts = setting() | {"lists": len(data), "documents": len(data.labels), "lightgbm": lgb.__version__}
        options.json.write_text(json.dumps({**facts, "rounds": options.rounds, "rows": rows}, indent=1) + "\n")


def made(lists: int) -> rg.data.Dataset:
    """Return lists with the lengths of WEB30K, 136 features, and labels that depend on the first few."""
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.lognormal(4.65, 0.55, lists), 1, 1251).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    features = rng.standard_normal((offsets[-1], 136), dtype=np.float32)
    noisy = features[:, :5].sum(1) + 2 * rng.standard_normal(offsets[-1], dtype=np.float32)
    labels = np.digitize(noisy, [0.2, 1.8, 4.2, 6.2]).astype(np.float32)  # about the shares of labels 0 to 4 in WEB30K
    return rg.data.Dataset(features, labels, offsets, np.arange(lists))


def check(native: lgb.Booster, ours: lgb.Booster, objective: object, data: rg.data.Dataset) -> None:
    """Check that one round of each gives the same scores."""
    native.update()
    ours.update(fobj=timed(objective, []))
    some = data.features[: data.offsets[200]]
    a, b = (booster.predict(some, raw_score=True) for booster in (native, ours))
    if not np.allclose(a, b, atol=1e-3):
        raise SystemExit(f"the first trees differ by {np.abs(a - b).max():.2g}: no times are printed")


def timed(objective: object, seconds: list[float]) -> object:
    """Return the objective in the form for `Booster.update`; it stores its times in `seconds`."""

    def call(scores: np.ndarray, lists: lgb.Dataset) -> object:
        began = time.perf_counter()
        found = objective(lists.get_label(), scores, None, lists.get_group())
        seconds.append(time.perf_counter() - began)
        return found

    return call


if __name__ == "__main__":
    main()
