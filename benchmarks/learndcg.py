"""LearnDCG's scalars on MQ2008: `python benchmarks/learndcg.py noise|curves|cost [--root DIR] [--json FILE]`.

`noise`: b_d of the published form, computed as in the paper, where only rounding moves it. `curves`: the scalars over
the epochs, trained jointly and with held-out lists. `cost`: seconds per epoch of each, in one run.
"""

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import torch
from setting import setting
from torch import Tensor

import rankgrad as rg
from rankgrad.lists import as_lists
from rankgrad.relax.sigmoid_ranks import pairwise_ranks
from rankgrad.training.batch_loading import DeviceData
from rankgrad.training.batch_schedule import BatchSchedule

SCALARS = ("gain_base", "discount_base", "alpha")
# Learning rate and batch size of the paper; the scalars have a larger rate, to move far enough in these epochs.
RUN = {"model": "mlp:widths=64-32", "lr": 1e-3, "loss_lr": 1e-2, "batch_size": 32, "epochs": 100, "patience": None}
EVERY = 5  # number of epochs between two points of a curve
LOSSES = {
    "fixed": "learndcg:learn=none",
    "joint, printed discount": "learndcg",
    "joint, curved discount": "learndcg:discount=curved",
    "heldout, curved discount": "learndcg:discount=curved,adapt=heldout",
}
MODELS = {"mlp": "mlp:widths=64-32", "context_aware": "context_aware:width=64,blocks=2,heads=2,feed_forward=128"}
NDCG = "nDCG@10"


def main() -> None:
    """Measure, print, and write with --json."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("noise", "curves", "cost"))
    parser.add_argument("--root", default="../shared/data", help="folder of MQ2008")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    facts = {**setting(), **MEASURES[options.what](options.root, options.seeds)}
    if options.json:
        options.json.write_text(json.dumps(facts, indent=None, separators=(",", ":")).replace("},{", "},\n{") + "\n")


def noise(root: str, seeds: int) -> dict[str, Any]:
    """Measure curves of b_d with the ratio computed naively in float32, and the size of its gradient."""
    data = rg.data.load("MQ2008", fold=1, root=root).train
    source = DeviceData(data, rg.data.Preprocessing.parse("standardise").fit(data), None, torch.device("cpu"))
    rows, sizes = [], []
    for seed in range(seeds):
        torch.manual_seed(seed)
        ranker, loss = rg.rankers.build("mlp", features=data.features.shape[1], widths=[64, 32]), Naive()
        groups = [{"params": [*ranker.parameters()]}, {"params": [*loss.parameters()], "lr": RUN["loss_lr"]}]
        optimiser = torch.optim.Adam(groups, lr=RUN["lr"])
        schedule = BatchSchedule(np.asarray(data.labels), np.asarray(data.offsets), seed, RUN["batch_size"])
        curve = [2.0]
        for epoch in range(RUN["epochs"]):
            for batch in source.batches(schedule.steps(epoch)):
                optimiser.zero_grad()
                scores = ranker(batch.features, batch.offsets, width=batch.width)
                loss(scores, batch.labels, offsets=batch.offsets).backward()
                sizes.append(abs(float(loss.raw_discount.grad)))
                optimiser.step()
            curve.append(loss.learned()["discount_base"])
        rows.append({"seed": seed, "discount_base": _thin(curve)})
        print(f"seed {seed}: b_d ends at {curve[-1]:.3f}, between {min(curve):.3f} and {max(curve):.3f}", flush=True)
    print(f"median size of the gradient of b_d's parameter: {statistics.median(sizes):.1e}")
    return {"run": RUN, "every": EVERY, "gradient": statistics.median(sizes), "rows": rows}


class Naive(rg.losses.LearnDCG):
    """LearnDCG as published, with ln(b_d) in numerator and denominator: not the same in floating point."""

    def forward(self, scores: Tensor, labels: Tensor, *, offsets: Tensor) -> Tensor:  # type: ignore[override]
        """Return the mean over the lists."""
        lists = as_lists(scores, labels, offsets=offsets)
        gain = torch.where(lists.mask, self.gain_base**lists.labels - 1, 0.0)
        ranks = pairwise_ranks(lists.scores, lists.mask, self.alpha)
        places = torch.arange(1.0, gain.shape[-1] + 1)
        dcg = (gain / (torch.log(1 + ranks) / torch.log(self.discount_base))).sum(-1)
        best = gain.sort(-1, descending=True).values / (torch.log(1 + places) / torch.log(self.discount_base))
        ideal = best.sum(-1)
        return -torch.where(ideal > 0, dcg / torch.where(ideal > 0, ideal, 1.0), 0.0).mean()


def curves(root: str, seeds: int) -> dict[str, Any]:
    """Measure the scalars every few epochs on five folds, and the test metric of the epoch chosen by validation."""
    rows = []
    for name, loss in LOSSES.items():
        for fold in range(1, 6):
            data = rg.data.load("MQ2008", fold=fold, root=root)
            for seed in range(seeds):
                settings = rg.training.Settings(**RUN, loss=loss, seed=seed, device="cpu")
                model = rg.training.train(settings, data.train, data.validation)
                begin = rg.losses.parse_loss(loss).learned()
                found = {each: _thin([begin[each], *(row[each] for row in model.history)]) for each in SCALARS}
                kept = {} if name == "fixed" else found
                test = 100 * float(model.evaluate(data.test, [NDCG])[NDCG])
                rows.append({"name": name, "fold": fold, "seed": seed, NDCG: round(test, 3), **kept})
        group = [row for row in rows if row["name"] == name]
        ends = {each: [row[each][-1] for row in group if each in row] for each in SCALARS}
        ranges = ", ".join(f"{each} {min(end):.2f} to {max(end):.2f}" for each, end in ends.items() if end)
        print(f"{name}: {NDCG} {statistics.mean(row[NDCG] for row in group):.2f}; {ranges}", flush=True)
    return {"run": RUN, "losses": LOSSES, "every": EVERY, "seeds": seeds, "rows": rows}


def cost(root: str, rounds: int) -> dict[str, Any]:
    """Measure the median seconds per epoch, each loss in turn, several times."""
    data, rows = rg.data.load("MQ2008", fold=1, root=root), []
    for model, text in MODELS.items():
        seconds: dict[str, list[float]] = {name: [] for name in LOSSES}
        for _ in range(rounds + 1):
            for name, loss in LOSSES.items():
                known = {**RUN, "model": text, "epochs": 4}
                trained = rg.training.train(rg.training.Settings(**known, loss=loss, device="cpu"), data.train)
                seconds[name].append(min(row["seconds"] for row in trained.history))
        for name, found in seconds.items():
            middle = statistics.median(found[1:])  # the first round compiles
            ratio = statistics.median(a / b for a, b in zip(found[1:], seconds["fixed"][1:], strict=True))
            rows.append({"model": model, "name": name, "seconds": round(middle, 4), "ratio": round(ratio, 2)})
            print(f"{model}, {name}: {middle:.3f} s per epoch, {ratio:.2f} of fixed", flush=True)
    return {"run": RUN, "models": MODELS, "rounds": rounds, "rows": rows}


def _thin(curve: list[float]) -> list[float]:
    return [round(value, 4) for value in curve[::EVERY]]


MEASURES = {"noise": noise, "curves": curves, "cost": cost}

if __name__ == "__main__":
    main()
