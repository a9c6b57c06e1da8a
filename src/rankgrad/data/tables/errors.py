"""Errors, warnings and hints about rows and columns of tables."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.data.sparse_rows import is_sparse
from rankgrad.errors import BadValue, Named, Place, Problem, Problems, Setting, name_settings, warn_caller

_HEAD, _ROWS = 2048, 65_536  # rows that are read first to find doubtful features, and rows that are read together
_LEAST = 100  # number of rows from which features are doubted
_COLLISIONS = 10  # expected number of equal pairs in a column of random whole numbers, from which their absence is odd
_EXACT = 1 << 24  # larger whole numbers are not exact in float32
_ID = re.compile(r"(.*[_ .-])?(id|ids|uuid|sku|asin|ean|gtin|isbn)|.*[a-z]I[dD]s?")
_POSITION = re.compile(r"(?!page)(.*[_ .-])?(position|pos|rank|slot)", re.IGNORECASE)
_DOUBTS = {
    "position": "counts the documents of each list in the order of the rows, as a position in a log does",
    "named position": "has the name of a position in a ranking",
    "id": "has another whole number in every row, as an id does",
    "large": f"has only whole numbers above {_EXACT:,}, which are not exact in float32, as ids and times are",
    "named id": "has the name of an id",
}
_SHOWN = 10  # number of columns that the warning about infinite values names


class TableError(Problems, ValueError):
    """Error in a table. The message has the form `<file>: row <number>: <problem>; expected <what>`.

    The first row after the header is row 1. If the problem concerns a complete file or column, there is no row number.
    """

    def __init__(self, path: str | Path, row: int | None, wrong: str, expected: str) -> None:
        super().__init__(Problem("", expected, wrong, where=(Place(str(path), row=row),)))


class NoColumn(BadValue):
    """Error about a column that must be given, because the table has no column with a usual name."""


def unreadable(path: Path, format: str, error: Exception) -> TableError:
    """Return the error about a table file that the reader of its format refuses."""
    kinds = {"csv": "CSV", "tsv": "CSV with tabs", "jsonl": "JSON lines", "parquet": "Parquet", "arrow": "Arrow"}
    why = " ".join(str(error).split())[:200]
    return TableError(path, None, f"cannot be read as {kinds[format]} ({why})", "a complete file of this format")


# End of the warning about columns of text.
_NUMBERS = "; replace dates, and numbers with a decimal comma, by numbers)"
TEXT_ADVICE = Named(Setting("categorical", "", " (to use categories, set ", _NUMBERS))
# End of the error about a value that is not finite. The command line replaces it by its own advice.
_REPLACED = " to a number that replaces such values, or to 'nan' to keep them as NaN)"
FILL_ADVICE = Named(Setting("missing", "", "(or set ", _REPLACED))


def some(names: Sequence[Any], most: int = 5) -> str:
    """Return the first (column) names as text for a message, followed by the number of the other names."""
    shown = ", ".join(map(repr, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def blanks_of_lightgbm(missing: Sequence[Any], given: Iterable[Any]) -> str:
    """Return a hint if LightGBM has replaced the blanks in names of columns by `_`, otherwise no text.

    Args:
        missing: names that a model needs, and that the data does not have.
        given: names of the columns of the data.
    """
    changed = {str(name).replace(" ", "_") for name in given if " " in str(name)}
    hint = " (LightGBM writes _ for a blank: give TreeRanker.from_booster the feature_names, and save the ranker)"
    return hint if any(name in changed for name in missing) else ""


def warn_infinite(where: str, counts: Mapping[str, int]) -> None:
    """Warn about infinite values, which a reader changes like missing values.

    Args:
        where: file or data that contains the values.
        counts: number of infinite values of each column.
    """
    if found := {name: count for name, count in counts.items() if count}:
        shown = ", ".join(f"{name!r} {count:,}" for name, count in [*found.items()][:_SHOWN])
        shown += f" and {len(found) - _SHOWN} more columns" if len(found) > _SHOWN else ""
        warn_caller(f"{where}: infinite values, which are counted as missing: {shown}")


def warn_empty(features: Any, names: Sequence[str] | None, categories: Mapping[int, Any] | None) -> None:
    """Warn about numerical columns without a value in any of at least ten rows: a column may have lost its source.

    Args:
        features: rows that a model scores, `(rows, f)`.
        names: names of the columns, or None.
        categories: categories of the categorical columns, which have their own warning.
    """
    if is_sparse(features) or len(features) < 10:
        return
    first = np.flatnonzero(np.isnan(features[:1024]).all(axis=0))  # few columns remain for the other rows
    candidates = [int(column) for column in first if column not in (categories or {})]
    if empty := [column for column in candidates if np.isnan(features[:, column]).all()]:
        shown = some([column + 1 for column in empty] if names is None else [names[column] for column in empty])
        warn_caller(f"columns without a value in any row, which are treated as missing: {shown}")


def warn_identifying(data: Any) -> None:
    """Warn about training features that are probably ids or positions: they teach nothing about new lists.

    Args:
        data: training lists.
    """
    if is_sparse(data.matrix) or data.texts is not None or len(data.labels) < _LEAST:
        return
    offsets, columns = data.offsets, np.setdiff1d(np.arange(data.matrix.shape[1]), [*(data.categories or {})])
    some_lists = max(1, int(np.searchsorted(offsets, _HEAD, side="right")) - 1)
    for lists in (some_lists, len(offsets) - 1):  # after the first pass, few columns remain
        starts = range(0, int(offsets[lists]), _ROWS)
        stops = [min(start + _ROWS, int(offsets[lists])) for start in starts]
        x = np.concatenate([data.matrix[start:stop][:, columns] for start, stop in zip(starts, stops, strict=True)])
        names = [str(column + 1) if data.feature_names is None else data.feature_names[column] for column in columns]
        doubts = [_doubt(x[:, j], offsets[: lists + 1], name) for j, name in enumerate(names)]
        columns = columns[[doubt is not None for doubt in doubts]]
        if not len(columns):
            return
    for kind, what in _DOUBTS.items():
        if found := [name for name, doubt in zip(names, doubts, strict=True) if doubt == kind]:
            where = "feature" if data.feature_names is None else "column"
            shown = f"the {where} {some(found)}" if len(found) == 1 else f"each of the {where}s {some(found)}"
            hint = "" if data.feature_names is None else name_settings(" with {drop=}")
            warn_caller(f"{shown} {what}: leave it out" + hint + " if it says nothing about new documents")


def _doubt(x: NDArray[np.float32], offsets: NDArray[np.int64], name: str) -> str | None:
    """Return the key in `_DOUBTS` for a feature that is probably an id or a position, otherwise None."""
    if not np.isfinite(x).all() or (x != np.floor(x)).any():
        return None
    lengths = np.diff(offsets)
    first = np.repeat(x[np.minimum(offsets[:-1], len(x) - 1)], lengths)
    place = np.arange(len(x)) - np.repeat(offsets[:-1], lengths)
    if lengths[lengths > 2].sum() >= _LEAST / 2 and np.isin(first, (0, 1)).all() and (x - first == place).all():
        return "position"
    low, high = float(x.min()), float(x.max())
    if _POSITION.fullmatch(name) and low in (0, 1) and high > 2:
        return "named position"
    odd = len(x) ** 2 > 2 * _COLLISIONS * max(high - low, 1)
    if odd and len(np.unique(x)) == len(x):
        return "id"
    if _EXACT < low < high:
        return "large"
    return "named id" if _ID.fullmatch(name) and high > 2 else None
