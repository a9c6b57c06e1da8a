"""Train a candidate with one fold held out, score the lists of this fold, and store model, scores and facts."""

import hashlib
import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrad.atomic_files import read_json, write_json
from rankgrad.errors import bad_value, first_line
from rankgrad.models.auto.stored_lists import StoredLists
from rankgrad.models.protocol import TrainedModel
from rankgrad.models.registry import kind_or_default, load
from rankgrad.parallel.clock import now

_FACTS, _SCORES, _MODEL = "fit.json", "scores.npy", "model"


@dataclass(frozen=True)
class Fit:
    """One training of an automatic search: a candidate, and the held-out fold."""

    candidate: str  # name of the candidate
    fold: int  # number of the held-out fold, from 0
    settings: dict[str, Any]  # settings of the ranker, with seed and metric
    folder: str  # folder for the result
    lists: StoredLists
    start_by: float | None = None  # time of `clock` after which the training is not started
    stop_at: float | None = None  # time at which an unfinished training is stopped, without a result
    seconds: float | None = None  # maximum duration of the training; the model at this time is the result
    labels: str | None = None  # file with labels for the training; None for the labels of the lists

    @property
    def name(self) -> str:
        """Unique name of the fit, such as `c001-0`."""
        return f"{self.candidate}-{self.fold}"

    @property
    def key(self) -> str:
        """Hash of everything on which the result of the fit depends: settings, fold, lists and labels."""
        labels = "" if self.labels is None else Path(self.labels).read_bytes().hex()
        content = json.dumps([self.settings, self.fold, self.lists.folds, self.lists.seed, self.lists.key, labels])
        return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()


class FitResult(NamedTuple):
    """Facts about a finished fit."""

    seconds: float  # duration of training and scoring
    kept: int  # number of epochs or trees that the model keeps
    stopped: bool  # True if the training was stopped at its maximum duration
    key: str  # `Fit.key` of the fit
    error: str | None = None  # error message; None if the training did not fail


def run_fit(fit: Fit) -> bool:
    """Run a fit, and write its result. Return False if there was not enough time.

    Args:
        fit: training to run.
    """
    begun = now()
    if fit.start_by is not None and begun >= fit.start_by:
        return False
    late = stopped = False

    def out_of_time(_: dict[str, Any]) -> bool:
        nonlocal late, stopped
        time = now()
        late = fit.stop_at is not None and time >= fit.stop_at
        stopped = fit.seconds is not None and time - begun >= fit.seconds
        return late or stopped

    folder = Path(fit.folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _FACTS).unlink(missing_ok=True)  # an old result for other settings
    train, test = fit.lists.split(fit.fold, None if fit.labels is None else np.load(fit.labels, allow_pickle=False))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a candidate that fails or does not converge is shown as such
            kind = kind_or_default(fit.settings["model"])
            model = kind.fit(fit.settings, train, test, progress=False, callbacks=[out_of_time])
            if late:
                return False
            scores = model.score_lists(test)
        if not np.isfinite(scores).all():
            raise ValueError("the scores are not finite")
    except Exception as error:  # errors of frameworks have their own classes; the leaderboard shows the message
        write_failure(fit, first_line(error), now() - begun)
        return True
    model.save(folder / _MODEL)
    try:
        read_model(folder)  # otherwise a file that cannot be read would end the search when the ensemble is made
    except ValueError as error:
        write_failure(fit, first_line(error), now() - begun)
        return True
    np.save(folder / _SCORES, scores.astype(np.float32), allow_pickle=False)
    facts = FitResult(round(now() - begun, 4), model.kept, stopped, fit.key)
    write_json(folder / _FACTS, facts._asdict(), seal=True)  # written last: a folder without it is not finished
    return True


def write_failure(fit: Fit, message: str, seconds: float = 0.0) -> None:
    """Record that a fit has failed, so that a resumed search does not repeat the fit.

    Args:
        fit: training that failed.
        message: one line about the error.
        seconds: duration of the fit.
    """
    folder = Path(fit.folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / _FACTS, FitResult(seconds, 0, False, fit.key, message)._asdict(), seal=True)


def read_result(fit: Fit) -> FitResult | None:
    """Return the facts about a fit; None if the fit is not finished, or if its folder has a result with another key.

    Args:
        fit: the training.
    """
    path = Path(fit.folder) / _FACTS
    if not path.is_file():
        return None
    try:
        found = FitResult(**read_json(path))
    except TypeError as error:
        how = "delete this file to repeat the training"
        bad_value(str(path), f"be the result of a finished training ({how})", f"the error {error}")
    return found if found.key == fit.key else None


def read_scores(folder: Path) -> NDArray[np.float32]:
    """Return the scores of a finished fit for the lists of its held-out fold, `(documents,)`.

    Args:
        folder: folder of a finished fit.
    """
    scores: NDArray[np.float32] = np.load(folder / _SCORES, allow_pickle=False)
    return scores


def read_model(folder: Path) -> TrainedModel:
    """Return the model of a finished fit.

    Args:
        folder: folder of the fit.
    """
    return load(folder / _MODEL)
