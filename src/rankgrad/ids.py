"""Read query ids and document ids: text is kept byte for byte, and integers are kept exactly.

All readers use these functions, so the ids of a file, a data frame and an array are the same. A float counts as an
integer if it is whole and below 2^53, because larger floats may be rounded integers. Other values are refused.
"""

from decimal import Decimal
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from rankgrad.errors import bad_value

_EXACT = 2.0**53  # smaller floats are exact integers
_DIGITS = 4000  # Python converts longer integers to text only on request
# An array of text has the width of its longest text. An array with more than FREE bytes and more than RATIO bytes per
# character of the ids is a mistake or an attack.
_FREE, _RATIO = 1 << 30, 200
_NUMBERS = "be integers or text"
_UNICODE = "be integers, or text in UTF-8"
_NUL = "be integers, or text that does not end with a NUL character"
_SHORT = "be integers or short text, because all ids of an array have the width of the longest one"
_LONGEST_SHOWN = 60


class BadId(ValueError):
    """Error about an id that cannot be kept. `row` is its index; `got` and `must` are parts of the message."""

    def __init__(self, row: int, got: str, must: str = _NUMBERS, name: str = "ids") -> None:
        self.row, self.got, self.must = row, got, must
        super().__init__(f"{name} must {must}; got {got} in row {row}")


def query_ids(values: Any, name: str = "qid") -> NDArray[Any]:
    """Return query ids as an array, `(rows,)`: integers if all ids are integers of 64 bits, otherwise text.

    Args:
        values: query id of each row: a list, an array, or a column of pandas, polars or Arrow.
        name: name of the argument, for errors.
    """
    ids = _read(values, name)
    if ids.dtype.kind == "U" and (blank := np.flatnonzero(ids == "")).size:
        raise BadId(int(blank[0]), "no value", "have a value in every row", name)
    return ids


def document_ids(values: Any, name: str = "docids") -> NDArray[np.str_]:
    """Return document ids as an array of text, `(rows,)`. A missing id becomes an empty text.

    Args:
        values: document id of each row, as in `query_ids`.
        name: name of the argument, for errors.
    """
    return _read(values, name).astype(np.str_, copy=False)


def column_texts(column: Any) -> Any:
    """Return the ids in an Arrow array as an Arrow array of text, with nulls for missing ids.

    Args:
        column: array, also chunked, of integers, floats, decimals, text or bytes in UTF-8, or a dictionary of these.
    """
    import pyarrow as pa
    import pyarrow.compute as compute

    types = pa.types
    column = decoded(column)
    kind = column.type
    if types.is_floating(kind):
        numbers = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
        return pa.array(_whole(numbers), mask=np.isnan(numbers)).cast(pa.string())
    if types.is_integer(kind):
        return column.cast(pa.string())
    text = types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view"
    data = types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    if not (text or data or str(kind) == "binary_view"):
        values = column.to_pylist() if types.is_decimal(kind) or types.is_null(kind) else []
        if not values and (given := column.is_valid().index(True).as_py()) >= 0:
            raise BadId(given, f"a value of the type {kind}")
        texts = [id_text(value, row) or None for row, value in enumerate(values)]
        return pa.array(texts or [None] * len(column), pa.string())
    try:
        found = column.cast(pa.string())
        found.validate(full=True)
    except pa.ArrowInvalid:  # not UTF-8; the error names the row
        for row, value in enumerate(column.cast(pa.binary()).to_pylist()):
            id_text(value, row)
        raise
    if compute.any(ends := compute.ends_with(found, "\0")).as_py():
        row = ends.index(True).as_py()
        _refuse_nul(found[row].as_py(), row)
    return found


def text_array(texts: Any) -> NDArray[np.str_]:
    """Return an Arrow array of text, as `column_texts` returns it, as a NumPy array; a null becomes an empty text.

    Args:
        texts: array of text, also chunked.
    """
    import pyarrow.compute as compute

    lengths = compute.utf8_length(texts)
    _check_size(len(texts), compute.sum(lengths).as_py() or 0, lambda: lengths.to_numpy(zero_copy_only=False))
    return np.asarray(texts.fill_null("").to_numpy(zero_copy_only=False)).astype(np.str_)


