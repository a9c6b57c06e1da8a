"""The page docs/empty-lists.md and the ablation of docs/trees.md: losses of the study, numbers of the tables."""

import importlib
import re
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from paths import ROOT

import rankgrad as rg
from rankgrad import losses
from rankgrad.trees import objective


def imported(folder, name):
    sys.path.insert(0, str(ROOT / folder))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(ROOT / folder))


@pytest.fixture(scope="module")
def benchmark():
    return imported("benchmarks", "empty_lists")


@pytest.fixture(scope="module")
def results():
    return imported("docs", "pages.empty_lists_study")


@pytest.fixture(scope="module")
def lists():
    """Lists of which the second has no relevant document."""
    rng = np.random.default_rng(0)
    offsets = np.array([0, 4, 9, 12])
    labels = rng.integers(0, 3, 12).astype(np.float32)
    labels[4:9], labels[0], labels[9] = 0, 2, 1
    return rg.data.Dataset(rng.normal(size=(12, 3)).astype(np.float32), labels, offsets, np.arange(3))


SCORES = np.random.default_rng(1).normal(size=12)
PUBLISHED = {
    "labels out labels": ("softmax", None),
    "labels out one": ("listnet", None),
    "smoothed out one": (partial(losses.xe_ndcg, gamma=0.5), None),
    "smoothed uniform one": ("listnet", 0.5),
    "smoothed uniform targets": ("softmax", 0.5),
}


@pytest.mark.parametrize("row", PUBLISHED)
def test_rows_of_the_study_are_the_losses_of_the_library(benchmark, lists, row):
    targets = benchmark.with_targets(lists, *row.split())
    loss, smooth = PUBLISHED[row]
    ours, known = objective("softmax"), objective(loss, smooth=smooth)
    found = ours.derivatives(SCORES, targets.labels, lists.offsets)
    expected = known.derivatives(SCORES, lists.labels, lists.offsets)
    np.testing.assert_allclose(found[0], expected[0], atol=1e-6)


def test_each_change_of_the_study_changes_one_thing(benchmark, lists):
    """Shares of the documents, empty lists and weights of the lists, by row of the factorial."""
    full = np.repeat([True, False, True], lists.lengths)

    def parts(row):
        targets = benchmark.with_targets(lists, *row).labels
        sums = np.add.reduceat(targets, lists.offsets[:-1])
        return (targets / np.repeat(np.where(sums > 0, sums, 1), lists.lengths))[full], sums[1] > 0, sums[[0, 2]]

    rows = {row: parts(row) for row in benchmark.FACTORIAL}
    for one, (shares, kept, weights) in rows.items():
        for two, (others, also, heavy) in rows.items():
            assert np.allclose(shares, others, atol=1e-6) == (one[0] == two[0])
            assert (kept == also) == (one[1] == two[1])
            assert np.allclose(weights, heavy) == (one[2] == two[2])


def test_control_lists_are_uniform_and_have_documents_of_other_lists(benchmark, lists):
    full = lists.take([0, 2])
    fakes = benchmark.fake_lists(full, np.array([5, 2]), np.random.default_rng(0))
    assert fakes.lengths.tolist() == [5, 2]
    assert {tuple(row) for row in fakes.features.tolist()} <= {tuple(row) for row in full.features.tolist()}
    both = benchmark.joined(full, fakes, "smoothed", 0.1)
    assert np.add.reduceat(both.labels, both.offsets[:-1]) == pytest.approx([1, 1, 0.1, 0.1])
    assert both.labels[7:12] == pytest.approx(np.full(5, 0.02))
    assert benchmark.joined(full, fakes, "mse").labels.tolist() == [*full.labels.tolist(), *[0.0] * 7]


def test_equal_targets_pull_scores_together_and_do_not_lower_them(lists):
    """The formula of the page: the gradient of an empty list is p - 1/n, whose sum is 0."""
    gradient, _ = objective("listnet", smooth=0.5).derivatives(SCORES, lists.labels, lists.offsets)
    p = torch.softmax(torch.tensor(SCORES[4:9]), 0).numpy()
    np.testing.assert_allclose(gradient[4:9], p - 1 / 5, atol=1e-6)
    lower, _ = objective("mse").derivatives(np.full(12, 0.5), lists.labels, lists.offsets)
    assert (lower[4:9] > 0).all()  # a pointwise loss lowers all scores of the list


def test_replicates_have_a_known_optimum(benchmark, monkeypatch):
    monkeypatch.setattr(benchmark, "GENERATOR", {**benchmark.GENERATOR, "lists": 300})
    for kind in benchmark.KINDS:
        pool, validation, test = benchmark.replicate.__wrapped__(0, kind)
        assert (benchmark.highest(pool) == 0).any()
        for part in (validation, test):
            assert (benchmark.highest(part) > 0).all()
            rng = np.random.default_rng(0)
            best, *others = (
                np.mean(benchmark.per_list(scores, part))
                for scores in (part.best, part.best + 0.3 * rng.normal(size=len(part.best)), part.features[:, 0])
            )
            assert best > max(others)
    low = replace(pool, labels=np.zeros_like(pool.labels))
    assert benchmark.spread(low.best, low) == pytest.approx(1.0, abs=0.15)


def test_numbers_of_the_page_follow_from_the_stored_values(results):
    """One row of the table, computed again in plain loops."""
    text = (ROOT / "docs" / "empty-lists.md").read_text(encoding="utf-8")
    size = results.sizes("generated mlp level")[-1]
    (line,) = re.findall(rf"^\| MLP \| `level` \| {size} \| `listnet` \| (\S+) \|.*?\| (\S+) \| \S+ to", text, re.M)
    part = results.study()["generated mlp level"]
    regrets = {}
    for row in ("labels out", "level 0.6 labels uniform"):
        values, best = part[row]["values"][str(size)], part["achievable"]["values"][str(size)]
        regrets[row] = np.mean([100 * (best[seed] - values[seed]) for seed in values])
    assert float(line[0]) == pytest.approx(regrets["labels out"], abs=0.006)
    assert float(line[1]) == pytest.approx(np.subtract(*[*regrets.values()][::-1]), abs=0.006)
