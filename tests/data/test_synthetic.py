"""The generator: shaped like web search, the same for a seed, and its best order really the best."""

import itertools

import numpy as np
import pytest

from rankgrad.data.benchmarks import empty_lists
from rankgrad.data.dataset import Dataset
from rankgrad.data.synthetic import achievable, synthetic, web30k_shape


def ndcg(scores, labels, offsets, k=10):
    """Mean NDCG@k over the lists with a relevant document, in plain loops."""
    values = []
    for start, end in itertools.pairwise(offsets):
        gains = 2.0 ** labels[start:end] - 1
        if gains.any():
            discount = 1 / np.log2(np.arange(2, end - start + 2)[:k])
            ideal = np.sort(gains)[::-1][:k] @ discount
            values.append(gains[np.argsort(-scores[start:end], kind="stable")][:k] @ discount / ideal)
    return float(np.mean(values))


@pytest.fixture(scope="module")
def data():
    return synthetic(600, seed=5)


def linear(train, test, log):
    """Least squares on standardised features, as a score of the test documents."""

    def prepare(x):
        return np.sign(x) * np.log1p(np.abs(x)) if log else x

    x = prepare(train.features.astype(np.float64))
    mean, spread = x.mean(0), x.std(0)
    weights = np.linalg.lstsq((x - mean) / spread, train.labels - train.labels.mean(), rcond=None)[0]
    return (prepare(test.features) - mean) / spread @ weights


def test_a_seed_is_a_set(data):
    again, other = synthetic(600, seed=5), synthetic(600, seed=6)
    for split in ("train", "validation", "test"):
        one, two = getattr(data, split), getattr(again, split)
        assert all(np.array_equal(getattr(one, f), getattr(two, f)) for f in ("features", "labels", "offsets", "best"))
    assert not np.array_equal(data.train.offsets, other.train.offsets)


def test_a_seed_is_a_set_on_every_machine():
    # Frozen numbers: a change here changes every figure anyone has published with the generator.
    train = synthetic(50, seed=0).train
    assert len(train.labels) == 1_618
    assert train.labels[:12].tolist() == [1, 3, 1, 0, 0, 1, 1, 2, 0, 1, 0, 0]
    np.testing.assert_allclose(train.best[:3], [-0.426948, 1.66959, -0.548467], rtol=1e-4)
    np.testing.assert_allclose(
        train.features[:2, :4], [[0.300035, 0.736352, 1.0, 4.0], [0.703477, 0.830822, 0.0, 4.0]], rtol=1e-4
    )


def test_noise_changes_labels_alone():
    quiet, loud = synthetic(30, seed=2), synthetic(30, seed=2, noise=2.0, query_effect=0.1)
    assert np.array_equal(quiet.test.features, loud.test.features)
    assert np.array_equal(quiet.test.best, loud.test.best)
    assert not np.array_equal(quiet.test.labels, loud.test.labels)


def test_grades_are_cut_at_the_same_points_in_every_split():
    splits = synthetic(60, grades=3, noise=0.0, query_effect=0.0)
    parts = (splits.train, splits.validation, splits.test)
    relative = [p.best - np.repeat(np.add.reduceat(p.best, p.offsets[:-1]) / p.lengths, p.lengths) for p in parts]
    relative, labels = np.concatenate(relative), np.concatenate([p.labels for p in parts])
    for grade in (1, 2):
        assert relative[labels < grade].max() < relative[labels >= grade].min() + 1e-5


def test_splits_share_no_query():
    splits = synthetic(90, seed=2)
    assert (len(splits.train), len(splits.validation), len(splits.test)) == (90, 30, 30)
    assert len(np.unique(np.concatenate([splits.train.qids, splits.validation.qids, splits.test.qids]))) == 150


