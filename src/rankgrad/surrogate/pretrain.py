"""Pretraining of NeuralLoss's networks on generated lists, which are new at every step and depend on the seed alone."""

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
from rankgrad.errors import bad_value, one_of
from rankgrad.lock import locked
from rankgrad.losses.surrogate_networks import FORMAT, VERSION, WEIGHTS, make
from rankgrad.metrics import dcg, ndcg
from rankgrad.surrogate.generated_lists import PRIORS, draw
from rankgrad.training.checkpoint import LAST
from rankgrad.training.optimisers import load_state, schedule, set_rate, state_tensors

FIDELITY = "fidelity.json"


@dataclass(frozen=True)
class PretrainDefaults:
    """Default settings of pretraining for one form of the network."""

    lengths: tuple[int, int]
    lists: int  # an epoch
    batch: int  # lists per step, all of one length
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
    """What a pretraining run is told; None: as `RECIPES` says for the form.

    Example:
        >>> Plan(form="mended", epochs=2).recipe.lengths
        (1, 200)
    """

    form: str = "mended"  # of the network: "mended" or "published"
    grades: int = 5  # number of label values, 3 or 5
    lists: int | None = None  # an epoch
    epochs: int = 20  # number of epochs
    batch: int | None = None  # lists per step, all of one length
    seed: int = 0  # random seed of the weights and the lists

    def check(self) -> None:
        """Raise an error about the first thing that is wrong."""
        one_of("form", self.form, RECIPES)
        if self.grades not in PRIORS:
            bad_value("grades", f"be one of {', '.join(map(str, PRIORS))}", self.grades)
        for name in ("lists", "epochs", "batch"):
            value = getattr(self, name)
            if value is not None and value < 1:
                bad_value(name, "be at least 1", value)

    @property
    def recipe(self) -> PretrainDefaults:
        """The recipe of the form, with what the plan changes in it."""
        recipe = RECIPES[self.form]
        return dataclasses.replace(recipe, lists=self.lists or recipe.lists, batch=self.batch or recipe.batch)

    @property
    def steps(self) -> int:
        """Steps an epoch."""
        return max(1, self.recipe.lists // self.recipe.batch)


def pretrain(
    plan: PretrainSpec,
    out: Path | None = None,
    *,
    device: str = "cpu",
    resume: bool = False,
    tell: Callable[[int, float], None] = lambda epoch, error: None,
) -> nn.Module:
    """Train a network of a form to estimate its metric, by squared error; the network that comes out.

    With `out`, a checkpoint an epoch and the weights at the end are written there, aside and then renamed. A run that
    is killed and resumed gives, on the CPU, bitwise the weights of one that was not: the lists of a step depend on the
    seed and the number of the step.

    Args:
        plan: what to train, and on how much.
        out: a folder that `NeuralLoss(path=...)` reads.
        device: where to compute. The lists differ from one kind of device to another.
        resume: go on from the checkpoint in `out`, if there is one.
        tell: called after each epoch with its number and its root mean squared error.

    Example:
        >>> network = pretrain(Plan(form="mended", lists=256, epochs=1))
        >>> network.config["form"]
        'mended'
    """
    plan.check()
    if out is None:
        return _pretrain(plan, None, device, resume, tell)
    with locked(out, again=True):
        check_plain(out)
        return _pretrain(plan, out, device, resume, tell)


def _pretrain(
    plan: PretrainSpec, out: Path | None, device: str, resume: bool, tell: Callable[[int, float], None]
) -> nn.Module:
    with torch.random.fork_rng([]):
        torch.manual_seed(plan.seed)
        network: nn.Module = make(plan.form, plan.grades).to(device)
    optimiser = torch.optim.Adam([{"params": list(network.parameters()), "base_lr": plan.recipe.lr}])
    done = 0
    if out is not None and (out / LAST).exists():
        if not resume:
            bad_value(str(out), "be a new folder, or be resumed", "a run that is there already")
        done = _load(out / LAST, plan, network, optimiser)
    for epoch in range(done, plan.epochs):
        error = _epoch(plan, epoch, network, optimiser, device)
        if out is not None:
            _save(out / LAST, plan, network, optimiser, epoch + 1)
        tell(epoch + 1, error)
    if out is not None:
        facts = {"format": FORMAT, "version": VERSION, "network": network.config, "plan": dataclasses.asdict(plan)}
        write_tensors(out / WEIGHTS, network.state_dict(), facts)
    return network


def keep_fidelity(out: Path, plan: PretrainSpec, rows: list[Any]) -> None:
    """Write the fidelity of what was trained beside it."""
    write_json(out / FIDELITY, {"plan": dataclasses.asdict(plan), "rows": [row._asdict() for row in rows]})


def _epoch(plan: PretrainSpec, epoch: int, network: nn.Module, optimiser: torch.optim.Optimizer, device: str) -> float:
    rate = schedule(plan.recipe.schedule, plan.epochs, 0.0)
    total = torch.zeros((), device=device)
    for step in range(epoch * plan.steps, (epoch + 1) * plan.steps):
        set_rate(optimiser, rate(step / plan.steps, 1.0))
        scores, labels, target = lists_of(plan, step, device)
        error = (network(scores, labels, torch.ones_like(scores, dtype=torch.bool)) - target).square().mean()
        optimiser.zero_grad()
        error.backward()
        optimiser.step()
        total += error.detach()
    return math.sqrt(float(total) / plan.steps)


def lists_of(plan: PretrainSpec, step: int, device: str = "cpu") -> tuple[Tensor, Tensor, Tensor]:
    """Scores and labels of a step, `(batch, n)`, and what the network is to make of them, `(batch,)`."""
    recipe = plan.recipe
    shortest, longest = recipe.lengths
    number = plan.seed * 2**24 + step
    # Lengths from 40 to 50 alike often; from 1 to 200 as often from 1 to 2 as from 100 to 200.
    power = random.Random(number).random()
    n = min(longest, int(shortest * ((longest + 1) / shortest) ** power))
    generator = torch.Generator(device).manual_seed(number)
    scores, labels = draw(recipe.batch, n, plan.grades, pairing=recipe.pairing, generator=generator)
    if recipe.target == "dcg":
        return scores, labels, dcg(scores, labels, gain="linear", reduction="none")
    return scores, labels, ndcg(scores, labels, reduction="none")


def _save(path: Path, plan: PretrainSpec, network: nn.Module, optimiser: torch.optim.Optimizer, done: int) -> None:
    tensors = {f"network.{name}": value for name, value in network.state_dict().items()}
    tensors |= {f"optimiser.{name}": value for name, value in state_tensors(optimiser)}
    write_tensors(path, tensors, {"plan": dataclasses.asdict(plan), "epochs done": done})


def _load(path: Path, plan: PretrainSpec, network: nn.Module, optimiser: torch.optim.Optimizer) -> int:
    tensors, facts = read_tensors(path)
    try:
        for name, now in dataclasses.asdict(plan).items():
            then = facts["plan"].get(name)
            if then != now:
                bad_value(name, f"be {then!r}, as when {path.parent} began, to go on", repr(now))
        parts: dict[str, dict[str, Tensor]] = {"network": {}, "optimiser": {}}
        for name, value in tensors.items():
            part, _, rest = name.partition(".")
            parts[part][rest] = value
        network.load_state_dict(parts["network"])
        load_state(optimiser, parts["optimiser"])
        return int(facts["epochs done"])
    except (KeyError, TypeError, AttributeError, RuntimeError) as error:
        got = str(error).strip().partition("\n")[0]
        raise ValueError(f"{path} must be a checkpoint of such a network; got {got}: start anew") from error
