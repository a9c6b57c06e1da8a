"""Compare the ensemble of `AutoRanker` with its own best candidate: `python benchmarks/auto_sets.py --data DIR ...`.

Data sets: the sample of MSLR-WEB30K, features of Cranfield and Vaswani (BM25 with three settings and the scores of an
encoder), and generated lists, whose best achievable nDCG is known. The difference is measured on test lists.
"""

import argparse
import json
import multiprocessing
import os
import tempfile
import time
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402

METRIC = "nDCG@10"
GENERATED = (100, 300, 1000)  # numbers of training lists


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with MSLR-sample, cranfield and vaswani")
    parser.add_argument("--encoder", required=True, help="folder of an encoder, MiniLM-L6 in our runs")
    parser.add_argument("--out", type=Path, required=True, help="file for the values of all lists (.json)")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    cells: list[tuple[str, int]] = [("MSLR-sample", 1)]
    cells += [(f"generated-{lists}", 1) for lists in reversed(GENERATED)]
    cells += [(name, fold) for name in ("cranfield", "vaswani") for fold in range(1, 6)]
    records, began = [], time.time()
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for record in pool.imap_unordered(run, [(name, fold, options) for name, fold in cells]):
            means = ", ".join(f"{key} {100 * np.mean(values):.2f}" for key, values in record["values"].items())
            print(
                f"{time.time() - began:5.0f} s  {record['data']} {record['fold']}: {means}; {record['form']}",
                flush=True,
            )
            records.append(record)
    records.sort(key=lambda record: (record["data"], record["fold"]))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"facts": facts(options), "cells": records}, separators=(",", ":")) + "\n")


def run(job: tuple[str, int, argparse.Namespace]) -> dict[str, Any]:
    """Search on one data set, and return the values of all test lists."""
    name, fold, options = job
    import torch

    import rankgrad as rg
    from rankgrad.models.auto.final_model import FinalSettings, bag, make_model
    from rankgrad.models.auto.search import Search, SearchSettings
    from rankgrad.models.auto.stored_lists import StoredLists, joined
    from rankgrad.parallel.process_pool import run_in_this_process

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    splits = splits_of(name, fold, options)
    with tempfile.TemporaryDirectory() as folder:
        data = joined(splits.train, splits.validation).without_numbers()
        lists = StoredLists.write(data, Path(folder) / "lists", 5, 0)
        search = Search(SearchSettings(trials=options.trials, metric=METRIC), lists, Path(folder), run_in_this_process)
        for _ in search.run():
            pass
        result = make_model(search, FinalSettings())
        entries = {entry.candidate.name: entry for entry in search.complete()}
        best = entries[next(row["candidate"] for row in result.leaderboard if row["candidate"] in entries)]
        test = splits.test.without_numbers()
        scores = {"auto": result.model.score_lists(test), "best": bag(search.folders(best)).score_lists(test)}
        scores["single"] = make_model(search, FinalSettings(single=True)).model.score_lists(test)
    if test.best is not None:
        scores["achievable"] = test.best
    values = {
        key: rg.metrics.evaluate(score, test.labels, [METRIC], offsets=test.offsets, bootstrap=0)
        .values[METRIC]
        .tolist()
        for key, score in scores.items()
    }
    about = {"form": result.form, "nested": result.nested, "best": f"{best.candidate.model}, {best.candidate.loss}"}
    return {"data": name, "fold": fold, "lists": len(data), "values": values, **about}


def splits_of(name: str, fold: int, options: argparse.Namespace) -> Any:
    """Return the splits of a data set."""
    import rankgrad as rg

    if name.startswith("generated-"):
        return rg.data.synthetic(int(name.partition("-")[2]), mean_length=20, seed=11)
    if name in ("cranfield", "vaswani"):
        return rg.text.folds(text_features(options.data / name, options.encoder), fold)
    return rg.data.load(str(options.data / name))


@lru_cache(maxsize=1)
def text_features(folder: Path, encoder: str) -> Any:
    """Return the top 100 of BM25 for each query, with four features."""
    from rankgrad import text

    collection = text.load(folder)
    runs = {}
    for name, (k1, b) in {"bm25": (1.2, 0.75), "bm25_short": (1.2, 0.3), "bm25_long": (2.0, 0.9)}.items():
        index = text.BM25Index.build(collection.documents, k1=k1, b=b)
        runs[name] = index.search(collection.queries, k=300, excluded=collection.excluded)
    data = text.candidate_lists(collection, runs["bm25"], depth=100)
    runs["encoder"] = text.to_run(data, text.BiEncoderRanker(encoder).predict(data))
    kept = {query: set(scores) for query, scores in runs["encoder"].items()}
    for name, run in runs.items():
        runs[name] = {query: {d: s for d, s in run[query].items() if d in kept[query]} for query in kept}
    return text.features(collection, runs, standardise="zscore", depth=100)


def facts(options: argparse.Namespace) -> dict[str, Any]:
    """Return commit, versions and settings."""
    from setting import setting

    return {**setting(), "trials": options.trials, "metric": METRIC}


if __name__ == "__main__":
    main()
