"""Small lists and quick rankers, for the tests of boosted trees."""

import numpy as np
import pytest

from rankgrad.data import from_arrays
from rankgrad.trees import TreeRanker

FRAMEWORKS = {"lightgbm": {"num_leaves": 4, "min_data_in_leaf": 3}, "xgboost": {"max_depth": 2, "eta": 0.2}}
every_framework = pytest.mark.parametrize("framework", FRAMEWORKS)


def rows(lists=40, features=4, seed=0, nan=False):
    """Scattered rows of lists of 2 to 12 documents, labels from the features."""
    rng = np.random.default_rng(seed)
    qid = rng.permutation(np.repeat(np.arange(lists), rng.integers(2, 13, lists)))
    X = rng.normal(size=(len(qid), features)).astype(np.float32)
    y = np.clip(np.round(X[:, 0] + X[:, 1] + 1), 0, 3).astype(int)
    if nan:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X, y, qid


X, Y, QID = rows()


def grouped(X, y, qid):
    order = np.argsort(qid, kind="stable")
    return X[order], y[order], np.bincount(qid)


def quick(framework="lightgbm", **settings):
    pytest.importorskip(framework)
    return TreeRanker(framework, **{"trees": 12, "threads": 1, **FRAMEWORKS[framework], **settings})


SAMPLED = {
    "lightgbm": {"bagging_fraction": 0.6, "bagging_freq": 1, "feature_fraction": 0.6},
    "xgboost": {"subsample": 0.6, "colsample_bytree": 0.6},
}


def lists(seed, nan=False):
    """Lists, as `boost` takes them."""
    return from_arrays(*rows(seed=seed, nan=nan)[:2], qid=rows(seed=seed)[2], missing=np.nan)[0]


def plan(framework, **settings):
    return quick(framework, **{"patience": None, "seed": 3, **settings}).plan()
