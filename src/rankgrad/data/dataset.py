"""A data set in memory or mapped from disk: one row of features per document; the rows of a query are consecutive."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.errors import bad_value


@dataclass(frozen=True)
class Dataset:
    """Labelled lists in the flat layout. Arrays may be read-only and mapped from files.

    Example:
        >>> features, labels = np.eye(3, dtype=np.float32), np.array([1., 0., 2.])
        >>> Dataset(features, labels, offsets=np.array([0, 1, 3]), qids=np.array(["a", "b"]))
        Dataset(lists=2, documents=3, features=3)
    """

    features: NDArray[np.float32]  # (documents, f)
    labels: NDArray[np.float32]  # (documents,)
    offsets: NDArray[np.int64]  # (lists + 1,)
    qids: NDArray[Any]  # (lists,), whole numbers if all ids are whole numbers, otherwise text
    docids: NDArray[Any] | None = None  # (documents,), text
    name: str = ""  # name in messages and reports
    best: NDArray[np.float32] | None = None  # (documents,), scores of the best achievable order, if known
    feature_names: tuple[str, ...] | None = None  # (f,), names of the columns, if known
    weights: NDArray[np.float32] | None = None  # (documents,), weights of the documents, for losses that take weights
    rows: NDArray[np.int64] | None = None  # (documents,), row of each document in its file; None if rows were not moved

    def __post_init__(self) -> None:
        documents = len(self.labels)
        if self.features.ndim != 2 or len(self.features) != documents:
            bad_value("features", f"have one row per label, ({documents}, f)", self.features.shape)
        if len(self.offsets) == 0 or self.offsets[0] != 0 or self.offsets[-1] != documents:
            bad_value("offsets", f"run from 0 to the number of documents, {documents}", self.offsets)
        # Compare, do not subtract: a difference of unsigned numbers is never below 0.
        decreases = np.flatnonzero(self.offsets[1:] < self.offsets[:-1])
        if len(decreases):
            at = int(decreases[0])
            bad_value("offsets", "not decrease", f"{self.offsets[at + 1]} after {self.offsets[at]}")
        if len(self.qids) != len(self.offsets) - 1:
            bad_value("qids", f"have {len(self.offsets) - 1} ids, one per list", len(self.qids))
        for name, what in (("docids", "id"), ("best", "score"), ("weights", "weight"), ("rows", "row number")):
            values = getattr(self, name)
            if values is not None and values.shape != (documents,):
                bad_value(name, f"have one {what} per document, ({documents},)", values.shape)
        if self.feature_names is not None and len(self.feature_names) != self.features.shape[1]:
            bad_value("feature_names", f"have {self.features.shape[1]} names, one per feature", len(self.feature_names))

    def __len__(self) -> int:
        """Return the number of lists."""
        return len(self.qids)

    def __repr__(self) -> str:
        name = f"{self.name!r}, " if self.name else ""
        return f"Dataset({name}lists={len(self)}, documents={len(self.labels)}, features={self.features.shape[1]})"

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of documents of each list, `(lists,)`."""
        return np.diff(self.offsets)

    @property
    def row_qids(self) -> NDArray[Any]:
        """Query id of each row, `(documents,)`, in the form that estimators in the style of scikit-learn expect."""
        return np.repeat(self.qids, self.lengths)

    def take(self, lists: Any) -> "Dataset":
        """Return a data set of these lists, in this order.

        Args:
            lists: indices of lists, a slice, or a boolean array `(lists,)`.
        """
        lists = np.arange(len(self))[lists]
        lengths = self.lengths[lists]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        rows = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][lists] - offsets[:-1], lengths)
        return self.take_rows(rows, offsets, self.qids[lists])

    def take_rows(self, rows: NDArray[Any], offsets: NDArray[np.int64], qids: NDArray[Any] | None = None) -> "Dataset":
        """Return a data set of these rows, divided into lists by `offsets`.

        Args:
            rows: indices of documents.
            offsets: first row of each new list, then the number of rows, `(lists + 1,)`.
            qids: query id of each new list; with None, the query ids of this data set.
        """
        return replace(
            self,
            features=self.features[rows],
            labels=self.labels[rows],
            offsets=offsets,
            qids=self.qids if qids is None else qids,
            docids=None if self.docids is None else self.docids[rows],
            best=None if self.best is None else self.best[rows],
            weights=None if self.weights is None else self.weights[rows],
            rows=None,
        )

    def in_row_order(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return one value per document in the order of the rows of the file.

        Args:
            values: one value per document, `(documents,)`, such as scores.
        """
        if self.rows is None:
            return values
        ordered = np.empty_like(values)
        ordered[self.rows] = values
        return ordered


@dataclass(frozen=True)
class Splits:
    """Training, validation and test lists of a data set."""

    train: Dataset  # lists to train a ranker on
    validation: Dataset | None  # lists for the choice of epoch and settings; None if there is no such part
    test: Dataset | None  # lists to evaluate a ranker on; None if there is no such part
    name: str = ""  # name in messages and reports
