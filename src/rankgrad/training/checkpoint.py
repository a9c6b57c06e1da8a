"""Write and read the checkpoint of a neural run. A resumed run gives the same result as an uninterrupted run."""

import dataclasses
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rankgrad.atomic_files import hash_of, read_tensors, under, write_tensors
from rankgrad.data import Dataset
from rankgrad.errors import bad_value
from rankgrad.run.checkpoint import LAST, check_settings, data_fingerprint, refuse_checkpoint
from rankgrad.run.state import RunState, checked_state
from rankgrad.settings.neural import Settings
from rankgrad.training.optimisers import MovingAverage, load_state, state_tensors


class Checkpoint:
    """The file `last.safetensors` of a neural run.

    The file contains the weights, the moving average of the weights, the state of the optimiser, the random state and
    the `RunState`.
    """

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        data: Dataset,
        fabric: Any,
        init_hash: str | None = None,
        weights: Tensor | None = None,
    ) -> None:
        self.path, self.fabric, self.init_hash = folder / LAST, fabric, init_hash
        self.settings, self.changeable = settings.to_json(), settings.changeable()
        self.data = data_fingerprint(data)
        self.weights = None if weights is None else zlib.crc32(weights.numpy().tobytes())
        self.run = run_id(settings, data, init_hash)
        self.held_out: str | None = None  # hash of the held-out lists, if there are any
        self._found: tuple[dict[str, Tensor], dict[str, Any]] | None = None

    def set_held_out(self, lists: NDArray[np.int64]) -> None:
        """Store a hash of the held-out lists. It is an error if the stopped run had other held-out lists."""
        self.held_out = hash_of(np.ascontiguousarray(lists).tobytes())[:16]
        if self._found is not None and self._found[1].get("held") != self.held_out:
            must = f"be the same as in the stopped run in {self.path.parent} (otherwise, train again in a new folder)"
            bad_value("held-out lists", must, "different lists, chosen by version 0.1")

    def save(
        self,
        state: RunState,
        module: nn.Module,
        optimisers: Mapping[str, Any],
        average: MovingAverage | None,
        scaler: Any,
    ) -> None:
        """Write the state of the run atomically. All processes must call this method; only the first process writes."""
        random = {name: self._gathered(value) for name, value in _random(self.fabric.device).items()}
        if self.fabric.global_rank > 0:
            return
        tensors = {f"module.{name}": value for name, value in module.state_dict().items()}
        for part, optimiser in optimisers.items():
            tensors |= {f"{part}.{name}": value for name, value in state_tensors(optimiser)}
        tensors |= {f"random.{name}": value for name, value in random.items()}
        if average is not None:
            tensors |= {f"average.{number}": value for number, value in enumerate(average.mean)}
        facts: dict[str, Any] = {
            "state": dataclasses.asdict(state),
            "settings": self.settings,
            "data": self.data,
            "run": self.run,
            "weights": self.weights,
        }
        facts |= {} if self.init_hash is None else {"init_model": self.init_hash}
        facts |= {} if self.held_out is None else {"held": self.held_out}
        write_tensors(self.path, tensors, {**facts, "scaler": scaler.state_dict() if scaler else None})

    def read(self) -> RunState:
        """Read the state of the stopped run. It is an error if the settings or the data have changed."""
        self._found = read_tensors(self.path)
        try:
            self._compare(self._found[1])
            state = checked_state(self._found[1]["state"])
        except (KeyError, TypeError, AttributeError) as error:
            refuse_checkpoint(self.path, error)
        self.run = self._found[1].get("run", "")  # a checkpoint of version 0.1 has no identifier
        return state

    def load(
        self, module: nn.Module, optimisers: Mapping[str, Any], average: MovingAverage | None, scaler: Any
    ) -> None:
        """Restore the tensors of the checkpoint; `read` must be called first."""
        assert self._found is not None
        try:
            self._restore(*self._found, module, optimisers, average, scaler)
        except (KeyError, TypeError, AttributeError, RuntimeError, IndexError, ValueError) as error:
            refuse_checkpoint(self.path, error)
        self._found = None

    def _restore(
        self,
        tensors: dict[str, Tensor],
        facts: dict[str, Any],
        module: nn.Module,
        optimisers: Mapping[str, Any],
        average: MovingAverage | None,
        scaler: Any,
    ) -> None:
        module.load_state_dict(under("module.", tensors))
        for part, optimiser in optimisers.items():
            load_state(optimiser, under(f"{part}.", tensors))
        if average is not None:
            for number, mean in enumerate(average.mean):
                mean.copy_(tensors[f"average.{number}"])
        if scaler and facts["scaler"]:
            scaler.load_state_dict(facts["scaler"])
        rank, world = self.fabric.global_rank, self.fabric.world_size
        # PyTorch reads a state from the start of its memory, so the state of one process must be a copy.
        _set_random(
            {name: value[rank].clone() if world > 1 else value for name, value in under("random.", tensors).items()}
        )

    def _gathered(self, value: Tensor) -> Tensor:
        """Return the values of all processes for a checkpoint, `(processes, ...)`; for one process, return `value`."""
        if self.fabric.world_size == 1:
            return value
        mine = value.to(self.fabric.device)
        every = [torch.empty_like(mine) for _ in range(self.fabric.world_size)]
        torch.distributed.all_gather(every, mine)
        return torch.stack(every)

    def _compare(self, facts: dict[str, Any]) -> None:
        check_settings(self.settings, facts["settings"], self.changeable, self.path.parent)
        if facts["data"] != self.data:
            bad_value("data", f"equal the data of the run, {facts['data']}, to resume {self.path.parent}", self.data)
        then = facts.get("weights", self.weights)  # an older checkpoint does not contain the checksum
        if then != self.weights:
            must = f"be the same as in the stopped run, to resume {self.path.parent}"
            had = "weights, but the run had none" if then is None else "different weights"
            bad_value("document weights", must, "none, but the run had weights" if self.weights is None else had)
        if facts.get("init_model") != self.init_hash:
            must = f"be the model that the run started from, to resume {self.path.parent}"
            bad_value("init_model", must, "None" if self.init_hash is None else "a different model")


def run_id(settings: Settings, data: Dataset, init_hash: str | None = None) -> str:
    """Return the identifier of a neural run. All files of the run contain this identifier.

    Runs with the same settings, training lists and initial model have the same identifier.

    Args:
        settings: settings of the run.
        data: the training lists.
        init_hash: hash of the model that the run starts from, or None.
    """
    fixed = {name: value for name, value in settings.to_json().items() if name not in settings.changeable()}
    facts = [fixed, data_fingerprint(data), *([] if init_hash is None else [init_hash])]
    return hash_of(json.dumps(facts, sort_keys=True).encode())[:16]


def _random(device: torch.device) -> dict[str, Tensor]:
    found = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        found["cuda"] = torch.cuda.get_rng_state(device)
    return found


def _set_random(states: dict[str, Tensor]) -> None:
    torch.set_rng_state(states["cpu"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])
