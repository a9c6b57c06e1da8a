"""Tests of rows with several seeds: error rates, power and variance, on drawn values whose truth is known."""

import numpy as np
import pytest
import scipy.stats

from rankgrad.experiments.seed_variance import TESTS, RunValues, all_pairs, compare_runs, mean_comparison
from rankgrad.experiments.statistics import paired_t

FOLDS = np.repeat([1, 2, 3, 4, 5], 30)


def drawn(generator, seeds=5, run=0.01, rest=0.05, query=0.0, shift=0.0):
    """Draw a row: effects of runs (shared by the queries of a fold), of queries, and the rest."""
    runs = generator.normal(0, run, (seeds, 5))[:, FOLDS - 1]
    effects = generator.normal(0, query, len(FOLDS)) if query else 0.0
    return RunValues(0.5 + shift + runs + effects + generator.normal(0, rest, (seeds, len(FOLDS))), FOLDS)


def test_one_seed_is_the_paired_t_test():
    a, b = (drawn(np.random.default_rng(seed), seeds=1) for seed in (0, 1))
    found, theirs = compare_runs(a, b), scipy.stats.ttest_rel(a.values[0], b.values[0])
    assert found.p == pytest.approx(theirs.pvalue, rel=1e-9)
    assert found.interval == pytest.approx(tuple(theirs.confidence_interval()), rel=1e-9)
    assert found.freedom == len(FOLDS) - 1


def test_the_standard_error_is_the_deviation_of_the_difference():
    generator = np.random.default_rng(0)
    pairs = [compare_runs(drawn(generator, query=0.03), drawn(generator, query=0.03)) for _ in range(1000)]
    truth = np.std([pair.difference for pair in pairs])
    assert np.sqrt(np.mean([pair.error**2 for pair in pairs])) == pytest.approx(truth, rel=0.06)
    by_hand = 2 * (0.03**2 / 150 + 0.01**2 / 5 / 5 + 0.05**2 / 150 / 5)
    assert np.mean([pair.error**2 for pair in pairs]) == pytest.approx(by_hand, rel=0.06)


@pytest.mark.parametrize("seeds", [3, 10])
def test_equal_rows_differ_significantly_in_five_percent_of_the_cases(seeds):
    generator, rounds = np.random.default_rng(seeds), 400
    found = dict.fromkeys([*TESTS, "averaged"], 0)
    for place in range(rounds):
        a, b = drawn(generator, seeds), drawn(generator, seeds)
        for test in TESTS:
            found[test] += compare_runs(a, b, test=test, rounds=299, seed=place).p < 0.05
        found["averaged"] += paired_t(a.query_means, b.query_means).p < 0.05
    for test in TESTS:
        assert 0.025 <= found[test] / rounds <= 0.075, test
    assert found["averaged"] / rounds > 0.15  # without the variance of the runs


@pytest.mark.parametrize("test", TESTS)
def test_the_detectable_difference_is_found_with_the_stated_power(test):
    generator = np.random.default_rng(1)
    size = compare_runs(drawn(generator), drawn(generator)).detectable
    pairs = [compare_runs(drawn(generator, shift=size), drawn(generator), test=test, rounds=299) for _ in range(300)]
    assert np.mean([pair.p < 0.05 for pair in pairs]) == pytest.approx(0.8, abs=0.12)
    assert np.mean([pair.power(size) for pair in pairs]) == pytest.approx(0.8, abs=0.12)
    assert np.mean([pair.interval[0] < size < pair.interval[1] for pair in pairs]) == pytest.approx(0.95, abs=0.04)


def test_equal_values_and_constant_differences():
    a = drawn(np.random.default_rng(0))
    assert compare_runs(a, a).difference == 0
    assert compare_runs(a, a).p == 1
    one, two = RunValues(np.zeros((1, 4))), RunValues(np.ones((1, 4)))
    assert (compare_runs(two, one).difference, compare_runs(two, one).p, compare_runs(one, one).p) == (1, 0, 1)
    assert compare_runs(one, one).power(0.1) == 1


