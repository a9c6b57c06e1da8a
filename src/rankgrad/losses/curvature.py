"""Compute second derivatives for boosting, one per document: closed forms, bounds, or a substitute.

| losses | second derivative with respect to the score of document i | quality |
|---|---|---|
| ranknet, lambdarank, lambdaloss of nDCG | sum of sigma^2 w q (1 - q) over the pairs of i | exact for constant w |
| softmax, listnet, xe_ndcg | T p (1 - p) | exact |
| mse | 2 w / n | exact |
| margin_mse | 4 w (1 - w / W) / (n - 1) | exact |
| bce | w p (1 - p) / n | exact |
| poly1_softmax | (T + epsilon) p (1 - p) | positive approximation |
| listmle, unique_softmax | sum of w p over the softmax terms that include i | upper bound |
| all others (`hessian="gradient"`) | absolute value of the gradient | positive if the gradient is not 0 |

Here w is the weight of a pair, term or document. For the list of document i, W is the sum of the weights, n is the
number of documents, and T is the sum of the targets. p is the probability of document i: for bce, the sigmoid of the
score of document i; for other losses, the softmax of the scores of the list. q is the probability that the order of a
pair is wrong.

The form in the last row is a substitute for the second derivative. With this substitute, the value of a leaf is minus
the sum of the gradients, divided by the sum of their absolute values. So the value is between -1 and 1 for any scale of
the loss. For one logistic pair with sigma 1, the substitute is 1 / (1 - q) times the exact second derivative, so it is
an upper bound. If the gradients of several pairs cancel, the substitute may be smaller than the second derivative.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class FlatProblem(NamedTuple):
    """The lists for which a second derivative is computed. No list is empty."""

    scores: Array  # (documents,)
    labels: Array  # (documents,)
    weights: Array | float  # (documents,), or 1
    starts: NDArray[np.int64]  # (lists,), index of the first document of each list
    lengths: NDArray[np.int64]  # (lists,)

    def sums(self, values: Array) -> Array:
        """Return, for second derivatives, the sum of the values in the list of each document, `(documents,)`."""
        return np.repeat(np.add.reduceat(values, self.starts), self.lengths)

    def highest(self, values: Array) -> Array:
        """Return, for second derivatives, the largest value in the list of each document, `(documents,)`."""
        return np.repeat(np.maximum.reduceat(values, self.starts), self.lengths)

    def shares(self) -> Array:
        """Return, for second derivatives, the softmax of the scores in each list, `(documents,)`."""
        powers = np.exp(self.scores - self.highest(self.scores))
        return powers / self.sums(powers)

    def means_of_ties(self, values: Array | float) -> Array | float:
        """Return, for each document, the mean of the values over the documents of the same list with the same label."""
        if not isinstance(values, np.ndarray):
            return values
        pairs = np.stack([np.repeat(np.arange(len(self.lengths)), self.lengths), self.labels])
        _, group = np.unique(pairs, axis=1, return_inverse=True)
        group = group.reshape(-1)
        means: Array = np.bincount(group, values) / np.bincount(group)
        return means[group]


# A function of the lists and the gradients `(documents,)` that returns second derivatives `(documents,)`.
Curvature = Callable[[FlatProblem, Array], Array]


def softmax(problem: FlatProblem, slopes: Array) -> Array:
    p = problem.shares()
    return problem.sums(problem.weights * problem.labels) * p * (1 - p)


def poly1(problem: FlatProblem, slopes: Array, epsilon: float) -> Array:
    p, mass = problem.shares(), problem.sums(problem.weights * problem.labels)
    return (mass + epsilon * (mass > 0)) * p * (1 - p)


def distribution(problem: FlatProblem, slopes: Array) -> Array:
    """Return the second derivative p (1 - p), for targets whose sum is 1.

    Return 0 for a list whose gradients are all 0, because all targets of such a list are 0.
    """
    p = problem.shares()
    return (problem.highest(np.abs(slopes)) > 0) * p * (1 - p)


def unique_softmax(problem: FlatProblem, slopes: Array) -> Array:
    return np.maximum(slopes + problem.weights * (np.exp2(problem.labels) - 1), 0)


def plackett_luce(problem: FlatProblem, slopes: Array, exact: bool) -> Array:
    lowest = -problem.highest(-problem.labels)
    if not exact:
        return np.maximum(slopes + problem.weights * (problem.highest(problem.labels) > lowest), 0)
    # The lowest labels precede nothing. A tie group has the mean of its weights.
    return np.maximum(slopes + problem.means_of_ties(problem.weights) * (problem.labels > lowest), 0)


def squares(problem: FlatProblem, slopes: Array) -> Array:
    return 2 * problem.weights / np.repeat(problem.lengths, problem.lengths).astype(slopes.dtype)


def margins(problem: FlatProblem, slopes: Array) -> Array:
    weights = problem.weights * np.ones_like(slopes)
    total = problem.sums(weights)
    others = np.maximum(total - weights, 0) / np.where(total > 0, total, 1)
    return 4 * weights * others / np.repeat(np.maximum(problem.lengths - 1, 1), problem.lengths).astype(slopes.dtype)


def logistic(problem: FlatProblem, slopes: Array) -> Array:
    p = 1 / (1 + np.exp(-np.abs(problem.scores)))
    return problem.weights * p * (1 - p) / np.repeat(problem.lengths, problem.lengths)


def size_of_gradient(problem: FlatProblem, slopes: Array) -> Array:
    """Return the absolute value of the gradient, which replaces a second derivative that has no closed form."""
    return np.abs(slopes)


class LossForm(NamedTuple):
    """Part of the tree objectives that version 0.2 pickled; nothing reads it."""

    name: str
    options: Any
    kernel: Any
