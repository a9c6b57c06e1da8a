"""Run training steps on a GPU as CUDA graphs. Without graphs, a small ranker spends most of its time on launches."""

import math
import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from rankgrad.run.objective import Batch
from rankgrad.training.optimisers import MovingAverage


@dataclass
class GraphBuffers:
    """Fixed tensors into which batches of similar size are copied, and the graph that uses these tensors."""

    features: Tensor  # (documents, f); rows after the last list contain values of earlier batches
    labels: Tensor  # (documents,)
    offsets: Tensor  # (lists + 1,); surplus lists are empty
    weights: Tensor | None  # (documents,)
    share: Tensor  # 1 / number of lists in the batch
    width: int
    parts: Tensor  # (lists,), the numbers 1, 2, ...; they split the rows after the last list into lists
    values: Tensor | None = None
    ready: bool = False  # True after an eager step in which no operation waited for the device
    graph: torch.cuda.CUDAGraph | None = None


class GraphStep:
    """A training step for one process with one GPU. It launches forward pass, backward pass and update together.

    A batch is copied into buffers that are a little larger than the batch. For the ranker, the surplus rows belong to
    no list. For the loss, the surplus rows are separate lists, whose losses are ignored. For each size of the buffers,
    the step of the first batch is eager, and the step of the second batch is recorded as a graph. This graph is
    replayed for all later batches of this size. If the loss waits for the device, no step can be recorded, and all
    steps are eager.
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
        self.waited = 0  # number of consecutive eager steps that waited for the device
        self.stream = torch.cuda.Stream()
        self.pool = torch.cuda.graph_pool_handle()
        self.buffers: dict[tuple[int, int], GraphBuffers] = {}
        self.parameters = [each for each in module.parameters() if each.requires_grad]

    def __call__(self, batch: Batch, lists: int) -> Tensor:
        """Do one training step on a batch of `lists` lists, if possible with a CUDA graph. Return one loss per list.

        These losses are computed before the weights are updated.
        """
        documents = batch.labels.shape[0]
        size = buffer_size(documents), buffer_size(batch.width) if self.list_aware else 0
        buffers = self.buffers.get(size)
        if buffers is None:
            buffers = self.buffers[size] = self._new_buffers(batch, *size)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self._copy(batch, buffers, documents, lists)
            if buffers.graph is not None:
                buffers.graph.replay()
            elif buffers.ready:
                self._record(buffers)
            elif self.recordable:
                self._eager(buffers)
            else:
                buffers.values = self._step(buffers)
            assert buffers.values is not None
            values = buffers.values[: batch.offsets.shape[0] - 1].clone()
        torch.cuda.current_stream().wait_stream(self.stream)
        return values

    @property
    def recordable(self) -> bool:
        """False after three consecutive eager steps that waited for the device. Compilation may wait in early steps."""
        return self.waited < 3

    def _new_buffers(self, batch: Batch, documents: int, width: int) -> GraphBuffers:
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

    def _copy(self, batch: Batch, buffers: GraphBuffers, documents: int, lists: int) -> None:
        borders = batch.offsets.shape[0]
        buffers.features[:documents].copy_(batch.features)
        buffers.labels[:documents].copy_(batch.labels)
        buffers.offsets[:borders].copy_(batch.offsets)
        if borders <= self.lists:
            buffers.offsets[borders:].copy_(batch.offsets[-1:].expand(self.lists + 1 - borders))
        buffers.share.fill_(1.0 / lists)
        if buffers.weights is not None and batch.weights is not None:
            buffers.weights[:documents].copy_(batch.weights)

    def _step(self, buffers: GraphBuffers) -> Tensor:
        self.optimiser.zero_grad(set_to_none=True)
        objective: Any = self.module
        values = objective(*objective_arguments(buffers))[: self.lists]
        self.fabric.backward(values.sum() * buffers.share)
        if self.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.clip)
        self.optimiser.step()
        if self.average is not None:
            self.average.update()
        return values.detach()

    def _eager(self, buffers: GraphBuffers) -> None:
        """Do an eager step, which compiles the kernels of the graph. Detect if an operation waits for the device."""
        before = torch.cuda.get_sync_debug_mode()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                buffers.values = self._step(buffers)
            finally:
                torch.cuda.set_sync_debug_mode(before)
        buffers.ready = not any("synchroniz" in str(warning.message) for warning in caught)
        self.waited = 0 if buffers.ready else self.waited + 1

    def _record(self, buffers: GraphBuffers) -> None:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
            buffers.values = self._step(buffers)
        buffers.graph = graph
        graph.replay()


def objective_arguments(buffers: GraphBuffers) -> tuple[Batch, Tensor]:
    """Return the arguments of the objective for a CUDA graph. For the loss, the surplus rows are additional lists.

    The batch has no named columns, because a custom objective is never recorded.
    """
    surplus = buffers.labels.shape[0] - buffers.offsets[-1]
    after = buffers.offsets[-1] + surplus * buffers.parts // buffers.parts.shape[0]
    batch = Batch(buffers.features, buffers.labels, buffers.offsets, buffers.weights, buffers.width)
    return batch, torch.cat([buffers.offsets, after])


def buffer_size(count: int) -> int:
    """Round a number of documents up to a size of the graph buffers.

    Each size needs a graph, so there are only a few sizes: the smallest size is 64, and there are four sizes from each
    power of two to the next.

    Example:
        >>> [buffer_size(count) for count in (3, 65, 80, 100, 7680, 7681)]
        [64, 80, 80, 112, 8192, 8192]
    """
    step = 2 ** max(4, math.floor(math.log2(max(count, 64))) - 2)
    return max(64, math.ceil(count / step) * step)
