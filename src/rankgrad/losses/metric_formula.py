"""A metric as the losses see it: its name, its cutoff and what its formula needs, with no checks left to do."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from rankgrad.errors import one_of
from rankgrad.lists import Lists
from rankgrad.losses.ideal_dcg import Gain, gains, ideal_dcg, log2_discount, share_of_ideal
from rankgrad.metrics import Metric, parse_metric
from rankgrad.metrics.ranked_lists import check_cutoff


class MetricFormula(NamedTuple):
    """The options of a metric, flat; plain enough for `torch.compile` to see through."""

    name: str
    k: int | None = None
    gain: Gain = "exp"
    discount: str | Callable[[Tensor], Tensor] = "log2"
    threshold: float = 0.0
    first: str = "relevant"
    max_label: float = 4.0

    def discounted(self, ranks: Tensor) -> Tensor:
        """What a gain at this rank is divided by."""
        return self.discount(ranks) if callable(self.discount) else log2_discount(ranks)

    def gains(self, lists: Lists) -> Tensor:
        """Gains of the documents, `(..., n)`; for nDCG as shares of the ideal DCG."""
        if self.name == "nDCG":
            return share_of_ideal(lists.labels, lists.mask, self.k, self.gain, self.discounted)
        return gains(lists.labels, lists.mask, self.gain, scaled=False)

    def ideal(self, gains: Tensor) -> Tensor:
        """The largest DCG that these gains allow, `(...)`; 1 where there is none, to divide by."""
        ideal = ideal_dcg(gains, self.k, self.discounted)
        return torch.where(ideal > 0, ideal, 1.0)

    def relevant(self, lists: Lists) -> Tensor:
        """Which documents are relevant, `(..., n)`; for RR with `first="best"`, which are the best of those."""
        relevant = lists.mask & (lists.labels > self.threshold)
        if self.first == "best" and relevant.shape[-1]:
            relevant = relevant & (lists.labels == lists.labels.amax(-1, keepdim=True))
        return relevant

    def loss(self, lists: Lists, value: Tensor, reduction: str) -> Tensor:
        """Minus the metric's value (plus, for ARP), 0 for a list without a relevant document."""
        signal = self.relevant(lists).any(-1)
        worse = value if self.name == "ARP" else -value
        return lists.reduce(torch.where(signal, worse, 0.0 * value), reduction, signal)


def formula(metric: Metric | str, known: tuple[str, ...], k: int | None = None) -> MetricFormula:
    """The formula of a metric, which must be among the `known` ones; `k`, where given, is its cutoff."""
    metric = parse_metric(metric) if isinstance(metric, str) else metric
    one_of("metric", metric.name, known)
    check_cutoff(k)
    options = {name: value for name, value in metric.options.items() if name not in ("empty", "ties")}
    return MetricFormula(metric.name, metric.k if k is None else k, **options)
