"""Pretrain the networks of NeuralLoss on generated lists. Each step generates new lists with its own random seed."""

import dataclasses
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rankgrad.atomic_files import check_plain, read_tensors, write_json, write_tensors
from rankgrad.errors import bad_value, first_line, one_of
from rankgrad.lock import locked
from rankgrad.losses.surrogate_networks import FORMAT, VERSION, WEIGHTS, make_network
from rankgrad.metrics import dcg, ndcg
from rankgrad.run.checkpoint import LAST
from rankgrad.surrogate.generated_lists import PRIORS, draw
from rankgrad.training.optimisers import Schedule, load_state, set_rate, state_tensors

FIDELITY = "fidelity.json"


@dataclass(frozen=True)
class PretrainDefaults:
    """Default settings for pretraining one form of the network of NeuralLoss."""

    lengths: tuple[int, int]
    lists: int  # number of lists per epoch
    batch: int  # number of lists per batch; all lists of a batch have the same length
    lr: float
    schedule: str
    pairing: str
    target: str


RECIPES = {
    "published": PretrainDefaults((40, 50), 220_000, 512, 1e-3, "step:every=10,factor=0.5", "published", "dcg"),
    "mended": PretrainDefaults((1, 200), 51_200, 128, 1e-2, "cosine", "mixed", "ndcg"),
}


