"""Functions of several commands: check arguments, lock the folder of a run, and load a model."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankgrad.errors import BadValue, bad_value, collected, one_of

if TYPE_CHECKING:
    from rankgrad.models.protocol import TrainedModel


def together(*checks: object) -> None:
    """Run all checks of the arguments of a command, then raise one error with one line per problem.

    Args:
        checks: functions without arguments; any other value is no check.
    """
    if wrong := collected((check for check in checks if callable(check)), ValueError, TypeError, OSError, ImportError):
        raise BadValue(*wrong) from next(iter(wrong.values()))


def is_first() -> bool:
    """Return True in the process of a command that prints: the only process, or the first of `torchrun` or SLURM."""
    return int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0"))) == 0


def only_run(out: Path) -> AbstractContextManager[None]:
    """Lock the folder of a command's run. If the run has several processes, only the first process locks the folder."""
    from rankgrad.lock import locked

    return locked(out) if is_first() else nullcontext()


def check_device(device: str) -> str:
    """Check the option `--device` (`auto`, `cpu` or `cuda[:number]`); return the device, with `auto` replaced."""
    import torch

    kind = device.partition(":")[0]
    one_of("device", kind, ("auto", "cpu", "cuda"))
    if kind == "cuda" and not torch.cuda.is_available():
        bad_value("device", "be 'cpu' or 'auto', because PyTorch finds no GPU", repr(device))
    return ("cuda" if torch.cuda.is_available() else "cpu") if kind == "auto" else device


def load_model(folder: Path, device: str) -> "TrainedModel":
    """Load the model of a command, of any kind, from a folder to the device of `--device`."""
    from rankgrad.models.registry import load

    return load(folder, check_device(device))


def pair(option: str, text: str, read: Callable[[str], Any]) -> tuple[str, Any]:
    """Return the name and the value of a command line option `name=value`; the function `read` converts the value."""
    name, equals, value = text.partition("=")
    if not equals or not value.strip():
        bad_value(option, "have the form name=value", repr(text))
    return name.strip().replace("-", "_"), read(value.strip())


def parse_value(value: str) -> Any:
    """Convert text after `--set` or a similar option to a number, True, False or None; return other text unchanged."""
    constants = {"none": None, "true": True, "false": False}
    if value.strip().lower() in constants:
        return constants[value.strip().lower()]
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value