def test_skipped_queries_are_left_out():
    generator = np.random.default_rng(0)
    a, b = drawn(generator), drawn(generator)
    less = [RunValues(np.where(FOLDS == 2, np.nan, row.values), FOLDS) for row in (a, b)]
    alone = [RunValues(row.values[:, FOLDS != 2], FOLDS[FOLDS != 2]) for row in (a, b)]
    assert compare_runs(*less) == compare_runs(*alone)


def test_the_leading_group():
    generator = np.random.default_rng(0)
    rows = [drawn(generator, shift=shift) for shift in (0.0, 0.1, 0.1, -0.2)]
    found = all_pairs(rows)
    assert found.leading == [1, 2]
    assert found.beaten(3) == [0, 1, 2]
    assert all_pairs(rows, higher_is_better=False).leading == [3]
    assert found.comparisons[1][0].difference == -found.comparisons[0][1].difference
    assert found.adjusted[0, 3] == found.adjusted[3, 0]
    assert all_pairs(rows[:1]).leading == [0]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: RunValues([0.1, 0.2]), "values must have one value per seed and query"),
        (lambda: RunValues([[0.1, 0.2]], [1]), "folds must have one fold per query"),
        (lambda: RunValues([[0.1, np.nan], [0.1, 0.2]]), "NaN for the same queries with every seed"),
        (lambda: compare_runs(RunValues([[0.1]]), RunValues([[0.1, 0.2]])), "the same queries"),
        (lambda: compare_runs(RunValues([[0.1, np.nan]]), RunValues([[0.1, 0.2]])), "be NaN for the same queries"),
        (lambda: compare_runs(RunValues([[1, 2]], [1, 1]), RunValues([[1, 2]], [1, 2])), "have the same folds"),
        (
            lambda: compare_runs(
                RunValues([[1, 2]], queries=np.array(["x", "y"])), RunValues([[1, 2]], queries=np.array(["x", "z"]))
            ),
            "'y' in only one of them",
        ),
        (lambda: compare_runs(RunValues([[1, 2]]), RunValues([[1, 2]]), test="z"), "test must be one of"),
        (lambda: compare_runs(RunValues([[1, 2]]), RunValues([[1, 2]]), level=5), "level must be between 0 and 1"),
        (lambda: compare_runs(RunValues([[1, 2]]), RunValues([[1, 2]]), rounds=0), "rounds must be at least 1"),
        (lambda: mean_comparison([]), "parts must contain at least one comparison"),
    ],
)
def test_errors(make, said):
    with pytest.raises(ValueError, match=said):
        make()


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_few_runs_of_one_fold_have_few_degrees_of_freedom(seeds):
    # If the effects of runs are much larger than the rest, the test is a t-test of the means of the runs.
    generator, rounds, found = np.random.default_rng(seeds), 1500, []
    for _ in range(rounds):
        rows = [0.5 + generator.normal(0, 0.1, (seeds, 1)) + generator.normal(0, 0.01, (seeds, 40)) for _ in range(2)]
        found.append(compare_runs(*map(RunValues, rows)))
    assert np.mean([one.p <= 0.05 for one in found]) < 0.07
    assert np.median([one.freedom for one in found]) < 2 * (seeds - 1) + 1
    assert min(one.freedom for one in found) >= seeds - 1


@pytest.mark.parametrize("test", TESTS)
def test_equal_runs_do_not_differ_by_rounding_errors(test):
    values = np.random.default_rng(0).random(50)
    found = compare_runs(RunValues(np.tile(values, (3, 1))), RunValues(np.tile(values, (10, 1))), test=test)
    assert (found.difference, found.p) == (0.0, 1.0)


def test_values_that_are_not_rows_of_runs_are_refused():
    with pytest.raises(TypeError, match=r"a must be RunValues.*; got ndarray"):
        compare_runs(np.zeros(3), RunValues([[0.0, 1.0]]))
