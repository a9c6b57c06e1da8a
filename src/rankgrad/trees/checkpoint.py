"""Write and read checkpoints of boosted trees. A checkpoint contains all values on which the next segment depends."""

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rankgrad.atomic_files import hash_of, read_tensors, under, write_tensors
from rankgrad.data import Dataset
from rankgrad.errors import bad_value
from rankgrad.run.checkpoint import LAST, check_settings, data_fingerprint, refuse_checkpoint
from rankgrad.settings.trees import TreeSpec
from rankgrad.training.optimisers import load_state, state_tensors
from rankgrad.trees.frameworks import GrownTrees, framework_named
from rankgrad.trees.objective import TreeObjective


class TreeCheckpoint:
    """The file `last.safetensors` of boosted trees. The file has trees, scores, history and loss parameters."""

    def __init__(self, folder: Path, settings: dict[str, Any], facts: dict[str, Any]) -> None:
        self.path, self.settings, self.facts = folder / LAST, settings, facts

    def save(self, grown: GrownTrees, history: list[dict[str, Any]], objective: TreeObjective | None) -> None:
        """Write the checkpoint of trees at the end of a segment. The file is written atomically.

        Args:
            grown: trees so far, and the scores of these trees.
            history: one row per tree.
            objective: objective, whose loss may have learned parameters; None for a native objective.
        """
        parts = {f"part.{place}": np.frombuffer(part, dtype=np.uint8) for place, part in enumerate(grown.parts)}
        tensors = {name: torch.from_numpy(part.copy()) for name, part in parts.items()}
        tensors |= {f"scores.{name}": torch.from_numpy(values) for name, values in grown.scores.items()}
        tensors |= _learned(objective)
        write_tensors(self.path, tensors, {"settings": self.settings, "history": history, **self.facts})

    def load(self, objective: TreeObjective | None) -> tuple[GrownTrees, list[dict[str, Any]]]:
        """Read the state of the stopped run of trees. It is an error if the settings or the data have changed.

        Args:
            objective: objective that receives the learned parameters of its loss.
        """
        tensors, facts = read_tensors(self.path)
        try:
            check_settings(self.settings, facts["settings"], TreeSpec.changeable(), self.path.parent)
            for name, now in self.facts.items():
                if facts[name] != now:
                    bad_value(name, f"equal the {name} of the run, {facts[name]}, to resume {self.path.parent}", now)
        except (KeyError, TypeError, AttributeError) as error:
            refuse_checkpoint(self.path, error)
        try:
            history = self._history(facts["history"])
            parts = under("part.", tensors)
            ordered = tuple(parts[str(place)].numpy().tobytes() for place in range(len(parts)))
            self._check_parts(ordered, history)
            grown = GrownTrees(ordered, self._scores(under("scores.", tensors), bool(parts)))
            if objective is not None:
                _restore(objective, tensors)
        except (KeyError, TypeError, AttributeError, RuntimeError, IndexError, ValueError) as error:
            refuse_checkpoint(self.path, error)
        return grown, history

    def _history(self, rows: Any) -> list[dict[str, Any]]:
        """Return the rows of the history in a checkpoint of trees.

        First check that the rows contain numbers and form complete segments, because the file may be damaged.
        """
        keys = ["tree", "seconds", *([] if self.facts["validation"] is None else [self.settings["metric"]])]
        for row in rows if isinstance(rows, list) else [None]:
            if not isinstance(row, dict) or not all(isinstance(row.get(key), int | float) for key in keys):
                raise TypeError(f"wrong row of the history: {row!r}")
        if len(rows) % self.facts["segment"]:
            raise TypeError(
                f"{len(rows)} trees, which is not a multiple of {self.facts['segment']}, the trees per segment"
            )
        return list(rows)

    def _scores(self, found: dict[str, Tensor], begun: bool) -> dict[str, NDArray[Any]]:
        """Check and return the scores in a checkpoint. If the checkpoint has trees, each document must have a score."""
        parts = {"train": self.facts["data"], "held": self.facts["validation"]}
        dtype = framework_named(self.settings["framework"]).dtype
        wanted = {name: (dtype, (about["documents"],)) for name, about in parts.items() if begun and about is not None}
        if {name: (values.dtype, tuple(values.shape)) for name, values in found.items()} != wanted:
            raise TypeError("scores of a different shape or precision than those of the run")
        return {name: values.numpy() for name, values in found.items()}

    def _check_parts(self, parts: tuple[bytes, ...], history: list[Any]) -> None:
        """Check that the framework can read the trees safely, in the same way as `TreeModel.load`."""
        if len(parts) != len(history) // self.facts["segment"] + (self.facts["init_model"] is not None):
            raise TypeError(f"{len(parts)} model parts for {len(history)} trees")
        for content in parts:
            framework_named(self.settings["framework"]).check(content, self.facts["data"]["features"])


def facts_of(
    data: Dataset, validation: Dataset | None, weights: NDArray[Any] | None, init_model: bytes, segment: int
) -> dict[str, Any]:
    """Return a description of the data and the initial model. A run can be resumed only with the same description.

    Args:
        data: training lists.
        validation: validation lists, or None.
        weights: document weights `(documents,)`, or None.
        init_model: model to which the run adds trees, in the format of the framework; empty if there is no such model.
        segment: number of trees per segment.
    """
    return {
        "data": data_fingerprint(data),
        "validation": None if validation is None else data_fingerprint(validation),
        "sample_weight": None if weights is None else zlib.crc32(np.ascontiguousarray(weights).tobytes()),
        "init_model": hash_of(init_model)[:16] if init_model else None,
        "segment": segment,
    }


def _learned(objective: TreeObjective | None) -> dict[str, Tensor]:
    """Return the parameters of the loss and the state of their optimiser, for a checkpoint of trees."""
    if objective is None:
        return {}
    found = {f"loss.{name}": value for name, value in objective.loss.state_dict().items()}
    if objective.learning is not None:
        found |= {f"optimiser.{name}": value for name, value in state_tensors(objective.learning)}
    return found


def _restore(objective: TreeObjective, tensors: dict[str, Tensor]) -> None:
    objective.loss.load_state_dict(under("loss.", tensors))
    if objective.learning is not None:
        load_state(objective.learning, under("optimiser.", tensors))
