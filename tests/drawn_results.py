"""Results of an experiment whose values are drawn, in memory: a loss is better than another by what we say."""

from dataclasses import dataclass, field
from io import StringIO
from typing import Any

import numpy as np
from rich.console import Console

from rankgrad.experiments import parse_recipe
from rankgrad.experiments.runs.cell import Cell

NDCG, RR = "nDCG(empty='one')@10", "RR(empty='one', first='best')@10"

# How much better than the others a loss is, on average and from query to query.
SKILL = {"LambdaLoss": 0.10, "ApproxNDCG": 0.08, "Softmax": 0.0, "Fixed": 0.0, "Learned": 0.1, "ListNet": 0.05}


@dataclass
class Outcome:
    """A cell that has run, as `rankgrad.experiments.runs.results` gives it."""

    cell: Cell
    queries: Any = None
    by_metric: dict = field(default_factory=dict)
    validation: dict = field(default_factory=dict)

    def values(self, metric):
        return self.by_metric[metric]


@dataclass
class Results:
    """Outcomes with their recipe, as `rankgrad.experiments.runs.results` gives them."""

    recipe: Any
    cells: list

    def final(self):
        return [outcome for outcome in self.cells if outcome.cell.stage == "final"]

    def tuned(self):
        return [outcome for outcome in self.cells if outcome.cell.stage == "tune"]


def recipe(**own):
    """Three losses on two folds with three seeds, but for what is told."""
    raw = {
        "title": "A study", "data": ["MQ2008"], "folds": [1, 2], "seeds": [0, 1, 2],
        "models": {"MLP": {"model": "mlp"}},
        "losses": {"LambdaLoss": "lambdaloss", "ApproxNDCG": "approx_ndcg", "Softmax": "softmax"},
        "search": {"lr": [0.001, 0.01]}, "trials": 2, "choose": "nDCG@10", "metrics": [NDCG, RR],
        "tests": {"test": "t", "correction": "bonferroni", "level": 0.05, "against": "best"},
    }  # fmt: skip
    return parse_recipe(raw | own)


def run(study, seed=0, queries=60, skill=SKILL):
    """What a recipe could come to, with values that are drawn: alike for a query, a little apart from seed to seed."""
    found = []
    for place, cell in enumerate(study.cells_to_tune()):
        found.append(Outcome(cell, validation={study.choose: 0.5 + 0.001 * place}))
    for source in study.data:
        for fold in source.folds:
            hard = np.random.default_rng((seed, fold or 0)).random((queries, 2)) * 0.6
            for m, model in enumerate(study.models):
                for n, loss in enumerate(study.losses):
                    for s in source.seeds:
                        rng = np.random.default_rng((seed, fold or 0, m, n, s))
                        values = np.clip(hard + skill[loss] + rng.normal(0, 0.05, hard.shape), 0, 1)
                        names = np.array([f"q{fold or 0}-{i}" for i in range(queries)])
                        order = rng.permutation(queries)  # a file may list queries in any order
                        by_metric = {metric: values[order, i % 2] for i, metric in enumerate(study.metrics)}
                        cell = Cell(source.name, source.binary, fold, model, loss, None, {"seed": s}, study.metrics,
                                    "final", False, 0)  # fmt: skip
                        found.append(Outcome(cell, names[order], by_metric))
    return Results(study, found)


def replace_recipe(results, **own):
    """The same outcomes under another recipe."""
    return Results(recipe(**own), results.cells)


def entry(made, loss, metric=NDCG, model=None):
    """The number of a table's row."""
    (row,) = [row for row in made.rows if row.loss == loss and row.model == (model or row.model)]
    return row.entries[metric]


def seen(made, width=80):
    """What the terminal shows of a table."""
    console = Console(width=width, file=StringIO(), force_terminal=False)
    console.print(made.rich(width))
    return console.file.getvalue()