@dataclass(frozen=True)
class PretrainSpec:
    """The settings of a pretraining run. If a setting is None, the default of the form in `RECIPES` is used.

    Example:
        >>> PretrainSpec(form="mended", epochs=2).recipe.lengths
        (1, 200)
    """

    form: str = "mended"  # form of the network: "mended" or "published"
    grades: int = 5  # number of label values, 3 or 5
    lists: int | None = None  # number of lists per epoch
    epochs: int = 20  # number of epochs
    batch: int | None = None  # number of lists per batch; all lists of a batch have the same length
    seed: int = 0  # random seed of the weights and the lists

    def check(self) -> None:
        """Check the settings of the pretraining run, and raise an error for the first wrong value."""
        one_of("form", self.form, RECIPES)
        if self.grades not in PRIORS:
            bad_value("grades", f"be one of {', '.join(map(str, PRIORS))}", self.grades)
        for name in ("lists", "epochs", "batch"):
            value = getattr(self, name)
            if value is not None and value < 1:
                bad_value(name, "be at least 1", value)

    @property
    def recipe(self) -> PretrainDefaults:
        """Settings of the pretraining run: `lists` and `batch` if they are not None, and the defaults of the form."""
        recipe = RECIPES[self.form]
        return dataclasses.replace(recipe, lists=self.lists or recipe.lists, batch=self.batch or recipe.batch)

    @property
    def steps(self) -> int:
        """Number of pretraining steps per epoch."""
        return max(1, self.recipe.lists // self.recipe.batch)


def pretrain(
    spec: PretrainSpec,
    out: Path | None = None,
    *,
    device: str = "cpu",
    resume: bool = False,
    tell: Callable[[int, float], None] = lambda epoch, error: None,
) -> nn.Module:
    """Pretrain a network of NeuralLoss to estimate a metric, with the squared error as loss, and return the network.

    With `out`, a checkpoint is written after each epoch, and the weights are written at the end. Each file is written
    atomically. On the CPU, a run that is killed and resumed ends with exactly the same weights as an uninterrupted run,
    because the lists of a step depend only on the seed and the number of the step.

    Args:
        spec: settings of the run.
        out: folder of the network, for `NeuralLoss(path=...)`; with None, nothing is written.
        device: device of the network. With the same seed, the lists on a CPU and on a GPU are different.
        resume: True to resume from the checkpoint in `out`, if there is one.
        tell: function that is called after each epoch. Its arguments are the number and the root mean squared error of
            the epoch.

    Example:
        >>> network = pretrain(PretrainSpec(form="mended", lists=256, epochs=1))
        >>> network.config["form"]
        'mended'
    """
    spec.check()
    if out is None:
        return _pretrain(spec, None, device, resume, tell)
    with locked(out, again=True):
        check_plain(out)
        return _pretrain(spec, out, device, resume, tell)


def _pretrain(
    spec: PretrainSpec, out: Path | None, device: str, resume: bool, tell: Callable[[int, float], None]
) -> nn.Module:
    with torch.random.fork_rng([]):
        torch.manual_seed(spec.seed)
        network: nn.Module = make_network(spec.form, spec.grades).to(device)
    optimiser = torch.optim.Adam([{"params": list(network.parameters()), "base_lr": spec.recipe.lr}])
    done = 0
    if out is not None and (out / LAST).exists():
        if not resume:
            bad_value(str(out), "be a new folder, unless the run is resumed", "a folder that already contains a run")
        done = _load(out / LAST, spec, network, optimiser)
    for epoch in range(done, spec.epochs):
        error = _epoch(spec, epoch, network, optimiser, device)
        if out is not None:
            _save(out / LAST, spec, network, optimiser, epoch + 1)
        tell(epoch + 1, error)
    if out is not None:
        facts = {"format": FORMAT, "version": VERSION, "network": network.config, "plan": dataclasses.asdict(spec)}
        write_tensors(out / WEIGHTS, network.state_dict(), facts)
    return network


def keep_fidelity(out: Path, spec: PretrainSpec, rows: list[Any]) -> None:
    """Write the fidelity of a pretrained network into the folder of the network."""
    write_json(out / FIDELITY, {"plan": dataclasses.asdict(spec), "rows": [row._asdict() for row in rows]})


def _epoch(spec: PretrainSpec, epoch: int, network: nn.Module, optimiser: torch.optim.Optimizer, device: str) -> float:
    rate = Schedule(spec.recipe.schedule, spec.epochs, 0.0)
    total = torch.zeros((), device=device)
    for step in range(epoch * spec.steps, (epoch + 1) * spec.steps):
        set_rate(optimiser, rate.factor(step / spec.steps))
        scores, labels, target = lists_of(spec, step, device)
        error = (network(scores, labels, torch.ones_like(scores, dtype=torch.bool)) - target).square().mean()
        optimiser.zero_grad()
        error.backward()
        optimiser.step()
        total += error.detach()
    return math.sqrt(float(total) / spec.steps)


def lists_of(spec: PretrainSpec, step: int, device: str = "cpu") -> tuple[Tensor, Tensor, Tensor]:
    """Generate the lists of a pretraining step: scores and labels, `(batch, n)`, and the true metric, `(batch,)`."""
    recipe = spec.recipe
    shortest, longest = recipe.lengths
    number = spec.seed * 2**24 + step
    # The logarithm of the length is uniform. So length 1 is about as frequent as lengths 100 to 200 together.
    power = random.Random(number).random()
    n = min(longest, int(shortest * ((longest + 1) / shortest) ** power))
    generator = torch.Generator(device).manual_seed(number)
    scores, labels = draw(recipe.batch, n, spec.grades, pairing=recipe.pairing, generator=generator)
    if recipe.target == "dcg":
        return scores, labels, dcg(scores, labels, gain="linear", reduction="none")
    return scores, labels, ndcg(scores, labels, reduction="none")


def _save(path: Path, spec: PretrainSpec, network: nn.Module, optimiser: torch.optim.Optimizer, done: int) -> None:
    tensors = {f"network.{name}": value for name, value in network.state_dict().items()}
    tensors |= {f"optimiser.{name}": value for name, value in state_tensors(optimiser)}
    write_tensors(path, tensors, {"plan": dataclasses.asdict(spec), "epochs done": done})


def _load(path: Path, spec: PretrainSpec, network: nn.Module, optimiser: torch.optim.Optimizer) -> int:
    tensors, facts = read_tensors(path)
    try:
        for name, now in dataclasses.asdict(spec).items():
            then = facts["plan"].get(name)
            if then != now:
                bad_value(name, f"be {then!r}, to resume {path.parent}", repr(now))
        parts: dict[str, dict[str, Tensor]] = {"network": {}, "optimiser": {}}
        for name, value in tensors.items():
            part, _, rest = name.partition(".")
            parts[part][rest] = value
        network.load_state_dict(parts["network"])
        load_state(optimiser, parts["optimiser"])
        return int(facts["epochs done"])
    except (KeyError, TypeError, AttributeError, RuntimeError) as error:
        must = "be a checkpoint of this kind of network (train again in a new folder)"
        bad_value(str(path), must, f"the error {first_line(error)}")
