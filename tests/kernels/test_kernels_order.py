"""Sorting inside the kernels of the CPU."""

import numpy as np
import pytest


@pytest.fixture(scope="module")
def sorters():
    """Make the helpers callable from Python: only kernels can call them."""
    from numba import njit

    from rankgrad.kernels.cpu import order

    def sort(values, bits, place):
        order.descending(values, bits, place)

    def sort_labels(values, bits, place):
        order.by_label(values, bits, place)

    return order.bits, (njit(sort), njit(sort_labels))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("count", [1, 2, 16, 17, 300])
def test_descending_and_stable(sorters, dtype, count):
    bits, both = sorters
    random = np.random.default_rng(count)
    normal = random.normal(size=count)
    kinds = {
        "scores": normal,
        "tied": np.round(normal),
        "zeros of both signs": np.round(normal) * 0.0,
        "far apart": normal * 10.0 ** random.integers(-30, 30, count),
        "grades": random.integers(0, 5, count),
        "grades below 0": random.integers(-2, 3, count),
        "grades beyond the table": random.integers(20, 40, count),
        "halves": random.integers(0, 9, count) / 2,
    }
    for name, values in kinds.items():
        values = values.astype(dtype)
        for sort in both:
            place = np.arange(count)
            sort(values, bits(values), place)
            assert (place == np.argsort(-values, kind="stable")).all(), name


def test_nan_comes_last(sorters):
    bits, both = sorters
    values = np.array([1.0, np.nan, 3.0, -2.0])
    for sort in both:
        place = np.arange(4)
        sort(values, bits(values), place)
        assert place.tolist() == [2, 0, 3, 1]
