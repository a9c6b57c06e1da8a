"""Search for good settings, for `rankgrad tune`: try random settings, and train the better trials longer.

This is successive halving: after each round, only the best trials are trained further.
"""

import hashlib
import json
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from rankgrad.atomic_files import read_json, write_json
from rankgrad.data import Dataset
from rankgrad.errors import bad_value
from rankgrad.metrics import parse_metric
from rankgrad.models.protocol import RankerKind
from rankgrad.models.registry import kind_of, kind_or_default
from rankgrad.models.search_space import boundary_values, draws
from rankgrad.parallel.process_pool import Runner, Task
from rankgrad.run import NotFinite

SHARE = 3  # the best third of the trials is trained further, up to three times as many epochs or trees
_HALVINGS, _LEAST = 2, 3  # maximum number of halvings; minimum number of epochs or trees in the first round


class ListSource(Protocol):
    """Object that reads the lists for `rankgrad tune`; the object can be sent to another process."""

    def __hash__(self) -> int: ...
    def read(self) -> dict[str, Dataset]: ...
    def hold_out(self, parts: dict[str, Dataset]) -> dict[str, Dataset]: ...


class Trial(NamedTuple):
    """Result of one combination of settings that a search has tried."""

    drawn: dict[str, Any]  # values of the searched settings; empty for the default settings
    name: str  # name of the folder of the trial
    epochs: int  # number of epochs or trees; 0 for a kind of ranker without a length
    value: float  # best value on the validation lists; NaN if the loss was not finite
    epoch: int  # number of the epoch, or number of trees, with the best value
    seconds: float  # seconds of training and validation


@dataclass(frozen=True)
class Search:
    """A search of `rankgrad tune`: fixed settings, a search space, and a number of trials.

    Example:
        >>> search = Search({"model": "mlp:widths=64-32", "loss": "softmax", "epochs": 90}, budget=27)
        >>> "model.widths" in search.space, "model.dropout" in search.space
        (False, True)
        >>> search.halving_rounds()
        [(27, 10), (9, 30), (3, 90)]
        >>> search.settings({"lr": 0.01, "model.dropout": 0.2})["model"]
        'mlp:widths=64-32,dropout=0.2'
    """

    base: Mapping[str, Any]  # settings of a run, including `model`
    budget: int  # maximum number of trials
    fixed: tuple[str, ...] = ()  # settings that are not varied; options in the spec of `model` are also not varied
    vary: tuple[tuple[str, Any], ...] = ()  # more searched settings, or other choices or ranges of searched settings
    seed: int = 0  # random seed of the searched values

    @property
    def kind(self) -> RankerKind:
        """Kind of the ranker whose settings the tuning run searches."""
        return kind_or_default(self.base["model"])

    @property
    def metric(self) -> str:
        """Metric by which the best trial is chosen on the validation lists."""
        return str(self.base.get("metric", "nDCG@10"))

    @property
    def length(self) -> int:
        """Number of epochs or trees of the longest trials; 0 for a kind of ranker without a length."""
        kind = self.kind
        return 0 if kind.length is None else self.base.get(kind.length, kind.usual_length)

    def check(self) -> None:
        """Check all settings of the trials without reading data; an invalid setting is an error."""
        self.kind.check(self.base)
        if self.budget < 1:
            bad_value("budget", "be at least 1", self.budget)
        for name, choices in self.space.items():
            for value in boundary_values(choices):
                self.kind.check(self.settings({name: value}))

    @property
    def space(self) -> dict[str, Any]:
        """Settings that the trials vary: a list of choices or a range for each setting."""
        usual = {name: drawn for name, drawn in self.kind.space(self.base).items() if name not in self.fixed}
        return {**usual, **dict(self.vary)}

    def draws(self) -> list[dict[str, Any]]:
        """Return the random settings of each trial of the search.

        The first entry is empty, because the first trial has the settings `base`.
        """
        found = [{}, *draws(self.space, max(1, self.budget - 1), self.seed)]
        return list({_canonical(drawn): drawn for drawn in found}.values())[: self.budget]

    def halving_rounds(self) -> list[tuple[int, int]]:
        """Return, for each round of successive halving, the number of trials and their length in epochs or trees."""
        trials, length = len(self.draws()), self.length
        halvings = max(0, min(_HALVINGS, _log(trials), _log(length / _LEAST)))
        return [
            (math.ceil(trials / SHARE**turn), max(min(length, 1), round(length / SHARE ** (halvings - turn))))
            for turn in range(halvings + 1)
        ]

    def settings(self, drawn: Mapping[str, Any], length: int | None = None) -> dict[str, Any]:
        """Return all settings of a trial: `drawn` has the searched settings, and `length` is in epochs or trees."""
        kind = self.kind
        limit = {} if length is None or kind.length is None else {kind.length: length}
        return {**kind.drawn(self.base, drawn), **limit}

    def best_first(self, trials: Iterable[Trial]) -> list[Trial]:
        """Return the trials of a search, best first. Trials with equal values keep their order.

        Trials whose value is NaN are last.
        """
        sign = -1.0 if parse_metric(self.metric).higher_is_better else 1.0
        return sorted(trials, key=lambda trial: math.inf if math.isnan(trial.value) else sign * trial.value)


