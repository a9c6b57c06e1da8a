"""Compare `AutoRanker` with tuned LambdaMART and FLAML at equal time: `python benchmarks/auto.py --data DIR --out DIR`.

MQ2008 and OHSUMED, five folds, several seeds, the same number of seconds per fold for each system, one core per cell.

- `auto`: the search of `rankgrad auto` on the training and validation lists.
- `single`: the best candidate of the same search, trained on all lists (`--single`).
- `student`: students of the ensemble of the same search (`--distil`), on OHSUMED.
- `lambdamart`: random search over the parameters of LightGBM's LambdaMART; the validation lists choose settings and
  number of trees. `lambdamart_all` trains the chosen settings again on training and validation lists.
- `flaml`: FLAML with LightGBM (`pip install 'flaml[automl]'`).

One file per cell; a second call continues. `--join FILE` writes the values of all queries to one compressed file, from
which docs/auto.md is made.
"""

import argparse
import json
import lzma
import multiprocessing
import os
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # one core per cell

import numpy as np  # noqa: E402

METRIC = "nDCG@10"
SETS = ("OHSUMED", "MQ2008")
SYSTEMS = ("auto", "lambdamart", "flaml")
STUDENTS = ("mlp", "lightgbm")


class AutoCell(NamedTuple):
    """One system on one fold with one seed and a number of seconds."""

    data: str
    fold: int
    system: str
    seed: int
    seconds: int

    @property
    def file(self) -> str:
        """Name of the result file."""
        return "_".join(map(str, self)) + ".json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that contains MQ2008 and OHSUMED")
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--systems", nargs="*", default=list(SYSTEMS))
    parser.add_argument("--seconds", type=int, default=60, help="seconds per fold")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    parser.add_argument("--longer", type=int, default=180, help="seconds per fold of additional cells with one seed")
    parser.add_argument("--jobs", type=int, default=1, help="number of cells at the same time, one core each")
    parser.add_argument("--join", type=Path, help="write the results of --out to this file (.json.xz), and stop")
    options = parser.parse_args()
    if options.join:
        join(options)
        return
    began = time.time()
    options.out.mkdir(parents=True, exist_ok=True)
    cells = [cell for cell in planned(options) if not (options.out / cell.file).exists()]
    print(f"{len(cells)} cells", flush=True)
    with multiprocessing.get_context("spawn").Pool(options.jobs, maxtasksperchild=8) as pool:
        for line in pool.imap_unordered(run, [(cell, options) for cell in cells]):
            print(f"{time.time() - began:5.0f} s  {line}", flush=True)


def planned(options: argparse.Namespace) -> list[AutoCell]:
    """Return all cells, the longest first."""
    cells = []
    for seconds, seeds in ((options.longer, 1), (options.seconds, options.seeds)):
        for seed in range(seeds if seconds else 0):
            for fold in range(1, 6):
                cells += [AutoCell(n, fold, s, seed, seconds) for n in options.sets for s in options.systems]
    return cells


def run(job: tuple[AutoCell, argparse.Namespace]) -> str:
    """Run a cell, write its result, and return a line about it."""
    cell, options = job
    import torch

    import rankgrad as rg

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    splits = rg.data.load(cell.data, fold=cell.fold, root=str(options.data))
    began = time.time()
    found, facts = {"auto": auto, "lambdamart": lambdamart, "flaml": flaml}[cell.system](cell, splits)
    record = {**cell._asdict(), "values": {}, "took": round(time.time() - began, 2), **facts}
    for name, scores in found.items():
        evaluated = rg.metrics.evaluate(scores, splits.test.labels, [METRIC], offsets=splits.test.offsets, bootstrap=0)
        record["values"][name] = [round(float(value), 6) for value in evaluated.values[METRIC]]
    record["versions"] = versions()
    path = options.out / cell.file
    path.with_suffix(".partial").write_text(json.dumps(record))
    path.with_suffix(".partial").rename(path)
    means = ", ".join(f"{name} {100 * np.mean(values):.2f}" for name, values in record["values"].items())
    return f"{cell.file:44} {means}; took {facts['search_seconds']:.1f} s; {facts['about']}"


