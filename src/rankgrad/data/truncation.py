"""Truncate long lists for training. Do not truncate lists for evaluation, because this changes the metrics."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.data.dataset import Dataset
from rankgrad.errors import bad_value, one_of

POLICIES = ("none", "top", "random")


def truncate(dataset: Dataset, k: int, policy: str = "none", *, seed: int = 0, by: Any = None) -> Dataset:
    """Return the data set with at most `k` documents per list, for training only. The order of documents is unchanged.

    `"none"` keeps all documents. `"top"` keeps the first `k` documents, or the `k` documents with the highest values
    of `by`. `"random"` keeps a random sample of `k` documents. If a list has relevant documents (label above 0) and
    the sample has none, a relevant document replaces one document of the sample.

    Args:
        dataset: data set to truncate; if no list is longer than `k`, it is returned unchanged.
        k: maximum number of documents per list, at least 1.
        policy: `"none"`, `"top"` or `"random"`.
        seed: random seed of the sample.
        by: index of a feature, or scores `(documents,)`, for the policy `"top"`.

    Example:
        >>> data = Dataset(np.eye(4, dtype=np.float32), np.array([0., 0., 0., 1.]), np.array([0, 4]), np.array([1]))
        >>> truncate(data, 2, "top").labels, truncate(data, 2, "random").labels
        (array([0., 0.]), array([0., 1.]))
    """
    one_of("policy", policy, POLICIES)
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        bad_value("k", "be an integer of at least 1", k)
    if by is not None and policy != "top":
        bad_value("by", "be None unless policy is 'top'", f"a value with policy {policy!r}")
    if policy == "none" or not (dataset.lengths > k).any():
        return dataset
    if policy == "random":
        return dataset.take_rows(*draw_rows(dataset.labels, dataset.offsets, int(k), np.random.default_rng(seed)))
    keep = _ranks_by_key(-_scores(dataset, by), dataset.offsets) < k
    return dataset.take_rows(np.flatnonzero(keep), _truncated_offsets(dataset.offsets, int(k)))


def draw_rows(
    labels: NDArray[Any], offsets: NDArray[np.int64], k: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows that `truncate` keeps with the policy `"random"`, and the offsets of the truncated lists."""
    relevant = labels > 0
    keys = rng.random(len(relevant))
    # The relevant document with the smallest key becomes the first of its list. A draw that contains a relevant
    # document also contains this document. So only a draw without a relevant document changes.
    first = _ranks_by_key(np.where(relevant, keys, 2.0), offsets) == 0
    keys[first & relevant] = -1.0
    return np.flatnonzero(_ranks_by_key(keys, offsets) < k), _truncated_offsets(offsets, k)


def _truncated_offsets(offsets: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(np.minimum(np.diff(offsets), k))]).astype(np.int64)


def _scores(dataset: Dataset, by: Any) -> NDArray[np.float64]:
    documents, features = dataset.features.shape
    if by is None:
        return -np.arange(documents, dtype=np.float64)
    if isinstance(by, int | np.integer):
        if not 0 <= by < features:
            bad_value("by", f"be the index of a feature, 0 to {features - 1}", by)
        return dataset.features[:, by].astype(np.float64)
    scores = np.asarray(by, dtype=np.float64)
    if scores.shape != (documents,):
        bad_value("by", f"have one score per document, ({documents},)", scores.shape)
    return scores


def _ranks_by_key(keys: NDArray[np.float64], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rank rows to truncate lists: return ranks from 0, smallest key first, NaN last, equal keys in row order."""
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.lexsort((keys, owner))
    ranks = np.empty(len(keys), dtype=np.int64)
    ranks[order] = np.arange(len(keys)) - offsets[owner]
    return ranks
