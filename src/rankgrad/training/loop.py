"""Train a neural ranker, epoch by epoch. Lightning Fabric handles devices, precision and several processes."""

import os
import time
import warnings
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rankgrad.atomic_files import check_plain
from rankgrad.data import Dataset
from rankgrad.data.categories import recode
from rankgrad.data.training_labels import check_training_labels, useful_validation
from rankgrad.errors import bad_type, bad_value, name_settings
from rankgrad.lock import locked
from rankgrad.losses.custom import CustomLoss, as_loss
from rankgrad.metrics.custom import as_metric
from rankgrad.models.protocol import Callback, NotFinite
from rankgrad.rankers.custom import CustomRanker
from rankgrad.training.batch_loading import batch_source
from rankgrad.training.batch_schedule import BatchSchedule, StepLists
from rankgrad.training.checkpoint import LAST, Checkpoint, RunState, run_id
from rankgrad.training.cuda_graphs import GraphStep
from rankgrad.training.devices import start_fabric
from rankgrad.training.feature_columns import fitted_preprocessing, make_ranker
from rankgrad.training.heldout_adaptation import HeldoutSchedule, HeldoutStep, freeze_loss, split_held_out
from rankgrad.training.hypergradient import metric_goal
from rankgrad.training.loggers import JsonLines, MetricTracker, ProgressBar
from rankgrad.training.model import Model
from rankgrad.training.objective import EagerStep, FiniteLossCheck, RankerWithLoss, checked_weights
from rankgrad.training.optimisers import MovingAverage, make_optimiser, plateau, schedule, set_rate
from rankgrad.training.settings import Settings
from rankgrad.training.validation import Validator
from rankgrad.training.warm_start import init_model_hash, warm_start

_ADVICE = name_settings("A smaller lr or {clip=1} often helps")
_DIVERGED = 1e4  # a loss above this multiple of the first step's loss causes a warning


def train(
    settings: Settings,
    data: Dataset,
    validation: Dataset | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    weights: Any = None,
    progress: bool | None = None,
    callbacks: Iterable[Callback] = (),
    init_model: Model | None = None,
) -> Model:
    """Train a neural ranker, and return the model of the epoch with the best metric on the validation lists.

    Without validation lists, return the model of the last epoch.

    Args:
        settings: settings of the run.
        data: training lists.
        validation: validation lists; the metric on these lists determines the best epoch and may stop the run early.
        out: folder for the model, checkpoints and `log.jsonl`; the run locks the folder. With None, nothing is written.
        resume: True to resume from the checkpoint in `out`, if there is one.
        weights: document weights `(documents,)`, for losses that take weights; with None, the weights of `data`.
        progress: with True, show a bar on a terminal, otherwise print one line per epoch. With None, show only the bar.
            With False, show nothing.
        callbacks: functions that are called with the log row of each epoch, after the checkpoint is written. A true
            return value ends the training after this epoch; a later call with `resume=True` can continue the training.
            With several processes, only the first process calls the functions.
        init_model: trained model. Training starts from the weights and the preprocessing of this model. If both
            runs have the same loss, training also starts from the parameters of the model's loss.

    Example:
        >>> from rankgrad.data import load
        >>> lists = load("synthetic:lists=40,features=10")
        >>> model = train(Settings(model="linear", epochs=2), lists.train, lists.validation)
        >>> model.score(lists.test.features, lists.test.offsets).shape == lists.test.labels.shape
        True
    """
    settings.check()
    callbacks = _checked(callbacks)
    texts = settings.to_json()
    validation = useful_validation(validation, texts["metric"])
    check_training_labels(data, texts["loss"], None if validation is None else texts["metric"], weights)
    folder = None if out is None else Path(out)
    if folder is not None and not resume and (folder / LAST).exists():
        bad_value(str(folder), "be a new folder, unless the run is resumed", "a folder that already contains a run")
    fabric = start_fabric(settings)
    with ExitStack() as stack:
        if folder is not None and fabric.global_rank == 0:  # only this process writes
            stack.enter_context(locked(folder, again=True))
            check_plain(folder)
        # The random state of the caller does not change.
        stack.enter_context(torch.random.fork_rng([fabric.device] if fabric.device.type == "cuda" else []))
        extra = (weights, progress, callbacks, init_model)
        return _TrainingRun(fabric, settings, data, validation, folder, resume, *extra, stack).go()


