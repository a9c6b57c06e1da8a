"""Train ListMLE without the terms of the lowest grade: `python studies/listmle-ties/lowest_grade.py --json FILE`.

In the study `listmle-ties`, the exact likelihood of tied labels is better than Breslow's and Efron's on generated lists
with an MLP. The exact likelihood has no term for the lowest grade of a list. Is this the reason? This question came up
after the results of the study, so the answer is exploratory.

Documents with label 0 get the weight 0, which leaves out their terms. Settings, learning rates, seeds and lists are
those of the study, and so is the choice of the learning rate. The rows "Exact" and "Breslow" are those of the study.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad import data, training
from rankgrad.data.evaluation import evaluate_lists
from rankgrad.experiments import Recipe
from rankgrad.experiments.runs.summary import read_summary
from rankgrad.experiments.seed_variance import RunComparison, RunValues, compare_runs
from rankgrad.experiments.statistics import adjust

STUDY = Path(__file__).parent / "results.summary.xz"
MODEL, METRIC = "MLP", "nDCG@10"
FORMS = {"Breslow without the lowest grade": "together", "Efron without the lowest grade": "efron"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", required=True, help="file of the table")
    arguments = parser.parse_args()
    study = read_summary(STUDY)
    rows: list[dict[str, Any]] = []
    for name in dict.fromkeys(row.data for row in study.rows if row.data.startswith("synthetic")):
        exact, breslow = (study.row(name, MODEL, loss).values for loss in ("Exact", "Breslow"))
        for form, ties in FORMS.items():
            values = runs_of(name, ties, study.recipe)
            tests = {"Exact": compare_runs(values, exact), "Breslow": compare_runs(values, breslow)}
            rows += [{"data": name, "form": form, "mean": values.mean, **_numbers(*test)} for test in tests.items()]
            print(name, form, f"{100 * values.mean:.2f}", flush=True)
    for row, p in zip(rows, adjust([row["p"] for row in rows], "holm").tolist(), strict=True):
        row["adjusted"] = p
    Path(arguments.json).write_text(json.dumps(rows, indent=1) + "\n")


def runs_of(name: str, ties: str, recipe: Recipe) -> RunValues:
    """Choose the learning rate with the first seed on the validation lists, and train with every seed."""
    seeds = next(source.seeds for source in recipe.data if source.label == name)
    lists = data.load(name)
    tried = {rate: trained(lists, ties, rate, seeds[0], recipe)[0] for rate in recipe.search["lr"]}
    rate = max(tried, key=lambda rate: tried[rate])
    return RunValues(np.stack([trained(lists, ties, rate, seed, recipe)[1] for seed in seeds]))


def trained(lists: data.Splits, ties: str, rate: float, seed: int, recipe: Recipe) -> tuple[float, NDArray[np.float64]]:
    """Train one ranker; return its validation value and the values of the test queries, in the order of their ids."""
    assert lists.validation is not None
    assert lists.test is not None
    settings = training.Settings(
        **recipe.settings,
        model="mlp:widths=64-32",
        loss=f"listmle:ties={ties}",
        metric=METRIC,
        lr=rate,
        seed=seed,
    )
    weights = (lists.train.labels > 0).astype(np.float32)
    made = training.train(settings, lists.train, lists.validation, weights=weights, progress=False)
    values = evaluate_lists(made.score_lists(lists.test), lists.test, [METRIC], bootstrap=0).values[METRIC]
    return made.validated(lists.validation, METRIC)[METRIC], values[np.argsort(np.asarray(lists.test.qids).astype(str))]


def _numbers(against: str, found: RunComparison) -> dict[str, Any]:
    """Return the numbers of a comparison that the page shows."""
    numbers = {name: getattr(found, name) for name in ("difference", "interval", "p", "detectable")}
    return {"against": against, **numbers}


if __name__ == "__main__":
    main()
