"""Train a neural ranker. Lightning Fabric handles devices, precision and several processes."""

import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rankgrad.data import Dataset
from rankgrad.data.categories import recode
from rankgrad.losses.custom import CustomLoss
from rankgrad.rankers.custom import CustomRanker
from rankgrad.run import Callback, NotFinite, run
from rankgrad.run.loop import ADVICE, TrainingLoop
from rankgrad.settings.neural import Settings
from rankgrad.settings.schema import Checked
from rankgrad.training.batch_loading import batch_source
from rankgrad.training.batch_schedule import BatchSchedule, StepLists
from rankgrad.training.checkpoint import run_id
from rankgrad.training.cuda_graphs import GraphStep
from rankgrad.training.devices import start_fabric
from rankgrad.training.epochs import EpochTraining
from rankgrad.training.feature_columns import fitted_preprocessing, make_ranker
from rankgrad.training.heldout_adaptation import HeldoutSchedule, HeldoutStep, freeze_loss, split_held_out
from rankgrad.training.hypergradient import metric_goal
from rankgrad.training.model import Model
from rankgrad.training.objective import EagerStep, RankerWithLoss
from rankgrad.training.optimisers import make_optimiser
from rankgrad.training.validation import Validator
from rankgrad.training.warm_start import init_model_hash, warm_start


