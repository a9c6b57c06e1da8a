"""Calibrate a trained model: fit functions from its scores to probabilities, on lists that are not training lists.

A calibration has one function per event `label > t`; the function returns the probability of the event. The target
`binary` has one event. The target `grade` has one event per grade t except the highest; the probability of each grade
and the expected grade are computed from the probabilities of these events. All functions are non-decreasing: a document
with a higher score never has a lower probability. But it can have the same probability, because isotonic functions have
constant parts. Therefore, documents are still ranked by score, and the probability is an additional output.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.atomic_files import read_json, write_json
from rankgrad.data import Dataset
from rankgrad.errors import bad_value, name_settings, one_of
from rankgrad.models.folder import CALIBRATION
from rankgrad.models.reliability import BINS, Reliability, measure_reliability

if TYPE_CHECKING:
    from rankgrad.models.protocol import TrainedModel

Array = NDArray[np.float64]

METHODS, TARGETS = ("isotonic", "platt"), ("binary", "grade")
MOST_GRADES = 64  # labels with more different values are not grades
FOLDS = 5  # number of folds of the cross-validation of a calibration


@dataclass(frozen=True)
class LogisticCurve:
    """Platt's function of a score: the sigmoid of `slope * score + intercept`."""

    slope: float
    intercept: float

    def __call__(self, scores: Array) -> Array:
        from scipy.special import expit

        finite = np.nan_to_num(scores, nan=np.nan)  # 0 * infinity would be NaN
        with np.errstate(over="ignore"):
            found: Array = expit(self.slope * finite + self.intercept)
        return found

    @classmethod
    def fit(cls, scores: Array, relevant: NDArray[np.bool_]) -> "LogisticCurve":
        """Fit Platt's function by maximum likelihood. The slope is finite even if the scores separate the labels.

        If the event is true for P documents and false for N documents, the targets are (P + 1) / (P + 2) and
        1 / (N + 2). If the best slope is negative, the function is constant.
        """
        from sklearn.linear_model import LogisticRegression

        if scores.min() == scores.max():
            bad_value("scores", "differ between documents", "equal scores")
        largest = float(np.abs(scores).max())  # the squares of scores / largest do not overflow
        unit = scores / largest
        centre, spread = float(unit.mean()), float(unit.std())
        positive, negative = int(relevant.sum()), int((~relevant).sum())
        targets = np.where(relevant, (positive + 1) / (positive + 2), 1 / (negative + 2))
        rows = np.concatenate([unit, unit])[:, None]
        kinds = np.repeat([1, 0], len(scores))
        weights = np.concatenate([targets, 1 - targets])
        solver = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-10, max_iter=200)
        solver.fit((rows - centre) / spread, kinds, sample_weight=weights)
        slope = float(solver.coef_[0, 0]) / spread
        if slope > 0:
            if not math.isfinite(slope / largest):
                got = f"{spread * largest:g}"
                bad_value("scores", "have a larger standard deviation for the method platt", got)
            return cls(slope / largest, float(solver.intercept_[0]) - slope * centre)
        text = "the scores are not higher for relevant documents than for others: all probabilities are equal"
        warnings.warn(text, stacklevel=3)
        mean = float(targets.mean())  # the most likely function that does not decrease
        return cls(0.0, math.log(mean / (1 - mean)))

    def to_json(self) -> dict[str, Any]:
        """Return slope and intercept of Platt's function as JSON values."""
        return {"slope": self.slope, "intercept": self.intercept}

    @classmethod
    def from_json(cls, known: Any) -> "LogisticCurve":
        """Return Platt's function that `to_json` described; raise an error if the JSON values are wrong."""
        slope, intercept = _numbers([known["slope"], known["intercept"]]).tolist()
        if slope < 0:
            bad_value("slope", "be at least 0", slope)
        return cls(slope, intercept)


