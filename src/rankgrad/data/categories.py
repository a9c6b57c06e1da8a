"""Encode categorical features: each value is replaced by its position in a sorted list of categories.

The list contains the distinct values in the training data, and is saved with the model. A missing value becomes NaN.
A value that is not in the list also becomes NaN. Categories are texts; a number is converted to its shortest text.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.data.dataset import Categories, Dataset
from rankgrad.data.sparse_rows import is_sparse
from rankgrad.errors import bad_type, bad_value, mistyped, warn_caller

_MOST = 1 << 24  # float32 has all integers up to this number


def find_categories(values: Any, name: str) -> tuple[str, ...]:
    """Return the categories of a column: sorted distinct texts, with integers first. Missing values are ignored.

    Integers are exact. Other numbers have the shortest text that float32 needs, because many files contain float32.

    Args:
        values: values of the column, `(rows,)`: texts, numbers or booleans.
        name: name of the column, for messages.

    Example:
        >>> find_categories(["b", None, "a", "b"], "colour"), find_categories([10, 2, 2.5], "size")
        (('a', 'b'), ('2', '10', '2.5'))
    """
    found = {_shortest(text) for text in _distinct(values, name)[0] if text is not None}
    if len(found) > _MOST:
        bad_value(f"the categorical column {name!r}", f"have at most {_MOST:,} values", f"{len(found):,} values")
    return tuple(sorted(found, key=_sort_key))


def texts_of(values: Sequence[Any], name: str) -> tuple[str, ...]:
    """Return given categories as texts, in their order.

    Args:
        values: different values, none of them missing.
        name: name of the column, for messages.
    """
    texts = tuple(filter(None, (category_text(value, name) for value in values)))
    if len({*texts}) < len(values):
        bad_value(f"the categories of {name!r}", "be different texts that are not empty", str([*values])[:80])
    return texts


def encode(values: Any, categories: Sequence[str], name: str) -> NDArray[np.float32]:
    """Return the position of each value in the list of categories; NaN for a missing or unknown value.

    A number and its usual text are the same category. Therefore, the format of the file does not change the result. If
    most of the values are unknown, there is a warning.

    Args:
        values: values of the column, `(rows,)`.
        categories: categories of the training data.
        name: name of the column, for messages.

    Example:
        >>> encode(["b", None, "a", "z"], ("a", "b"), "colour")
        array([ 1., nan,  0., nan], dtype=float32)
    """
    texts, inverse = _distinct(values, name)
    table, unknown, given = encode_distinct(texts, np.bincount(inverse, minlength=len(texts)), categories, name)
    warn_unknown(name, unknown, given)
    return table[inverse] if len(table) else np.zeros(len(inverse), dtype=np.float32)


def encode_distinct(
    values: Any, counts: NDArray[Any], categories: Sequence[str], name: str
) -> tuple[NDArray[np.float32], int, int]:
    """Encode the distinct values of a categorical column. Also count the rows with an unknown value and with any value.

    Args:
        values: distinct values of the column.
        counts: number of rows of each value.
        categories: categories of the training data.
        name: name of the column, for messages.
    """
    texts = [category_text(value, name) for value in values]
    table = _positions(texts, categories)
    given = np.array([text is not None for text in texts], dtype=bool)
    return table, int(counts[given & np.isnan(table)].sum()), int(counts[given].sum())


def warn_unknown(name: str, unknown: int, given: int) -> None:
    """Warn if most values of a categorical column are unknown to the model, and there are at least ten values.

    Args:
        name: name of the column.
        unknown: number of values that are not categories of the model.
        given: number of values that are not missing.
    """
    if 2 * unknown > given >= 10:
        share = f"{unknown / given:.0%} of the values of the categorical column {name!r}"
        warn_caller(f"{share} are unknown to the model, and are treated as missing")


def recode(data: Dataset, categories: Categories | None) -> Dataset:
    """Encode the categorical features of a data set with the categories of a model, and return the data set.

    Args:
        data: lists. The data set may have other categories than the model, or the same categories in another order. If
            a feature is categorical only in the model, its values must be positions in the categories of the model.
            If it is categorical only in the data set, this is an error.
        categories: categories of the model, by column; None if the model has no categorical features.
    """
    old, new = data.categories or {}, categories or {}
    names = data.feature_names or [str(column + 1) for column in range(data.matrix.shape[1])]
    if extra := [names[column] for column in old if column not in new]:
        bad_value(f"feature {extra[0]!r}", "have numbers, as in the training data", "categories")
    changed = {column: values for column, values in new.items() if column in old and old[column] != values}
    if not changed:
        return data if data.categories == categories else replace(data, categories=categories)
    features = np.array(data.features, dtype=np.float32)
    for column, values in changed.items():
        missing = len(old[column])
        codes = features[:, column]
        index = np.where(np.isnan(codes), missing, codes).astype(np.int64)
        counts = np.bincount(index, minlength=missing + 1)[:missing]
        table, unknown, given = encode_distinct(old[column], counts, values, names[column])
        warn_unknown(names[column], unknown, given)
        features[:, column] = np.append(table, np.float32(np.nan))[index]
    return replace(data, features=features, categories=categories)


def encode_features(data: Dataset, columns: Iterable[int], known: Categories | None = None) -> Dataset:
    """Encode numerical features as categories, and return the resulting data set.

    Args:
        data: lists with dense features.
        columns: columns of the categorical features.
        known: categories of the training data; with None, the distinct values in `data` are the categories.
    """
    if is_sparse(data.features):
        bad_value("features", "be dense if a feature is categorical", "a sparse matrix")
    features, found = np.array(data.features, dtype=np.float32), dict(data.categories or {})
    names = data.feature_names or [str(column + 1) for column in range(features.shape[1])]
    for column in columns:
        if column not in found:
            name = names[column]
            values = find_categories(features[:, column], name) if known is None else known[column]
            features[:, column] = encode(features[:, column], values, name)
            found[column] = values
    return replace(data, features=features, categories=found or None)


def column_numbers(given: Iterable[Any], names: Sequence[Any] | None, width: int) -> list[int]:
    """Return the sorted positions of columns that are given by name or by position (from 0).

    Args:
        given: names or positions.
        names: names of the columns, or None.
        width: number of columns.
    """
    found = set()
    for each in [given] if isinstance(given, str | int) else given:
        if names is not None and each in names:
            found.add([*names].index(each))
        elif isinstance(each, int | np.integer) and not isinstance(each, bool) and 0 <= each < width:
            found.add(int(each))
        else:
            known = [str(name) for name in names] if names is not None else []
            must = "be names of columns" if known else f"be positions of columns, from 0 to {width - 1}"
            bad_value("categorical", must, *mistyped(each, known if isinstance(each, str) else ()))
    return sorted(found)


def to_json(categories: Categories | None) -> dict[str, list[Any]]:
    """Return the categories of categorical features as JSON values.

    Args:
        categories: categories by column, or None.
    """
    return {str(column): list(values) for column, values in (categories or {}).items()}


def from_json(record: Any, features: int, where: str) -> Categories | None:
    """Check the result of `to_json`, and return the categories of categorical features.

    Args:
        record: JSON value.
        features: number of features of the model.
        where: path of the file, for messages.
    """
    if not record:
        return None
    if not isinstance(record, Mapping) or not all(
        str(column).isdecimal() and int(column) < features and isinstance(values, list) and _are_values(values)
        for column, values in record.items()
    ):
        bad_value(where, "map each column to a list of different texts, its categories", str(record)[:80])
    return {int(column): tuple(values) for column, values in record.items()}


def _are_values(values: list[Any]) -> bool:
    return all(isinstance(value, str) for value in values) and len({*values}) == len(values)


def _distinct(values: Any, name: str) -> tuple[list[str | None], NDArray[np.int64]]:
    """Return the distinct values of a categorical column as texts (None if missing), and each row's index in them."""
    array = np.asarray(values)
    if array.dtype.kind in "iubf":
        found, inverse = np.unique(array, return_inverse=True)
        return [category_text(value, name) for value in found.tolist()], inverse.reshape(-1)
    places: dict[str | None, int] = {}
    inverse = np.array(
        [places.setdefault(category_text(value, name), len(places)) for value in array.tolist()], dtype=np.int64
    )
    return list(places), inverse