def train(
    settings: Settings | Checked,
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
    checked = Settings.checked(settings)
    training = NeuralTraining(checked, data, validation, weights, init_model)
    return run(training, out=out, resume=resume, progress=progress, callbacks=callbacks)


class NeuralTraining(EpochTraining):
    """The training of a neural ranker."""

    folder: Path | None
    kept: dict[str, Tensor] | None = None  # weights of the best epoch
    validator: Validator | None = None

    def __init__(
        self, checked: Checked, data: Dataset, validation: Dataset | None, weights: Any, init_model: Model | None
    ) -> None:
        super().__init__(checked, data, validation, weights, start_fabric(checked.settings))
        self.fabric, self.init_model = self.processes, init_model

    def start(self, folder: Path | None, resume: bool) -> None:
        """Make ranker, loss, optimiser and batches; see `Trainable.start`.

        Args:
            folder: folder of the run, or None.
            resume: True to resume from the checkpoint in the folder, if there is one.
        """
        fabric, settings, init_model, data = self.fabric, self.settings, self.init_model, self.data
        parts = self.parts
        device, rank, world = fabric.device, fabric.global_rank, fabric.world_size
        self.folder = folder
        init_hash = None if init_model is None else init_model_hash(init_model)
        self.find_checkpoint(folder, resume, init_hash)
        self.state.done = False
        if init_model is not None:
            self.data = data = recode(data, init_model.categories)
        torch.manual_seed(settings.seed)
        steps = settings.preprocessing(parts["preprocess"])
        self.steps = fitted_preprocessing(steps, data) if init_model is None else init_model.steps
        self.ranker = make_ranker(parts["model"], data.matrix.shape[1], self.steps)
        if init_model is not None:
            self.steps = warm_start(init_model, settings, self.ranker, self.loss)
        self.ranker, self.loss = self.ranker.to(device), self.loss.to(device)
        adapted = freeze_loss(self.loss, self.resumed) if self.loss.adapt != "joint" else {}
        self.objective = RankerWithLoss(self.ranker, self.loss)
        optimiser = make_optimiser(
            parts["optimiser"],
            self.ranker,
            self.loss,
            lr=settings.lr,
            loss_lr=settings.loss_lr,
            weight_decay=settings.weight_decay,
        )
        self.module, self.optimiser = fabric.setup(self.objective, optimiser)
        torch.manual_seed(settings.seed + rank)  # dropout differs between processes
        self.average = self.new_average()
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
        self.source = batch_source(data, self.steps, device, data_on=settings.data_on, weights=self.weights)
        self.optimisers = {"optimiser": self.optimiser.optimizer}
        self.step = self._heldout_step(adapted) if adapted else self._stepper()
        if self.validation is not None:
            lists = recode(self.validation, data.categories)
            options: dict[str, Any] = {"data_on": settings.data_on, "rank": rank, "world": world}
            self.validator = Validator(lists, self.steps, self.judge, device, **options)
        self.every = 1 if device.type == "cpu" else 64  # number of steps between checks of the losses
        self.waiting: list[tuple[int, Tensor]] = []  # numbers of the steps since the last check, and their losses
        name = run_id(settings, data, init_hash) if self.checkpoint is None else self.checkpoint.run
        self.model = Model(self.ranker, self.steps, self.settings_json, run=name)
        self.model.feature_names, self.model.categories = data.feature_names, data.categories
        self.restore()
        if folder is not None and rank == 0:
            self.model.save_config(folder)
        self.objective.train()

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
        goal = metric_goal(self.judge) if self.loss.adapt == "metric" else None
        assert isinstance(self.objective, RankerWithLoss)
        found = HeldoutStep(step, self.objective, learned, self.source, heldout_schedule, lr=lr, goal=goal)
        self.optimisers["adapt"] = found.optimiser
        return found

    def train(self, loop: TrainingLoop) -> dict[str, Any]:
        """Train one epoch; see `Trainable.train`.

        Args:
            loop: the loop of the run.
        """
        state = self.state
        steps = self.batch_schedule.steps(state.epoch)
        batches = self.source.batches(steps[state.step :])
        if isinstance(self.step, HeldoutStep):
            self.step.begin(state.epoch, state.step, len(steps))
        for step, batch in zip(steps[state.step :], batches, strict=True):
            now = state.epoch + (state.step + 1) / len(steps)
            self.set_rates(now)
            self.waiting.append((state.step, self.step(batch, step.batch)))
            state.step += 1
            state.lists += step.batch
            saving = self.saves_at(state.step, len(steps))
            if len(self.waiting) >= self.every or saving or state.step == len(steps) or state.first is None:
                self._check_losses(steps)
                loop.show(now, self.mean_loss())
            if saving:
                loop.save()
        return {"loss": self.mean_loss()}

    def _check_losses(self, steps: list[StepLists]) -> None:
        """Add the new losses of all processes to the state. It is an error if a loss is not finite."""
        waiting, self.waiting = self.waiting, []
        losses = torch.cat([values for _, values in waiting]).cpu().split([len(values) for _, values in waiting])
        totals = [float(values.sum(dtype=torch.float64)) for values in losses]
        bad = next((place for place, total in enumerate(totals) if not abs(total) < float("inf")), None)
        total = sum(totals) if bad is None else totals[bad]
        if self.fabric.world_size > 1:
            total = float(
                self.fabric.all_reduce(
                    torch.tensor(total, dtype=torch.float64, device=self.fabric.device), reduce_op="sum"
                )
            )
        if bad is not None:
            step, values = waiting[bad][0], losses[bad]
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

    def _last_good(self) -> str:
        last = self.checkpoint.path if self.checkpoint and self.checkpoint.path.exists() else "none"
        return f"last good checkpoint: {last}. " + ADVICE

    def validate(self) -> float | None:
        """Return the metric of the current weights, or of their moving average; see `Trainable.validate`."""
        if self.validator is None:
            return None
        with self.averaged():
            total, counted, broken = self.fabric.all_reduce(self.validator.sums(self.ranker), reduce_op="sum").tolist()
        if broken > 0:
            raise NotFinite(
                f"the scores must be numbers; got {int(broken)} NaN values on the validation lists after epoch "
                f"{self.state.epoch + 1}; " + self._last_good()
            )
        return total / counted if counted else math.nan

    def keep(self) -> None:
        """Keep the weights of the best epoch in memory and in a file, with its metrics and loss parameters."""
        with self.averaged():
            self.kept = {name: tensor.detach().clone() for name, tensor in self.objective.state_dict().items()}
            self.model.metrics = self.results()
            self.model.learned = {name: value.detach().clone() for name, value in self.loss.state_dict().items()}
            if self.folder is not None and self.fabric.global_rank == 0:
                self.model.save_weights(self.folder)

    def result(self) -> Model:
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
