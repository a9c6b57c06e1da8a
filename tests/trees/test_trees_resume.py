"""Segments of boosted trees: the same trees as in one piece, and the same trees after a stop."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from paths import TESTS
from small_trees import FRAMEWORKS, SAMPLED, every_framework, lists, plan

from rankgrad import backend, losses
from rankgrad.atomic_files import read_tensors, write_tensors
from rankgrad.models import load
from rankgrad.trees import boosting
from rankgrad.trees.boosting import boost
from rankgrad.trees.lightgbm import growth as parameters
from rankgrad.trees.lightgbm.growth import seeded
from rankgrad.trees.parameters import in_segments
from rankgrad.trees.xgboost import growth as frameworks

TRAIN, HELD = lists(0), lists(7)
LOSSES = [
    ("lightgbm", "lambdarank"), ("lightgbm", "native:lambdarank"), ("xgboost", "softmax"),
    ("xgboost", "native:rank:ndcg"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(boosting, "SEGMENT", 4)


class Stop(Exception):
    """A run that ends in the middle."""


def stop_at(tree):
    def callback(row):
        if row["tree"] == tree:
            raise Stop

    return callback


def stopped(told, out, tree, train=TRAIN, **more):
    with pytest.raises(Stop):
        boost(told, train, HELD, out=out, callbacks=[stop_at(tree)], **more)


def without_times(model):
    return [{key: row[key] for key in row if "seconds" not in key} for row in model.history]


def same(one, other):
    assert one.content() == other.content()
    np.testing.assert_array_equal(one.score(HELD.features), other.score(HELD.features))
    assert without_times(one) == without_times(other)
    assert one.metrics == other.metrics


@pytest.mark.parametrize(("framework", "loss"), LOSSES)
def test_without_sampling_segments_change_nothing(framework, loss, monkeypatch):
    told = plan(framework, loss=loss, trees=11)
    parts, alone = boost(told, TRAIN, HELD), boost(told, TRAIN, None)
    assert alone.rounds == 11
    monkeypatch.setattr(boosting, "SEGMENT", 1000)
    same(boost(told, TRAIN, HELD), parts)
    assert boost(told, TRAIN, None).content() == alone.content()


@pytest.mark.parametrize("gain", [0.5, 5.0, 1e9])
def test_where_no_leaf_can_be_split_any_more_training_ends(gain, monkeypatch):
    told = plan("lightgbm", trees=400, min_gain_to_split=gain)
    parts = boost(told, TRAIN, HELD)
    assert len(parts.history) < 400
    assert parts.rounds == parts.kept
    monkeypatch.setattr(boosting, "SEGMENT", 1000)
    same(boost(told, TRAIN, HELD), parts)


@every_framework
def test_each_segment_has_a_seed_of_its_own(framework, monkeypatch):
    told = plan(framework, trees=8, **SAMPLED[framework])
    parts = boost(told, TRAIN, None)
    same(boost(told, TRAIN, None), parts)
    first = boost(replace(told, trees=4), TRAIN, None)
    with monkeypatch.context() as patch:  # the same seed for all segments: other trees, but for those of the first
        for module in (parameters, frameworks):
            patch.setattr(module, "seed_of", lambda seed, segment: seed)
        alike = boost(told, TRAIN, None)
        assert boost(replace(told, trees=4), TRAIN, None).content() == first.content()
    assert alike.content() != parts.content()
    monkeypatch.setattr(boosting, "SEGMENT", 8)
    assert boost(told, TRAIN, None).content() not in (parts.content(), alike.content())
    same(boost(replace(told, trees=4), TRAIN, None), first)  # the first segment has the run's own seed


def test_seeds_of_lightgbm_that_are_given_differ_by_segment_too():
    found = [seeded({"bagging_seed": 5, "num_leaves": 5}, segment) for segment in range(20)]
    assert len({params["bagging_seed"] for params in found}) == 20
    assert found[0]["bagging_seed"] == 5
    assert {params["num_leaves"] for params in found} == {5}


@every_framework
@pytest.mark.parametrize("loss", ["lambdarank", "native"])
def test_stopped_and_resumed_it_is_as_if_unbroken(framework, loss, tmp_path):
    loss = {"lightgbm": "native:lambdarank", "xgboost": "native:rank:ndcg"}[framework] if loss == "native" else loss
    told = plan(framework, loss=loss, trees=14, **SAMPLED[framework])
    whole = boost(told, TRAIN, HELD)
    out = tmp_path / "run"
    stopped(told, out, 6)
    stopped(told, out, 11, resume=True)
    seen = []
    resumed = boost(told, TRAIN, HELD, out=out, resume=True, callbacks=[lambda row: seen.append(row["tree"])])
    assert seen == [9, 10, 11, 12, 13, 14]  # from the border at 8
    same(resumed, whole)
    same(boost(told, TRAIN, HELD, out=out, resume=True), whole)  # done, and resumed
    saved = load(out)
    assert saved.content() == whole.content()
    rows = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    assert [row["tree"] for row in rows] == [*range(1, 15)]
    assert [row["nDCG@10"] for row in rows] == [row["nDCG@10"] for row in whole.history]


@every_framework
def test_resumed_to_more_trees_it_goes_on(framework, tmp_path):
    told = plan(framework, trees=40, patience=9, **SAMPLED[framework])
    for trees in (3, 6, 13):
        boost(replace(told, trees=trees), TRAIN, HELD, out=tmp_path, resume=True)
    seen = []
    more = boost(told, TRAIN, HELD, out=tmp_path, resume=True, callbacks=[lambda row: seen.append(row["tree"])])
    assert seen[0] in (9, 13)  # the last border before the end, which may have come early
    same(more, boost(told, TRAIN, HELD))
    assert len(more.history) == more.kept + 9 < 40  # patience counts over borders


@pytest.mark.parametrize(
    ("framework", "settings"),
    [
        ("lightgbm", {"loss": "softmax", "smooth": "drawn"}),
        ("lightgbm", {"loss": "softmax:gumbel=2"}),
        ("lightgbm", {"loss": "xe_ndcg:gamma=drawn"}),
        ("xgboost", {"loss": "listnet", "smooth": "drawn"}),
        ("lightgbm", {"loss": "native:lambdarank", "boosting": "dart"}),
    ],
    ids=str,
)
def test_what_is_random_or_learned_in_a_loss_is_resumed(framework, settings, tmp_path):
    told = plan(framework, trees=9, **settings)
    before = torch.random.get_rng_state()
    whole = boost(told, TRAIN, HELD)
    stopped(told, tmp_path, 6)
    same(boost(told, TRAIN, HELD, out=tmp_path, resume=True), whole)
    assert torch.equal(torch.random.get_rng_state(), before)  # the caller's random numbers


def test_a_module_as_a_loss_is_not_changed_and_resumed(tmp_path):
    learn = losses.LearnDCG()
    told = plan("lightgbm", loss=learn, loss_lr=0.1, trees=6)
    with backend("plain"):  # which compiles nothing
        whole = boost(told, TRAIN, HELD)
        stopped(told, tmp_path, 5)
        same(boost(told, TRAIN, HELD, out=tmp_path, resume=True), whole)
    assert whole.history[-1]["alpha"] != 1.0
    assert learn.learned()["alpha"] == 1.0


@pytest.mark.parametrize(
    ("framework", "params", "cut"),
    [
        ("lightgbm", {"boosting_type": "dart"}, False),
        ("lightgbm", {"data_sample_strategy": "goss"}, False),
        ("lightgbm", {"linear_trees": True}, False),
        ("lightgbm", {"boosting": "gbdt", "num_leaves": 4}, True),
        ("xgboost", {"lambdarank_unbiased": True}, False),
        ("xgboost", {"booster": "dart"}, False),
        ("xgboost", {"booster": "gbtree"}, True),
    ],
)
def test_what_depends_on_more_of_the_past_is_trained_in_one_piece(framework, params, cut):
    assert in_segments(params, framework) == cut


def test_one_piece_of_the_length_of_a_segment_is_not_continued(tmp_path):
    told = plan("xgboost", trees=6, booster="dart", rate_drop=0.5)
    boost(replace(told, trees=4), TRAIN, HELD, out=tmp_path)
    same(boost(told, TRAIN, HELD, out=tmp_path, resume=True), boost(told, TRAIN, HELD))


@every_framework
def test_other_settings_and_data_are_errors(framework, tmp_path):
    told = plan(framework, trees=6)
    stopped(told, tmp_path, 5)
    with pytest.raises(ValueError, match="unless the run is resumed; got a folder that already contains a run"):
        boost(told, TRAIN, HELD, out=tmp_path)
    with pytest.raises(ValueError, match=r"seed must be 3, to resume .*; got 4"):
        boost(replace(told, seed=4), TRAIN, HELD, out=tmp_path, resume=True)
    with pytest.raises(ValueError, match=r"data must equal the data of the run, .*, to resume .*; got"):
        boost(told, HELD, HELD, out=tmp_path, resume=True)
    with pytest.raises(ValueError, match=r"validation must equal the validation of the run, .*, to resume .*; got"):
        boost(told, TRAIN, TRAIN, out=tmp_path, resume=True)
    with pytest.raises(ValueError, match=r"sample_weight must equal the sample_weight of the run, None, to"):
        boost(told, TRAIN, HELD, np.ones(len(TRAIN.labels), np.float32), out=tmp_path, resume=True)
    with pytest.raises(ValueError, match="init_model must equal the init_model of"):
        boost(told, TRAIN, HELD, out=tmp_path, resume=True, init_model=boost(told, TRAIN, None))


@every_framework
@pytest.mark.parametrize("damage", ["part", "scores", "history", "length"])
def test_a_checkpoint_that_was_edited_is_one_sentence(framework, damage, tmp_path):
    told = plan(framework, trees=9)
    stopped(told, tmp_path, 6)
    path = tmp_path / "last.safetensors"
    tensors, facts = read_tensors(path)
    if damage == "part":  # a child that does not exist, which crashes a framework that follows it
        content = tensors["part.0"].numpy().tobytes().decode()
        at = content.index("left_child=" if framework == "lightgbm" else '"left_children":[') + 17
        edited = content[:at] + "999 " * (framework == "lightgbm") + "999," * (framework != "lightgbm") + content[at:]
        tensors["part.0"] = torch.frombuffer(bytearray(edited.encode()), dtype=torch.uint8)
    elif damage == "scores":
        tensors["scores.train"] = tensors["scores.train"][1:]
    elif damage == "history":
        facts["history"][1]["nDCG@10"] = "high"
    else:
        facts["history"] = facts["history"][:-1]
    write_tensors(path, tensors, facts)
    with pytest.raises(
        ValueError, match=r"last.safetensors must be a checkpoint of this run \(otherwise, train again in .*\); got"
    ):
        boost(told, TRAIN, HELD, out=tmp_path, resume=True)


def test_a_link_in_the_folder_is_refused(tmp_path):
    (tmp_path / "log.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="must not be a symbolic link"):
        boost(plan("lightgbm", trees=2), TRAIN, HELD, out=tmp_path)


PROGRAM = """
import sys, time
sys.path.insert(0, sys.argv[1])
from small_trees import SAMPLED, lists, plan
from rankgrad.trees.boosting import boost
told = plan(sys.argv[2], trees=400, **SAMPLED[sys.argv[2]])
boost(told, lists(0), lists(7), out=sys.argv[3], resume=True)
"""


@pytest.mark.long
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_killed_at_any_moment_and_resumed(framework, tmp_path, monkeypatch):
    monkeypatch.undo()  # segments of full length
    told = plan(framework, trees=400, **SAMPLED[framework])
    line = [sys.executable, "-c", PROGRAM, str(TESTS), framework, str(tmp_path)]
    rng, log, killed = np.random.default_rng(0), tmp_path / "log.jsonl", 0
    aim = 70
    while True:
        process = subprocess.Popen(line, env={**os.environ, "OMP_NUM_THREADS": "1"})
        while process.poll() is None and (not log.exists() or log.read_bytes().count(b"\n") < aim):
            time.sleep(0.001)
        if process.poll() is not None:
            assert process.returncode == 0
            break
        process.send_signal(signal.SIGKILL)
        process.wait()
        killed, aim = killed + 1, aim + int(rng.integers(60, 140))
    assert killed > 1
    assert load(tmp_path).content() == boost(told, TRAIN, HELD).content()
