"""Define what every ranker is: a `TrainedModel` that scores lists, and a `RankerKind` that trains one.

The command line and experiments know rankers by these two classes only. `rankgrad.models.registry` finds the kind of a
model's text, and the loader of a saved folder.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrad.data import Dataset
from rankgrad.errors import bad_value
from rankgrad.metrics.evaluate import Evaluation, evaluate
from rankgrad.models.folder import CONFIG

# Receives the log row of each epoch or tree; a true return value ends the training after it.
Callback = Callable[[dict[str, Any]], Any]

EXPORT_TOLERANCE = 1e-5  # between the scores of an exported file and of its model


@dataclass(frozen=True)
class Exported:
    """A file that `TrainedModel.export` wrote, and the check that it passed."""

    path: Path  # of the file
    format: str  # its name, such as `onnx`
    engine: str  # the program that ran it
    shapes: tuple[tuple[int, int], ...]  # lists and documents that it was run at
    difference: float  # the largest one to the model's own scores


class TrainedModel(ABC):
    """A trained ranker: scores lists, is evaluated, saved, loaded and exported.

    A subclass sets `features`, and says how it scores and how it is saved; its `RankerKind` loads it.
    """

    unit: ClassVar[str] = "epoch"  # of the training's progress; also the key of the number of a history row

    features: int  # columns that it takes
    settings: dict[str, Any]  # of its training, as JSON can hold them
    metrics: dict[str, Any]  # {unit: number that was kept, "validation": {metric: value}, "loss": {name: value}}
    history: list[dict[str, Any]]  # one row per epoch or tree, after training

    @abstractmethod
    def score(self, features: Any, offsets: Any = None) -> NDArray[np.float32]:
        """Compute one score per document, `(documents,)`; higher ranks first.

        Args:
            features: `(documents, f)`.
            offsets: `(lists + 1,)`; None: all documents are one list.
        """

    @abstractmethod
    def save(self, folder: str | PathLike[str]) -> None:
        """Write a folder that the registry's `load` reads, and that cannot run code.

        Args:
            folder: where to write; made if it is not there.
        """

    def evaluate(self, data: Dataset, metrics: Iterable[Any] | str) -> Evaluation:
        """Measure metrics on labelled lists, with intervals and the value of each list.

        Args:
            data: the lists.
            metrics: as text or objects.
        """
        return evaluate(self.score(data.features, data.offsets), np.asarray(data.labels), metrics, offsets=data.offsets)

    def export(self, path: str | PathLike[str], *, format: str | None = None) -> Exported:
        """Write the model as one file that other programs run.

        Args:
            path: of the file.
            format: of the file; None: by its ending.
        """
        bad_value("model", "be of a kind that can be exported", type(self).__name__)

    def feature_importance(
        self, data: Dataset | None = None, metric: Any = "nDCG@10", *, repeats: int = 3, seed: int = 0
    ) -> NDArray[np.float64]:
        """Compute how much a metric falls when a feature is shuffled over the documents, `(features,)`.

        Args:
            data: labelled lists to measure on; not those that the model was trained on.
            metric: as text or object; for one where lower is better, the rise is given.
            repeats: shuffles per feature, whose mean is given.
            seed: of the shuffles.
        """
        if data is None:
            bad_value("data", "be given, to shuffle its features and measure", None)
        from rankgrad.models.importance import permutation_importance

        return permutation_importance(self, data, metric, repeats=repeats, seed=seed)

    def validated(self, validation: Dataset, metric: str) -> dict[str, float]:
        """The metric on the validation lists, by its name: as noted in training, otherwise measured.

        Args:
            validation: the lists that training was given.
            metric: as text.
        """
        known = self.metrics.get("validation", {})
        if metric in known:
            return {metric: float(known[metric])}
        scores, labels = self.score(validation.features, validation.offsets), np.asarray(validation.labels)
        found = evaluate(scores, labels, [metric], offsets=validation.offsets, bootstrap=0)
        return {metric: next(iter(found.means.values()))}

    @property
    def kept(self) -> int:
        """Epochs or trees that it keeps of its training; 0 where that is not known."""
        return int(self.metrics.get(self.unit, 0))

    @property
    def size(self) -> int:
        """Numbers that it has learned; 0 where that is not known."""
        return 0


class NotFinite(ArithmeticError):
    """Training that came to a loss or scores which are NaN or infinite; says where, and the last good checkpoint."""


class Listing(NamedTuple):
    """A line of `rankgrad list models`."""

    name: str
    about: str
    options: str


class RankerKind(ABC):
    """A kind of ranker: its settings and their checks, what is worth trying, and how it is trained and loaded.

    Settings are one flat mapping that JSON can hold, in which `model` is the text `name[:key=value,...]`. All kinds
    have `loss`, `metric` and `seed`, as far as they mean something to them.
    """

    name: str
    saved_as: str | None = None  # what `config.json` of a saved model says under `kind`; None: the name
    unit: str = "epoch"  # of progress, as in `TrainedModel`
    length: str | None = None  # the setting that limits the number of units; None: there is none
    usual_length: int = 100  # of the longest trials of a search, where it is not given
    rate: str | None = None  # the setting that is the learning rate
    settings: Sequence[str] | None = None  # names of all settings; None: any, which `check` judges
    shares_settings: bool = False  # whether a recipe's settings for all rankers are meant for it
    elsewhere: Mapping[str, str] = MappingProxyType({})  # settings that an experiment decides -> where that is written
    words: Mapping[str, str] = MappingProxyType({})  # options of the command line -> the setting's name here
    defaults: Mapping[str, Any] = MappingProxyType({})  # settings that need no mention where they have this value

    @property
    def models(self) -> Sequence[str]:
        """Names that a model's text may begin with."""
        return (self.name,)

    def listing(self) -> list[Listing]:
        """Lines for `rankgrad list models`."""
        about = (type(self).__doc__ or "").strip().partition("\n")[0].rstrip(".")
        return [Listing(name, about, "") for name in self.models]

    @abstractmethod
    def check(self, settings: Mapping[str, Any]) -> None:
        """Raise one error that names everything wrong with the settings; needs no data.

        Args:
            settings: of a run, with its `model`.
        """

    @abstractmethod
    def fit(
        self,
        settings: Mapping[str, Any],
        train: Dataset,
        validation: Dataset | None = None,
        *,
        out: str | PathLike[str] | None = None,
        resume: bool = False,
        progress: bool | None = None,
        init_model: TrainedModel | None = None,
    ) -> TrainedModel:
        """Train a ranker.

        Args:
            settings: checked ones.
            train: the training lists.
            validation: lists that choose how much of the training is kept.
            out: a folder for the model and its checkpoints, where the kind has some; None keeps all in memory.
            resume: resume from the checkpoint in `out`, if there is one.
            progress: show a progress bar; None: on a terminal.
            init_model: a trained model to start from.
        """

    @abstractmethod
    def load(self, folder: Path, device: str = "cpu") -> TrainedModel:
        """Read a saved model; nothing in the folder is run, imported or unpickled.

        Args:
            folder: that `TrainedModel.save` wrote.
            device: where it is to compute, for kinds that have a choice.
        """

    def read(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        """Turn what the command line was given into settings; and a sentence about what was added, or nothing.

        Args:
            given: the options that were given, by the names of the command line, as numbers and text. A `device` is
                left out here: most kinds have no choice of one.
        """
        return {self.words.get(name, name): value for name, value in given.items() if name != "device"}, ""

    def describe(self, settings: Mapping[str, Any]) -> str:
        """Say in a few words what is trained.

        Args:
            settings: of the run.
        """
        told = {**self.defaults, **settings}
        loss = f" with {told['loss']}" if "loss" in told else ""
        return f"{told.get('model', self.name)}{loss}, seed {told.get('seed', 0)}"

    def space(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """What `rankgrad tune` draws by default: choices or a range `{low, high, log}` per setting.

        Args:
            settings: those that are given; an option of the model is named `model.option`.
        """
        return {}

    def drawn(self, settings: Mapping[str, Any], draw: Mapping[str, Any]) -> dict[str, Any]:
        """Put drawn values into settings.

        Args:
            settings: to start from.
            draw: values by the names of `space`.
        """
        return {**settings, **draw}

    def on_device(self, settings: Mapping[str, Any], device: str) -> dict[str, Any]:
        """Put the device to train on into settings, for kinds that have a choice.

        Args:
            settings: to start from.
            device: `"cpu"` or `"cuda"`.
        """
        return dict(settings)

    def for_length(self, units: int) -> dict[str, Any]:
        """Settings that train for a given number of epochs or trees, without validation lists.

        Args:
            units: how many.
        """
        return {}

    def has_run(self, folder: Path) -> bool:
        """Whether a folder holds a run of this kind, begun or done.

        Args:
            folder: maybe of a run.
        """
        return (folder / CONFIG).exists()

    def resumes(self, folder: Path) -> bool:
        """Whether a folder holds a checkpoint to resume from.

        Args:
            folder: maybe of a run.
        """
        return False

    def versions(self, settings: Mapping[str, Any]) -> dict[str, str]:
        """Versions of packages, besides the common ones, that decide what the training comes to.

        Args:
            settings: of the run.
        """
        return {}
