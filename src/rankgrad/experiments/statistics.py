"""Test the difference between two rankers on the same queries: paired tests, intervals, adjusted p-values.

The unit of all tests is the query. Runs that differ only in the seed rank the same queries, so the values of these runs
are correlated. If the values were treated as independent, p-values would be too small. Therefore the values of a query
are first averaged over seeds (`over_seeds`). Each query is in the test part of one fold, so the queries of all folds
are pooled (`over_folds`).

All tests are two-sided. A list that a metric skips has the value NaN for both rankers, and is left out.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrad.errors import bad_value, one_of
from rankgrad.metrics.few_lists import FEW, t_interval
from rankgrad.metrics.few_lists import half_interval as half_interval

Values = NDArray[np.float64]
Queries = NDArray[np.str_]

CORRECTIONS = ("none", "bonferroni", "holm")
EXACT = 12  # with at most this number of nonzero differences, all combinations of signs are enumerated
_NUMBERS = 4_000_000  # maximum number of values in memory at a time, so that many queries need little memory


class Paired(NamedTuple):
    """Result of a paired test of the difference between `a` and `b`."""

    difference: float  # mean of a - b
    statistic: float  # t of the t-test; for the randomisation test, the mean difference
    p: float  # p-value
    n: int  # number of pairs


def align(queries_a: Any, values_a: Any, queries_b: Any, values_b: Any) -> tuple[Values, Values]:
    """Return the values of two rankers, both in the order of `queries_a`.

    Both rankers must have the same queries, each query once, and NaN for the same queries. Otherwise an error names one
    query.

    Args:
        queries_a, queries_b: query ids, `(lists,)`; they are compared as text.
        values_a, values_b: value of each query, `(lists,)`; NaN for a skipped query.

    Example:
        >>> align(["x", "y"], [0.1, 0.2], ["y", "x"], [0.4, 0.3])
        (array([0.1, 0.2]), array([0.3, 0.4]))
        >>> align(["x", "y"], [0.1, 0.2], ["x", "z"], [0.4, 0.3])
        Traceback (most recent call last):
        ValueError: queries_b must contain all queries of queries_a; got no query 'y'
    """
    first, a = _column("a", queries_a, values_a)
    second, b = _column("b", queries_b, values_b)
    order_a, order_b = np.argsort(first, kind="stable"), np.argsort(second, kind="stable")
    if not np.array_equal(first[order_a], second[order_b]):
        for name, ours, other, theirs in (("b", first, "a", second), ("a", second, "b", first)):
            if lacking := sorted(set(ours.tolist()) - set(theirs.tolist())):
                bad_value(f"queries_{name}", f"contain all queries of queries_{other}", f"no query {lacking[0]!r}")
    matched = np.empty_like(b)
    matched[order_a] = b[order_b]
    if (odd := np.isnan(a) != np.isnan(matched)).any():
        which, other = ("a", "b") if np.isnan(matched[odd][0]) else ("b", "a")
        query = str(first[odd][0])
        bad_value(f"values_{which}", f"be NaN for the same queries as values_{other}", f"a number for query {query!r}")
    return a, matched


def over_seeds(queries: Sequence[Any], values: Sequence[Any]) -> tuple[Queries, Values]:
    """Return the query ids in the order of the first run, and the mean value of each query over the runs (seeds).

    Example:
        >>> over_seeds([["x", "y"], ["y", "x"]], [[0.1, 0.2], [0.4, 0.3]])
        (array(['x', 'y'], dtype='<U1'), array([0.2, 0.3]))
    """
    if not queries:
        bad_value("queries", "contain the ids of at least one run", "an empty sequence")
    pairs = zip(queries, values, strict=True)
    aligned = [align(queries[0], values[0], names, numbers)[1] for names, numbers in pairs]
    return _text(queries[0]), np.mean(aligned, axis=0)


def over_folds(queries: Sequence[Any], values: Sequence[Any]) -> tuple[Queries, Values]:
    """Concatenate the queries of all folds and their values; a query in the test part of two folds is an error.

    Example:
        >>> over_folds([["x", "y"], ["z"]], [[0.1, 0.2], [0.4]])
        (array(['x', 'y', 'z'], dtype='<U1'), array([0.1, 0.2, 0.4]))
    """
    if not queries:
        bad_value("queries", "contain the ids of at least one fold", "an empty sequence")
    names = np.concatenate([_text(some) for some in queries])
    return _column("pooled", names, np.concatenate([np.asarray(some, dtype=np.float64) for some in values]))


def paired_t(a: Any, b: Any) -> Paired:
    r"""Return the result of the paired Student's t-test, like `scipy.stats.ttest_rel`.

    The statistic is :math:`t = \bar d / (s_d / \sqrt n)`, where :math:`d = a - b`. p is 1 if all differences are 0, or
    if there are fewer than two pairs.

    Args:
        a, b: values of the same queries, `(lists,)`.

    Example:
        >>> test = paired_t([0.5, 0.7, 0.9, 0.4], [0.4, 0.5, 0.8, 0.4])
        >>> f"{test.difference:.2f} t={test.statistic:.2f} p={test.p:.3f} n={test.n}"
        '0.10 t=2.45 p=0.092 n=4'
    """
    from scipy.special import stdtr

    d = differences(a, b)
    mean, n = _mean(d), len(d)
    if n < 2 or not d.any():
        return Paired(mean, 0.0, 1.0, n)
    spread = float(d.std(ddof=1))
    if spread == 0:  # all queries have the same difference
        return Paired(mean, float(np.copysign(np.inf, mean)), 0.0, n)
    t = mean / (spread / n**0.5)
    return Paired(mean, t, float(2 * stdtr(n - 1, -abs(t))), n)


def randomisation(a: Any, b: Any, rounds: int = 10_000, seed: int = 0) -> Paired:
    """Return the result of Fisher's randomisation test.

    In each round, the values a and b of random queries are swapped. A round counts if the absolute value of its mean
    difference is at least the absolute value of the observed mean difference. Let c be the number of rounds that count:
    p is (c + 1) / (rounds + 1), which is never 0. With at most 12 nonzero differences, all swaps are enumerated, and p
    is exact.

    Example:
        >>> randomisation([0.5, 0.7, 0.9, 0.4], [0.4, 0.5, 0.8, 0.4]).p
        0.25
    """
    if rounds < 1:
        bad_value("rounds", "be at least 1", rounds)
    d = differences(a, b)
    mean, moving = _mean(d), d[d != 0]
    if not len(moving):
        return Paired(mean, mean, 1.0, len(d))
    # Sums that differ only by rounding errors count as equal, because their terms are added in different orders.
    size = np.abs(moving).sum()
    bound = abs(moving.sum()) - size * len(moving) * np.finfo(np.float64).eps
    if len(moving) <= EXACT:
        every = np.arange(2 ** len(moving))[:, None] >> np.arange(len(moving)) & 1
        return Paired(mean, mean, float((_flipped(moving, every) >= bound).mean()), len(d))
    generator, reached, block = np.random.default_rng(seed), 0, max(1, _NUMBERS // len(moving))
    for start in range(0, rounds, block):
        some = min(block, rounds - start)
        drawn = generator.integers(256, size=(some, -(-len(moving) // 8)), dtype=np.uint8)
        flips = np.unpackbits(drawn, axis=1, count=len(moving))
        reached += int((_flipped(moving, flips) >= bound).sum())
    return Paired(mean, mean, (reached + 1) / (rounds + 1), len(d))


def bootstrap(
    differences: Any, *, rounds: int = 10_000, confidence: float = 0.95, method: str = "percentile", seed: int = 0
) -> tuple[float, float]:
    """Return the bootstrap interval of the mean difference. Queries are sampled with replacement; NaN is left out.

    Percentiles of the means of fewer than 40 queries would cover too little (of 5: 84% instead of 95%). For them, the
    result is the interval of Student's t distribution; with fewer than 10 queries, it is rough.

    Args:
        differences: difference between two rankers per query, or any other values, `(lists,)`.
        confidence: confidence of the interval.
        method: `"percentile"`, or `"bca"`, which corrects for bias and skewness (Efron 1987), also of few queries.

    Example:
        >>> low, high = bootstrap([0.1, 0.2, 0.1, 0.0, -0.1, 0.3])
        >>> f"{low:.2f} to {high:.2f}"
        '-0.05 to 0.25'
    """
    one_of("method", method, ("percentile", "bca"))
    if rounds < 1:
        bad_value("rounds", "be at least 1", rounds)
    if not 0 < confidence < 1:
        bad_value("confidence", "be between 0 and 1", confidence)
    d = np.asarray(differences, dtype=np.float64)
    d = d[~np.isnan(d)]
    n, mean = len(d), _mean(d)
    if n == 0 or (d == d[0]).all():
        return mean, mean
    if method == "percentile" and n < FEW:
        return t_interval(d, confidence)
    generator, means, block = np.random.default_rng(seed), [], max(1, _NUMBERS // n)
    for start in range(0, rounds, block):
        means.append(d[generator.integers(n, size=(min(block, rounds - start), n))].mean(axis=1))
    drawn = np.concatenate(means)
    ends = np.array([(1 - confidence) / 2, (1 + confidence) / 2])
    low, high = np.quantile(drawn, ends if method == "percentile" else _corrected(ends, d, drawn)).tolist()
    return low, high


def bonferroni(p: Any) -> Values:
    """Adjust m p-values by Bonferroni's method: each p-value is multiplied by m, and limited to 1.

    Example:
        >>> bonferroni([0.01, 0.04, 0.5])
        array([0.03, 0.12, 1.  ])
    """
    p = _probabilities(p)
    return np.minimum(p * len(p), 1.0)


def holm(p: Any) -> Values:
    """Adjust m p-values by Holm's method: the i-th smallest is multiplied by `m - i + 1`.

    An adjusted value is at most 1. It is never smaller than the adjusted value of a smaller p-value. The probability of
    any false positive has the same upper limit as in Bonferroni's method. Holm's method never finds fewer significant
    tests than Bonferroni's method.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        array([0.03, 0.06, 0.06])
    """
    p = _probabilities(p)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    return adjusted


def adjust(p: Any, correction: str) -> Values:
    """Adjust the p-values of one family of comparisons by `"none"`, `"bonferroni"` or `"holm"`.

    Example:
        >>> adjust([0.01, 0.5], "bonferroni")
        array([0.02, 1.  ])
    """
    one_of("correction", correction, CORRECTIONS)
    return _probabilities(p) if correction == "none" else bonferroni(p) if correction == "bonferroni" else holm(p)


def differences(a: Any, b: Any) -> Values:
    """Return the paired differences `a - b`, `(pairs,)`; queries with NaN are left out.

    Example:
        >>> differences([0.5, np.nan, 0.25], [0.25, np.nan, 0.25])
        array([0.25, 0.  ])
    """
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape:
        bad_value("a and b", "have the same shape (lists,)", f"the shapes {a.shape} and {b.shape}")
    if (odd := np.isnan(a) != np.isnan(b)).any():
        place = int(odd.argmax())
        bad_value("b", "be NaN exactly where a is NaN", f"a={a[place]:g} and b={b[place]:g} at index {place}")
    if np.isinf(a).any() or np.isinf(b).any():
        bad_value("a and b", "be finite or NaN", "an infinite value")
    return (a - b)[~np.isnan(a)]


def _column(which: str, queries: Any, values: Any) -> tuple[Queries, Values]:
    names, numbers = _text(queries), np.asarray(values, dtype=np.float64)
    if names.shape != numbers.shape or names.ndim != 1:
        bad_value(f"values_{which}", f"have one value per query, shape {names.shape}", f"shape {numbers.shape}")
    if len(np.unique(names)) < len(names):
        twice, _ = Counter(names.tolist()).most_common(1)[0]
        bad_value(f"queries_{which}", "contain each query once", f"{twice!r} more than once")
    return names, numbers


def _text(queries: Any) -> Queries:
    return np.asarray(queries).astype(np.str_)


def _mean(values: Values) -> float:
    return float(values.mean()) if len(values) else 0.0


def _flipped(d: Values, flips: NDArray[Any]) -> Values:
    """Return the absolute value of the sum of differences in each round of the randomisation test, `(rounds,)`.

    A 1 in `flips` changes the sign of a difference.
    """
    return np.abs(d.sum() - 2 * (flips.astype(np.float64) @ d))


def _corrected(ends: Values, d: Values, drawn: Values) -> Values:
    """Return the two quantile levels of the BCa interval: its ends are these quantiles of the bootstrap means."""
    from scipy.special import ndtr, ndtri

    apart = d - d.mean()
    # For a mean, the skewness of the jackknife values equals the skewness of the values.
    acceleration = (apart**3).sum() / (6 * (apart**2).sum() ** 1.5)
    # Drawn means that equal the observed mean: one half counts as below the observed mean, the other half as above.
    below = ((drawn < d.mean()).mean() + (drawn <= d.mean()).mean()) / 2
    bias = ndtri(np.clip(below, 1 / (len(drawn) + 1), len(drawn) / (len(drawn) + 1)))
    moved = bias + ndtri(ends)
    return np.asarray(ndtr(bias + moved / (1 - acceleration * moved)))


def _probabilities(p: Any) -> Values:
    p = np.asarray(p, dtype=np.float64)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        bad_value("p", "be p-values from 0 to 1, shape (comparisons,)", p)
    return p
