"""Write columns of a table to the rows of a feature matrix, with Numba.

The columns of a batch are separate arrays. A compiled loop over tiles of rows reads them and writes the rows, so each
value is moved once. The compiled code is cached on disk under a hash of this file.
"""

# mypy: disallow-untyped-defs=False, check-untyped-defs=False

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from rankgrad.kernels.numba_cache import folder_of, keep

_TILE = 64  # rows per tile; the rows of a tile fit in the cache of a core
_FLOAT32, _FLOAT64, _INT32, _INT64 = range(4)
_FOLDER = folder_of("transpose", [Path(__file__)])


@intrinsic
def _pointer(context, address):
    """Return the pointer with this address."""

    def generate(codegen, builder, signature, arguments):
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), generate


@numba.njit(nogil=True, inline="always")
def _convert(column, start, stop, j, tile, fill, bad, row):
    """Convert the values of one column of a tile to float32. Replace and count values that are not finite."""
    wrong = 0
    for i in range(start, stop):
        value = np.float32(np.float64(column[i]))
        tile[j, i - start] = value
        wrong += value - value != np.float32(0)  # True for NaN and infinities; this form uses vector instructions
    if wrong:
        for i in range(start, stop):
            if not np.isfinite(tile[j, i - start]):
                if bad[j] == 0:
                    row[j] = i
                bad[j] += 1
                tile[j, i - start] = fill


@numba.njit(nogil=True, error_model="numpy")
def _write_rows(addresses, kinds, count, place, first, out, fill, bad, row):
    """Write `count` values of each column to `out`. Count values that are not finite, and store their first rows."""
    tile = np.empty((len(addresses), _TILE), np.float32)
    for start in range(0, count, _TILE):
        stop = min(start + _TILE, count)
        for j in range(len(addresses)):
            pointer = _pointer(addresses[j])
            if kinds[j] == _FLOAT32:
                _convert(numba.carray(pointer, (count,), np.float32), start, stop, j, tile, fill, bad, row)
            elif kinds[j] == _FLOAT64:
                _convert(numba.carray(pointer, (count,), np.float64), start, stop, j, tile, fill, bad, row)
            elif kinds[j] == _INT32:
                _convert(numba.carray(pointer, (count,), np.int32), start, stop, j, tile, fill, bad, row)
            else:
                _convert(numba.carray(pointer, (count,), np.int64), start, stop, j, tile, fill, bad, row)
        for i in range(start, stop):
            target = place[i] if len(place) else first + i
            for j in range(len(addresses)):
                out[target, j] = tile[j, i - start]


_write_rows = keep(_write_rows, _FOLDER)


def write_rows(
    batch: Any,
    columns: Sequence[str],
    out: NDArray[np.float32],
    first: int = 0,
    place: NDArray[np.int64] | None = None,
    fill: float = 0.0,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Write columns of a record batch to rows of a matrix; return the number of missing values of each column.

    Also return the row of the batch with the first missing value of each column. A null, NaN, an infinity and a value
    too large for float32 are missing.

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


def _plain(array: Any) -> tuple[Any, int, int]:
    """Return an array without nulls, the address of its first value, and the code of its type."""
    import pyarrow as pa
    import pyarrow.compute as compute

    codes = {pa.float32(): _FLOAT32, pa.float64(): _FLOAT64, pa.int32(): _INT32, pa.int64(): _INT64}
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
