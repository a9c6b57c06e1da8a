"""Edited files of LightGBM and XGBoost: refused in one sentence, or loaded and scored by a process that survives."""

import atexit
import json
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from edited_trees import Scorer, edited_lightgbm, edited_xgboost, without_hashes
from small_trees import QID, X, Y, quick

from rankgrad.tree_frameworks import FILES
from rankgrad.trees.lightgbm.checks import check_lightgbm
from rankgrad.trees.xgboost.checks import checked_xgboost

_FILES = 100  # edited files per attempt; those that pass the checks are scored in another process
_CATEGORIES = {"categorical": [0, 1], "min_data_per_group": 5, "cat_smooth": 1, "num_leaves": 8}
_KINDS = {
    "lightgbm": (
        {},
        {"linear_tree": True},
        {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
        _CATEGORIES,
    ),
    "xgboost": ({}, {"booster": "dart"}, {"num_parallel_tree": 2}, {"tree_method": "exact", "gamma": 2.0}),
}


@cache
def _scorer():
    scorer = Scorer()
    atexit.register(scorer.__exit__)
    return scorer


@cache
def _made(name, place):
    """The files of a model of this kind: the booster, and the configuration."""
    settings, features, labels = _KINDS[name][place], X, Y
    if settings is _CATEGORIES:
        features = np.random.default_rng(0).integers(0, 40, size=X.shape).astype(np.float32)
        labels = ((features[:, 0] % 7) < 3).astype(int)
    native = "native:lambdarank" if name == "lightgbm" else "native:rank:ndcg"
    with tempfile.TemporaryDirectory() as folder:
        options = {"trees": 3, "holdout": 0.0, "loss": native, "verbosity": -1 if name == "lightgbm" else 0}
        quick(name, **{**options, **settings}).fit(features, labels, qid=QID).save(folder)
        config = (Path(folder) / "config.json").read_text()
        return (Path(folder) / FILES[name]).read_bytes(), without_hashes(config)


def case(rng, folder):
    name = ("lightgbm", "xgboost")[rng.integers(2)]
    content, config = _made(name, int(rng.integers(len(_KINDS[name]))))
    features, kept = json.loads(config)["features"], []
    for place in range(_FILES):
        if name == "lightgbm":
            made = edited_lightgbm(content.decode(), rng).encode()
        else:
            made = edited_xgboost(content, rng)
        try:
            if name == "lightgbm":
                check_lightgbm(made.decode(), features)
            else:
                checked_xgboost(made, features)
        except (ValueError, TypeError) as error:
            if len(str(error).splitlines()) != 1:
                raise AssertionError(f"not one sentence: {error!r}") from error
            continue
        if made != content:
            (folder / f"m{place}").mkdir()
            (folder / f"m{place}" / FILES[name]).write_bytes(made)
            (folder / f"m{place}" / "config.json").write_text(config)
            kept.append(folder / f"m{place}")
    for own in kept:
        ended = _scorer()(own)
        assert ended in ("scored", "refused"), f"{name} {ended}: {(own / FILES[name]).read_text()[:3000]}"
    return "scored" if kept else "refused"
