"""Choose an ensemble of candidates, using only scores of lists on which the candidates were not trained.

Three forms are compared: the best candidate alone, an even blend of the good candidates, and weights from greedy
selection. In a *nested check*, the weights of each form are chosen on some of the lists, and the form is measured on
the other lists. To avoid a choice by chance, the even blend is returned unless another form is clearly better: the 95%
confidence interval of the difference (Student's t) is above 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.data import Dataset
from rankgrad.metrics.custom import as_metric

SINGLE, EVEN, GREEDY = "best candidate", "even blend", "greedy selection"
CONFIDENCE = 0.975  # a difference is clear if its one-sided interval (Student's t) with this confidence excludes 0
_PARTS = 5  # number of parts into which the nested check divides the lists
_STEPS = 10  # maximum number of steps of the greedy selection
_MEMBERS = 12  # maximum number of candidates in the greedy selection, the best ones
_LISTS = 1_000  # maximum number of lists on which the greedy selection computes the metric

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Choice:
    """A chosen ensemble: the weight of each candidate, and the result of the nested check."""

    form: str  # one of `FORMS`
    weights: Values  # weight of each candidate, `(candidates,)`; the sum is 1
    nested: dict[str, float] = field(default_factory=dict)  # metric of each form in the nested check
    values: Values | None = None  # metric of the ensemble with these weights on each list, `(lists,)`


class OutOfFold:
    """Standardised scores of candidates, from models that were not trained on the scored lists, and metrics per list.

    Args:
        data: lists.
        scores: scores of each candidate, `(documents, candidates)`, with mean 0 and standard deviation 1 per list.
        families: family of each candidate.
        metric: spec of the metric.
    """

    def __init__(self, data: Dataset, scores: Values, families: Sequence[str], metric: str) -> None:
        self.data, self.scores, self.families = data, scores, list(families)
        self.metric = as_metric(metric)
        self.sign = 1.0 if self.metric.higher_is_better else -1.0
        self.values = np.stack([self.measure(column) for column in scores.T])  # (candidates, lists), higher is better

    def measure(self, scores: Values) -> Values:
        """Return the metric of an ensemble on each list, `(lists,)`; the sign is changed if lower values are better.

        Args:
            scores: scores, `(documents,)`.
        """
        scores = np.asarray(scores, dtype=np.float32)
        found = self.metric.measure(scores, self.data.labels, offsets=self.data.offsets, reduction="none")
        return self.sign * np.asarray(found, dtype=np.float64)

    def take(self, lists: NDArray[np.int64]) -> "OutOfFold":
        """Return the out-of-fold scores of the same candidates for some of the lists.

        Args:
            lists: indices of lists.
        """
        part = object.__new__(OutOfFold)
        mine = np.zeros(len(self.data), dtype=bool)
        mine[lists] = True
        rows = np.repeat(mine, self.data.lengths)
        part.data, part.scores, part.families = self.data.take(np.flatnonzero(mine)), self.scores[rows], self.families
        part.metric, part.sign, part.values = self.metric, self.sign, self.values[:, mine]
        return part


def choose(found: OutOfFold, seed: int) -> Choice:
    """Choose the form and the weights of an ensemble.

    Args:
        found: scores of the candidates.
        seed: random seed of the nested check.
    """
    candidates = len(found.families)
    if candidates == 1:
        return Choice(SINGLE, np.ones(1), {SINGLE: found.sign * mean(found.values[0])}, found.values[0])
    nested = {form: np.full(len(found.data), np.nan) for form in FORMS}
    parts = np.random.default_rng([seed, 2]).permutation(len(found.data)) % _PARTS
    for part in range(min(_PARTS, len(found.data))):
        inside, outside = found.take(np.flatnonzero(parts != part)), found.take(np.flatnonzero(parts == part))
        for form, weigh in FORMS.items():
            nested[form][parts == part] = outside.measure(outside.scores @ weigh(inside))
    form = EVEN
    for other in (SINGLE, GREEDY):
        difference, error = paired(nested[other], nested[form])
        if difference > error and difference > 0:
            form = other
    weights = FORMS[form](found)
    shown = {name: found.sign * mean(values) for name, values in nested.items()}
    return Choice(form, weights, shown, found.measure(found.scores @ weights))


def reason(form: str, nested: Mapping[str, float], members: int) -> str:
    """Return a sentence that says why this form of ensemble is returned.

    Args:
        form: form of the final model.
        nested: metric of each form in the nested check.
        members: number of candidates with a weight above 0.
    """
    if form not in nested:
        return "The form of the final model was given to the search as an option."
    if len(nested) == 1:
        return "There was only one candidate to choose from."
    if form != EVEN:
        return f"The {form} was clearly better than the even blend: the 95% interval of the difference excludes 0."
    if members == 1:
        return "All other candidates are clearly worse than the best one, so the even blend has one member."
    clearly = "clearly better (the 95% interval of the difference does not contain 0)"
    return f"The even blend is chosen unless another form is {clearly}. Here, no form is clearly better."


def best_single(found: OutOfFold) -> Values:
    """Return ensemble weights: 1 for the best candidate, and 0 for the other candidates.

    Args:
        found: scores of the candidates.
    """
    return np.eye(len(found.families))[int(np.argmax([mean(values) for values in found.values]))]


def even_blend(found: OutOfFold) -> Values:
    """Return ensemble weights: equal for the families, and equal for the good candidates within each family.

    A candidate is good if it is not clearly worse than the best candidate. The others have the weight 0.

    Args:
        found: scores of the candidates.
    """
    good = not_clearly_worse(found.values)
    counts = {family: sum(good[at] for at, name in enumerate(found.families) if name == family)
              for family in found.families}  # fmt: skip
    weights = np.array([good[at] / max(1, counts[family]) for at, family in enumerate(found.families)], dtype=float)
    return np.asarray(weights / weights.sum())


def greedy(found: OutOfFold) -> Values:
    """Return ensemble weights from greedy selection of candidates with replacement.

    Each step adds the candidate with which the sum of the scores has the best metric. A candidate can be added several
    times. The weight of a candidate is the share of the steps that added it, up to the step with the best metric.

    Args:
        found: scores of the candidates.
    """
    if len(found.data) > _LISTS:
        found = found.take(np.arange(len(found.data))[:: -(-len(found.data) // _LISTS)])
    order = np.argsort([-mean(values) for values in found.values], kind="stable")[:_MEMBERS]
    counts, total, best = np.zeros(len(found.families)), np.zeros(len(found.scores)), (-np.inf, np.zeros(0))
    for _ in range(_STEPS):
        tried = [mean(found.measure(total + found.scores[:, at])) for at in order]
        at = order[int(np.argmax(tried))]
        counts[at] += 1
        total = total + found.scores[:, at]
        if max(tried) > best[0]:
            best = (max(tried), counts.copy())
    return np.asarray(best[1] / best[1].sum())


FORMS = {SINGLE: best_single, EVEN: even_blend, GREEDY: greedy}


def not_clearly_worse(values: Values) -> NDArray[np.bool_]:
    """Return False for each candidate that is clearly worse than the best candidate, otherwise True, `(candidates,)`.

    Args:
        values: metric of each candidate on each list, `(candidates, lists)`; higher is better.

    Example:
        >>> not_clearly_worse(np.array([[0.5, 0.7, 0.6, 0.6], [0.5, 0.6, 0.7, 0.5], [0.1, 0.2, 0.1, 0.1]]))
        array([ True,  True, False])
    """
    best = values[int(np.argmax([mean(row) for row in values]))]
    found = [paired(row, best) for row in values]
    return np.array([difference >= -error for difference, error in found])


def paired(first: Values, second: Values) -> tuple[float, float]:
    """Return the mean difference of two candidates over lists, and the limit above which a difference is clear.

    Args:
        first, second: values of the same lists, `(lists,)`; NaN for lists that are left out.
    """
    difference = (first - second)[~(np.isnan(first) | np.isnan(second))]
    count = len(difference)
    if count < 2:
        return float(difference.sum()), float("inf")
    from scipy.special import stdtrit

    error = float(difference.std(ddof=1) / count**0.5)
    return float(difference.mean()), float(stdtrit(count - 1, CONFIDENCE)) * error


def mean(values: Any) -> float:
    """Return the mean metric of a candidate over lists, without NaN values; 0 if all values are NaN.

    Args:
        values: metric per list, `(lists,)`.
    """
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else 0.0
