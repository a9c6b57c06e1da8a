"""Teach one model the scores of an ensemble, on lists on which the members of the ensemble were not trained."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrad.models.auto import ensemble
from rankgrad.models.auto.fits import Fit, read_result, read_scores, run_fit
from rankgrad.models.auto.portfolio import PORTFOLIO
from rankgrad.models.protocol import TrainedModel
from rankgrad.models.registry import kind_or_default
from rankgrad.parallel.process_pool import Task
from rankgrad.spec import spell

if TYPE_CHECKING:
    from rankgrad.models.auto.search import Search

STUDENT = "student"  # name of the student among the candidates
STUDENTS = ("mlp", "lightgbm")
LOSS = "listnet:targets=softmax"
LABELS = 0.5  # weight of the standardised labels, relative to the scores of the teacher


class Student(NamedTuple):
    """A trained student, and its metric on lists on which it was not trained."""

    model: TrainedModel
    value: float


def teach(search: "Search", teacher: NDArray[np.float64], name: str) -> Student:
    """Train a student on the scores of a teacher plus the labels: first with folds, then on all lists.

    The folds give the number of epochs or trees, and the metric of the student.

    Args:
        search: search whose lists are used.
        teacher: standardised scores of the teacher on the scored lists of the search, `(documents,)`.
        name: model of the student, one of `STUDENTS`.
    """
    entry = next(each for each in PORTFOLIO if spell("model", str(each["model"])).name == name)
    kind = kind_or_default(entry["model"])
    settings = {**entry, "loss": LOSS, "metric": search.settings.metric, "seed": search.settings.seed}
    settings = kind.on_device(settings, "cpu")
    scored = np.repeat(search.scored_lists(), search.data.lengths)
    labels = np.array(search.data.labels, dtype=np.float32)
    labels[scored] = soft_labels(teacher, labels[scored], search.data.take(search.scored_lists()).offsets)
    folder = student_folder(search.folder, name)
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "labels.npy", labels)
    tasks, lengths, values = [], [], np.full(len(search.data), np.nan)
    for fold in range(search.folds):
        fit = Fit(STUDENT, fold, settings, str(folder / str(fold)), search.lists, labels=str(folder / "labels.npy"))
        if read_result(folder / str(fold)) is None:
            tasks.append(Task(fit.name, run_fit, (fit,)))
    for result in search.runner(tasks):
        if result.error is not None:
            raise RuntimeError(f"training of the student failed:\n{result.error}")
    for fold in range(search.folds):
        known = read_result(folder / str(fold))
        if known is None or known.error is not None:
            raise RuntimeError(f"training of the student failed: {None if known is None else known.error}")
        lengths.append(known.kept)
        mine = search.numbers == fold
        part = search.data.take(mine)
        found = ensemble.as_metric(search.settings.metric).measure(
            read_scores(folder / str(fold)), part.labels, offsets=part.offsets, reduction="none"
        )
        values[mine] = np.asarray(found, dtype=np.float64)
    data = replace(search.data, labels=labels)
    length: dict[str, Any] = kind.for_length(max(1, int(np.median(lengths))))
    return Student(kind.fit({**settings, **length}, data, progress=False), ensemble.mean(values))


def student_folder(search: Path, name: str) -> Path:
    """Return the folder of the trainings of a student, which contains one folder per fold.

    Args:
        search: folder of the search.
        name: model of the student, one of `STUDENTS`.
    """
    return search / f"{STUDENT}-{name}"


def soft_labels(
    teacher: NDArray[np.float64], labels: NDArray[np.float32], offsets: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return scores of the teacher plus standardised labels, shifted so that the least label of each list is 0.

    Args:
        teacher: standardised scores, `(documents,)`.
        labels: labels, `(documents,)`.
        offsets: offsets of the lists, `(lists + 1,)`.
    """
    from rankgrad.models.blend import standardise_columns

    columns = standardise_columns(np.stack([teacher, labels.astype(np.float64)], axis=1), np.asarray(offsets))
    mixed = columns[:, 0] + LABELS * columns[:, 1]
    lengths = np.diff(offsets)
    full = lengths > 0
    least = np.minimum.reduceat(mixed, np.asarray(offsets)[:-1][full]) if full.any() else np.zeros(0)
    return np.asarray(mixed - np.repeat(least, lengths[full]), dtype=np.float32)
