"""Base classes of all rankers: a `TrainedModel` scores lists, a `RankerKind` trains one.

The command line and experiments use rankers only through these two classes. `rankgrad.models.registry` finds the kind
of a model's text, and the loader of a saved folder.
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

EXPORT_TOLERANCE = 1e-5  # largest allowed difference between scores of an exported file and of its model


@dataclass(frozen=True)
class Exported:
    """A file that `TrainedModel.export` wrote, and the check that it passed."""

    path: Path  # path of the file
    format: str  # format of the file, such as `onnx`
    engine: str  # program that ran the check
    shapes: tuple[tuple[int, int], ...]  # numbers of lists and documents of the check
    difference: float  # largest difference from the model's scores


class TrainedModel(ABC):
    """A trained ranker: scores lists, is evaluated, saved, loaded and exported.

    A subclass sets `features` and defines `score` and `save`; its `RankerKind` loads it.
    """

    unit: ClassVar[str] = (
        "epoch"  # unit of training progress; also the key of the epoch's or tree's number in a history row
    )

    features: int  # number of features
    settings: dict[str, Any]  # settings of its training, as JSON values
    metrics: dict[
        str, Any
    ]  # {unit: number of epochs or trees that were kept, "validation": {metric: value}, "loss": {name: value}}
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
            folder: path to write; created if it does not exist.
        """

    def evaluate(self, data: Dataset, metrics: Iterable[Any] | str) -> Evaluation:
        """Compute metrics on labelled lists, with intervals and the value of each list.

        Args:
            data: the lists.
            metrics: as text or objects.
        """
        return evaluate(self.score(data.features, data.offsets), np.asarray(data.labels), metrics, offsets=data.offsets)

    def export(self, path: str | PathLike[str], *, format: str | None = None) -> Exported:
        """Write the model as one file that other programs run.

        Args:
            path: path of the file.
            format: format of the file; None: by the file extension.
        """
        bad_value("model", "be of a kind that can be exported", type(self).__name__)

    def feature_importance(
        self, data: Dataset | None = None, metric: Any = "nDCG@10", *, repeats: int = 3, seed: int = 0
    ) -> NDArray[np.float64]:
        """Compute the drop of a metric when one feature is shuffled over the documents, `(features,)`.

        Args:
            data: labelled lists to measure on; not those that the model was trained on.
            metric: as text or object; if lower is better, the rise is returned.
            repeats: shuffles per feature; their mean is returned.
            seed: random seed of the shuffles.
        """
        if data is None:
            bad_value("data", "be given, to measure the effect of shuffled features", None)
        from rankgrad.models.feature_importance import permutation_importance

        return permutation_importance(self, data, metric, repeats=repeats, seed=seed)

    def validated(self, validation: Dataset, metric: str) -> dict[str, float]:
        """Return the metric on the validation lists, by its name: as recorded in training, otherwise measured.

        Args:
            validation: the validation lists of the training.
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
        """Number of epochs or trees of the training that were kept; 0 if unknown."""
        return int(self.metrics.get(self.unit, 0))

    @property
    def size(self) -> int:
        """Number of learned parameters; 0 if unknown."""
        return 0


class NotFinite(ArithmeticError):
    """Training with a loss or scores that are NaN or infinite; the message names the last good checkpoint."""


class Listing(NamedTuple):
    """A line of `rankgrad list models`."""

    name: str
    about: str
    options: str


class RankerKind(ABC):
    """A kind of ranker: its settings and their checks, its search space, its training and its loader.

    Settings are one flat mapping of JSON values, in which `model` is the text `name[:key=value,...]`. All kinds have
    `loss`, `metric` and `seed`, if these apply.
    """

    name: str
    saved_as: str | None = None  # value of `kind` in `config.json` of a saved model; None: the name
    unit: str = "epoch"  # unit of progress, as in `TrainedModel`
    length: str | None = None  # the setting that limits the number of units; None: there is none
    usual_length: int = 100  # length of the longest trials of a search, if not given
    rate: str | None = None  # the setting that is the learning rate
    settings: Sequence[str] | None = None  # names of all settings; None: any, which `check` validates
    shares_settings: bool = False  # True if a recipe's settings for all rankers also apply to this kind
    elsewhere: Mapping[str, str] = MappingProxyType({})  # settings that an experiment sets -> the recipe's entry for it
    words: Mapping[str, str] = MappingProxyType({})  # option of the command line -> name of the setting
    defaults: Mapping[str, Any] = MappingProxyType({})  # default values of settings

    @property
    def models(self) -> Sequence[str]:
        """Names with which a model's text may begin."""
        return (self.name,)

    def listing(self) -> list[Listing]:
        """Return the lines of `rankgrad list models`."""
        about = (type(self).__doc__ or "").strip().partition("\n")[0].rstrip(".")
        return [Listing(name, about, "") for name in self.models]

    @abstractmethod
    def check(self, settings: Mapping[str, Any]) -> None:
        """Raise one error with all problems of the settings; needs no data.

        Args:
            settings: settings of a run, with its `model`.
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
            settings: checked settings.
            train: the training lists.
            validation: lists that select the number of epochs or trees that are kept.
            out: folder for the model, and for checkpoints if the kind has them; None: nothing is written.
            resume: resume from the checkpoint in `out`, if there is one.
            progress: show a progress bar; None: on a terminal.
            init_model: a trained model to start from.
        """

    @abstractmethod
    def load(self, folder: Path, device: str = "cpu") -> TrainedModel:
        """Read a saved model; nothing in the folder is run, imported or unpickled.

        Args:
            folder: folder that `TrainedModel.save` wrote.
            device: device to compute on, for kinds that have a choice.
        """

    def read(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        """Convert options of the command line to settings; also return a note about added settings, or an empty text.

        Args:
            given: the given options, by their names on the command line, as numbers and text. `device` is dropped here,
                because most kinds have no choice of device.
        """
        return {self.words.get(name, name): value for name, value in given.items() if name != "device"}, ""

    def describe(self, settings: Mapping[str, Any]) -> str:
        """Describe the training in a few words.

        Args:
            settings: settings of the run.
        """
        known = {**self.defaults, **settings}
        loss = f" with {known['loss']}" if "loss" in known else ""
        return f"{known.get('model', self.name)}{loss}, seed {known.get('seed', 0)}"

    def space(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the default search space of `rankgrad tune`: choices or a range `{low, high, log}` per setting.

        Args:
            settings: the given ones; an option of the model is named `model.option`.
        """
        return {}

    def drawn(self, settings: Mapping[str, Any], draw: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings with drawn values.

        Args:
            settings: settings to start from.
            draw: values by the names of `space`.
        """
        return {**settings, **draw}

    def on_device(self, settings: Mapping[str, Any], device: str) -> dict[str, Any]:
        """Return the settings with the device to train on, for kinds that have a choice.

        Args:
            settings: settings to start from.
            device: `"cpu"` or `"cuda"`.
        """
        return dict(settings)

    def for_length(self, units: int) -> dict[str, Any]:
        """Return settings that train for a given number of epochs or trees, without validation lists.

        Args:
            units: number of epochs or trees.
        """
        return {}

    def has_run(self, folder: Path) -> bool:
        """Return True if the folder holds a run of this kind, begun or finished.

        Args:
            folder: any folder.
        """
        return (folder / CONFIG).exists()

    def resumes(self, folder: Path) -> bool:
        """Return True if the folder holds a checkpoint to resume from.

        Args:
            folder: any folder.
        """
        return False

    def versions(self, settings: Mapping[str, Any]) -> dict[str, str]:
        """Return versions of packages that determine the result of the training, in addition to the common ones.

        Args:
            settings: settings of the run.
        """
        return {}