def join_ids(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Join arrays of ids. If one array has text, all ids become text.

    Args:
        parts: arrays from `query_ids` or `document_ids`.
    """
    if any(part.dtype.kind == "U" for part in parts):
        parts = [part.astype(np.str_, copy=False) for part in parts]
    try:
        return np.concatenate(parts)
    except MemoryError:
        longest = max(part.dtype.itemsize // 4 for part in parts)
        bad_value("ids", _SHORT, f"a text of {longest:,} characters among {sum(map(len, parts)):,} ids")


def decoded(column: Any) -> Any:
    """Return an Arrow array without a dictionary: nulls and equal values may be in the dictionary.

    Args:
        column: array, also chunked.
    """
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        return column
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([decoded(chunk) for chunk in column.chunks] or [pa.array([], column.type.value_type)])
    values = column.dictionary
    return (values.cast(pa.string()) if str(values.type) == "string_view" else values).take(column.indices)


def exact_values(values: Any, name: str) -> NDArray[Any]:
    """Return values as an array that has them exactly. NumPy alone would convert integers with a null to floats.

    Args:
        values: a list, an array, or a column of pandas, polars or Arrow.
        name: name of the argument, for errors.
    """
    package, dtype = type(values).__module__.partition(".")[0], getattr(values, "dtype", None)
    if package == "pyarrow":
        values = decoded(values)
        if values.null_count or str(values.type).rstrip("0123468") not in ("int", "uint", "float", "double"):
            values = values.to_pylist()
    elif package == "pandas" and dtype is not None and not isinstance(dtype, np.dtype):
        values = values.astype(object)
    elif package == "polars" and dtype is not None and (values.null_count() or not dtype.is_integer()):
        values = values.to_list()
    elif isinstance(values, np.ma.MaskedArray):
        values = values.tolist()
    if not isinstance(values, list | tuple):
        array = np.asarray(values)
    else:  # NumPy would convert a list of mixed values, and large integers, to floats or text
        array = np.empty(len(values), dtype=object)
        try:
            array[:] = values
        except ValueError:
            array = np.asarray(values)
    if array.ndim != 1:
        bad_value(name, "have one dimension, (rows,)", array.shape)
    return array


def _read(values: Any, name: str) -> NDArray[Any]:
    """Return ids as integers or as text; a missing id is empty text."""
    try:
        if type(values).__module__.partition(".")[0] == "pyarrow":
            values = decoded(values)
            if "string" in str(values.type) or "binary" in str(values.type):
                return text_array(column_texts(values))
        return _from_array(exact_values(values, name))
    except BadId as error:
        raise BadId(error.row, error.got, error.must, name) from None


def _from_array(array: NDArray[Any]) -> NDArray[Any]:
    kind = array.dtype.kind
    if kind in "iu":
        return _integers(array)
    if kind == "f" and not np.isnan(array).any():
        return _whole(array.astype(np.float64))
    if kind == "U":
        points = np.ascontiguousarray(array).view(np.uint32)
        if ((points >= 0xD800) & (points < 0xE000)).any():
            _refuse_surrogate(array.tolist())
        return array
    if kind not in "OSTf":
        raise BadId(0, f"a value of the type {array.dtype}")
    values = array.tolist()
    kinds = {*map(type, values)}
    if kinds == {int}:
        return _if_short(values)
    texts = values if kinds == {str} else [id_text(value, row) for row, value in enumerate(values)]
    if not any(issubclass(each, str | bytes) for each in kinds) and "" not in texts:
        return _if_short([*map(int, texts)])
    return _as_text(texts)


def _integers(array: NDArray[Any]) -> NDArray[Any]:
    """Return integers of 64 bits unchanged; larger integers become text."""
    large = array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max
    return array.astype(np.str_) if large else array


def _if_short(values: list[int]) -> NDArray[Any]:
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError:
        return _as_text([id_text(value, row) for row, value in enumerate(values)])


def _whole(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return floats as integers; NaN becomes 0."""
    wrong = ~np.isnan(numbers) & ((numbers != np.floor(numbers)) | (np.abs(numbers) >= _EXACT))
    if (rows := np.flatnonzero(wrong)).size:
        id_text(float(numbers[rows[0]]), int(rows[0]))
    return np.where(np.isnan(numbers), 0.0, numbers).astype(np.int64)


def id_text(value: Any, row: int) -> str:
    """Return one id as text; a missing id (None, NaN, NA) is empty.

    Args:
        value: text, bytes, integer, float or decimal.
        row: index of the id, for errors.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise BadId(row, repr(value[:_LONGEST_SHOWN]), _UNICODE) from None
    if value is None or type(value).__name__ == "NAType" or (isinstance(value, float | Decimal) and value != value):
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise BadId(row, f"a value of the type {type(value).__name__}")
    if isinstance(value, float) and abs(value) >= _EXACT:
        raise BadId(row, f"{value!r}", f"{_NUMBERS}, or floats below 2^53")
    if isinstance(value, Decimal) and (not value.is_finite() or value.adjusted() > _DIGITS):
        raise BadId(row, str(value)[:_LONGEST_SHOWN])
    if value != int(value):
        raise BadId(row, str(value)[:_LONGEST_SHOWN])
    if abs(int(value)).bit_length() > 3 * _DIGITS:
        raise BadId(row, "an integer with thousands of digits")
    return str(int(value))


def _as_text(texts: list[str]) -> NDArray[np.str_]:
    lengths = [*map(len, texts)]
    _check_size(len(texts), sum(lengths), lambda: np.array(lengths))
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        _refuse_surrogate(texts)
    array = np.array(texts, dtype=np.str_)
    # NumPy's text has no trailing NUL characters, so `a` and `a\0` would become equal.
    if texts and int(np.char.str_len(array).sum()) != sum(lengths):
        row = next(row for row, text in enumerate(texts) if text.endswith("\0"))
        _refuse_nul(texts[row], row)
    return array


def _check_size(rows: int, characters: int, lengths: Any) -> None:
    """Refuse a few very long ids among many others; `lengths()` returns the length of each id."""
    if 4 * rows * characters <= _FREE:
        return
    each = lengths()
    row = int(np.nanargmax(each))
    if 4 * rows * int(each[row]) > max(_FREE, _RATIO * characters):
        raise BadId(row, f"a text of {int(each[row]):,} characters", _SHORT)


def _refuse_surrogate(texts: list[str]) -> NoReturn:
    for row, text in enumerate(texts):
        try:
            text.encode()
        except UnicodeEncodeError:
            raise BadId(row, ascii(text[:_LONGEST_SHOWN]), _UNICODE) from None
    raise AssertionError("no text has a surrogate")


def _refuse_nul(text: str, row: int) -> NoReturn:
    raise BadId(row, ascii(text[-_LONGEST_SHOWN:]), _NUL)
