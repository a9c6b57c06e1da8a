"""The state of a run: what it has trained, its history, and its best unit (epoch or tree)."""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

_ROW = ("epoch", "loss", "seconds", "judge_seconds")  # keys of each row of the history in a checkpoint


@dataclass
class RunState:
    """The state of a run, without its tensors. A checkpoint of a network or of a text ranker contains all fields."""

    epoch: int = 0  # the current epoch, from 0; trees do not use it
    step: int = 0  # number of completed steps in this epoch
    loss: float = 0.0  # sum of the losses of all lists in these steps
    lists: int = 0  # number of lists in these steps
    seconds: float = 0.0  # training time so far
    best: float | None = None  # best metric so far
    best_epoch: int | None = None  # epoch or tree with the best metric, from 1
    stale: int = 0  # number of epochs or trees since the best one
    first: float | None = None  # mean loss of the first step
    plateau: float = 1.0  # factor by which the schedule `plateau` multiplies the learning rate
    log_bytes: int = 0  # length of log.jsonl in bytes when the checkpoint was written; only version 0.2 reads it
    history: list[dict[str, Any]] = field(default_factory=list)
    done: bool = False

    def judge(self, value: float | None, *, higher_is_better: bool, latest: bool = False) -> bool:
        """Store the metric of the current unit. Return True if it is the best unit so far.

        Args:
            value: metric on the validation lists; NaN if the metric skips all lists; None without validation lists,
                where the last unit is the best one.
            higher_is_better: True if a higher value of the metric is better.
            latest: True if the last unit is always the best one.
        """
        best = self.best
        better = latest or value is None or best is None or math.isnan(best)
        better = better or (value > best if higher_is_better else value < best)  # type: ignore[operator]
        self.stale = 0 if better else self.stale + 1
        if better:
            self.best, self.best_epoch = value, len(self.history) + 1
        return better


def checked_state(values: dict[str, Any]) -> RunState:
    """Return the state in a checkpoint of a network. Check the types of all values, because the file may be damaged.

    Args:
        values: fields of the state by name.
    """
    state = RunState(**values)
    for name, value in dataclasses.asdict(state).items():
        if name == "history" or (value is None and name in ("best", "best_epoch", "first")):
            continue
        counts = name in ("epoch", "step", "lists", "stale", "log_bytes", "best_epoch")
        if not isinstance(value, int if counts else int | float) or (counts and value < 0):
            raise TypeError(f"wrong value of {name}: {value!r}")
    for row in state.history if isinstance(state.history, list) else [None]:
        if not isinstance(row, dict) or not all(isinstance(row.get(key), int | float) for key in _ROW):
            raise TypeError(f"wrong row of the history: {row!r}")
    return state
