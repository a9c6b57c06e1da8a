"""Read LETOR / SVMLight text: `label qid:ID feature:value ... # comment`, one document per line."""

import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, TypeAlias

from rankgrad.data import cache as caches
from rankgrad.data.dataset import Dataset
from rankgrad.data.letor.passes import ReadOptions, fill_value, in_memory, read_files
from rankgrad.data.letor.streams import check_file
from rankgrad.data.read_summary import ReadSummary
from rankgrad.errors import bad_type, bad_value

_PathLike: TypeAlias = str | os.PathLike[str]
_Progress: TypeAlias = Callable[[int, int], object]
_log = logging.getLogger(__name__)


def read_letor(
    paths: _PathLike | Iterable[_PathLike],
    *,
    features: int | None = None,
    regroup: bool = False,
    missing: float | Literal["error", "nan"] = "error",
    docids: bool = True,
    sparse: bool = False,
    cache: _PathLike | None = None,
    verify: bool = False,
    report: Callable[[ReadSummary], object] | None = None,
    progress: _Progress | None = None,
) -> Dataset:
    """Read LETOR / SVMLight files (plain, gzip or xz) as one data set; a bad line raises a `LetorError`.

    Features that a line omits are 0. A value is `float(text)` rounded to float32. The documents of a query are on
    consecutive lines. A list may begin at the end of one file and continue in the next file. A last line without a
    newline is probably truncated if it has fewer features than all earlier lines, or if it is the only line without a
    comment. Such a line is an error; if the file is small or sparse, there is only a warning.

    Args:
        paths: path of a file, or paths of several files in order.
        features: number of features; None for the largest id in the files. With None, a large matrix in which almost
            all values are 0 is an error.
        regroup: True to group the documents by query; queries are then in the order of their first documents. With
            False, a query that occurs again is an error.
        missing: number that replaces NaN, infinities and values too large for float32; with "error", they are an error.
        docids: True to read document ids: the value of `docid =` in a comment; without it, the complete comment.
        sparse: True for features as a SciPy matrix in the CSR format, for files with very many features. Then `cache`
            must be None, and `report` is not called.
        cache: folder for a cache of the arrays. Later calls with the same files and options map these arrays.
        verify: True to check the cache by hashes of complete files and arrays, as in `open_cache`.
        report: function that is called with a `ReadSummary`, for example `print`.
        progress: function that is called with the number of bytes read so far and the total number of bytes.

    Example:
        >>> path = getfixture("tmp_path") / "train.txt"
        >>> _ = path.write_text("2 qid:7 1:0.5 3:1e-2 # a\\n0 qid:7 2:4 # b\\n1 qid:9 # c\\n")
        >>> read_letor(path)
        Dataset('train.txt', lists=2, documents=3, features=3)
    """
    files = [Path(path) for path in ([paths] if isinstance(paths, str | os.PathLike) else paths)]
    options = ReadOptions(_width(features), regroup, fill_value(missing), docids)
    if not files:
        bad_value("paths", "contain at least one file", "an empty sequence")
    for path in files:
        check_file(path)
    name = files[0].name if len(files) == 1 else f"{files[0].name} and {len(files) - 1} more"
    if sparse:
        from rankgrad.data.letor.sparse_reader import read_sparse

        if cache is not None:
            bad_value("cache", "be None if sparse is True", str(cache))
        return read_sparse(files, options.features, regroup, options.missing, docids, name, progress)
    if cache is None:
        arrays, summary = read_files(files, options, in_memory, progress)
        data = Dataset(**arrays, name=name)
    else:

        def read(new: caches.New, hashes: caches.Hashes) -> tuple[ReadSummary, dict[str, Any]]:
            return read_files(files, options, new, progress, hashes)[1], {}

        data, summary = caches.through_cache(Path(cache), files, options.to_json(), name, verify, read)
    _log.info("%s", summary)
    if report is not None:
        report(summary)
    return data


def _width(features: int | None) -> int | None:
    if features is None:
        return None
    if isinstance(features, bool) or not hasattr(features, "__index__"):
        bad_type("features", "be an integer or None", type(features).__name__)
    if features < 1:
        bad_value("features", "be at least 1", features)
    return int(features)
