"""Read a table as a data set. The first pass reads labels and query ids, and the second pass reads the features."""

import logging
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from rankgrad.data import cache as caches
from rankgrad.data.assemble import Runs, complete_lists
from rankgrad.data.categories import encode_distinct, warn_unknown
from rankgrad.data.dataset import Categories, Dataset
from rankgrad.data.letor.passes import fill_value, in_memory
from rankgrad.data.read_summary import ReadSummary
from rankgrad.data.tables.column_checks import as_dictionary, choose_columns
from rankgrad.data.tables.columns import ChosenColumns
from rankgrad.data.tables.errors import FILL_ADVICE, TableError, some, warn_infinite
from rankgrad.data.tables.files import open_table
from rankgrad.data.tables.id_columns import document_texts, list_runs
from rankgrad.data.tables.joined import JoinedTables
from rankgrad.data.tables.table_file import TableFile
from rankgrad.errors import bad_value
from rankgrad.ids import join_ids
from rankgrad.roles import ANY, ColumnNames, Columns

if TYPE_CHECKING:
    from typing_extensions import Unpack

_log = logging.getLogger(__name__)


def read_table(
    path: str | os.PathLike[str],
    *,
    regroup: bool = False,
    missing: float | Literal["error", "nan"] = "error",
    cache: str | os.PathLike[str] | None = None,
    format: str | None = None,
    **columns: "Unpack[ColumnNames]",
) -> Dataset:
    """Read a table with one row per document, in the format CSV, TSV, JSON lines, Parquet or Arrow.

    This function needs pyarrow (extra `frames`). A Parquet table may be a folder of files, also with partitions such
    as `year=2024`.

    Args:
        path: path of a file, or of a folder with Parquet files.
        regroup: True to group the rows by query; queries are then in the order of their first rows. With False, a query
            whose rows are not consecutive is an error. `Dataset.in_row_order` restores the order of the file.
        missing: number that replaces nulls, NaN, infinities and values too large for float32; with "nan", these values
            become NaN, and with "error", they are an error.
        cache: folder for a cache of the arrays. Later calls with the same file and options map these arrays.
        format: `csv`, `tsv`, `jsonl`, `parquet` or `arrow`; with None, the ending of the name determines the format.
        columns: columns of the table, such as `label="grade"` and `drop=["price"]`: the arguments of
            `rankgrad.data.Columns`.

    Example:
        >>> path = getfixture("tmp_path") / "train.csv"
        >>> _ = path.write_text("query,grade,bm25,pagerank\\na,2,3.5,0.1\\na,0,1.25,0.4\\nb,1,2,0.3\\n")
        >>> data = read_table(path)
        >>> data, data.feature_names
        (Dataset('train.csv', lists=2, documents=3, features=2), ('bm25', 'pagerank'))
    """
    return read_columns(path, Columns(**columns), regroup=regroup, missing=missing, cache=cache, format=format)


