"""The metric on the validation lists, after every epoch."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rankgrad.data import Dataset, Preprocessing
from rankgrad.metrics.custom import as_metric
from rankgrad.training.batch_loading import feed
from rankgrad.training.batch_schedule import StepLists
from rankgrad.training.model import chunks

_ROWS = 131_072  # documents judged at a time: few launches, and little padding, as lists are sorted by length


class Validator:
    """Scores validation lists and averages a metric over them; a process judges its share, and they add up."""

    def __init__(
        self,
        data: Dataset,
        steps: Preprocessing,
        metric: Any,
        device: torch.device,
        *,
        where: str = "auto",
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self.metric = as_metric(metric)
        lists = np.arange(len(data))[rank::world]
        lists = lists[np.argsort(data.lengths[lists], kind="stable")]
        lengths = data.lengths[lists]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        rows = np.arange(offsets[-1]) + np.repeat(data.offsets[:-1][lists] - offsets[:-1], lengths)
        self.feed = feed(data, steps, device, where=where, weights=None)
        self.plan = []
        for first, last in chunks(offsets, _ROWS):
            own = offsets[first : last + 1] - offsets[first]
            self.plan.append(StepLists(lists[first:last], rows[offsets[first] : offsets[last]], own, last - first))

    @torch.inference_mode()
    def sums(self, ranker: nn.Module) -> Tensor:
        """The sum of the metric over this process's lists, how many counted, and how many scores are NaN: `(3,)`."""
        ranker.eval()
        found = torch.zeros(3, dtype=torch.float64, device=next(ranker.parameters()).device)
        for batch in self.feed.batches(self.plan):
            scores = ranker(batch.features, batch.offsets, width=batch.width)
            broken = scores.isnan()
            ranked = torch.where(broken, 0.0, scores)  # the run is about to stop; a warning besides would say less
            values = self.metric.measure(ranked, batch.labels, offsets=batch.offsets, reduction="none").double()
            counted = ~values.isnan()  # a list that the metric skips is NaN
            found += torch.stack([torch.where(counted, values, 0.0).sum(), counted.sum(), broken.sum()])
        ranker.train()
        return found

    def value(self, sums: Tensor) -> float:
        """The mean; NaN where no list counts."""
        total, counted, _ = sums.tolist()
        return total / counted if counted else math.nan

    def better(self, value: float, best: float | None) -> bool:
        """Whether a value is better than the best so far."""
        if best is None or math.isnan(best):
            return True
        return value > best if self.metric.higher_is_better else value < best
