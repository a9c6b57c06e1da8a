"""One training checks its settings once, and parses each spec once."""

import sys
from collections import Counter
from contextlib import contextmanager

import pytest
from programs import run_here

import rankgrad as rg
from rankgrad import spec
from rankgrad.settings.schema import Schema

READERS = {spec.spell.__code__, spec.sequence.__code__}


@contextmanager
def counted():
    """Count the specs that are parsed inside of a `with` statement, by text, and the checks of settings."""
    calls = Counter()

    def note(frame, event, _):
        if event == "call" and frame.f_code in READERS:
            calls[frame.f_locals["what"], frame.f_locals["text"]] += 1
        if event == "call" and frame.f_code is Schema.read.__code__:
            calls["check"] += 1

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)


NETWORK = {
    "model": "linear", "loss": "0.5*softmax+0.5*bce", "preprocess": "log1p,standardise", "metric": "AP@9",
    "optimiser": "adamw:eps=1e-6", "schedule": "step:every=1,factor=0.5", "epochs": 3,
}  # fmt: skip
TREES = {"model": "lightgbm", "loss": "softmax", "metric": "AP@8", "epochs": 2}


@pytest.fixture(scope="module")
def lists():
    return rg.data.load("synthetic:lists=40,features=10").train


def check(calls, metric):
    assert calls["loss", "softmax"] == calls["metric", metric] == calls["check"] == 1
    assert set(calls.values()) == {1}


@pytest.mark.parametrize("settings", [NETWORK, TREES], ids=lambda settings: settings["model"])
def test_a_command_reads_each_spec_once(settings, lists, tmp_path):
    rg.data.write_letor(lists, tmp_path / "lists.txt")
    words = [word for name, value in settings.items() for word in (f"--{name}", value)]
    with counted() as calls:
        run_here("train", "--data", tmp_path / "lists.txt", *words, "--out", tmp_path / "run")
    check(calls, settings["metric"])


def test_an_estimator_reads_each_spec_once(lists):
    trees = rg.trees.TreeRanker("lightgbm", "softmax", metric="AP@7", trees=2)
    for ranker in (
        rg.Ranker(**{**NETWORK, "metric": "AP@6"}),
        trees,
    ):  # a metric is kept when it is read
        with counted() as calls:
            ranker.fit(lists.features, lists.labels, qid=lists.row_qids)
        check(calls, ranker.metric)
