"""Make optimisers and learning rate schedules from specs: `adamw:betas=...`, `cosine`, `step:every=50,factor=0.1`."""

import inspect
import math
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from rankgrad.atomic_files import under
from rankgrad.errors import bad_value, one_of
from rankgrad.option_checks import LARGEST, fit_options
from rankgrad.spec import known_options, no_cutoff, show, spell

OPTIMISERS: dict[str, Any] = {
    "adagrad": torch.optim.Adagrad,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "nadam": torch.optim.NAdam,
    "radam": torch.optim.RAdam,
    "rmsprop": torch.optim.RMSprop,
    "sgd": torch.optim.SGD,
}
# Options that the training loop sets. They are settings of the run, or they do not affect the result of a step.
_OURS = ("params", "lr", "weight_decay", "foreach", "fused", "capturable", "differentiable", "maximize")
SCHEDULES: dict[str, dict[str, float]] = {
    "constant": {},
    "cosine": {"end": 0.0},
    "step": {"every": 50, "factor": 0.1},
    "plateau": {"patience": 5, "factor": 0.5},
}


def check_optimiser(text: Any) -> tuple[Any, dict[str, Any]]:
    """Check the spec of an optimiser, and return class and options of the optimiser; a result is returned unchanged."""
    if isinstance(text, tuple):
        return text
    name, _, options = no_cutoff("optimiser", spell("optimiser", text), text)
    one_of("optimiser", name, OPTIMISERS)
    takes = [option for option in inspect.signature(OPTIMISERS[name]).parameters if option not in _OURS]
    known_options(name, options, takes)
    options = fit_options(name, options, OPTIMISERS[name])
    if "betas" in options:
        options["betas"] = tuple(options["betas"])
    try:  # the optimiser itself checks the values
        OPTIMISERS[name]([nn.Parameter(torch.zeros(1))], lr=1e-3, **options)
    except (ValueError, RuntimeError) as error:
        bad_value("optimiser", f"have options that {name} takes", f"{show(text)} and the error {error}")
    return OPTIMISERS[name], options


def make_optimiser(
    spec: Any, ranker: nn.Module, loss: nn.Module, *, lr: float, loss_lr: float | None, weight_decay: float
) -> torch.optim.Optimizer:
    """Return an optimiser with two groups: the parameters of the ranker and the parameters of the loss.

    The second group has no weight decay. `base_lr` is the learning rate of a group before the schedule multiplies it by
    a factor. On a GPU, the learning rate is a tensor and the step is fused. So a CUDA graph can contain the step.
    """
    kind, options = check_optimiser(spec)
    groups: list[dict[str, Any]] = [{"params": _trained(ranker), "base_lr": lr, "weight_decay": weight_decay}]
    if loss_parameters := _trained(loss):
        groups.append({"params": loss_parameters, "base_lr": loss_lr or lr, "weight_decay": 0.0})
    device = groups[0]["params"][0].device
    takes = inspect.signature(kind).parameters
    if device.type == "cuda" and "capturable" in takes:
        options = {**options, "capturable": True} | ({"fused": True} if "fused" in takes else {})
    for group in groups:
        rate = group["base_lr"]
        group["lr"] = torch.tensor(rate, device=device) if "capturable" in options else rate
    return kind(groups, **options)