@dataclass(frozen=True)
class IsotonicCurve:
    """Isotonic function of a score: non-decreasing, linear between the knots and constant beyond the outer knots."""

    knots: tuple[float, ...]  # scores, increasing
    values: tuple[float, ...]  # probabilities at the knots, non-decreasing

    def __call__(self, scores: Array) -> Array:
        return np.interp(scores, self.knots, self.values)

    @classmethod
    def fit(cls, scores: Array, relevant: NDArray[np.bool_]) -> "IsotonicCurve":
        """Fit the isotonic function by least squares, with scikit-learn.

        The fit depends only on the order of the scores. It gets their positions in the sorted scores, because
        scikit-learn would treat scores as equal if they differ by less than 1e-15.
        """
        from sklearn.isotonic import IsotonicRegression

        different, places = np.unique(scores, return_inverse=True)
        found = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(places, relevant.astype(np.float64))
        return cls(tuple(different[found.X_thresholds_.astype(int)].tolist()), tuple(found.y_thresholds_.tolist()))

    def to_json(self) -> dict[str, Any]:
        """Return knots and values of the isotonic function as JSON values."""
        return {"knots": [*self.knots], "values": [*self.values]}

    @classmethod
    def from_json(cls, known: Any) -> "IsotonicCurve":
        """Return the isotonic function that `to_json` described; raise an error if the JSON values are wrong."""
        knots, values = _numbers(known["knots"]), _numbers(known["values"])
        if len(knots) != len(values) or not len(knots) or (np.diff(knots) <= 0).any():
            bad_value("knots", "increase, and have one value per knot", f"{len(knots)} knots and {len(values)} values")
        if (np.diff(values) < 0).any() or values[0] < 0 or values[-1] > 1:
            bad_value("values", "be from 0 to 1 and not decrease", "values that are outside of this range or decrease")
        return cls(tuple(knots.tolist()), tuple(values.tolist()))


Curve = LogisticCurve | IsotonicCurve
_CURVES: dict[str, type[LogisticCurve] | type[IsotonicCurve]] = {"platt": LogisticCurve, "isotonic": IsotonicCurve}


