"""Calibration on MQ2008 and OHSUMED, label > 0: `python studies/calibration/measure.py [--root DIR] [--json FILE]`.

An mlp is trained with each loss on each fold; the validation lists choose the epoch by nDCG@10, and then fit the
calibration. ECE is that of the test documents of all folds together, with 15 bins. Uncalibrated probabilities are the
sigmoids of the scores. Values are means over the seeds; intervals are percentile bootstrap
intervals over the queries, extended to contain the value.

Expected: calibrated softmax has an ECE of at most that of bce + 0.01, and its nDCG@10 is that of softmax.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from setting import setting

SETS = ("MQ2008", "OHSUMED")
LOSSES = ("softmax", "bce", "0.5*softmax+0.5*bce", "0.5*bce+0.5*listce")
FORMS = ("none", "platt", "isotonic")
SETTINGS: dict[str, Any] = {"model": "mlp:widths=64-32", "lr": 1e-2, "epochs": 100, "patience": 15}
SAMPLES = 2000


def main() -> None:
    """Train all cells, print one row per data set, loss and form of calibration, and write them with --json."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--root", default="../shared/data", help="folder of the data sets")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    began, rows = time.perf_counter(), []
    for name in SETS:
        found = {
            loss: [
                [cell(name, loss, fold, seed, options.root) for fold in range(1, 6)] for seed in range(options.seeds)
            ]
            for loss in LOSSES
        }
        for row in summary(name, found):
            rows.append(row)
            print("  ".join(f"{key}: {value}" for key, value in row.items()), flush=True)
    print(f"{(time.perf_counter() - began) / 60:.1f} minutes")
    if options.json:
        facts = {**setting(), "seeds": options.seeds, "settings": SETTINGS, "samples": SAMPLES, "rows": rows}
        options.json.write_text(json.dumps(facts, indent=1) + "\n")


def cell(name: str, loss: str, fold: int, seed: int, root: str) -> dict[str, Any]:
    """Train one ranker; return nDCG@10 per test list, and labels and probabilities of the test documents."""
    from dataclasses import replace

    import torch

    import rankgrad as rg
    from rankgrad.models.calibration import fit_calibration

    torch.set_num_threads(1)
    data = rg.data.load(name, fold=fold, root=root)
    train, held, test = (
        replace(part, labels=(np.asarray(part.labels) > 0).astype(np.float32))
        for part in (data.train, data.validation, data.test)
    )
    settings = rg.training.Settings(**SETTINGS, loss=loss, seed=seed, device="cpu")
    model = rg.training.train(settings, train, held)
    scores, chosen = model.score_lists(test).astype(np.float64), model.score_lists(held)
    shown = {"none": 1 / (1 + np.exp(-scores))}
    for method in FORMS[1:]:
        shown[method] = fit_calibration(chosen, held, method=method).values(scores)
    ndcg = model.evaluate(test, ["nDCG@10"]).values["nDCG@10"]
    return {"ndcg": ndcg, "labels": np.asarray(test.labels), "lengths": test.lengths, "shown": shown}


def summary(name: str, found: dict[str, list[list[dict[str, Any]]]]) -> list[dict[str, Any]]:
    """Return the rows of a data set, with differences from bce (ECE) and from softmax (nDCG@10)."""
    from rankgrad.models.reliability import BINS, containing_interval, equal_bins, list_sums, resampled

    first = found[LOSSES[0]][0]
    lengths = np.concatenate([part["lengths"] for part in first])
    labels = np.concatenate([part["labels"] for part in first]) > 0
    owner, lists = np.repeat(np.arange(len(lengths)), lengths), len(lengths)
    drawn = resampled(lists, SAMPLES, 0)
    documents = drawn @ lengths
    ece: dict[tuple[str, str], tuple[float, Any]] = {}
    gain: dict[str, tuple[float, Any]] = {}
    for loss, seeds in found.items():
        values = np.mean([np.concatenate([part["ndcg"] for part in parts]) for parts in seeds], axis=0)
        gain[loss] = float(values.mean()), drawn @ values / lists
        for form in FORMS:
            each = []
            for parts in seeds:
                shown = np.concatenate([part["shown"][form] for part in parts])
                gaps = list_sums(shown - labels, owner, equal_bins(shown, BINS), lists)
                each.append((np.abs(gaps.sum(0)).sum() / len(labels), np.abs(drawn @ gaps).sum(1) / documents))
            ece[loss, form] = float(np.mean([one for one, _ in each])), np.mean([many for _, many in each], axis=0)
    rows = []
    base, best = ece["bce", "none"], gain["softmax"]
    for (loss, form), (value, samples) in ece.items():
        ends = np.quantile(gain[loss][1], [0.025, 0.975])
        change, changes = gain[loss][0] - best[0], np.quantile(gain[loss][1] - best[1], [0.025, 0.975])
        middle = value - base[0]
        row: dict[str, Any] = {"data": name, "loss": loss, "calibration": form, "ece": value}
        row |= {"ece interval": containing_interval(value, samples), "ece minus bce": middle}
        row |= {"ece minus bce interval": containing_interval(middle, samples - base[1])}
        row |= {"ndcg": gain[loss][0], "ndcg interval": ends, "ndcg minus softmax": change}
        row |= {"ndcg minus softmax interval": changes}
        rows.append({key: _rounded(each) for key, each in row.items()})
    return rows


def _rounded(value: Any) -> Any:
    if isinstance(value, str):
        return value
    return round(value, 5) if isinstance(value, float) else [round(float(each), 5) for each in value]


if __name__ == "__main__":
    main()
