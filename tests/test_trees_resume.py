"""Segments of boosted trees: the same trees as in one piece, and the same after a stop."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from small_trees import SAMPLED, every_framework, plan, run_twice, some_lists

from rankgrad import losses
from rankgrad.trees import TreeModel, boosting
from rankgrad.trees.boosting import boost

TRAIN, HELD = some_lists()
LOSSES = [
    ("lightgbm", "lambdarank"), ("lightgbm", "native:lambdarank"), ("xgboost", "softmax"), ("xgboost", "native:rank:ndcg"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(boosting, "SEGMENT", 4)


class Stop(Exception):
    pass


def stop_at(tree):
    def callback(row):
        if row["tree"] == tree:
            raise Stop

    return callback


def same(one, other):
    assert one.content() == other.content()
    np.testing.assert_array_equal(one.score(HELD.features), other.score(HELD.features))
    timed = ("seconds", "judge_seconds")
    rows = [[{key: row[key] for key in row if key not in timed} for row in model.history] for model in (one, other)]
    assert rows[0] == rows[1]
    assert one.metrics == other.metrics


@pytest.mark.parametrize(("framework", "loss"), LOSSES)
def test_without_sampling_segments_change_nothing(framework, loss, monkeypatch):
    told = plan(framework, loss=loss, trees=11, patience=None)
    parts = boost(told, TRAIN, HELD)
    alone = boost(told, TRAIN, None)
    monkeypatch.setattr(boosting, "SEGMENT", 1000)
    same(parts, boost(told, TRAIN, HELD))
    assert alone.content() == boost(told, TRAIN, None).content()
    assert alone.rounds == 11


@every_framework
def test_each_segment_has_a_seed_of_its_own(framework, monkeypatch):
    told = plan(framework, trees=8, **SAMPLED[framework])
    first, again = (boost(told, TRAIN, None) for _ in range(2))
    same(first, again)
    assert boost(told._replace(seed=9), TRAIN, None).content() != first.content()
    monkeypatch.setattr(boosting, "SEGMENT", 8)
    whole = boost(told, TRAIN, None)
    assert whole.content() != first.content()
    engine = {"lightgbm": lambda model: model.booster.model_to_string(num_iteration=4).partition("end of trees")[0]}
    part = engine.get(framework, lambda model: bytes(model.booster[:4].save_raw("json")))
    assert part(whole) == part(first)  # the first segment has the run's own seed


@every_framework
def test_what_the_data_taught_the_sampling_did_not_repeat(framework):
    given = {"lightgbm": {"bagging_seed": 5, "bagging_fraction": 0.5, "bagging_freq": 4}, "xgboost": {}}[framework]
    if not given:
        pytest.skip("one seed decides all")
    seeds = [boosting.ENGINES[framework]]
    from rankgrad.trees.parameters import seeded

    assert len({seeded({"bagging_seed": 5}, segment)["bagging_seed"] for segment in range(20)}) == 20
    assert seeds
