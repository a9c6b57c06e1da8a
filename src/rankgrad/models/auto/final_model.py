"""Make the model that the automatic search returns, from the candidates that have a model for each fold.

The usual model is an ensemble of bags. A bag averages the standardised scores of the fold models of a candidate. Other
forms are one model that is trained on all lists, an ensemble within a latency limit, and a student that learns the
scores of the ensemble.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from rankgrad.errors import bad_value
from rankgrad.models.auto import ensemble
from rankgrad.models.auto.fits import read_model
from rankgrad.models.auto.latency import LATENCY_DOCUMENTS, measure_latency
from rankgrad.models.auto.leaderboard import entry_rows
from rankgrad.models.auto.portfolio import missing_notes
from rankgrad.models.auto.search import AutoSearch, Entry
from rankgrad.models.auto.students import LOSS, STUDENT, STUDENTS, teach
from rankgrad.models.blend import BlendModel
from rankgrad.models.protocol import TrainedModel
from rankgrad.models.registry import kind_or_default
from rankgrad.parallel.clock import now
from rankgrad.settings.schema import Schema, documented, setting


@documented()
@dataclass(frozen=True)
class FinalSettings(Schema):
    """Form of the final model of an automatic search. The default is an ensemble without a latency limit."""

    what = "a final model"

    single: bool = setting(False, "True for one model that is trained on all lists, instead of an ensemble")
    max_latency: float | None = setting(None, "maximum seconds per 100 documents on one core; None for no limit")
    distil: str | None = setting(None, "student that learns from the ensemble; None for none", choices=STUDENTS)

    def _checks(self, files: bool) -> Iterable[Callable[[], Any]]:
        given = [name for name in self.names() if getattr(self, name)]
        if len(given) > 1:
            yield lambda: bad_value("single, max_latency and distil", "not be given together", " and ".join(given))
        if self.distil in STUDENTS:
            yield kind_or_default(self.distil).check_installed


@dataclass
class AutoResult:
    """Result of an automatic search."""

    model: TrainedModel
    metric: str
    form: str  # form of the model, such as `even blend` or `single model`
    members: list[dict[str, Any]]  # candidate, weight and number of models of each member
    nested: dict[str, float]  # metric of each form of ensemble on lists that were not used to choose its weights
    leaderboard: list[dict[str, Any]]
    learning: list[tuple[float, float]]  # time in seconds, and best value until then
    folds: int  # number of folds that were used
    of_folds: int  # number of folds into which the lists were divided
    lists: int  # number of lists on which the values were measured
    latency: float  # seconds per 100 documents on one core
    seconds: float  # duration of the search
    notes: list[str] = field(default_factory=list)
    compared: dict[str, TrainedModel] = field(default_factory=dict)  # models with which a student is compared

    def summary(self) -> list[str]:
        """Return sentences about the final model, the check of the ensemble, and its latency."""
        lines = []
        if self.nested:
            checked = ", ".join(f"{name} {value:.4f}" for name, value in self.nested.items())
            lines.append(f"{self.metric} on lists that were not used to choose the ensemble: {checked}")
            lines.append(ensemble.reason(self.form, self.nested, len(self.members)))
        members = ", ".join(f"{m['weight']:.2f} {m['candidate']}" for m in self.members)
        count = sum(member["models"] for member in self.members)
        lines.append(f"result: {self.form}, {members} ({count} {'model' if count == 1 else 'models'})")
        lines.append(f"latency: {1e3 * self.latency:.3g} ms per {LATENCY_DOCUMENTS} documents on one core")
        used = f"{self.folds} of {self.of_folds} folds, {self.lists:,} lists"
        lines.append(f"{self.seconds:.1f} s; the values were measured on {used}")
        return [*lines, *self.notes]

    def to_json(self) -> dict[str, Any]:
        """Return all facts about the result of an automatic search except the models, as JSON values."""
        left_out = ("model", "compared")
        return {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in left_out}


def make_model(search: AutoSearch, final: FinalSettings) -> AutoResult:
    """Choose an ensemble of the complete candidates, and return the model in the wanted form.

    If Ctrl-C stops the training of the wanted form, the ensemble is returned.

    Args:
        search: finished or stopped search.
        final: wanted form.
    """
    search.shorten()
    entries = sorted(search.complete(), key=lambda entry: entry.candidate.number)
    if not entries:
        _no_candidate(search)
    found = search.out_of_fold(entries)
    best = entries[int(np.argmax(ensemble.best_single(found)))]
    choice = ensemble.choose(found, search.settings.seed)
    made = _Made(choice.form, *_bags(search, entries, choice.weights), choice.nested[choice.form])
    teacher = made
    notes = missing_notes()
    try:
        if final.single:
            made = _Made("single model", *_single(search, best), found.sign * ensemble.mean(best.values))
        elif final.max_latency is not None:
            made = _within_latency(search, entries, found, final.max_latency, notes)
        elif final.distil is not None:
            student = teach(search, found.scores @ choice.weights, final.distil)
            facts = {"candidate": STUDENT, "model": final.distil, "loss": LOSS, "weight": 1.0, "models": 1}
            made = _Made(f"student of the {choice.form}", [student], [facts], None)
    except KeyboardInterrupt:
        notes.append("stopped before the wanted form was trained, so the result is the ensemble")
    model = made.model(search)
    about = {"form": made.form, "members": made.members, "metric": search.settings.metric, "seed": search.settings.seed}
    if isinstance(model, BlendModel):
        model.settings = {**model.settings, "auto": about}
    compared = {"ensemble": teacher.model(search), "best candidate": bag(search.folders(best))}
    return AutoResult(
        model=model, metric=search.settings.metric, form=made.form, members=made.members, nested=choice.nested,
        leaderboard=entry_rows(search), learning=search.learning, folds=search.folds, of_folds=search.lists.folds,
        lists=int(search.scored_lists().sum()), latency=measure_latency(model, search.data),
        seconds=now() - search.begun, notes=notes, compared=compared if final.distil is not None else {},
    )  # fmt: skip


class _Made(NamedTuple):
    """A form of the final model: name, models, facts about each member, and metric on held-out lists or None."""

    form: str
    models: list[TrainedModel]
    members: list[dict[str, Any]]
    value: float | None

    def model(self, search: AutoSearch) -> TrainedModel:
        """Return the final model: the only model of the form, or a blend of several models."""
        weights = np.array([member["weight"] for member in self.members])
        model = self.models[0] if len(self.models) == 1 else BlendModel(self.models, weights)
        model.feature_names = search.data.feature_names
        metrics = {name: value for name, value in model.metrics.items() if name != "validation"}
        measured = {} if self.value is None else {"validation": {search.settings.metric: self.value}}
        model.metrics = {**metrics, **measured}
        return model


def _no_candidate(search: AutoSearch) -> NoReturn:
    """Raise an error that explains why the automatic search has trained no candidate."""
    failed = next((entry.error for entry in search.entries.values() if entry.error), None)
    if failed is not None:
        bad_value("the search", "finish at least one training", f"no finished training; the first error is: {failed}")
    if search.entries and all(entry.note for entry in search.entries.values()):
        got = f"{search.settings.memory / 1e9:.3g} GB: {next(iter(search.entries.values())).note}"
        bad_value("memory", "be enough for at least one candidate", got)
    bad_value("the search", "finish at least one training", "no finished training (allow more time)")


_Members = tuple[list[TrainedModel], list[dict[str, Any]]]


def _bags(search: AutoSearch, entries: Sequence[Entry], weights: NDArray[np.float64]) -> _Members:
    """Return the bag of each candidate with a weight above 0, and facts about these candidates."""
    models, members = [], []
    for entry, weight in zip(entries, weights, strict=True):
        if weight > 0:
            models.append(bag(search.folders(entry)))
            members.append(_member(entry, float(weight), search.folds))
    return models, members


def bag(folders: Sequence[Path]) -> TrainedModel:
    """Return one model that averages the standardised scores of the fold models of a candidate.

    Args:
        folders: folders of the fits of the candidate, one per fold.
    """
    models = [read_model(folder) for folder in folders]
    return models[0] if len(models) == 1 else BlendModel(models, np.full(len(models), 1 / len(models)))


def refit(search: AutoSearch, entry: Entry) -> TrainedModel:
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


def _single(search: AutoSearch, best: Entry) -> _Members:
    return [refit(search, best)], [_member(best, 1.0, 1)]


def _member(entry: Entry, weight: float, models: int) -> dict[str, Any]:
    facts = {"candidate": entry.candidate.name, "model": entry.candidate.model, "loss": entry.candidate.loss}
    return {**facts, "weight": weight, "models": models}


def _within_latency(
    search: AutoSearch, entries: Sequence[Entry], found: ensemble.OutOfFold, limit: float, notes: list[str]
) -> _Made:
    """Return the best ensemble with a latency below the limit. Each of its models is trained on all lists."""
    costs = np.array([measure_latency(read_model(search.folders(entry)[0]), search.data) for entry in entries])
    if costs.min() > limit:
        at = int(costs.argmin())
        notes.append(
            f"no candidate has a latency below {1e3 * limit:.3g} ms: the result is the fastest candidate, with "
            f"{1e3 * costs[at]:.3g} ms"
        )
        value = found.sign * ensemble.mean(found.values[at])
        return _Made("fastest candidate", *_single(search, entries[at]), value)
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
    form, members = "ensemble within the latency limit", [_member(entries[at], 1 / len(chosen), 1) for at in chosen]
    if len(chosen) == 1:
        form = "candidate within the latency limit"
        if spent * search.folds <= limit:
            members = [_member(entries[chosen[0]], 1.0, search.folds)]
            return _Made(form, [bag(search.folders(entries[chosen[0]]))], members, found.sign * value)
    return _Made(form, [refit(search, entries[at]) for at in chosen], members, found.sign * value)
