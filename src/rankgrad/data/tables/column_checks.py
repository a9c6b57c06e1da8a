"""Choose the columns of a table file. Find mistakes in numbers, and warn about columns that are not used."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rankgrad.data.categories import find_categories
from rankgrad.data.tables.columns import INDEX, ChosenColumns, choose
from rankgrad.data.tables.errors import TEXT_ADVICE, TableError, some
from rankgrad.data.tables.table_file import TableFile
from rankgrad.errors import located, name_settings
from rankgrad.roles import ROLES, Columns

_NUMBER = r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$|^(?i)(nan|na|n/a|null|none|[-+]?inf(inity)?)$"


def choose_columns(
    table: TableFile,
    columns: Columns,
    *,
    labelled: bool,
    model: Sequence[str] | None = None,
    categories: Mapping[str, tuple[str, ...]] | None = None,
) -> ChosenColumns:
    """Choose the columns of a table, and warn about columns that are not used. Errors contain the path of the file.

    `categories` contains the categories of a model or of the training table. If it does not contain a categorical
    column, the categories of this column are its distinct values in the table.
    """
    # A model without these categories was trained on the numbers of a dictionary, and reads numbers again.
    typed = [name for name in table.typed if (labelled and model is None) or not table.numeric[name]]
    typed += [name for name in categories or () if name in table.names]
    texts = [name for name in model or () if table.numeric.get(name) is False and name not in typed]
    _check_numbers(table, texts)
    try:
        options: dict[str, Any] = {"partitions": table.partitions, "typed": typed}
        chosen = choose(columns, table.numeric, labelled=labelled, model=model, **options)
    except (ValueError, TypeError) as error:
        if table.find_late_columns():
            return choose_columns(table, columns, labelled=labelled, model=model, categories=categories)
        raise located(error, str(table.path)) from None
    table.ids = {chosen.by_role[role.name] for role in ROLES if not role.numbers and role.name in chosen.by_role}
    table.categorical = {*chosen.categorical}
    if chosen.categorical:
        table.categories = _categories(table, chosen.categorical, categories or {})
    if columns.features is None and model is None:
        _check_numbers(table, [name for name in chosen.unused if not table.numeric[name]])
    extra = [name for name in chosen.unused if table.numeric[name]]
    text = [name for name in chosen.unused if not table.numeric[name]]
    index = [name for name in extra if INDEX.fullmatch(name)]
    if model is not None and columns.features is None:
        if unknown := [name for name in extra if name not in index]:
            warnings.warn(f"{table.path} has columns that the model does not use: {some(unknown)}", stacklevel=3)
    elif columns.features is None:
        if text:
            warnings.warn(
                f"{table.path}: columns without numbers are not features: {some(text)}" + TEXT_ADVICE,
                stacklevel=3,
            )
        usual = {name for role in ROLES for name in role.usual}
        if doubtful := [name for name in chosen.features if name.lower() in usual]:
            warnings.warn(f"{table.path}: {some(doubtful)} will be a feature; is it a label or an id?", stacklevel=3)
        if index:
            warnings.warn(f"{table.path}: the index of a data frame is not a feature: {some(index)}", stacklevel=3)
    return chosen


def _categories(
    table: TableFile, columns: Sequence[str], known: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Return the categories of each categorical column of a table.

    If `known` does not contain a column, its categories are its distinct values. One pass over the table finds them.
    """
    found: dict[str, set[Any]] = {name: set() for name in columns if name not in known}
    for batch in table.batches([*found]) if found else ():
        for name, values in found.items():
            values.update(as_dictionary(batch.column(name)).dictionary.to_pylist())
    return {name: known[name] if name in known else find_categories(list(found[name]), name) for name in columns}


def as_dictionary(column: Any) -> Any:
    """Return a column of an Arrow table as distinct values and indices."""
    import pyarrow as pa

    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def _check_numbers(table: TableFile, columns: Sequence[str]) -> None:
    """Raise an error if most values of a table's text column are numbers. The other values are probably mistakes.

    Only columns of text files are checked.
    """
    import pyarrow as pa
    import pyarrow.compute as compute

    if not table.is_text or not columns:
        return
    for batch in table.batches(columns):
        for name in columns:
            if not pa.types.is_string(batch.column(name).type):
                continue  # a list or an object of JSON
            values = compute.utf8_trim_whitespace(batch.column(name))
            number = compute.match_substring_regex(values, _NUMBER).fill_null(True).to_numpy(zero_copy_only=False)
            filled = compute.not_equal(values, "").fill_null(False).to_numpy(zero_copy_only=False)
            if 2 * int((number & filled).sum()) > int(filled.sum()) and not (number | ~filled).all():
                row = int(np.flatnonzero(~number & filled)[0])
                wrong = f"{values[row].as_py()[:80]!r} in column {name!r}"
                raise TableError(
                    table.path, row + 1, wrong, name_settings("a number (or exclude the column with {drop=})")
                )
        return  # the first block decides, as it does for the types
