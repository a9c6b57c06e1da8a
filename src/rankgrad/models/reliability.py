"""Compare probabilities with labels: expected calibration error (ECE), Brier score and the bins of a plot.

The documents are sorted by probability and divided into bins of about the same size. Documents with equal probabilities
are in the same bin. In each bin, the mean probability is compared with the share of relevant documents. The ECE is the
mean of the absolute differences, weighted by the number of documents. Noise in the labels increases the ECE: with few
documents, even exact probabilities have an ECE above 0.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.errors import bad_value

Array = NDArray[np.float64]

BINS, CONFIDENCE = 15, 0.95


@dataclass(frozen=True)
class Reliability:
    """Agreement of probabilities with labels. `str(...)` returns a table with one row per bin."""

    event: str  # event whose probabilities are measured, such as `label > 0`
    ece: float  # expected calibration error
    interval: tuple[float, float]  # bootstrap interval of the ECE over the lists
    brier: float  # mean squared difference between the probability and the event (1: true, 0: false)
    predicted: Array  # mean probability of each bin, `(bins,)`
    observed: Array  # share of the documents of each bin for which the event is true, `(bins,)`
    low: Array  # lower ends of the bootstrap intervals of `observed`, `(bins,)`
    high: Array  # upper ends of the bootstrap intervals of `observed`, `(bins,)`
    counts: NDArray[np.int64]  # number of documents of each bin, `(bins,)`
    lists: int  # number of lists

    def __str__(self) -> str:
        head = (
            f"{self.event}: ECE {self.ece:.4f} [{self.interval[0]:.4f}, {self.interval[1]:.4f}], Brier {self.brier:.4f}"
        )
        bins = zip(self.predicted, self.observed, self.counts, strict=True)
        rows = [f"{mean:11.4f}  {share:8.4f}  {count:9d}" for mean, share, count in bins]
        return "\n".join([head, "probability  observed  documents", *rows])

    def row(self) -> tuple[str, ...]:
        """Return the row of the ECE in a table of metrics: name, value, interval, lists, event, empty cells."""
        low, high = self.interval
        return ("ECE", f"{self.ece:.4f}", f"[{low:.4f}, {high:.4f}]", str(self.lists), self.event, "", "", "")

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers of the reliability as JSON values."""
        about: dict[str, Any] = {"event": self.event, "ece": self.ece, "interval": [*self.interval]}
        names = ("predicted", "observed", "low", "high", "counts")
        bins = zip(*(getattr(self, name).tolist() for name in names), strict=True)
        return {
            **about, "brier": self.brier, "lists": self.lists,
            "bins": [dict(zip(names, row, strict=True)) for row in bins],
        }  # fmt: skip


def expected_calibration_error(probabilities: Any, relevant: Any, bins: int = BINS) -> float:
    """Return the expected calibration error of probabilities. All bins have about the same number of documents.

    Args:
        probabilities: probability of each document, `(documents,)`.
        relevant: True for each document for which the event is true, `(documents,)`.
        bins: maximum number of bins.

    Example:
        >>> expected_calibration_error([0.2, 0.2, 0.8, 0.8], [False, False, True, False], bins=2)
        0.25
    """
    given, event = _checked(probabilities, relevant, bins)
    gaps = np.bincount(equal_bins(given, bins), given - event)
    return float(np.abs(gaps).sum() / len(given))


