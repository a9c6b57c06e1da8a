"""What an inspection may find in a data set: each check yields findings of one sentence and what to do about it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankgrad.data.benchmarks import empty_lists
from rankgrad.data.dataset import Dataset
from rankgrad.data.inspection_scan import Scan

SEVERITIES = ("error", "warning", "note")
_GIVES_AWAY, _NEARLY = 0.98, 0.92  # share of pairs that one feature alone orders rightly
_FILLS = (-1.0, -9.0, -99.0, -999.0, -9999.0)


@dataclass(frozen=True)
class Finding:
    """Something worth knowing before training. Features are numbered from 1, as in LETOR files."""

    severity: str  # "error", "warning" or "note"
    kind: str
    where: str
    what: str
    do: str


def label_findings(data: Dataset, where: str) -> Iterator[Finding]:
    """Labels that teach nothing, or that are not grades."""
    if len(data.labels) == 0:
        yield Finding("error", "no documents", where, "There is no document.", "Check the files.")
        return
    grades = np.unique(data.labels)
    if len(grades) == 1:
        what = f"Every label is {grades[0]:g}."
        yield Finding("error", "one grade", where, what, "Nothing can be learned or measured: check the label column.")
        return
    if grades[0] < 0:
        what = f"The lowest label is {grades[0]:g}."
        yield Finding("error", "negative labels", where, what, "Shift or drop them: labels start at 0.")
    if (grades != np.floor(grades)).any():
        what = "Some labels are not whole numbers."
        yield Finding("note", "real labels", where, what, "Metrics with gain 2^y - 1 take them as they are.")
    if grades[-1] > 31:
        what = f"The highest label is {grades[-1]:g}, so its gain 2^y - 1 hides every other document."
        yield Finding("warning", "large labels", where, what, "Use gain='linear', or map the labels to grades.")
    yield from _list_findings(data, where)


def _list_findings(data: Dataset, where: str) -> Iterator[Finding]:
    lists, lengths = len(data), data.lengths
    empty = empty_lists(data)
    if empty:
        severity = "warning" if empty > lists / 2 else "note"
        what = f"{_of(empty, lists, 'lists')} hold no relevant document."
        do = "They teach nothing; say with the metric's empty= how they count, it moves every number."
        yield Finding(severity, "empty queries", where, what, do)
    starts = data.offsets[:-1][lengths > 0]
    flat = np.maximum.reduceat(data.labels, starts) == np.minimum.reduceat(data.labels, starts)
    same = int((flat & (np.maximum.reduceat(data.labels, starts) > 0) & (lengths[lengths > 0] > 1)).sum())
    if same:
        what = f"{_of(same, lists, 'lists')} hold one grade only, above 0."
        yield Finding("note", "one grade lists", where, what, "Any order of them is perfect: they teach nothing.")
    if single := int((lengths == 1).sum()):
        what = f"{_of(single, lists, 'lists')} hold a single document."
        yield Finding("note", "single documents", where, what, "They teach nothing, and flatter the mean of a metric.")
    if none := int((lengths == 0).sum()):
        what = f"{_of(none, lists, 'lists')} hold no document at all."
        yield Finding("note", "no documents", where, what, "They count as empty queries.")


def feature_findings(seen: Scan, where: str) -> Iterator[Finding]:
    """Columns that tell nothing, tell too much, or need preprocessing."""
    width = len(seen.low)
    bad = np.flatnonzero(seen.not_finite)
    if len(bad):
        what = f"{seen.not_finite.sum():,} values are NaN or infinite, in {_features(bad)}."
        yield Finding("error", "not finite", where, what, "Read the data with missing=0.0 or another fill.")
    constant = np.flatnonzero(seen.low == seen.high)
    if len(constant):
        what = f"{_features(constant)} {_are(constant)} constant."
        yield Finding("note", "constant features", where, what, "Leave them out, or leave them: they become 0.")
    copies = _copies(seen, set(constant.tolist()))
    if copies:
        shown = "; ".join(" = ".join(str(j + 1) for j in group) for group in copies[:5])
        more = f" and {len(copies) - 5} more groups" if len(copies) > 5 else ""
        what = f"Features are copies of each other: {shown}{more}."
        yield Finding("note", "duplicate features", where, what, "Keep one of each: a copy only adds weight.")
    strength = np.maximum(seen.agreement, 1 - seen.agreement)
    for j in np.flatnonzero(strength >= _NEARLY) if seen.pairs >= 100 else []:
        certain = strength[j] >= _GIVES_AWAY
        what = f"Feature {j + 1} alone orders {strength[j]:.1%} of {seen.pairs:,} pairs as the labels do."
        do = "Make sure that it is known before the label is; if it is made from it, leave it out."
        yield Finding("error" if certain else "warning", "label given away", where, what, do)
    filled = [j for j in range(width) if _has_fill(seen, j)]
    if filled:
        what = (
            f"{_features(filled)} {_are(filled)} never negative but for one value that looks like a fill for missing."
        )
        yield Finding(
            "warning", "missing fills", where, what, "Replace the fill by 0 or the mean before you standardise."
        )
    sound = seen.not_finite == 0
    huge = np.flatnonzero(sound & (np.maximum(np.abs(seen.low), np.abs(seen.high)) >= 1e30))
    if len(huge):
        what = f"{_features(huge)} {_reach(huge)} beyond 1e30, which looks like a fill for missing."
        yield Finding(
            "warning", "missing fills", where, what, "Replace the fill: nothing can be standardised beside it."
        )
    heavy = [j for j in range(width) if _is_heavy(seen, j)]
    if heavy:
        what = f"{_of(len(heavy), width, 'features')} have heavy tails: their largest value is over 1,000 medians."
        yield Finding("note", "heavy tails", where, what, "Preprocess with log1p,standardise.")


def document_findings(data: Dataset, seen: Scan, where: str) -> Iterator[Finding]:
    """The same document twice in a list; worse, with two labels."""
    owner = np.repeat(np.arange(len(data)), data.lengths)
    order = np.lexsort((data.labels, seen.rows, owner))
    hashes, labels, lists = seen.rows[order], data.labels[order], owner[order]
    again = (hashes[1:] == hashes[:-1]) & (lists[1:] == lists[:-1])
    if not again.any():
        return
    contradicts = again & (labels[1:] != labels[:-1])
    if count := int(contradicts.sum()):
        touched = len(np.unique(lists[1:][contradicts]))
        what = f"{_n(count, 'document')} in {_n(touched, 'list')} with the features of another, under another label."
        do = "No ranker can tell them apart: look for a lost feature or a join that doubled rows."
        yield Finding("warning", "contradicting documents", where, what, do)
    if count := int((again & ~contradicts).sum()):
        what = f"{_n(count, 'document')} with the features and the label of another in the list."
        yield Finding("note", "duplicate documents", where, what, "Drop the copies if they are the same document.")


def shared_findings(one: Dataset, other: Dataset, rows: tuple[Any, Any], where: str) -> Iterator[Finding]:
    """Queries, or whole documents, that two splits share; `rows` are the row hashes of both."""
    shared = np.intersect1d(one.qids.astype(str), other.qids.astype(str))
    if len(shared) == 0:
        return
    same = int(np.isin(rows[1][np.isin(other.row_qids.astype(str), shared)], rows[0]).sum())
    what = f"{_n(len(shared), 'query id')} in both ({_some(shared)})"
    if same:
        what = f"{what}, and {_n(same, 'document')} of them too."
        yield Finding(
            "error", "shared queries", where, what, "Split by query again: the result would flatter the ranker."
        )
    else:
        do = "If numbering starts anew in each file, all is well; if not, split by query again."
        yield Finding("warning", "shared queries", where, f"{what}, with no document in common.", do)


def _copies(seen: Scan, constant: set[int]) -> list[list[int]]:
    groups: dict[int, list[int]] = {}
    for j, key in enumerate(seen.columns.tolist()):
        if j not in constant:
            groups.setdefault(key, []).append(j)
    return [group for group in groups.values() if len(group) > 1]


def _has_fill(seen: Scan, j: int) -> bool:
    if seen.low[j] not in _FILLS or seen.low[j] == seen.high[j]:
        return False
    x = seen.sample[:, j]
    others = x[x != seen.low[j]]
    return len(others) < len(x) and len(others) > 0 and bool(others.min() >= 0)


def _is_heavy(seen: Scan, j: int) -> bool:
    size = np.abs(seen.sample[:, j])
    size = size[np.isfinite(size) & (size > 0)]
    return len(size) > 20 and bool(size.max() > 1_000 * np.median(size))


def _features(columns: Sequence[int] | np.ndarray) -> str:
    return f"{'Feature' if len(columns) == 1 else 'Features'} {_some([int(j) + 1 for j in columns])}"


def _are(columns: Sequence[int] | np.ndarray) -> str:
    return "is" if len(columns) == 1 else "are"


def _reach(columns: Sequence[int] | np.ndarray) -> str:
    return "reaches" if len(columns) == 1 else "reach"


def _some(names: Sequence[Any] | np.ndarray) -> str:
    shown = ", ".join(str(name) for name in names[:8])
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"


def _n(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _of(count: int, total: int, what: str) -> str:
    return f"{count:,} of {total:,} {what} ({count / max(total, 1):.0%})"
