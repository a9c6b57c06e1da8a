"""Read the columns of ids of a table. An id that cannot be kept is an error with its row."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.data.tables.errors import TableError
from rankgrad.data.tables.table_file import TableFile
from rankgrad.ids import BadId, column_texts, decoded, text_array


def list_runs(table: TableFile, names: Sequence[str], batch: Any, row: int) -> list[NDArray[Any]]:
    """Return the first row of each run of rows of the same list in a table batch, and the ids of the runs by column.

    Args:
        table: the table, for errors.
        names: names of the columns of the ids: query id and, if lists have ids, list id.
        batch: batch with these columns.
        row: first row of the batch in the table.
    """
    found = [_id_runs(table, name, batch.column(name), row) for name in names]
    starts = found[0][0] if len(found) == 1 else np.unique(np.concatenate([each for each, _ in found]))
    return [starts, *(ids[np.searchsorted(own, starts, side="right") - 1] for own, ids in found)]


def _id_runs(table: TableFile, name: str, column: Any, row: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the first row and the id of each run of equal ids in a column of a table.

    If each id is the usual text of an integer (`12`, not `012`), the ids are integers; otherwise, they are
    text.
    """
    import pyarrow as pa
    import pyarrow.compute as compute

    column = decoded(column)
    types = (pa.types.is_integer, pa.types.is_string, pa.types.is_large_string)
    if not any(test(column.type) for test in types):
        try:
            column = column_texts(column)
        except BadId as error:
            raise _bad_id(table, name, error, row + error.row) from None
    encoded = column.dictionary_encode()
    index = encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    try:
        kinds = column_texts(encoded.dictionary)
    except BadId as error:
        raise _bad_id(table, name, error, row + int(np.flatnonzero(index == error.row)[0])) from None
    filled = compute.not_equal(kinds, "").fill_null(False).to_numpy(zero_copy_only=False)
    if (missing := np.flatnonzero(~np.append(filled, False)[index])).size:
        none = BadId(0, "no value", "have a value in every row")
        raise _bad_id(table, name, none, row + int(missing[0]))
    starts = np.append(0, np.flatnonzero(index[1:] != index[:-1]) + 1).astype(np.int64)
    text = kinds.take(pa.array(index[starts]))
    with suppress(pa.ArrowInvalid):
        whole = text.cast(pa.int64())
        if compute.all(compute.equal(whole.cast(pa.string()), text)).as_py():
            return starts, whole.to_numpy()
    try:
        return starts, text_array(text)
    except BadId as error:
        raise _bad_id(table, name, error, row + int(starts[error.row])) from None


def document_texts(table: TableFile, name: str, batch: Any, row: int) -> NDArray[np.str_]:
    """Return the document ids in the column `name` of a table batch; `row` is the first row of the batch."""
    try:
        return text_array(column_texts(batch.column(name)))
    except BadId as error:
        raise _bad_id(table, name, error, row + error.row) from None


def _bad_id(table: TableFile, name: str, error: BadId, row: int) -> TableError:
    return TableError(table.path, row + 1, f"{error.got} in column {name!r}", error.must.partition(" ")[2])