def _trained(module: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def set_rate(optimiser: torch.optim.Optimizer, factor: float) -> None:
    """Set the learning rate of each group to `base_lr` of the group times a factor."""
    for group in optimiser.param_groups:
        if group.get("factor") == factor:  # skip a kernel launch that would change nothing
            continue
        group["factor"] = factor
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(group["base_lr"] * factor)
        else:
            group["lr"] = group["base_lr"] * factor


def check_schedule(text: Any) -> tuple[str, dict[str, float]]:
    """Check the spec of a learning rate schedule, and return name and all options; a result is returned unchanged."""
    if isinstance(text, tuple):
        return text
    name, _, options = no_cutoff("schedule", spell("schedule", text), text)
    one_of("schedule", name, SCHEDULES)
    known_options(name, options, SCHEDULES[name])
    for option, value in options.items():
        # Without these limits, powers of a factor above 1 and the time divided by a very small `every` could overflow.
        least, most = 0.001 if option == "every" else 0, 1 if option == "factor" else LARGEST
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            bad_value(f"{option} of {name}", f"be a number from {least} to {most:,}", show(value))
    if not isinstance(options.get("patience", 0), int):
        bad_value("patience of plateau", "be an integer", options["patience"])
    return name, {**SCHEDULES[name], **options}


class Schedule:
    """A learning rate schedule, which computes a factor of the learning rate.

    Example:
        >>> rate = Schedule("step:every=2,factor=0.1", epochs=4, warmup=1)
        >>> [round(rate.factor(time), 3) for time in (0.25, 1.5, 3.5)]
        [0.25, 1.0, 0.1]
    """

    def __init__(self, spec: Any, epochs: int, warmup: float) -> None:
        self.name, self.options = check_schedule(spec)
        self.epochs, self.warmup = epochs, warmup

    def factor(self, time: float, plateau: float = 1.0) -> float:
        """Return the factor at a time in epochs. `plateau` is the factor that `lowered` returned last."""
        warmup, options = self.warmup, self.options
        rise = min(1.0, time / warmup) if warmup else 1.0
        if self.name == "cosine":
            share = min(1.0, max(0.0, time - warmup) / max(self.epochs - warmup, 1e-9))
            return rise * (options["end"] + (1 - options["end"]) * (1 + math.cos(math.pi * share)) / 2)
        if self.name == "step":
            return rise * options["factor"] ** math.floor(time / options["every"])
        return rise * plateau

    def lowered(self, plateau: float, stale: int) -> float:
        """Return the new plateau factor after `stale` consecutive epochs without a better metric."""
        if self.name != "plateau" or stale == 0 or stale % (int(self.options["patience"]) + 1):
            return plateau
        return plateau * self.options["factor"]


class MovingAverage:
    """An exponential moving average of weights (setting `ema`); `swap` exchanges the average and the weights."""

    def __init__(self, tensors: Iterable[Tensor], decay: float) -> None:
        # Layers may share a weight, which must be averaged only once.
        once = {(tensor.data_ptr(), tensor.shape): tensor for tensor in tensors if tensor.is_floating_point()}
        self.live, self.decay = [*once.values()], decay
        self.mean = [tensor.detach().clone() for tensor in self.live]

    @torch.no_grad()
    def update(self) -> None:
        """Move the average of the weights one step towards the current weights."""
        if self.live:
            torch._foreach_lerp_(self.mean, self.live, 1.0 - self.decay)

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange the average and the weights; a second call restores both."""
        for mean, live in zip(self.mean, self.live, strict=True):
            kept = live.clone()
            live.copy_(mean)
            mean.copy_(kept)


def state_tensors(optimiser: torch.optim.Optimizer) -> Iterator[tuple[str, Tensor]]:
    """Yield the state of an optimiser as named tensors, for a checkpoint; a name is `group.parameter.kind`."""
    for number, parameter in _numbered(optimiser):
        for kind, value in optimiser.state.get(parameter, {}).items():
            if isinstance(value, Tensor):
                yield f"{number}.{kind}", value


def load_state(optimiser: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Restore the state of an optimiser from the tensors that `state_tensors` yields."""
    known: set[frozenset[str]] = set()
    for number, parameter in _numbered(optimiser):
        stored = under(f"{number}.", tensors)
        # Step counters are on the CPU, unless the step is part of a CUDA graph.
        counters = parameter.device if optimiser.defaults.get("capturable") else torch.device("cpu")
        known |= {frozenset(stored)} if stored else set()
        if len(known) > 1 or any(value.dim() and value.shape != parameter.shape for value in stored.values()):
            bad_value("state of the optimiser", "match its parameters", f"{', '.join(stored)} for parameter {number}")
        if stored:
            optimiser.state[parameter] = {
                kind: value.to(parameter.device if value.dim() else counters) for kind, value in stored.items()
            }


def _numbered(optimiser: torch.optim.Optimizer) -> Iterator[tuple[str, nn.Parameter]]:
    for group_number, group in enumerate(optimiser.param_groups):
        for number, parameter in enumerate(group["params"]):
            yield f"{group_number}.{number}", parameter
