"""Find problems of a data set, for `inspect`. Each finding describes one problem and gives advice."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankgrad.data.benchmarks import empty_lists
from rankgrad.data.dataset import Dataset
from rankgrad.data.inspection_scan import Scan
from rankgrad.errors import name_settings, warn_caller

SEVERITIES = ("error", "warning", "note")
_WORST = 8  # maximum number of features that a finding about missing values names
LARGEST_GRADE = 31  # the gain 2^y - 1 of a larger label is far above all other gains
_LEAK, _POSSIBLE_LEAK = 0.98, 0.92  # limits on the share of pairs that one feature alone orders correctly
_SHARED = 1000  # number of shared queries of which a training compares the documents
_FILLS = (-1.0, -9.0, -99.0, -999.0, -9999.0)  # values that often mark a missing value


@dataclass(frozen=True)
class Finding:
    """Finding of `inspect`: a problem of a data set, or a note. Features are numbered from 1, as in LETOR files."""

    severity: str  # "error", "warning" or "note"
    kind: str
    where: str  # name of the split or splits
    what: str  # description of the problem
    do: str  # advice


def only_grade(labels: np.ndarray) -> float | None:
    """Return the only label in a data set, for `inspect`; None if labels differ or if there are no documents."""
    return float(labels[0]) if len(labels) and labels.min() == labels.max() else None


def label_findings(data: Dataset, where: str) -> Iterator[Finding]:
    """Yield findings about the labels and the list lengths of a split."""
    if len(data.labels) == 0:
        yield Finding("error", "no documents", where, "There is no document.", "Check the files.")
        return
    if (grade := only_grade(data.labels)) is not None:
        what = f"Every label is {grade:g}."
        yield Finding("error", "one grade", where, what, "Nothing can be learned or measured: check the label column.")
        return
    grades = np.unique(data.labels)
    if grades[0] < 0:
        what = f"The lowest label is {grades[0]:g}."
        yield Finding("error", "negative labels", where, what, "Shift or remove these labels: labels start at 0.")
    if (grades != np.floor(grades)).any():
        what = "Some labels are not integers."
        yield Finding("note", "real labels", where, what, "Metrics with gain 2^y - 1 use these labels unchanged.")
    if grades[-1] > LARGEST_GRADE:
        what = f"The highest label is {grades[-1]:g}: its gain 2^y - 1 is far above all other gains."
        yield Finding("warning", "large labels", where, what, "Use gain='linear', or map the labels to grades.")
    yield from _list_findings(data, where)


def _list_findings(data: Dataset, where: str) -> Iterator[Finding]:
    lists, lengths = len(data), data.lengths
    empty = empty_lists(data)
    if empty:
        severity = "warning" if empty > lists / 2 else "note"
        what = f"{_of(empty, lists, 'lists')} have no relevant document."
        do = "Nothing can be learned from such lists. The metric option empty= determines how they count in the mean."
        yield Finding(severity, "empty queries", where, what, do)
    starts = data.offsets[:-1][lengths > 0]
    flat = np.maximum.reduceat(data.labels, starts) == np.minimum.reduceat(data.labels, starts)
    same = int((flat & (np.maximum.reduceat(data.labels, starts) > 0) & (lengths[lengths > 0] > 1)).sum())
    if same:
        what = f"{_of(same, lists, 'lists')} have the same label above 0 for all documents."
        yield Finding(
            "note",
            "one grade lists",
            where,
            what,
            "Every order of such a list is perfect: nothing can be learned from it.",
        )
    if single := int((lengths == 1).sum()):
        what = f"{_of(single, lists, 'lists')} have a single document."
        do = "Nothing can be learned from such lists, and they increase the mean of a metric."
        yield Finding("warning" if single == lists else "note", "single documents", where, what, do)
    if none := int((lengths == 0).sum()):
        what = f"{_of(none, lists, 'lists')} have no document."
        yield Finding("note", "no documents", where, what, "Such lists count as lists without a relevant document.")


def missing_findings(data: Dataset, scan: Scan, where: str) -> Iterator[Finding]:
    """Yield findings about missing values (NaN) and about infinite values of a split."""
    rows, names = max(len(scan.rows), 1), data.feature_names

    def named(column: int) -> str:
        return f"feature {column + 1}" if names is None else repr(names[column])

    if count := int(scan.missing.sum()):
        worst = np.argsort(-scan.missing, kind="stable")[:_WORST]
        shares = ", ".join(f"{named(j)} {scan.missing[j] / rows:.1%}" for j in worst if scan.missing[j])
        columns = int((scan.missing > 0).sum())
        more = f" and {columns - _WORST} more features" if columns > _WORST else ""
        what = f"{_count(count, 'value')} {'is' if count == 1 else 'are'} missing: {shares}{more}."
        do = name_settings("Trees accept missing values. For a network, set {missing='mean'}, 'indicator' or 'zero'.")
        yield Finding("warning", "missing values", where, what, do)
    if len(bad := np.flatnonzero(scan.infinite)):
        what = f"{_count(int(scan.infinite.sum()), 'infinite value')} in {', '.join(map(named, bad[:_WORST]))}."
        same = "Readers replace infinite values in the same way as missing values: "
        do = same + name_settings("with a number, or {missing='nan'}.")
        yield Finding("error", "not finite", where, what, do)


def feature_findings(scan: Scan, where: str, names: Sequence[str] | None) -> Iterator[Finding]:
    """Yield findings about features of a split that are useless, reveal the label, or need preprocessing."""
    width = len(scan.low)
    constant = np.flatnonzero(scan.low == scan.high)
    if len(constant):
        what = f"{_features(constant, names)} {_are(constant)} constant."
        yield Finding(
            "note", "constant features", where, what, "Remove or keep these features: standardising makes them 0."
        )
    copies = _copies(scan, set(constant.tolist()))
    if copies:
        shown = "; ".join(" = ".join(_named(j, names) for j in group) for group in copies[:5])
        more = f" and {len(copies) - 5} more groups" if len(copies) > 5 else ""
        what = f"Features are copies of each other: {shown}{more}."
        yield Finding("note", "duplicate features", where, what, "Keep one of each group: a copy adds no information.")
    strength = np.maximum(scan.agreement, 1 - scan.agreement)
    for j in np.flatnonzero(strength >= _POSSIBLE_LEAK) if scan.pairs >= 100 else []:
        certain = strength[j] >= _LEAK
        order = "the order" if scan.agreement[j] > 0.5 else "the reverse order"
        pairs = f"{strength[j]:.1%} of {scan.pairs:,} pairs"
        what = f"Feature {_named(int(j), names)} alone puts {pairs} in {order} of their labels."
        do = "If the feature is computed from the label, or is known only after the label, remove the feature."
        yield Finding("error" if certain else "warning", "label given away", where, what, do)
    filled = [j for j in range(width) if _has_fill(scan, j)]
    if filled:
        only = "only one distinct negative value, which may mark missing values"
        what = f"{_features(filled, names)} {_have(filled)} {only}."
        do = "Replace this value by 0 or by the mean before you standardise."
        yield Finding("warning", "missing fills", where, what, do)
    sound = scan.infinite == 0
    huge = np.flatnonzero(sound & (np.maximum(np.abs(scan.low), np.abs(scan.high)) >= 1e30))
    if len(huge):
        what = f"{_features(huge, names)} {_have(huge)} values beyond 1e30, which may mark missing values."
        do = "Replace these values. Otherwise standardising makes all other values nearly equal."
        yield Finding("warning", "missing fills", where, what, do)
    heavy = [j for j in range(width) if _is_heavy(scan, j)]
    if heavy:
        what = (
            f"{_of(len(heavy), width, 'features')} have heavy tails: the largest value is over 1,000 times the median."
        )
        yield Finding("note", "heavy tails", where, what, "Preprocess with log1p,standardise.")


def document_findings(data: Dataset, scan: Scan, where: str) -> Iterator[Finding]:
    """Yield findings about documents of a split that occur twice in a list, with equal or with different labels."""
    owner = np.repeat(np.arange(len(data)), data.lengths)
    order = np.lexsort((data.labels, scan.rows, owner))
    hashes, labels, lists = scan.rows[order], data.labels[order], owner[order]
    again = (hashes[1:] == hashes[:-1]) & (lists[1:] == lists[:-1])
    if not again.any():
        return
    contradicts = again & (labels[1:] != labels[:-1])
    if count := int(contradicts.sum()):
        touched = len(np.unique(lists[1:][contradicts]))
        documents = f"{_count(count, 'document')} in {_count(touched, 'list')}"
        have = "has" if count == 1 else "have"
        what = f"{documents} {have} the same features as another document of the list, but a different label."
        do = (
            "No ranker can distinguish such documents. Check for a missing feature, or for a join that duplicated rows."
        )
        yield Finding("warning", "contradicting documents", where, what, do)
    if count := int((again & ~contradicts).sum()):
        have = "has" if count == 1 else "have"
        what = f"{_count(count, 'document')} {have} the same features and label as another document of the list."
        yield Finding("note", "duplicate documents", where, what, "Remove the copies if they are the same document.")


def shared_findings(one: Dataset, other: Dataset, rows: tuple[Any, Any], where: str) -> Iterator[Finding]:
    """Yield findings about queries and documents that are in both splits. `rows` contains the row hashes of both."""
    shared = np.intersect1d(one.qids.astype(str), other.qids.astype(str))
    if len(shared) == 0:
        return
    same = int(np.isin(rows[1][np.isin(other.row_qids.astype(str), shared)], rows[0]).sum())
    what = f"{_count(len(shared), 'query id')} in both splits ({_some(shared)})"
    if same:
        what = f"{what}, with {_count(same, 'document')} in common."
        do = "Split by query again: otherwise the results are too high."
        yield Finding("error", "shared queries", where, what, do)
    else:
        do = "Ignore this finding if the queries of each file are numbered separately; otherwise split by query again."
        yield Finding("warning", "shared queries", where, f"{what}, with no document in common.", do)


def warn_shared(train: Dataset, test: Dataset) -> None:
    """Warn if queries of the test lists are also training queries, with the same documents.

    Args:
        train: training lists.
        test: lists on which the ranker will be evaluated.
    """
    queries, ours, theirs = np.intersect1d(train.qids.astype(str), test.qids.astype(str), return_indices=True)
    step = max(1, len(queries) // _SHARED)
    pairs = [*zip(ours.tolist(), theirs.tolist(), strict=True)][::step]
    same = [_same_documents(train[one].features, test[other].features) for one, other in pairs]
    if count := sum(same):
        what = _count(count, "list") if step == 1 else f"{count:,} of {len(pairs):,} compared lists"
        shown = _some(queries[::step][same])
        whose = f"{'has' if count == 1 else 'have'} the query and the documents of a training list ({shown})"
        advice = "the results will be too high; split the data by query again"
        warn_caller(f"{what} of {test.name or 'the test lists'} {whose}: {advice}")


def _same_documents(one: np.ndarray, other: np.ndarray) -> bool:
    """Return True if at least half of the documents in the second list are in the first, by their features."""
    # Rows of one value, such as 0, are often equal by chance.
    known, rows = ({(row + 0).tobytes() for row in part if (row != row[0]).any()} for part in (one, other))
    return bool(rows) and 2 * len(rows & known) >= len(rows)


def _copies(scan: Scan, constant: set[int]) -> list[list[int]]:
    groups: dict[int, list[int]] = {}
    for j, key in enumerate(scan.columns.tolist()):
        if j not in constant:
            groups.setdefault(key, []).append(j)
    return [group for group in groups.values() if len(group) > 1]


def _has_fill(scan: Scan, j: int) -> bool:
    if scan.low[j] not in _FILLS or scan.low[j] == scan.high[j]:
        return False
    x = scan.sample[:, j]
    others = x[~np.isnan(x) & (x != scan.low[j])]
    return len(others) < len(x) and len(others) > 0 and bool(others.min() >= 0)


def _is_heavy(scan: Scan, j: int) -> bool:
    size = np.abs(scan.sample[:, j])
    size = size[np.isfinite(size) & (size > 0)]
    return len(size) > 20 and bool(size.max() > 1_000 * np.median(size))


def _features(columns: Sequence[int] | np.ndarray, names: Sequence[str] | None) -> str:
    return f"{'Feature' if len(columns) == 1 else 'Features'} {_some([_named(int(j), names) for j in columns])}"


def _named(column: int, names: Sequence[str] | None) -> str:
    return str(column + 1) if names is None else repr(names[column])


def _are(columns: Sequence[int] | np.ndarray) -> str:
    return "is" if len(columns) == 1 else "are"


def _have(columns: Sequence[int] | np.ndarray) -> str:
    return "has" if len(columns) == 1 else "have"


def _some(names: Sequence[Any] | np.ndarray) -> str:
    shown = ", ".join(str(name) for name in names[:8])
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _of(count: int, total: int, what: str) -> str:
    return f"{count:,} of {total:,} {what} ({count / max(total, 1):.0%})"
