"""Find good settings for one's own data: random draws, of which successive halving trains the better ones longer."""

import hashlib
import inspect
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from rankgrad import rankers, spec
from rankgrad.data import Dataset
from rankgrad.errors import bad_value
from rankgrad.experiments.pool import Runner, Task
from rankgrad.experiments.space import check, draws
from rankgrad.files import read_json, write_json
from rankgrad.metrics import parse as parse_metric
from rankgrad.training import NotFinite, Settings, train

SHARE = 3  # one in so many trials goes on, for so many times the epochs
_HALVINGS, _LEAST = 2, 3  # how often, at most; and epochs before the first, at least

# What is drawn: settings of a run, and options of the ranker after `model.`.
EVERY: dict[str, Any] = {
    "lr": {"low": 1e-4, "high": 1e-2, "log": True},
    "weight_decay": {"low": 1e-6, "high": 1e-2, "log": True},
    "batch_size": [16, 32, 64, 128],
    "preprocess": ["standardise", "log1p,standardise", "quantile"],
}
_DROPOUT = {"low": 0.0, "high": 0.5}
_WIDTHS = ["64-32", "128-64", "256-128", "512-256-128"]
OF_MODEL: dict[str, dict[str, Any]] = {
    "linear": {},
    "mlp": {"widths": _WIDTHS, "norm": ["none", "batch", "layer"], "dropout": _DROPOUT},
    "context_aware": {
        "width": [32, 64, 128], "blocks": [1, 2, 3], "heads": [1, 2, 4], "feed_forward": [64, 128, 384],
        "dropout": _DROPOUT,
    },
    "attsets": {"widths": ["64", "128", "256", "128-128"], "head": ["64", "128"], "dropout": _DROPOUT},
    "attention_mil": {
        "widths": ["64", "128", "256", "500"], "attention": [32, 64, 128], "gated": [False, True], "dropout": _DROPOUT,
    },
    "dasalc": {
        "width": [64, 128, 256, 512], "layers": [2, 3, 4], "heads": [1, 2, 4], "dropout": _DROPOUT,
        "noise": {"low": 0.0, "high": 1.5},
    },
}  # fmt: skip


class Readable(Protocol):
    """Where lists come from; it may travel to another process."""

    def __hash__(self) -> int: ...
    def read(self) -> dict[str, Dataset]: ...
    def hold_out(self, parts: dict[str, Dataset]) -> dict[str, Dataset]: ...


class Trial(NamedTuple):
    """What a setting came to: the best value on validation within so many epochs; NaN: its loss was not finite."""

    drawn: dict[str, Any]
    name: str  # of its folder
    epochs: int
    value: float
    epoch: int  # of that value
    seconds: float


@dataclass(frozen=True)
class Search:
    """A search: what is fixed, what is drawn, how many draws.

    Example:
        >>> search = Search(Settings(model="mlp:widths=64-32", loss="softmax", epochs=90), budget=27)
        >>> "model.widths" in search.space, "model.dropout" in search.space
        (False, True)
        >>> search.rungs()
        [(27, 10), (9, 30), (3, 90)]
        >>> search.settings({"lr": 0.01, "model.dropout": 0.2}).model
        'mlp:widths=64-32,dropout=0.2'
    """

    base: Settings
    budget: int
    fixed: tuple[str, ...] = ()  # settings that are as in `base`; options in its model's text are fixed, too
    vary: tuple[tuple[str, Any], ...] = ()  # a list or a range for a setting, over the space that is stated here
    seed: int = 0

    def check(self) -> None:
        """Raise what is wrong; needs no data."""
        self.base.check()
        if self.budget < 1:
            bad_value("budget", "be at least 1", self.budget)
        if spec.spell("schedule", self.base.schedule).name == "cosine":
            bad_value("schedule", "not depend on the number of epochs, which is not known before", "'cosine'")
        names = [*Settings.names(), *(f"model.{option}" for option in _options(self.base.model))]
        spec.known_options("a search", self.space, names)
        for name, choices in self.space.items():
            for value in check(choices):
                self.settings({name: value}).check()

    @property
    def space(self) -> dict[str, Any]:
        """What is drawn from, by setting."""
        name, given = rankers.parse(self.base.model)
        # A preset is a paper's ranker: its options stay as they are.
        own = {f"model.{option}": choices for option, choices in OF_MODEL.get(name, {}).items() if option not in given}
        every = {name: choices for name, choices in {**EVERY, **own}.items() if name not in self.fixed}
        return {**every, **dict(self.vary)}

    def draws(self) -> list[dict[str, Any]]:
        """The settings to try; the first are those that would be used without a search."""
        found = [{}, *draws(self.space, max(1, self.budget - 1), self.seed)]
        return list({_canonical(drawn): drawn for drawn in found}.values())[: self.budget]

    def rungs(self) -> list[tuple[int, int]]:
        """How many trials are trained for how many epochs in all, round by round."""
        trials, epochs = len(self.draws()), self.base.epochs
        halvings = max(0, min(_HALVINGS, _log(trials), _log(epochs / _LEAST)))
        return [
            (math.ceil(trials / SHARE**turn), max(1, round(epochs / SHARE ** (halvings - turn))))
            for turn in range(halvings + 1)
        ]

    def settings(self, drawn: Mapping[str, Any]) -> Settings:
        """Of a run."""
        name, options = rankers.parse(self.base.model)
        options |= {key.removeprefix("model."): value for key, value in drawn.items() if key.startswith("model.")}
        own = {key: value for key, value in drawn.items() if not key.startswith("model.")}
        return replace(self.base, **own, model=spec.write(name, options=options))

    def better(self, trials: Iterable[Trial]) -> list[Trial]:
        """Best first; of equals the earlier, and those that failed last."""
        sign = -1.0 if parse_metric(self.base.metric).higher_is_better else 1.0
        return sorted(trials, key=lambda trial: math.inf if math.isnan(trial.value) else sign * trial.value)


