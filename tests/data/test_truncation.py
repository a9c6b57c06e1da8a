"""Lists cut for training: at most k documents, in their order, relevant ones not lost."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankgrad.data.dataset import Dataset
from rankgrad.data.truncation import truncate


def make(lists):
    """A data set whose first feature numbers the rows and whose second falls."""
    labels = np.array([label for labels in lists for label in labels], dtype=np.float32)
    rows = np.arange(len(labels), dtype=np.float32)
    offsets = np.concatenate([[0], np.cumsum([len(labels) for labels in lists])]).astype(np.int64)
    return Dataset(np.stack([rows, -rows], 1), labels, offsets, np.arange(len(lists)), best=labels)


many_lists = st.lists(st.lists(st.integers(0, 2), max_size=8), min_size=1, max_size=6).map(make)


@given(many_lists, st.integers(1, 9), st.sampled_from(["top", "random"]), st.integers(0, 5))
def test_every_policy(data, k, policy, seed):
    after = truncate(data, k, policy, seed=seed)
    assert after.lengths.tolist() == np.minimum(data.lengths, k).tolist()
    for one in range(len(data)):
        before = data.features[data.offsets[one] : data.offsets[one + 1], 0]
        rows = after.features[after.offsets[one] : after.offsets[one + 1], 0]
        assert np.isin(rows, before).all()
        assert (np.diff(rows) > 0).all()
        if policy == "top":
            assert np.array_equal(rows, before[:k])
        elif data.labels[before.astype(int)].any():
            assert data.labels[rows.astype(int)].any()
    assert np.array_equal(after.labels, data.labels[after.features[:, 0].astype(int)])
    assert np.array_equal(after.best, after.labels)


@given(many_lists, st.integers(1, 9))
def test_none_leaves_all(data, k):
    assert truncate(data, k) is data


def test_top_by_a_feature_or_by_scores():
    data = make([[0, 0, 1, 2]])
    assert truncate(data, 2, "top", by=0).labels.tolist() == [1, 2]
    assert truncate(data, 2, "top", by=1).labels.tolist() == [0, 0]
    assert truncate(data, 2, "top", by=[5.0, 1.0, np.nan, 7.0]).features[:, 0].tolist() == [0, 3]


def test_random_is_fair_and_seeded():
    data = make([[0] * 9 + [1]])
    drawn = np.array([truncate(data, 3, "random", seed=seed).features[:, 0] for seed in range(600)])
    assert (drawn[:, -1] == 9).all()
    counts = np.bincount(drawn[:, :-1].astype(int).ravel(), minlength=9)
    # Each of the nine others in 2 of 9 draws: 133 expected, standard deviation 10.
    assert counts.min() > 90
    assert counts.max() < 180
    again = truncate(data, 3, "random", seed=4).features[:, 0]
    assert np.array_equal(drawn[4], again)


def test_a_relevant_document_is_put_in_only_where_none_was_drawn():
    # With 5 of 10 relevant and k = 5, always putting one in would raise the mean above 2.5.
    data = make([[0, 1] * 5])
    relevant = [truncate(data, 5, "random", seed=seed).labels.sum() for seed in range(800)]
    assert abs(np.mean(relevant) - 2.5) < 0.12


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k must be an integer of at least 1; got 0"),
        ({"k": 2.5}, "k must be an integer of at least 1; got 2.5"),
        ({"k": 1, "policy": "best"}, "policy must be one of 'none', 'top', 'random'; got 'best'"),
        (
            {"k": 1, "policy": "random", "by": 0},
            "by must be None unless policy is 'top'; got a value with policy 'random'",
        ),
        ({"k": 1, "policy": "top", "by": 2}, "by must be the index of a feature, 0 to 1; got 2"),
        ({"k": 1, "policy": "top", "by": [1.0]}, r"by must have one score per document, \(2,\); got \(1,\)"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        truncate(make([[0, 1]]), **options)
