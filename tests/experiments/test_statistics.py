"""Tests, intervals and corrections against SciPy and against plain loops."""

import itertools
import warnings

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rankgrad.experiments import statistics as stats
from rankgrad.metrics import evaluate

values = st.integers(2, 40).flatmap(
    lambda n: st.tuples(*[arrays(np.float64, n, elements=st.floats(0, 1, width=32)) for _ in range(2)])
)
probabilities = st.lists(st.floats(0, 1), min_size=1, max_size=12)


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def pair(n, shift=0.05, seed=0):
    rng = np.random.default_rng(seed)
    b = rng.random(n)
    return b + rng.normal(shift, 0.2, n), b


@example(pair(20_000))
@given(values)
def test_paired_t_is_scipys_on_anything(both):
    a, b = both
    ours = stats.paired_t(a, b)
    assert 0 <= ours.p <= 1
    assert (ours.difference, ours.n) == (pytest.approx((a - b).mean()), len(a))
    if np.ptp(a - b) > 1e-6:
        theirs = scipy.stats.ttest_rel(a, b)
        assert (ours.statistic, ours.p) == pytest.approx((theirs.statistic, theirs.pvalue), rel=1e-6)
    other = stats.paired_t(b, a)
    assert (other.p, other.difference) == (ours.p, -ours.difference)


@given(values)
@settings(max_examples=30)
def test_randomisation_enumerates_few_differences(both):
    a, b = (some[:8] for some in both)
    d = a - b
    signs = itertools.product([1, -1], repeat=len(d))
    size = 1e-12 * np.abs(d).sum()
    reached = [abs(np.dot(sign, d)) >= abs(d.sum()) - size for sign in signs]
    assert stats.randomisation(a, b).p == pytest.approx(np.mean(reached))


def test_randomisation_draws_as_it_enumerates(monkeypatch):
    a, b = pair(12, shift=0.08)
    exact = stats.randomisation(a, b).p
    monkeypatch.setattr(stats, "EXACT", 0)
    drawn = stats.randomisation(a, b, rounds=40_000).p
    assert drawn == pytest.approx(exact, abs=0.01)
    assert drawn != exact


def test_randomisation_is_never_certain_and_repeats():
    a, b = pair(500, shift=1.0)
    assert stats.randomisation(a, b, rounds=999).p == 1 / 1000
    a, b = pair(500, shift=0.01)
    same = [stats.randomisation(a, b, rounds=2000, seed=seed).p for seed in (3, 3, 4)]
    assert same[0] == same[1] != same[2]


def test_randomisation_in_blocks(monkeypatch):
    a, b = pair(100, shift=0.03)
    whole = stats.randomisation(a, b, rounds=3000).p
    monkeypatch.setattr(stats, "_NUMBERS", 700)  # seven rounds at a time
    assert stats.randomisation(a, b, rounds=3000).p == pytest.approx(whole, abs=0.04)


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=7))
def test_ties_of_equal_sums_count(tenths):
    # Sums of tenths tie often, and are rounded differently: integers say which do.
    reached = [abs(np.dot(s, tenths)) >= abs(sum(tenths)) for s in itertools.product([1, -1], repeat=len(tenths))]
    assert stats.randomisation(np.array(tenths) / 10, np.zeros(len(tenths))).p == np.mean(reached)


@pytest.mark.parametrize("test", [stats.paired_t, stats.randomisation])
def test_where_there_is_nothing_to_tell(test):
    a = np.random.default_rng(0).random(50)
    assert test(a, a) == (0.0, 0.0, 1.0, 50)
    assert test([], []) == (0.0, 0.0, 1.0, 0)
    assert test([0.5], [0.25])[0] == 0.25
    assert test([0.5], [0.25]).p == 1.0
    assert test([np.nan, np.nan], [np.nan, np.nan]).n == 0


def test_a_constant_difference():
    assert stats.paired_t([0.5, 0.75], [0.25, 0.5]) == (0.25, np.inf, 0.0, 2)
    assert stats.paired_t([0.25, 0.5], [0.5, 0.75]).statistic == -np.inf


@pytest.mark.parametrize("test", [stats.paired_t, stats.randomisation])
def test_skipped_lists_are_left_out_of_both(test):
    a, b = pair(30)
    skipped = np.insert(a, [3, 20], np.nan), np.insert(b, [3, 20], np.nan)
    assert test(*skipped) == test(a, b)
    with pytest.raises(ValueError, match=r"b must be NaN exactly where a is NaN; got a=nan and b=.* at index 3"):
        test(skipped[0], np.nan_to_num(skipped[1]))
    with pytest.raises(ValueError, match="shape"):
        test(a, b[:-1])
    with pytest.raises(ValueError, match="infinite"):
        test([np.inf, 1.0], [0.0, 1.0])


@pytest.mark.parametrize(("method", "theirs"), [("percentile", "percentile"), ("bca", "BCa")])
def test_bootstrap_is_scipys(method, theirs):
    d = np.random.default_rng(0).exponential(size=60) - 0.8  # skewed, so that the methods differ
    expected = scipy.stats.bootstrap((d,), np.mean, n_resamples=20_000, method=theirs, rng=np.random.default_rng(1))
    ours = stats.bootstrap(d, method=method, rounds=20_000)
    assert ours == pytest.approx(tuple(expected.confidence_interval), abs=0.012)
    other = stats.bootstrap(d, method="bca" if method == "percentile" else "percentile", rounds=20_000)
    assert abs(other[1] - ours[1]) > 0.02


