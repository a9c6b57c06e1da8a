"""Write and read the file from which a run of boosted trees resumes: all that the next segment depends on."""

import zlib
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rankgrad.atomic_files import hash_of, read_tensors, write_tensors
from rankgrad.data import Dataset
from rankgrad.errors import bad_value
from rankgrad.training.checkpoint import LAST, data_fingerprint
from rankgrad.training.optimisers import load_state, state_tensors
from rankgrad.trees.frameworks import GrownTrees
from rankgrad.trees.lightgbm_checks import check_lightgbm
from rankgrad.trees.objective import TreeObjective
from rankgrad.trees.xgboost_checks import checked_xgboost

# Settings that may differ when a run is resumed: they do not change what a tree is.
FREE = ("trees", "patience", "threads")


class TreeCheckpoint:
    """The file `last.safetensors` of a run: trees, scores, history, the loss's parameters; one rename."""

    def __init__(self, folder: Path, settings: dict[str, Any], facts: dict[str, Any]) -> None:
        self.path, self.settings, self.facts = folder / LAST, settings, facts

    def save(self, grown: GrownTrees, history: list[dict[str, Any]], own: TreeObjective | None) -> None:
        """Write where the run stands at a border.

        Args:
            grown: the trees.
            history: a row per tree.
            own: the objective, whose loss may have learned.
        """
        parts = {f"part.{place}": np.frombuffer(part, dtype=np.uint8) for place, part in enumerate(grown.parts)}
        tensors = {name: torch.from_numpy(part.copy()) for name, part in parts.items()}
        tensors |= {f"scores.{name}": torch.from_numpy(values) for name, values in grown.scores.items()}
        tensors |= _learned(own)
        write_tensors(self.path, tensors, {"settings": self.settings, "history": history, **self.facts})

    def load(self, own: TreeObjective | None) -> tuple[GrownTrees, list[dict[str, Any]]]:
        """Read where the run stood; other settings or data than then are an error.

        Args:
            own: the objective, which takes up what its loss had learned.
        """
        tensors, facts = read_tensors(self.path)
        try:
            different = self._different(facts)
        except (KeyError, TypeError, AttributeError) as error:
            self._complain(error)
        if different is not None:
            bad_value(*different)
        try:
            history = self._history(facts["history"])
            parts = _under("part.", tensors)
            ordered = tuple(parts[str(place)].numpy().tobytes() for place in range(len(parts)))
            self._check_parts(ordered, history)
            grown = GrownTrees(ordered, self._scores(_under("scores.", tensors), bool(parts)))
            if own is not None:
                _restore(own, tensors)
        except (KeyError, TypeError, AttributeError, RuntimeError, IndexError, ValueError) as error:
            self._complain(error)
        return grown, history

    def _different(self, facts: dict[str, Any]) -> tuple[str, str, object] | None:
        """What is not as it was when the run began, as the parts of an error."""
        folder = self.path.parent
        for name, now in self.settings.items():
            then = facts["settings"].get(name)
            if name not in FREE and then != now:
                return name, f"be {then!r}, as when {folder} began, to go on", repr(now)
        for name, now in self.facts.items():
            if facts[name] != now:
                return name, f"be that of {folder}, {facts[name]}, to go on", now
        return None

    def _history(self, rows: Any) -> list[dict[str, Any]]:
        """See that rows hold numbers, for whole segments: a file may come from anywhere."""
        keys = ["tree", "seconds", *([] if self.facts["validation"] is None else [self.settings["metric"]])]
        for row in rows if isinstance(rows, list) else [None]:
            if not isinstance(row, dict) or not all(isinstance(row.get(key), int | float) for key in keys):
                raise TypeError(f"history with {row!r}")
        if len(rows) % self.facts["segment"]:
            raise TypeError(f"{len(rows)} trees")
        return list(rows)

    def _scores(self, found: dict[str, Tensor], begun: bool) -> dict[str, NDArray[Any]]:
        """Where there are trees, a score for each document, in the dtype of the framework's own."""
        parts = {"train": self.facts["data"], "held": self.facts["validation"]}
        dtype = torch.float64 if self.settings["framework"] == "lightgbm" else torch.float32
        wanted = {name: (dtype, (about["documents"],)) for name, about in parts.items() if begun and about is not None}
        if {name: (values.dtype, tuple(values.shape)) for name, values in found.items()} != wanted:
            raise TypeError("scores of other documents")
        return {name: values.numpy() for name, values in found.items()}

    def _check_parts(self, parts: tuple[bytes, ...], history: list[Any]) -> None:
        """See that the framework reads the trees without harm, as `TreeModel.load` does."""
        if len(parts) != len(history) // self.facts["segment"] + (self.facts["init_model"] is not None):
            raise TypeError(f"{len(parts)} parts for {len(history)} trees")
        for content in parts:
            if self.settings["framework"] == "lightgbm":
                check_lightgbm(content.decode(), self.facts["data"]["features"])
            else:
                checked_xgboost(content, self.facts["data"]["features"])

    def _complain(self, error: Exception) -> NoReturn:
        got = str(error).strip().partition("\n")[0]
        raise ValueError(f"{self.path} must be a checkpoint of this run; got {got}: train anew elsewhere") from error


def facts_of(
    data: Dataset, validation: Dataset | None, weights: NDArray[Any] | None, init_model: bytes, segment: int
) -> dict[str, Any]:
    """What besides settings must be the same when a run is resumed.

    Args:
        data: the training lists.
        validation: the validation lists.
        weights: one per document.
        init_model: the trees that it adds to, as their framework writes them.
        segment: number of trees per segment.
    """
    return {
        "data": data_fingerprint(data),
        "validation": None if validation is None else data_fingerprint(validation),
        "sample_weight": None if weights is None else zlib.crc32(np.ascontiguousarray(weights).tobytes()),
        "init_model": hash_of(init_model)[:16] if init_model else None,
        "segment": segment,
    }


def _learned(own: TreeObjective | None) -> dict[str, Tensor]:
    """The loss's own parameters, and the memory of their optimiser."""
    if own is None:
        return {}
    found = {f"loss.{name}": value for name, value in own.loss.state_dict().items()}
    if own.learning is not None:
        found |= {f"optimiser.{name}": value for name, value in state_tensors(own.learning)}
    return found


def _restore(own: TreeObjective, tensors: dict[str, Tensor]) -> None:
    own.loss.load_state_dict(_under("loss.", tensors))
    if own.learning is not None:
        load_state(own.learning, _under("optimiser.", tensors))


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
