"""What do empty lists teach? `python studies/empty-lists/measure.py --out DIR [--pack FILE]`.

PROTOCOL, written before the results. The loss is always a softmax cross entropy between targets and scores. It depends
on the training lists in three ways, which are varied one at a time and together:

- targets: the label y, or 2^y - 1/2 (XE-NDCG with gamma = 1/2);
- empty lists (lists without a relevant document): left out, or kept with equal targets ("uniform"). With uniform
  targets the loss is smallest for equal scores, so such a list pulls the scores of its documents together;
- weight of a list: the sum of its labels (softmax), the sum of 2^y - 1/2 (softmax with `smooth`), or 1 (listnet). An
  empty list that is kept has the mean weight of the other lists, n / 2 (its sum of 2^y - 1/2), or 1.

With the largest share of empty lists there are two more rows. The control has as many uniform lists, of the same
lengths, but with documents drawn from all lists that are not empty. It pulls scores together, but says nothing about
the documents of empty lists. In the row "light" an empty list has the weight 0.1 instead of 1. The pointwise
loss mse is trained with and without the empty lists.

**sets** (LightGBM, parameters of `tree_losses.py`; MQ2008 also with an MLP): five folds, `SEEDS` seeds. **natural**:
`LISTS` generated lists with the share of empty lists of the generator, LightGBM. **generated**: M = 100 or 500 lists
with a relevant document, and in addition empty lists, so that the share of empty lists is 0%, 20%, 40% or 60%.
The lists with a relevant document are the same for every share, so all differences are due to the empty lists.
Three kinds of empty lists: `lost` (the labels of a list with a relevant document are replaced by 0), `shift` (the
random shift of a query is low; it does not depend on the features), `level` (labels are grades of the utility itself,
so that a list is empty if its documents are bad). For `shift` and `lost`, grades are those of `rankgrad.data.synthetic`
with three grades. The order by utility is the best achievable order in all kinds.

A replicate has its own generator (formula, training, validation and test lists) and its own seed of the ranker;
`REPLICATES` replicates. 200 validation lists and 1,000 test lists, all with a relevant document. Preprocessing of the
MLP is fitted without the empty lists. Result: nDCG@10 on the test lists, and regret, which is the nDCG@10 of the order
by utility minus that of the ranker. Tests: per seed and query with `rankgrad.experiments.seed_variance` on the sets,
t-test over replicates on generated lists; Holm's correction over each table.

Before this protocol, one seed of fold 1 of both sets and one replicate were run as a trial, to measure the time. The
row "light" and the number of replicates were chosen after the trial.
"""

import argparse
import json
import lzma
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import rankgrad as rg

GAMMA = 0.5
SEEDS, REPLICATES = 10, 15
FOLDS = range(1, 6)
KINDS = ("shift", "level")  # cells of the kind `shift` also have the rows of the kind `lost`
SIZES = (100, 500)  # numbers of training lists with a relevant document
SHARES = (0.2, 0.4, 0.6)  # shares of empty lists in the training lists
LIGHT = 0.1  # weight of an empty list in the row `light`
LISTS = 500  # number of training lists of the part `natural`
VALIDATION, TEST = 200, 1_000
GENERATOR = {"lists": 8_000, "grades": 3, "mean_length": 20.0, "noise": 0.4}
GRADES = (0.807, 0.939)  # quantiles of the utility that divide the three grades, as in the generator
TREES = {"learning_rate": 0.05, "num_leaves": 15, "min_data_in_leaf": 50, "feature_fraction": 0.7}
TREES |= {"bagging_fraction": 0.8, "bagging_freq": 1, "trees": 600, "patience": 50, "threads": 1}
GENERATED_TREES = {**TREES, "learning_rate": 0.1, "min_data_in_leaf": 20, "patience": 30}
MLP = {"model": "mlp:widths=64-32", "preprocess": "none", "batch_size": 32, "epochs": 60, "patience": 10}
LR = {"sets": 0.001, "generated": 0.003}  # learning rates of the MLP
PREPROCESS = {"MQ2008": "standardise", "generated": "quantile"}
TARGETS, EMPTIES, WEIGHTS = ("labels", "smoothed"), ("out", "uniform"), ("labels", "targets", "one")
FACTORIAL = [(targets, empty, weights) for targets in TARGETS for empty in EMPTIES for weights in WEIGHTS]
# Rows that are not in the factorial: loss and settings of `TreeRanker`.
NAMED: dict[str, tuple[str, dict[str, Any]]] = {
    "native:rank_xendcg": ("native:rank_xendcg", {}),
    "xe_ndcg:gamma=drawn": ("xe_ndcg:gamma=drawn", {}),
    "xe_ndcg:gamma=1": ("xe_ndcg:gamma=1", {}),
    "softmax, smooth=drawn": ("softmax", {"smooth": "drawn"}),
    "listnet, smooth=drawn": ("listnet", {"smooth": "drawn"}),
}
Run = Callable[[Any, str, dict[str, Any]], dict[str, Any]]  # (training lists, loss, settings) -> result


