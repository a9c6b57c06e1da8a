"""Measure the time of training and of its parts: `python benchmarks/training.py [--json FILE]`.

On data with the shape of WEB30K (18,919 lists, 120 documents on average, 136 features), measure an epoch, validation
and a run of the Context-Aware Ranker and of an MLP with 1024 units, on the GPU if there is one; on a CPU with a
twentieth of the lists, unless `--scale` is given. Each part is timed separately, on the batches of an epoch: making
batches, the ranker's matrix products and the optimiser, and the loss; the rest of an epoch is the time of the loop. At
the end, measure one request: a list of 100 documents through a loaded model, and through LightGBM with 300 trees if it
is installed.
"""

import argparse
import json
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from setting import setting

import rankgrad as rg
from rankgrad.data import Dataset
from rankgrad.training import Model, Settings, train
from rankgrad.training.batch_loading import batch_source
from rankgrad.training.batch_schedule import BatchSchedule

MODELS = {
    "context_aware": "context_aware:width=96,blocks=2,heads=1,feed_forward=384,dropout=0.1",
    "mlp 1024": "mlp:widths=1024",
}


def main() -> None:
    """Print the tables; with --json, write them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scale", type=float, help="share of WEB30K's lists")
    parser.add_argument("--epochs", type=int, help="number of epochs of each run")
    parser.add_argument("--model", choices=MODELS, help="only this model")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    cuda = torch.cuda.is_available()
    device = torch.device("cuda" if cuda else "cpu")
    scale = options.scale or (1.0 if cuda else 0.05)
    epochs = options.epochs or (100 if cuda else 3)
    data = rg.data.web30k_shape(scale)
    facts = {**setting(device.type), "lists": len(data.train), "documents": len(data.train.labels), "epochs": epochs}
    print(" ".join(f"{name}: {value};" for name, value in facts.items()))
    runs, steps = [], []
    for name, text in MODELS.items():
        if options.model in (None, name):
            settings = Settings(model=text, loss="approx_ndcg", epochs=epochs, patience=None, device=device.type)
            runs.append({"model": name, **whole_run(settings, data)})
            show(runs[-1])
            steps.append({"model": name, **parts(settings, data.train, device, runs[-1]["epoch"])})
            show(steps[-1])
    requests = [one_request(data.train)]
    show(requests[0])
    if options.json:
        options.json.write_text(
            json.dumps({"setting": facts, "runs": runs, "parts": steps, "requests": requests}, indent=1)
        )


def whole_run(settings: Settings, data: rg.data.Splits) -> dict[str, float]:
    """Return medians over the epochs of one run with validation and checkpoints, in seconds, and its memory."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        model = train(settings, data.train, data.validation, out=Path(folder) / "run")
        total = time.perf_counter() - began
    # The first epochs compile and record.
    late = model.history[min(2, len(model.history) - 1) :]
    if settings.device == "cuda":
        memory = torch.cuda.max_memory_allocated()
    else:
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "first epoch": model.history[0]["seconds"],
        "epoch": statistics.median(row["seconds"] for row in late),
        "validation": statistics.median(row["judge_seconds"] for row in late),
        "run": total,
        "nDCG@10": max(row["nDCG@10"] for row in model.history),
        "peak GB": memory / 1e9,
    }


def parts(settings: Settings, data: Dataset, device: torch.device, epoch: float) -> dict[str, float]:
    """Return the seconds per epoch of each part, and the share of everything but the ranker."""
    steps = rg.data.Preprocessing.parse(settings.preprocess).fit(data)
    name, options = rg.rankers.parse_ranker(settings.model)
    ranker = rg.rankers.build(name, features=data.features.shape[1], **options).to(device)
    loss = rg.losses.parse_loss(settings.loss)
    optimiser = torch.optim.Adam(ranker.parameters(), fused=device.type == "cuda")
    source = batch_source(data, steps, device, data_on="device", weights=None)
    schedule = BatchSchedule(data.labels, data.offsets, 0, settings.batch_size, by_length=ranker.list_aware)
    seconds = {"batches": timed(lambda: sum(1 for _ in source.batches(schedule.steps(1))), device)}
    sample = schedule.steps(1)[:: max(1, len(schedule.steps(1)) // 40)]
    batches = list(source.batches(sample))
    share = len(schedule.steps(1)) / len(sample)
    slopes = [torch.randn_like(batch.labels) for batch in batches]
    scores = [torch.randn_like(batch.labels).requires_grad_() for batch in batches]

    def products() -> None:
        for batch, slope in zip(batches, slopes, strict=True):
            optimiser.zero_grad()
            ranker(batch.features, batch.offsets, width=batch.width).backward(slope)
            optimiser.step()

    def losses() -> None:
        for batch, score in zip(batches, scores, strict=True):
            score.grad = None
            loss(score, batch.labels, offsets=batch.offsets, reduction="none").sum().backward()

    seconds["ranker and optimiser"] = share * timed(products, device)
    seconds["loss"] = share * timed(losses, device)
    seconds["all but the ranker, share of the epoch"] = 1.0 - seconds["ranker and optimiser"] / epoch
    return seconds


def timed(work: Callable[[], object], device: torch.device, repeats: int = 3) -> float:
    """Return the median time of some repeats, after one to warm up."""
    times = []
    for _ in range(repeats + 1):
        if device.type == "cuda":
            torch.cuda.synchronize()
        began = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return statistics.median(times[1:])


def one_request(data: Dataset) -> dict[str, float]:
    """Measure the microseconds of one list of 100 documents on the CPU, with one thread, after one request."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    rows = np.ascontiguousarray(data.features[:100])
    settings = Settings(model="mlp:widths=1024", epochs=1, device="cpu")
    small = replace(data, best=None).take(slice(0, 50))
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        train(settings, small, out=Path(folder) / "run")
        began = time.perf_counter()
        model = Model.load(Path(folder) / "run")
        found["load, ms"] = 1e3 * (time.perf_counter() - began)
    calls: dict[str, Callable[[], object]] = {"mlp 1024": lambda: model.score(rows)}
    try:
        import lightgbm

        booster = lightgbm.LGBMRanker(n_estimators=300, num_leaves=31, min_child_samples=5, verbose=-1)
        booster.fit(small.features, small.labels, group=small.lengths)
        calls["LightGBM 300 trees"] = lambda: booster.booster_.predict(rows, num_threads=1)
    except ImportError:
        print("LightGBM is not installed: its time is not measured")
    for name, call in calls.items():
        began = time.perf_counter()
        call()
        found[f"{name}, first us"] = 1e6 * (time.perf_counter() - began)
        times = []
        for _ in range(2000):
            began = time.perf_counter()
            call()
            times.append(1e6 * (time.perf_counter() - began))
        found[f"{name}, p50 us"], found[f"{name}, p99 us"] = np.percentile(times, [50, 99]).tolist()
    torch.set_num_threads(threads)
    return found


def show(row: dict[str, float | str]) -> None:
    """Print a row in one line."""
    print(
        "  ".join(f"{name}: {value if isinstance(value, str) else format(value, '.4g')}" for name, value in row.items())
    )


if __name__ == "__main__":
    main()
