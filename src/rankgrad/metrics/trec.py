"""Read and write runs and qrels (judgements) of trec_eval, and measure runs as trec_eval does.

A run is `{query: {document: score}}`, qrels are `{query: {document: label}}`, as in pytrec_eval.
"""

import gzip
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from rankgrad.atomic_files import write_bytes
from rankgrad.errors import bad_type, bad_value
from rankgrad.lists import to_padded
from rankgrad.metrics.evaluate import Evaluation, named, summarise, values_of
from rankgrad.metrics.metric import Metric
from rankgrad.metrics.ranked_lists import nan_scores, rank_padded
from rankgrad.metrics.run_frames import LABEL, SCORE, is_frame, run_of_frame
from rankgrad.spec import show

Run = dict[str, dict[str, float]]
Qrels = dict[str, dict[str, int]]
PathLike = str | os.PathLike[str]
Number = TypeVar("Number", int, float)

_RUN = "query Q0 document rank score tag"
_QRELS = "query iteration document label"
SMART_LINE = re.compile(r"\s*\S+\s+(?!Q?0\s)\S+\s+0\s+0(\.0*)?\s*")  # `query document 0 0`: the document is relevant


def read_run(path: PathLike) -> Run:
    """Read a trec_eval run: lines of `query Q0 document rank score tag`, plain or gzip. The ranks are ignored.

    Args:
        path: path of the file; gzip is detected by its first bytes.

    Example:
        >>> from pathlib import Path; import tempfile; path = Path(tempfile.mkdtemp(), "run.txt")
        >>> _ = path.write_text("q1 Q0 d7 1 0.5 mine")
        >>> read_run(path)
        {'q1': {'d7': 0.5}}
    """
    return _read(path, _RUN, 4, float, "a number")


def read_qrels(path: PathLike) -> Qrels:
    """Read qrels of trec_eval: lines of `query iteration document label`, plain or gzip.

    Args:
        path: path of the file; gzip is detected by its first bytes.

    Example:
        >>> from pathlib import Path; import tempfile; path = Path(tempfile.mkdtemp(), "qrels.txt")
        >>> _ = path.write_text("q1 0 d7 2")
        >>> read_qrels(path)
        {'q1': {'d7': 2}}
    """
    lines = (text for _, text in _lines(path) if text.strip())
    if SMART_LINE.fullmatch(next(lines, "")) and all(map(SMART_LINE.fullmatch, lines)):
        raise ValueError(
            f"{path}: qrels of SMART, `query document 0 0`, which only rankgrad.text.load reads; expected {_QRELS}"
        )
    return _read(path, _QRELS, 3, _label, "an integer of at most 18 digits")


def write_run(path: PathLike, run: Mapping[str, Mapping[str, float]], tag: str = "rankgrad") -> None:
    """Write a run in trec_eval's order, with exact scores and ranks from 1. If the file name ends in `.gz`, use gzip.

    Args:
        path: path of the file; an existing file is replaced.
        run: `{query: {document: score}}`; ids are text without spaces.
        tag: name of the run, in the last column.
    """
    lines = []
    for query, documents in run.items():
        ranked = sorted(documents.items(), key=lambda item: (np.float32(item[1]), item[0]), reverse=True)
        for rank, (document, score) in enumerate(ranked, 1):
            lines.append((query, "Q0", document, str(rank), repr(float(score)), tag))
    _write(path, lines)


def write_qrels(path: PathLike, qrels: Mapping[str, Mapping[str, int]]) -> None:
    """Write qrels of trec_eval. If the file name ends in `.gz`, use gzip.

    Args:
        path: path of the file; an existing file is replaced.
        qrels: `{query: {document: label}}`; ids are text without spaces.
    """
    _write(path, [(q, "0", d, str(int(label))) for q, judged in qrels.items() for d, label in judged.items()])


