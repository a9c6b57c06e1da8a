"""The loop of every training. It trains unit by unit: a unit is an epoch of a network, or a tree.

The loop locks the folder, resumes, validates, keeps the best unit, stops early, writes checkpoints and logs, shows the
progress and calls the callbacks. What differs between networks, texts and trees is a `Trainable`.
"""

import math
import os
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar

import torch

from rankgrad.atomic_files import check_plain
from rankgrad.errors import bad_type, bad_value, name_settings
from rankgrad.lock import locked
from rankgrad.run.checkpoint import LAST
from rankgrad.run.log import JsonLines, MetricTracker, ProgressBar, Tracker
from rankgrad.run.state import RunState
from rankgrad.tree_frameworks import FRAMEWORKS

# Function that is called with the log row of each epoch or tree. If it returns a true value, the training ends.
Callback = Callable[[dict[str, Any]], Any]

ADVICE = name_settings("A smaller lr or {clip=1} often helps")
_DIVERGED = 1e4  # a loss above this multiple of the first step's loss causes a warning


class NotFinite(ArithmeticError):
    """Error in training: the loss or the scores are NaN or infinite. The message names the last good checkpoint."""


class OneProcess:
    """A run in one process, with the part of the interface of Lightning Fabric that the loop and checkpoints use."""

    global_rank, world_size = 0, 1

    def __init__(self, device: torch.device | None = None) -> None:
        self.device = torch.device("cpu") if device is None else device

    def broadcast(self, value: Any) -> Any:
        """Return the value of the first process."""
        return value

    def barrier(self) -> None:
        """Wait for all other processes: there are none."""


class Trainable(ABC):
    """Base class of the trainings. A run calls `start`, and then per unit `train`, `validate`, `keep` and `save`."""

    unit: ClassVar[str] = "epoch"  # unit of progress, "epoch" or "tree"; also a key of each row of the history
    files: ClassVar[tuple[str, ...]] = (LAST,)  # a folder with one of these files contains a run
    keeps_last: bool = False  # True if the model contains the last unit, even if an earlier one has a better metric
    trackers: tuple[str, ...] = ()  # additional logs: tensorboard, mlflow, wandb
    processes: Any  # `OneProcess`, or the Fabric object of a run
    units: int  # maximum number of units
    patience: int | None  # number of units without a better metric before the run stops; None: no early stop
    metric: str  # name of the metric on the validation lists
    higher_is_better: bool  # True if a higher value of this metric is better
    settings_json: dict[str, Any]  # settings of the run, as JSON values
    state: RunState

    @abstractmethod
    def start(self, folder: Path | None, resume: bool) -> None:
        """Make the parts of the run. If the run is resumed, restore them and `state` from the checkpoint.

        Args:
            folder: folder of the run, locked; None if nothing is written.
            resume: True to resume from the checkpoint in the folder, if there is one.
        """

    @abstractmethod
    def train(self, loop: "TrainingLoop") -> dict[str, Any] | None:
        """Train one unit. Return the numbers that its log row begins with; None if there is nothing more to learn.

        Args:
            loop: the loop, for checkpoints and progress inside the unit.
        """

    @abstractmethod
    def validate(self) -> float | None:
        """Return the metric on the validation lists; NaN if it skips all lists; None without validation lists."""

    def keep(self) -> None:
        """Keep the model in its current state, which is the best so far."""
        return

    @abstractmethod
    def learned(self) -> Mapping[str, float]:
        """Return the parameters of the loss by name."""

    def rates(self) -> dict[str, float]:
        """Return the learning rate, as it is in the log row."""
        return {}

    def finish_unit(self) -> None:
        """Prepare `state` for the next unit, before the checkpoint is written."""
        return

    @abstractmethod
    def save(self) -> None:
        """Write the checkpoint, if the run has a folder and it is time for one."""

    @abstractmethod
    def result(self) -> Any:
        """Return the trained model: the best unit. Write what the folder of the run lacks."""


def run(
    trainable: Trainable,
    *,
    out: str | os.PathLike[str] | None,
    resume: bool,
    progress: bool | None,
    callbacks: Iterable[Callback],
) -> Any:
    """Run a training, and return the model.

    Args:
        trainable: what is trained.
        out: folder for the model, checkpoints and `log.jsonl`; the run locks the folder. With None, nothing is written.
        resume: True to resume from the checkpoint in `out`, if there is one.
        progress: with True, show a bar on a terminal, otherwise print one line per unit. With None, show only the bar.
            With False, show nothing.
        callbacks: functions that are called with the log row of each unit, after the checkpoint is written. A true
            return value ends the training after this unit; a later call with `resume=True` can continue the training.
            With several processes, only the first process calls the functions.
    """
    functions, folder = checked_callbacks(callbacks), None if out is None else Path(out)
    first, device = trainable.processes.global_rank == 0, trainable.processes.device
    with ExitStack() as stack:
        if folder is not None:
            if first:  # only this process writes
                stack.enter_context(locked(folder, again=True))
                check_plain(folder)
            if not resume and any((folder / name).exists() for name in trainable.files):
                bad_value(
                    str(folder), "be a new folder, unless the run is resumed", "a folder that already contains a run"
                )
        # The random state of the caller does not change.
        stack.enter_context(torch.random.fork_rng([device] if device.type == "cuda" else []))
        trainable.start(folder, resume)
        logs = _open_logs(trainable, folder, stack) if first and folder is not None else []
        bar = ProgressBar(trainable.units, trainable.metric, progress if first else False, trainable.unit)
        stack.callback(bar.close)
        return TrainingLoop(trainable, logs, bar, functions).go()


