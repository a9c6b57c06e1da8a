"""Search for the best ranker: train many candidates on a part of the folds, and the better candidates on all folds.

First, a candidate is trained with the first fold held out, and measured on the lists of this fold. If it is not clearly
worse than the best candidate, it is also trained with each of the other folds held out. Then it is *complete*: it has
one model per fold, and for each list, scores from a model that was not trained on this list. The search begins with the
candidates of the portfolio. Rounds of random candidates follow. Of each round, only the best third is trained with each
fold held out.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, zip_longest
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rankgrad.data import Dataset
from rankgrad.data.preprocessing.missing_values import MISSING
from rankgrad.errors import bad_value, one_of
from rankgrad.losses import parse_loss
from rankgrad.metrics.custom import as_metric
from rankgrad.models.auto import ensemble
from rankgrad.models.auto.fits import Fit, FitResult, read_result, read_scores, run_fit, write_failure
from rankgrad.models.auto.portfolio import PORTFOLIO, Candidate, candidates, installed_kinds
from rankgrad.models.auto.stored_lists import StoredLists, has_missing
from rankgrad.models.blend import standardise_columns
from rankgrad.models.registry import kind_or_default
from rankgrad.parallel.clock import now
from rankgrad.parallel.process_pool import Runner, Task
from rankgrad.settings.schema import check_number

FOLDS = 5
ROUND, SHARE = 9, 3  # number of draws per round; one third of them is trained on all folds
_FIRST = 0.5  # share of the time for the first fold of the portfolio
_TRIED = 1.5  # the first fold is tried for this number of candidates per candidate that can be trained on all folds
_LONGEST = 8  # one training may take this part of the time
_LEAST = 4  # number of candidates that must be trained on all folds; otherwise fewer folds are used
_RESERVE, _AT_LEAST, _AT_MOST = 0.04, 1.0, 60.0  # share and limits (seconds) of the time for ensemble and saving


@dataclass(frozen=True)
class SearchSettings:
    """Settings of an automatic search. Exactly one of `seconds` and `trials` is set."""

    seconds: float | None = None  # duration of the search, including the choice of the ensemble
    trials: int | None = None  # number of candidates; with this setting, the result does not depend on the time
    metric: str = "nDCG@10"
    folds: int = FOLDS
    seed: int = 0
    memory: int | None = None  # number of bytes that all processes may use together; None for no limit
    jobs: int = 1  # number of trainings at the same time
    missing: str | None = None  # setting `missing` of networks; None: "mean" if the lists have NaN, otherwise "error"

    def check(self) -> None:
        """Raise an error if a setting of the search is wrong."""
        if (self.seconds is None) == (self.trials is None):
            bad_value("exactly one of minutes and trials", "be given", "neither" if self.seconds is None else "both")
        if self.seconds is not None:
            check_number("minutes", self.seconds / 60)
        for name, least in (("trials", 1), ("folds", 2), ("jobs", 1), ("seed", 0)):
            check_number(name, getattr(self, name), whole=True, least=least, optional=name == "trials")
        if self.missing is not None:
            one_of("missing", self.missing, MISSING)
        as_metric(self.metric)


@dataclass
class Entry:
    """A line of the leaderboard: a candidate and the results of its fits."""

    candidate: Candidate
    fits: dict[int, FitResult] = field(default_factory=dict)  # results of finished fits, by number of the held-out fold
    note: str = ""  # reason why the candidate is not trained further; empty if there is no reason
    values: NDArray[np.float64] | None = None  # metric per list; NaN for lists of folds that are not finished

    @property
    def error(self) -> str | None:
        """Error message of a training that failed; None if no training failed."""
        return next((fit.error for fit in self.fits.values() if fit.error is not None), None)

    @property
    def seconds(self) -> float:
        """Total duration of all trainings of the candidate, in seconds."""
        return sum(fit.seconds for fit in self.fits.values())


class AutoSearch:
    """The state of an automatic search.

    Args:
        settings: settings of the search.
        lists: stored lists.
        folder: folder for the results of all trainings. A resumed search uses the results in this folder.
        runner: function that runs tasks: the method `run` of a pool, or `run_in_this_process`.
        begun: time of `rankgrad.parallel.clock` at which the search began.
    """

    def __init__(
        self, settings: SearchSettings, lists: StoredLists, folder: Path, runner: Runner, begun: float | None = None
    ) -> None:
        self.settings, self.lists, self.folder, self.runner = settings, lists, folder, runner
        self.begun = now() if begun is None else begun
        self.data: Dataset = lists.read()
        self.numbers = lists.numbers()
        self.folds = lists.folds  # number of folds that are used; fewer if there is little time
        self.entries: dict[str, Entry] = {}
        self.learning: list[tuple[float, float]] = []  # seconds, and best value of a complete candidate so far
        self._metric = as_metric(settings.metric)
        self._installed = installed_kinds()

    @property
    def higher_is_better(self) -> bool:
        """True if higher values of the metric of the search are better."""
        return bool(self._metric.higher_is_better)

    @property
    def deadline(self) -> float | None:
        """Time at which the trainings of the search end; the rest of the time is for the ensemble."""
        if self.settings.seconds is None:
            return None
        return self.begun + self.settings.seconds - reserve(self.settings.seconds)

    def left(self) -> float:
        """Return the seconds until the trainings of the search end."""
        return float("inf") if self.deadline is None else self.deadline - now()

    def run(self) -> Iterator[Entry]:
        """Run the search, and yield the entry of each finished training."""
        missing = self.settings.missing or ("mean" if has_missing(self.data) else "error")
        stream = candidates(self.settings.seed, self._installed, missing)
        size = sum(self._installed[kind_or_default(entry["model"]).name] for entry in PORTFOLIO)
        trials = self.settings.trials
        if trials is None:  # with a number of trials, the same decisions are made again, from the same results
            yield from self._restore(stream)
        probed = min(_LEAST, size) if trials is None else min(size, trials)
        new = self._fitting(islice(stream, max(0, probed - len(self.entries))))
        yield from self._train([(entry, 0) for entry in new])
        new = self._fitting(islice(stream, max(0, self._affordable(size) - len(self.entries))))
        until = None if self.settings.seconds is None else self.begun + _FIRST * self.settings.seconds
        yield from self._train([(entry, 0) for entry in new], until)
        self._choose_folds()
        while self.left() > 0:
            if pending := self._pending():
                yield from self._train([(entry, fold) for entry in pending for fold in range(1, self.folds)])
            elif drawn := self._fitting(islice(stream, self._draws())):
                yield from self._train([(entry, 0) for entry in drawn])
                self._drop_all_but_best(drawn)
            else:
                break
        if not any(self._began(entry) for entry in self.entries.values()):
            yield from self._last_resort()

    def _last_resort(self) -> Iterator[Entry]:
        """Train one candidate for a short time in this process, if no training was finished in the given time."""
        for entry in self.entries.values():
            if not entry.note and not entry.fits and self.settings.seconds is not None:
                run_fit(
                    replace(self._fit(entry, 0), start_by=None, stop_at=None, seconds=reserve(self.settings.seconds))
                )
                if (done := read_result(self._fit(entry, 0))) is not None:
                    yield self._take(entry, 0, done)
                if self._began(entry):
                    return

    def _restore(self, stream: Iterator[Candidate]) -> Iterator[Entry]:
        """Yield the entries of all trainings that were finished before the search was stopped.

        Args:
            stream: candidates in the order of the search. All candidates up to the last one that was trained are
                removed from the stream.
        """
        last = max((int(path.name[1:].partition("-")[0]) for path in self.folder.glob("c*-*")), default=0)
        for candidate in stream if last else ():
            for entry in self._fitting([candidate]):
                for fold in range(self.folds):
                    if (done := self._known(self._fit(entry, fold))) is not None:
                        yield self._take(entry, fold, done)
            if candidate.number >= last:
                break

    def _affordable(self, size: int) -> int:
        """Return the number of portfolio candidates to try on one fold: more than can be trained on all folds in time.

        Args:
            size: number of candidates of the portfolio.
        """
        if self.settings.seconds is None or not (cost := self._usual_seconds()):
            return size if self.settings.trials is None else 0
        complete = self.settings.seconds * self.settings.jobs / (self.lists.folds * cost)
        return min(size, round(_TRIED * complete))

    def trainings(self) -> tuple[int, int]:
        """Return the number of finished trainings, and the total number of trainings that is currently expected."""
        done = sum(len(entry.fits) for entry in self.entries.values())
        open_entries = [entry for entry in self.entries.values() if not entry.note and entry.error is None]
        more = sum(self.folds - len(entry.fits) for entry in open_entries if entry.fits)
        waiting = sum(not entry.fits for entry in open_entries)
        return done, done + more + waiting * (1 if self.settings.trials is None else self.folds)

    def _draws(self) -> int:
        """Return the number of random candidates in the next round. It is smaller at the end of the search."""
        if self.settings.trials is not None:
            return min(ROUND, self.settings.trials - len(self.entries))
        # A round trains each draw on one fold, and the best third on the other folds.
        each = self._usual_seconds() * (1 + (self.folds - 1) / SHARE) / self.settings.jobs
        return min(ROUND, int(self.left() / each)) if each > 0 else 0

    def _drop_all_but_best(self, drawn: Sequence[Entry]) -> None:
        """Drop all candidates of a round except the best third."""
        known = self._best_first(entry for entry in drawn if self._began(entry))
        for entry in known[max(1, len(drawn) // SHARE) :]:
            entry.note = "not among the best third of its round"

    def _pending(self) -> list[Entry]:
        """Return the candidates to train with the other folds held out, in the order of `_in_turn`.

        These are the candidates that are not clearly worse than the best candidate. In a search with a time limit, only
        candidates for which there is enough time are returned.
        """
        known = [entry for entry in self.entries.values() if self._began(entry)]
        if not known or self.folds == 1:
            return []
        good = ensemble.not_clearly_worse(np.stack([self._fold_values(entry) for entry in known]))
        wanted = []
        for entry, is_good in zip(known, good, strict=True):
            if len(entry.fits) == 1 and not entry.note and not is_good:
                entry.note = "clearly worse on the first fold"
            if not entry.note and not self.is_complete(entry):
                wanted.append(entry)
        chosen, spent = [], 0.0
        for entry in self._in_turn(wanted):
            cost = (self.folds - len(entry.fits)) * entry.fits[0].seconds / self.settings.jobs
            if spent + cost <= self.left():
                spent += cost
                chosen.append(entry)
        return chosen

    @staticmethod
    def _began(entry: Entry) -> bool:
        return 0 in entry.fits and entry.error is None

    def _fitting(self, wanted: Iterable[Candidate]) -> list[Entry]:
        """Make an entry for each candidate, and return the entries that can be trained.

        Candidates that need too much memory, or whose loss cannot use the weights of the data, are left out.
        """
        found = []
        longest = int(self.data.lengths.max(initial=0))
        for candidate in wanted:
            entry = self.entries[candidate.name] = Entry(candidate)
            kind = kind_or_default(candidate.settings["model"])
            copies = 4 * self.data.features.size  # training lists and lists of the fold
            documents, features = self.data.features.shape
            need = (copies + kind.memory(candidate.settings, documents, features, longest)) * self.settings.jobs
            if self.settings.memory is not None and need > self.settings.memory:
                entry.note = f"left out: needs about {max(need, 10**6) / 1e9:.3g} GB"
            elif self.data.weights is not None and not _takes_weights(candidate.loss):
                entry.note = "left out: its loss cannot use document weights"
            else:
                found.append(entry)
        return found

    def _choose_folds(self) -> None:
        """Use fewer folds if there is not enough time to train several candidates on all folds."""
        costs = sorted(entry.fits[0].seconds for entry in self.entries.values() if self._began(entry))
        if self.settings.seconds is None or not costs:
            return
        least = min(_LEAST, len(costs))
        total = sum(costs[:least]) / self.settings.jobs
        while self.folds > 1 and len(self.complete()) < least and (self.folds - 1) * total > self.left():
            self.folds -= 1

    def _in_turn(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return the best entry of each family, then the second best entry of each family, and so on.

        With this order, a short search has candidates of all families.
        """
        families: dict[str, list[Entry]] = {}
        for entry in self._best_first(entries):
            families.setdefault(entry.candidate.family, []).append(entry)
        return [entry for turn in zip_longest(*families.values()) for entry in turn if entry is not None]

    def _best_first(self, entries: Iterable[Entry]) -> list[Entry]:
        return sorted(entries, key=lambda entry: -ensemble.mean(self._fold_values(entry)))

    def _fold_values(self, entry: Entry) -> NDArray[np.float64]:
        """Return the metric of a candidate on each list of the first fold; higher is better."""
        assert entry.values is not None
        return entry.values[self.numbers == 0]

    def _usual_seconds(self) -> float:
        """Return the mean duration of the trainings of the search so far."""
        spent = [fit.seconds for entry in self.entries.values() for fit in entry.fits.values()]
        return float(np.mean(spent)) if spent else 0.0

    def _fit(self, entry: Entry, fold: int) -> Fit:
        """Return the training of a candidate with this fold held out."""
        seeds = np.random.SeedSequence([self.settings.seed, entry.candidate.number, fold]).generate_state(1)
        settings = {**entry.candidate.settings, "metric": self.settings.metric, "seed": int(seeds[0] % 2**31)}
        settings = kind_or_default(settings["model"]).on_device(settings, "cpu")
        longest = None if self.settings.seconds is None else self.settings.seconds * self.settings.jobs / _LONGEST
        folder = str(self._folder(entry, fold))
        return Fit(entry.candidate.name, fold, settings, folder, self.lists, stop_at=self.deadline, seconds=longest)

    def _known(self, fit: Fit) -> FitResult | None:
        """Return the stored result of a fit; None if the fit was not run, or must be run again with more time."""
        done = read_result(fit)
        if done is None or not done.stopped or self.left() <= 0:
            return done
        return done if fit.seconds is not None and done.seconds >= fit.seconds else None

    def _train(self, wanted: Sequence[tuple[Entry, int]], until: float | None = None) -> Iterator[Entry]:
        """Run the fits that have no result yet; yield the entry of the candidate of each finished fit.

        Args:
            wanted: entry of the candidate, and number of the held-out fold, of each fit.
            until: time after which no fit is started; None for the end of the search.
        """
        fits = {}
        for entry, fold in wanted:
            fit = self._fit(entry, fold)
            if (done := self._known(fit)) is not None:
                yield self._take(entry, fold, done)
            else:
                fits[fit.name] = (entry, replace(fit, start_by=self.deadline if until is None else until))
        if not fits or self.left() <= 0:
            return
        tasks = [Task(name, run_fit, (fit,)) for name, (_, fit) in fits.items()]
        for result in self.runner(tasks, until=self.deadline):
            entry, fit = fits[result.task.name]
            if result.error is not None:  # the process died, for example because there was not enough memory
                write_failure(fit, result.error.strip().splitlines()[-1])
            if (done := read_result(fit)) is not None:
                yield self._take(entry, fit.fold, done)

    def _take(self, entry: Entry, fold: int, result: FitResult) -> Entry:
        """Add the result of a fit to its entry."""
        entry.fits[fold] = result
        if result.error is None:
            mine = self.numbers == fold
            part = self.data.take(mine)
            found = self._metric.measure(
                read_scores(self._folder(entry, fold)), part.labels, offsets=part.offsets, reduction="none"
            )
            sign = 1.0 if self._metric.higher_is_better else -1.0
            if entry.values is None:
                entry.values = np.full(len(self.data), np.nan)
            entry.values[mine] = sign * np.asarray(found, dtype=np.float64)
        if self.is_complete(entry):
            best = max(ensemble.mean(other.values[self.numbers < self.folds]) for other in self.complete())  # type: ignore[index]
            self.learning.append((now() - self.begun, best if self.higher_is_better else -best))
        return entry

    def is_complete(self, entry: Entry) -> bool:
        """Return True if a candidate has a model for each fold.

        Args:
            entry: entry of the candidate.
        """
        return entry.error is None and all(fold in entry.fits for fold in range(self.folds))

    def complete(self) -> list[Entry]:
        """Return the entries of all candidates that have a model for each fold."""
        return [entry for entry in self.entries.values() if self.is_complete(entry)]

    def shorten(self) -> None:
        """Use fewer folds, if no candidate has a model for each fold, for example after Ctrl-C."""
        while self.folds > 1 and not self.complete():
            self.folds -= 1

    def scored_lists(self) -> NDArray[np.bool_]:
        """Return True for each list that has scores of the complete candidates, otherwise False, `(lists,)`."""
        return self.numbers < self.folds

    def out_of_fold(self, entries: Sequence[Entry]) -> ensemble.OutOfFold:
        """Return the held-out scores of complete candidates: the models that scored a list were not trained on it.

        Args:
            entries: complete candidates.
        """
        data = self.data.take(self.scored_lists())
        columns = np.stack([self.scores(entry) for entry in entries], axis=1)
        families = [entry.candidate.family for entry in entries]
        return ensemble.OutOfFold(data, standardise_columns(columns, data.offsets), families, self.settings.metric)

    def scores(self, entry: Entry) -> NDArray[np.float64]:
        """Return the held-out scores of a candidate on the lists of `scored_lists`, `(documents,)`.

        Args:
            entry: complete candidate.
        """
        owner = np.repeat(self.numbers, self.data.lengths)
        found = np.zeros(len(owner))
        for fold in range(self.folds):
            found[owner == fold] = read_scores(self._folder(entry, fold))
        return found[owner < self.folds]

    def folders(self, entry: Entry) -> list[Path]:
        """Return the folders of the fits of a complete candidate.

        Args:
            entry: complete candidate.
        """
        return [self._folder(entry, fold) for fold in range(self.folds)]

    def _folder(self, entry: Entry, fold: int) -> Path:
        return self.folder / f"{entry.candidate.name}-{fold}"


def _takes_weights(loss: str) -> bool:
    return loss.startswith("native:") or parse_loss(loss).takes_weights


def reserve(seconds: float) -> float:
    """Return the seconds of a search that are reserved for the choice of the ensemble and for saving.

    Args:
        seconds: duration of the search.
    """
    return min(max(_RESERVE * seconds, min(_AT_LEAST, seconds / 4)), _AT_MOST)