def category_text(value: Any, name: str) -> str | None:
    """Return a value of a categorical column as text; None if the value is missing.

    Args:
        value: text, number or truth value.
        name: name of the column, for messages.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return value or None
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or type(value).__name__ == "NAType" or value != value:
        return None
    if not isinstance(value, int | float):
        bad_type(f"the categorical column {name!r}", "contain texts or numbers", type(value).__name__)
    return str(int(value)) if value == value // 1 else repr(value)


def _shortest(text: str) -> str:
    """Return the shortest text of a number in float32, but all digits of an integer, or the text of a truth value.

    Other texts do not change.

    Example:
        >>> [_shortest(text) for text in ("0.10000000149011612", "2.0", "16777217", "0.10", "two", "True")]
        ['0.1', '2', '16777217', '0.10', 'two', 'true']
    """
    if text in ("True", "False"):  # in a CSV file of pandas
        return text.lower()
    try:
        number = float(text)
    except ValueError:
        return text
    if not math.isfinite(number) or text not in (repr(number), _in_float32(number)):
        return text  # not the usual text of a number
    if not number.is_integer():
        number = float(_in_float32(number))
    return str(int(number)) if number.is_integer() else repr(number)


def _in_float32(number: float) -> str:
    with np.errstate(over="ignore", under="ignore"):
        return str(np.float32(number))


def _positions(texts: Sequence[str | None], categories: Sequence[str]) -> NDArray[np.float32]:
    """Return the position of each text in the categories; NaN for None and for a text that is not a category."""
    # A model of an earlier version may have longer texts of numbers. An exact match has priority.
    places = {_shortest(value): float(place) for place, value in enumerate(categories)}
    places |= {value: float(place) for place, value in enumerate(categories)}
    found = [math.nan if text is None else places.get(text, places.get(_shortest(text), math.nan)) for text in texts]
    return np.array(found, dtype=np.float32)


def _sort_key(text: str) -> tuple[bool, int, str]:
    whole = text.removeprefix("-").isdecimal() and len(text) < 19
    return not whole, int(text) if whole else 0, text