def tune(search: Search, source: Readable, folder: Path, runner: Runner) -> Iterator[tuple[Trial, int, int]]:
    """Run what is left of a search: each trial as it is done, its round's number, and how many of that are left.

    A trial has a folder of its own, with its checkpoint: a longer round goes on from it, and so does a search that was
    stopped. What is done is given again, without being done again.

    Args:
        search: what to try.
        source: of the lists; it must give a validation part.
        folder: for the trials.
        runner: what runs the tasks, such as `Pool.run`.
    """
    drawn = search.draws()
    for turn, (count, epochs) in enumerate(search.rungs()):
        drawn = drawn[:count]
        tasks, known = {}, []
        for own in drawn:
            settings = replace(search.settings(own), epochs=epochs)
            name = hashlib.sha256(_canonical(own).encode()).hexdigest()[:8]
            arguments = (settings.to_json(), source, str(folder / name), own)
            tasks[name] = Task(name, run_trial, arguments, near="data")
            path = _file(folder / name, epochs)
            if path.is_file():
                known.append(_read(path))
                del tasks[name]
        for place, trial in enumerate(known):
            yield trial, turn, len(tasks) + len(known) - place - 1
        for done in runner(list(tasks.values())):
            if done.error is not None:
                raise RuntimeError(f"a trial failed; the same command tries it again:\n{done.error.strip()}")
            known.append(_read(_file(folder / done.task.name, epochs)))
            yield known[-1], turn, len(drawn) - len(known)
        order = [_canonical(own) for own in drawn]
        known.sort(key=lambda trial: order.index(_canonical(trial.drawn)))
        drawn = [trial.drawn for trial in search.better(known)]


def run_trial(settings: dict[str, Any], source: Readable, folder: str, drawn: dict[str, Any]) -> None:
    """Train a trial to its number of epochs, from where it stands, and write what it has come to."""
    parts, told = _parts(source), Settings.of(settings)
    found: dict[str, Any] = {"drawn": drawn, "name": Path(folder).name, "epochs": told.epochs}
    try:
        model = train(told, parts["train"], parts["validation"], out=folder, resume=True, progress=False)
    except NotFinite:
        found |= {"value": None, "epoch": 0, "seconds": 0.0}
    else:
        seconds = sum(row["seconds"] + row["judge_seconds"] for row in model.history)
        value = model.metrics["validation"][told.metric]
        found |= {"value": None if math.isnan(value) else value, "epoch": model.metrics["epoch"], "seconds": seconds}
    write_json(_file(Path(folder), told.epochs), found, seal=True)


@lru_cache(maxsize=1)
def _parts(source: Readable) -> dict[str, Dataset]:
    parts = source.hold_out(source.read())
    if "validation" not in parts:
        bad_value("data", "have lists to choose on: a validation part, or a hold-out", "none")
    return parts


def _canonical(drawn: Mapping[str, Any]) -> str:
    return json.dumps(drawn, sort_keys=True)


def _file(folder: Path, epochs: int) -> Path:
    return folder / f"after-{epochs}.json"


def _read(path: Path) -> Trial:
    found = read_json(path)
    try:
        return Trial(**{**found, "value": math.nan if found["value"] is None else found["value"]})
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} must say what a trial came to; got {error}: remove it to try again") from error


def _options(model: str) -> list[str]:
    name, _ = rankers.parse(model)
    kind = rankers.PRESETS[name].model if name in rankers.PRESETS else name
    return [option for option in inspect.signature(rankers.MODELS[kind]).parameters if option != "features"]


def _log(value: float) -> int:
    return math.floor(math.log(value, SHARE) + 1e-9) if value >= 1 else 0
