"""Make the model that the automatic search returns, from the candidates that have a model for each fold.

The usual model is an ensemble of bags: each member is the mean of its fold models. Other forms are one model that is
trained on all lists, an ensemble within a latency limit, and a student that learns the scores of the ensemble.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rankgrad.data import Dataset
from rankgrad.errors import bad_value, one_of
from rankgrad.models.auto import ensemble
from rankgrad.models.auto.fits import read_model
from rankgrad.models.auto.search import Entry, Search, entry_rows
from rankgrad.models.auto.students import LOSS, STUDENT, STUDENTS, Student, teach
from rankgrad.models.blend import BlendModel
from rankgrad.models.protocol import TrainedModel
from rankgrad.models.registry import kind_or_default

LATENCY_DOCUMENTS = 100
_REPEATS = 15  # number of measurements of a latency; the median is used


@dataclass(frozen=True)
class FinalSettings:
    """Form of the returned model; the default is an ensemble without a limit."""

    single: bool = False  # True for one model, trained on all lists
    max_latency: float | None = None  # seconds per 100 documents on one core
    distil: str | None = None  # model of a student, `mlp` or `lightgbm`

    def check(self) -> None:
        """Raise an error if the settings contradict each other."""
        given = [name for name in ("single", "max_latency", "distil") if getattr(self, name)]
        if len(given) > 1:
            bad_value("single, max_latency and distil", "not be given together", " and ".join(given))
        if self.max_latency is not None and not 0 < self.max_latency < float("inf"):
            bad_value("max_latency", "be above 0 and finite", self.max_latency)
        if self.distil is not None:
            one_of("distil", self.distil, STUDENTS)


@dataclass
class AutoResult:
    """Result of a search."""

    model: TrainedModel
    metric: str
    form: str  # `single`, `even`, `greedy`, or the form that was asked for
    members: list[dict[str, Any]]  # candidate, weight and number of models of each member
    nested: dict[str, float]  # metric of each form of ensemble on lists that did not choose it
    leaderboard: list[dict[str, Any]]
    learning: list[tuple[float, float]]  # seconds, and best value so far
    folds: int  # number of folds that were used
    lists: int  # number of lists on which the values were measured
    latency: float  # seconds per 100 documents on one core
    seconds: float  # duration
    notes: list[str] = field(default_factory=list)

    def summary(self) -> list[str]:
        """Return sentences about the model, the check of the ensemble, and its latency."""
        lines = []
        if self.nested:
            checked = ", ".join(f"{name} {value:.4f}" for name, value in self.nested.items())
            lines.append(f"{self.metric} on lists that did not choose the ensemble: {checked}; chosen: {self.form}")
        members = ", ".join(f"{m['weight']:.2f} {m['candidate']}" for m in self.members)
        count = sum(member["models"] for member in self.members)
        lines.append(f"{self.form}: {members} ({count} {'model' if count == 1 else 'models'})")
        lines.append(f"latency: {1e3 * self.latency:.3g} ms per {LATENCY_DOCUMENTS} documents on one core")
        lines.append(f"{self.seconds:.1f} s; values are of {self.lists:,} lists, {self.folds} of the folds were used")
        return [*lines, *self.notes]

    def to_json(self) -> dict[str, Any]:
        """Return all facts except the model, as JSON values."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "model"}


def make_model(search: Search, final: FinalSettings) -> AutoResult:
    """Choose an ensemble of the complete candidates, and return the model in the wanted form.

    Args:
        search: finished or stopped search.
        final: wanted form.
    """
    search.shorten()
    entries = sorted(search.complete(), key=lambda entry: entry.candidate.number)
    if not entries:
        failed = next((entry.error for entry in search.entries.values() if entry.error), None)
        got = f"none: {failed}" if failed else "none: no training was finished (give more time)"
        bad_value("search", "have at least one trained candidate", got)
    found = search.out_of_fold(entries)
    notes = [f"{name} is not installed: pip install 'rankgrad[trees]'" for name in search.missing]
    best = entries[int(np.argmax(ensemble.best_single(found)))]
    nested: dict[str, float] = {}
    if final.single:
        result, form = _single(search, best), "single model"
    elif final.max_latency is not None:
        result, more = _within_latency(search, entries, found, final.max_latency)
        form, notes = "ensemble with a latency limit", [*notes, *more]
    else:
        choice = ensemble.choose(found, search.settings.seed)
        result, form, nested = _bags(search, entries, choice.weights), choice.form, choice.nested
        if final.distil is not None:
            student, more = _student(search, found, choice, final.distil)
            facts = {"candidate": STUDENT, "model": final.distil, "loss": LOSS, "weight": 1.0, "models": 1}
            result, form, notes = ([student], [facts]), "student", [*notes, *more]
    models, members = result
    weights = np.array([member["weight"] for member in members])
    if len(models) == 1:
        model = models[0]
    else:
        model = BlendModel(models, weights)
    model.feature_names = search.data.feature_names
    rows = entry_rows(search)
    value = next((row["value"] for row in rows if row["candidate"] == best.candidate.name), None)
    model.metrics = {**model.metrics, "validation": {search.settings.metric: value}}
    if isinstance(model, BlendModel):
        about = {"form": form, "members": members, "metric": search.settings.metric, "seed": search.settings.seed}
        model.settings = {**model.settings, "auto": about}
    return AutoResult(
        model=model, metric=search.settings.metric, form=form, members=members, nested=nested, leaderboard=rows,
        learning=search.learning, folds=search.folds, lists=int(search.scored_lists().sum()),
        latency=measure_latency(model, search.data), seconds=time.time() - search.begun, notes=notes,
    )  # fmt: skip


