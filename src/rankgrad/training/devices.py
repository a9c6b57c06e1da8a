"""Choose the device of a run. If `torchrun` or SLURM has started several processes, connect them."""

import atexit
import logging
import os
from typing import Any

import torch

from rankgrad.errors import bad_value
from rankgrad.settings.neural import PRECISIONS, Settings


def start_fabric(settings: Settings) -> Any:
    """Return a Fabric object for the device in the settings. With `torchrun` or SLURM, also connect the processes."""
    from lightning_fabric import Fabric

    device = chosen_device(settings.device)
    if device.type == "cpu" and settings.precision == "fp16":
        bad_value("precision", "be 'fp32' or 'bf16' on the CPU", "'fp16'")
    world = int(os.environ.get("WORLD_SIZE", 1)) if "LOCAL_RANK" in os.environ else 1
    local = int(os.environ.get("LOCAL_WORLD_SIZE", world))
    if "SLURM_NTASKS" in os.environ and "SLURM_PROCID" in os.environ and world == 1:
        world = int(os.environ["SLURM_NTASKS"])
        local = world // int(os.environ.get("SLURM_NNODES", 1))
    devices: Any = local if world > 1 else 1 if device.index is None else [device.index]
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # hide messages about initialisation
    fabric = Fabric(
        accelerator=device.type,
        devices=devices,
        num_nodes=max(1, world // local),
        strategy="ddp" if world > 1 else "auto",
        precision=PRECISIONS[settings.precision],  # type: ignore[arg-type]
    )
    if world > 1:
        fabric.launch()
        atexit.register(_leave)
    return fabric


def chosen_device(text: str) -> torch.device:
    """Return the device of a setting: `auto`, `cpu`, `cuda` or `cuda:N`.

    Args:
        text: value of the setting `device`.
    """
    kind, _, number = text.partition(":")
    if kind == "auto":
        kind = "cuda" if torch.cuda.is_available() else "cpu"
    if kind == "cuda" and not torch.cuda.is_available():
        bad_value("device", "be 'cpu' or 'auto' on this machine", f"{text!r}: PyTorch finds no GPU")
    return torch.device(kind, int(number)) if number else torch.device(kind)


def _leave() -> None:
    """Close the connections to the other processes. Threads of open connections could abort this process at exit."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
