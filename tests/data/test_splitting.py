"""One hold-out: the same lists by seed and query, whoever asks."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import rankgrad as rg
from rankgrad.cli import app
from rankgrad.cli.data_source import KEPT, DataSource
from rankgrad.data import Dataset, Splits, load, splitting
from rankgrad.data.splitting import held_out, hold_out, hold_out_as_in_0_1
from rankgrad.experiments.recipes import data_sets
from rankgrad.training.heldout_adaptation import split_held_out as adapt_hold_out


def lists(count=40, same=(), qids=None):
    """Lists of three documents; those numbered in `same` have equal labels."""
    rng = np.random.default_rng(0)
    labels = np.tile([0.0, 1.0, 2.0], count).astype(np.float32)
    for number in same:
        labels[3 * number : 3 * number + 3] = 1.0
    qids = np.arange(count) if qids is None else qids
    return Dataset(rng.normal(size=(3 * count, 4)).astype(np.float32), labels, np.arange(0, 3 * count + 1, 3), qids)


def queries(data, seed=0, share=0.2):
    return set(map(str, data.qids[held_out(data, share, seed)[1]]))


def test_lists_are_held_out_by_seed_and_query():
    data = lists()
    kept, held = held_out(data, 0.2, seed=0)
    assert len(held) == 8
    assert np.array_equal(np.sort(np.concatenate([kept, held])), np.arange(40))
    assert queries(data) == queries(data.take(np.random.default_rng(1).permutation(40)))  # whatever their order
    assert queries(data) == queries(lists(qids=np.arange(40).astype(str)))  # and whether ids are numbers or text
    assert len({frozenset(queries(data, seed)) for seed in range(5)}) == 5
    grown = lists(50)
    assert len(queries(grown) & queries(data)) >= 6  # ten more lists take the place of a few
    often = sum(3 in held_out(data, 0.2, seed)[1] for seed in range(500))
    assert 60 < often < 140  # a fifth of the time


def test_held_out_lists_are_like_all_lists():
    data = lists(60, same=range(20))
    kept, held = held_out(data, 0.2, 0)
    assert ((held < 20).sum(), len(held)) == (4, 12)
    assert np.array_equal(np.sort(np.concatenate([kept, held])), np.arange(60))
    telling = data.take(np.arange(20, 60))
    assert queries(telling) == {query for query in queries(data) if int(query) >= 20}  # the others do not matter
    assert held_out(lists(3, same=[2]), 0.9, 0)[0].size == 1
    assert held_out(lists(20, same=range(1, 20)), 0.2, 0)[1].size == 0  # the only list that tells rankers apart
    assert held_out(lists(4, same=range(4)), 0.5, 0)[1].size == 0
    assert held_out(lists(1), 0.9, 0)[1].size == 0
    assert held_out(lists(2), 0.9, 0)[0].size == 1
    assert held_out(lists(0), 0.2, 0)[1].size == 0
    for share in (-0.1, 1.0, float("nan"), True, "0.2"):
        with pytest.raises(ValueError, match="holdout must be a number of at least 0 and below 1"):
            held_out(lists(), share, 0)


def test_every_way_in_holds_out_the_same_lists(tmp_path, monkeypatch):
    data = load("synthetic:lists=30,features=10").train
    want = queries(data, seed=3)
    rows = "".join(
        f"{label:g} qid:{qid} {' '.join(f'{j}:{value:g}' for j, value in enumerate(row, 1))}\n"
        for row, label, qid in zip(data.features, data.labels, data.row_qids, strict=True)
    )
    (tmp_path / "file.txt").write_text(rows)
    # The command line, which notes what it took.
    words = ["train", "--data", tmp_path / "file.txt", "--model", "linear", "--epochs", 1, "--seed", 3, "--out"]
    done = CliRunner().invoke(app, [*map(str, words), str(tmp_path / "a")])
    assert done.exit_code == 0, done.output
    source = DataSource.kept(tmp_path / "a")
    assert set(map(str, source.hold_out(source.read())["validation"].qids)) == want
    # The estimators, with rows in any order.
    seen = []
    for module in ("rankgrad.estimators.rows",):
        monkeypatch.setattr(f"{module}.held_out", lambda *told: seen.append(told) or splitting.held_out(*told))
    order = np.random.default_rng(0).permutation(len(data.labels))
    qid = data.row_qids[order]
    rg.Ranker(model="linear", epochs=1, seed=3).fit(data.features[order], data.labels[order], qid=qid)
    (given,) = seen
    assert set(map(str, given[0].qids[splitting.held_out(*given)[1]])) == want
    # Recipes and held-out adaptation.
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "train.txt").write_text(rows)
    (tmp_path / "set" / "test.txt").write_text(rows)
    assert set(map(str, data_sets.read_recipe_data(str(tmp_path / "set")).validation.qids)) == queries(data, seed=0)
    assert set(map(str, data.qids[adapt_hold_out(data, 3)[1]])) == want


def test_a_run_of_version_0_1_keeps_its_lists(tmp_path):
    data = lists()
    (tmp_path / KEPT).write_text(json.dumps({"data": "x", "fold": None, "root": None, "holdout": 0.2}))
    source = DataSource.kept(tmp_path)
    assert source.seed is None
    found = source.hold_out({"train": data})["validation"].qids
    drawn = np.sort(np.random.default_rng(0).permutation(40)[:8])  # what version 0.1 did
    assert np.array_equal(found, data.qids[drawn])
    splits = Splits(data, None, data)
    assert hold_out_as_in_0_1(splits, 0.0) is splits
    assert hold_out(splits, 0.0) is splits
    with pytest.raises(ValueError, match="holdout must be 0, or large enough"):
        hold_out(Splits(lists(1), None, lists(1)), 0.2)
