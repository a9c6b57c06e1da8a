"""Measure how often a test finds a difference between a row and itself: the A/A check of an experiment.

The seeds of a row are divided into two halves, which are compared as if they were two rows. There is no difference to
find, so a test at level 0.05 should be significant in 5% of the cases. Two kinds of cases are used:

- divisions of the real seeds of each row: all, or 126 random ones. The same few runs are used many times, so the rate
  is not exact;
- simulated rows. They have the variances of a real row: the variance of the training runs and, per query, the variance
  of the rest.

Two other tests are measured for comparison. These tests first average over seeds, and treat only the queries as
random.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from rankgrad.experiments import statistics
from rankgrad.experiments.seed_variance import TESTS, RunValues, compare_runs

SPLITS = 2000  # number of simulated cases
LEVEL = 0.05
_ROUNDS = 399  # number of rounds of the bootstrap and of the randomisation test
_MOST = 126  # maximum number of divisions per row: all divisions of ten seeds


@dataclass(frozen=True)
class FalsePositives:
    """Number of significant results of one test among A/A cases, which have no difference."""

    found: int
    cases: int

    def __add__(self, other: "FalsePositives") -> "FalsePositives":
        return FalsePositives(self.found + other.found, self.cases + other.cases)

    @property
    def rate(self) -> float:
        """Share of the A/A cases in which the test is significant."""
        return self.found / self.cases if self.cases else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """95% interval of the rate (Wilson's method). It is valid only if the cases are independent."""
        if not self.cases:
            return 0.0, 1.0
        z, n, p = 1.96, self.cases, self.rate
        middle, half = p + z * z / (2 * n), z * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
        return (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)


@dataclass(frozen=True)
class AACheck:
    """False positives per test of an A/A check: for divisions of real seeds (`real`) and simulated rows (`drawn`)."""

    real: Mapping[str, FalsePositives]
    drawn: Mapping[str, FalsePositives]
    rows: int  # number of rows with at least four seeds
    seeds: tuple[int, ...]  # numbers of seeds of these rows, without duplicates
    level: float = LEVEL


def aa_checks(
    groups: Mapping[str, Iterable[RunValues]], *, splits: int = SPLITS, level: float = LEVEL, seed: int = 0
) -> dict[str, AACheck]:
    """Run the A/A check for each data set and, if there are several data sets, for all rows together, as `"all"`.

    Args:
        groups: rows of each data set.
        splits, level, seed: arguments of `aa_check`.
    """
    known = {name: list(rows) for name, rows in groups.items()}
    found = {name: aa_check(rows, splits=splits, level=level, seed=seed) for name, rows in known.items()}
    if len(found) > 1:
        every = aa_check(
            [row for rows in known.values() for row in rows], splits=splits, level=level, seed=seed, real=False
        )
        real = {test: sum((check.real[test] for check in found.values()), FalsePositives(0, 0)) for test in every.real}
        found["all"] = replace(every, real=real)
    return found


def aa_check(
    rows: Iterable[RunValues], *, splits: int = SPLITS, level: float = LEVEL, seed: int = 0, real: bool = True
) -> AACheck:
    """Compare rows with themselves: halves of their seeds, and `splits` simulated pairs of rows.

    Args:
        rows: values of rows; a row with fewer than four seeds, or whose queries are all skipped, is left out.
        real: False to leave out the divisions of the real seeds.
        splits: number of simulated pairs, with about the same number for each row.
        level: level of the tests.
        seed: random seed.
    """
    known = [row for row in rows if row.seeds >= 4 and row.used.any()]
    generator = np.random.default_rng(seed)
    return AACheck(
        real=_count((halves for row in known if real for halves in _halves(row)), level),
        drawn=_count((_drawn(known[place % len(known)], generator) for place in range(splits if known else 0)), level),
        rows=len(known),
        seeds=tuple(sorted({row.seeds for row in known})),
        level=level,
    )


def _tests() -> dict[str, Callable[[RunValues, RunValues, int], float]]:
    """Return, for each test of the A/A check, a function of two rows and a random seed that returns the p-value."""

    def with_runs(test: str) -> Callable[[RunValues, RunValues, int], float]:
        return lambda a, b, seed: compare_runs(a, b, test=test, rounds=_ROUNDS, seed=seed).p

    found = {test: with_runs(test) for test in TESTS}
    found["t, queries only"] = lambda a, b, seed: statistics.paired_t(a.query_means, b.query_means).p
    found["randomisation, queries only"] = lambda a, b, seed: (
        statistics.randomisation(a.query_means, b.query_means, _ROUNDS, seed).p
    )
    return found


def _count(pairs: Iterable[tuple[RunValues, RunValues]], level: float) -> dict[str, FalsePositives]:
    tests, cases = _tests(), 0
    found = dict.fromkeys(tests, 0)
    for cases, (a, b) in enumerate(pairs, start=1):
        for name, test in tests.items():
            found[name] += test(a, b, cases) <= level
    return {name: FalsePositives(number, cases) for name, number in found.items()}


def _halves(row: RunValues) -> Iterator[tuple[RunValues, RunValues]]:
    """Yield the divisions of a row's seeds into two halves; if the number of seeds is odd, one seed is left out.

    If there are more than `_MOST` divisions, only `_MOST` random divisions are yielded.
    """
    half = row.seeds // 2
    if comb(row.seeds, half) * comb(row.seeds - half, half) > 2 * _MOST:
        generator = np.random.default_rng(0)
        for _ in range(_MOST):
            order = generator.permutation(row.seeds)
            yield _part(row, order[:half]), _part(row, order[half : 2 * half])
        return
    for first in combinations(range(row.seeds), half):
        rest = [seed for seed in range(row.seeds) if seed not in first]
        for second in combinations(rest, half):
            if first < second:  # each division once
                yield _part(row, first), _part(row, second)


def _part(row: RunValues, seeds: Any) -> RunValues:
    return RunValues(row.values[list(seeds)], row.folds)


def _drawn(row: RunValues, generator: np.random.Generator) -> tuple[RunValues, RunValues]:
    """Simulate two rows for the A/A check, with the variances of a real row and half as many seeds each."""
    values, folds = row.values[:, row.used], row.folds[row.used]
    names, places = np.unique(folds, return_inverse=True)
    means = np.array([values[:, folds == name].mean(axis=1) for name in names])  # (folds, seeds)
    effects = means - means.mean(axis=1, keepdims=True)
    rest = values - values.mean(axis=0) - effects.T[:, places]
    spread = np.sqrt((rest**2).sum(axis=0) / (row.seeds - 1))  # per query
    noise = np.array([np.mean(spread[folds == name] ** 2) / (folds == name).sum() for name in names])
    variance = max(float(((effects**2).sum(axis=1) / (row.seeds - 1) - noise).mean()), 0.0)

    def one() -> RunValues:
        seeds = row.seeds // 2
        runs = generator.normal(0, variance**0.5, (seeds, len(names)))[:, places]
        return RunValues(values.mean(axis=0) + runs + generator.normal(size=(seeds, len(spread))) * spread, folds)

    return one(), one()
