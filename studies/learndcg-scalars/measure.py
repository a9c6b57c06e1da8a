"""LearnDCG's scalars on MQ2008: `python studies/learndcg-scalars/measure.py noise|frozen|curves|cost [--json FILE]`.

`noise`: b_d of the published form, computed as in the paper, where only rounding moves it; at two learning rates.
`frozen`: the loss of a trained ranker whose scores do not change, for several values of the scalars. `curves`: the
scalars over the epochs, trained jointly and with held-out lists. `cost`: seconds per epoch of each, in one run.
"""

import argparse
import itertools
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from setting import setting
from torch import Tensor

import rankgrad as rg
from rankgrad.lists import as_lists
from rankgrad.parallel.process_pool import Pool, Task
from rankgrad.relax.sigmoid_ranks import pairwise_ranks
from rankgrad.training.batch_loading import DeviceData
from rankgrad.training.batch_schedule import BatchSchedule

SCALARS = ("gain_base", "discount_base", "alpha")
# Learning rate and batch size of the paper; the scalars have a larger rate, to move far enough in these epochs.
RUN = {"model": "mlp:widths=64-32", "lr": 1e-3, "loss_lr": 1e-2, "batch_size": 32, "epochs": 100, "patience": None}
EVERY = 5  # number of epochs between two points of a curve
# Two walks of b_d. The second has the rate of the paper and its number of steps: 100 epochs of 6,000 lists (WEB10K), in
# batches of 32.
WALKS = ({"loss_lr": 1e-2, "steps": 1_500, "seeds": 5}, {"loss_lr": 1e-3, "steps": 18_750, "seeds": 3})
POINTS = 20  # number of points of a walk
SETS = ("MQ2008", "OHSUMED")
FROZEN = {  # values of each scalar while the two others keep their initial values
    "gain_base": (2.0, 1.5, 1.1, 1.01),
    "alpha": (1.0, 2.0, 4.0),
    "discount_base": (2.0, 4.0, 8.0),
}
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
    parser.add_argument("what", choices=("noise", "frozen", "curves", "cost"))
    parser.add_argument("--root", default="../shared/data", help="folder of MQ2008 and OHSUMED")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=1, help="number of processes; only for noise")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    more = {"jobs": options.jobs} if options.what == "noise" else {}
    facts = {**setting(), **MEASURES[options.what](options.root, options.seeds, **more)}
    if options.json:
        options.json.write_text(json.dumps(facts, indent=None, separators=(",", ":")).replace("},{", "},\n{") + "\n")


def noise(root: str, seeds: int, jobs: int = 1) -> dict[str, Any]:
    """Measure walks of b_d with the ratio computed naively in float32, and the size of its gradient."""
    tasks = [
        Task(f"{place} {seed}", walk, (root, seed, settings))
        for place, settings in reversed([*enumerate(WALKS)])
        for seed in range(min(seeds, settings["seeds"]))
    ]
    found: dict[tuple[int, int], Any] = {}
    with Pool(jobs) as pool:
        for done in pool.run(tasks):
            if done.error:
                raise RuntimeError(done.error)
            place, seed = map(int, done.task.name.split())
            found[place, seed] = done.value
            curve = done.value["discount_base"]
            print(f"{WALKS[place]}, seed {seed}: b_d {min(curve):.3f} to {max(curve):.3f}, at the end {curve[-1]:.3f}")
    walks = []
    for place, settings in enumerate(WALKS):
        rows = [found[place, seed] for seed in range(min(seeds, settings["seeds"]))]
        size = statistics.median(row.pop("gradient") for row in rows)
        print(f"{settings}: median size of the gradient of b_d's parameter: {size:.1e}")
        walks.append({**settings, "gradient": size, "rows": rows})
    return {"run": RUN, "walks": walks}


def walk(root: str, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Measure one walk of b_d: its values at equal distances, and the median size of the gradient of its parameter."""
    torch.set_num_threads(1)
    data = rg.data.load("MQ2008", fold=1, root=root).train
    source = DeviceData(data, rg.data.Preprocessing.parse("standardise").fit(data), None, torch.device("cpu"))
    torch.manual_seed(seed)
    ranker, loss = rg.rankers.build("mlp", features=data.features.shape[1], widths=[64, 32]), Naive()
    groups = [{"params": [*ranker.parameters()]}, {"params": [*loss.parameters()], "lr": settings["loss_lr"]}]
    optimiser = torch.optim.Adam(groups, lr=RUN["lr"])
    schedule = BatchSchedule(np.asarray(data.labels), np.asarray(data.offsets), seed, RUN["batch_size"])
    curve, sizes, between = [2.0], [], settings["steps"] // POINTS
    batches = (batch for epoch in itertools.count() for batch in source.batches(schedule.steps(epoch)))
    for step, batch in enumerate(itertools.islice(batches, settings["steps"]), start=1):
        optimiser.zero_grad()
        scores = ranker(batch.features, batch.offsets, width=batch.width)
        loss(scores, batch.labels, offsets=batch.offsets).backward()
        sizes.append(abs(float(loss.raw_discount.grad)))
        optimiser.step()
        if step % between == 0:
            curve.append(round(loss.learned()["discount_base"], 4))
    return {"seed": seed, "discount_base": curve, "gradient": statistics.median(sizes)}


def frozen(root: str, seeds: int) -> dict[str, Any]:
    """Measure the surrogate of training lists for several values of each scalar; the scores do not change."""
    rows, every = [], []
    for name in SETS:
        for fold in range(1, 6):
            data = rg.data.load(name, fold=fold, root=root)
            for seed in range(seeds):
                run = {**RUN, "patience": 20, "batch_size": 32 if name == "MQ2008" else 8}
                settings = rg.training.Settings(**run, loss=LOSSES["fixed"], seed=seed, device="cpu")
                model = rg.training.train(settings, data.train, data.validation)
                scores = model.score(data.train.features, data.train.offsets)
                for scalar, values in FROZEN.items():
                    surrogate = [_surrogate(scores, data.train, {scalar: value}) for value in values]
                    every.append({"data": name, "scalar": scalar, "surrogate": surrogate})
        for scalar, values in FROZEN.items():
            runs = [each["surrogate"] for each in every if (each["data"], each["scalar"]) == (name, scalar)]
            means = [round(statistics.mean(column), 5) for column in zip(*runs, strict=True)]
            rises = sum(run[-1] > run[0] for run in runs)
            rows.append({"data": name, "scalar": scalar, "values": values, "surrogate": means})
            rows[-1] |= {"runs": len(runs), "higher at the end": rises}
            shown = ", ".join(f"{value:g}: {mean:.3f}" for value, mean in zip(values, means, strict=True))
            print(f"{name}, {scalar}: {shown}; higher at the end in {rises} of {len(runs)} runs", flush=True)
    return {"run": RUN, "seeds": seeds, "rows": rows}


def _surrogate(scores: Any, lists: Any, scalars: dict[str, float]) -> float:
    """Return the smooth NDCG of LearnDCG with the curved discount: the mean over the lists with a relevant document."""
    loss = rg.losses.LearnDCG(discount="curved", **scalars)
    with torch.no_grad():
        return -float(loss(torch.as_tensor(scores), torch.as_tensor(np.asarray(lists.labels)), offsets=lists.offsets))


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


MEASURES = {"noise": noise, "frozen": frozen, "curves": curves, "cost": cost}

if __name__ == "__main__":
    main()
