"""Compute intervals of a mean over few lists. Bootstrap intervals of few lists would be too narrow."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

FEW = 40  # with fewer lists, intervals are those of Student's t distribution
ROUGH = 10  # with fewer lists, these intervals are also rough: a mean of so few values is often not normal


def t_interval(values: NDArray[np.float64], confidence: float) -> tuple[float, float]:
    """Return the interval of Student's t distribution for the mean. For fewer than two values, it has no width.

    Args:
        values: value of each list, `(lists,)`, without NaN.
        confidence: share of the intervals that contain the true mean, if the mean is normally distributed.
    """
    n = len(values)
    mean = float(values.mean()) if n else 0.0
    half = float(values.std(ddof=1)) * half_interval(n, confidence) if n > 1 else 0.0
    return mean - half, mean + half


def half_interval(n: int, confidence: float = 0.95) -> float:
    """Return half the width of the interval of a mean of `n` values, for values with standard deviation 1.

    The interval is that of Student's t distribution.

    Args:
        n: number of values, at least 2.
        confidence: confidence of the interval.

    Example:
        >>> round(half_interval(5), 4)
        1.2417
    """
    from scipy.special import stdtrit

    return float(stdtrit(n - 1, (1 + confidence) / 2)) / n**0.5


def note_about(lists: Any) -> str:
    """Return the note that intervals are rough, or an empty text. `lists` contains numbers of lists, of each metric."""
    few = min((count for count in lists if count), default=ROUGH)
    return f"intervals are rough: they are over fewer than {ROUGH} lists" if few < ROUGH else ""