def auto(cell: AutoCell, splits: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Search with `rankgrad.models.auto`; return scores of all forms of the model."""
    from rankgrad.models.auto.final_model import FinalSettings, make_model
    from rankgrad.models.auto.search import Search, SearchSettings
    from rankgrad.models.auto.stored_lists import StoredLists, joined
    from rankgrad.parallel.process_pool import run_in_this_process

    begun = time.time()
    with tempfile.TemporaryDirectory() as folder:
        data = joined(splits.train, splits.validation)
        settings = SearchSettings(seconds=cell.seconds, metric=METRIC, seed=cell.seed)
        lists = StoredLists.write(data, Path(folder) / "lists", settings.folds, settings.seed)
        search = Search(settings, lists, Path(folder), run_in_this_process, begun)
        for _ in search.run():
            pass
        result = make_model(search, FinalSettings())
        scores = {"auto": result.model.score_lists(splits.test)}
        facts = {
            "search_seconds": round(result.seconds, 2),
            "about": f"{result.form}, {len(search.complete())} complete of {len(result.leaderboard)}",
            "form": result.form,
            "nested": result.nested,
            "complete": len(search.complete()),
            "tried": len(result.leaderboard),
            "latency": {"auto": result.latency},
        }
        single = make_model(search, FinalSettings(single=True))
        scores["single"], facts["latency"]["single"] = single.model.score_lists(splits.test), single.latency
        if cell.data == "OHSUMED":
            for name in STUDENTS:
                made = make_model(search, FinalSettings(distil=name))
                scores[f"student_{name}"] = made.model.score_lists(splits.test)
                facts["latency"][f"student_{name}"] = made.latency
    return scores, facts


def lambdamart(cell: AutoCell, splits: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Search settings of LightGBM's LambdaMART at random, until the time is over."""
    from rankgrad.models.auto.final_model import measure_latency
    from rankgrad.models.auto.stored_lists import joined
    from rankgrad.models.registry import kind_or_default
    from rankgrad.models.search_space import draws

    begun = time.time()
    kind = kind_or_default("lightgbm")
    base = {"model": "lightgbm", "loss": "native:lambdarank", "trees": 500, "patience": 50, "metric": METRIC}
    base |= {"threads": 1, "seed": cell.seed}
    best, tried = None, 0
    for drawn in [{}, *draws(kind.space(base), 10_000, cell.seed)]:
        if time.time() - begun >= cell.seconds:
            break
        settings = kind.drawn(base, drawn)
        stop = [lambda _: time.time() - begun >= cell.seconds]
        model = kind.fit(settings, splits.train, splits.validation, progress=False, callbacks=stop)
        value = model.metrics["validation"][METRIC]
        tried += 1
        if best is None or value > best[0]:
            best = value, settings, model
    assert best is not None
    took = time.time() - begun
    again = kind.fit(
        {**best[1], **kind.for_length(best[2].kept)}, joined(splits.train, splits.validation), progress=False
    )
    scores = {"lambdamart": best[2].score_lists(splits.test), "lambdamart_all": again.score_lists(splits.test)}
    facts = {"search_seconds": round(took, 2), "about": f"{tried} tried", "tried": tried}
    return scores, facts | {"latency": {"lambdamart": measure_latency(best[2], splits.test)}}


def flaml(cell: AutoCell, splits: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run FLAML with LightGBM on the training lists; the validation lists choose the model."""
    from flaml import AutoML

    begun = time.time()
    model = AutoML()
    model.fit(
        X_train=np.array(splits.train.features),
        y_train=np.array(splits.train.labels).astype(int),
        groups=splits.train.lengths.tolist(),
        X_val=np.array(splits.validation.features),
        y_val=np.array(splits.validation.labels).astype(int),
        groups_val=splits.validation.lengths.tolist(),
        task="rank",
        metric="ndcg@10",
        time_budget=cell.seconds,
        estimator_list=["lgbm"],
        n_jobs=1,
        seed=cell.seed,
        verbose=0,
    )
    took = time.time() - begun
    scores = np.asarray(model.predict(np.array(splits.test.features)), dtype=np.float32)
    return {"flaml": scores}, {"search_seconds": round(took, 2), "about": str(model.best_config), "latency": {}}


def versions() -> dict[str, str]:
    """Return versions, commit and machine."""
    import lightgbm
    import torch

    from rankgrad.experiments.runs import provenance

    found = {"torch": torch.__version__, "lightgbm": lightgbm.__version__}
    return found | {"commit": os.environ.get("RANKGRAD_COMMIT") or str(provenance.commit())}


def join(options: argparse.Namespace) -> None:
    """Write all results to one compressed file."""
    records = [json.loads(path.read_text()) for path in sorted(options.out.glob("*.json"))]
    options.join.parent.mkdir(parents=True, exist_ok=True)
    options.join.write_bytes(lzma.compress(json.dumps(records, separators=(",", ":")).encode(), preset=9))
    print(f"{options.join}: {len(records)} cells, {options.join.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