class Cell(NamedTuple):
    """A unit of work with one result file: all rows for one fold or one kind of lists, and one seed."""

    part: str  # sets, natural or generated
    model: str  # lightgbm or mlp
    data: str  # name of a data set, or kind of generated lists
    number: int  # fold, or number of training lists with a relevant document
    seed: int  # seed, or number of the replicate

    @property
    def name(self) -> str:
        """Name of the result file."""
        return "-".join(map(str, self))


def main() -> None:
    """Run the cells that have no result yet, and pack all results with --pack."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default="../shared/data", help="folder of MQ2008 and OHSUMED")
    parser.add_argument("--out", type=Path, required=True, help="folder of one result file per cell")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--replicates", type=int, default=REPLICATES)
    parser.add_argument("--pack", type=Path, help="file for the results of all cells (.json.xz)")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    cells = every_cell(options.seeds, options.replicates)
    run_all([cell for cell in cells if not (options.out / f"{cell.name}.json").is_file()], options)
    if options.pack:
        pack(cells, options)


def every_cell(seeds: int, replicates: int) -> list[Cell]:
    """Return all cells, the longest first."""
    generated = [(model, kind, size) for size in SIZES[::-1] for model in ("mlp", "lightgbm") for kind in KINDS]
    found = [Cell("generated", *names, seed) for names in generated for seed in range(replicates)]
    found += [Cell("natural", "lightgbm", "shift", LISTS, seed) for seed in range(replicates)]
    sets = [("lightgbm", "MQ2008"), ("lightgbm", "OHSUMED"), ("mlp", "MQ2008")]
    return found + [Cell("sets", *names, fold, seed) for names in sets for fold in FOLDS for seed in range(seeds)]


def run_all(cells: list[Cell], options: argparse.Namespace) -> None:
    """Run cells in several processes; a cell that fails is reported at the end."""
    from rankgrad.parallel.process_pool import Pool, Task

    began, failed = time.time(), []
    with Pool(options.jobs) as pool:
        tasks = [Task(cell.name, run_cell, (cell, str(options.root), options.out)) for cell in cells]
        for count, done in enumerate(pool.run(tasks), 1):
            failed += [f"{done.task.name}\n{done.error}"] if done.error else []
            print(f"{time.time() - began:5.0f} s  {count}/{len(cells)}  {done.task.name}", flush=True)
    if failed:
        raise SystemExit(f"{len(failed)} cells failed; the first:\n{failed[0]}")


def run_cell(cell: Cell, root: str, out: Path) -> None:
    """Run all rows of a cell, and write its result file."""
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    began = time.process_time()
    rows = {"sets": set_rows, "natural": natural_rows, "generated": generated_rows}[cell.part](cell, root)
    result = {"rows": rows, "seconds": round(time.process_time() - began, 1)}
    part = out / f"{cell.name}.part"
    part.write_text(json.dumps(result))
    part.rename(out / f"{cell.name}.json")


def set_rows(cell: Cell, root: str) -> dict[str, Any]:
    """Return the rows of a fold of a data set: nDCG@10 of all test queries; a query without a relevant one has 0."""
    splits = rg.data.load(cell.data, fold=cell.number, root=root)
    parts = splits.train, splits.validation, splits.test
    train, validation, test = transformed(parts, PREPROCESS[cell.data]) if cell.model == "mlp" else parts
    run = runner(cell, validation, test, TREES)
    return {
        name: {**found, "values": [round(v, 4) for v in found["values"]]} for name, found in loss_rows(run, train, cell)
    }


def natural_rows(cell: Cell, root: str) -> dict[str, Any]:
    """Return the rows of generated lists with the share of empty lists of the generator."""
    pool, validation, test = replicate(cell.seed, cell.data)
    train = pool.take(np.arange(cell.number))
    run = runner(cell, validation, test, GENERATED_TREES)
    rows = {name: summary(found) for name, found in loss_rows(run, train, cell)}
    return {**rows, "achievable": summary({"values": per_list(test.best, test)})}


def loss_rows(run: Run, train: Any, cell: Cell) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the result of each row for training lists with empty lists among them."""
    rng = np.random.default_rng(cell.seed)
    full = train.take(np.flatnonzero(highest(train) > 0))
    fakes = fake_lists(full, train.lengths[highest(train) == 0], rng)
    for targets, empty, weights in FACTORIAL if cell.model == "lightgbm" else []:
        yield f"{targets} {empty} {weights}", run(with_targets(train, targets, empty, weights), "softmax", {})
    for targets in TARGETS:
        if cell.model == "mlp":
            for empty in EMPTIES:
                yield f"{targets} {empty} one", run(with_targets(train, targets, empty, "one"), "softmax", {})
        yield f"{targets} control one", run(joined(full, fakes, targets), "softmax", {})
        yield f"{targets} removed one", run(with_targets(full, targets, "out", "one"), "softmax", {})
    yield "mse removed", run(full, "mse", {})
    yield "mse", run(train, "mse", {})
    for name, (loss, settings) in NAMED.items() if cell.model == "lightgbm" else []:
        yield name, run(train, loss, settings)