_Members = tuple[list[TrainedModel], list[dict[str, Any]]]


def _bags(search: Search, entries: Sequence[Entry], weights: NDArray[np.float64]) -> _Members:
    """Return the bags of all members with a weight above 0."""
    models, members = [], []
    for entry, weight in zip(entries, weights, strict=True):
        if weight > 0:
            models.append(bag(search.folders(entry)))
            members.append(_member(entry, float(weight), search.folds))
    return models, members


def bag(folders: Sequence[Path]) -> TrainedModel:
    """Return the mean of the fold models of a candidate, each standardised per list.

    Args:
        folders: folders of the fits of the candidate, one per fold.
    """
    models = [read_model(folder) for folder in folders]
    return models[0] if len(models) == 1 else BlendModel(models, np.full(len(models), 1 / len(models)))


def refit(search: Search, entry: Entry) -> TrainedModel:
    """Train a candidate on all lists, with the median number of epochs or trees of its fold models.

    Args:
        search: search of the candidate.
        entry: complete candidate.
    """
    kind = kind_or_default(entry.candidate.settings["model"])
    length = int(np.median([entry.fits[fold].kept for fold in range(search.folds)]))
    settings = {**entry.candidate.settings, "metric": search.settings.metric, "seed": search.settings.seed}
    settings = kind.on_device({**settings, **kind.for_length(max(1, length))}, "cpu")
    return kind.fit(settings, search.data, progress=False)


def _single(search: Search, best: Entry) -> _Members:
    return [refit(search, best)], [_member(best, 1.0, 1)]


def _member(entry: Entry, weight: float, models: int) -> dict[str, Any]:
    facts = {"candidate": entry.candidate.name, "model": entry.candidate.model, "loss": entry.candidate.loss}
    return {**facts, "weight": weight, "models": models}


def _within_latency(
    search: Search, entries: Sequence[Entry], found: ensemble.OutOfFold, limit: float
) -> tuple[_Members, list[str]]:
    """Return the best ensemble of models, each trained on all lists, whose latency is below the limit."""
    costs = np.array([measure_latency(read_model(search.folders(entry)[0]), search.data) for entry in entries])
    if costs.min() > limit:
        at = int(costs.argmin())
        text = f"no candidate has a latency below {1e3 * limit:.3g} ms; the fastest has {1e3 * costs[at]:.3g} ms"
        return _single(search, entries[at]), [text]
    order: list[int] = sorted(np.flatnonzero(costs <= limit).tolist(), key=lambda at: -ensemble.mean(found.values[at]))
    chosen, total, spent = [order[0]], found.scores[:, order[0]], costs[order[0]]
    value = ensemble.mean(found.values[order[0]])
    while True:  # add the member that helps most, while the sum of the latencies is below the limit
        tried = {at: ensemble.mean(found.measure(total + found.scores[:, at])) for at in order
                 if at not in chosen and spent + costs[at] <= limit}  # fmt: skip
        if not tried or max(tried.values()) <= value:
            break
        at = max(tried, key=lambda place: tried[place])
        chosen, total, spent, value = [*chosen, at], total + found.scores[:, at], spent + costs[at], tried[at]
    if len(chosen) == 1 and spent * search.folds <= limit:
        return ([bag(search.folders(entries[chosen[0]]))], [_member(entries[chosen[0]], 1.0, search.folds)]), []
    models = [refit(search, entries[at]) for at in chosen]
    return (models, [_member(entries[at], 1 / len(chosen), 1) for at in chosen]), []


def _student(
    search: Search, found: ensemble.OutOfFold, choice: ensemble.Choice, name: str
) -> tuple[TrainedModel, list[str]]:
    """Return a student of the ensemble, and a sentence about the part of the gain that it keeps."""
    teacher = found.scores @ choice.weights
    student: Student = teach(search, teacher, name)
    best = ensemble.mean(found.values[int(np.argmax(ensemble.best_single(found)))])
    assert choice.values is not None
    gain, kept = ensemble.mean(choice.values) - best, found.sign * student.value - best
    metric, sign = search.settings.metric, found.sign
    text = (
        f"student: {metric} {student.value:.4f} on lists on which it was not trained; ensemble "
        f"{sign * ensemble.mean(choice.values):.4f}, best candidate {sign * best:.4f}"
    )
    share = f"; the student keeps {kept / gain:.0%} of the gain over the best candidate" if gain > 0 else ""
    return student.model, [text + share]


def measure_latency(model: TrainedModel, data: Dataset) -> float:
    """Return the median seconds to score one list of 100 documents on one core.

    Args:
        model: trained model.
        data: lists; the first documents are scored, repeated if there are fewer than 100.
    """
    rows = np.arange(LATENCY_DOCUMENTS) % len(data.labels)
    features, offsets = np.array(data.features[rows], dtype=np.float32), np.array([0, LATENCY_DOCUMENTS])
    with _one_thread():
        model.score(features, offsets)
        times = []
        for _ in range(_REPEATS):
            begun = time.perf_counter()
            model.score(features, offsets)
            times.append(time.perf_counter() - begun)
    return float(np.median(times))


@contextmanager
def _one_thread() -> Iterator[None]:
    """Limit PyTorch and libraries with OpenMP to one thread."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)
