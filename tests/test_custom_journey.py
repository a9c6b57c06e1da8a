"""Every own part goes the whole way: trained, stopped, resumed, saved, loaded, in a grid search, and in trees."""

import copy

import numpy as np
import pytest
import torch
from custom_parts import LISTS, Flat, Padded, Rows, Scaled, flat_softmax, list_softmax, padded_softmax, top_label
from sklearn import config_context
from sklearn.model_selection import GridSearchCV, GroupKFold
from torch import nn

import rankgrad as rg
from rankgrad.training import Model, Settings, train

SUM = rg.losses.weighted_sum((0.7, "softmax"), (0.3, rg.losses.bce))
PARTS = {
    "loss of flat lists": {"loss": flat_softmax},
    "loss of padded lists": {"loss": padded_softmax},
    "loss of one list": {"loss": list_softmax},
    "loss with parameters": {"loss": Scaled(), "loss_lr": 0.1},
    "composed loss": {"loss": SUM},
    "composed loss of own ones": {"loss": rg.losses.weighted_sum((1.0, list_softmax), (0.5, Scaled()))},
    "composed loss as text": {"loss": "0.7*softmax+0.3*bce"},
    "relaxed loss": {"loss": rg.losses.relaxed(rg.metrics.AP, rg.relax.neural_sort(temperature=1.0))},
    "noisy loss": {"loss": rg.losses.gumbel(rg.losses.approx_ndcg, samples=2)},
    "network of documents": {"model": Rows()},
    "network of padded lists": {"model": Padded()},
    "network of flat lists": {"model": Flat()},
    "network by its maker": {"model": Rows},
    "metric": {"metric": top_label},
}
every_part = pytest.mark.parametrize("part", PARTS.values(), ids=[*PARTS])
QUICK = {"model": "linear", "loss": "softmax", "epochs": 3, "batch_size": 8, "lr": 0.01, "device": "cpu"}
ROWS, LABELS, QID = LISTS.train.features, LISTS.train.labels, LISTS.train.row_qids
TEST = LISTS.test.features, LISTS.test.row_qids


def states(part):
    return {
        name: copy.deepcopy(value.state_dict()) if isinstance(value, nn.Module) else value
        for name, value in part.items()
    }


def equal(left, right):
    return all(
        all(torch.equal(value, right[name][key]) for key, value in state.items()) if isinstance(state, dict) else True
        for name, state in left.items()
    )


@every_part
def test_an_own_part_goes_the_whole_way(part, tmp_path):
    before = states(part)
    settings = Settings(**{**QUICK, **part})
    whole = train(settings, LISTS.train, LISTS.validation, out=tmp_path / "whole")
    # Stopped after an epoch, and resumed: the same bits.
    stopped = train(settings, LISTS.train, LISTS.validation, out=tmp_path / "a", callbacks=[lambda row: True])
    assert len(stopped.history) == 1
    resumed = train(settings, LISTS.train, LISTS.validation, out=tmp_path / "a", resume=True)
    scores = whole.score(LISTS.test.features, LISTS.test.offsets)
    assert np.ptp(scores) > 0
    np.testing.assert_array_equal(resumed.score(LISTS.test.features, LISTS.test.offsets), scores)
    # The folder of the run, which asks for a network again and for nothing else.
    again = {"model": part["model"]} if "model" in part else {}
    read = Model.load(tmp_path / "a", **again)
    np.testing.assert_array_equal(read.score(LISTS.test.features, LISTS.test.offsets), scores)
    if again:
        with pytest.raises(ValueError, match="model must be given"):
            rg.models.load(tmp_path / "a")
    # The estimator: fitted, saved, loaded with the object, fitted again.
    ranker = rg.Ranker(**{**QUICK, **part}).fit(ROWS, LABELS, qid=QID)
    ranker.save(tmp_path / "b")
    objects = {name: value for name, value in part.items() if name != "loss_lr" and not isinstance(value, str)}
    loaded = rg.Ranker.load(tmp_path / "b", **objects)
    np.testing.assert_array_equal(loaded.predict(TEST[0], qid=TEST[1]), ranker.predict(TEST[0], qid=TEST[1]))
    refitted = loaded.fit(ROWS, LABELS, qid=QID)
    if "noisy" not in str(part):
        np.testing.assert_array_equal(refitted.predict(TEST[0], qid=TEST[1]), ranker.predict(TEST[0], qid=TEST[1]))
    assert equal(before, states(part))  # nothing that was passed is changed


@every_part
def test_an_own_part_in_a_grid(part):
    with config_context(enable_metadata_routing=True):
        ranker = rg.Ranker(**{**QUICK, **part, "epochs": 1}).set_fit_request(qid=True).set_score_request(qid=True)
        search = GridSearchCV(ranker, {"lr": [0.001, 0.1]}, cv=GroupKFold(2), error_score="raise")
        search.fit(ROWS, LABELS, qid=QID, groups=QID)
    assert search.best_estimator_.predict(TEST[0], qid=TEST[1]).shape == LISTS.test.labels.shape


@pytest.mark.parametrize(
    "part",
    [part for part in PARTS.values() if "model" not in part],
    ids=[name for name, part in PARTS.items() if "model" not in part],
)
def test_trees_take_own_losses_and_metrics(part, tmp_path):
    pytest.importorskip("lightgbm")
    before = states(part)
    told = {name: value for name, value in part.items() if name in ("loss", "metric")}
    made = {"trees": 4, "num_leaves": 4, "min_data_in_leaf": 3, "threads": 1}
    ranker = rg.trees.TreeRanker("lightgbm", **{"loss": "softmax", **told}, **made).fit(ROWS, LABELS, qid=QID)
    ranker.save(tmp_path)
    scores = ranker.predict(TEST[0])
    np.testing.assert_array_equal(rg.models.load(tmp_path).score(TEST[0]), scores)
    assert np.ptp(scores) > 0
    assert equal(before, states(part))
