"""Make data sets from tables: NumPy arrays, pandas and polars data frames, Arrow tables, Parquet files."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankgrad.data.categories import encode, find_categories
from rankgrad.data.dataset import Dataset
from rankgrad.data.sparse_rows import Features, is_sparse
from rankgrad.data.tables.columns import Columns, choose
from rankgrad.data.tables.errors import FILL_ADVICE, TEXT_ADVICE, some, warn_infinite
from rankgrad.data.tables.reader import read_table
from rankgrad.errors import bad_type, bad_value, name_settings
from rankgrad.group_rows import group_offsets, group_rows
from rankgrad.ids import document_ids, exact_values


def from_arrays(
    X: ArrayLike,
    y: ArrayLike,
    *,
    qid: ArrayLike | None = None,
    group: ArrayLike | None = None,
    docids: ArrayLike | None = None,
    missing: float | Literal["error", "nan"] = "error",
    name: str = "",
) -> tuple[Dataset, NDArray[np.int64]]:
    """Convert NumPy arrays to a data set; also return the original row of each document.

    Args:
        X: features, `(rows, f)`: an array, or a sparse matrix of SciPy.
        y: labels, `(rows,)`, at least 0.
        qid: query id of each row; rows may be in any order. Exactly one of `qid` and `group` is required.
        group: number of rows of each list, as in LightGBM and XGBoost; the rows of a list are consecutive.
        docids: document id of each row, `(rows,)`.
        missing: number that replaces NaN and infinities in the features; with `"nan"`, these values become NaN, and
            with `"error"`, they are an error.
        name: name of the data set.

    Example:
        >>> data, rows = from_arrays([[1.0], [2.0], [3.0]], [0, 1, 2], qid=[7, 5, 7])
        >>> data.features.ravel(), data.qids, rows
        (array([1., 3., 2.], dtype=float32), array([7, 5]), array([0, 2, 1]))
    """
    if (qid is None) == (group is None):
        bad_value("exactly one of qid and group", "be given", "neither" if qid is None else "both")
    features = _matrix(X)
    labels = _labels(np.asarray(y))
    rows = len(labels)
    if features.shape[0] != rows:
        bad_value("X", f"have one row per label, ({rows}, f)", features.shape)
    if qid is None:
        order, offsets = np.arange(rows), group_offsets(group, rows)
        qids: NDArray[Any] = np.arange(len(offsets) - 1)
    else:
        order, offsets, qids = group_rows(qid)
        if len(order) != rows:
            bad_value("qid", f"have one query id per row, ({rows},)", order.shape)
    ids = None if docids is None else row_ids(docids, rows)
    if is_sparse(features):
        features.data[:] = _fill(features.data[:, None], missing, ["a sparse matrix"])[:, 0]
    else:
        features = _fill(features, missing, [f"column {column}" for column in range(features.shape[1])])
    if not np.array_equal(order, np.arange(rows)):
        features, labels, ids = features[order], labels[order], None if ids is None else ids[order]
    return Dataset(features, labels, offsets, qids, ids, name), order


def row_ids(docids: Any, rows: int) -> NDArray[np.str_]:
    """Check document ids, and return them as texts, `(rows,)`.

    Args:
        docids: document id of each row.
        rows: number of rows.
    """
    ids = document_ids(docids)
    if ids.shape != (rows,):
        bad_value("docids", f"have one id per row, ({rows},)", ids.shape)
    return ids


def from_frame(
    frame: Any,
    *,
    label: str | None = None,
    qid: str | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    docid: str | None = None,
    weight: str | None = None,
    categorical: Sequence[str] = (),
    regroup: bool = True,
    missing: float | Literal["error", "nan"] = "error",
    name: str = "",
) -> Dataset:
    """Convert a pandas data frame, a polars data frame or an Arrow table to a data set. Rows may be in any order.

    `Dataset.in_row_order` converts values of documents, such as scores, to the order of the rows of the frame.

    Args:
        frame: table with one row per document.
        label: column of the labels; None for a column named `label`, `relevance`, `grade` or `rel`.
        qid: column of the query ids; None for a column named `qid`, `query_id`, `queryid` or `query`.
        features: names or patterns (`"bm25*"`) of the feature columns, which must be numeric; None for all numeric
            columns that have no other purpose.
        drop: names or patterns of columns that are not features.
        docid: column of the document ids; None for a column named `docid`, `doc_id`, `document_id` or `documentid`.
            Document ids are optional.
        weight: column of the document weights; None for no weights.
        categorical: names or patterns of the categorical features, which may be columns of text. Columns of a
            categorical type are always categorical.
        regroup: True to group the rows by query; with False, a query whose rows are not consecutive is an error.
        missing: number that replaces nulls, NaN and infinities in the features; with `"nan"`, these values become NaN,
            and with `"error"`, they are an error.
        name: name of the data set.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"query": ["a", "b", "a"], "grade": [2, 0, 1], "bm25": [3.5, 0.1, 2.0]})
        >>> from_frame(frame)
        Dataset(lists=2, documents=3, features=1)
    """
    table = _Table(frame)
    wanted_features = None if features is None else tuple(features)
    given = Columns(label, qid, wanted_features, tuple(drop), docid, weight, tuple(categorical))
    numeric = {column: table.is_numeric(column) for column in table.columns}
    chosen = choose(given, numeric, typed=[column for column in table.columns if table.is_categorical(column)])
    if features is None and (text := [column for column in chosen.unused if not table.is_numeric(column)]):
        warnings.warn(f"columns without numbers are not features: {some(text)}" + TEXT_ADVICE, stacklevel=2)
    label, wanted = str(chosen.label), chosen.features
    for role, column in (("label", label), ("qid", chosen.qid)):
        if nulls := table.nulls(column):
            bad_value(role, f"have a value in every row of {column!r}", f"{nulls} nulls")
    order, offsets, qids = group_rows(table.frame[chosen.qid])
    if not regroup and (scattered := np.flatnonzero(np.diff(order) != 1)).size:
        row = int(order[scattered[0] + 1])
        bad_value(
            "qid",
            name_settings("have consecutive rows for each query (or pass {regroup=True})"),
            f"a query that occurs again in row {row}",
        )
    x = np.empty((len(order), len(wanted)), dtype=np.float32)
    codes = {}
    for j, column in enumerate(wanted):
        if column in chosen.categorical:
            values = exact_values(table.frame[column], str(column))[order]
            codes[j] = find_categories(values, str(column)), values
            continue
        # Values beyond the range of float32 become infinite; `_fill` reports or replaces them.
        with np.errstate(over="ignore"):
            x[:, j] = table.numbers(column)[order]
    labels = _labels(table.numbers(label))[order]
    ids = None if chosen.docid is None else document_ids(table.frame[chosen.docid])[order]
    weights = None if chosen.weight is None else _labels(table.numbers(chosen.weight), "weights")[order]
    rows = None if np.array_equal(order, np.arange(len(order))) else order
    names = tuple(map(str, wanted))
    x[:, [*codes]] = 0.0
    x = _fill(x, missing, wanted)
    for j, (categories, values) in codes.items():
        x[:, j] = encode(values, categories, names[j])
    found = {j: categories for j, (categories, _) in codes.items()} or None
    data = Dataset(x, labels, offsets, qids, ids, name, feature_names=names, weights=weights, rows=rows)
    return replace(data, categories=found)


def read_parquet(
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    qid: str | None = None,
    regroup: bool = True,
    name: str | None = None,
    **options: Any,
) -> Dataset:
    """Read a data set from a Parquet file or from a folder of Parquet files. Rows may be in any order.

    Args:
        path: path of a Parquet file, or of a folder of Parquet files.
        label, qid: columns of labels and query ids, as in `read_table`.
        regroup: as in `read_table`, but True by default.
        name: name of the data set; None for the name of the file.
        options: other arguments of `read_table`.
    """
    data = read_table(path, label=label, qid=qid, regroup=regroup, format="parquet", **options)
    return data if name is None else replace(data, name=name)


class _Table:
    """Common operations on pandas, polars and Arrow tables. No other package than that of the table is imported."""

    def __init__(self, frame: Any) -> None:
        self.kind = type(frame).__module__.split(".")[0]
        if type(frame).__name__ == "LazyFrame":
            frame = frame.collect()
        if self.kind not in ("pandas", "polars", "pyarrow") or not hasattr(frame, "columns"):
            bad_type("frame", "be a pandas or polars data frame or an Arrow table", type(frame).__name__)
        self.frame = frame
        self.columns: list[str] = list(frame.column_names if self.kind == "pyarrow" else frame.columns)
        if len(set(self.columns)) < len(self.columns):
            repeated = [column for column in dict.fromkeys(self.columns) if self.columns.count(column) > 1]
            bad_value("frame", "have distinct column names", f"the repeated names {some(repeated)}")

    def is_numeric(self, column: str) -> bool:
        if self.kind == "pandas":
            from pandas.api import types

            return bool(types.is_numeric_dtype(self.frame[column].dtype))
        if self.kind == "polars":
            dtype = self.frame.schema[column]
            return bool(dtype.is_numeric() or str(dtype) == "Boolean")
        import pyarrow as pa

        dtype = self.frame.schema.field(column).type
        return any(test(dtype) for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean))

    def is_categorical(self, column: str) -> bool:
        if self.kind == "pyarrow":
            return str(self.frame.schema.field(column).type).startswith("dictionary")
        kind = self.frame.schema[column] if self.kind == "polars" else self.frame[column].dtype
        return str(kind).partition("(")[0] in ("category", "Categorical", "Enum")

    def nulls(self, column: str) -> int:
        values = self.frame[column]
        if self.kind == "pandas":
            return int(values.isna().sum())
        return int(values.null_count() if self.kind == "polars" else values.null_count)

    def numbers(self, column: str) -> NDArray[np.float64]:
        values = self.frame[column]
        if self.kind == "pandas":
            return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
        return np.asarray(self.values(column), dtype=np.float64)  # nulls become NaN

    def values(self, column: str) -> NDArray[Any]:
        values = self.frame[column]
        return np.asarray(values.to_numpy(zero_copy_only=False) if self.kind == "pyarrow" else values.to_numpy())


def _matrix(X: ArrayLike) -> Features:
    if is_sparse(X):
        return X.astype(np.float32).tocsr()  # type: ignore[union-attr]
    x = np.asarray(X)
    if x.ndim != 2:
        bad_value("X", "have two dimensions, (rows, f)", x.shape)
    if x.dtype.kind not in "fiub":
        bad_type("X", "be an array of numbers", x.dtype)
    with np.errstate(over="ignore"):
        return x.astype(np.float32, copy=False)


def _labels(y: NDArray[Any], name: str = "labels") -> NDArray[np.float32]:
    if y.ndim != 1:
        bad_value(name, "have one dimension, (rows,)", y.shape)
    if y.dtype.kind not in "fiub":
        bad_type(name, "be numbers", y.dtype)
    if len(y) and not (np.isfinite(y).all() and y.min() >= 0):
        bad_value(name, "be finite and at least 0", y[~(np.isfinite(y) & (y >= 0))][0])
    return y.astype(np.float32)


def _fill(
    x: NDArray[np.float32], missing: float | Literal["error", "nan"], names: Sequence[str]
) -> NDArray[np.float32]:
    if isinstance(missing, str) and missing not in ("error", "nan"):
        bad_value("missing", "be 'error', 'nan' or a number that replaces missing values", repr(missing))
    bad = [j for j in range(x.shape[1]) if not np.isfinite(x[:, j]).all()]
    if not bad:
        return x
    if missing == "error":
        count = sum(int((~np.isfinite(x[:, j])).sum()) for j in bad)
        bad_value(
            "features",
            "be finite " + FILL_ADVICE,
            f"{count} missing or infinite values in {some([names[j] for j in bad])}",
        )
    warn_infinite("features", {str(names[j]): int(np.isinf(x[:, j]).sum()) for j in bad})
    return np.where(np.isfinite(x), x, np.float32(missing))
