"""Steps on a GPU as CUDA graphs: a small ranker's step is a hundred launches, each dearer than its work."""

import math
import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from rankgrad.training.batch_loading import Batch
from rankgrad.training.optimisers import MovingAverage


@dataclass
class GraphBuffers:
    """The fixed tensors that batches of about one size are copied into, and the graph that works on them."""

    features: Tensor  # (documents, f); rows behind the last list are left over from other batches
    labels: Tensor  # (documents,)
    offsets: Tensor  # (lists + 1,); lists that a batch does not have are empty
    weights: Tensor | None  # (documents,)
    share: Tensor  # one over the lists of the batch
    width: int
    parts: Tensor  # (lists,), 1, 2, ...: the rows behind the last list are cut into as many lists of their own
    values: Tensor | None = None
    ready: bool = False  # an ordinary step has shown that nothing waits
    graph: torch.cuda.CUDAGraph | None = None


class GraphStep:
    """A step whose forward, backward and update are one launch, for one process with all on one GPU.

    A batch is copied into the place for its size, a little larger. The rows that are left over belong to no list of
    the ranker; the loss sees them as lists of their own, whose values are not counted. The first batch of a size is
    worked on as usual, the next is recorded, all others replay. A loss that waits for the device cannot be recorded:
    such a run stays with ordinary steps.
    """

    def __init__(
        self,
        fabric: Any,
        module: nn.Module,
        optimiser: torch.optim.Optimizer,
        clip: float | None,
        average: MovingAverage | None,
        *,
        lists: int,
        list_aware: bool,
    ) -> None:
        self.fabric, self.module, self.optimiser, self.clip, self.average = fabric, module, optimiser, clip, average
        self.lists, self.list_aware = lists, list_aware
        self.waited = 0  # ordinary steps in a row that waited for the device
        self.stream = torch.cuda.Stream()
        self.pool = torch.cuda.graph_pool_handle()
        self.places: dict[tuple[int, int], GraphBuffers] = {}
        self.parameters = [each for each in module.parameters() if each.requires_grad]

    def __call__(self, batch: Batch, lists: int) -> Tensor:
        """The values of the batch's lists, before the step."""
        documents = batch.labels.shape[0]
        size = rounded(documents), rounded(batch.width) if self.list_aware else 0
        place = self.places.get(size)
        if place is None:
            place = self.places[size] = self._place(batch, *size)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self._copy(batch, place, documents, lists)
            if place.graph is not None:
                place.graph.replay()
            elif place.ready:
                self._record(place)
            elif self.recordable:
                self._ordinary(place)
            else:
                place.values = self._step(place)
            assert place.values is not None
            values = place.values[: batch.offsets.shape[0] - 1].clone()
        torch.cuda.current_stream().wait_stream(self.stream)
        return values

    @property
    def recordable(self) -> bool:
        """Whether steps may still turn out to wait for nothing; the first ones may, for what they compile."""
        return self.waited < 3

    def _place(self, batch: Batch, documents: int, width: int) -> GraphBuffers:
        features, labels = batch.features, batch.labels
        return GraphBuffers(
            features.new_zeros(documents, features.shape[1]),
            labels.new_zeros(documents),
            batch.offsets.new_zeros(self.lists + 1),
            None if batch.weights is None else batch.weights.new_zeros(documents),
            labels.new_zeros(()),
            width or documents,
            torch.arange(1, self.lists + 1, device=labels.device),
        )

    def _copy(self, batch: Batch, place: GraphBuffers, documents: int, lists: int) -> None:
        own = batch.offsets.shape[0]
        place.features[:documents].copy_(batch.features)
        place.labels[:documents].copy_(batch.labels)
        place.offsets[:own].copy_(batch.offsets)
        if own <= self.lists:
            place.offsets[own:].copy_(batch.offsets[-1:].expand(self.lists + 1 - own))
        place.share.fill_(1.0 / lists)
        if place.weights is not None and batch.weights is not None:
            place.weights[:documents].copy_(batch.weights)

    def _step(self, place: GraphBuffers) -> Tensor:
        self.optimiser.zero_grad(set_to_none=True)
        objective: Any = self.module
        values = objective(*place_batch(place))[: self.lists]
        self.fabric.backward(values.sum() * place.share)
        if self.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.clip)
        self.optimiser.step()
        if self.average is not None:
            self.average.update()
        return values.detach()

    def _ordinary(self, place: GraphBuffers) -> None:
        """An ordinary step, which also compiles what the graph will need and shows whether anything waits."""
        before = torch.cuda.get_sync_debug_mode()
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                place.values = self._step(place)
            finally:
                torch.cuda.set_sync_debug_mode(before)
        place.ready = not any("synchroniz" in str(warning.message) for warning in heard)
        self.waited = 0 if place.ready else self.waited + 1

    def _record(self, place: GraphBuffers) -> None:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
            place.values = self._step(place)
        place.graph = graph
        graph.replay()


def place_batch(place: GraphBuffers) -> tuple[Tensor, Tensor, Tensor, Tensor | None, int, Tensor]:
    """The arguments of the objective: the lists, and behind them the rows that are left over, as lists of their own."""
    left = place.labels.shape[0] - place.offsets[-1]
    behind = place.offsets[-1] + left * place.parts // place.parts.shape[0]
    return place.features, place.labels, place.offsets, place.weights, place.width, torch.cat([place.offsets, behind])


def rounded(count: int) -> int:
    """The next of the sizes that divide each octave in four, so that few graphs serve all batches.

    Example:
        >>> [rounded(count) for count in (3, 65, 80, 100, 7680, 7681)]
        [64, 80, 80, 112, 8192, 8192]
    """
    step = 2 ** max(4, math.floor(math.log2(max(count, 64))) - 2)
    return max(64, math.ceil(count / step) * step)
