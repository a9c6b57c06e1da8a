"""Training with `adapt=heldout`: which lists are held out, and the step that moves the loss's parameters by them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rankgrad.data import Dataset
from rankgrad.data.splitting import HOLDOUT, held_out
from rankgrad.errors import bad_value
from rankgrad.losses.from_text import TextLoss
from rankgrad.training.batch_loading import Batch, DeviceData, StreamedData
from rankgrad.training.batch_schedule import BatchSchedule, StepLists
from rankgrad.training.hypergradient import heldout_gradient, step_scale
from rankgrad.training.objective import EagerStep, RankerWithLoss


@dataclass(frozen=True)
class HeldoutSchedule(BatchSchedule):
    """A plan of some of the lists."""

    only: NDArray[np.int64] | None = None  # their numbers

    def _batches(self, lengths: NDArray[np.int64], rng: np.random.Generator) -> list[NDArray[np.int64]]:
        kept = np.zeros_like(lengths)
        kept[self.only] = lengths[self.only]  # a plan leaves out what is empty
        return super()._batches(kept, rng)


def split_held_out(data: Dataset, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The numbers of the lists to train on, and of those to hold out; `rankgrad.data.splitting` says which."""
    kept, held = held_out(data, HOLDOUT, seed)
    if not len(held):
        bad_value("data", "have at least 3 lists whose labels differ, to hold some out", len(data))
    return kept, held


def frozen(loss: TextLoss) -> dict[str, nn.Parameter]:
    """The loss's parameters that are learned, by name, taken out of the backward pass of the ranker's step."""
    learned = {name: value for name, value in loss.named_parameters() if value.requires_grad}
    for value in learned.values():
        value.requires_grad_(False)
    return learned


class HeldoutStep:
    """A step of the ranker, then one of Adam on the loss's parameters, by what the first did to held-out lists.

    An epoch goes through the held-out lists as often as its steps allow, in an order of its own.
    """

    def __init__(
        self,
        step: EagerStep,
        objective: RankerWithLoss,
        learned: dict[str, nn.Parameter],
        feed: DeviceData | StreamedData,
        plan: BatchSchedule,
        *,
        lr: float,
    ) -> None:
        self.step, self.objective, self.learned, self.feed, self.plan = step, objective, learned, feed, plan
        self.optimiser = torch.optim.Adam([{"params": [*learned.values()], "base_lr": lr}], lr=lr)
        self._held: Iterator[tuple[StepLists, Batch]] = iter(())

    def begin(self, epoch: int, first: int, steps: int) -> None:
        """Get ready for the steps of an epoch from the `first` on, of so many in all."""
        order = self.plan.steps(epoch)
        plan = [order[number % len(order)] for number in range(first, steps)]
        self._held = zip(plan, self.feed.batches(plan), strict=True)

    def __call__(self, batch: Batch, lists: int) -> Tensor:
        """The values of this process's lists, before the step; `lists` are those of the whole batch."""
        ranker, loss = self.objective.ranker, self.objective.loss
        before = [weight.detach().clone() for weight in ranker.parameters() if weight.requires_grad]
        values = self.step(batch, lists)
        held, held_batch = next(self._held)
        scale = step_scale(self.step.optimiser.optimizer)
        found = heldout_gradient(ranker, loss, before, scale, batch, lists, held_batch, held.batch, self._add)
        for name, value in self.learned.items():
            value.grad = found[name].to(value.dtype)
        self.optimiser.step()
        return values

    def _add(self, value: Tensor) -> Tensor:
        summed: Any = self.step.fabric.all_reduce(value, reduce_op="sum")
        return summed
