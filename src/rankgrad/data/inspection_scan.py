"""Scan a data set for an inspection, in one pass over blocks of rows. This needs little memory."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankgrad.data.dataset import Dataset

SAMPLE = 50_000  # maximum number of rows, and of pairs, for the statistics of values
_ROWS = 16_384
_MIX = np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio: a multiplier that mixes bits well


@dataclass(frozen=True)
class Scan:
    """Result of the scan for an inspection: a hash per row, some statistics per column, and a sample of rows."""

    low: NDArray[np.float32]  # (f,), lowest value
    high: NDArray[np.float32]  # (f,), highest value
    missing: NDArray[np.int64]  # (f,), number of values that are NaN
    infinite: NDArray[np.int64]  # (f,), number of infinite values
    columns: NDArray[np.uint64]  # (f,), hash of each column; equal columns have equal hashes
    rows: NDArray[np.uint64]  # (documents,), hash of each row; equal rows have equal hashes
    sample: NDArray[np.float32]  # (rows, f), at most `SAMPLE` rows
    agreement: NDArray[np.float64]  # (f,), share of document pairs that the feature orders as the labels do
    pairs: int  # number of pairs from which `agreement` is computed


def scan(dataset: Dataset, seed: int = 0) -> Scan:
    """Scan a data set for an inspection. Rows and columns are compared by 64-bit hashes with random multipliers.

    Example:
        >>> x = np.array([[1, 1, 0], [2, 2, 0], [2, 2, 0]], dtype=np.float32)
        >>> found = scan(Dataset(x, np.array([0.0, 1.0, 1.0]), np.array([0, 3]), np.array([1])))
        >>> bool(found.columns[0] == found.columns[1]), bool(found.rows[1] == found.rows[2]), found.agreement
        (True, True, array([1. , 1. , 0.5]))
    """
    rng = np.random.default_rng(seed)
    documents, width = dataset.features.shape
    by_row, by_column = _multipliers(rng, _ROWS), _multipliers(rng, width)
    low, high = np.full(width, np.inf, np.float32), np.full(width, -np.inf, np.float32)
    missing, infinite, columns = np.zeros(width, np.int64), np.zeros(width, np.int64), np.zeros(width, np.uint64)
    rows = np.empty(documents, np.uint64)
    for start in range(0, documents, _ROWS):
        block = np.asarray(dataset.features[start : start + _ROWS]) + np.float32(0)  # -0 becomes 0
        # fmin and fmax ignore NaN.
        low, high = np.fmin(low, np.fmin.reduce(block)), np.fmax(high, np.fmax.reduce(block))
        missing += np.isnan(block).sum(0)
        infinite += np.isinf(block).sum(0)
        bits = block.view(np.uint32).astype(np.uint64) * _MIX
        bits ^= bits >> np.uint64(29)
        rows[start : start + len(block)] = (bits * by_column).sum(1, dtype=np.uint64)
        # The hash is multiplied before the next block is added, so that it depends on the order of the blocks.
        columns = columns * _MIX + (bits * by_row[: len(block), None]).sum(0, dtype=np.uint64)
    chosen = np.arange(documents)
    if documents > SAMPLE:
        chosen = np.sort(rng.choice(documents, SAMPLE, replace=False))
    agreement, pairs = _agreement(dataset, rng)
    sample = np.asarray(dataset.features[chosen])
    return Scan(low, high, missing, infinite, columns, rows, sample, agreement, pairs)


def _multipliers(rng: np.random.Generator, count: int) -> NDArray[np.uint64]:
    return rng.integers(0, 2**63, count, dtype=np.uint64) * np.uint64(2) + np.uint64(1)


def _agreement(dataset: Dataset, rng: np.random.Generator) -> tuple[NDArray[np.float64], int]:
    """Scan the order of pairs: return the share that each feature orders as the labels do, and the number of pairs.

    The two documents of a pair have different labels. If they have equal values of the feature, the pair counts as
    half. If there are no pairs, the share is 0.5.
    """
    documents, width = dataset.features.shape
    agreed = np.full(width, 0.5)
    if documents == 0:
        return agreed, 0
    owner = np.repeat(np.arange(len(dataset)), dataset.lengths)
    one = rng.integers(0, documents, 2 * SAMPLE)
    other = dataset.offsets[owner[one]] + rng.integers(0, dataset.lengths[owner[one]])
    differ = dataset.labels[one] != dataset.labels[other]
    # Count each pair once: in a small set, the same few pairs are drawn many times, which adds no evidence.
    one, other = np.unique(np.sort(np.stack([one[differ], other[differ]]), axis=0), axis=1)[:, :SAMPLE]
    if len(one) == 0:
        return agreed, 0
    up = np.sign(dataset.labels[one] - dataset.labels[other])[:, None]
    total = np.zeros(width)
    for start in range(0, len(one), _ROWS):
        block = slice(start, start + _ROWS)
        x, y = dataset.features[one[block]], dataset.features[other[block]]
        total += (((x > y) * up[block]) - ((x < y) * up[block])).sum(0)  # NaN is a tie with every value
    return (1 + total / len(one)) / 2, len(one)
