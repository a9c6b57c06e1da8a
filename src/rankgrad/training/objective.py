"""The ranker and its loss as one module, the eager training step, and the check of document weights."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rankgrad.data import Dataset
from rankgrad.errors import bad_value
from rankgrad.losses.from_text import TextLoss
from rankgrad.run.objective import Batch, objective
from rankgrad.training.optimisers import MovingAverage


class RankerWithLoss(nn.Module):
    """The ranker and its loss as one module.

    They are one module because the wrapper for several processes needs the parameters of both.
    """

    def __init__(self, ranker: nn.Module, loss: TextLoss) -> None:
        super().__init__()
        self.ranker, self.loss = ranker, loss

    def forward(self, batch: Batch, loss_offsets: Tensor | None = None) -> Tensor:
        """Return one loss per list. If `loss_offsets` is not None, the loss uses it instead of the batch's offsets."""
        scores = self.ranker(batch.features, batch.offsets, width=batch.width)
        return objective(self.loss, scores, batch if loss_offsets is None else batch._replace(offsets=loss_offsets))


class EagerStep:
    """A step that is not recorded as a CUDA graph.

    The step consists of forward pass, backward pass, clipping, update and moving average. The loss is the sum over the
    lists of the batch in all processes, divided by the number of these lists. The gradients are averaged over the
    processes, so each process multiplies its part of the loss by the number of processes.
    """

    def __init__(
        self, fabric: Any, module: nn.Module, optimiser: Any, clip: float | None, average: MovingAverage | None
    ) -> None:
        self.fabric, self.module, self.optimiser, self.clip, self.average = fabric, module, optimiser, clip, average

    def __call__(self, batch: Batch, lists: int) -> Tensor:
        """Do one step on a batch of `lists` lists. Return one loss per list of this process.

        These losses are computed before the weights are updated.
        """
        self.optimiser.zero_grad(set_to_none=True)
        values = self.module(batch)
        self.fabric.backward(values.sum() * (self.fabric.world_size / lists))
        if self.clip is not None:
            self.fabric.clip_gradients(self.module, self.optimiser, max_norm=self.clip, error_if_nonfinite=False)
        self.optimiser.step()
        if self.average is not None:
            self.average.update()
        found: Tensor = values.detach()
        return found


def checked_weights(weights: Any, data: Dataset, loss: TextLoss) -> Tensor | None:
    """Check the document weights of a training run for its loss. Return them as a tensor `(documents,)`, or None."""
    if weights is None:
        return None
    if not loss.takes_weights:
        bad_value("weights", f"be None for {loss}, which takes no weights", "document weights")
    found = torch.as_tensor(np.array(weights, dtype=np.float32))
    if found.shape != (len(data.labels),):
        bad_value("weights", f"have one value per document, shape ({len(data.labels)},)", tuple(found.shape))
    if not bool(torch.isfinite(found).all()) or bool((found < 0).any()):
        bad_value("weights", "be finite and at least 0", "negative or non-finite weights")
    return found
