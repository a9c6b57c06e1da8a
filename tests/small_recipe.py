"""What the file of a small recipe holds; tests of recipes change it. None of its cells is ever run."""

from dataclasses import dataclass

from rankgrad.experiments import Cell

TREES = {
    "model": "lightgbm",
    "trees": 9,
    "num_leaves": 4,
    "losses": {"Own": "softmax", "Native": "native:lambdarank"},
    "search": {"learning_rate": [0.1, 0.2], "min_data_in_leaf": [2, 4]},
}


@dataclass
class Done:
    """A cell that has run, as far as a recipe looks at one."""

    cell: Cell
    validation: dict[str, float | None]
    epoch: int = 7


def recipe(**changes):
    """What a small recipe's file holds, with changes; None takes a key away."""
    small = {
        "title": "Small",
        "data": ["MQ2008"],
        "folds": [1],
        "models": {"MLP": {"model": "mlp"}},
        "losses": {"A": "lambdaloss", "B": "softmax"},
        "search": {"lr": {"low": 1e-4, "high": 1e-1, "log": True}, "batch_size": [16, 32]},
        "trials": 3,
        "seeds": [4, 5],
        "metrics": ["ndcg@5"],
    }
    return {key: value for key, value in {**small, **changes}.items() if value is not None}


def with_trees(**changes):
    """The same with boosted trees as a second ranker, with changes of theirs."""
    return recipe(models={"MLP": {"model": "mlp"}, "Trees": {**TREES, **changes}})


def finish(cells, metric, value=lambda cell: 0.5):
    """The cells as if they had run."""
    return [Done(cell, {metric: value(cell)}) for cell in cells]
