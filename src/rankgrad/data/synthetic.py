"""Generate lists that are similar to lists of web search. The best achievable order of each list is known.

The utility `u = f(x)` of a document is a fixed non-linear function of its features. Thresholds convert the sum
`u - (mean of u in the list) + (query effect) + noise` to the label of the document. The query effect and the mean of a
list shift all documents of the list by the same amount. This shift does not change the order of the list, but a
pointwise regression must predict it. The noise is normal, and therefore log-concave. So if one of two documents has the
higher utility, it is at least as likely as the other document to have the higher label, for all values of the other
labels. Therefore, in expectation, no ranker is better than the order by `u`, for any metric that rewards higher labels
at the top.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.data.dataset import Dataset, Splits
from rankgrad.data.memory_limits import check_memory
from rankgrad.errors import bad_value

OPTIONS = ("lists", "features", "grades", "mean_length", "noise", "query_effect", "seed")
_PRIORS = {  # share of documents per grade, as in MQ2008 and in web search logs with five grades
    2: (0.85, 0.15),
    3: (0.807, 0.132, 0.061),
    5: (0.515, 0.325, 0.134, 0.018, 0.008),
}
_SIGNALS = 10  # number of columns on which the utility depends
_ROWS = 8_192  # number of rows per block: the temporary arrays fit in the cache of one core


def synthetic(
    lists: int = 1_000,
    *,
    features: int = 46,
    grades: int = 5,
    mean_length: float = 30.0,
    noise: float = 0.4,
    query_effect: float = 0.8,
    seed: int = 0,
) -> Splits:
    """Generate synthetic train, validation and test lists; validation and test have `lists / 3` lists each.

    List lengths are log-normal, at least 1. Most documents have low grades. Features are heavy-tailed, rounded or
    bounded. The mean of a feature is different for each query. Only 10 features have an effect on the labels; the other
    features are noise or noisy copies of these 10. Every split has `best`: the utility of each document, without noise.
    The order by `best` is the best achievable order (see `achievable`). The same seed gives the same data set.

    Args:
        lists: number of training lists.
        features: number of features, at least 10.
        grades: number of different labels: 2, 3 or 5.
        mean_length: mean number of documents per list.
        noise: standard deviation of the label noise; the utility has standard deviation 1 within a list.
        query_effect: standard deviation of the random shift of a query; all documents of a query have the same shift.
        seed: random seed.

    Example:
        >>> data = synthetic(60, seed=1)
        >>> data.train, data.test.best.shape == data.test.labels.shape
        (Dataset('synthetic train', lists=60, documents=..., features=46), True)
    """
    _check(lists, features, grades, mean_length, noise, query_effect)
    simulator_seed, *seeds = np.random.SeedSequence(seed).spawn(4)
    simulator = _Simulator.draw(np.random.default_rng(simulator_seed), features)
    thirds = max(1, lists // 3)
    parts: list[Dataset] = []
    thresholds, queries = None, 0
    for split, size, stream in zip(("train", "validation", "test"), (lists, thirds, thirds), seeds, strict=True):
        # Lengths, features and labels have separate random streams: `noise` and `query_effect` change only the labels.
        lengths_rng, values_rng, labels_rng = (np.random.default_rng(child) for child in stream.spawn(3))
        lengths = _lengths(lengths_rng, size, mean_length)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        x, utility = simulator.documents(values_rng, lengths)
        relative = utility - np.repeat(np.add.reduceat(utility, offsets[:-1]) / lengths, lengths)
        relative += np.repeat(query_effect * labels_rng.standard_normal(size), lengths)
        relative += noise * labels_rng.standard_normal(len(relative))
        if thresholds is None:  # thresholds are computed from train and used for all splits
            thresholds = np.quantile(relative, np.cumsum(_PRIORS[grades])[:-1])
        labels = np.searchsorted(thresholds, relative).astype(np.float32)
        qids = np.arange(queries, queries + size)
        parts.append(Dataset(x, labels, offsets, qids, name=f"synthetic {split}", best=utility.astype(np.float32)))
        queries += size
    train, validation, test = parts
    return Splits(train, validation, test, "synthetic")


def true_features(features: int = 46, *, seed: int = 0) -> tuple[int, ...]:
    """Return the sorted positions, from 0, of the features that have an effect on the labels of `synthetic`.

    Args:
        features: number of features, at least 10.
        seed: random seed of the data set.

    Example:
        >>> true_features(12, seed=1)
        (...)
    """
    _check(1, features, 2, 1.0, 0.0, 0.0)
    simulator = _Simulator.draw(np.random.default_rng(np.random.SeedSequence(seed).spawn(4)[0]), features)
    return tuple(np.flatnonzero(simulator.shown < _SIGNALS).tolist())


def web30k_shape(scale: float = 1.0, *, seed: int = 0) -> Splits:
    """Generate a data set as large as Fold 1 of WEB30K: 18,919 training lists, 120 documents per list, 136 features.

    Args:
        scale: number of lists relative to WEB30K; the scale 1.0 needs 2 GB of memory.
        seed: random seed.

    Example:
        >>> web30k_shape(0.001).train
        Dataset('synthetic train', lists=19, documents=..., features=136)
    """
    return synthetic(**web30k_options(scale, seed=seed))


def web30k_options(scale: float = 1.0, *, seed: int = 0) -> dict[str, Any]:
    """Return the options of `synthetic` that `web30k_shape` uses."""
    if not scale > 0:
        bad_value("scale", "be above 0", scale)
    return {"lists": max(1, round(18_919 * min(scale, 1e9))), "features": 136, "mean_length": 120.0, "seed": seed}


def check_synthetic(**options: Any) -> None:
    """Check the options of `synthetic`, and check that the machine has enough memory; nothing is generated."""
    given = inspect.signature(synthetic).bind(**options)
    given.apply_defaults()
    seed = given.arguments.pop("seed")
    if seed < 0:
        bad_value("seed", "be at least 0", seed)
    _check(**given.arguments)


def achievable(dataset: Dataset, metric: str | Callable[..., Any] = "nDCG@10") -> float:
    """Return the value of `metric` for the best achievable order of synthetic lists, as a reference for results.

    Args:
        dataset: data set with `best`, for example a split from `synthetic`.
        metric: spec such as `"nDCG@10"`, a metric object, or a function `(scores, labels, offsets=...)`.

    Example:
        >>> def first(scores, labels, offsets):
        ...     return np.mean([labels[a:b][scores[a:b].argmax()] for a, b in zip(offsets[:-1], offsets[1:])])
        >>> test = synthetic(60).test
        >>> achievable(test, first) > float(test.labels.mean())
        True
    """
    if dataset.best is None:
        bad_value("dataset", "have `best`, the scores of the best achievable order (see synthetic())", "best=None")
    measure: Any = metric
    if isinstance(metric, str):
        from rankgrad.metrics import parse_metric

        measure = parse_metric(metric)
    measure = getattr(measure, "measure", measure)
    return float(measure(dataset.best, dataset.labels, offsets=dataset.offsets))


@dataclass(frozen=True)
class _Simulator:
    """Generator of synthetic documents. All splits share its column order and its formula of the utility."""

    shown: NDArray[np.int64]  # (features,), index of the generated column for each column of the result
    copied: NDArray[np.int64]  # (copies,), index of the column that each noisy copy repeats
    weights: NDArray[np.float64]  # (7,), weights of the terms of the utility
    scale: float = 1.0  # number by which the utility is multiplied

    @staticmethod
    def draw(rng: np.random.Generator, features: int) -> "_Simulator":
        copies = (features - _SIGNALS) // 3
        weights = np.array([0.6, 0.5, 0.6, 0.7, 0.6, 0.8, 0.7]) * rng.uniform(0.9, 1.1, 7)
        simulator = _Simulator(rng.permutation(features), rng.integers(0, _SIGNALS, copies), weights)
        # Noise and query effect are relative to the standard deviation of the utility within a list.
        lengths = np.full(200, 50)
        utility = simulator.documents(rng, lengths)[1].reshape(200, 50)
        return replace(simulator, scale=float(1 / utility.std(axis=1).mean()))

    def documents(
        self, rng: np.random.Generator, lengths: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Generate random documents: the features, `(documents, features)`, and the utility, `(documents,)`."""
        width, owner = len(self.shown), np.repeat(np.arange(len(lengths)), lengths)
        offsets = 0.7 * rng.standard_normal((width, len(lengths)), dtype=np.float32)
        x = np.empty((len(owner), width), dtype=np.float32)
        utility = np.empty(len(owner))
        for start in range(0, len(owner), _ROWS):
            block = slice(start, start + _ROWS)
            # (features, rows): one row per feature, because operations on contiguous memory are fast.
            made = rng.standard_normal((width, len(owner[block])), dtype=np.float32)
            made += offsets[:, owner[block]]
            made[_SIGNALS : _SIGNALS + len(self.copied)] += made[self.copied]
            for number, column in enumerate(made):
                _SHAPES[number % 4](column)
            utility[block] = self.scale * self._utility(made[:_SIGNALS])
            x[block] = made[self.shown].T
        return x, utility

    def _utility(self, shown: NDArray[np.float32]) -> NDArray[np.float64]:
        """Compute the utility of synthetic documents, `(rows,)`, from its 10 features, `(10, rows)`."""
        a, w = _undo_shapes(shown.astype(np.float64)), self.weights
        sums = w[0] * a[0] + w[1] * np.tanh(2 * a[1]) - w[2] * np.abs(a[2])
        products = w[3] * a[3] * a[4] + w[4] * np.where(a[5] > 0, a[6], 0.0)
        either: NDArray[np.float64] = w[5] * np.minimum(a[7], a[8]) + w[6] * np.maximum(a[9], 0.0)
        return sums + products + either


