"""Write columns of a table to the rows of a feature matrix, with Numba.

The columns of a batch are separate arrays. A compiled loop reads a tile, which is a few columns of some rows, and
writes the values of the tile to rows of the matrix. So each value is moved only once. The compiled code is cached on
disk, in a folder whose name contains a hash of this file.
"""

# mypy: disallow-untyped-defs=False, check-untyped-defs=False

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from rankgrad.kernels.numba_cache import folder_of, keep

_ROWS, _COLUMNS = 512, 16  # size of a tile: 16 values are one cache line, and 512 lines fit in the cache of a core
_FLOAT32, _FLOAT64, _INT32, _INT64 = range(4)
_FOLDER = folder_of("transpose", [Path(__file__)])


@intrinsic
def _pointer(context, address):
    """Return the pointer to the values of a table column at this address."""

    def generate(codegen, builder, signature, arguments):
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), generate


@numba.njit(nogil=True, inline="always")
def _write_column(column, start, stop, j, place, first, out, fill, bad, row):
    """Write rows of one table column as float32. Replace and count values that are not finite."""
    finite = True
    if len(place):
        for i in range(start, stop):
            value = np.float32(np.float64(column[i]))
            finite = finite & (abs(value) < np.inf)
            out[place[i], j] = value
    else:
        for i in range(start, stop):
            value = np.float32(np.float64(column[i]))
            finite = finite & (abs(value) < np.inf)
            out[first + i, j] = value
    if not finite:
        for i in range(start, stop):
            target = place[i] if len(place) else first + i
            if not np.isfinite(out[target, j]):
                if bad[j] == 0:
                    row[j] = i
                bad[j] += 1
                out[target, j] = fill


@numba.njit(nogil=True, error_model="numpy")
def _write_rows(addresses, kinds, count, place, first, out, fill, bad, row):
    """Write `count` values of each table column to the rows of `out`.

    For each column, `bad` counts the values that are not finite, and `row` stores the first row with such a value.
    """
    for start in range(0, count, _ROWS):
        stop = min(start + _ROWS, count)
        for left in range(0, len(addresses), _COLUMNS):
            for j in range(left, min(left + _COLUMNS, len(addresses))):
                pointer = _pointer(addresses[j])
                if kinds[j] == _FLOAT32:
                    column = numba.carray(pointer, (count,), np.float32)
                    _write_column(column, start, stop, j, place, first, out, fill, bad, row)
                elif kinds[j] == _FLOAT64:
                    column64 = numba.carray(pointer, (count,), np.float64)
                    _write_column(column64, start, stop, j, place, first, out, fill, bad, row)
                elif kinds[j] == _INT32:
                    whole = numba.carray(pointer, (count,), np.int32)
                    _write_column(whole, start, stop, j, place, first, out, fill, bad, row)
                else:
                    whole64 = numba.carray(pointer, (count,), np.int64)
                    _write_column(whole64, start, stop, j, place, first, out, fill, bad, row)


_write_rows = keep(_write_rows, _FOLDER)


def write_rows(
    batch: Any,
    columns: Sequence[str],
    out: NDArray[np.float32],
    first: int = 0,
    place: NDArray[np.int64] | None = None,
    fill: float = 0.0,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Write columns of a record batch to rows of a matrix; return the number of missing values in each column.

    Also return, for each column, the row of the batch with the first missing value. Missing values are nulls, NaN,
    infinities and values too large for float32.

    Args:
        batch: record batch of pyarrow.
        columns: names of numeric columns, one per column of `out`.
        out: matrix, `(rows, f)`.
        first: row of `out` for the first row of the batch.
        place: row of `out` for each row of the batch; None for consecutive rows from `first`.
        fill: value that replaces missing values.
    """
    arrays = [_plain(batch.column(name)) for name in columns]
    addresses = np.array([address for _, address, _ in arrays], dtype=np.int64)
    kinds = np.array([kind for _, _, kind in arrays], dtype=np.int64)
    bad, row = np.zeros(len(arrays), np.int64), np.zeros(len(arrays), np.int64)
    at = np.empty(0, np.int64) if place is None else place
    _write_rows(addresses, kinds, batch.num_rows, at, first, out, np.float32(fill), bad, row)
    return bad, row


@cache
def _codes() -> dict[Any, int]:
    import pyarrow as pa

    return {pa.float32(): _FLOAT32, pa.float64(): _FLOAT64, pa.int32(): _INT32, pa.int64(): _INT64}


def _plain(array: Any) -> tuple[Any, int, int]:
    """Return an Arrow array without nulls, the address of the first value, and the code of the value type."""
    import pyarrow as pa
    import pyarrow.compute as compute

    codes = _codes()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.type not in codes or (array.null_count and not pa.types.is_floating(array.type)):
        if pa.types.is_boolean(array.type):
            array = array.cast(pa.int32())
        array = array.cast(pa.float64(), safe=False)
    if array.null_count:
        array = compute.fill_null(array, float("nan"))
    width = array.type.bit_width // 8
    buffer = array.buffers()[1]
    return array, 0 if buffer is None else buffer.address + array.offset * width, codes[array.type]
