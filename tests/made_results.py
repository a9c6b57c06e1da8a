"""Results of an experiment that nobody ran: the files of a results folder, with made-up scores."""

import json
from dataclasses import asdict
from functools import cache
from pathlib import Path

import numpy as np
import yaml

from rankgrad.experiments import load_recipe
from rankgrad.experiments.recipes.data_sets import read_recipe_data
from rankgrad.experiments.runs import results
from rankgrad.experiments.runs.cell import FORMAT
from rankgrad.metrics import evaluate

DATA = ("synthetic:lists=40,features=10,seed=1", "synthetic:lists=40,features=10,seed=2")
LOSSES = {"LearnDCG": "learndcg", "LambdaLoss": "lambdaloss", "Softmax": "softmax", "MSE": "mse"}
MODELS = {"MLP": {"model": "mlp:widths=16"}, "Linear": {"model": "linear"}}
METRICS = ("nDCG(empty='one')@10", "nDCG(empty='one')@5")
RATES = (0.0003, 0.001, 0.003, 0.01)


def make(
    folder, *, data=DATA, folds="all", models=MODELS, losses=LOSSES, seeds=(0, 1), rates=RATES, epochs=12, root=None,
    scores=True, title="A made-up study", answers=None,
):  # fmt: skip
    """Write a results folder and give it back."""
    folder = Path(folder)
    (folder / "cells").mkdir(parents=True)
    raw = {
        "title": title, "answers": answers, "data": list(data), "folds": folds, "models": models, "losses": losses,
        "settings": {"epochs": epochs, "batch_size": 32}, "search": {"lr": list(rates)}, "trials": len(rates),
        "choose": "nDCG@10", "seeds": list(seeds), "metrics": list(METRICS),
        "tests": {"test": "t", "correction": "bonferroni", "level": 0.05, "against": "best"},
        "notes": "Nothing here was trained: scores are the labels, under noise.",
    }  # fmt: skip
    (folder / "recipe.yaml").write_text(yaml.safe_dump(raw, sort_keys=False))
    recipe = load_recipe(folder / "recipe.yaml")
    places = {row: place for place, row in enumerate((model, loss) for model in models for loss in losses)}
    for cell in recipe.cells_to_tune():
        _tuned(folder, cell, places[cell.model, cell.loss], epochs)
    tests = cache(lambda name, fold: read_recipe_data(name, fold=fold, root=root).test)
    for cell in recipe.final_cells(recipe.chosen(results.read_results(folder).tuned())):
        _final(folder, cell, tests(cell.data, cell.fold), places[cell.model, cell.loss], epochs, scores)
    return folder


def _tuned(folder, cell, place, epochs):
    generator = np.random.default_rng(int(cell.key, 16))
    away = np.log10(cell.settings["lr"]) - np.log10(RATES[1 + place % 3])
    best = 0.6 - 0.04 * away**2 + generator.normal(0, 0.004)
    _write(folder, cell, best, {}, epochs, generator)


def _final(folder, cell, test, place, epochs, keep):
    generator = np.random.default_rng(int(cell.key, 16))
    scores = test.labels + generator.normal(0, 0.8 + 0.15 * place, len(test.labels))
    scores = scores.astype(np.float32)
    found = evaluate(scores, test.labels, list(METRICS), offsets=test.offsets)
    arrays = {name: found.values[name] for name in METRICS} | ({"scores": scores} if keep else {})
    np.savez(folder / "cells" / f"{cell.key}.npz", queries=test.qids.astype(str), **arrays)
    means = {name: found.means[name] for name in METRICS}
    _write(folder, cell, means[METRICS[0]] - 0.01, means, epochs, generator)


def _write(folder, cell, best, test, epochs, generator):
    """The JSON, with a history that rises to `best` and stops a few epochs after it, as patience would have it."""
    length = int(generator.integers(max(2, epochs // 2), epochs + 1))
    history = []
    for epoch in range(1, length + 1):
        row = {
            "epoch": epoch,
            "loss": 1 / epoch,
            "nDCG@10": best - 0.3 * np.exp(-epoch / 4) + generator.normal(0, 0.003),
        }
        row |= {"lr": cell.settings["lr"]}
        if cell.loss.startswith("LearnDCG"):
            row |= {
                "gain_base": 2 + 0.03 * epoch,
                "discount_base": 2 - 0.2 * np.tanh(epoch / 9) + 0.02 * (cell.fold or 0),
            }
            row |= {"alpha": 1 + 0.05 * epoch + generator.normal(0, 0.01)}
        history.append(row | {"seconds": 0.2, "judge_seconds": 0.05})
    learned = {name: history[-1][name] for name in ("gain_base", "discount_base", "alpha") if name in history[-1]}
    values = [row["nDCG@10"] for row in history]
    outcome = {
        "format": FORMAT, "cell": asdict(cell), "validation": {"nDCG@10": max(values)}, "test": test,
        "epoch": 1 + int(np.argmax(values)), "history": history, "learned": learned,
        "seconds": round(length * (0.2 + 0.1 * (int(cell.key, 16) % 7)), 3), "peak_memory": 300_000_000,
        "parameters": 1234, "commit": "0123abc", "versions": {"rankgrad": "0.1.0", "torch": "2.13.0"},
        "machine": "a made-up machine, 2 cores", "finished": "2026-01-01T00:00:00+00:00",
    }  # fmt: skip
    (folder / "cells" / f"{cell.key}.json").write_text(json.dumps(outcome))
