"""Base class of the trainings of networks and text rankers: epochs, learning rates, and a checkpoint."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from rankgrad.data import Dataset
from rankgrad.run import Trainable
from rankgrad.run.state import RunState
from rankgrad.run.training_labels import check_lists
from rankgrad.settings.schema import Checked
from rankgrad.training.checkpoint import Checkpoint
from rankgrad.training.objective import checked_weights
from rankgrad.training.optimisers import MovingAverage, Schedule, set_rate


class EpochTraining(Trainable):
    """A training in epochs by gradient descent. A subclass makes the parts in `start`, and trains in `train`."""

    objective: nn.Module  # network and loss as one module, so that a checkpoint contains both
    optimisers: dict[str, Any]  # optimisers of PyTorch, by the name that the checkpoint uses
    average: MovingAverage | None = None  # moving average of the weights, for the setting `ema`
    scaler: Any = None
    checkpoint: Checkpoint | None = None
    resumed: bool = False  # True if the run continues from a checkpoint
    folder: Path | None
    kept: dict[str, Tensor] | None = None  # weights of the best epoch

    def __init__(
        self, checked: Checked, data: Dataset, validation: Dataset | None, weights: Any, processes: Any
    ) -> None:
        self.settings, self.parts = settings, parts = checked.settings, checked.parts
        self.data, self.processes, self.settings_json = data, processes, settings.to_json()
        self.loss, self.judge = copy.deepcopy(parts["loss"]), parts["metric"]  # checked settings may be trained again
        self.metric, self.higher_is_better = self.settings_json["metric"], self.judge.higher_is_better
        self.weights = checked_weights(data.weights if weights is None else weights, data, self.loss)
        self.validation = check_lists(data, validation, str(self.loss), self.loss.traits, self.judge, self.weights)
        self.units, self.patience = settings.epochs, settings.patience
        self.schedule = Schedule(parts["schedule"], settings.epochs, settings.warmup)
        self.trackers = tuple(settings.trackers or ())
        self.state = RunState()

    def find_checkpoint(self, folder: Path | None, resume: bool, init_hash: str | None) -> None:
        """Take the folder, and prepare the checkpoint of the run. If the run is resumed, read `state` from it.

        Args:
            folder: folder of the run, or None.
            resume: True to resume from the checkpoint in the folder, if there is one.
            init_hash: hash of the model that the run starts from, or None.
        """
        self.folder = folder
        if folder is not None:
            self.checkpoint = Checkpoint(folder, self.settings, self.data, self.processes, init_hash, self.weights)
            self.resumed = resume and self.checkpoint.path.exists()
            if self.resumed:
                self.state = self.checkpoint.read()

    def restore(self) -> None:
        """If the run is resumed, restore weights, optimisers and random state from the checkpoint."""
        if self.checkpoint is not None and self.resumed:
            self.checkpoint.load(self.objective, self.optimisers, self.average, self.scaler)

    def set_rates(self, now: float) -> None:
        """Set the learning rates of all optimisers.

        Args:
            now: time in epochs, as a fraction.
        """
        for optimiser in self.optimisers.values():
            set_rate(optimiser, self.schedule.factor(now, self.state.plateau))

    def new_average(self) -> MovingAverage | None:
        """Return a moving average of the current weights of network and loss; None without the setting `ema`."""
        decay = self.settings.ema
        return MovingAverage(self.objective.state_dict().values(), decay) if decay else None

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Exchange the weights and their moving average, if there is one, inside of a `with` statement."""
        if self.average is not None:
            self.average.swap()
        yield
        if self.average is not None:
            self.average.swap()

    def saves_at(self, step: int, steps: int) -> bool:
        """Return True if a checkpoint is written after a step inside of an epoch.

        Args:
            step: number of completed steps in this epoch.
            steps: number of steps of this epoch.
        """
        every = self.settings.save_steps
        return bool(every) and step % every == 0 and step < steps

    def mean_loss(self) -> float:
        """Return the mean loss of the lists of this epoch so far."""
        return self.state.loss / max(1, self.state.lists)

    def results(self) -> dict[str, Any]:
        """Return the metrics of the best epoch, as a model stores them."""
        state, learned = self.state, self.loss.learned()
        found: dict[str, Any] = {"epoch": state.best_epoch}
        found |= {} if state.best is None else {"validation": {self.metric: state.best}}
        return found | ({"loss": learned} if learned else {})

    def learned(self) -> dict[str, float]:
        """Return the parameters of the loss by name."""
        return self.loss.learned()

    def rates(self) -> dict[str, float]:
        """Return the current learning rate of the ranker."""
        return {"lr": float(self.optimisers["optimiser"].param_groups[0]["lr"])}

    def finish_unit(self) -> None:
        """Begin a new epoch in `state`."""
        state = self.state
        state.epoch, state.step, state.loss, state.lists = state.epoch + 1, 0, 0.0, 0
        state.plateau = self.schedule.lowered(state.plateau, state.stale)

    def save(self) -> None:
        """Write the checkpoint, if the run has a folder."""
        if self.checkpoint is not None:
            self.checkpoint.save(self.state, self.objective, self.optimisers, self.average, self.scaler)
            self.processes.barrier()