@pytest.mark.parametrize("n", [2, 3, 5, 10, 20, 39, 40])
def test_intervals_of_few_lists_cover_the_mean(n):
    """Percentiles covered 0.50 to 0.92 below 40 lists. The simulation has a standard error of 0.007."""
    rng, covered = np.random.default_rng(n), 0
    for _ in range(1000):
        values = rng.beta(2, 2, n)
        low, high = stats.bootstrap(values, rounds=300, seed=1)
        covered += low <= 0.5 <= high
    assert 0.91 <= covered / 1000 <= 0.98
    labels = torch.arange(4 * n).reshape(n, 4) % 5
    found = evaluate(torch.rand(n, 4, generator=torch.Generator().manual_seed(n)), labels, "ERR", bootstrap=2000)
    low, high = stats.bootstrap(found.values["ERR"], rounds=2000)
    assert found.intervals["ERR"] == pytest.approx((max(low, 0.0), min(high, 1.0)), abs=0.003)
    assert ("rough" in str(found)) == (n < 10)


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_bootstrap_edges(method, monkeypatch):
    assert stats.bootstrap([], method=method) == (0.0, 0.0)
    assert stats.bootstrap([0.25], method=method) == (0.25, 0.25)
    assert stats.bootstrap([0.0] * 9, method=method) == (0.0, 0.0)
    d = np.random.default_rng(0).random(40)
    assert stats.bootstrap(np.append(d, np.nan), method=method) == stats.bootstrap(d, method=method)
    whole = stats.bootstrap(d, method=method, rounds=500)
    monkeypatch.setattr(stats, "_NUMBERS", 400)
    assert stats.bootstrap(d, method=method, rounds=500) == pytest.approx(whole, abs=1e-9)
    with pytest.raises(ValueError, match="method must be one of 'percentile', 'bca'; got 'basic'"):
        stats.bootstrap(d, method="basic")
    with pytest.raises(ValueError, match="confidence must be between 0 and 1; got 95"):
        stats.bootstrap(d, confidence=95)


def test_corrections_by_hand():
    p = [0.01, 0.04, 0.03, 0.005]
    assert stats.bonferroni(p) == pytest.approx([0.04, 0.16, 0.12, 0.02])
    assert stats.holm(p) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert stats.adjust(p, "none").tolist() == p
    assert stats.bonferroni([]).tolist() == stats.holm([]).tolist() == []
    with pytest.raises(ValueError, match="correction must be one of"):
        stats.adjust(p, "holms")
    for wrong in ([1.5], [np.nan], [-0.1]):
        with pytest.raises(ValueError, match="p must be p-values"):
            stats.holm(wrong)


@given(probabilities, st.sampled_from([0.01, 0.05, 0.2]))
def test_holm_finds_what_its_steps_find(p, level):
    adjusted, order = stats.holm(p), np.argsort(p, kind="stable")
    found = set()
    for place, i in enumerate(order):
        if p[i] * (len(p) - place) > level:
            break
        found.add(i)
    assert {i for i in range(len(p)) if adjusted[i] <= level} == found
    assert (adjusted <= stats.bonferroni(p)).all()
    assert (adjusted >= np.array(p)).all()
    assert (np.diff(adjusted[order]) >= 0).all()


@given(st.permutations(range(12)), st.permutations(range(12)))
def test_align_follows_the_query(first, second):
    a = [query / 10 for query in first]
    b = [query / 100 for query in second]
    left, right = stats.align(np.array(first), a, [str(query) for query in second], b)
    assert left.tolist() == a
    assert right == pytest.approx(left / 10)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ((["x", "y"], [1, 2]), (["x", "z"], [1, 2]), "queries_b must contain all queries of queries_a; got .* 'y'"),
        ((["x"], [1]), (["x", "z"], [1, 2]), "queries_a must contain all queries of queries_b; got .* 'z'"),
        ((["x", "x"], [1, 2]), (["x", "z"], [1, 2]), "queries_a must contain each query once; got 'x' more than once"),
        ((["x", "y"], [1, 2]), (["x", "y"], [1]), r"values_b must have one value per query, .*\(2,\); got .*\(1,\)"),
        ((["x", "y"], [1, np.nan]), (["y", "x"], [1, 1]), "values_b must be NaN .* got a number for query 'y'"),
        ((["x", "y"], [1, 1]), (["y", "x"], [np.nan, 1]), "values_a must be NaN .* got a number for query 'y'"),
    ],
)
def test_a_wrong_pairing_names_a_query(a, b, message):
    with pytest.raises(ValueError, match=message):
        stats.align(*a, *b)


def test_seeds_are_averaged_and_folds_pooled():
    queries, means = stats.over_seeds([["x", "y", "z"], ["z", "y", "x"]], [[0.1, 0.2, np.nan], [np.nan, 0.4, 0.3]])
    assert queries.tolist() == ["x", "y", "z"]
    assert means == pytest.approx([0.2, 0.3, np.nan], nan_ok=True)
    with pytest.raises(ValueError, match="no query 'y'"):
        stats.over_seeds([["x", "y"], ["x", "w"]], [[1, 1], [1, 1]])
    with pytest.raises(ValueError, match="contain each query once; got 'y' more than once"):
        stats.over_folds([["x", "y"], ["y"]], [[1, 1], [1]])
    with pytest.raises(ValueError, match="at least one run"):
        stats.over_seeds([], [])
