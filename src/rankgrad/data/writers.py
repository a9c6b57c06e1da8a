"""Write data sets as LETOR text, as Parquet, and as a cache. An error or interruption leaves no incomplete file."""

import gzip
import lzma
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from rankgrad.atomic_files import clear_leftovers, naming, writing
from rankgrad.data import cache as caches
from rankgrad.data.dataset import Dataset
from rankgrad.data.letor.errors import LONGEST_ID
from rankgrad.data.read_summary import ReadSummary
from rankgrad.errors import bad_value
from rankgrad.group_rows import origins
from rankgrad.ids import document_ids, query_ids
from rankgrad.roles import ROLES

_BLOCK = 1 << 20  # number of values of LETOR text that are formatted at a time
_ROW_GROUP = 1 << 23  # number of features in a row group of Parquet: 32 MB
_NUMBER = "S16"  # the longest float32 is -1.1754944e-38
_NOT_IN_QID = re.compile(rb"[\x00-\x20\x7f#]")
_SPACE = re.compile(rb"[\t\v\f ]")
_NOT_IN_DOCID = re.compile(rb"[\x00\r\n]|\A[\t\v\f ]|[\t\v\f ]\Z")
_NAMED = re.compile(rb"docid[\t\v\f ]*=", re.IGNORECASE)  # `read_letor` reads `docid = ID ...` as ID


