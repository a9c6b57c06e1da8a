"""Divide lists into folds by query, and store them as files that several processes map into memory."""

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rankgrad.data import Dataset, open_cache, write_cache
from rankgrad.data.assemble import join_lists
from rankgrad.data.cache import MANIFEST
from rankgrad.data.categories import recode, to_json
from rankgrad.data.sparse_rows import is_sparse
from rankgrad.data.splitting import query_order
from rankgrad.data.training_labels import lists_with_different_labels
from rankgrad.errors import bad_value

_ARRAYS = ("features", "labels", "offsets", "qids", "weights")
_ABOUT = "lists.json"  # file of version 0.2
_HASHED = 1 << 26  # number of bytes per block
_ROWS = 1 << 16  # number of rows per block


@dataclass(frozen=True)
class StoredLists:
    """Lists in a folder, and the number of folds. Processes receive this object, and read the lists from the folder."""

    folder: str
    folds: int
    seed: int
    key: str  # hash of the lists, by which a process notices that the files in the folder have changed

    @classmethod
    def write(cls, data: Dataset, folder: Path, folds: int, seed: int) -> "StoredLists":
        """Write lists to a folder; existing files are replaced.

        Args:
            data: labelled lists.
            folder: folder for the files.
            folds: number of folds.
            seed: random seed of the division into folds.
        """
        (folder / _ABOUT).unlink(missing_ok=True)
        write_cache(replace(data, docids=None, rows=None), folder)
        return cls(str(folder), folds, seed, content_hash(data))

    def remove(self) -> None:
        """Remove the files of the stored lists, and the folder if it is then empty."""
        folder = Path(self.folder)
        for path in (*folder.glob("*.npy"), folder / MANIFEST):
            path.unlink(missing_ok=True)
        with suppress(OSError):  # the folder has other files
            folder.rmdir()

    @staticmethod
    def forget() -> None:
        """Forget the lists that this process has read, so that removed files no longer use space on the disk."""
        _read.cache_clear()
        _numbers.cache_clear()

    def read(self) -> Dataset:
        """Return the stored lists; large arrays are mapped from their files."""
        return _read(self)

    def split(self, fold: int, labels: NDArray[np.float32] | None = None) -> tuple[Dataset, Dataset]:
        """Return the training lists, which are in all other folds, and the held-out lists, which are in this fold.

        Args:
            fold: number of the held-out fold, from 0.
            labels: labels of all documents for the training, `(documents,)`; None for the labels of the lists.
        """
        data = self.read()
        mine = self.numbers() == fold
        taught = data if labels is None else replace(data, labels=labels)
        return taught.take(~mine), data.take(mine)

    def numbers(self) -> NDArray[np.int64]:
        """Return the fold of each stored list, `(lists,)`, from 0."""
        return _numbers(self)


@lru_cache(maxsize=1)
def _read(stored: StoredLists) -> Dataset:
    return open_cache(stored.folder)


@lru_cache(maxsize=1)
def _numbers(stored: StoredLists) -> NDArray[np.int64]:
    return fold_numbers(stored.read(), stored.folds, stored.seed)


def fold_numbers(data: Dataset, folds: int, seed: int) -> NDArray[np.int64]:
    """Return the fold of each list of a search, `(lists,)`, from 0.

    The folds depend on the seed and on the query ids, but not on the order of the lists. Lists with the same query id
    are in the same fold, for example if the training part and the validation part contain the same query. A query is
    useful if it has a list in which labels differ; in other lists, every order has the same metric. The numbers of
    useful queries of two folds differ by at most one.

    Args:
        data: labelled lists.
        folds: number of folds.
        seed: random seed.

    Example:
        >>> labels, offsets = np.array([0.0, 1.0] * 6), np.arange(0, 13, 2)
        >>> data = Dataset(np.zeros((12, 1), np.float32), labels, offsets, qids=np.arange(6))
        >>> np.bincount(fold_numbers(data, 3, seed=0))
        array([2, 2, 2])
    """
    first = data.first_lists
    queries, differ = np.unique(first), np.unique(first[lists_with_different_labels(data)])
    found = np.zeros(len(data), np.int64)
    for some in (differ, np.setdiff1d(queries, differ)):
        found[query_order(data, some, seed)] = np.arange(len(some)) % folds
    return found[first]


def check_folds(data: Dataset, folds: int) -> int:
    """Return the number of folds to use: at most one fold per query that has a list with different labels.

    Fewer than two such queries are an error.

    Args:
        data: labelled lists.
        folds: wanted number of folds.
    """
    if is_sparse(data.features):
        bad_value("features", "be dense for an automatic search", "a sparse matrix")
    useful = len(np.unique(data.qids[lists_with_different_labels(data)]))
    if useful < 2:
        got = f"{useful} such quer{'y' if useful == 1 else 'ies'} (the data has {len(data)} lists)"
        bad_value("data", "contain at least 2 queries with a list whose labels differ", got)
    return min(folds, useful)


def has_missing(data: Dataset) -> bool:
    """Return True if the lists of a search have a missing value (NaN) in a feature that is not categorical."""
    if is_sparse(data.features):
        return bool(np.isnan(data.features.data).any())
    columns = [column for column in range(data.features.shape[1]) if column not in (data.categories or {})]
    starts = range(0, len(data.labels), _ROWS)
    return any(bool(np.isnan(data.features[start : start + _ROWS][:, columns]).any()) for start in starts)


def joined(first: Dataset, second: Dataset | None) -> Dataset:
    """Return the training and validation lists for a search as one data set.

    Args:
        first: lists.
        second: more lists with the same features, or None. If the features have names, they are put in the order of
            `first`.
    """
    if second is None:
        return first
    second = recode(second.select_features(first.feature_names), first.categories)
    if first.features.shape[1] != second.features.shape[1]:
        bad_value(
            "the validation lists", f"have {first.features.shape[1]} features", f"{second.features.shape[1]} features"
        )
    return join_lists([first, second])


def content_hash(data: Dataset) -> str:
    """Return a hash of the lists of a search: features, labels, lists, weights, list ids and training columns.

    Args:
        data: labelled lists.
    """
    digest = hashlib.blake2b(json.dumps(to_json(data.categories)).encode(), digest_size=16)
    # Earlier versions have neither list ids nor training columns, so without them the hash is the same.
    known = [(name, getattr(data, name)) for name in (*_ARRAYS, "list_ids")]
    for name, values in [*known, *(data.columns or {}).items()]:
        if values is None:
            continue
        digest.update(f"{name} {values.shape} {values.dtype}".encode())
        rows = max(1, _HASHED // max(1, values[:1].nbytes))
        for start in range(0, len(values), rows):
            digest.update(np.ascontiguousarray(values[start : start + rows]).tobytes())
    return digest.hexdigest()
