"""Preprocessing: fitted on train only, the same in NumPy and PyTorch, never NaN, saved and read back."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler

import rankgrad.data.preprocessing.pipeline as preprocessing
from rankgrad.data.categories import encode_features
from rankgrad.data.dataset import Dataset
from rankgrad.data.preprocessing.missing_values import FillMissing
from rankgrad.data.preprocessing.pipeline import Clip, Preprocessing, Quantile, Standardise
from rankgrad.data.synthetic import synthetic

TEXTS = ["log1p,standardise", "standardise,clip=2", "quantile", "quantile=uniform", "standardise_per_query", "log1p"]


@pytest.fixture(scope="module")
def train():
    return synthetic(40, features=14, seed=3).train


@pytest.fixture(scope="module")
def test():
    return synthetic(40, features=14, seed=3).test


def dataset(x, lengths):
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    x = np.asarray(x, dtype=np.float32)
    return Dataset(x, np.zeros(len(x), np.float32), offsets, np.arange(len(lengths)))


@pytest.mark.parametrize("text", TEXTS)
def test_tensors_and_arrays_agree(text, train, test):
    steps = Preprocessing.parse(text).fit(train)
    array = steps.transform(test.features, test.offsets)
    tensor = steps.transform(torch.tensor(test.features), torch.tensor(test.offsets))
    assert array.dtype == np.float32
    assert tensor.dtype == torch.float32
    np.testing.assert_allclose(array, tensor.numpy(), rtol=1e-5, atol=1e-5)
    assert np.isfinite(array).all()


@pytest.mark.parametrize("text", TEXTS)
def test_padded_lists_agree_with_flat_ones(text, train):
    steps = Preprocessing.parse(text).fit(train)
    flat = steps.transform(train.features, train.offsets)
    n, lists = train.lengths.max() + 2, 5
    padded = torch.full((lists, n, train.features.shape[1]), 7.0)
    mask = torch.arange(n) < torch.tensor(train.lengths[:lists])[:, None]
    padded[mask] = torch.tensor(train.features[: train.offsets[lists]])
    out = steps.transform(padded, mask=mask)[mask]
    np.testing.assert_allclose(out.numpy(), flat[: train.offsets[lists]], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rows", [1, 7, 100])
@pytest.mark.parametrize("text", ["standardise", "standardise_per_query", "quantile", "log1p,standardise,clip=1"])
def test_blocks_change_nothing(monkeypatch, text, rows, train):
    whole = Preprocessing.parse(text).fit(train).transform(train.features, train.offsets)
    monkeypatch.setattr(preprocessing, "_ROWS", rows)
    split = Preprocessing.parse(text).fit(train).transform(train.features, train.offsets)
    np.testing.assert_allclose(split, whole, rtol=1e-5, atol=1e-6)


def test_standardise_is_scikit_learns(train, test):
    ours = Preprocessing.parse("standardise").fit(train).transform(test.features)
    theirs = StandardScaler().fit(train.features.astype(np.float64)).transform(test.features)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_large_offset_costs_no_precision():
    x = 1e6 + np.arange(8)[:, None]
    out = Preprocessing.parse("standardise").fit(dataset(x, [3, 5])).transform(x.astype(np.float32))
    np.testing.assert_allclose(out[:, 0], (np.arange(8) - 3.5) / np.arange(8).std(), atol=0.02)


@pytest.mark.parametrize("text", ["standardise", "standardise_per_query", "quantile", "quantile=uniform"])
@pytest.mark.parametrize("value", [0.0, 0.1, -3.3e7, 1e30])
def test_constant_features_become_zero(text, value):
    data = dataset(np.full((7, 2), value), [3, 4])
    steps = Preprocessing.parse(text).fit(data)
    assert (steps.transform(data.features, data.offsets) == 0).all()
    assert (steps.transform(torch.tensor(data.features), torch.tensor(data.offsets)) == 0).all()
    if text != "standardise_per_query":  # fitted: what varies only after training stays 0
        assert (steps.transform(data.features + np.arange(14, dtype=np.float32).reshape(7, 2)) == 0).all()


def test_per_query_lists_of_one_none_and_many():
    data = dataset([[5.0], [1.0], [3.0], [1e30]], [1, 0, 2, 1, 0])
    out = Preprocessing.parse("standardise_per_query").fit(data).transform(data.features, data.offsets)
    assert out[:, 0].tolist() == [0, -1, 1, 0]
    tensor = Preprocessing.parse("standardise_per_query").transform(
        torch.tensor(data.features), torch.tensor(data.offsets)
    )
    assert tensor[:, 0].tolist() == [0, -1, 1, 0]


def test_quantile_is_the_rank_and_the_normal_score():
    x = np.exp(np.random.default_rng(0).standard_normal((5_000, 1)))
    data = dataset(x, [5_000])
    uniform = Preprocessing.parse("quantile=uniform").fit(data).transform(x)[:, 0]
    ranks = np.argsort(np.argsort(x[:, 0])) / 5_000
    assert np.abs(uniform - ranks).max() < 0.011
    normal = Preprocessing.parse("quantile").fit(data).transform(x)[:, 0]
    body = np.abs(np.log(x[:, 0])) < 2
    assert np.abs(normal - np.log(x[:, 0]))[body].max() < 0.12
    assert np.abs(normal).max() < 3.1


def test_quantile_puts_ties_in_the_middle_and_is_flat_outside():
    x = np.r_[np.zeros(80), np.arange(1, 21)][:, None]
    steps = Preprocessing.parse("quantile=uniform").fit(dataset(x, [100]))
    out = steps.transform(np.array([[0.0], [-5.0], [1e9], [20.0]], dtype=np.float32))[:, 0]
    assert abs(out[0] - 0.4) < 0.01
    assert out[1] == out[0]
    assert out[2] == out[3] > 0.98


def test_quantile_of_a_sample_is_close():
    x = np.random.default_rng(1).standard_normal((30_000, 1)).astype(np.float32)
    data = dataset(x, [10] * 3_000)
    whole, part = (Preprocessing((Quantile("uniform", sample),)).fit(data).transform(x) for sample in (30_000, 5_000))
    assert 0 < np.abs(whole - part).max() < 0.04


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_log1p_is_odd_and_exact(values):
    x = np.array(values, dtype=np.float32)[:, None]
    steps = Preprocessing.parse("log1p")
    out = steps.transform(x)
    assert np.array_equal(out, -steps.transform(-x))
    np.testing.assert_allclose(out, np.sign(x) * np.log1p(np.abs(x.astype(np.float64))), rtol=1e-5)


def test_statistics_come_from_train_only(train, test):
    steps = Preprocessing.parse("log1p,standardise").fit(train)
    before = steps.transform(test.features)
    assert np.abs(steps.transform(train.features).mean(0)).max() < 1e-5
    assert np.abs(before.mean(0)).max() > 1e-3
    assert np.array_equal(before[:5], steps.transform(test.features[:5]))


@pytest.mark.parametrize(
    "text", [*TEXTS, "clip=0.5,quantile,standardise", "quantile(output=uniform,sample=7),clip=1234567.5", "none"]
)
def test_saved_and_read_back(text, train):
    fitted = Preprocessing.parse(text).fit(train)
    config, arrays = fitted.to_config()
    again = Preprocessing.from_config(json.loads(json.dumps(config)), arrays)
    assert str(again) == str(fitted) == text
    one, other = (steps.transform(train.features, train.offsets) for steps in (fitted, again))
    assert np.array_equal(one, other)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("log1q", "preprocessing must be one of 'standardise', .* got 'log1q'"),
        ("clip=-1", "limit must be a number above 0; got"),
        ("clip=wide", "limit of clip must be a finite number; got 'wide'"),
        ("quantile=3", "output must be one of 'normal', 'uniform'; got '3'"),
        ("log1p=2", "preprocessing must have no option for log1p; got '2'"),
    ],
)
def test_bad_text(text, message):
    with pytest.raises(ValueError, match=message):
        Preprocessing.parse(text)


def test_spellings():
    assert str(Preprocessing.parse(" Log1p , standardize-per-query,CLIP=10 ")) == "log1p,standardise_per_query,clip"
    assert str(Preprocessing((Standardise(), Clip(3.5)))) == "standardise,clip=3.5"


def test_misuse(train):
    with pytest.raises(
        ValueError, match="steps must be fitted before transform; got the step 'standardise', which is not fitted"
    ):
        Preprocessing.parse("standardise").transform(train.features)
    with pytest.raises(ValueError, match="features must have 14 columns, as in training; got 3"):
        Preprocessing.parse("standardise").fit(train).transform(train.features[:, :3])
    with pytest.raises(ValueError, match="offsets or mask must be given to standardise_per_query; got neither"):
        Preprocessing.parse("standardise_per_query").transform(train.features)
    with pytest.raises(ValueError, match="dataset must contain at least one document; got none"):
        Preprocessing.parse("standardise").fit(dataset(np.zeros((0, 2)), [0]))


def test_huge_values_that_hide_all_others_are_told():
    x = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    x[:3, 1] = 1e30
    data = Dataset(x, np.zeros(50, np.float32), np.array([0, 50]), np.arange(1))
    with pytest.warns(UserWarning, match=r"1 feature\(s\), the first of them number 2, contain huge values"):
        Preprocessing.parse("standardise").fit(data)


@pytest.mark.parametrize(
    ("fill", "value"), [("mean", [2.0, 5.0, 0.0]), ("indicator", [2.0, 5.0, 0.0]), ("zero", [0.0] * 3)]
)
def test_missing_values_of_several_blocks(fill, value):
    hole = np.nan
    blocks = [[[1.0, 5.0, hole]], [[hole, 5.0, hole], [3.0, 5.0, hole]], np.zeros((0, 3))]
    fitted = FillMissing(fill).fit(np.array(block, dtype=np.float32) for block in blocks)
    assert fitted.value.tolist() == value
    assert fitted.added == (2 if fill == "indicator" else 0)


def test_categories_of_columns_without_names_are_told_by_number():
    data = dataset([[0.5, 3.0]] * 10, [10])
    with pytest.warns(UserWarning, match="column '2' are unknown"):
        encode_features(data, [1], {1: ("1", "2")})
