"""Train a text ranker on the lists of a text data set, with any loss of `rankgrad.losses`."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rankgrad.data import Dataset
from rankgrad.data.evaluation import evaluate_lists
from rankgrad.errors import bad_value
from rankgrad.run import NotFinite
from rankgrad.run.loop import OneProcess, TrainingLoop
from rankgrad.run.objective import Batch, column_tensors, objective
from rankgrad.settings.schema import Checked
from rankgrad.settings.text import TextSettings
from rankgrad.text.collection import collection_of
from rankgrad.text.list_sampling import training_steps
from rankgrad.text.model import TextModel, pairs_of
from rankgrad.text.network import TextNetwork
from rankgrad.text.network_from_settings import build_network
from rankgrad.training.batch_schedule import StepLists
from rankgrad.training.checkpoint import run_id
from rankgrad.training.devices import chosen_device
from rankgrad.training.epochs import EpochTraining

Groups = list[dict[str, Any]]


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


class NetworkWithLoss(nn.Module):
    """Text network and loss as one module, so that a checkpoint contains both."""

    def __init__(self, network: TextNetwork, loss: Any) -> None:
        super().__init__()
        self.network, self.loss = network, loss


class TextTraining(EpochTraining):
    """The training of a text ranker."""

    folder: Path | None
    kept: dict[str, Tensor] | None = None  # weights of the best epoch

    def __init__(
        self, checked: Checked, data: Dataset, validation: Dataset | None, init_model: TextModel | None
    ) -> None:
        validation = None if validation is None or not len(validation) else validation
        super().__init__(checked, data, validation, None, OneProcess(chosen_device(checked.settings.device)))
        self.init_model, self.device = init_model, self.processes.device

    def start(self, folder: Path | None, resume: bool) -> None:
        """Make network, loss and optimiser; see `Trainable.start`.

        Args:
            folder: folder of the run, or None.
            resume: True to resume from the checkpoint in the folder, if there is one.
        """
        settings, init_model, device = self.settings, self.init_model, self.device
        self.folder = folder
        init_hash = None if init_model is None else init_model.weights_hash()
        self.find_checkpoint(folder, resume, init_hash)
        torch.manual_seed(settings.seed)
        network = build_network(settings)
        if init_model is not None:
            network.load_state_dict(init_model.network.state_dict())
        self.network = network.to(device).use(collection_of(self.data))
        if settings.checkpointing:
            self.network.checkpoint_layers()
        self.loss = self.loss.to(device)
        self.objective = NetworkWithLoss(self.network, self.loss)
        kind, options = self.parts["optimiser"]
        if device.type == "cuda" and kind in (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD):
            options = {**options, "fused": True}
        self.optimiser = kind(parameter_groups(self.network, self.loss, settings), **options)
        self.optimisers = {"optimiser": self.optimiser}
        self.model = TextModel(self.network, self.settings_json, run=run_id(settings, self.data, init_hash))
        self.model.features, self.model.feature_names = self.data.features.shape[1], self.data.feature_names
        torch.manual_seed(settings.seed)
        self.average = self.new_average()
        self.restore()

    def train(self, loop: TrainingLoop) -> dict[str, Any]:
        """Train one epoch; see `Trainable.train`.

        Args:
            loop: the loop of the run.
        """
        state, settings, labels = self.state, self.settings, np.asarray(self.data.labels)
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
        groups = [steps[start : start + settings.accumulation] for start in range(0, len(steps), settings.accumulation)]
        for batches in groups[state.step :]:
            now = state.epoch + min(1.0, (state.step + 1) * settings.accumulation / len(steps))
            self.set_rates(now)
            self._step(batches, labels)
            state.step += 1
            state.first = self.mean_loss() if state.first is None else state.first
            loop.show(now, self.mean_loss())
            if self.saves_at(state.step, len(groups)):
                loop.save()
        return {"loss": self.mean_loss()}

    def _step(self, batches: list[StepLists], labels: Any) -> None:
        """Do one step of the text ranker's optimiser, with the gradient of the mean loss over all lists of the step."""
        self.optimiser.zero_grad(set_to_none=True)
        count = sum(batch.batch for batch in batches)
        for batch in batches:
            with self.model.precision():
                scores = self.network(pairs_of(self.data, batch.rows))
            weights = None if self.weights is None else self.weights[torch.from_numpy(batch.rows)].to(self.device)
            wanted, offsets = (torch.from_numpy(part).to(self.device) for part in (labels[batch.rows], batch.offsets))
            columns = column_tensors(self.data, batch.rows, self.device)
            values = objective(self.loss, scores, Batch(None, wanted, offsets, weights, columns=columns))
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
        if self.average is not None:
            self.average.update()

    def validate(self) -> float | None:
        """Return the metric of the current weights; see `Trainable.validate`."""
        if self.validation is None:
            return None
        with self.averaged():
            scores = self.model.score_lists(self.validation)
        self.network.use(collection_of(self.data))  # the validation lists may be of another collection
        found = evaluate_lists(scores, self.validation, [self.parts["metric"]], bootstrap=0)
        values = found.values[self.metric]
        return found.means[self.metric] if np.isfinite(values).any() else math.nan

    def keep(self) -> None:
        """Keep the weights of the best epoch in memory and in a folder."""
        with self.averaged():
            self.kept = {name: tensor.detach().cpu().clone() for name, tensor in self.network.state_dict().items()}
            self.model.metrics = self.results()
            if self.folder is not None:
                self.model.save(self.folder)

    def result(self) -> TextModel:
        """Return the text model with the weights of the best epoch."""
        if self.kept is not None:
            self.network.load_state_dict(self.kept)
        elif self.folder is not None and self.state.epoch:  # a finished run was resumed
            self.model = TextModel.load(self.folder, self.device)
            self.model.network.use(collection_of(self.data))
        self.model.history = self.state.history
        self.network.eval()
        return self.model
