r"""Compare rankers that were trained with several seeds: queries and training runs are both random samples.

For one row, the value of query q (in fold f) in the run with seed s is modelled as

.. math:: v_{sq} = \mu_q + u_{fs} + e_{sq}

:math:`u_{fs}` is the effect of a training run; all queries of the fold have the same effect. :math:`e_{sq}` is the
rest. All effects are assumed to be independent, also the effects of one seed on several folds or in two rows. A test
that averages over seeds and treats only the queries as random ignores :math:`u_{fs}`. Such a test finds a difference
between a loss and the same loss with other seeds too often (`rankgrad experiment RECIPE --aa` measures how often).

Here, the variance of the difference between two rows has three parts: the variance of the query means, and the variance
of the runs of each of the two rows. All tests use this variance:

- `"t"`: Student's t with the degrees of freedom of Satterthwaite;
- `"bootstrap"`: queries and runs are sampled with replacement, and each difference is divided by its standard error;
- `"randomisation"`: the differences of the queries and the effects of the runs get random signs.

If a row has one seed, the effect of its run cannot be estimated. Then the test is about this trained model only. With
two or three seeds and one fold, the effect is estimated from few runs. In simulations without a difference, up to 13%
of the cases are then significant at 0.05 (t, bootstrap), or up to 21% (randomisation). Use more seeds or more folds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.errors import bad_type, bad_value, one_of
from rankgrad.experiments import statistics

if TYPE_CHECKING:
    from rankgrad.experiments.runs.results import CellResult

Array = NDArray[np.float64]

TESTS = ("t", "bootstrap", "randomisation")
POWER = 0.8  # power for which the detectable difference is computed
_NUMBERS = 4_000_000  # maximum number of values in memory at a time


@dataclass(frozen=True)
class RunValues:
    """Values of one row of a table, per seed and query; compared rows have the same queries in the same order.

    Example:
        >>> RunValues([[0.5, 0.7, 0.9, 0.4], [0.4, 0.5, 0.8, 0.4]], folds=[1, 1, 2, 2]).mean
        0.575
    """

    values: Array  # (seeds, queries); NaN in all seeds for a skipped query
    folds: Any = None  # fold of each query, (queries,); None: all queries are in one fold
    queries: NDArray[np.str_] | None = None  # query ids, (queries,), for a check that rows match; None: no check

    def __post_init__(self) -> None:
        values = np.asarray(self.values, dtype=np.float64)
        if values.ndim != 2 or 0 in values.shape:
            bad_value("values", "have one value per seed and query, shape (seeds, queries)", f"shape {values.shape}")
        skipped = np.isnan(values)
        if (skipped.any(axis=0) != skipped.all(axis=0)).any():
            bad_value("values", "be NaN for the same queries with every seed", "NaN for different queries")
        folds = np.zeros(values.shape[1], dtype=np.int64) if self.folds is None else np.asarray(self.folds)
        if folds.shape != values.shape[1:]:
            bad_value("folds", f"have one fold per query, shape {values.shape[1:]}", f"shape {folds.shape}")
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "folds", folds)

    @classmethod
    def of(cls, runs: Sequence["CellResult"], metric: str) -> "RunValues":
        """Collect the values of a row from the results of its final cells; all folds must have equally many seeds.

        Args:
            runs: results of the final cells of the row.
            metric: name of the metric.
        """
        parts: dict[Any, list[CellResult]] = {}
        for run in runs:
            parts.setdefault(run.cell.fold, []).append(run)
        if len({len(part) for part in parts.values()}) != 1:
            counts = " and ".join(str(len(part)) for part in parts.values())
            bad_value("runs", "have the same number of seeds in every fold", f"{counts} seeds")
        columns, folds, queries = [], [], []
        for place, (_, part) in enumerate(sorted(parts.items(), key=lambda item: item[0] or 0)):
            part = sorted(part, key=lambda run: run.cell.seed)
            names = np.sort(part[0].queries)  # rows may list the queries in different orders
            for run in part:
                if not np.array_equal(np.sort(run.queries), names):
                    bad_value("runs", "have the same queries with every seed", f"other queries in {run.cell}")
            columns.append([run.values(metric)[np.argsort(run.queries, kind="stable")] for run in part])
            folds += [place] * len(names)
            queries.append(names)
        return cls(np.concatenate(columns, axis=1), np.asarray(folds), np.concatenate(queries))

    @property
    def seeds(self) -> int:
        """Number of seeds of the row."""
        return len(self.values)

    @property
    def mean(self) -> float:
        """Mean of the row over the seeds and over the queries that are not skipped."""
        return float(np.nanmean(self.values)) if not np.isnan(self.values).all() else 0.0

    @cached_property
    def used(self) -> NDArray[np.bool_]:
        """True for the queries of the row that are not skipped, `(queries,)`."""
        return ~np.isnan(self.values[0])

    @cached_property
    def query_means(self) -> Array:
        """Mean over the seeds for each query of the row that is not skipped, `(used queries,)`."""
        return self.values[:, self.used].mean(axis=0)

    @cached_property
    def runs(self) -> "_Runs":
        """Effects of the training runs of the row, and the variance of these effects."""
        values, folds = self.values[:, self.used], self.folds[self.used]
        kept = [values[:, folds == fold] for fold in np.unique(folds)]
        shares = np.array([part.shape[1] for part in kept]) / values.shape[1]
        means = np.array([part.mean(axis=1) for part in kept])  # (folds, seeds)
        effects = means - means.mean(axis=1, keepdims=True)
        if self.seeds < 2:
            return _Runs(shares, effects, 0.0, 0.0, 0.0)
        observed = noise = squares = 0.0
        for share, part, effect in zip(shares, kept, effects, strict=True):
            rest = part - part.mean(axis=0) - effect[:, None]  # (seeds, queries)
            # The observed variance of a run's mean is that of its effect plus that of the rest, over its queries.
            part_noise = (rest**2).sum() / ((self.seeds - 1) * max(part.shape[1] - 1, 1)) / part.shape[1]
            part_observed = (effect**2).sum() / (self.seeds - 1)
            observed += share**2 * part_observed / self.seeds
            noise += share**2 * part_noise / self.seeds
            squares += (share**2 * part_observed / self.seeds) ** 2 / (self.seeds + 1)  # seeds - 1 degrees of freedom
        return _Runs(shares, effects, observed, noise, squares)


@dataclass(frozen=True)
class _Runs:
    """Effects of the training runs of one row."""

    shares: Array  # share of the queries per fold, (folds,)
    effects: Array  # mean of each run minus the mean of its fold, (folds, seeds)
    observed: float  # part of the variance of the row's mean that is observed between runs, noise included
    noise: float  # part of `observed` that the rest e explains
    squares: float  # term of Satterthwaite's degrees of freedom


@dataclass(frozen=True)
class RunComparison:
    """Difference between two rows, with the uncertainty from queries and from training runs.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> a, b = (RunValues(rng.normal(mean, 0.1, (5, 100))) for mean in (0.55, 0.5))
        >>> found = compare_runs(a, b)
        >>> found.p < 0.001, found.interval[0] > 0
        (True, True)
        >>> print(found)
        a - b +0.0542, 95% interval [+0.0441, +0.0644], p < 0.001, 100 queries, 5 and 5 seeds; detectable: 0.0145
    """

    difference: float  # mean of a - b
    error: float  # standard error of the difference
    freedom: float  # degrees of freedom of the standard error
    interval: tuple[float, float]  # interval of the difference, with confidence 1 - level
    p: float  # p-value, two-sided
    queries: int  # number of queries
    seeds: tuple[int, int]  # number of seeds of each row
    level: float = 0.05  # level of the test; the interval has confidence 1 - level

    def __str__(self) -> str:
        low, high = self.interval
        p = "p < 0.001" if self.p < 0.001 else f"p = {self.p:.3f}"
        seeds = " and ".join(map(str, self.seeds))
        return (
            f"a - b {self.difference:+.4f}, {1 - self.level:.0%} interval [{low:+.4f}, {high:+.4f}], {p}, "
            f"{self.queries} queries, {seeds} seeds; detectable: {self.detectable:.4f}"
            + ("; a row with one seed counts as deterministic" if min(self.seeds) == 1 else "")
        )

    @property
    def detectable(self) -> float:
        """Detectable difference: smallest true difference that the test of the two rows finds with 80% power."""
        from scipy.special import stdtrit

        return float(self.error * (stdtrit(self.freedom, 1 - self.level / 2) + stdtrit(self.freedom, POWER)))

    def power(self, difference: float) -> float:
        """Return the probability that the test of the two rows finds a true difference of this size.

        Args:
            difference: true difference of the means.
        """
        from scipy.stats import nct, t

        if self.error == 0:
            return 1.0 if difference else self.level
        bound, shift = t.ppf(1 - self.level / 2, self.freedom), abs(difference) / self.error
        return float(nct.sf(bound, self.freedom, shift) + nct.cdf(-bound, self.freedom, shift))


def compare_runs(
    a: RunValues, b: RunValues, *, test: str = "t", level: float = 0.05, rounds: int = 10_000, seed: int = 0
) -> RunComparison:
    """Test the difference between two rows that have the same queries; the numbers of seeds may differ.

    A row with one seed counts as deterministic, such as BM25. If its training is random, give several seeds: otherwise,
    the test finds a difference between a loss and itself too often.

    Args:
        a, b: values of the rows.
        test: one of `TESTS`; the interval of the randomisation test is that of the t-test.
        level: level of the test; the interval has confidence `1 - level`.
        rounds, seed: number of rounds and random seed of the bootstrap and the randomisation test.
    """
    for name, row in (("a", a), ("b", b)):
        if not isinstance(row, RunValues):
            bad_type(name, "be RunValues(values), with one row of values per seed", type(row).__name__)
    one_of("test", test, TESTS)
    if not 0 < level < 1:
        bad_value("level", "be between 0 and 1", level)
    if rounds < 1:
        bad_value("rounds", "be at least 1", rounds)
    d = _differences(a, b)
    difference, n = float(d.mean()) if len(d) else 0.0, len(d)
    error, freedom = map(float, _standard_error(d, a, b))
    found = RunComparison(difference, error, freedom, (difference, difference), 1.0, n, (a.seeds, b.seeds), level)
    if n < 2 or error == 0:
        return found if difference == 0 or n < 2 else replace(found, p=0.0)
    from scipy.special import stdtr, stdtrit

    half = error * float(stdtrit(freedom, 1 - level / 2))
    interval = (difference - half, difference + half)
    if test == "t":
        return replace(found, interval=interval, p=float(2 * stdtr(freedom, -abs(difference) / error)))
    if test == "randomisation":
        return replace(found, interval=interval, p=_randomisation(d, a, b, rounds, seed))
    drawn = _bootstrap(d, a, b, rounds, seed)  # studentised
    low, high = np.quantile(drawn, [level / 2, 1 - level / 2]).tolist()
    p = (int((np.abs(drawn) >= abs(difference) / error).sum()) + 1) / (rounds + 1)
    return replace(found, interval=(difference - high * error, difference - low * error), p=p)


def mean_comparison(parts: Sequence[RunComparison]) -> RunComparison:
    """Return the comparison of two rows, averaged over data sets with equal weights; the p-value is that of a t-test.

    Example:
        >>> one = RunComparison(0.02, 0.01, 100, (0, 0.04), 0.048, 50, (5, 5))
        >>> both = mean_comparison([one, one])
        >>> both.difference, round(both.error, 4), round(both.p, 4), both.queries
        (0.02, 0.0071, 0.0052, 100)
    """
    from scipy.special import stdtr, stdtrit

    if not parts:
        bad_value("parts", "contain at least one comparison", "none")
    count, level, queries = len(parts), parts[0].level, sum(part.queries for part in parts)
    difference = sum(part.difference for part in parts) / count
    variance = sum(part.error**2 for part in parts) / count**2
    if variance == 0:
        equal = (difference, difference)
        return replace(parts[0], difference=difference, interval=equal, p=float(difference == 0), queries=queries)
    freedom = variance**2 / sum((part.error / count) ** 4 / part.freedom for part in parts if part.error)
    error = variance**0.5
    half = error * float(stdtrit(freedom, 1 - level / 2))
    return RunComparison(
        difference=difference,
        error=error,
        freedom=freedom,
        interval=(difference - half, difference + half),
        p=float(2 * stdtr(freedom, -abs(difference) / error)),
        queries=queries,
        seeds=parts[0].seeds,
        level=level,
    )


@dataclass(frozen=True)
class AllPairs:
    """Comparisons of all pairs of rows, with adjusted p-values."""

    comparisons: list[list[RunComparison | None]]  # row i minus row j; None on the diagonal
    adjusted: Array  # p-values after adjustment for all pairs, (rows, rows); 1 on the diagonal
    level: float = 0.05  # level of the tests
    higher_is_better: bool = True  # False for a metric of which lower values are better

    def beaten(self, row: int) -> list[int]:
        """Return the indices of the rows that are significantly better than another row.

        Args:
            row: index of the other row.
        """
        found = []
        for other in range(len(self.adjusted)):
            one = self.comparisons[other][row]
            better = one is not None and (one.difference > 0) == self.higher_is_better
            if better and self.adjusted[other, row] < self.level:
                found.append(other)
        return found

    @property
    def leading(self) -> list[int]:
        """Indices of the rows that no other row beats significantly: the leading group."""
        return [row for row in range(len(self.adjusted)) if not self.beaten(row)]


def all_pairs(
    rows: Sequence[RunValues],
    *,
    test: str = "t",
    correction: str = "holm",
    level: float = 0.05,
    higher_is_better: bool = True,
) -> AllPairs:
    """Compare every row of a table with every other row, and adjust the p-values for all pairs.

    Because all pairs are tested, a statement about the best row is valid, even though the results determine which
    row is the best.

    Args:
        rows: values of the rows; all rows have the same queries.
        test: one of `TESTS`.
        correction: method of the adjustment, `"holm"` or `"bonferroni"`; `"none"` for no adjustment.
        level: level of the tests.
        higher_is_better: False for a metric of which lower values are better.
    """

    def compare(i: int, j: int) -> RunComparison:
        return compare_runs(rows[i], rows[j], test=test, level=level)

    return pairs_of(len(rows), compare, correction=correction, level=level, higher_is_better=higher_is_better)


def pairs_of(
    count: int,
    compare: Callable[[int, int], RunComparison],
    *,
    correction: str = "holm",
    level: float = 0.05,
    higher_is_better: bool = True,
) -> AllPairs:
    """Return the comparisons of all pairs of `count` rows; `compare(i, j)` compares the rows i and j."""
    comparisons: list[list[RunComparison | None]] = [[None] * count for _ in range(count)]
    places = [(i, j) for i in range(count) for j in range(i)]
    for i, j in places:
        found = compare(i, j)
        comparisons[i][j], comparisons[j][i] = found, swapped(found)
    adjusted = np.ones((count, count))
    p = [one.p for i, j in places if (one := comparisons[i][j]) is not None]
    for (i, j), value in zip(places, statistics.adjust(p, correction).tolist(), strict=True):
        adjusted[i, j] = adjusted[j, i] = value
    return AllPairs(comparisons, adjusted, level, higher_is_better)


def _differences(a: RunValues, b: RunValues) -> Array:
    """Return the differences between the query means of two rows, `(used queries,)`."""
    if a.queries is not None and b.queries is not None and not np.array_equal(a.queries, b.queries):
        lacking = sorted(set(a.queries.tolist()) ^ set(b.queries.tolist()))
        got = f"query {lacking[0]!r} in only one of them" if lacking else "the same queries in different orders"
        bad_value("a and b", "have the same queries in the same order", got)
    if a.values.shape[1] != b.values.shape[1]:
        bad_value("a and b", "have the same queries", f"{a.values.shape[1]} and {b.values.shape[1]} queries")
    if not np.array_equal(a.used, b.used):
        bad_value("a and b", "be NaN for the same queries", "NaN for different queries")
    if not np.array_equal(a.folds, b.folds):
        bad_value("a and b", "have the same folds", "different folds")
    d = a.query_means - b.query_means
    # Means of equal values over different numbers of seeds differ by rounding errors.
    return np.where(np.abs(d) > 1e-12 * np.abs(a.query_means), d, 0.0)


def _standard_error(d: Array, a: RunValues, b: RunValues) -> tuple[float, float]:
    """Return the standard error of the mean difference between two rows, and its degrees of freedom."""
    n = len(d)
    if n < 2:
        return 0.0, 1.0
    queries = float(d.var(ddof=1)) / n
    runs = max(a.runs.observed + b.runs.observed - a.runs.noise - b.runs.noise, 0.0)
    variance = queries + runs
    if variance == 0:
        return 0.0, float(n - 1)
    if not runs:
        return variance**0.5, float(n - 1)
    # Satterthwaite's V^2 / sum of x^2 / f, for parts x with f degrees of freedom. Squares of estimates are too large on
    # average: x^2 / (f + 2) is unbiased for the terms of the sum, and so is -2 for the whole.
    squares = queries**2 / (n + 1) + a.runs.squares + b.runs.squares
    least = min(n - 1, *(row.seeds - 1 for row in (a, b) if row.seeds > 1))
    return variance**0.5, max(variance**2 / squares - 2, float(least))


def _scaled_effects(a: RunValues, b: RunValues) -> list[tuple[Array, Array]]:
    """Return the shares of the folds and the effects of the training runs, for each row with several seeds.

    The effects are scaled: their variance becomes an unbiased estimate that contains no noise.
    """
    observed = a.runs.observed + b.runs.observed
    kept = max(observed - a.runs.noise - b.runs.noise, 0.0) / observed if observed else 0.0
    return [
        (row.runs.shares, row.runs.effects * (kept * row.seeds / (row.seeds - 1)) ** 0.5)
        for row in (a, b)
        if row.seeds > 1 and kept
    ]


def _bootstrap(d: Array, a: RunValues, b: RunValues, rounds: int, seed: int) -> Array:
    """Return the studentised differences of the bootstrap samples of queries and training runs, `(rounds,)`."""
    generator, n = np.random.default_rng(seed), len(d)
    effects = _scaled_effects(a, b)
    found, block = [], max(1, _NUMBERS // n)
    for start in range(0, rounds, block):
        some = min(block, rounds - start)
        drawn = d[generator.integers(n, size=(some, n))]
        shift, variance = drawn.mean(axis=1) - d.mean(), drawn.var(axis=1, ddof=1) / n
        for shares, effect in effects:
            folds, seeds = effect.shape
            places = generator.integers(seeds, size=(some, folds, seeds))
            runs = np.take_along_axis(np.broadcast_to(effect, places.shape), places, axis=2)
            shift += runs.mean(axis=2) @ shares
            variance += runs.var(axis=2, ddof=1) / seeds @ shares**2
        found.append(shift / np.sqrt(np.maximum(variance, np.finfo(np.float64).tiny)))
    return np.concatenate(found)


def _randomisation(d: Array, a: RunValues, b: RunValues, rounds: int, seed: int) -> float:
    """Return the p-value of the randomisation test of queries and training runs."""
    generator, n = np.random.default_rng(seed), len(d)
    reached, block = 0, max(1, _NUMBERS // n)
    terms = [d / n]
    for shares, effect in _scaled_effects(a, b):
        terms.append((shares[:, None] * effect / effect.shape[1]).ravel())
    every = np.concatenate(terms)
    bound = abs(d.mean()) - np.abs(every).sum() * len(every) * np.finfo(np.float64).eps
    for start in range(0, rounds, block):
        some = min(block, rounds - start)
        drawn = generator.integers(256, size=(some, -(-len(every) // 8)), dtype=np.uint8)
        signs = np.unpackbits(drawn, axis=1, count=len(every)).astype(np.float64)
        reached += int((np.abs(every.sum() - 2 * (signs @ every)) >= bound).sum())
    return (reached + 1) / (rounds + 1)


def swapped(found: RunComparison) -> RunComparison:
    """Return the comparison of row b with row a, computed from the comparison of row a with row b."""
    low, high = found.interval
    return replace(found, difference=-found.difference, interval=(-high, -low), seeds=found.seeds[::-1])
