"""Data sets in memory or mapped from files. Each document has one row of features; rows of a query are consecutive."""

import mmap
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing.context import get_spawning_popen
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankgrad.data.sparse_rows import Features, canonical, dense
from rankgrad.errors import bad_type, bad_value
from rankgrad.group_rows import origins

# Values of the categories of each categorical feature, by column. A feature is the position of its value, or NaN.
Categories: TypeAlias = Mapping[int, tuple[str, ...]]
_ENDS = (slice(1000), slice(-1000, None))
VALUES = ("labels", "docids", "best", "weights")  # attributes with one value per document


class DocumentList(NamedTuple):
    """The documents of one list, as `dataset[i]` returns them. The arrays are views, and may be read-only."""

    features: NDArray[np.float32]  # (n, f)
    labels: NDArray[np.float32]  # (n,)
    qid: Any  # query id, an integer or text
    docids: NDArray[Any] | None = None  # (n,), text
    weights: NDArray[np.float32] | None = None  # (n,), document weights
    list_id: Any = None  # list id, an integer or text; None if a list is a query
    columns: Mapping[str, NDArray[np.float32]] | None = None  # (n,) each, columns that are used in training only


@dataclass(frozen=True)
class Dataset:
    """Labelled lists in the flat layout. The arrays may be read-only and mapped from files.

    `dataset[i]` is one list, a `DocumentList`. A `torch.utils.data.DataLoader` also accepts a data set, with the
    argument `collate_fn=rankgrad.data.collate`.

    Example:
        >>> features, labels = np.eye(3, dtype=np.float32), np.array([1., 0., 2.])
        >>> Dataset(features, labels, offsets=np.array([0, 1, 3]), qids=np.array(["a", "b"]))
        Dataset(lists=2, documents=3, features=3)
        >>> _[1].labels, _[1].qid
        (array([0., 2.]), 'b')
    """

    features: Features  # (documents, f), NaN for a missing value; an array, or a SciPy matrix in the CSR format
    labels: NDArray[np.float32]  # (documents,)
    offsets: NDArray[np.int64]  # (lists + 1,)
    qids: NDArray[Any]  # (lists,), integers if all ids are integers, otherwise text
    docids: NDArray[Any] | None = None  # (documents,), text
    name: str = ""  # name in messages and reports
    best: NDArray[np.float32] | None = None  # (documents,), scores of the best achievable order; None if unknown
    feature_names: tuple[str, ...] | None = None  # (f,), names of the columns; None if unknown
    weights: NDArray[np.float32] | None = None  # (documents,), document weights for the loss; None for no weights
    rows: NDArray[np.int64] | None = None  # (documents,), row of each document in its file; None if rows were not moved
    categories: Categories | None = None  # categorical features and their values; see `rankgrad.data.categories`
    texts: Any = None  # collection, for a text data set; its features begin with the numbers of query and document
    list_ids: NDArray[Any] | None = None  # (lists,), id of each list in its query; None if each query has one list
    columns: Mapping[str, NDArray[np.float32]] | None = None  # (documents,) each, used in training only, by name
    roles: Mapping[str, str] | None = None  # name of the column of each role, if the lists are from a table

    def __post_init__(self) -> None:
        # Some rankers treat an entry that is not stored as missing. So a zero must never be stored.
        object.__setattr__(self, "features", canonical(self.features))
        documents = len(self.labels)
        if self.features.ndim != 2 or self.features.shape[0] != documents:
            bad_value("features", f"have one row per label, ({documents}, f)", self.features.shape)
        if len(self.offsets) == 0 or self.offsets[0] != 0 or self.offsets[-1] != documents:
            bad_value("offsets", f"run from 0 to the number of documents, {documents}", self.offsets)
        # Compare, do not subtract: a difference of unsigned numbers is never below 0.
        decreases = np.flatnonzero(self.offsets[1:] < self.offsets[:-1])
        if len(decreases):
            at = int(decreases[0])
            bad_value("offsets", "not decrease", f"{self.offsets[at + 1]} after {self.offsets[at]}")
        for name, ids in (("qids", self.qids), ("list_ids", self.list_ids)):
            if ids is not None and len(ids) != len(self.offsets) - 1:
                bad_value(name, f"have {len(self.offsets) - 1} ids, one per list", len(ids))
        for name, what in (("docids", "id"), ("best", "score"), ("weights", "weight"), ("rows", "row number")):
            self._check_values(name, what, getattr(self, name))
        for name, values in (self.columns or {}).items():
            if not isinstance(name, str):
                bad_type("columns", "have names that are text", repr(name))
            self._check_values(f"column {name!r}", "number", values)
        if self.feature_names is not None and len(self.feature_names) != self.features.shape[1]:
            bad_value("feature_names", f"have {self.features.shape[1]} names, one per feature", len(self.feature_names))

    def _check_values(self, name: str, what: str, values: NDArray[Any] | None) -> None:
        if values is not None and values.shape != (len(self.labels),):
            bad_value(name, f"have one {what} per document, ({len(self.labels)},)", values.shape)

    def __len__(self) -> int:
        """Return the number of lists of the data set."""
        return len(self.qids)

    def __getitem__(self, index: int) -> DocumentList:
        """Return one list of the data set. A negative index counts from the end."""
        try:
            place = operator.index(index)
        except TypeError:
            bad_type("index", "be an integer (use `take` for several lists)", type(index).__name__)
        if not -len(self) <= place < len(self):
            raise IndexError(f"index must be from {-len(self)} to {len(self) - 1}, for {len(self)} lists; got {place}")
        place %= len(self)
        rows = slice(int(self.offsets[place]), int(self.offsets[place + 1]))
        found = _chosen(self, ("labels", "docids", "weights"), rows)
        own = None if self.list_ids is None else self.list_ids.item(place)
        return DocumentList(dense(self.matrix[rows]), qid=self.qids.item(place), list_id=own, **found)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a data set for pickle. Mapped arrays are replaced by the paths of their files."""
        state = dict(self.__dict__)
        if get_spawning_popen() is not None:
            state = {name: _MappedFile.of(value) or value for name, value in state.items()}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        opened = {name: value.open() if isinstance(value, _MappedFile) else value for name, value in state.items()}
        self.__dict__.update(opened)

    def __repr__(self) -> str:
        name = f"{self.name!r}, " if self.name else ""
        return f"Dataset({name}lists={len(self)}, documents={len(self.labels)}, features={self.matrix.shape[1]})"

    @property
    def matrix(self) -> Features:
        """The features, of which only `shape` and some rows are read, `matrix[rows]`.

        Lists that are taken from a mapped file are not copied for this, in contrast to `features`.
        """
        return self.features

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of documents of each list of the data set, `(lists,)`."""
        return np.diff(self.offsets)

    @property
    def row_qids(self) -> NDArray[Any]:
        """Query id of each row, `(documents,)`, for the argument `qid` of estimators such as `rankgrad.Ranker`."""
        return np.repeat(self.qids, self.lengths)

    @property
    def first_lists(self) -> NDArray[np.int64]:
        """Index of the first list of each list's query, `(lists,)`: lists of one query have the same number."""
        return origins(self.qids)

    @property
    def list_names(self) -> list[str]:
        """A text for each list: its query id or, if lists have ids, `<query id>/<list id>`."""
        ids = [self.qids.tolist(), *([] if self.list_ids is None else [self.list_ids.tolist()])]
        return ["/".join(map(str, each)) for each in zip(*ids, strict=True)]

    def take(self, lists: Any) -> "Dataset":
        """Return a data set with the lists that `lists` selects, in this order.

        Features that are mapped from a file are copied only when the attribute `features` is read; see `matrix`.

        Args:
            lists: indices of lists, a slice, or a boolean array `(lists,)`.
        """
        lists = np.arange(len(self))[lists]
        lengths = self.lengths[lists]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        rows = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][lists] - offsets[:-1], lengths)
        list_ids = None if self.list_ids is None else self.list_ids[lists]
        return self.take_rows(rows, offsets, self.qids[lists], list_ids)

    def between(self, first: int, last: int) -> "Dataset":
        """Return the lists from index `first` to before index `last`. The arrays of the documents are not copied.

        Args:
            first: index of the first list.
            last: index after the last list.
        """
        rows = slice(int(self.offsets[first]), int(self.offsets[last]))
        ids = {name: ids[first:last] for name in ("qids", "list_ids") if (ids := getattr(self, name)) is not None}
        offsets = self.offsets[first : last + 1] - self.offsets[first]
        return replace(
            self, features=self.matrix[rows], offsets=offsets, rows=None, **ids, **_chosen(self, VALUES, rows)
        )

    def take_rows(
        self,
        rows: NDArray[Any],
        offsets: NDArray[np.int64],
        qids: NDArray[Any] | None = None,
        list_ids: NDArray[Any] | None = None,
    ) -> "Dataset":
        """Return a data set with the documents that `rows` selects, divided into lists by `offsets`.

        Args:
            rows: indices of documents.
            offsets: first row of each new list, then the number of rows, `(lists + 1,)`.
            qids: query id of each new list; with None, the query ids and list ids of this data set.
            list_ids: list id of each new list; None if a list is a query.
        """
        ids = {} if qids is None else {"qids": qids, "list_ids": list_ids}
        changes = {"offsets": offsets, "rows": None, **ids, **_chosen(self, VALUES, rows)}
        whole = self.matrix
        if isinstance(whole, ChosenRows) or (isinstance(whole, np.memmap) and not whole.flags.writeable):
            return _TakenLists.of(self, ChosenRows(whole, rows), changes)
        return replace(self, features=whole[rows], **changes)

    def select_features(self, names: Sequence[str] | None) -> "Dataset":
        """Return the data set with the features `names`, in this order. A name that does not exist is an error.

        If `names` or `feature_names` is None, the data set is returned unchanged.

        Args:
            names: names of features, for example those of a model.
        """
        if names is None or self.feature_names is None or tuple(names) == self.feature_names:
            return self
        places = {name: place for place, name in enumerate(self.feature_names)}
        if missing := [name for name in names if name not in places]:
            more = "" if len(missing) == 1 else f" and {len(missing) - 1} more"
            bad_value("features", f"contain the {len(names)} features of the model", f"no feature {missing[0]!r}{more}")
        columns = [places[name] for name in names]
        known = self.categories or {}
        categories = {new: known[old] for new, old in enumerate(columns) if old in known} or None
        return replace(self, features=self.features[:, columns], feature_names=tuple(names), categories=categories)

    @property
    def numbered(self) -> bool:
        """True for a text data set whose first two features are the numbers of query and document."""
        return self.texts is not None and (self.feature_names or ())[:2] == ("query", "document")

    def without_numbers(self) -> "Dataset":
        """Return a text data set without its first two features, the numbers of query and document.

        Rankers that do not read texts cannot use these numbers. Any other data set is returned unchanged.
        """
        if not self.numbered or self.feature_names is None:
            return self
        if len(self.feature_names) == 2:
            bad_value("data", "have a feature such as bm25, in addition to the numbers of query and document", "none")
        return self.select_features(self.feature_names[2:])

    def in_row_order(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return values of the documents of a data set, sorted in the order of the rows in the file.

        Args:
            values: one value per document of this data set, `(documents,)`, such as scores.
        """
        if self.rows is None:
            return values
        ordered = np.empty_like(values)
        ordered[self.rows] = values
        return ordered


def _chosen(data: Dataset, names: Sequence[str], rows: Any) -> dict[str, Any]:
    """Return attributes with one value per document, and the columns used in training, of the documents `rows`."""
    found = {name: None if (values := getattr(data, name)) is None else np.asarray(values[rows]) for name in names}
    columns = None if data.columns is None else {name: values[rows] for name, values in data.columns.items()}
    return {**found, "columns": columns}


class ChosenRows:
    """Some rows of a feature matrix, usually one that is mapped from a file. They are copied when they are read."""

    ndim = 2

    def __init__(self, whole: Features, rows: NDArray[Any]) -> None:
        self.whole, self.rows = whole, np.asarray(rows)
        self.shape = (len(self.rows), whole.shape[1])

    def __getitem__(self, rows: Any) -> Any:
        return self.whole[self.rows[rows]]


class _TakenLists(Dataset):
    """Lists of a data set whose features are mapped from a file. All of them are copied if `features` is read."""

    _chosen: ChosenRows

    @staticmethod
    def of(data: Dataset, chosen: ChosenRows, changes: dict[str, Any]) -> "_TakenLists":
        """Return the lists of `data` with these rows; `changes` are its other attributes that differ."""
        features = np.broadcast_to(np.float32(0), chosen.shape)  # to check the other arrays
        taken = object.__new__(_TakenLists)
        taken.__dict__.update(vars(replace(data, features=features, **changes)), _chosen=chosen)
        del taken.__dict__["features"]
        return taken

    def __getattr__(self, name: str) -> Any:
        if name != "features" or "_chosen" not in self.__dict__:
            raise AttributeError(name)
        self.__dict__["features"] = self._chosen[:]
        return self.__dict__["features"]

    @property
    def matrix(self) -> Features:
        """The features, of which only `shape` and some rows are read; see `Dataset.matrix`."""
        return vars(self).get("features", vars(self).get("_chosen"))

    def __getstate__(self) -> dict[str, Any]:
        _ = self.features  # a copy of all rows, but not of the file
        return {name: value for name, value in super().__getstate__().items() if name != "_chosen"}


class _MappedFile(NamedTuple):
    """A mapped `.npy` file of a data set. A worker of a data loader maps the file again, and receives no copy."""

    path: str

    @staticmethod
    def of(array: Any) -> "_MappedFile | None":
        """Return the mapped file of an array; None if the array is not the complete content of a mapped `.npy` file."""
        # A slice of a map is also an `np.memmap`, but its base is an array.
        if not isinstance(array, np.memmap) or not isinstance(array.base, mmap.mmap) or array.filename is None:
            return None
        file = _MappedFile(str(array.filename))
        try:
            found = file.open()
        except (OSError, ValueError):
            return None
        same = found.dtype == array.dtype and found.shape == array.shape
        # The file may have been replaced after it was mapped. Comparing both ends detects this in most cases.
        return file if same and all(found[end].tobytes() == array[end].tobytes() for end in _ENDS) else None

    def open(self) -> NDArray[Any]:
        """Map the `.npy` file of a data set, and return the array."""
        return np.load(self.path, mmap_mode="r", allow_pickle=False)


@dataclass(frozen=True)
class Splits:
    """Training, validation and test lists of a data set."""

    train: Dataset  # lists to train a ranker on
    validation: Dataset | None  # lists for the choice of epoch and settings; None if there is no such part
    test: Dataset | None  # lists to evaluate a ranker on; None if there is no such part
    name: str = ""  # name in messages and reports

    def parts(self) -> dict[str, Dataset]:
        """Return the parts that exist, by name: train, validation, test."""
        found = {"train": self.train, "validation": self.validation, "test": self.test}
        return {name: part for name, part in found.items() if part is not None}
