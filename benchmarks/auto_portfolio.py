"""Measure candidates for the portfolio of `rankgrad auto`: `python benchmarks/auto_portfolio.py --data DIR --out FILE`.

Each candidate is trained with cross-validation in five folds, as in the search, on the training and validation lists of
MQ2008 and OHSUMED (five folds each), the sample of MSLR-WEB30K, and generated lists. The table has the metric on the
held-out lists, the metric of the mean of the five models on the test lists, and the seconds of the five trainings on
one core. Candidates that were measured and left out of the portfolio are in `LEFT_OUT`.
"""

import argparse
import json
import multiprocessing
import os
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402

from rankgrad.models.auto.portfolio import PORTFOLIO, Candidate  # noqa: E402

METRIC = "nDCG@10"
FOLDS = 5
_NETWORK = PORTFOLIO[3]
LEFT_OUT: tuple[dict[str, Any], ...] = (
    {**_NETWORK, "loss": "approx_ndcg"},
    {**_NETWORK, "loss": "mse"},
    {**_NETWORK, "model": "context_aware:width=64,blocks=1,heads=2,feed_forward=64,dropout=0.2", "lr": 0.001},
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with MQ2008, OHSUMED and MSLR-sample")
    parser.add_argument("--out", type=Path, required=True, help="file for the table (.json)")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    cells = [(name, fold) for name in ("OHSUMED", "MQ2008") for fold in range(1, 6)]
    cells += [("MSLR-sample", 1), ("generated", 1)]
    every = (*PORTFOLIO, *LEFT_OUT)
    jobs = [(name, fold, number, options.data) for name, fold in cells for number in range(len(every))]
    records, began = [], time.time()
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for record in pool.imap_unordered(run, jobs):
            records.append(record)
            if len(records) % 20 == 0:
                print(f"{time.time() - began:5.0f} s  {len(records)} of {len(jobs)}", flush=True)
    from setting import setting

    rows = []
    for number, entry in enumerate(every):
        candidate = Candidate(number + 1, entry)
        row: dict[str, Any] = {"model": str(entry["model"]), "loss": candidate.loss, "used": number < len(PORTFOLIO)}
        for name in dict.fromkeys(name for name, _ in cells):
            mine = [record for record in records if (record["number"], record["data"]) == (number, name)]
            row[name] = {
                "held_out": round(100 * float(np.mean(np.concatenate([r["held_out"] for r in mine]))), 2),
                "test": round(100 * float(np.mean(np.concatenate([r["test"] for r in mine]))), 2),
                "seconds": round(float(np.mean([r["seconds"] for r in mine])), 1),
            }
        rows.append(row)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({**setting(), "metric": METRIC, "rows": rows}, indent=1) + "\n")


def run(job: tuple[str, int, int, Path]) -> dict[str, Any]:
    """Train one candidate with five folds, and return its values on held-out lists and test lists."""
    name, fold, number, root = job
    import torch

    import rankgrad as rg
    from rankgrad.models.auto.final_model import bag
    from rankgrad.models.auto.fits import Fit, read_result, read_scores, run_fit
    from rankgrad.models.auto.stored_lists import StoredLists, joined
    from rankgrad.models.registry import kind_or_default

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if name == "generated":
        splits = rg.data.synthetic(300, mean_length=20, seed=3)
    else:
        splits = (
            rg.data.load(str(root / name)) if name == "MSLR-sample" else rg.data.load(name, fold=fold, root=str(root))
        )
    entry = (*PORTFOLIO, *LEFT_OUT)[number]
    kind = kind_or_default(entry["model"])
    with tempfile.TemporaryDirectory() as folder:
        data = joined(splits.train, splits.validation)
        lists = StoredLists.write(data, Path(folder) / "lists", FOLDS, 0)
        places = [Path(folder) / str(part) for part in range(FOLDS)]
        held_out = np.zeros(len(data))
        seconds = 0.0
        for part, place in enumerate(places):
            settings = kind.on_device({**entry, "metric": METRIC, "seed": part}, "cpu")
            run_fit(Fit(f"{number}", part, settings, str(place), lists))
            done = read_result(place)
            assert done is not None
            assert done.error is None, done.error
            seconds += done.seconds
            test = lists.split(part)[1]
            held_out[lists.numbers() == part] = _values(read_scores(place), test)
        found = _values(bag(places).score_lists(splits.test), splits.test)
    facts = {"data": name, "fold": fold, "number": number, "seconds": seconds}
    return {**facts, "held_out": held_out.tolist(), "test": found.tolist()}


def _values(scores: Any, data: Any) -> Any:
    import rankgrad as rg

    return rg.metrics.evaluate(scores, data.labels, [METRIC], offsets=data.offsets, bootstrap=0).values[METRIC]


if __name__ == "__main__":
    main()
