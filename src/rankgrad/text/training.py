"""Train a text ranker on the lists of a text data set, with any loss of `rankgrad.losses`."""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rankgrad.atomic_files import check_plain
from rankgrad.data import Dataset
from rankgrad.data.evaluation import evaluate_lists
from rankgrad.data.training_labels import check_training_labels, useful_validation
from rankgrad.errors import bad_value
from rankgrad.lock import locked
from rankgrad.losses.custom import as_loss
from rankgrad.metrics.custom import as_metric
from rankgrad.models.protocol import Callback, NotFinite
from rankgrad.text.collection import collection_of
from rankgrad.text.list_sampling import training_steps
from rankgrad.text.model import TextModel, pairs_of
from rankgrad.text.network import TextNetwork
from rankgrad.text.network_from_settings import build_network
from rankgrad.text.settings import TextSettings
from rankgrad.training.batch_schedule import StepLists
from rankgrad.training.checkpoint import LAST, Checkpoint, RunState, run_id
from rankgrad.training.devices import chosen_device
from rankgrad.training.loggers import JsonLines, ProgressBar
from rankgrad.training.objective import checked_weights
from rankgrad.training.optimisers import check_optimiser, plateau, schedule, set_rate

Groups = list[dict[str, Any]]


def train_text(
    settings: TextSettings,
    data: Dataset,
    validation: Dataset | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: bool | None = None,
    callbacks: Iterable[Callback] = (),
    init_model: TextModel | None = None,
) -> TextModel:
    """Train a text ranker, and return the model of the epoch with the best metric on the validation lists.

    Without validation lists, return the model of the last epoch. On a CPU, a resumed run gives exactly the same weights
    as an uninterrupted run.

    Args:
        settings: settings of the run.
        data: training lists: a text data set, for example from `rankgrad.text.candidate_lists`.
        validation: validation lists, also a text data set.
        out: folder for the model, checkpoints and `log.jsonl`; the run locks the folder. None to write nothing.
        resume: True to resume from the checkpoint in `out`, if a checkpoint exists.
        progress: True to show a progress bar on a terminal, otherwise one line per epoch. None: only the bar.
        callbacks: functions that are called with the log row of each epoch; a true return value ends the training.
        init_model: trained text model of the same architecture. The training starts from the weights of this model.
    """
    settings.check()
    collection_of(data)
    texts = settings.to_json()
    validation = useful_validation(validation, texts["metric"])
    check_training_labels(data, texts["loss"], None if validation is None else texts["metric"])
    folder = None if out is None else Path(out)
    if folder is not None and not resume and (folder / LAST).exists():
        bad_value(str(folder), "be a new folder, unless the run is resumed", "a folder that already contains a run")
    device = chosen_device(settings.device)
    with ExitStack() as stack:
        if folder is not None:
            stack.enter_context(locked(folder, again=True))
            check_plain(folder)
        stack.enter_context(torch.random.fork_rng([device] if device.type == "cuda" else []))
        listed: list[Callback] = [callbacks] if callable(callbacks) else list(callbacks)
        run = _TextRun(settings, data, validation, folder, resume, device, listed, init_model)
        run.bar = ProgressBar(settings.epochs, run.metric_text, progress)
        stack.callback(run.bar.close)
        return run.go()


def parameter_groups(network: TextNetwork, loss: nn.Module, settings: TextSettings) -> Groups:
    """Return the parameter groups of a text optimiser: encoder, head and loss. Biases and norms have no weight decay.

    Args:
        network: network to train.
        loss: loss. If it has parameters, they are the last group.
        settings: settings with the learning rates.
    """
    body, head = network.body_parameters(), network.head_parameters()
    learned = [parameter for parameter in loss.parameters() if parameter.requires_grad]
    groups = []
    for parameters, rate in ((body, settings.lr), (head, settings.head_lr or settings.lr)):
        for decays in (True, False):
            chosen = [each for each in parameters if (each.dim() > 1) == decays]
            decay = settings.weight_decay if decays else 0.0
            groups.append({"params": chosen, "lr": rate, "base_lr": rate, "weight_decay": decay})
    rate = settings.loss_lr or settings.lr
    groups.append({"params": learned, "lr": rate, "base_lr": rate, "weight_decay": 0.0})
    return [group for group in groups if group["params"]]


