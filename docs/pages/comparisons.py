"""Write the results of tests in tables: differences, intervals, p-values after Holm's correction, power."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.experiments.seed_variance import RunValues, compare_runs
from rankgrad.experiments.statistics import holm

HEAD = ["difference", "95% interval", "p (Holm)", "detectable"]
LEVEL = 0.05
Comparison = Mapping[str, Any]  # difference, low, high and detectable in percent, and p


def paired(a: Any, b: Any, folds: Any = None) -> dict[str, float]:
    """Compare two rows whose runs have the same seeds: the differences per seed and query are tested.

    Args:
        a, b: values, `(seeds, queries)`.
        folds: fold of each query, `(queries,)`; None for one fold.
    """
    gaps = np.asarray(a) - np.asarray(b)
    found = compare_runs(RunValues(gaps, folds), RunValues(np.zeros_like(gaps), folds))
    low, high = found.interval
    parts = {"difference": found.difference, "low": low, "high": high, "detectable": found.detectable}
    return {**{name: 100 * part for name, part in parts.items()}, "p": found.p}


def adjusted(rows: Sequence[Comparison]) -> NDArray[np.float64]:
    """Return the p-values of the comparisons of one table after Holm's correction, `(rows,)`."""
    return holm([row["p"] for row in rows])


def cells(row: Comparison, p: float) -> list[str]:
    """Return the cells of a comparison below `HEAD`; p is its p-value after the correction."""
    interval = f"{row['low']:+.2f} to {row['high']:+.2f}"
    return [f"{row['difference']:+.2f}", interval, p_value(p), f"{row['detectable']:.2f}"]


def p_value(p: float) -> str:
    """Return a p-value with three digits."""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def phrase(row: Comparison, p: float) -> str:
    """Return a comparison as a part of a sentence."""
    shown = p_value(p)
    equals = shown if shown.startswith("<") else f"= {shown}"
    return f"{row['difference']:+.2f} ({row['low']:+.2f} to {row['high']:+.2f}, p {equals})"