def _heavy(column: NDArray[np.float32]) -> None:
    """Make a synthetic feature heavy-tailed, like numbers of links or clicks."""
    column *= 1.5
    np.exp(column, out=column)


def _counted(column: NDArray[np.float32]) -> None:
    """Convert a synthetic feature to small integers, like term frequencies."""
    column += 1.5
    np.floor(np.exp(column, out=column), out=column)


def _bounded(column: NDArray[np.float32]) -> None:
    """Convert a synthetic feature to numbers between 0 and 1, like ratios or probabilities."""
    np.negative(column, out=column)
    np.exp(column, out=column)
    column += 1
    np.reciprocal(column, out=column)


def _scaled(column: NDArray[np.float32]) -> None:
    """Shift and scale a synthetic feature, like scores of BM25 or of language models."""
    column *= 5
    column += 20


# Column i uses function i modulo 4. Each function changes a column of normal values in place.
_SHAPES = (_heavy, _counted, _bounded, _scaled)


def _undo_shapes(shown: NDArray[np.float64]) -> NDArray[np.float64]:
    """Undo `_SHAPES`: compute the normal values of the columns `shown`, `(columns, rows)`. Rounding is not undone."""
    a = np.empty_like(shown)
    a[0::4] = np.log(shown[0::4]) / 1.5
    a[1::4] = np.log(shown[1::4] + 0.5) - 1.5
    a[2::4] = np.log(shown[2::4] / (1 - shown[2::4]))
    a[3::4] = (shown[3::4] - 20) / 5
    return a


def _lengths(rng: np.random.Generator, lists: int, mean: float) -> NDArray[np.int64]:
    """Return random log-normal lengths of synthetic lists, with mean `mean`, minimum 1 and maximum `10 * mean`."""
    spread = 0.6
    drawn = np.exp(np.log(mean) - spread**2 / 2 + spread * rng.standard_normal(lists))
    return np.clip(np.round(drawn), 1, max(1, 10 * mean)).astype(np.int64)


def _check(lists: int, features: int, grades: int, mean_length: float, noise: float, query_effect: float) -> None:
    if lists < 1:
        bad_value("lists", "be at least 1", lists)
    if features < _SIGNALS:
        bad_value("features", f"be at least {_SIGNALS}", features)
    if grades not in _PRIORS:
        bad_value("grades", "be 2, 3 or 5", grades)
    if not mean_length >= 1:
        bad_value("mean_length", "be at least 1", mean_length)
    if not (noise >= 0 and query_effect >= 0):
        bad_value("noise and query_effect", "be at least 0", (noise, query_effect))
    check_memory("lists", (round(min(lists * mean_length, 1e18)), features), np.float32, "use fewer lists")
