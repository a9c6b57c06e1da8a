"""Read the results of `measure.py`."""

import json
import lzma
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pages.comparisons import paired

FILE = Path(__file__).parent / "results.json.xz"
Array = NDArray[np.float64]


@lru_cache(maxsize=1)
def study() -> dict[str, Any]:
    """Return the packed results."""
    found: dict[str, Any] = json.loads(lzma.decompress(FILE.read_bytes()))
    return found


def facts() -> dict[str, Any]:
    """Return versions, settings and counts of the study."""
    found: dict[str, Any] = study()["facts"]
    return found


def sizes(place: str) -> list[int]:
    """Return the numbers of training lists of generated lists."""
    return sorted(map(int, study()[place]["achievable"]["values"]))


class Rows:
    """The rows of one part of the study: a set with folds and seeds, or generated lists with replicates.

    Args:
        place: part, model and data, such as `"sets lightgbm MQ2008"` or `"generated mlp level"`.
        size: number of training lists of generated lists; None for sets.
    """

    def __init__(self, place: str, size: int | None = None) -> None:
        self.found, self.size = study()[place], size
        self.folds: NDArray[Any] | None = None
        if size is None:
            first = next(iter(self.found.values()))["values"]
            lengths = [len(first[fold]["0"]) for fold in sorted(first)]
            self.folds = np.repeat(np.arange(len(lengths)), lengths)

    def values(self, row: str, key: str = "values") -> Array:
        """Return the values of a row: `(seeds, queries)` for sets, `(1, replicates)` for generated lists."""
        by_number = self.found[row][key]
        if self.size is not None:
            by_seed = by_number[str(self.size)]
            return np.array([[by_seed[seed] for seed in sorted(by_seed, key=int)]])
        folds = [by_number[fold] for fold in sorted(by_number)]
        return np.concatenate(
            [np.array([f[seed] for seed in sorted(f, key=int)]).reshape(len(f), -1) for f in folds], 1
        )

    def mean(self, *rows: str) -> float:
        """Return the mean of one or several rows, in percent."""
        return 100 * float(np.mean([self.values(row) for row in rows]))

    def regret(self, row: str) -> float:
        """Return the mean regret of a row of generated lists, in percent."""
        return self.mean("achievable") - self.mean(row)

    def compare(self, after: str | list[str], before: str | list[str]) -> dict[str, float]:
        """Compare two rows, or two groups of rows, whose means are compared; all rows have the same seeds."""
        one, two = (
            np.mean([self.values(row) for row in ([rows] if isinstance(rows, str) else rows)], axis=0)
            for rows in (after, before)
        )
        return paired(one, two, self.folds)
