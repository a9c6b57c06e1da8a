"""Published facts about the benchmark sets, and a comparison of the data with these facts."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rankgrad.data.dataset import Dataset, Splits


class BenchmarkWarning(UserWarning):
    """Warning that a benchmark set differs from the published facts about it."""


@dataclass(frozen=True)
class BenchmarkFacts:
    """Published facts about a benchmark set. A field is None if no reliable number is published.

    `queries`, `documents`, `empty` and `labels` are totals of all splits.
    """

    name: str
    aliases: tuple[str, ...] = ()
    queries: int | None = None
    documents: int | None = None
    documents_within: float = 0.0  # allowed relative difference from `documents`, if the published number is rounded
    features: int | None = None
    grades: int | None = None
    empty: int | None = None  # number of queries without a relevant document
    labels: tuple[int, ...] | None = None  # number of documents per grade, starting with grade 0
    folds: int = 0
    parts: tuple[int, ...] | None = None  # number of queries in each of the files S1 to S5
    train: int | None = None  # number of training queries, in fold 1 if there are folds
    test: int | None = None  # number of test queries, in fold 1 if there are folds
    sparse: bool = False  # True if rows omit zeros; the files then do not determine the number of features
    missing: float | Literal["error"] = "error"  # default of `missing` in `load`
    holdout: float = 0.0  # share of the training queries that becomes the validation part
    note: str = ""


FOLD_PARTS = {  # fold -> training parts, validation part, test part
    1: ((1, 2, 3), (4,), (5,)),
    2: ((2, 3, 4), (5,), (1,)),
    3: ((3, 4, 5), (1,), (2,)),
    4: ((4, 5, 1), (2,), (3,)),
    5: ((5, 1, 2), (3,), (4,)),
}

BENCHMARKS = (
    BenchmarkFacts(
        "MQ2007", ("LETOR-MQ2007",), 1_692, 69_623, features=46, grades=3, folds=5, parts=(339, 339, 339, 339, 336)
    ),
    BenchmarkFacts(
        "MQ2008",
        ("LETOR-MQ2008",),
        784,
        15_211,
        features=46,
        grades=3,
        empty=220,
        labels=(12_279, 2_001, 931),
        folds=5,
        parts=(157, 157, 157, 157, 156),
    ),
    BenchmarkFacts("OHSUMED", (), 106, 16_140, features=45, folds=5),
    BenchmarkFacts(
        "MSLR-WEB10K",
        ("WEB10K", "MSLR10K", "MSLR-10K"),
        10_000,
        1_200_000,
        documents_within=0.05,
        features=136,
        grades=5,
        folds=5,
    ),
    BenchmarkFacts(
        "MSLR-WEB30K",
        ("WEB30K", "MSLR30K", "MSLR-30K"),
        31_531,
        3_771_125,
        features=136,
        grades=5,
        empty=982,
        folds=5,
        train=18_919,
        test=6_306,
    ),
    BenchmarkFacts(
        "Yahoo-Set1",
        ("Yahoo", "YLTR", "LTRC", "LTRC-Yahoo", "Yahoo-Set-1", "Yahoo-LTRC"),
        29_921,
        709_877,
        features=699,
        grades=5,
        sparse=True,
        note="519 of the 699 features are used",
    ),
    BenchmarkFacts(
        "Istella",
        ("Istella-full", "Istella-LETOR"),
        33_018,
        10_454_629,
        features=220,
        grades=5,
        empty=50,
        train=23_219,
        test=9_799,
        missing=0.0,
        holdout=0.2,
        note="no validation part: a fifth of the training queries is held out",
    ),
    BenchmarkFacts("Istella-S", ("Istella-S-LETOR",), None, 3_408_630, features=220, grades=5, missing=0.0),
    BenchmarkFacts("Istella-X", ("Istella-X-LETOR",), None, 26_791_447, features=220, grades=5, missing=0.0),
)


def verify(facts: BenchmarkFacts, splits: Splits, *, fold: int | None = None) -> list[str]:
    """Compare a benchmark set with its published facts; return a description of each difference, and warn about them.

    Args:
        facts: published facts about the set.
        splits: splits from the files, before lists are held out.
        fold: number of the fold; None for a set without folds.
    """
    parts = [part for part in (splits.train, splits.validation, splits.test) if part is not None]
    differences = [sentence for sentence in _differences(facts, parts, splits, fold) if sentence]
    if differences:
        name = f"{facts.name}, fold {fold}" if fold else facts.name
        warnings.warn(
            f"{name} differs from the published facts: {'; '.join(differences)}", BenchmarkWarning, stacklevel=3
        )
    return differences


def _differences(facts: BenchmarkFacts, parts: list[Dataset], splits: Splits, fold: int | None) -> Iterator[str]:
    labels = np.concatenate([part.labels for part in parts])
    yield _count("queries", facts.queries, sum(len(part) for part in parts))
    yield _count("documents", facts.documents, len(labels), within=facts.documents_within)
    yield _count("features", facts.features, splits.train.features.shape[1])
    if facts.grades is not None and len(labels) and not _are_grades(labels, facts.grades):
        yield f"labels 0 to {facts.grades - 1} expected, {labels.min():g} to {labels.max():g} found"
    if facts.labels is not None:
        for grade, documents in enumerate(facts.labels):
            yield _count(f"documents of grade {grade}", documents, int((labels == grade).sum()))
    if facts.empty is not None:
        yield _count("queries without a relevant document", facts.empty, sum(empty_lists(part) for part in parts))
    if facts.parts is not None and fold:
        for name, numbers in zip(("train", "validation", "test"), FOLD_PARTS[fold], strict=True):
            part = getattr(splits, name)
            if part is not None:
                yield _count(f"{name} queries", sum(facts.parts[number - 1] for number in numbers), len(part))
    if fold in (None, 1):
        yield _count("train queries", facts.train, len(splits.train))
        yield _count("test queries", facts.test, len(splits.test) if splits.test is not None else 0)


def empty_lists(dataset: Dataset) -> int:
    """Return the number of lists without a relevant document (label above 0)."""
    relevant = np.concatenate([[0], np.cumsum(dataset.labels > 0)])[dataset.offsets]
    return int((np.diff(relevant) == 0).sum())


def _are_grades(labels: np.ndarray, grades: int) -> bool:
    return bool(labels.min() >= 0 and labels.max() <= grades - 1 and (labels == np.floor(labels)).all())


def _count(what: str, expected: int | None, found: int, within: float = 0.0) -> str:
    if expected is None or abs(found - expected) <= within * expected:
        return ""
    by = f"{abs(found - expected):,} {'more' if found > expected else 'fewer'}"
    return f"{expected:,} {what} expected, {found:,} found ({by})"