def generated_rows(cell: Cell, root: str) -> dict[str, Any]:
    """Return the rows of generated lists with several shares of empty lists; the kind `shift` also has `lost` rows."""
    pool, validation, test = replicate(cell.seed, cell.data)
    rng = np.random.default_rng(cell.seed)
    full, empty = np.flatnonzero(highest(pool) > 0), np.flatnonzero(highest(pool) == 0)
    most = round(cell.number * SHARES[-1] / (1 - SHARES[-1]))
    kinds = {cell.data: pool.take(empty[:most])}
    if len(kinds[cell.data]) < most:
        raise ValueError(f"the pool must have {most} empty lists; got {len(empty)}")
    if cell.data == "shift":
        kinds["lost"] = pool.take(full[cell.number : cell.number + most])
    train = pool.take(full[: cell.number])
    if cell.model == "mlp":
        train, validation, test, *others = transformed(
            (train, validation, test, *kinds.values()), PREPROCESS["generated"]
        )
        kinds = dict(zip(kinds, others, strict=True))
    run = runner(cell, validation, test, GENERATED_TREES)
    rows = {f"{targets} out": run(with_targets(train, targets, "out", "one"), "softmax", {}) for targets in TARGETS}
    rows["mse out"] = run(train, "mse", {})
    for kind, lists in kinds.items():
        for share in SHARES:
            some = lists.take(np.arange(round(cell.number * share / (1 - share))))
            some = replace(some, labels=np.zeros_like(some.labels))
            for targets in TARGETS:
                name = f"{kind} {share} {targets}"
                rows[f"{name} uniform"] = run(joined(train, some, targets), "softmax", {})
                if share == SHARES[-1]:
                    rows[f"{name} light"] = run(joined(train, some, targets, LIGHT), "softmax", {})
                if share == SHARES[-1] and kind == cell.data:
                    fakes = fake_lists(train, some.lengths, rng)
                    rows[f"{name} control"] = run(joined(train, fakes, targets), "softmax", {})
            rows[f"{kind} {share} mse"] = run(joined(train, some, "mse"), "mse", {})
    found = {name: summary(row) for name, row in rows.items()}
    for name, lists in {"full": train, **kinds}.items():  # mean and spread of the utility in these lists
        found[f"utility {name}"] = {"values": round(float(lists.best.mean()), 6), "spread": spread(lists.best, lists)}
    return {**found, "achievable": summary({"values": per_list(test.best, test)})}