def to_run(scores: Any, offsets: Any, queries: Iterable[Any], ids: Sequence[Any]) -> Run:
    """Convert the scores of flat lists to a run, or the labels of flat lists to qrels.

    Args:
        scores: scores or labels, `(documents,)`.
        offsets: `(lists + 1,)`.
        queries: id of each list.
        ids: id of each document.

    Example:
        >>> to_run([0.5, 0.25, 1.0], [0, 2, 3], ["q1", "q2"], ["a", "b", "a"])
        {'q1': {'a': 0.5, 'b': 0.25}, 'q2': {'a': 1.0}}
    """
    flat, bounds, names = np.asarray(scores).tolist(), np.asarray(offsets).tolist(), [str(query) for query in queries]
    if len(names) != len(bounds) - 1 or len(set(names)) != len(names):
        got = f"{len(names)} ids, {len(set(names))} of them different"
        bad_value("queries", f"be {len(bounds) - 1} different ids, one per list", got)
    run = {}
    for query, start, end in zip(names, bounds[:-1], bounds[1:], strict=True):
        run[query] = {str(ids[i]): flat[i] for i in range(start, end)}
        if len(run[query]) != end - start:
            bad_value("ids", "differ within a list", f"a repeated id in query {query!r}")
    return run


def measure_run(
    run: Mapping[str, Mapping[str, float]] | PathLike | Any,
    qrels: Mapping[str, Mapping[str, int]] | PathLike | Any,
    metrics: Iterable[str | Metric] | str | Metric,
    *,
    complete: bool = False,
    bootstrap: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Evaluation:
    """Measure a run as trec_eval does.

    A document without a label, or with a negative label, has label 0. A relevant document that is not in the run still
    counts in the number of relevant documents (recall, AP) and in the best DCG. ARP and OPA use only documents of the
    run. Ties are ordered by document id, unless a metric has `ties='expected'`. Only queries that are both in the run
    and in qrels are measured. With `complete` (option `-c` of trec_eval), a query that is only in qrels also counts, as
    a list without documents. `ndcg_cut` of trec_eval has linear gain: use `nDCG(gain='linear')@10`.

    Args:
        run: `{query: {document: score}}`, the path of a run, or a data frame with the columns `query_id`, `doc_id` and
            `score`, or with the names of PyTerrier or ranx. Ids in frames are text or integers; they become text.
        qrels: `{query: {document: label}}`, the path of qrels, or a data frame with the columns `query_id`, `doc_id`
            and `relevance` (or `label`); labels are integers.
        metrics: specs such as `"nDCG@10"`, or `Metric` values.
        complete: True to also measure queries that are only in qrels.
        bootstrap: number of bootstrap resamples of the queries. With 0, both ends of an interval are equal to the mean.
        seed: random seed of the resampling.
        confidence: confidence of the intervals; see `evaluate`.

    Example:
        >>> measure_run({"q1": {"a": 2.0, "b": 1.0}}, {"q1": {"b": 1, "c": 1}}, ["AP", "R@10"], bootstrap=0).means
        {'AP': 0.25, 'R@10': 0.5}
    """
    run = _given("run", run, read_run, SCORE)
    qrels = _given("qrels", qrels, read_qrels, LABEL)
    if odd := [label for labels in qrels.values() for label in labels.values() if not float(label).is_integer()]:
        bad_value("qrels", "contain integer labels (are the run and the qrels swapped?)", odd[0])
    queries = tuple(query for query in qrels if complete or query in run)
    if not queries:
        bad_value("run", "contain at least one query of the qrels", _overlap(run, qrels))
    documents = [(query, document) for query in queries for document in run.get(query, {})]
    lengths = [len(run.get(query, {})) for query in queries]
    scores, mask = _padded(np.array([run[query][document] for query, document in documents], dtype=np.float64), lengths)
    labels, _ = _padded(_labels(qrels[query].get(document, 0) for query, document in documents), lengths)
    names = np.array([document for _, document in documents], dtype=str)
    codes, _ = _padded(np.unique(names, return_inverse=True)[1], lengths)
    known = _labels(label for query in queries for label in qrels[query].values())
    judged, judged_mask = _padded(known, [len(qrels[query]) for query in queries])
    chosen = {name: metric(ties=metric.options.get("ties", "trec")) for name, metric in named(metrics).items()}
    ranked = {}
    for ties in {metric.options["ties"] for metric in chosen.values()}:
        whole = rank_padded(scores, labels, mask, ties, codes)
        ranked[ties] = replace(whole, judged=judged, judged_mask=judged_mask)
    missing = nan_scores(scores)
    values = values_of(ranked, chosen)
    return summarise(values, chosen, bootstrap, seed, confidence, queries=queries, missing=missing)


def _given(name: str, value: Any, read: Callable[[PathLike], Any], columns: tuple[str, ...]) -> Any:
    """Return a run or qrels of `measure_run` as a dictionary."""
    if isinstance(value, str | os.PathLike):
        return read(value)
    if is_frame(value):
        return run_of_frame(name, value, columns)
    if not isinstance(value, Mapping):
        form = "{query: {document: number}}, a data frame or the path of a file"
        bad_type(name, f"be {form}", type(value).__name__)
    return value


def _padded(flat: np.ndarray, lengths: list[int]) -> tuple[Tensor, Tensor]:
    offsets = torch.from_numpy(np.cumsum([0, *lengths]))  # on the CPU, whatever the default device is
    # There is at least one column, because zero columns have no maximum.
    return to_padded(torch.from_numpy(flat), offsets, max(1, *lengths))


def _labels(labels: Iterable[float]) -> np.ndarray:
    return np.maximum(np.array(list(labels), dtype=np.float64), 0.0)


def _overlap(run: Mapping[str, Any], qrels: Mapping[str, Any]) -> str:
    some, others = (", ".join(map(repr, list(side)[:3])) or "none" for side in (run, qrels))
    return f"queries {some} in the run and {others} in the qrels"


def _read(
    path: PathLike, form: str, column: int, number: Callable[[str], Number], what: str
) -> dict[str, dict[str, Number]]:
    columns = form.split()
    result: dict[str, dict[str, Number]] = {}
    for line, text in _lines(path):
        fields = text.split()
        if not fields:
            continue
        if len(fields) != len(columns):
            raise ValueError(f"{path}:{line}: {len(fields)} columns; expected {len(columns)}: {form}")
        query, document = fields[0], fields[2]
        try:
            value = number(fields[column])
        except ValueError:
            raise ValueError(f"{path}:{line}: {columns[column]} {show(fields[column])}; expected {what}") from None
        documents = result.setdefault(query, {})
        if document in documents:
            raise ValueError(
                f"{path}:{line}: document {show(document)} is repeated for query {show(query)}; expected one line"
            )
        documents[document] = value
    if not result:
        raise ValueError(f"{path}: no data in the file; expected {form}")
    return result


def _label(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):  # `int` also accepts digits of other scripts and long numbers
        raise ValueError(text)
    return int(text)


def _lines(path: PathLike) -> Iterator[tuple[int, str]]:
    with open(path, "rb") as plain:
        compressed = plain.read(2) == b"\x1f\x8b"
    number = 0
    with gzip.open(path, "rb") if compressed else open(path, "rb") as file:
        try:
            for number, line in enumerate(file, 1):
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")  # without a byte order mark
        except UnicodeDecodeError:
            raise ValueError(f"{path}:{number}: bytes that are not text; expected UTF-8") from None
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise ValueError(
                f"{path}:{number + 1}: the gzip file is truncated or damaged; expected a complete file"
            ) from None


def _write(path: PathLike, rows: Iterable[tuple[str, ...]]) -> None:
    path = Path(path)
    lines = []
    for row in rows:
        for field in row:
            if not field or field.split() != [field]:
                bad_value("ids and tag", "be text without spaces", repr(field))
        lines.append(" ".join(row) + "\n")
    text = "".join(lines).encode()
    write_bytes(path, gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
