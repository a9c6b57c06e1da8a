"""Tree files that somebody edited: refused in one sentence, or scored; never the end of the process."""

import json
import re

import numpy as np
import pytest
from edited_trees import Scorer, edited_lightgbm, edited_xgboost, sized, without_hashes
from small_trees import QID, X, Y, every_framework, quick

from rankgrad.tree_frameworks import FILES
from rankgrad.trees import TreeRanker
from rankgrad.trees.lightgbm.checks import check_lightgbm
from rankgrad.trees.xgboost.checks import checked_xgboost

SETTINGS = {
    "lightgbm": (
        {}, {"linear_tree": True}, {"boosting": "dart", "patience": None}, {"boosting": "rf", "bagging_freq": 1,
        "bagging_fraction": 0.5, "loss": "native:lambdarank"}, {"monotone_constraints": [1, 0, 0, -1]},
        {"zero_as_missing": True}, {"min_gain_to_split": 1e9}, {"interaction_constraints": "[0,1],[2,3]"},
        {"loss": "native:rank_xendcg", "num_leaves": 31}, {"categorical": [0, 1], "min_data_per_group": 3},
    ),
    "xgboost": (
        {}, {"booster": "dart", "rate_drop": 0.5}, {"num_parallel_tree": 3, "subsample": 0.5}, {"base_score": 0.3},
        {"tree_method": "exact", "gamma": 2.0, "max_depth": 6}, {"grow_policy": "lossguide", "max_leaves": 5},
        {"loss": "native:rank:ndcg", "lambdarank_unbiased": True}, {"loss": "native:rank:pairwise"},
        {"min_child_weight": 1e9},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The folder of a model of each framework."""
    folder = tmp_path_factory.mktemp("trees")
    for framework in SETTINGS:
        quick(framework, trees=3).fit(X, Y, qid=QID).save(folder / framework)
    return folder


@pytest.mark.filterwarnings("ignore")
@every_framework
def test_what_the_frameworks_write_passes(framework, tmp_path):
    whole = np.abs(np.round(3 * X))
    for place, settings in enumerate(SETTINGS[framework]):
        ranker = quick(framework, **{"trees": 3, "loss": "softmax", **settings}).fit(whole, Y, qid=QID)
        ranker.save(tmp_path / f"{place}")
        again = TreeRanker.load(tmp_path / f"{place}")
        np.testing.assert_array_equal(again.predict(whole), ranker.predict(whole))
        again.save(tmp_path / "again")
        name = FILES[framework]
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / f"{place}" / name).read_bytes()


LINES = {
    "a child beyond the tree": ("left_child=", "left_child=7777", "left_child must be from -4 to 2; got 7777"),
    "a child that is its own parent": ("left_child=", "left_child=0", "children must lead to each node at most once"),
    "a feature beyond the rows": ("split_feature=", "split_feature=99", "split_feature must be from 0 to 3; got 99"),
    "a negative feature": ("split_feature=", "split_feature=-5", "split_feature must be from 0 to 3; got -5"),
    "a categorical split without categories": ("decision_type=", "decision_type=1", "num_cat must be the number of"),
    "more leaves than there are": ("num_leaves=", "num_leaves=400", "must be 399 finite numbers"),
    "categories that are not there": ("num_cat=", "num_cat=9", "cat_boundaries must be in the file; got no such line"),
    "another number of features": ("max_feature_idx=", "max_feature_idx=70", "max_feature_idx must be 3; got '70'"),
    "no trees per iteration": ("num_tree_per_iteration=", "num_tree_per_iteration=0", "must be 1; got '0'"),
    "linear leaves without coefficients": ("is_linear=", "is_linear=1", "leaf_const must be in the file"),
    "no word on linear leaves": ("is_linear=", "shrinkage=1\n", "in LightGBM's order"),
}


@pytest.mark.parametrize("case", LINES)
def test_a_line_of_lightgbm_that_is_wrong_is_refused(case, saved):
    begins, instead, said = LINES[case]
    text = (saved / "lightgbm" / "model.txt").read_text()
    text = sized(re.sub(rf"(?m)^{begins}[^ \n]*", instead, text, count=1))
    with pytest.raises(ValueError, match=re.escape(said)):
        check_lightgbm(text, 4)


@pytest.mark.parametrize("sizes", ["1", "99999999999", "5 5 5", "-3 7", ""])
def test_sizes_of_trees_that_are_wrong_are_refused(sizes, saved):
    text = re.sub(r"tree_sizes=.*", f"tree_sizes={sizes}", (saved / "lightgbm" / "model.txt").read_text())
    with pytest.raises(ValueError, match=r"tree_sizes|tree 0: tree must begin"):
        check_lightgbm(text, 4)


FIELDS = {
    "left_children": (0, 77, "children must be from 1 to 6; got 77"),
    "right_children": (0, 1, "children must lead to each node at most once"),
    "split_indices": (0, 99, "split_indices must be from 0 to 3; got 99"),
    "split_type": (0, 1, "categories_nodes must be the nodes whose split_type is 1, in order; got []"),
    "parents": (3, 6, "parents must match left_children and right_children"),
    "split_conditions": (0, "1", "split_conditions must be a list of finite numbers"),
    "default_left": (0, 7, "default_left must be from 0 to 1; got 7"),
}


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_of_xgboost_that_is_wrong_is_refused(field, saved):
    place, value, said = FIELDS[field]
    model = json.loads((saved / "xgboost" / "model.json").read_text())
    tree = model["learner"]["gradient_booster"]["model"]["trees"][0]
    tree[field][place] = value
    with pytest.raises(ValueError, match=re.escape(f"tree 0: {said}")):
        checked_xgboost(json.dumps(model).encode(), 4)
    tree[field] = tree[field][:-1]
    with pytest.raises(ValueError, match=rf"tree 0: {field} must be"):
        checked_xgboost(json.dumps(model).encode(), 4)


@pytest.fixture(scope="module")
def scorer():
    with Scorer() as one:
        yield one


@every_framework
def test_no_edited_file_crashes_the_process(framework, saved, scorer, tmp_path):
    rng = np.random.default_rng(2)
    content, config = ((saved / framework / name).read_bytes() for name in (FILES[framework], "config.json"))
    ended = []
    for place in range(60):
        own = tmp_path / f"{place}"
        own.mkdir()
        if framework == "lightgbm":
            (own / "model.txt").write_text(edited_lightgbm(content.decode(), rng), encoding="utf-8")
        else:
            (own / "model.json").write_bytes(edited_xgboost(content, rng))
        (own / "config.json").write_text(without_hashes(config))
        ended.append(scorer(own))
    assert set(ended) == {"scored", "refused"}


@every_framework
def test_what_lies_beside_a_model_is_named_where_it_is_damaged(framework, saved, tmp_path):
    ranker = TreeRanker.load(saved / framework)
    about = json.loads((saved / framework / "config.json").read_text())
    for name, content in {
        "metrics.json": '{"trees": 1', "estimator.json": "\udcff", FILES[framework]: "\0\0",
        "config.json": json.dumps({**about, "features": "many"}),
    }.items():  # fmt: skip
        ranker.save(tmp_path / name)
        (tmp_path / name / name).write_text(content, encoding="utf-8", errors="surrogateescape")
        with pytest.raises(ValueError, match=re.escape(str(tmp_path / name / name))):
            TreeRanker.load(tmp_path / name)