def _checked(callbacks: Any) -> list[Callback]:
    found = [callbacks] if callable(callbacks) else list(callbacks)
    for callback in found:
        if not callable(callback):
            bad_type("callbacks", "be functions with one argument, a log row", type(callback).__name__)
    return found


class _TrainingRun:
    def __init__(
        self,
        fabric: Any,
        settings: Settings,
        data: Dataset,
        validation: Dataset | None,
        folder: Path | None,
        resume: bool,
        weights: Any,
        progress: bool | None,
        callbacks: list[Callback],
        init_model: Model | None,
        stack: ExitStack,
    ) -> None:
        self.fabric, self.settings, self.data, self.folder, self.stack = fabric, settings, data, folder, stack
        device, rank, world = fabric.device, fabric.global_rank, fabric.world_size
        self.first, self.callbacks, self.stopped = rank == 0, callbacks, False
        self.state = RunState()
        init_hash = None if init_model is None else init_model_hash(init_model)
        self.checkpoint = None if folder is None else Checkpoint(folder, settings, data, fabric, init_hash, weights)
        self.resumed = self.checkpoint is not None and resume and self.checkpoint.path.exists()
        if self.checkpoint is not None and self.resumed:
            self.state = self.checkpoint.read()
            self.state.done = False
        if init_model is not None:
            self.data = data = recode(data, init_model.categories)
        validation = None if validation is None else recode(validation, data.categories)
        torch.manual_seed(settings.seed)
        self.steps = fitted_preprocessing(settings, data) if init_model is None else init_model.steps
        self.ranker, self.loss = make_ranker(settings.model, data.matrix.shape[1], self.steps), as_loss(settings.loss)
        if init_model is not None:
            self.steps = warm_start(init_model, settings, self.ranker, self.loss)
        self.ranker, self.loss = self.ranker.to(device), self.loss.to(device)
        adapted = freeze_loss(self.loss) if self.loss.adapt != "joint" else {}
        self.objective = RankerWithLoss(self.ranker, self.loss)
        optimiser = make_optimiser(
            settings.optimiser,
            self.ranker,
            self.loss,
            lr=settings.lr,
            loss_lr=settings.loss_lr,
            weight_decay=settings.weight_decay,
        )
        self.module, self.optimiser = fabric.setup(self.objective, optimiser)
        torch.manual_seed(settings.seed + rank)  # dropout differs between processes
        self.average = MovingAverage(self.objective.state_dict().values(), settings.ema) if settings.ema else None
        self.scaler = getattr(fabric.strategy.precision, "scaler", None)
        self.batch_schedule = BatchSchedule(
            np.asarray(data.labels),
            np.asarray(data.offsets),
            settings.seed,
            settings.batch_size,
            settings.batch_documents,
            settings.list_size,
            self.ranker.list_aware,
            rank,
            world,
        )
        self.source = batch_source(
            data,
            self.steps,
            device,
            data_on=settings.data_on,
            weights=checked_weights(data.weights if weights is None else weights, data, self.loss),
        )
        self.optimisers = {"optimiser": self.optimiser.optimizer}
        self.step = self._heldout_step(adapted) if adapted else self._stepper()
        self.validator = None
        if validation is not None:
            options: dict[str, Any] = {"data_on": settings.data_on, "rank": rank, "world": world}
            self.validator = Validator(validation, self.steps, settings.metric, device, **options)
        self.rate = schedule(settings.schedule, settings.epochs, settings.warmup)
        self.loss_check = FiniteLossCheck(device)
        self.kept: dict[str, Tensor] | None = None  # weights of the best epoch
        self.model = Model(self.ranker, self.steps, settings.to_json(), run=run_id(settings, data, init_hash))
        self.model.feature_names, self.model.categories = data.feature_names, data.categories
        self.metric = self.model.settings["metric"]  # metric as text
        self._begin()
        self.bar = ProgressBar(settings.epochs, self.metric, progress if self.first else False)
        stack.callback(self.bar.close)

    def _stepper(self) -> EagerStep | GraphStep:
        fabric, settings, optimiser = self.fabric, self.settings, self.optimiser.optimizer
        custom = isinstance(self.ranker, CustomRanker) or (isinstance(self.loss, CustomLoss) and not self.loss.packaged)
        recordable = "capturable" in optimiser.defaults and self.scaler is None and settings.batch_documents is None
        recordable = recordable and not custom  # custom code may wait for the device, or have side effects
        if fabric.device.type == "cuda" and fabric.world_size == 1 and recordable:
            lists, aware = settings.batch_size, self.ranker.list_aware
            return GraphStep(fabric, self.module, optimiser, settings.clip, self.average, lists=lists, list_aware=aware)
        return EagerStep(fabric, self.module, self.optimiser, settings.clip, self.average)

    def _heldout_step(self, learned: dict[str, nn.Parameter]) -> HeldoutStep:
        """Return a step that also updates the parameters of the loss, with lists that are held out of training."""
        settings = self.settings
        kept, heldout = split_held_out(self.data, settings.seed)
        if self.checkpoint is not None:
            self.checkpoint.set_held_out(heldout)
        options = vars(self.batch_schedule)
        self.batch_schedule = HeldoutSchedule(**options, only=kept)
        heldout_schedule = HeldoutSchedule(**options, only=heldout)
        step = EagerStep(self.fabric, self.module, self.optimiser, settings.clip, self.average)
        lr = settings.loss_lr or settings.lr
        goal = metric_goal(as_metric(settings.metric)) if self.loss.adapt == "metric" else None
        found = HeldoutStep(step, self.objective, learned, self.source, heldout_schedule, lr=lr, goal=goal)
        self.optimisers["adapt"] = found.optimiser
        return found

    def _begin(self) -> None:
        """If the run is resumed, restore the checkpoint. Then open the logs."""
        self.logs: list[Any] = []
        if self.folder is None:
            return
        checkpoint = self.checkpoint
        assert checkpoint is not None
        if self.resumed:
            checkpoint.load(self.objective, self.optimisers, self.average, self.scaler)
        self.model.run = checkpoint.run  # the identifier in the existing files
        if self.first:
            log = JsonLines(self.folder)
            log.truncate(self.state.log_bytes)
            settings = self.settings.to_json()
            self.logs = [log, *(MetricTracker(tracker, self.folder, settings) for tracker in self.settings.trackers)]
            for tracker in self.logs:
                self.stack.callback(tracker.close)
            self.model.save_config(self.folder)

    def go(self) -> Model:
        """Run the remaining epochs, and return the model."""
        state, patience = self.state, self.settings.patience
        self.objective.train()
        while state.epoch < self.settings.epochs and not (patience and state.stale >= patience) and not self.stopped:
            self._epoch()
        return self._finish()

    def _epoch(self) -> None:
        state, began, before = self.state, time.perf_counter(), self.state.seconds
        steps = self.batch_schedule.steps(state.epoch)
        batches = self.source.batches(steps[state.step :])
        if isinstance(self.step, HeldoutStep):
            self.step.begin(state.epoch, state.step, len(steps))
        for step, batch in zip(steps[state.step :], batches, strict=True):
            now = state.epoch + (state.step + 1) / len(steps)
            for optimiser in self.optimisers.values():
                set_rate(optimiser, self.rate(now, state.plateau))
            self.loss_check.add(state.step, self.step(batch, step.batch))
            state.step += 1
            state.lists += step.batch
            saving = self.settings.save_steps and state.step % self.settings.save_steps == 0 and state.step < len(steps)
            if self.loss_check.due() or saving or state.step == len(steps) or state.first is None:
                self._check_losses(steps)
                self.bar.at(now, state.loss / max(1, state.lists), state.best, self.loss.learned())
            if saving:
                state.seconds = before + time.perf_counter() - began
                self._save()
        row: dict[str, Any] = {"epoch": state.epoch + 1, "loss": state.loss / max(1, state.lists)}
        trained = time.perf_counter() - began
        self._validate(row)
        rate = self.optimiser.param_groups[0]["lr"]
        row |= {"lr": float(rate), **self.loss.learned(), "seconds": round(trained, 4)}
        row["judge_seconds"] = round(time.perf_counter() - began - trained, 4)
        self._warn(row)
        state.history.append(row)
        state.epoch, state.step, state.loss, state.lists = state.epoch + 1, 0, 0.0, 0
        state.plateau = plateau(self.settings.schedule, state.plateau, state.stale)
        state.seconds = before + time.perf_counter() - began
        for log in self.logs:
            log.epoch(row)
        self.bar.epoch(row)
        self._save()
        self._call_back(row)

    def _call_back(self, row: dict[str, Any]) -> None:
        """Call the callbacks in the first process. If a callback returns a true value, all processes stop."""
        if not self.callbacks:
            return
        answers = [bool(callback(dict(row))) for callback in self.callbacks] if self.first else []
        self.stopped = bool(self.fabric.broadcast(any(answers)))

    def _check_losses(self, steps: list[StepLists]) -> None:
        """Add the new losses of all processes to the state. It is an error if a loss is not finite."""
        total, bad = self.loss_check.take()
        if self.fabric.world_size > 1:
            total = float(
                self.fabric.all_reduce(
                    torch.tensor(total, dtype=torch.float64, device=self.fabric.device), reduce_op="sum"
                )
            )
        if bad is not None:
            step, values = bad
            lists = steps[step].lists[~torch.isfinite(values).numpy()]
            queries = ", ".join(map(str, self.data.qids[lists][:5])) + (" and more" if len(lists) > 5 else "")
            raise NotFinite(
                f"the loss must be finite; got {float(values[~torch.isfinite(values)][0])} in epoch "
                f"{self.state.epoch + 1}, step {step + 1}, for the queries {queries}; " + self._last_good()
            )
        if not abs(total) < float("inf"):
            raise NotFinite(f"the loss must be finite; got {total} in another process, which shows its own error")
        self.state.loss += total
        if self.state.first is None:
            self.state.first = total / max(1, self.state.lists)

    def _warn(self, row: dict[str, Any]) -> None:
        """Warn once if the loss is finite but very large, and write the warning to the log."""
        state = self.state
        first = state.first or 0.0
        if (
            not self.first
            or abs(row["loss"]) <= _DIVERGED * max(1.0, abs(first))
            or any("warning" in past for past in state.history)
        ):
            return
        grown = f"the loss has grown to {row['loss']:.3g} in epoch {row['epoch']}, from {first:.3g} at the first step"
        row["warning"] = f"training diverges: {grown}. " + _ADVICE
        warnings.warn(row["warning"], stacklevel=2)

    def _last_good(self) -> str:
        last = self.checkpoint.path if self.checkpoint and self.checkpoint.path.exists() else "none"
        return f"last good checkpoint: {last}. " + _ADVICE

    def _validate(self, row: dict[str, Any]) -> None:
        """Compute the metric on the validation lists. Store the weights of the best epoch in memory and in a file."""
        state = self.state
        if self.average is not None:
            self.average.swap()
        if self.validator is None:
            better = True
        else:
            sums = self.fabric.all_reduce(self.validator.sums(self.ranker), reduce_op="sum")
            if sums[2] > 0:
                raise NotFinite(
                    f"the scores must be numbers; got {int(sums[2])} NaN values on the validation lists after epoch "
                    f"{state.epoch + 1}; " + self._last_good()
                )
            value = self.validator.value(sums)
            better = self.validator.better(value, state.best)
            row[self.metric] = value
            state.best = value if better else state.best
        state.stale = 0 if better else state.stale + 1
        if better:
            state.best_epoch = state.epoch + 1
            self.kept = {name: tensor.detach().clone() for name, tensor in self.objective.state_dict().items()}
            self._describe()
            if self.first and self.folder is not None:
                self.model.save_weights(self.folder)
        if self.average is not None:
            self.average.swap()

    def _describe(self) -> None:
        """Copy the metrics and the loss parameters of the best epoch into the model."""
        state = self.state
        self.model.metrics = {"epoch": state.best_epoch, "validation": {self.metric: state.best}}
        if state.best is None:
            self.model.metrics = {"epoch": state.best_epoch}
        self.model.learned = {name: value.detach().clone() for name, value in self.loss.state_dict().items()}
        self.model.metrics |= {"loss": self.loss.learned()} if self.loss.learned() else {}

    def _save(self) -> None:
        if self.checkpoint is not None:
            self.state.log_bytes = self.logs[0].length if self.first else 0
            self.checkpoint.save(self.state, self.objective, self.optimisers, self.average, self.scaler)
            self.fabric.barrier()

    def _finish(self) -> Model:
        """Return the model with the weights of the best epoch."""
        self.fabric.barrier()
        if self.kept is not None:
            self.objective.load_state_dict(self.kept)
        elif self.folder is not None:  # a finished run was resumed
            network = self.settings.model if isinstance(self.ranker, CustomRanker) else None
            self.model = Model.load(self.folder, self.fabric.device, model=network)
        self.model.history = self.state.history
        self.model.ranker.eval()
        return self.model
