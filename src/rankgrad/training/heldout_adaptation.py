"""Train with `adapt=heldout` or `adapt=metric`: choose held-out lists, and train the parameters of the loss on them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rankgrad.data import Dataset
from rankgrad.data.splitting import HOLDOUT, held_out
from rankgrad.data.training_labels import lists_with_different_labels
from rankgrad.errors import bad_value, warn_caller
from rankgrad.losses.from_text import TextLoss
from rankgrad.run.objective import Batch
from rankgrad.training.batch_loading import DeviceData, StreamedData
from rankgrad.training.batch_schedule import BatchSchedule, StepLists
from rankgrad.training.hypergradient import heldout_gradient, step_scale
from rankgrad.training.objective import EagerStep, RankerWithLoss


@dataclass(frozen=True)
class HeldoutSchedule(BatchSchedule):
    """A batch schedule that uses only the lists in `only`."""

    only: NDArray[np.int64] | None = None  # numbers of the lists to use

    def _batches(self, lengths: NDArray[np.int64], rng: np.random.Generator) -> list[NDArray[np.int64]]:
        kept = np.zeros_like(lengths)
        kept[self.only] = lengths[self.only]  # all other lists get length 0, and a schedule leaves out empty lists
        return super()._batches(kept, rng)


def split_held_out(data: Dataset, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the indices of the training lists and of the held-out lists. Labels differ in each held-out list."""
    differ = lists_with_different_labels(data)
    heldout, first = np.intersect1d(held_out(data, HOLDOUT, seed)[1], differ), data.first_lists
    if not len(heldout):
        bad_value("data", "have at least 3 lists in which labels differ, because some are held out", len(differ))
    return np.flatnonzero(~np.isin(first, first[heldout])), heldout


def freeze_loss(loss: TextLoss, resumed: bool) -> dict[str, nn.Parameter]:
    """Freeze the parameters of the loss, and return them by name. A step of the ranker then does not change them.

    `adapt` is deprecated, because a choice among fixed losses by the validation lists is better: see
    studies/learned-loss. A resumed run gives no warning.
    """
    loss.warns = False  # this training run adapts the parameters
    if not resumed:
        told = f"adapt={loss.adapt} is deprecated, and version 0.4 removes it"
        warn_caller(f"{told}: train with several fixed gains and discounts, and choose by the validation lists")
    learned = {name: value for name, value in loss.named_parameters() if value.requires_grad}
    for value in learned.values():
        value.requires_grad_(False)
    return learned


class HeldoutStep:
    """A training step: a step of the ranker, and then a step of Adam for the parameters of the loss.

    The second step reduces the loss `goal` of a held-out batch (default: negative NDCG). This step uses the
    hypergradient; see `rankgrad.training.hypergradient`. If an epoch has more steps than there are held-out batches,
    the held-out batches are repeated. The held-out lists are shuffled again for each epoch.
    """

    def __init__(
        self,
        step: EagerStep,
        objective: RankerWithLoss,
        learned: dict[str, nn.Parameter],
        source: DeviceData | StreamedData,
        schedule: BatchSchedule,
        *,
        lr: float,
        goal: Callable[..., Tensor] | None = None,
    ) -> None:
        self.step, self.objective, self.learned, self.source, self.schedule = step, objective, learned, source, schedule
        self.optimiser = torch.optim.Adam([{"params": [*learned.values()], "base_lr": lr}], lr=lr)
        self.goal = goal
        self._heldout: Iterator[tuple[StepLists, Batch]] = iter(())

    def begin(self, epoch: int, first: int, steps: int) -> None:
        """Prepare the held-out batches for an epoch with `steps` steps. The epoch begins or resumes at step `first`."""
        order = self.schedule.steps(epoch)
        heldout = [order[number % len(order)] for number in range(first, steps)]
        self._heldout = zip(heldout, self.source.batches(heldout), strict=True)

    def __call__(self, batch: Batch, lists: int) -> Tensor:
        """Do one step on a batch of `lists` lists. Return one loss per list of this process.

        These losses are computed before the weights are updated.
        """
        ranker, loss = self.objective.ranker, self.objective.loss
        before = [weight.detach().clone() for weight in ranker.parameters() if weight.requires_grad]
        values = self.step(batch, lists)
        heldout, heldout_batch = next(self._heldout)
        scale = step_scale(self.step.optimiser.optimizer)
        count = heldout.batch
        sizes = batch, lists, heldout_batch, count
        found = heldout_gradient(ranker, loss, before, scale, *sizes, self._add, goal=self.goal)
        for name, value in self.learned.items():
            value.grad = found[name].to(value.dtype)
        self.optimiser.step()
        return values

    def _add(self, value: Tensor) -> Tensor:
        summed: Any = self.step.fabric.all_reduce(value, reduce_op="sum")
        return summed