@lru_cache(maxsize=1)
def replicate(seed: int, kind: str) -> tuple[Any, Any, Any]:
    """Return a pool of training lists, validation lists and test lists of a replicate.

    The pool has empty lists, validation and test have none. All splits have the labels of the kind of lists.
    """
    data = rg.data.synthetic(**GENERATOR, seed=1_000 + seed)
    parts = [data.train, data.validation, data.test]
    if kind == "level":
        rng = np.random.default_rng(seed)
        noisy = [part.best + GENERATOR["noise"] * rng.standard_normal(len(part.best)) for part in parts]
        bounds = np.quantile(noisy[0], GRADES)
        labels = [np.searchsorted(bounds, each).astype(np.float32) for each in noisy]
        parts = [replace(part, labels=each) for part, each in zip(parts, labels, strict=True)]
    sizes = zip(parts[1:], (VALIDATION, TEST), strict=True)
    return parts[0], *(part.take(np.flatnonzero(highest(part) > 0)[:size]) for part, size in sizes)


def highest(data: Any) -> Any:
    """Return the highest label of each list, `(lists,)`; no list may be without documents."""
    return np.maximum.reduceat(data.labels, data.offsets[:-1])


def with_targets(data: Any, targets: str, empty: str, weights: str) -> Any:
    """Return lists whose labels are targets: `softmax` on these lists is the loss of a row.

    Args:
        data: lists with grades.
        targets: `labels` for y, `smoothed` for 2^y - 1/2.
        empty: `out` for empty lists with targets 0, `uniform` for equal targets.
        weights: sum of the targets of a list: `labels` for the sum of y, `targets` for the sum of 2^y - 1/2, or `one`.
    """
    labels, lengths = data.labels.astype(np.float64), data.lengths

    def sums(values: Any) -> Any:
        return np.add.reduceat(values, data.offsets[:-1])

    smoothed = np.exp2(labels) - GAMMA
    is_empty = highest(data) == 0
    shape = smoothed if targets == "smoothed" else np.where(np.repeat(is_empty, lengths), 1.0, labels)
    total = {"labels": sums(labels), "targets": sums(smoothed), "one": np.ones(len(data))}[weights]
    if weights == "labels":
        total[is_empty] = total[~is_empty].mean()
    total = np.where(is_empty & (empty == "out"), 0.0, total)
    return replace(data, labels=(shape * np.repeat(total / sums(shape), lengths)).astype(np.float32))


def joined(full: Any, empty: Any, targets: str, weight: float = 1.0) -> Any:
    """Return lists with a relevant document, which have weight 1, and empty lists as one data set.

    Args:
        full, empty: lists with and without a relevant document.
        targets: `labels` or `smoothed`, or `mse` to keep the labels.
        weight: weight of an empty list.
    """
    offsets = np.concatenate([full.offsets, full.offsets[-1] + empty.offsets[1:]])
    both = [np.concatenate([getattr(full, name), getattr(empty, name)]) for name in ("features", "labels")]
    data = rg.data.Dataset(*both, offsets, np.arange(len(offsets) - 1))
    if targets == "mse":
        return data
    data = with_targets(data, targets, "uniform", "one")
    scale = np.repeat([1.0, weight], [len(full.labels), len(empty.labels)]).astype(np.float32)
    return replace(data, labels=data.labels * scale)