@dataclass(frozen=True)
class Calibration:
    """Functions from the scores of a model to probabilities.

    Example:
        >>> one = Calibration("platt", "binary", (0.0, 1.0), (0.0,), (LogisticCurve(2.0, 0.0),))
        >>> one.values([0.0, 1.0]).round(3).tolist()
        [0.5, 0.881]
    """

    method: str  # one of `METHODS`
    target: str  # one of `TARGETS`
    grades: tuple[float, ...]  # for `grade`, the grades, the lowest grade first; for `binary`, 0 and 1
    thresholds: tuple[float, ...]  # threshold t of each event `label > t`, increasing
    curves: tuple[Curve, ...]  # function of each event
    lists: int = 0  # number of lists on which the functions were fitted
    documents: int = 0  # number of documents on which the functions were fitted

    def cumulative(self, scores: Any) -> Array:
        """Return calibrated probabilities of the events `label > t`, `(documents, events)`; they never increase with t.

        Args:
            scores: scores of the model, `(documents,)`.
        """
        given = np.asarray(scores, dtype=np.float64)
        # Logistic functions of two events may cross; the minimum keeps them in order, and non-decreasing.
        return np.minimum.accumulate(np.stack([curve(given) for curve in self.curves], axis=-1), axis=-1)

    def probabilities(self, scores: Any) -> Array:
        """Return the calibrated probability of each grade, `(documents, grades)`; for `binary`, the grades are 0 and 1.

        Args:
            scores: scores of the model, `(documents,)`.
        """
        above = self.cumulative(scores)
        edge = np.ones((*above.shape[:-1], 1))
        return -np.diff(np.concatenate([edge, above, 0 * edge], axis=-1), axis=-1)

    def values(self, scores: Any) -> Array:
        """Return one calibrated number per document, `(documents,)`: the probability, or the expected grade.

        Args:
            scores: scores of the model, `(documents,)`.
        """
        found: Array = self.grades[0] + self.cumulative(scores) @ np.diff(self.grades)
        return found

    @property
    def meaning(self) -> str:
        """Name for a column of calibrated `values`: `probability` or `expected_grade`."""
        return "probability" if self.target == "binary" else "expected_grade"

    @property
    def events(self) -> tuple[str, ...]:
        """Names of the events of the calibration, such as `label > 0`."""
        return tuple(f"label > {threshold:g}" for threshold in self.thresholds)

    def to_json(self) -> dict[str, Any]:
        """Return the calibration as JSON values."""
        about = {"method": self.method, "target": self.target, "lists": self.lists, "documents": self.documents}
        curves = [curve.to_json() for curve in self.curves]
        return {**about, "grades": [*self.grades], "thresholds": [*self.thresholds], "curves": curves}

    @classmethod
    def from_json(cls, known: dict[str, Any]) -> "Calibration":
        """Return the calibration that `to_json` described; raise an error if the JSON values are wrong.

        Args:
            known: return value of `to_json`.
        """
        one_of("method", known["method"], METHODS)
        one_of("target", known["target"], TARGETS)
        grades, thresholds = _numbers(known["grades"]), _numbers(known["thresholds"])
        curves = tuple(_CURVES[known["method"]].from_json(each) for each in known["curves"])
        if not len(curves) == len(thresholds) == len(grades) - 1 or not curves:
            bad_value(
                "number of curves", "be the number of thresholds, and 1 less than the number of grades", len(curves)
            )
        if (np.diff(grades) <= 0).any() or (np.diff(thresholds) <= 0).any():
            bad_value("grades and thresholds", "increase", "numbers that do not increase")
        counts = (int(known.get("lists", 0)), int(known.get("documents", 0)))
        return cls(
            known["method"], known["target"], tuple(grades.tolist()), tuple(thresholds.tolist()), curves, *counts
        )


def fit_calibration(
    scores: Any, data: Dataset, *, method: str = "platt", target: str = "binary", threshold: float = 0.0
) -> Calibration:
    """Fit a calibration to scores of labelled lists.

    Args:
        scores: scores of the documents, `(documents,)`.
        data: labelled lists, on which the model was not trained.
        method: `"platt"` (logistic) or `"isotonic"`.
        target: `"binary"`: the probability that the label is above `threshold`. `"grade"`: the probability of each
            grade, and the expected grade.
        threshold: threshold of the label, for `"binary"`.
    """
    one_of("method", method, METHODS)
    one_of("target", target, TARGETS)
    given, labels = np.asarray(scores, dtype=np.float64), np.asarray(data.labels, dtype=np.float64)
    if given.shape != labels.shape:
        bad_value("scores", f"have the shape {labels.shape}, one score per document", given.shape)
    if not len(given):
        bad_value("data", "contain held-out lists with documents", "no documents")
    if not np.isfinite(given).all():
        bad_value("scores", "be finite for a calibration", "NaN or infinity")
    grades = np.array([0.0, 1.0])
    thresholds = np.array([float(threshold)])
    if target == "grade":
        grades = np.unique(labels)
        if len(grades) > MOST_GRADES:
            bad_value(
                "labels",
                f"have at most {MOST_GRADES} different values " + name_settings("for {target='grade'}"),
                f"{len(grades)} values",
            )
        thresholds = grades[:-1]
    if target == "grade" and len(grades) < 2:
        bad_value("labels", "have at least two different values", f"only {grades[0]:g}")
    curves = []
    for cut in thresholds:
        relevant = labels > cut
        if relevant.all() or not relevant.any():
            got = f"{'no' if not relevant.any() else 'only'} documents with label > {cut:g}"
            bad_value("data", f"contain documents with and without label > {cut:g}", got)
        curves.append(_CURVES[method].fit(given, relevant))
    kept = (tuple(grades.tolist()), tuple(thresholds.tolist()), tuple(curves))
    return Calibration(method, target, *kept, lists=len(data), documents=len(given))


