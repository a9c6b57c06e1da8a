"""Checks that commands make before they begin, the process that prints, and the model that a command uses."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankgrad.models.protocol import TrainedModel


def together(*checks: Callable[[], object]) -> None:
    """Run all checks, then raise one error with one line per problem."""
    wrong: dict[str, None] = {}
    for check in checks:
        try:
            check()
        except (ValueError, TypeError, OSError) as error:
            wrong |= dict.fromkeys(str(error).splitlines())
    if wrong:
        raise ValueError("\n".join(wrong))


def is_first() -> bool:
    """True if this is the process that prints: the only one, or the first of `torchrun` or SLURM."""
    return int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0"))) == 0


def only_run(out: Path) -> AbstractContextManager[None]:
    """Lock the folder of a run; of several processes, only the first locks it."""
    from rankgrad.lock import locked

    return locked(out) if is_first() else nullcontext()


def check_device(device: str) -> str:
    """Return the device for `auto`, `cpu` or `cuda[:number]` on this machine."""
    import torch

    from rankgrad.errors import bad_value, one_of

    kind = device.partition(":")[0]
    one_of("device", kind, ("auto", "cpu", "cuda"))
    if kind == "cuda" and not torch.cuda.is_available():
        bad_value("device", "be 'cpu' or 'auto' on this machine", f"{device!r}: PyTorch finds no GPU")
    return ("cuda" if torch.cuda.is_available() else "cpu") if kind == "auto" else device


def load_model(folder: Path, device: str) -> "TrainedModel":
    """Load the model in a folder, of any kind, on a device."""
    from rankgrad.models.registry import load

    return load(folder, check_device(device))


def pair(option: str, text: str, read: Callable[[str], Any]) -> tuple[str, Any]:
    """Split `name=value`, the text of an option that may be repeated."""
    from rankgrad.errors import bad_value

    name, equals, value = text.partition("=")
    if not equals or not value.strip():
        bad_value(option, "be written name=value", repr(text))
    return name.strip().replace("-", "_"), read(value.strip())


def parse_value(value: str) -> Any:
    """Convert text to a number, True, False or None; return other text as it is, to be checked with the setting."""
    constants = {"none": None, "true": True, "false": False}
    if value.strip().lower() in constants:
        return constants[value.strip().lower()]
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value