def tune(search: Search, source: ListSource, folder: Path, runner: Runner) -> Iterator[tuple[Trial, int, int]]:
    """Run a search; yield each finished trial, and the progress of the search.

    The progress is the index of the round, and the number of unfinished trials in this round.

    Each trial has a separate folder with its checkpoint. Later rounds resume from this checkpoint. A search that
    was stopped also resumes from the checkpoints. Trials that are done are yielded, but not run again.

    Args:
        search: search to run.
        source: source of the lists; it must have a validation part, or hold out validation lists.
        folder: folder of the trials.
        runner: function that runs the tasks, such as `Pool.run`.
    """
    drawn = search.draws()
    for turn, (count, epochs) in enumerate(search.halving_rounds()):
        drawn = drawn[:count]
        tasks, known = {}, []
        for values in drawn:
            name = hashlib.sha256(_canonical(values).encode()).hexdigest()[:8]
            arguments = (search.settings(values, epochs), source, str(folder / name), values, epochs, search.metric)
            tasks[name] = Task(name, run_trial, arguments, affinity="data")
            path = _trial_file(folder / name, epochs)
            if path.is_file():
                known.append(_read_trial(path))
                del tasks[name]
        for place, trial in enumerate(known):
            yield trial, turn, len(tasks) + len(known) - place - 1
        for done in runner(list(tasks.values())):
            if done.error is not None:
                if done.problem is not None:  # wrong data: a traceback says nothing more
                    raise done.problem
                how = "to repeat the trial, run the same command again"
                raise RuntimeError(f"a trial failed ({how}); got the error\n{done.error.strip()}")
            known.append(_read_trial(_trial_file(folder / done.task.name, epochs)))
            yield known[-1], turn, len(drawn) - len(known)
        order = [_canonical(values) for values in drawn]
        known.sort(key=lambda trial: order.index(_canonical(trial.drawn)))
        drawn = [trial.drawn for trial in search.best_first(known)]


def run_trial(
    settings: dict[str, Any], source: ListSource, folder: str, drawn: dict[str, Any], epochs: int, metric: str
) -> None:
    """Train one trial up to `epochs` epochs or trees, and write its result.

    If the trial has a checkpoint, the training resumes from the checkpoint.
    """
    parts, kind = _read_lists(source), kind_of(settings["model"])
    found: dict[str, Any] = {"drawn": drawn, "name": Path(folder).name, "epochs": epochs}
    try:
        model = kind.fit(settings, parts["train"], parts["validation"], out=folder, resume=True, progress=False)
    except NotFinite:
        found |= {"value": None, "epoch": 0, "seconds": 0.0}
    else:
        if not kind.has_run(Path(folder)):
            model.save(folder)
        seconds = sum(row.get("seconds", 0.0) + row.get("judge_seconds", 0.0) for row in model.history)
        value = model.validated(parts["validation"], metric)[metric]
        found |= {"value": None if math.isnan(value) else value, "epoch": model.kept, "seconds": seconds}
    write_json(_trial_file(Path(folder), epochs), found, seal=True)


def read_trials(folder: Path) -> list[Trial]:
    """Read the results of all trials of all rounds of a search.

    Args:
        folder: folder of the trials.
    """
    found = [_read_trial(path) for path in sorted(folder.glob("*/after-*.json"))]
    if not found:
        bad_value(str(folder), "contain at least one finished trial", "none")
    return found


@lru_cache(maxsize=1)
def _read_lists(source: ListSource) -> dict[str, Dataset]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the process that started the search has printed the warnings
        parts = source.hold_out(source.read())
    if "validation" not in parts:
        bad_value("data", "have validation lists, or enough training lists to hold some out for validation", "neither")
    return parts


def _canonical(drawn: Mapping[str, Any]) -> str:
    return json.dumps(drawn, sort_keys=True)


def _trial_file(folder: Path, epochs: int) -> Path:
    return folder / f"after-{epochs}.json"


def _read_trial(path: Path) -> Trial:
    found = read_json(path)
    try:
        return Trial(**{**found, "value": math.nan if found["value"] is None else found["value"]})
    except (KeyError, TypeError) as error:
        how = "delete the file to run the trial again"
        bad_value(str(path), f"be the result of a trial ({how})", f"the error {error}")


def _log(value: float) -> int:
    return math.floor(math.log(value, SHARE) + 1e-9) if value >= 1 else 0