@pytest.mark.parametrize(("grades", "lengths"), [(2, 10), (3, 20), (5, 120)])
def test_shape(grades, lengths):
    train = synthetic(800, grades=grades, mean_length=lengths, features=20, seed=1).train
    shares = np.bincount(train.labels.astype(int), minlength=grades) / len(train.labels)
    assert len(shares) == grades
    assert (np.diff(shares) < 0).all()
    assert 0.85 * lengths < train.lengths.mean() < 1.15 * lengths
    assert train.lengths.min() >= 1
    assert train.lengths.max() > 2.5 * lengths
    assert np.isfinite(train.features).all()
    assert train.features.dtype == train.labels.dtype == np.float32
    assert 0 < empty_lists(train) < 800 or grades == 5


def test_some_features_are_heavy_tailed_and_some_useless(data):
    x = data.train.features
    assert (x.max(0) > 100 * np.median(x, 0)).mean() > 0.2
    within = data.train.labels - np.repeat(
        np.add.reduceat(data.train.labels, data.train.offsets[:-1]) / data.train.lengths, data.train.lengths
    )
    ranks = np.argsort(np.argsort(x, axis=0), axis=0)
    told = np.array([abs(np.corrcoef(within, column)[0, 1]) for column in ranks.T])
    assert (told < 0.03).mean() > 0.4
    assert told.max() > 0.2


def test_what_each_ranker_can_reach(data):
    """The ladder that makes the set worth training on: chance, one feature, a linear model, the best."""
    test = data.test
    measure = lambda scores: ndcg(scores, test.labels, test.offsets)  # noqa: E731
    chance = measure(np.random.default_rng(0).random(len(test.labels)))
    single = max(measure(sign * column) for column in test.features.T for sign in (1, -1))
    plain, logged = (measure(linear(data.train, test, log)) for log in (False, True))
    best = achievable(test, ndcg)
    assert chance + 0.1 < single < logged
    assert plain < logged < best - 0.15
    assert 0.88 < best < 0.99


def test_nudging_the_best_order_only_loses(data):
    """On average: it is a maximum, not just a good order."""
    test, rng = data.test, np.random.default_rng(1)
    best = achievable(test, ndcg)
    for size in (0.3, 1.0, 3.0):
        nudged = [
            ndcg(test.best + size * rng.standard_normal(len(test.best)), test.labels, test.offsets) for _ in range(3)
        ]
        assert np.mean(nudged) < best - 0.005


def test_without_noise_the_best_order_is_perfect():
    assert achievable(synthetic(60, noise=0.0).test, ndcg) == pytest.approx(1.0)


def test_best_follows_take_and_take_rows(data):
    some = data.test.take([5, 2])
    rows = np.r_[np.arange(*data.test.offsets[5:7]), np.arange(*data.test.offsets[2:4])]
    assert np.array_equal(some.best, data.test.best[rows])


def test_achievable_takes_metric_text(data):
    parse = pytest.importorskip("rankgrad.metrics").parse_metric
    skipping = parse("nDCG(empty='skip')@10")
    assert achievable(data.test, "nDCG(empty='skip')@10") == pytest.approx(ndcg(*_parts(data.test)), abs=1e-5)
    assert achievable(data.test, skipping) == pytest.approx(ndcg(*_parts(data.test)), abs=1e-5)


def test_web30k_shape():
    train = web30k_shape(0.01).train
    assert len(train) == 189
    assert train.features.shape[1] == 136
    assert 100 < train.lengths.mean() < 140


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lists": 0}, "lists must be at least 1; got 0"),
        ({"features": 9}, "features must be at least 10; got 9"),
        ({"grades": 4}, "grades must be 2, 3 or 5; got 4"),
        ({"mean_length": 0.5}, "mean_length must be at least 1; got 0.5"),
        ({"noise": -1.0}, "noise and query_effect must be at least 0; got"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        synthetic(**options)


def test_achievable_needs_the_best_order():
    plain = Dataset(np.zeros((1, 1), np.float32), np.zeros(1, np.float32), np.array([0, 1]), np.array([1]))
    with pytest.raises(ValueError, match="dataset must have `best`, the scores of the best achievable order"):
        achievable(plain, ndcg)


def _parts(dataset):
    return dataset.best, dataset.labels, dataset.offsets