def measure_calibration(
    calibration: Calibration | None, scores: Any, data: Dataset, bins: int = BINS
) -> list[Reliability]:
    """Compare the probabilities of a calibration with labels; return one result per event.

    Args:
        calibration: calibration of the model; None if the model is not calibrated. The probability of `label > 0` is
            then the sigmoid of the score, as in the loss `bce`.
        scores: scores of the documents, `(documents,)`.
        data: labelled lists.
        bins: maximum number of bins.
    """
    used = calibration or Calibration("platt", "binary", (0.0, 1.0), (0.0,), (LogisticCurve(1.0, 0.0),))
    return _measure(used, used.cumulative(scores), data, bins)


def cross_measure(
    scores: Any, data: Dataset, *, bins: int = BINS, seed: int = 0, **options: Any
) -> list[Reliability] | None:
    """Measure a calibration by cross-validation; return one result per event, or None if there are too few lists.

    The lists are divided into five parts. The probabilities of each part are from a calibration of the other parts.

    Args:
        scores: scores of the documents, `(documents,)`.
        data: labelled lists, on which the model was not trained.
        bins: maximum number of bins.
        seed: random seed of the division into parts.
        options: options of `fit_calibration`.
    """
    if len(data) < FOLDS:
        return None
    given, whole = np.asarray(scores, dtype=np.float64), fit_calibration(scores, data, **options)
    part = np.random.default_rng(seed).permutation(len(data)) % FOLDS
    rows = np.repeat(part, data.lengths)
    found = np.empty((len(given), len(whole.thresholds)))
    for fold in range(FOLDS):
        try:
            fitted = fit_calibration(given[rows != fold], data.take(np.flatnonzero(part != fold)), **options)
        except ValueError:
            return None
        if fitted.thresholds != whole.thresholds:
            return None
        found[rows == fold] = fitted.cumulative(given[rows == fold])
    return _measure(whole, found, data, bins)


def _measure(calibration: Calibration, cumulative: Array, data: Dataset, bins: int) -> list[Reliability]:
    labels = np.asarray(data.labels)
    columns = zip(cumulative.T, calibration.thresholds, calibration.events, strict=True)
    return [measure_reliability(each, labels > cut, data.offsets, event=name, bins=bins) for each, cut, name in columns]


def calibration_of(model: "TrainedModel") -> Calibration:
    """Return the calibration of a model; raise an error if the model is not calibrated.

    Args:
        model: trained model.
    """
    if model.calibration is None:
        must = "be calibrated (call `calibrate`, or run `rankgrad calibrate`)"
        bad_value("model", must, "a model without a calibration")
    return model.calibration


def write_calibration(folder: str | PathLike[str], calibration: Calibration | None) -> None:
    """Write the calibration of a model to `calibration.json`; remove this file if the model is not calibrated.

    Args:
        folder: folder of the model.
        calibration: calibration; None if the model is not calibrated.
    """
    path = Path(folder) / CALIBRATION
    if calibration is None:
        path.unlink(missing_ok=True)
    else:
        write_json(path, calibration.to_json(), seal=True)


def read_calibration(folder: str | PathLike[str]) -> Calibration | None:
    """Return the calibration of a saved model; None if the model is not calibrated.

    Args:
        folder: folder of the model.
    """
    path = Path(folder) / CALIBRATION
    if not path.is_file():
        return None
    known = read_json(path)
    try:
        return Calibration.from_json(known)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        bad_value(str(path), "contain a calibration", f"the error {error}")


def _numbers(values: Sequence[Any]) -> Array:
    if not isinstance(values, list) or not all(type(each) in (int, float) for each in values):
        bad_value("values", "be lists of numbers", repr(values)[:80])
    found = np.array(values, dtype=np.float64)
    if not np.isfinite(found).all():
        bad_value("values", "be finite", "NaN or infinity")
    return found