class _Objective(nn.Module):
    """Network and loss as one module, so that a checkpoint contains both."""

    def __init__(self, network: TextNetwork, loss: Any) -> None:
        super().__init__()
        self.network, self.loss = network, loss


class _TextRun:
    bar: ProgressBar

    def __init__(
        self,
        settings: TextSettings,
        data: Dataset,
        validation: Dataset | None,
        folder: Path | None,
        resume: bool,
        device: torch.device,
        callbacks: list[Callback],
        init_model: TextModel | None,
    ) -> None:
        self.settings, self.data, self.folder, self.device = settings, data, folder, device
        self.callbacks, self.state, self.stopped = callbacks, RunState(), False
        init_hash = None if init_model is None else init_model.weights_hash()
        alone = SimpleNamespace(device=device, global_rank=0, world_size=1)
        self.checkpoint = None
        if folder is not None:
            self.checkpoint = Checkpoint(folder, settings, data, alone, init_hash)  # type: ignore[arg-type]
        resumed = self.checkpoint is not None and resume and self.checkpoint.path.exists()
        if self.checkpoint is not None and resumed:
            self.state = self.checkpoint.read()
        torch.manual_seed(settings.seed)
        network = build_network(settings)
        if init_model is not None:
            network.load_state_dict(init_model.network.state_dict())
        self.network = network.to(device).use(collection_of(data))
        if settings.checkpointing:
            self.network.checkpoint_layers()
        self.loss = as_loss(settings.loss).to(device)
        self.weights = checked_weights(data.weights, data, self.loss)
        self.objective = _Objective(self.network, self.loss)
        kind, options = check_optimiser(settings.optimiser)
        if device.type == "cuda" and kind in (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD):
            options |= {"fused": True}
        self.optimiser = kind(parameter_groups(self.network, self.loss, settings), **options)
        self.rate = schedule(settings.schedule, settings.epochs, settings.warmup)
        texts = settings.to_json()
        self.metric, self.metric_text = as_metric(settings.metric), texts["metric"]
        self.validation = None if validation is None or not len(validation) else validation
        run = run_id(settings, data, init_hash)  # type: ignore[arg-type]
        self.model = TextModel(self.network, texts, run=run)
        self.model.features, self.model.feature_names = data.features.shape[1], data.feature_names
        self.kept: dict[str, Tensor] | None = None
        self.log = None if folder is None else JsonLines(folder)
        torch.manual_seed(settings.seed)
        if self.checkpoint is not None:
            if resumed:
                self.checkpoint.load(self.objective, {"optimiser": self.optimiser}, None, None)
            assert self.log is not None
            self.log.truncate(self.state.log_bytes)

    def go(self) -> TextModel:
        """Run the remaining epochs, and return the text model."""
        state, patience = self.state, self.settings.patience
        while state.epoch < self.settings.epochs and not (patience and state.stale >= patience) and not self.stopped:
            self._epoch()
        if self.kept is not None:
            self.network.load_state_dict(self.kept)
        elif self.folder is not None and state.epoch:  # a finished run was resumed, or the best epoch is in the past
            model = TextModel.load(self.folder, self.device)
            model.network.use(collection_of(self.data))
            self.model = model
        self.model.history = state.history
        self.network.eval()
        return self.model

    def _epoch(self) -> None:
        state, settings, began = self.state, self.settings, time.perf_counter()
        labels = np.asarray(self.data.labels)
        steps = training_steps(
            labels,
            self.data.offsets,
            batch_size=settings.batch_size,
            list_size=settings.list_size,
            sampling=settings.sampling,
            seed=settings.seed,
            epoch=state.epoch,
        )
        if not steps:
            bad_value("data", "contain a list whose labels differ", f"none in {len(self.data)} lists")
        self.objective.train()
        state.loss, state.lists = 0.0, 0
        for place, batches in enumerate(_groups(steps, settings.accumulation)):
            now = state.epoch + min(1.0, (place + 1) * settings.accumulation / len(steps))
            set_rate(self.optimiser, self.rate(now, state.plateau))
            self._step(batches, labels)
            self.bar.at(now, state.loss / max(1, state.lists), state.best, self.loss.learned())
        if state.first is None and state.lists:
            state.first = state.loss / state.lists
        trained = time.perf_counter() - began
        row: dict[str, Any] = {"epoch": state.epoch + 1, "loss": state.loss / max(1, state.lists)}
        self._validate(row)
        rate = float(self.optimiser.param_groups[0]["lr"])
        row |= {"lr": rate, **self.loss.learned(), "seconds": round(trained, 4)}
        row["judge_seconds"] = round(time.perf_counter() - began - trained, 4)
        state.history.append(row)
        state.epoch, state.loss, state.lists = state.epoch + 1, 0.0, 0
        state.plateau = plateau(settings.schedule, state.plateau, state.stale)
        state.seconds += time.perf_counter() - began
        if self.log is not None and self.checkpoint is not None:
            self.log.epoch(row)
            state.log_bytes = self.log.length
            self.checkpoint.save(state, self.objective, {"optimiser": self.optimiser}, None, None)
        self.bar.epoch(row)
        answers = [bool(callback(dict(row))) for callback in self.callbacks]  # all are called
        self.stopped = any(answers)

    def _step(self, batches: list[StepLists], labels: Any) -> None:
        """Do one step of the text ranker's optimiser, with the gradient of the mean loss over all lists of the step."""
        self.optimiser.zero_grad(set_to_none=True)
        count = sum(batch.batch for batch in batches)
        for batch in batches:
            with self.model.precision():
                scores = self.network(pairs_of(self.data, batch.rows))
            wanted = torch.from_numpy(labels[batch.rows]).to(self.device)
            offsets = torch.from_numpy(batch.offsets).to(self.device)
            extra = {}
            if self.weights is not None:
                extra["weights"] = self.weights[torch.from_numpy(batch.rows)].to(self.device)
            values = self.loss(scores, wanted, offsets=offsets, reduction="none", **extra)
            (values.sum() / count).backward()
            total = float(values.detach().double().sum())
            if not abs(total) < float("inf"):
                query = self.data.qids[batch.lists[int((~torch.isfinite(values)).nonzero()[0, 0])]]
                where = f"in epoch {self.state.epoch + 1}, query {query}"
                raise NotFinite(f"the loss must be finite; got {total} {where}. A smaller lr often helps")
            self.state.loss += total
            self.state.lists += batch.batch
        if self.settings.clip is not None:
            parameters = [each for group in self.optimiser.param_groups for each in group["params"]]
            nn.utils.clip_grad_norm_(parameters, self.settings.clip)
        self.optimiser.step()

    def _validate(self, row: dict[str, Any]) -> None:
        """Compute the text ranker's validation metric. Store the best epoch's weights in memory and in a folder."""
        state, better = self.state, True
        if self.validation is not None:
            scores = self.model.score_lists(self.validation)
            self.network.use(collection_of(self.data))  # the validation lists may be of another collection
            value = evaluate_lists(scores, self.validation, [self.metric], bootstrap=0).means[self.metric_text]
            sign = 1 if self.metric.higher_is_better else -1
            better = state.best is None or sign * value > sign * state.best
            row[self.metric_text] = value
            state.best = value if better else state.best
        state.stale = 0 if better else state.stale + 1
        if not better:
            return
        state.best_epoch = state.epoch + 1
        self.kept = {name: tensor.detach().cpu().clone() for name, tensor in self.network.state_dict().items()}
        found = {} if state.best is None else {"validation": {self.metric_text: state.best}}
        learned = self.loss.learned()
        self.model.metrics = {"epoch": state.best_epoch, **found, **({"loss": learned} if learned else {})}
        if self.folder is not None:
            self.model.save(self.folder)


def _groups(steps: list[StepLists], size: int) -> Iterator[list[StepLists]]:
    for start in range(0, len(steps), size):
        yield steps[start : start + size]