def measure_reliability(
    probabilities: Any,
    relevant: Any,
    offsets: Any,
    *,
    event: str = "label > 0",
    bins: int = BINS,
    bootstrap: int = 1000,
    seed: int = 0,
) -> Reliability:
    """Compare probabilities of documents with labels; intervals are from bootstrap samples of the lists.

    `containing_interval` computes the interval of the ECE. A bootstrap sample has more noise per bin than the original
    lists. Therefore, the ECE of the samples is higher on average, and the upper end of the interval is conservative.

    Args:
        probabilities: probability of each document, `(documents,)`.
        relevant: True for each document for which the event is true, `(documents,)`.
        offsets: offsets of the lists, `(lists + 1,)`.
        event: name of the event.
        bins: maximum number of bins.
        bootstrap: number of bootstrap samples.
        seed: random seed of the bootstrap.
    """
    given, truth = _checked(probabilities, relevant, bins)
    places = np.asarray(offsets, dtype=np.int64)
    if places[-1] != len(given):
        bad_value("offsets", f"end with {len(given)}, the number of documents", places[-1])
    lengths = np.diff(places)
    lengths = lengths[lengths > 0]  # empty lists have no effect
    owner = np.repeat(np.arange(len(lengths)), lengths)
    _, chosen = np.unique(equal_bins(given, bins), return_inverse=True)
    sums = np.stack([list_sums(values, owner, chosen, len(lengths)) for values in (given, truth, np.ones_like(given))])
    predicted, hits, counts = sums.sum(axis=1)  # (bins,) each
    ece = float(np.abs(predicted - hits).sum() / len(given))
    drawn = resampled(len(lengths), bootstrap, seed) @ sums  # (3, samples, bins)
    samples = np.abs(drawn[0] - drawn[1]).sum(axis=1) / drawn[2].sum(axis=1)
    with np.errstate(invalid="ignore"):
        shares = drawn[1] / drawn[2]  # NaN if a sample has no document in the bin
    ends = np.nanquantile(shares, [0.5 - CONFIDENCE / 2, 0.5 + CONFIDENCE / 2], axis=0)
    return Reliability(
        event, ece, containing_interval(ece, samples), float(((given - truth) ** 2).mean()), predicted / counts,
        hits / counts, ends[0], ends[1], counts.astype(np.int64), len(places) - 1,
    )  # fmt: skip


def equal_bins(probabilities: Array, bins: int) -> NDArray[np.int64]:
    """Return the reliability bin of each document. All bins have about the same size; equal probabilities share a bin.

    Args:
        probabilities: probability of each document, `(documents,)`.
        bins: maximum number of bins.
    """
    below = np.searchsorted(np.sort(probabilities), probabilities, side="left")
    return (below * bins // max(len(probabilities), 1)).astype(np.int64)


def list_sums(values: Array, owner: NDArray[np.int64], bins: NDArray[np.int64], lists: int) -> Array:
    """Return the sums of values per list and reliability bin, `(lists, bins)`.

    Args:
        values: one value per document, `(documents,)`.
        owner: index of the list of each document, `(documents,)`.
        bins: index of the bin of each document, `(documents,)`.
        lists: number of lists.
    """
    count = int(bins.max(initial=0)) + 1
    found: Array = np.bincount(owner * count + bins, values, minlength=lists * count).astype(np.float64)
    return found.reshape(lists, count)


def resampled(lists: int, samples: int, seed: int) -> Array:
    """Return how often each bootstrap sample for the ECE contains each list, `(samples, lists)`. No sample is empty.

    Args:
        lists: number of lists.
        samples: number of samples.
        seed: random seed.
    """
    drawn = np.random.default_rng(seed).multinomial(lists, np.full(lists, 1 / lists), size=samples)
    return drawn.astype(np.float64)


def containing_interval(value: float, samples: Array) -> tuple[float, float]:
    """Return the percentile bootstrap interval of an ECE, extended so that it contains the value.

    The ECE of bootstrap samples is biased upwards, so all percentiles of the samples may be above the value.

    Args:
        value: value on the original lists.
        samples: values of the bootstrap samples.
    """
    low, high = np.quantile(samples[np.isfinite(samples)], [0.5 - CONFIDENCE / 2, 0.5 + CONFIDENCE / 2])
    return min(value, float(low)), max(value, float(high))


def _checked(probabilities: Any, relevant: Any, bins: int) -> tuple[Array, Array]:
    given, truth = np.asarray(probabilities, dtype=np.float64), np.asarray(relevant, dtype=np.float64)
    if isinstance(bins, bool) or not isinstance(bins, int | np.integer) or bins < 1:
        bad_value("bins", "be an integer of at least 1", bins)
    if given.ndim != 1 or given.shape != truth.shape:
        bad_value("probabilities", "have the shape of `relevant`, (documents,)", f"{given.shape} and {truth.shape}")
    if not len(given):
        bad_value("probabilities", "be those of at least one document", "no documents")
    if not ((given >= 0) & (given <= 1)).all():
        bad_value("probabilities", "be from 0 to 1", "NaN or a value outside of this range")
    return given, truth
