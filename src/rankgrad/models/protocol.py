"""Base classes of all rankers: a `TrainedModel` scores lists, and a `RankerKind` trains such a model.

The command line and experiments use rankers only through these two classes. `rankgrad.models.registry` finds the
`RankerKind` for a spec, or for the folder of a saved model.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrad.data import Dataset
from rankgrad.data.categories import recode
from rankgrad.data.dataset import Categories
from rankgrad.data.evaluation import evaluate_lists
from rankgrad.data.tables.errors import warn_empty
from rankgrad.errors import bad_value
from rankgrad.metrics.evaluate import Evaluation
from rankgrad.models.folder import CONFIG
from rankgrad.run import Callback
from rankgrad.run.checkpoint import LAST

if TYPE_CHECKING:
    from rankgrad.models.calibration import Calibration
    from rankgrad.models.explanation import ListExplanation
    from rankgrad.models.feature_importance import FeatureImportance
    from rankgrad.models.reliability import Reliability

EXPORT_TOLERANCE = 1e-5  # maximum difference between the scores of an exported file and of its model


@dataclass(frozen=True)
class Exported:
    """Result of `TrainedModel.export`: the written file, and the result of its check."""

    path: Path  # path of the file
    format: str  # format of the file, such as `onnx`
    engine: str  # program that computed the scores of the check
    shapes: tuple[tuple[int, int], ...]  # shapes of the inputs in the check, (lists, documents) each
    difference: float  # largest difference between a score of the file and of the model
    calibration: float | None = None  # the same for calibrated values; None if the file has no calibrated values


class Contributions(NamedTuple):
    """Parts of the difference between the scores of two documents of a list; their sum is the difference."""

    values: NDArray[np.float64]  # part of each feature of the two documents, `(features,)`
    others: dict[str, float]  # parts that do not belong to a feature of the two documents, by name
    method: str  # name of the method
    error: float = 0.0  # upper bound for the total absolute error of `values` and `others`


class TrainedModel(ABC):
    """A trained ranker, which scores lists and can be evaluated, saved and exported.

    A subclass sets `features` and defines `score` and `save`. The `RankerKind` of the subclass loads saved models.
    """

    unit: ClassVar[str] = "epoch"  # unit of training progress, "epoch" or "tree"; also a key of `metrics` and `history`
    importance_methods: ClassVar[tuple[str, ...]] = ()  # methods of `feature_importance` in addition to "permutation"

    features: int  # number of features
    feature_names: tuple[str, ...] | None = None  # names of the features; None if the training data has no names
    calibration: "Calibration | None" = None  # functions from scores to probabilities; None before `calibrate`
    categories: Categories | None = None  # categories of each categorical feature of the training data, by column
    settings: dict[str, Any]  # settings of the training, as JSON values
    # `metrics` is {unit: number of kept epochs or trees, "validation": {metric: value}, "loss": {parameter: value}}.
    metrics: dict[str, Any]  # metrics of the training
    history: list[dict[str, Any]]  # log of the training: one row per epoch or tree

    @abstractmethod
    def score(self, features: Any, offsets: Any = None) -> NDArray[np.float32]:
        """Return one score of the model per document, `(documents,)`; the document with the highest score ranks first.

        Args:
            features: features of the documents, `(documents, f)`.
            offsets: offsets of the lists, `(lists + 1,)`; None if all documents are one list.
        """

    def score_lists(self, data: Dataset) -> NDArray[np.float32]:
        """Return one score per document of a data set, `(documents,)`. A text ranker also reads the texts of the data.

        Args:
            data: lists. Their features may be in any order if both the data and the model have names of features.
        """
        data = recode(data.select_features(self.feature_names), self.categories)
        warn_empty(data.features, data.feature_names or self.feature_names, data.categories)
        return self.score(data.features, data.offsets)

    @property
    def takes_missing(self) -> bool:
        """True if the features for this model may be NaN, for missing values."""
        return False

    @abstractmethod
    def save(self, folder: str | PathLike[str]) -> None:
        """Write a folder that `rankgrad.models.load` can read; the folder must not contain code that `load` would run.

        Args:
            folder: folder to write; it is created if it does not exist.
        """

    def evaluate(self, data: Dataset, metrics: Iterable[Any] | str) -> Evaluation:
        """Return metrics of the model on labelled lists, with confidence intervals and the value of each list.

        For text data sets, the metrics are those of trec_eval with all qrels: see
        `rankgrad.data.evaluation.evaluate_lists`.

        Args:
            data: labelled lists. Their features may be in any order if both the data and the model have names of
                features.
            metrics: specs or objects of the metrics.
        """
        return evaluate_lists(self.score_lists(data), data, metrics)

    def export(self, path: str | PathLike[str], *, format: str | None = None) -> Exported:
        """Write the model as one file that other programs can run. Before, check the scores that the file computes.

        Args:
            path: path of the file.
            format: format of the file; None to choose it by the file extension.
        """
        bad_value("model", "be of a kind that can be exported", type(self).__name__)

    def calibrate(
        self, data: Dataset, *, method: str = "platt", target: str = "binary", threshold: float = 0.0
    ) -> "Calibration":
        """Fit functions from scores of the model to probabilities, and store the functions in `calibration`.

        The scores of the model do not change.

        Args:
            data: labelled lists on which the model was not trained.
            method: `"platt"` (logistic) or `"isotonic"`.
            target: `"binary"`: the probability that the label is above `threshold`. `"grade"`: the probability of each
                grade, and the expected grade.
            threshold: threshold of the label, for `"binary"`.
        """
        from rankgrad.models.calibration import fit_calibration

        options: dict[str, Any] = {"method": method, "target": target, "threshold": threshold}
        self.calibration = fit_calibration(self.score_lists(data), data, **options)
        return self.calibration

    def calibrated(self, data: Dataset) -> NDArray[np.float64]:
        """Return one calibrated value per document of a data set, `(documents,)`: probability or expected grade.

        Args:
            data: lists.
        """
        from rankgrad.models.calibration import calibration_of

        return calibration_of(self).values(self.score_lists(data))

    def reliability(self, data: Dataset, bins: int = 15) -> "list[Reliability]":
        """Compare probabilities with labels: compute the ECE with an interval, the Brier score, and bins for a plot.

        There is one result per event, such as `label > 0`. The probabilities of a model without calibration are the
        sigmoids of its scores.

        Args:
            data: labelled lists on which the model was neither trained nor calibrated.
            bins: maximum number of bins.
        """
        from rankgrad.models.calibration import measure_calibration

        return measure_calibration(self.calibration, self.score_lists(data), data, bins)

    def feature_importance(
        self,
        data: Dataset | None = None,
        metric: Any = "nDCG@10",
        *,
        method: str = "permutation",
        repeats: int = 5,
        seed: int = 0,
        within_lists: bool = False,
    ) -> "FeatureImportance":
        """Measure how much the model depends on each feature; see `rankgrad.models.feature_importance`.

        Args:
            data: labelled lists on which the model was not trained; not needed for `"gain"` and `"split"`.
            metric: spec or object of the metric, for `"permutation"`.
            method: `"permutation"`: how much worse the metric is if the values of a feature are shuffled. Trees also
                have `"gain"` and `"split"`, and neural rankers also have `"gradient"`.
            repeats: number of shuffles per feature.
            seed: random seed of the shuffles.
            within_lists: True to shuffle a feature within each list; False to shuffle it over all documents.
        """
        from rankgrad.models.feature_importance import measure_importance

        shuffles: dict[str, Any] = {"repeats": repeats, "seed": seed, "within_lists": within_lists}
        return measure_importance(self, data, metric, method, **shuffles)

    def own_importance(self, method: str, data: Dataset | None) -> NDArray[np.float64]:
        """Return the importance of each feature, `(rows, features)`, by one of the `importance_methods`.

        The result has one row for the model, or one row per list of the data.

        Args:
            method: a method that this kind of model defines.
            data: lists, for methods that need lists.
        """
        bad_value("method", f"be 'permutation' for {type(self).__name__}", repr(method))

    def explain(
        self,
        data: Dataset,
        query: Any,
        documents: Sequence[Any] | None = None,
        *,
        metric: Any = "nDCG@10",
    ) -> "ListExplanation":
        """Explain the scores of two documents of one list, feature by feature; see `rankgrad.models.explanation`.

        Args:
            data: labelled lists.
            query: query id of the list.
            documents: ids of two documents, or their positions in the list, from 1; None for the documents with ranks 1
                and 2.
            metric: spec or object of the metric. The explanation also has the change of the metric without a feature.
        """
        from rankgrad.models.explanation import explain_list

        return explain_list(self, data, query, documents, metric)

    def contributions(self, features: NDArray[np.float32], first: int, second: int) -> Contributions:
        """Return the contribution of each feature to the difference between the scores of two documents.

        Args:
            features: features of all documents of one list, `(n, f)`.
            first, second: positions of the two documents in the list, from 0. The difference is the score of the first
                document minus the score of the second.
        """
        bad_value("model", "be of a kind that can compute contributions", type(self).__name__)

    def validated(self, validation: Dataset, metric: str) -> dict[str, float]:
        """Return `{metric: value}` on the validation lists; compute the value if the training did not record it.

        Args:
            validation: validation lists of the training.
            metric: spec of the metric.
        """
        known = self.metrics.get("validation", {})
        if metric in known:
            return {metric: float(known[metric])}
        found = evaluate_lists(self.score_lists(validation), validation, [metric], bootstrap=0)
        return {metric: next(iter(found.means.values()))}

    @property
    def kept(self) -> int:
        """Number of trained epochs or trees that the model keeps; 0 if unknown."""
        return int(self.metrics.get(self.unit, 0))

    @property
    def size(self) -> int:
        """Number of learned parameters of the model; 0 if unknown."""
        return 0


class Listing(NamedTuple):
    """A line of `rankgrad list models`."""

    name: str
    about: str
    options: str


class RankerKind(ABC):
    """A kind of ranker: its settings and their checks, its search space, its training and its loader.

    Settings are one flat mapping from name to JSON value. The setting `model` is a spec, `name[:key=value,...]`. The
    settings `loss`, `metric` and `seed` have the same meaning for all kinds that have them.
    """

    name: str
    saved_as: str | None = None  # `kind` in the `config.json` of a saved model; None: the name of the kind
    unit: str = "epoch"  # unit of progress, as in `TrainedModel`
    length: str | None = None  # setting that limits the number of epochs or trees, if there is one
    usual_length: int = 100  # default length of the longest trials of a search
    rate: str | None = None  # setting that is the learning rate, if there is one
    settings: Sequence[str] | None = None  # names of all settings; None if only `check` knows the names
    takes_missing: bool = False  # True if features may be NaN without a setting for missing values
    shares_settings: bool = False  # True if the settings of a recipe for all rankers also apply to this kind
    # Settings that an experiment sets: name -> entry of the recipe, or option, that gives the value.
    elsewhere: Mapping[str, str] = MappingProxyType({})
    words: Mapping[str, str] = MappingProxyType({})  # option of the command line -> setting with a different name
    defaults: Mapping[str, Any] = MappingProxyType({})  # default values of settings
    run_files: tuple[str, ...] = (CONFIG,)  # each of these files or folders shows that a folder contains a run

    @property
    def models(self) -> Sequence[str]:
        """Names of the models of this kind; a spec begins with one of these names."""
        return (self.name,)

    def listing(self) -> list[Listing]:
        """Return the lines of `rankgrad list models`."""
        about = (type(self).__doc__ or "").strip().partition("\n")[0].rstrip(".")
        return [Listing(name, about, "") for name in self.models]

    @abstractmethod
    def check(self, settings: Mapping[str, Any]) -> None:
        """Raise one error that names all problems of the settings of a ranker; this check needs no data.

        Args:
            settings: settings of a run, including `model`.
        """

    def checked(self, settings: Mapping[str, Any]) -> Any:
        """Check the settings of a ranker, and return what `fit` takes: the settings, or an object of the kind.

        Args:
            settings: settings of a run, including `model`.
        """
        self.check(settings)
        return settings

    def check_installed(self) -> None:
        """Raise an `ImportError` that shows how to install a missing package of this kind."""
        return

    def training_data(self, data: str, begun: str | None = None) -> str:
        """Return the name of the data on which a command trains the ranker, such as `data` with another option.

        Args:
            data: name of a data set, as in `rankgrad.data.load`.
            begun: result of this method for a run that is resumed; None for a new run.
        """
        return data

    def reads_missing(self, settings: Mapping[str, Any]) -> bool:
        """Return True if a ranker with these settings is trained on NaN without a setting for missing values.

        Args:
            settings: settings of a run, not yet checked.
        """
        return self.takes_missing

    @abstractmethod
    def fit(
        self,
        settings: Any,
        train: Dataset,
        validation: Dataset | None = None,
        *,
        out: str | PathLike[str] | None = None,
        resume: bool = False,
        progress: bool | None = None,
        init_model: TrainedModel | None = None,
        callbacks: Iterable[Callback] = (),
    ) -> TrainedModel:
        """Train a ranker.

        Args:
            settings: settings by name that `check` accepts, or the result of `checked`; the built-in kinds also take an
                object with their settings.
            train: training lists.
            validation: validation lists, by which the best number of epochs or trees is chosen.
            out: folder for the model, and for checkpoints if the kind has them; None to write nothing.
            resume: True to resume from the checkpoint in `out`, if there is one.
            progress: True to show a bar on a terminal, and otherwise one line per epoch; None to show only the bar;
                False to show nothing.
            init_model: trained model to start from.
            callbacks: functions that are called with the log row of each epoch or tree; a true return value ends the
                training.
        """

    @abstractmethod
    def load(self, folder: Path, device: str = "cpu") -> TrainedModel:
        """Return a saved model. Nothing in the folder is run, imported or unpickled.

        Args:
            folder: folder that `TrainedModel.save` wrote.
            device: device to compute on, for kinds that have a choice of device.
        """

    def read(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        """Convert options of the command line to settings; also return a note about settings that were added.

        The note is empty if no settings were added. The option `device` becomes a setting only if `defaults` has it,
        because most kinds have no choice of device.

        Args:
            given: options of the command line and their values (numbers or text), by name.
        """
        taken = {name: value for name, value in given.items() if name != "device" or name in self.defaults}
        return {self.words.get(name, name): value for name, value in taken.items()}, ""

    def describe(self, settings: Mapping[str, Any]) -> str:
        """Return a short description of the training of a ranker.

        Args:
            settings: settings of the run.
        """
        known = {**self.defaults, **settings}
        loss = f" with {known['loss']}" if "loss" in known else ""
        return f"{known.get('model', self.name)}{loss}, seed {known.get('seed', 0)}"

    def space(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the default search space of `rankgrad tune`: choices or a range `{low, high, log}` per setting.

        The key of an option of the model is `model.option`.

        Args:
            settings: settings with fixed values, which are not searched.
        """
        return {}

    def drawn(self, settings: Mapping[str, Any], draw: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings with random values that a search has sampled from `space`.

        Args:
            settings: settings to start from.
            draw: sampled values; the keys are the keys of `space`.
        """
        return {**settings, **draw}

    def on_device(self, settings: Mapping[str, Any], device: str) -> dict[str, Any]:
        """Return the settings of a ranker with the device of the training, for kinds that have a choice of device.

        Args:
            settings: settings to start from.
            device: `"cpu"` or `"cuda"`.
        """
        return {**settings, "device": device} if "device" in self.defaults else dict(settings)

    def for_length(self, units: int) -> dict[str, Any]:
        """Return settings of a ranker for a training with a fixed number of epochs or trees, without validation lists.

        Args:
            units: number of epochs or trees.
        """
        return {self.length: units, "patience": None} if self.length and "patience" in self.defaults else {}

    def memory(self, settings: Mapping[str, Any], documents: int, features: int, longest: int) -> int:
        """Return an estimate of the memory of a training, in bytes. It does not include the training lists themselves.

        Args:
            settings: settings of the run.
            documents: number of documents of the training lists.
            features: number of features.
            longest: number of documents of the longest list.
        """
        return 8 * documents * features

    def has_run(self, folder: Path) -> bool:
        """Return True if the folder contains a run of this kind, finished or not.

        Args:
            folder: folder to check.
        """
        return any((folder / name).exists() for name in self.run_files)

    def resumes(self, folder: Path) -> bool:
        """Return True if the folder contains a checkpoint of this kind of ranker, to resume from.

        Args:
            folder: folder to check.
        """
        return (folder / LAST).is_file()

    def versions(self, settings: Mapping[str, Any]) -> dict[str, str]:
        """Return the versions of the packages that this kind uses, for example of its framework, to store in results.

        Args:
            settings: settings of the run.
        """
        return {}
