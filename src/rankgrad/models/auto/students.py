"""Train one model, the student, on the scores of an ensemble, the teacher. The scores are of held-out lists."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rankgrad.models.auto.fits import Fit, read_result, run_fit
from rankgrad.models.auto.portfolio import PORTFOLIO
from rankgrad.models.protocol import TrainedModel
from rankgrad.models.registry import kind_or_default
from rankgrad.parallel.process_pool import Task
from rankgrad.spec import spell

if TYPE_CHECKING:
    from rankgrad.models.auto.search import AutoSearch

STUDENT = "student"  # name of the student among the candidates
STUDENTS = ("mlp", "lightgbm")
LOSS = "listnet:targets=softmax"
LABELS = 0.5  # weight of the standardised labels, relative to the scores of the teacher


def teach(search: "AutoSearch", teacher: NDArray[np.float64], name: str) -> TrainedModel:
    """Train a student on the scores of a teacher plus the labels: first with each fold held out, then on all lists.

    The first trainings determine the number of epochs or trees. The metric of these trainings on the held-out lists is
    too high, because the teacher's scores of the training lists are from models that were trained on the held-out
    lists.

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
    fits = [
        Fit(STUDENT, fold, settings, str(folder / str(fold)), search.lists, labels=str(folder / "labels.npy"))
        for fold in range(search.folds)
    ]
    new = [fit for fit in fits if (done := read_result(fit)) is None or done.error is not None]
    for result in search.runner([Task(fit.name, run_fit, (fit,)) for fit in new]):
        if result.error is not None:
            raise RuntimeError(f"a training of the student must succeed; got the error\n{result.error}")
    results = [read_result(fit) for fit in fits]
    for each in results:
        if each is None or each.error is not None:
            got = "no result" if each is None else f"the error {each.error}"
            raise RuntimeError(f"a training of the student must succeed; got {got}")
    length = kind.for_length(max(1, int(np.median([each.kept for each in results if each is not None]))))
    return kind.fit({**settings, **length}, replace(search.data, labels=labels), progress=False)


def student_folder(search: Path, name: str) -> Path:
    """Return the folder for the trainings of a student. It contains one folder per fold.

    Args:
        search: folder of the search.
        name: model of the student, one of `STUDENTS`.
    """
    return search / f"{STUDENT}-{name}"


def soft_labels(
    teacher: NDArray[np.float64], labels: NDArray[np.float32], offsets: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return the labels of a student: teacher's scores plus weighted standardised labels, with minimum 0 per list.

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
