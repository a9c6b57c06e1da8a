"""Encode the categorical columns of an array or a data frame that an estimator receives."""

import re
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.data.categories import column_numbers, encode, find_categories
from rankgrad.data.dataset import Categories
from rankgrad.data.sparse_rows import is_sparse
from rankgrad.data.tables.errors import some
from rankgrad.errors import bad_type, bad_value
from rankgrad.ids import exact_values

_DATE = re.compile(r"date|time|period|duration", re.IGNORECASE)  # types of pandas, polars and Arrow


def fit_categories(X: Any, given: Iterable[Any] | None, more: Iterable[int] = ()) -> Categories | None:
    """Return the categories of an estimator's training data, by column; None if no column is categorical.

    Columns of a categorical type are categorical: `category` of pandas, `Categorical` and `Enum` of polars, and
    dictionaries of Arrow.

    Args:
        X: array or data frame, `(rows, f)`.
        given: names or positions of additional categorical columns, or None.
        more: positions of other categorical columns; positions that X does not have are ignored.
    """
    names = column_names(X)
    if names is None and given is None and not more:
        return None
    shape = getattr(X, "shape", None) or np.shape(X)
    width = shape[1] if len(shape) > 1 else 0
    chosen = {*column_numbers([] if given is None else given, names, width)}
    chosen |= {place for place in more if place < width}
    if names is not None:
        chosen |= {place for place in range(len(names)) if _is_categorical(X, place)}
    if chosen and is_sparse(X):
        bad_value("X", "be dense if a column is categorical", type(X).__name__)
    found = {place: find_categories(_values(X, place), _name(names, place)) for place in sorted(chosen)}
    if names is not None and (
        text := [str(names[place]) for place in range(width) if place not in found and _is_text(X, place)]
    ):
        bad_value(
            "X", f"have numbers in all columns (or categorical={text[:5]} for columns of text)", f"text in {some(text)}"
        )
    if names is not None and (dates := [str(names[place]) for place in range(width) if _is_date(X, place)]):
        bad_value(
            "X", "have numbers in all columns (replace a date by a number, such as days)", f"dates in {some(dates)}"
        )
    return found or None


def encode_categories(X: Any, categories: Categories | None) -> Any:
    """Encode an estimator's X: positions of categories replace categorical values; NaN for a missing or unknown value.

    Args:
        X: array or data frame with the columns of the training data.
        categories: categories by column, or None.
    """
    if not categories:
        return X
    names, shape = column_names(X), np.shape(X)
    width = shape[1] if len(shape) > 1 else 0
    if width <= max(categories):
        return X  # the number of columns is wrong, and the caller says so
    codes = {place: encode(_values(X, place), values, _name(names, place)) for place, values in categories.items()}
    kind = type(X).__module__.partition(".")[0]
    if names is None:
        return _in_array(np.asarray(X), codes)
    if kind == "pandas":
        X = X.copy(deep=False)
        for place, values in codes.items():
            X.isetitem(place, values)
        return X
    if kind == "polars":
        import polars as pl

        return X.with_columns([pl.Series(names[place], values) for place, values in codes.items()])
    for place, values in codes.items():
        X = X.set_column(place, names[place], [values])
    return X


def check_labels(y: Any) -> None:
    """Raise an error if labels that an estimator receives are missing, or texts such as grades that are no numbers.

    Args:
        y: labels, `(rows,)`.
    """
    values = np.asarray(y)
    texts = [value for value in values.ravel() if isinstance(value, str)] if values.dtype.kind in "OU" else []
    try:
        np.array(texts).astype(np.float64)
    except ValueError:
        bad_value("y", f"be numbers (map grades such as {str(texts[0])!r} to 0, 1, 2, ...)", "texts")
    if values.dtype.kind == "f" and (nan := np.flatnonzero(np.isnan(values))).size:
        bad_value("y", "have a label in every row (leave out the rows without one)", f"NaN in row {nan[0]}")


def column_names(X: Any) -> list[Any] | None:
    """Return the distinct column names of an estimator's X, a data frame or an Arrow table; None for an array.

    Args:
        X: array or data frame.
    """
    if type(X).__name__ == "LazyFrame":
        bad_type("X", "be a data frame", "a LazyFrame of polars (X.collect() computes its rows)")
    if type(X).__name__ == "Series":
        bad_value("X", "have two dimensions, (rows, f)", "a Series (frame.iloc[[0]] is a data frame with one row)")
    columns = getattr(X, "column_names", getattr(X, "columns", None))
    if columns is None:
        return None
    names = [*columns]
    if len({*names}) < len(names):
        repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        bad_value("X", "have distinct column names", f"the repeated names {some(repeated)}")
    return names


def _in_array(X: NDArray[Any], codes: Mapping[int, NDArray[np.float32]]) -> NDArray[np.float32]:
    rows = np.empty(X.shape, dtype=np.float32)
    for place in range(X.shape[1]):
        rows[:, place] = codes[place] if place in codes else X[:, place]
    return rows


def _values(X: Any, place: int) -> Any:
    names = column_names(X)
    if names is None:
        return np.asarray(X)[:, place]
    return exact_values(X.iloc[:, place] if hasattr(X, "iloc") else X[names[place]], str(names[place]))


def _kind(X: Any, place: int) -> Any:
    if hasattr(X, "iloc"):
        return X.dtypes.iloc[place]
    return X.dtypes[place] if hasattr(X, "dtypes") else X.schema[place].type


def _is_categorical(X: Any, place: int) -> bool:
    return str(_kind(X, place)).partition("(")[0].partition("<")[0] in ("category", "Categorical", "Enum", "dictionary")


def _is_text(X: Any, place: int) -> bool:
    kind = str(_kind(X, place)).partition("(")[0]
    if kind in ("str", "string", "String", "Utf8", "large_string"):
        return True
    return kind == "object" and any(isinstance(value, str) for value in _values(X, place)[:1000])


def _is_date(X: Any, place: int) -> bool:
    kind = str(_kind(X, place))
    if kind == "object":
        return any(isinstance(value, date) for value in _values(X, place)[:1000])
    return bool(_DATE.match(kind))


def _name(names: list[Any] | None, place: int) -> str:
    return str(place if names is None else names[place])