def fake_lists(full: Any, lengths: Any, rng: Any) -> Any:
    """Return lists of these lengths without a relevant document, from random documents of other lists."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    rows = rng.integers(len(full.labels), size=offsets[-1])
    return rg.data.Dataset(full.features[rows], np.zeros(len(rows), np.float32), offsets, np.arange(len(lengths)))


def transformed(parts: Any, text: str) -> list[Any]:
    """Return data sets with features after preprocessing, which is fitted on the first data set."""
    steps = rg.data.Preprocessing.parse(text).fit(parts[0])
    return [replace(part, features=steps.transform(part.features, part.offsets)) for part in parts]


def runner(cell: Cell, validation: Any, test: Any, trees: dict[str, Any]) -> Run:
    """Return the function that trains the ranker of a cell and measures it on the test lists."""
    from rankgrad.training import Settings, train
    from rankgrad.trees import TreeRanker
    from rankgrad.trees.boosting import boost

    def run(data: Any, loss: str, settings: dict[str, Any]) -> dict[str, Any]:
        if cell.model == "mlp":
            settings = {**MLP, "lr": LR[cell.part], "seed": cell.seed, "device": "cpu", **settings}
            network = train(Settings(loss=loss, **settings), data, validation, progress=False)
            scores, steps = network.score(test.features, test.offsets), network.metrics["epoch"]
        else:
            ranker = boost(TreeRanker("lightgbm", loss, seed=cell.seed, **trees, **settings).plan(), data, validation)
            scores, steps = ranker.score(test.features), ranker.metrics["trees"]
        return {"values": per_list(scores, test), "steps": steps, "spread": spread(scores, test)}

    return run


def per_list(scores: Any, test: Any) -> list[float]:
    """Return nDCG@10 of each test list."""
    found: list[float] = rg.metrics.ndcg(scores, test.labels, offsets=test.offsets, k=10, reduction="none").tolist()
    return found


def spread(scores: Any, test: Any) -> float:
    """Return the mean over lists of the standard deviation of the scores."""
    scores, starts = np.asarray(scores, np.float64), test.offsets[:-1]
    means, squares = (np.add.reduceat(each, starts) / test.lengths for each in (scores, scores**2))
    return round(float(np.sqrt(np.maximum(squares - means**2, 0)).mean()), 4)


def summary(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with the mean over the test lists instead of all values."""
    return {**row, "values": round(float(np.mean(row["values"])), 6)}


def pack(cells: list[Cell], options: argparse.Namespace) -> None:
    """Write the results of all cells to one file: values by part, model, data, row and seed."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    from setting import setting

    found = {cell: json.loads((options.out / f"{cell.name}.json").read_text()) for cell in cells}
    packed: dict[str, Any] = {}
    for cell, result in found.items():
        place = f"{cell.part} {cell.model} {cell.data}"
        for row, measured in result["rows"].items():
            for key, value in measured.items():
                by_seed = packed.setdefault(place, {}).setdefault(row, {}).setdefault(key, {})
                by_seed.setdefault(str(cell.number), {})[str(cell.seed)] = value
    facts = {**setting(), "lightgbm": _version("lightgbm"), "seeds": options.seeds, "cells": len(cells)}
    facts |= {"replicates": options.replicates, "generator": GENERATOR}
    facts["seconds"] = round(sum(result["seconds"] for result in found.values()))
    facts |= {"trees": TREES, "generated trees": GENERATED_TREES, "mlp": {**MLP, "lr": LR}}
    facts |= {"sets": {data: counts(data, options.root) for data in ("MQ2008", "OHSUMED")}}
    text = json.dumps({"facts": facts, **packed}, separators=(",", ":"), sort_keys=True)
    options.pack.parent.mkdir(parents=True, exist_ok=True)
    options.pack.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    print(f"{options.pack}: {options.pack.stat().st_size:,} bytes; {facts['seconds']} core-seconds")


def counts(data: str, root: str) -> dict[str, int]:
    """Return the number of lists of a data set, and of lists without a relevant document."""
    tests = [rg.data.load(data, fold=fold, root=root).test for fold in FOLDS]
    return {"lists": sum(map(len, tests)), "empty": int(sum((highest(test) == 0).sum() for test in tests))}


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return str(__import__(package).__version__)


if __name__ == "__main__":
    main()
