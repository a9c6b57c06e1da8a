"""Inspect a data set before training: compute statistics, and find problems that would make a result invalid."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from rankgrad.data.benchmarks import empty_lists
from rankgrad.data.dataset import Dataset, Splits
from rankgrad.data.inspection_checks import (
    SEVERITIES,
    Finding,
    document_findings,
    feature_findings,
    label_findings,
    missing_findings,
    shared_findings,
)
from rankgrad.data.inspection_scan import SAMPLE, Scan, scan
from rankgrad.errors import bad_type, name_settings
from rankgrad.result_table import ResultTable

_BINS = 16
_BARS = " ▁▂▃▄▅▆▇█"
_ROWS = ("lists", "documents", "features", "lengths 0-10-50-90-100%", "", "none relevant", "documents by label")


@dataclass(frozen=True)
class Overview:
    """Statistics of one split of an inspected data set."""

    name: str
    lists: int
    documents: int
    features: int
    lengths: tuple[int, ...]  # list lengths: minimum, 10% quantile, median, 90% quantile, maximum
    histogram: tuple[int, ...]  # number of lists in each of 16 equal bins from the minimum to the maximum length
    grades: dict[str, int]  # number of documents per label, for at most the 10 most common labels
    empty: int  # number of lists without a relevant document
    sampled: bool  # True if the findings about values are computed from a sample of rows


@dataclass(frozen=True)
class Inspection(ResultTable):
    """Result of `inspect`: an overview of each split, and the findings in order of decreasing severity."""

    splits: tuple[Overview, ...]
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> int:
        """Number of findings that would make a result invalid."""
        return sum(finding.severity == "error" for finding in self.findings)

    def rows(self) -> list[tuple[str, ...]]:
        """Return the overviews as a table of text: a header, then one row per statistic and one column per split."""
        columns = [[split.name, *_column(split)] for split in self.splits]
        return list(zip_longest(["", *_ROWS], *columns, fillvalue=""))

    def notes(self) -> list[str]:
        """Return one line per finding, with its advice."""
        found = [f"{finding.severity} {finding.where}: {finding.what} {finding.do}" for finding in self.findings]
        return found or ["No problems found."]

    def to_json(self) -> dict[str, Any]:
        """Return the inspection as lists and dictionaries, for JSON."""
        return {"splits": [asdict(split) for split in self.splits], "findings": [asdict(f) for f in self.findings]}


def inspect(data: Splits | Dataset) -> Inspection:
    """Inspect a data set or its splits. Mapped data is read in blocks, so little memory is needed.

    Counts and duplicates are exact. Statistics of values (fill values, heavy tails, features that reveal the label) are
    computed from at most 50,000 rows and 50,000 document pairs per split. `Overview.sampled` is True if the split has
    more rows.

    Args:
        data: a `Dataset`, or `Splits`; splits are also compared with each other.

    Example:
        >>> x = np.array([[1, 0], [2, 0], [3, 0]], dtype=np.float32)
        >>> found = inspect(Dataset(x, np.array([0.0, 1.0, 2.0]), np.array([0, 3]), np.array(["q"])))
        >>> found.splits[0].grades, [finding.kind for finding in found.findings]
        ({'0': 1, '1': 1, '2': 1}, ['constant features'])
    """
    if isinstance(data, Dataset):
        parts = {data.name or "data": data}
    elif isinstance(data, Splits):
        parts = data.parts()
    else:
        bad_type("data", "be a Dataset or Splits", type(data).__name__)
    scans = {name: scan(part) for name, part in parts.items()}
    found = sorted(_findings(parts, scans), key=lambda finding: SEVERITIES.index(finding.severity))
    return Inspection(tuple(_overview(name, part) for name, part in parts.items()), tuple(found))


def _findings(parts: dict[str, Dataset], scans: dict[str, Scan]) -> Iterator[Finding]:
    for name, part in parts.items():
        yield from label_findings(part, name)
        if len(part.labels):
            yield from document_findings(part, scans[name], name)
    # Features are checked only in the first split (train): the other splits would repeat the findings.
    first = next(iter(parts))
    if len(parts[first].labels):
        yield from missing_findings(parts[first], scans[first], first)
        yield from feature_findings(scans[first], first, parts[first].feature_names)
    widths = {name: part.features.shape[1] for name, part in parts.items()}
    if len(set(widths.values())) > 1:
        what = f"The splits have {', '.join(f'{width} features ({name})' for name, width in widths.items())}."
        yield Finding(
            "error",
            "widths differ",
            "all",
            what,
            name_settings("Read all splits with {features=} set to the largest of these numbers."),
        )
    names = list(parts)
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            rows = (scans[one].rows, scans[other].rows)
            yield from shared_findings(parts[one], parts[other], rows, f"{one}, {other}")


def _column(split: Overview) -> list[str]:
    """Return the cells of a split in the table of an inspection; the labels have one cell each."""
    most = max([*split.histogram, 1])
    # Every length that occurs gets at least the lowest bar.
    bars = "".join(_BARS[min(8, -(-8 * lists // most))] for lists in split.histogram)
    grades = [f"{grade}: {count:,} ({count / split.documents:.1%})" for grade, count in split.grades.items()]
    sizes = (f"{split.lists:,}", f"{split.documents:,}", f"{split.features}")
    return [*sizes, " ".join(map(str, split.lengths)), bars, f"{split.empty:,}", *grades]


def _overview(name: str, data: Dataset) -> Overview:
    lengths = data.lengths if len(data) else np.zeros(1, dtype=np.int64)
    values, counts = np.unique(data.labels, return_counts=True)
    common = np.sort(np.argsort(-counts, kind="stable")[:10])
    return Overview(
        name=name,
        lists=len(data),
        documents=len(data.labels),
        features=data.features.shape[1],
        lengths=tuple(int(q) for q in np.quantile(lengths, [0, 0.1, 0.5, 0.9, 1], method="nearest")),
        histogram=tuple(np.histogram(lengths, bins=_BINS)[0].tolist()) if len(data) else (),
        grades={f"{values[i]:g}": int(counts[i]) for i in common},
        empty=empty_lists(data),
        sampled=len(data.labels) > SAMPLE,
    )
