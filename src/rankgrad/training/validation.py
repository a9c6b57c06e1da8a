"""Compute the metric of a neural ranker on the validation lists after every epoch."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rankgrad.data import Dataset, Preprocessing
from rankgrad.data.sparse_rows import rows_per_block
from rankgrad.metrics.custom import as_metric
from rankgrad.training.batch_loading import batch_source
from rankgrad.training.batch_schedule import StepLists
from rankgrad.training.model import list_ranges

# Number of documents that are scored together. A large number needs much memory, but few launches on a GPU. There
# is little padding, because lists are sorted by length.
_ROWS_CUDA, _ROWS = 131_072, 16_384


class Validator:
    """Score the validation lists, and compute the mean of a metric. Each process scores a part of the lists."""

    def __init__(
        self,
        data: Dataset,
        preprocessing: Preprocessing,
        metric: Any,
        device: torch.device,
        *,
        data_on: str = "auto",
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self.metric = as_metric(metric)
        lists = np.arange(len(data))[rank::world]
        lists = lists[np.argsort(data.lengths[lists], kind="stable")]
        lengths = data.lengths[lists]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        rows = np.arange(offsets[-1]) + np.repeat(data.offsets[:-1][lists] - offsets[:-1], lengths)
        self.source = batch_source(data, preprocessing, device, data_on=data_on, weights=None)
        self.steps = []
        most = _ROWS_CUDA if device.type == "cuda" else _ROWS
        for first, last in list_ranges(offsets, rows_per_block(data.matrix, most)):
            part = offsets[first : last + 1] - offsets[first]
            self.steps.append(StepLists(lists[first:last], rows[offsets[first] : offsets[last]], part, last - first))

    @torch.inference_mode()
    def sums(self, ranker: nn.Module) -> Tensor:
        """Return three sums over the validation lists of this process, `(3,)`.

        These are the sum of the metric, the number of lists that the metric does not skip, and the number of NaN
        scores.
        """
        ranker.eval()
        found = torch.zeros(3, dtype=torch.float64, device=next(ranker.parameters()).device)
        for batch in self.source.batches(self.steps):
            scores = ranker(batch.features, batch.offsets, width=batch.width)
            broken = scores.isnan()
            ranked = torch.where(
                broken, 0.0, scores
            )  # the caller stops the run because of NaN scores; the metric must not also warn
            values = self.metric.measure(ranked, batch.labels, offsets=batch.offsets, reduction="none").double()
            counted = ~values.isnan()  # the metric is NaN for a list that it skips
            found += torch.stack([torch.where(counted, values, 0.0).sum(), counted.sum(), broken.sum()])
        ranker.train()
        return found