def write_letor(dataset: Dataset, path: str | os.PathLike[str]) -> None:
    """Write a data set as LETOR text: `label qid:ID 1:value 2:value ... # docid`, with all features of each document.

    `read_letor` restores the labels, features, query ids and document ids. A number is written as the shortest decimal
    from which `read_letor` restores the same float32. NaN is written as `nan`; to restore it, use `missing=np.nan`.
    -0.0 is written as 0. If all query ids are texts such as `"12"`, `read_letor` returns integers. The names of
    features are not written.

    Args:
        dataset: lists to write. A list without documents, document weights, an infinity or a query id with a space is
            an error, because LETOR text cannot represent it.
        path: path of the file. If it ends in `.gz` or `.xz`, the file is compressed.

    Example:
        >>> from rankgrad.data import from_arrays
        >>> path = getfixture("tmp_path") / "train.txt"
        >>> write_letor(from_arrays([[0.5, 3.0], [0.1, 0.0]], [2, 0], qid=["a", "a"])[0], path)
        >>> print(path.read_text(), end="")
        2 qid:a 1:0.5 2:3
        0 qid:a 1:0.1 2:0
    """
    path = Path(path)
    _check_rows(dataset, "LETOR text")
    if not len(dataset.labels) or not dataset.features.shape[1]:
        bad_value("dataset", "have at least one document and one feature to be written as LETOR text", dataset)
    if dataset.weights is not None:
        bad_value(
            "dataset",
            "have no document weights, because LETOR text cannot represent them (use write_parquet)",
            "weights",
        )
    qids = [_letor_qid(qid) for qid in dataset.qids.tolist()]
    clear_leftovers(path.parent, path.name)
    with writing(path) as file, naming(path), _compressing(file, path) as packed:
        step = max(1, _BLOCK // dataset.features.shape[1])
        for start in range(0, len(dataset.labels), step):
            rows = np.arange(start, min(start + step, len(dataset.labels)))
            lists = np.searchsorted(dataset.offsets, rows, side="right") - 1  # list of each row
            packed.write(b"".join(_letor_lines(dataset, slice(start, start + step), [qids[each] for each in lists])))


def write_parquet(dataset: Dataset, path: str | os.PathLike[str]) -> None:
    """Write a data set as a Parquet file with one row per document.

    The first columns are `label`, `qid` and, if the data set has them, `docid`, `weight`, `list_id` and the columns
    that are used in training only. Then there is one column per feature, with the name of the feature, or `f1`, `f2`,
    ... A row group contains complete lists and has about 32 MB. This function needs pyarrow (extra `frames`).

    Args:
        dataset: lists to write; a list without documents is an error.
        path: path of the file.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as parquet
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("write_parquet needs pyarrow: pip install 'rankgrad[frames]'") from error
    path = Path(path)
    _check_rows(dataset, "Parquet")
    given = {role.name: (role, values) for role in ROLES if (values := getattr(dataset, role.values)) is not None}
    found: dict[str, Any] = {name: np.asarray(values, np.float32) for name, values in (dataset.columns or {}).items()}
    if taken := [name for name in found if name in given]:
        bad_value("columns", f"differ from the columns {', '.join(given)}", repr(taken[0]))
    for name, (role, values) in given.items():
        read = query_ids if role.of_lists else document_ids
        found[name] = np.asarray(values, np.float32) if role.numbers else read(values, f"{role.title} ids")
    found = {name: found[name] for name in (*given, *found)}
    kinds = {"f": pa.float32(), "i": pa.int64(), "u": pa.int64()}
    types = {name: kinds.get(values.dtype.kind, pa.string()) for name, values in found.items()}
    names = _feature_names(dataset)
    if taken := [name for name in names if name in types]:
        bad_value("feature_names", f"differ from the columns {', '.join(types)}", repr(taken[0]))
    schema = pa.schema([*types.items(), *((name, pa.float32()) for name in names)])
    clear_leftovers(path.parent, path.name)
    with writing(path) as file, naming(path), parquet.ParquetWriter(file, schema) as writer:
        for rows, lists in _row_groups(dataset):
            columns: list[Any] = [
                np.repeat(values[lists], dataset.lengths[lists])
                if name in given and given[name][0].of_lists
                else values[rows]
                for name, values in found.items()
            ]
            columns += list(np.ascontiguousarray(dataset.features[rows].T, dtype=np.float32))
            # pyarrow cuts a text of NumPy at its first NUL character, but not a text of Python.
            columns = [column.tolist() if column.dtype.kind == "U" else column for column in columns]
            arrays = [pa.array(column, type=each.type) for column, each in zip(columns, schema, strict=True)]
            writer.write_table(
                pa.Table.from_arrays(arrays, schema=schema), row_group_size=max(1, rows.stop - rows.start)
            )


def write_cache(dataset: Dataset, folder: str | os.PathLike[str]) -> None:
    """Write a data set as a cache, which `open_cache` maps into memory.

    The scores of the best achievable order (`best`) are not written.

    Args:
        dataset: lists to write.
        folder: path of a new folder, of an empty folder, or of a cache to replace.

    Example:
        >>> from rankgrad.data import from_arrays, open_cache
        >>> folder = getfixture("tmp_path") / "cache"
        >>> write_cache(from_arrays([[0.5], [1.5]], [1, 0], qid=[3, 3])[0], folder)
        >>> open_cache(folder)
        Dataset(lists=1, documents=2, features=1)
    """
    begun = time.perf_counter()
    with caches.writing_cache(Path(folder)) as writer:
        names = [*(dataset.columns or {})]
        arrays = {name: getattr(dataset, name) for name in caches.ARRAYS}
        arrays |= zip(caches.column_arrays(names), (dataset.columns or {}).values(), strict=True)
        for name, array in arrays.items():
            if array is None:
                continue
            kinds: list[Any] = caches.kinds_of(name)
            if kinds == ["i8", "U"]:
                array = query_ids(array, "query ids" if name == "qids" else "list ids")
            if kinds[-1] == "U" and not ("i8" in kinds and array.dtype.kind in "iu"):
                array = array.astype(np.str_, copy=False)
                kinds = [array.dtype]
            writer.new(name, array.shape, np.dtype(kinds[0]))[:] = array
        documents, features = dataset.features.shape
        lists, seconds = len(dataset), time.perf_counter() - begun
        summary = ReadSummary((dataset.name,), 0, documents, documents, lists, features, 0, 0, seconds=seconds)
        writer.finish(dataset.name, {}, [], summary, dataset.feature_names, names, dataset.categories)


def _row_groups(dataset: Dataset) -> Iterator[tuple[slice, slice]]:
    """Yield rows and lists of each Parquet row group: at least one list, and up to `_ROW_GROUP` values of features."""
    offsets = np.asarray(dataset.offsets, dtype=np.int64)
    rows, start = max(1, _ROW_GROUP // max(1, dataset.features.shape[1])), 0
    while start < len(dataset):
        stop = max(start + 1, int(np.searchsorted(offsets, offsets[start] + rows, side="right")) - 1)
        yield slice(int(offsets[start]), int(offsets[stop])), slice(start, stop)
        start = stop


def _check_rows(dataset: Dataset, form: str) -> None:
    """Check that a reader can restore the lists of a written file from the query ids of the rows."""
    if len(empty := np.flatnonzero(dataset.lengths == 0)):
        got = f"no documents for query {dataset.qids[empty[0]]}"
        bad_value("dataset", f"have at least one document per list to be written as {form}", got)
    counts = np.bincount(origins(dataset.qids.astype(np.str_), dataset.list_ids if form == "Parquet" else None))
    if counts.max(initial=0) > 1:
        got = f"{counts.max()} lists with the id {dataset.qids[counts.argmax()]}"
        bad_value("dataset", f"have a different query id for each list to be written as {form}", got)


def _feature_names(dataset: Dataset) -> Sequence[str]:
    names: Sequence[str] | None = dataset.feature_names
    return [f"f{number}" for number in range(1, dataset.features.shape[1] + 1)] if names is None else names


def _compressing(file: BinaryIO, path: Path) -> AbstractContextManager[Any]:
    if path.suffix == ".gz":
        return gzip.GzipFile(path.name.removesuffix(".gz"), "wb", 6, file, mtime=0)
    return lzma.LZMAFile(file, "wb") if path.suffix == ".xz" else nullcontext(file)


def _letor_lines(dataset: Dataset, rows: slice, qids: list[bytes]) -> Iterator[bytes]:
    labels, features = np.asarray(dataset.labels[rows]), np.asarray(dataset.features[rows])
    if not (np.isfinite(labels).all() and (labels >= 0).all()):
        bad_value("labels", "be finite and at least 0", labels[~(np.isfinite(labels) & (labels >= 0))][0])
    if np.isinf(features).any():
        bad_value("features", "be finite or NaN to be written as LETOR text", "an infinite value")
    comments = [b""] * len(qids)
    if dataset.docids is not None:
        comments = [_letor_comment(docid) for docid in dataset.docids[rows].tolist()]
    pairs = b" ".join(b"%d:%%b" % number for number in range(1, features.shape[1] + 1)) + b" "
    heads, bodies = _decimals(labels[:, None]), _decimals(features)
    for (label,), qid, values, comment in zip(heads, qids, bodies, comments, strict=True):
        body = (pairs % tuple(values)).replace(b".0 ", b" ")
        yield b"%b qid:%b %b%b\n" % (label.removesuffix(b".0"), qid, body if comment else body[:-1], comment)


def _decimals(values: NDArray[np.float32]) -> list[list[bytes]]:
    """Return each value as the shortest LETOR decimal from which `float`, rounded to float32, restores the value."""
    values = values.astype(np.float32) + np.float32(0)  # -0.0 becomes 0.0
    text = values.astype(_NUMBER)
    found: list[list[bytes]] = text.tolist()
    # `float` rounds to float64 first. Rounding twice changes a few float32; all digits of these are written.
    for row, column in np.argwhere((text.astype(np.float64).astype(np.float32) != values) & ~np.isnan(values)):
        found[row][column] = repr(float(values[row, column])).encode()
    return found


def _letor_qid(qid: Any) -> bytes:
    text = _encoded(qid)
    if text is None or not 0 < len(text) <= LONGEST_ID or _NOT_IN_QID.search(text):
        must = f"be text of 1 to {LONGEST_ID} bytes without spaces, control characters and #"
        bad_value("query ids", f"{must} to be written as LETOR text", repr(qid))
    return text


def _letor_comment(docid: Any) -> bytes:
    """Return the LETOR comment that contains a document id; for an empty id, return an empty comment."""
    text = _encoded(docid)
    if text is None or len(str(docid)) > LONGEST_ID or _NOT_IN_DOCID.search(text):
        must = f"be one line of at most {LONGEST_ID} characters, without a space at its beginning or end,"
        bad_value("document ids", f"{must} to be written as LETOR text", repr(docid))
    if _NAMED.match(text):
        if _SPACE.search(text):
            bad_value("document ids", "not begin with `docid =` to be written as LETOR text", repr(docid))
        return b"# docid = " + text
    return b"# " + text if text else b""


def _encoded(identifier: Any) -> bytes | None:
    """Return an id to write in UTF-8, or None if it contains half of a surrogate pair, which no file can contain."""
    try:
        return str(identifier).encode()
    except UnicodeEncodeError:
        return None
