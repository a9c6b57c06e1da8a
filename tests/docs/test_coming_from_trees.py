"""The table of losses on docs/coming-from/lightgbm.md: the packages grow the trees that the rows say."""

import re

import numpy as np
import pytest
import torch
from page_blocks import loss_rows

from rankgrad import backend
from rankgrad.losses import parse_loss
from rankgrad.trees import objective

LISTS, LENGTH, TREES, RATE = 30, 40, 5, 0.2  # LENGTH is above the cutoffs of the page
ROWS = [row for row in loss_rows("lightgbm") if not row[2].startswith("not equal")]
BINARY = ("binary", "binary:logistic", "rank:map")
LIGHTGBM = {
    "num_leaves": 8, "min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 0.0, "lambda_l2": 0.0, "verbosity": -1,
    "boost_from_average": False, "lambdarank_norm": False, "force_col_wise": True, "num_threads": 1,
}  # fmt: skip
XGBOOST = {
    "max_depth": 3, "min_child_weight": 0, "reg_lambda": 0.0, "tree_method": "exact", "base_score": 0.0, "nthread": 1,
}  # fmt: skip
NO_NORM = {"lambdarank_normalization": False, "lambdarank_score_normalization": False}


@pytest.fixture(scope="module")
def table():
    random = np.random.default_rng(0)
    y = np.clip(random.normal(1.5, 1.2, LISTS * LENGTH), 0, 4).round()
    x = random.normal(size=(len(y), 4))
    x[:, 0] += y
    return x, y


def name_of(row):
    return re.search("`(.*?)`", row[0])[1]


def with_second_derivatives(text, labels):
    """Objective of XGBoost: the gradient of a loss, and the derivative of this gradient."""
    loss, labels = parse_loss(text), torch.tensor(labels).view(LISTS, LENGTH)

    def derivatives(scores, _):
        leaf = torch.tensor(scores, dtype=torch.float64).view(LISTS, LENGTH).requires_grad_()
        with backend("plain"):
            (slopes,) = torch.autograd.grad(loss(leaf, labels, reduction="sum"), leaf, create_graph=True)
        each = [torch.autograd.grad(slopes[:, i].sum(), leaf, retain_graph=True)[0][:, i] for i in range(LENGTH)]
        return slopes.detach().numpy().reshape(-1), torch.stack(each, -1).numpy().reshape(-1)

    return derivatives


def test_every_row_names_its_library():
    assert {row[0].partition(" ")[0] for row in loss_rows("lightgbm")} == {"LightGBM", "XGBoost"}
    assert len(ROWS) >= 8


@pytest.mark.parametrize("row", [row for row in ROWS if row[0].startswith("LightGBM")], ids=name_of)
def test_lightgbm(row, table):
    lgb = pytest.importorskip("lightgbm")
    x, y = table
    y = y > 1 if name_of(row) in BINARY else y

    def scores(loss):
        data = lgb.Dataset(x, y, group=[LENGTH] * LISTS)
        options = {**LIGHTGBM, "objective": loss, "learning_rate": RATE}
        return lgb.train(options, data, TREES).predict(x, raw_score=True)

    np.testing.assert_allclose(scores(objective(row[1])), scores(name_of(row)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("row", [row for row in ROWS if row[0].startswith("XGBoost")], ids=name_of)
def test_xgboost(row, table):
    xgb = pytest.importorskip("xgboost")
    name, ours, equal = name_of(row), row[1], row[2]
    x, y = table
    y = (y > 1).astype(float) if name in BINARY else y
    data = xgb.DMatrix(x, y)
    data.set_group([LENGTH] * LISTS)
    theirs = {**XGBOOST, "objective": name, "eta": RATE}
    if name == "binary:logistic":
        theirs["base_score"] = 0.5  # a probability: the score 0
    if name.startswith("rank:"):
        theirs |= {**NO_NORM, "eta": 2 * RATE}
    if "whole lists" in row[0]:
        theirs["lambdarank_num_pair_per_sample"] = LENGTH
    own = with_second_derivatives(ours, y) if "gradients" in equal else objective(ours, "xgboost")
    assert ("half the learning rate" in equal) == (name in ("rank:pairwise", "rank:ndcg"))
    found = xgb.train({**XGBOOST, "eta": RATE}, data, TREES, obj=own).predict(data, output_margin=True)
    expected = xgb.train(theirs, data, TREES).predict(data, output_margin=True)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert np.abs(expected).max() > 0.5