def read_columns(
    path: str | os.PathLike[str] | Sequence[Path],
    columns: Columns = ANY,
    *,
    labelled: bool = True,
    model: Sequence[str] | None = None,
    categories: Mapping[str, tuple[str, ...]] | None = None,
    regroup: bool = False,
    missing: float | Literal["error", "nan"] = "error",
    cache: str | os.PathLike[str] | None = None,
    format: str | None = None,
    verify: bool = False,
    report: Callable[[ReadSummary], object] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Dataset:
    """Read a table in the same way as `read_table`, with the options that commands need.

    Args:
        path: path of a file, or of a folder with Parquet files; or several paths, which are read as one table.
        columns: columns that the user named.
        labelled: True if the table must have labels; with False, the labels of a table without labels are 0.
        model: names of the features of a model; the table must have these columns, in any order.
        categories: categories of a model or of the training table, by column name; with None, the categories of a
            column are its distinct values.
        regroup, missing, cache, format: as in `read_table`.
        verify: as in `read_letor`.
        report: function that is called with a `ReadSummary`.
        progress: function that is called with the number of rows read so far and the total number of rows.
    """
    fill = fill_value(missing)
    paths = [path] if isinstance(path, str | os.PathLike) else path
    parts = [open_table(each, format) for each in paths]
    table = parts[0] if len(parts) == 1 else JoinedTables(parts)
    choose = partial(choose_columns, table, columns, labelled=labelled, model=model, categories=categories)
    chosen = choose()
    name = table.path.name
    if cache is not None and chosen.categorical:
        bad_value("cache", "be None if a column is categorical", some(chosen.categorical))
    if cache is None:
        arrays, summary, chosen = _read(table, choose, chosen, regroup, fill, in_memory, progress)
        found = caches.with_columns(arrays, chosen.training)
        data = Dataset(**found, name=name, feature_names=chosen.features, categories=_by_column(table, chosen))
    else:
        options = {**chosen.record(), "regroup": regroup, "missing": fill, "table": table.format}
        if fill is not None and math.isnan(fill):
            options["missing"] = "nan"  # NaN is not JSON, and not equal to itself

        def read(new: caches.New, hashes: caches.Hashes) -> tuple[ReadSummary, dict[str, Any]]:
            _, summary, found = _read(table, choose, chosen, regroup, fill, new, progress)
            return summary, {"feature_names": found.features, "columns": found.training}

        data, summary = caches.through_cache(Path(cache), table.files, options, name, verify, read)
    data = replace(data, roles=chosen.by_role)
    _log.info("%s", summary)
    if report is not None:
        report(summary)
    return data


def stream_table(
    path: str | os.PathLike[str],
    columns: Columns = ANY,
    *,
    features: int | None = None,
    model: Sequence[str] | None = None,
    categories: Mapping[str, tuple[str, ...]] | None = None,
    missing: float | Literal["error", "nan"] = "error",
    documents: int = 16_384,
    format: str | None = None,
    progress: Callable[[int], object] | None = None,
) -> Iterator[Dataset]:
    """Yield the lists of a table in order, as small data sets of complete lists. They are only for scoring.

    If a query occurs again, the error is raised only at the end of the table. Labels are not read: all labels are 0.

    Args:
        path, columns, model, categories, missing, format: as in `read_columns`.
        features: number of features of a model without feature names; None for a model with feature names.
        documents: minimum number of documents in each data set, except the last.
        progress: function that is called with the number of rows read so far.
    """
    fill = fill_value(missing)
    table = open_table(path, format)
    if model is None:  # all numerical columns are features, also those that begin late
        table.find_late_columns()
    choose = partial(choose_columns, table, columns, labelled=False, model=model, categories=categories)
    chosen = choose()
    if features is not None and len(chosen.features) != features:
        expected = f"{features}, the number of features of the model"
        raise TableError(table.path, None, f"{len(chosen.features)} feature columns", expected)
    runs, docid = Runs(TableError, unit="rows"), chosen.by_role.get("docid")

    def blocks() -> Iterator[Dataset]:
        done = 0
        keys = list(dict.fromkeys([*chosen.list_keys, *([] if docid is None else [docid])]))
        for batch in table.batches([*keys, *chosen.features]):
            if table.late and table.find_late_columns() and choose().by_role.get("docid") != docid:
                must = "document ids that begin in the first 4 MB (or docid= with the name of their column)"
                raise TableError(table.path, None, "document ids that begin later", must)
            if not batch.num_rows:
                continue
            starts, *ids = list_runs(table, chosen.list_keys, batch, done)
            runs.add(table.path, done + starts, done + starts + 1, *ids)
            matrix = _FeatureBlocks(table, chosen, fill).add(batch, done)
            docids = None if docid is None else document_texts(table, docid, batch, done)
            done += batch.num_rows
            if progress is not None:
                progress(done)
            own: dict[str, Any] = {"categories": known, "list_ids": None if len(ids) == 1 else ids[1]}
            labels, offsets = np.zeros(len(matrix), np.float32), np.append(starts, len(matrix))
            yield Dataset(matrix, labels, offsets, ids[0], docids, table.path.name, **own)
        if not done:
            raise _empty(table)

    known = _by_column(table, chosen)
    yield from complete_lists(blocks(), documents)
    runs.check()
    _warn_of_values(table)


def _read(
    table: TableFile,
    choose: Callable[[], ChosenColumns],
    chosen: ChosenColumns,
    regroup: bool,
    fill: float | None,
    new: caches.New,
    progress: Callable[[int, int], object] | None,
) -> tuple[dict[str, Any], ReadSummary, ChosenColumns]:
    """Read a table into arrays that `new` allocates. Return the arrays, a summary, and the columns.

    If a column begins in a later row than the first block, `choose` chooses the columns again, and the table is read
    again from its begin.

    A text file is read once, because parsing is slow. Its features are stored in blocks until the number of rows is
    known. If a cache is written, a text file is read twice, to need little memory. Other formats are always read twice.
    """
    begun = time.perf_counter()
    runs = Runs(TableError, regroup, "rows")
    keys: dict[str, list[NDArray[Any]]] = {name: [] for name in (*chosen.numbers, "docids")}
    once, blocks = table.is_text and new is in_memory, _FeatureBlocks(table, chosen, fill)
    documents, docid = 0, chosen.by_role.get("docid")
    for batch in table.batches([*chosen.keys, *chosen.features] if once else chosen.keys):
        if table.late:
            table.find_late_columns()
            return _read(table, choose, choose(), regroup, fill, new, progress)
        if not batch.num_rows:
            continue
        starts, *ids = list_runs(table, chosen.list_keys, batch, documents)
        runs.add(table.path, documents + starts, documents + starts + 1, *ids)
        for name, (column, least) in chosen.numbers.items():
            keys[name].append(_numbers(table, batch.column(column), name, documents, least))
        if docid is not None:
            keys["docids"].append(document_texts(table, docid, batch, documents))
        if once:
            blocks.add(batch, documents)
        documents += batch.num_rows
    if not documents:
        raise _empty(table)
    lists, place = runs.lists(documents), None
    if lists.source is not None:
        place = np.empty(documents, np.int64)
        place[lists.source] = np.arange(documents)
    arrays: dict[str, Any] = {"features": new("features", (documents, len(chosen.features)), np.float32)}
    joined = {key: (join_ids if key == "docids" else np.concatenate)(parts) for key, parts in keys.items() if parts}
    joined.setdefault("labels", np.zeros(documents, np.float32))
    ordered = {key: values if lists.source is None else values[lists.source] for key, values in joined.items()}
    ordered |= {"offsets": lists.offsets, "qids": lists.qids}
    ordered |= {} if lists.list_ids is None else {"list_ids": lists.list_ids}
    ordered |= {} if lists.source is None else {"rows": lists.order}
    for key, values in ordered.items():
        arrays[key] = new(key, values.shape, values.dtype)
        arrays[key][:] = values
    if once:
        filled = blocks.move(arrays["features"], place)
    else:
        filled = _write_features(table, chosen, arrays["features"], place, fill, documents, progress)
    _warn_of_values(table)
    counts = (documents, len(lists.qids), len(chosen.features))
    files = tuple(str(path) for path in table.files)
    seconds = time.perf_counter() - begun
    return arrays, ReadSummary(files, table.bytes, 0, *counts, 0, 0, filled, lists.moved, seconds=seconds), chosen


class _FeatureBlocks:
    """Blocks of features of a table, in the order of the rows."""

    def __init__(self, table: TableFile, chosen: ChosenColumns, fill: float | None) -> None:
        self._table, self._chosen, self._fill = table, chosen, fill
        self._blocks: list[NDArray[np.float32]] = []
        self._replaced = 0

    def add(self, batch: Any, row: int) -> NDArray[np.float32]:
        """Add the features of a table batch, and return them. Errors need `row`, the first row of the batch."""
        matrix = np.empty((batch.num_rows, len(self._chosen.features)), np.float32)
        bad, first = _write_batch(self._table, batch.select(self._chosen.features), matrix, 0, None, self._fill)
        if self._fill is None and bad.any():
            column = int(np.flatnonzero(bad)[np.argmin(first[bad > 0])])
            value = batch.column(self._chosen.features[column])[int(first[column])].as_py()
            raise _missing(self._table, self._chosen, (row + int(first[column]), column, value), int((bad > 0).sum()))
        self._blocks.append(matrix)
        self._replaced += int(bad.sum())
        return matrix

    def move(self, matrix: NDArray[np.float32], place: NDArray[np.int64] | None) -> int:
        """Move all blocks of a table to a matrix; return the number of values that `fill` replaced.

        The memory of each block is freed as soon as the block is moved.
        """
        row = 0
        self._blocks.reverse()
        while self._blocks:
            block = self._blocks.pop()
            rows = slice(row, row + len(block))
            matrix[rows if place is None else place[rows]] = block
            row += len(block)
        return self._replaced


def _write_features(
    table: TableFile,
    chosen: ChosenColumns,
    matrix: NDArray[np.float32],
    place: NDArray[np.int64] | None,
    fill: float | None,
    documents: int,
    progress: Callable[[int, int], object] | None,
) -> int:
    """Write the features of all table rows to a matrix; return the number of values that `fill` replaced."""
    replaced: list[int] = []
    bad: list[tuple[int, int, Any]] = []  # row, column and value of the first missing value in each column of a block
    cells = 0

    def use(batch: Any, row: int, left: int) -> None:
        nonlocal cells
        rows, columns = batch.num_rows, batch.num_columns
        if row + rows > documents:
            return
        at = None if place is None else place[row : row + rows]
        count, first = _write_batch(table, batch, matrix[:, left : left + columns], row, at, fill)
        replaced.append(int(count.sum()))
        for column in np.flatnonzero(count) if fill is None else ():
            value = batch.column(int(column))[int(first[column])].as_py()
            bad.append((row + int(first[column]), left + int(column), value))
        cells += rows * columns
        if progress is not None:
            progress(cells // len(chosen.features), documents)

    if table.each_block(chosen.features, use) != documents:
        raise TableError(table.path, None, "changed while it was read", "a file that no program writes to")
    if bad:
        raise _missing(table, chosen, min(bad, key=lambda found: found[:2]), len({column for _, column, _ in bad}))
    return sum(replaced)


def _write_batch(
    table: TableFile,
    batch: Any,
    matrix: NDArray[np.float32],
    first: int,
    place: NDArray[np.int64] | None,
    fill: float | None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Write a table batch to rows of a matrix. For each column, return the number and the first row of missing values.

    A missing or unknown category is written as NaN, and is not counted as a missing value.
    """
    from rankgrad.data.tables.transpose import write_rows

    codes = {}
    for number, name in enumerate(batch.schema.names):
        if name in table.categories:
            column = as_dictionary(batch.column(number))
            codes[number] = _codes(table, column, name)
            batch = batch.set_column(number, name, column.indices.cast("float32").fill_null(0))
    found = write_rows(batch, batch.schema.names, matrix, first, place, 0.0 if fill is None else fill)
    for name in (batch.schema.names[column] for column in np.flatnonzero(found[0])) if fill is not None else ():
        # Several threads write here. An append is one operation, an addition to a number is not.
        table.infinite.append((name, _infinities(batch.column(name))))
    for number, values in codes.items():
        matrix[slice(first, first + len(values)) if place is None else place, number] = values
    return found


def _infinities(column: Any) -> int:
    """Return the number of infinite values of a table column, and of values too large for float32."""
    import pyarrow as pa
    import pyarrow.compute as compute

    if not pa.types.is_floating(column.type):
        return 0
    return compute.sum(compute.greater(compute.abs(column), float(np.finfo(np.float32).max))).as_py() or 0


def _codes(table: TableFile, column: Any, name: str) -> NDArray[np.float32]:
    """Return the position of each value in the categories. The column consists of distinct values and indices."""
    values = column.dictionary.to_pylist()
    indices = column.indices.cast("int64").fill_null(len(values)).to_numpy(zero_copy_only=False)
    counts = np.bincount(indices, minlength=len(values) + 1)[: len(values)]
    codes, unknown, given = encode_distinct(values, counts, table.categories[name], name)
    table.unknown.append((name, unknown, given))
    return np.append(codes, np.float32(np.nan))[indices]


def _warn_of_values(table: TableFile) -> None:
    """Warn about infinite values, and about categorical columns in which most values are unknown to the model."""
    infinite = dict.fromkeys(table.names, 0)
    for name, count in table.infinite:
        infinite[name] += count
    warn_infinite(str(table.path), infinite)
    for name in table.categories:
        blocks = [(unknown, given) for column, unknown, given in table.unknown if column == name]
        warn_unknown(name, sum(unknown for unknown, _ in blocks), sum(given for _, given in blocks))


def _by_column(table: TableFile, chosen: ChosenColumns) -> Categories | None:
    found = {chosen.features.index(name): values for name, values in table.categories.items()}
    return dict(sorted(found.items())) or None


def _missing(table: TableFile, chosen: ChosenColumns, found: tuple[int, int, Any], columns: int) -> TableError:
    """Return the error about a value that is not finite: its row, column and value, and the number of such columns."""
    row, column, value = found
    missing = value is None or math.isnan(value)
    kind = (
        "a missing value"
        if missing
        else "an infinite value"
        if math.isinf(value)
        else f"a value too large for float32 ({value})"
    )
    more = f", and such values in {columns - 1} more columns" if columns > 2 else ""
    more = ", and such values in 1 more column" if columns == 2 else more
    wrong = f"{kind} in column {chosen.features[column]!r}{more}"
    return TableError(table.path, row + 1, wrong, "a finite number " + FILL_ADVICE)


def _numbers(table: TableFile, column: Any, name: str, row: int, least: float) -> NDArray[np.float32]:
    """Convert the values of a table column for an array `name` to float32; each must be finite and at least `least`."""
    import pyarrow as pa

    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int32())
    values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        numbers: NDArray[np.float32] = values.astype(np.float32)
    if (wrong := np.flatnonzero(~(np.isfinite(numbers) & (numbers >= least)))).size:
        at = int(wrong[0])
        what = name.removesuffix("s") if least == 0 else "value of a training column"
        shown = f"no {what}" if column.is_null()[at].as_py() else f"{what} {values[at]:g}"
        raise TableError(table.path, row + at + 1, shown, "a finite number" + (" of at least 0" if least == 0 else ""))
    return numbers


def _empty(table: TableFile) -> TableError:
    return TableError(table.path, None, "no rows", "at least one document")
