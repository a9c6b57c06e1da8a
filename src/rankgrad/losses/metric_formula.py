"""A metric in the form that losses use: name, cutoff and options, already checked."""

from typing import NamedTuple

import torch
from torch import Tensor

from rankgrad.errors import bad_value
from rankgrad.lists import Lists
from rankgrad.losses.ideal_dcg import gains, ideal_dcg, share_of_ideal
from rankgrad.metrics import Metric, parse_metric
from rankgrad.metrics.cumulative_gain import Discount, Gain, rank_discounts
from rankgrad.metrics.ranked_lists import check_cutoff


class MetricFormula(NamedTuple):
    """Name, cutoff and options of a metric in one tuple, which `torch.compile` can trace."""

    name: str
    k: int | None = None
    gain: Gain = "exp"
    discount: Discount = "log2"
    threshold: float = 0.0
    first: str = "relevant"
    max_label: float = 4.0
    persistence: float = 0.8

    @property
    def exp_gain(self) -> bool:
        """True if the metric uses the gain 2^y - 1."""
        return self.name == "ERR" or (self.name in ("nDCG", "DCG") and self.gain == "exp")

    def discounted(self, ranks: Tensor) -> Tensor:
        """Return the metric's discounts of these ranks, by which a loss divides gains."""
        return rank_discounts(ranks, self.discount)

    def gains(self, lists: Lists) -> Tensor:
        """Return the gains of the documents for a loss, `(..., n)`; for nDCG, they are divided by the ideal DCG."""
        if self.name == "nDCG":
            return share_of_ideal(lists.labels, lists.mask, self.k, self.gain, self.discount)
        return gains(lists.labels, lists.mask, self.gain, scaled=False)

    def ideal(self, gains: Tensor) -> Tensor:
        """Return the largest possible DCG of these gains as a divisor in a loss, `(...)`. If it is 0, return 1."""
        ideal = ideal_dcg(gains, self.k, self.discount)
        return torch.where(ideal > 0, ideal, 1.0)

    def stay(self, ranks: Tensor) -> Tensor:
        """Return RBP's weights of these ranks."""
        return (1.0 - self.persistence) * self.persistence ** (ranks - 1.0)

    def relevant(self, lists: Lists) -> Tensor:
        """Return True for the documents that the metric counts as relevant, `(..., n)`; see `threshold` and `first`."""
        relevant = lists.mask & (lists.labels > self.threshold)
        if self.first == "best" and relevant.shape[-1]:
            relevant = relevant & (lists.labels == lists.labels.amax(-1, keepdim=True))
        return relevant

    def loss(self, lists: Lists, value: Tensor, reduction: str) -> Tensor:
        """Return the reduced loss: `-value` (for ARP: `value`); the loss of a list without signal is 0.

        A list has signal if it has a relevant document (for OPA: two different labels).
        """
        signal = has_order(lists) if self.name == "OPA" else self.relevant(lists).any(-1)
        worse = value if self.name == "ARP" else -value
        return lists.reduce(torch.where(signal, worse, 0.0 * value), reduction, signal)


def has_order(lists: Lists) -> Tensor:
    """Return True for a list with two different labels, `(...)`. A pairwise loss learns nothing from other lists."""
    if lists.labels.shape[-1] == 0:
        return lists.mask.any(-1)
    # A list has order if some document has a label below the highest label of the list.
    top = torch.where(lists.mask, lists.labels, -torch.inf).amax(-1, keepdim=True)
    return (lists.mask & (lists.labels < top)).any(-1)


def formula(metric: Metric | str, known: tuple[str, ...], k: int | None = None) -> MetricFormula:
    """Return the `MetricFormula` of a metric, for a loss.

    `known` contains the names of the metrics that the loss supports. If `k` is not None, it replaces the metric's
    cutoff.
    """
    metric = parse_metric(metric) if isinstance(metric, str) else metric
    if metric.name not in known:
        bad_value("metric", f"be one of {', '.join(map(repr, known))}", f"{metric.name!r}, which this loss cannot use")
    check_cutoff(k)
    options = {name: value for name, value in metric.options.items() if name not in ("empty", "ties")}
    return MetricFormula(metric.name, metric.k if k is None else k, **options)