def checked_callbacks(callbacks: Any) -> list[Callback]:
    """Return the callbacks of a run as a list, and check that they are functions.

    Args:
        callbacks: a function, or functions.
    """
    functions = [callbacks] if callable(callbacks) else list(callbacks)
    for function in functions:
        if (library := str(getattr(function, "__module__", "")).partition(".")[0]) in FRAMEWORKS:
            must = "be functions of one log row, a dict (for early stopping, use the setting patience)"
            bad_type("callbacks", must, f"a callback of {library}")
        if not callable(function):
            bad_type("callbacks", "be functions with one argument, a log row", type(function).__name__)
    return functions


def _open_logs(trainable: Trainable, folder: Path, stack: ExitStack) -> list[Tracker]:
    """Return the open logs of a run. `log.jsonl` contains the history of the checkpoint, and nothing after it."""
    lines = JsonLines(folder)
    lines.restart(trainable.state.history)
    logs: list[Tracker] = [lines]
    for tracker in trainable.trackers:
        logs.append(MetricTracker(tracker, folder, trainable.settings_json))
        stack.callback(logs[-1].close)
    return logs


class TrainingLoop:
    """The units of one run."""

    def __init__(self, trainable: Trainable, logs: list[Tracker], bar: ProgressBar, callbacks: list[Callback]) -> None:
        self.trainable, self.state, self.logs, self.bar = trainable, trainable.state, logs, bar
        self.callbacks, self.stopped = callbacks, False
        self._began, self._before = time.perf_counter(), 0.0

    def go(self) -> Any:
        """Train the remaining units, and return the model."""
        trainable, state = self.trainable, self.state
        patience = math.inf if trainable.patience is None else trainable.patience
        while not self.stopped and state.stale < patience and len(state.history) < trainable.units and self._unit():
            pass
        return trainable.result()

    def _unit(self) -> bool:
        """Train, validate, log and save one unit. Return False if the training added nothing."""
        trainable, state = self.trainable, self.state
        self._began, self._before = time.perf_counter(), state.seconds
        numbers = trainable.train(self)
        if numbers is None:
            return False
        row = {trainable.unit: len(state.history) + 1, **numbers}
        trained = time.perf_counter() - self._began
        value = trainable.validate()
        if value is not None:
            row[trainable.metric] = value
        if state.judge(value, higher_is_better=trainable.higher_is_better, latest=trainable.keeps_last):
            trainable.keep()
        row |= {**trainable.rates(), **trainable.learned(), "seconds": round(trained, 4)}
        row["judge_seconds"] = round(time.perf_counter() - self._began - trained, 4)
        self._warn(row)
        state.history.append(row)
        trainable.finish_unit()
        for log in self.logs:
            log.epoch(row)
        self.bar.epoch(row)
        self.show(len(state.history), row.get("loss"))
        self.save()
        self._call_back(row)
        return True

    def show(self, done: float, loss: float | None) -> None:
        """Update the progress bar.

        Args:
            done: number of finished units, which may be a fraction.
            loss: mean loss of the current epoch; None for trees.
        """
        self.bar.at(done, loss, self.state.best, self.trainable.learned())

    def save(self) -> None:
        """Write a checkpoint, with the training time until now."""
        self.state.seconds = self._before + time.perf_counter() - self._began
        if self.logs:
            self.state.log_bytes = self.logs[0].length  # type: ignore[attr-defined]
        self.trainable.save()

    def _call_back(self, row: dict[str, Any]) -> None:
        """Call the callbacks in the first process. If a callback returns a true value, all processes stop."""
        if self.callbacks:
            processes = self.trainable.processes
            first = processes.global_rank == 0
            answers = [bool(callback(dict(row))) for callback in self.callbacks] if first else []  # all are called
            self.stopped = bool(processes.broadcast(any(answers)))

    def _warn(self, row: dict[str, Any]) -> None:
        """Warn once if the loss is finite but very large, and write the warning to the log."""
        first = self.state.first
        if first is None or self.trainable.processes.global_rank > 0:
            return
        if abs(row["loss"]) <= _DIVERGED * max(1.0, abs(first)) or any(
            "warning" in past for past in self.state.history
        ):
            return
        grown = f"the loss has grown to {row['loss']:.3g} in epoch {row['epoch']}, from {first:.3g} at the first step"
        row["warning"] = f"training diverges: {grown}. " + ADVICE
        warnings.warn(row["warning"], stacklevel=2)
