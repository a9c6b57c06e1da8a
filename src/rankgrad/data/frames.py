"""Make data sets from tables: NumPy arrays, pandas and polars data frames, Arrow tables, Parquet files."""

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankgrad.data.cache import with_columns
from rankgrad.data.categories import encode, find_categories
from rankgrad.data.dataset import Dataset
from rankgrad.data.sparse_rows import Features, is_sparse
from rankgrad.data.tables.columns import choose
from rankgrad.data.tables.errors import FILL_ADVICE, TEXT_ADVICE, some, warn_infinite
from rankgrad.data.tables.reader import read_table
from rankgrad.errors import bad_type, bad_value, name_settings
from rankgrad.group_rows import GroupedRows, group_offsets, lists_of_rows
from rankgrad.ids import document_ids, exact_values
from rankgrad.roles import ColumnNames, Columns

if TYPE_CHECKING:
    from typing_extensions import Unpack


def from_arrays(
    X: ArrayLike,
    y: ArrayLike,
    *,
    qid: ArrayLike | None = None,
    group: ArrayLike | None = None,
    docids: ArrayLike | None = None,
    missing: float | Literal["error", "nan"] = "error",
    name: str = "",
    list_id: ArrayLike | None = None,
    training_columns: Mapping[str, ArrayLike] | None = None,
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
        list_id: list id of each row, `(rows,)`, next to `qid`, for queries with several lists, such as sessions.
        training_columns: values of further columns, `(rows,)` each, by name: see `Dataset.columns`.

    Example:
        >>> data, rows = from_arrays([[1.0], [2.0], [3.0]], [0, 1, 2], qid=[7, 5, 7])
        >>> data.features.ravel(), data.qids, rows
        (array([1., 3., 2.], dtype=float32), array([7, 5]), array([0, 2, 1]))
    """
    if list_id is not None and qid is None:
        bad_value("qid", "be given with list_id", None)
    if (qid is None) == (group is None):
        bad_value("exactly one of qid and group", "be given", "neither" if qid is None else "both")
    features = _matrix(X)
    labels = _labels(np.asarray(y))
    rows = len(labels)
    if features.shape[0] != rows:
        bad_value("X", f"have one row per label, ({rows}, f)", features.shape)
    if qid is None:
        offsets = group_offsets(group, rows)
        lists = GroupedRows(None, offsets, np.arange(len(offsets) - 1), None, 0)
    else:
        lists = lists_of_rows(qid, list_id)
        if lists.offsets[-1] != rows:
            bad_value("qid", f"have one query id per row, ({rows},)", (int(lists.offsets[-1]),))
    ids = None if docids is None else row_ids(docids, rows)
    if is_sparse(features):
        features.data[:] = _fill(features.data[:, None], missing, ["a sparse matrix"])[:, 0]
    else:
        features = _fill(features, missing, [f"column {column}" for column in range(features.shape[1])])
    data = Dataset(
        features,
        labels,
        lists.offsets,
        lists.qids,
        ids,
        name,
        list_ids=lists.list_ids,
        columns=row_columns(training_columns, rows),
    )
    if lists.source is not None:
        data = data.take_rows(lists.source, lists.offsets)
    return data, lists.order


def row_columns(given: Mapping[str, ArrayLike] | None, rows: int) -> dict[str, NDArray[np.float32]] | None:
    """Check the values of columns that only training uses, and return them as numbers, `(rows,)` each.

    Args:
        given: values of the rows, by name of the column; None for no columns.
        rows: number of rows.
    """
    if given is not None and not isinstance(given, Mapping):
        bad_type("training_columns", "map names of columns to values of rows", type(given).__name__)
    found = {}
    for name, values in (given or {}).items():
        found[name] = _labels(np.asarray(values), f"training column {name!r}", -np.inf)
        if len(found[name]) != rows:
            bad_value(f"training column {name!r}", f"have one number per row, ({rows},)", found[name].shape)
    return found or None


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
    regroup: bool = True,
    missing: float | Literal["error", "nan"] = "error",
    name: str = "",
    **columns: "Unpack[ColumnNames]",
) -> Dataset:
    """Convert a pandas data frame, a polars data frame or an Arrow table to a data set. Rows may be in any order.

    `Dataset.in_row_order` converts values of documents, such as scores, to the order of the rows of the frame.

    Args:
        frame: table with one row per document.
        regroup: True to group the rows by query; with False, a query whose rows are not consecutive is an error.
        missing: number that replaces nulls, NaN and infinities in the features; with `"nan"`, these values become NaN,
            and with `"error"`, they are an error.
        name: name of the data set.
        columns: columns of the frame, such as `label="grade"` and `drop=["price"]`: the arguments of
            `rankgrad.data.Columns`.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"query": ["a", "b", "a"], "grade": [2, 0, 1], "bm25": [3.5, 0.1, 2.0]})
        >>> from_frame(frame)
        Dataset(lists=2, documents=3, features=1)
    """
    table = _Table(frame)
    given = Columns(**columns)
    numeric = {column: table.is_numeric(column) for column in table.columns}
    chosen = choose(given, numeric, typed=[column for column in table.columns if table.is_categorical(column)])
    if given.features is None and (text := [column for column in chosen.unused if not table.is_numeric(column)]):
        warnings.warn(f"columns without numbers are not features: {some(text)}" + TEXT_ADVICE, stacklevel=2)
    wanted = chosen.features
    for role in ("label", "qid", "list_id"):
        if (column := chosen.by_role.get(role)) is not None and (nulls := table.nulls(column)):
            bad_value(role, f"have a value in every row of {column!r}", f"{nulls} nulls")
    lists = lists_of_rows(*(table.frame[column] for column in chosen.list_keys))
    order = lists.order
    if not regroup and (scattered := np.flatnonzero(np.diff(order) != 1)).size:
        row, what = int(order[scattered[0] + 1]), "query" if lists.list_ids is None else "list"
        bad_value(
            "qid",
            name_settings(f"have consecutive rows for each {what} (or pass {{regroup=True}})"),
            f"a {what} that occurs again in row {row}",
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
    # The error about a label names labels, as the error about an array of labels does.
    numbers = {
        name: _labels(table.numbers(column), name if least == 0 else f"training column {column!r}", least)[order]
        for name, (column, least) in chosen.numbers.items()
    }
    docid = chosen.by_role.get("docid")
    ids = None if docid is None else document_ids(table.frame[docid])[order]
    names = tuple(map(str, wanted))
    x[:, [*codes]] = 0.0
    x = _fill(x, missing, wanted)
    for j, (categories, values) in codes.items():
        x[:, j] = encode(values, categories, names[j])
    found = {j: categories for j, (categories, _) in codes.items()} or None
    return Dataset(
        x,
        **with_columns(numbers, chosen.training),
        offsets=lists.offsets,
        qids=lists.qids,
        list_ids=lists.list_ids,
        docids=ids,
        name=name,
        feature_names=names,
        rows=None if lists.source is None else order,
        categories=found,
    )


def read_parquet(
    path: str | os.PathLike[str], *, regroup: bool = True, name: str | None = None, **options: Any
) -> Dataset:
    """Read a data set from a Parquet file or from a folder of Parquet files. Rows may be in any order.

    Args:
        path: path of a Parquet file, or of a folder of Parquet files.
        regroup: as in `read_table`, but True by default.
        name: name of the data set; None for the name of the file.
        options: columns of the table and other arguments of `read_table`.
    """
    data = read_table(path, regroup=regroup, format="parquet", **options)
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


def _labels(y: NDArray[Any], name: str = "labels", least: float = 0.0) -> NDArray[np.float32]:
    if y.ndim != 1:
        bad_value(name, "have one dimension, (rows,)", y.shape)
    if y.dtype.kind not in "fiub":
        bad_type(name, "be numbers", y.dtype)
    if len(y) and not (np.isfinite(y).all() and y.min() >= least):
        must = "be finite and at least 0" if least == 0 else "be finite"
        bad_value(name, must, y[~(np.isfinite(y) & (y >= least))][0])
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
