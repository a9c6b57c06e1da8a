"""Errors, warnings and hints about rows and columns of tables."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rankgrad.data.sparse_rows import is_sparse
from rankgrad.errors import warn_caller

_SHOWN = 10  # number of columns that the warning about infinite values names


class TableError(ValueError):
    """Error in a table. The message has the form `<file>: row <number>: <problem>; expected <what>`.

    The first row after the header is row 1. If the problem concerns a complete file or column, there is no row number.
    """

    def __init__(self, path: str | Path, row: int | None, wrong: str, expected: str) -> None:
        where = "" if row is None else f" row {row}:"
        super().__init__(f"{path}:{where} {wrong}; expected {expected}")


# End of the warning about columns of text.
TEXT_ADVICE = "(to use categories, set categorical=; replace dates, and numbers with a decimal comma, by numbers)"
# End of the error about a value that is not finite. The command line replaces it by its own advice.
FILL_ADVICE = "(or set missing= to a number that replaces such values, or to 'nan' to keep them as NaN)"


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
