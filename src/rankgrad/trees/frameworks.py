"""Describe a framework of boosted trees: its properties (`TreeFramework`), and its training in segments (`Growth`).

Each segment has a separate booster that starts from the current scores, even if the run is not interrupted. So a
resumed run grows the same trees as an uninterrupted run. Within a segment, the booster keeps its random state. At the
end, the trees of all segments are joined into one model.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from rankgrad.data import Dataset
from rankgrad.tree_frameworks import FRAMEWORKS

if TYPE_CHECKING:
    from rankgrad.trees.engine_scores import Branch
    from rankgrad.trees.foreign_models import ForeignModel
    from rankgrad.trees.model import TreeModel
    from rankgrad.trees.objective import TreeObjective
    from rankgrad.trees.tree_arrays import CategoryReader, Forest

Weights = NDArray[np.float32] | None
_PLAIN_NAME = re.compile(r"[\w.+-]+")  # the frameworks change or reject other characters
# A function that returns gradient and Hessian. Its arguments are the scores of all documents and the framework's data
# object.
Derivatives = Callable[[Any, Any], Any]


class BoostingTask(NamedTuple):
    """The data and settings with which a framework grows trees."""

    data: Dataset
    validation: Dataset | None  # validation lists
    weights: Weights
    native: str | None  # objective of the framework, or None if `derivatives` is not None
    derivatives: Derivatives | None
    params: dict[str, Any]  # parameters of the framework, by the framework's names
    seed: int
    threads: int


class GrownTrees(NamedTuple):
    """The trees of earlier segments, and the scores of these trees. A segment starts from these scores."""

    parts: tuple[bytes, ...]  # one model per segment, in the format of the framework
    # Scores of the training lists ("train") and of the validation lists ("held"); empty if there are no trees.
    scores: dict[str, NDArray[Any]]


class ParameterNames(NamedTuple):
    """The names of the parameters of a framework."""

    known: set[str]  # all names, including aliases
    settings: Mapping[str, str]  # parameter that `TreeRanker` sets -> setting of `TreeRanker`
    mains: Mapping[str, str]  # alias -> main name of the parameter


class Growth(Protocol):
    """Base class of the training with a framework: it grows trees, one by one, in segments."""

    lists: Any  # the training lists, as an object of the framework
    validation: Any  # the validation lists, or None
    task: BoostingTask
    live: Any  # the booster of the current segment
    grown: GrownTrees  # trees of earlier segments

    def __init__(self, task: BoostingTask) -> None: ...

    def begin(self, grown: GrownTrees, segment: int) -> None:
        """Make the booster of a segment, which starts from the current scores.

        Args:
            grown: trees of earlier segments, and the scores of these trees.
            segment: number of the segment, from 0. The random seed depends on this number.
        """
        self.grown = grown
        for name, scores in grown.scores.items():
            self._start_from(self.lists if name == "train" else self.validation, scores)
        self._make(segment)

    def start(self, init_model: "TreeModel | None") -> GrownTrees:
        """Return the trees and scores from which a new run of a framework starts.

        Args:
            init_model: model to which trees are added, or None.
        """
        if init_model is None:
            return GrownTrees((), {})
        parts = {"train": self.task.data, "held": self.task.validation}
        scores = {name: self._raw(init_model.booster, part) for name, part in parts.items() if part is not None}
        return GrownTrees((init_model.content(),), scores)

    def _start_from(self, lists: Any, scores: NDArray[Any]) -> None:
        """Set the scores from which the next booster starts."""

    def _make(self, segment: int) -> None:
        """Make the booster of a segment."""

    def _raw(self, booster: Any, data: Dataset) -> NDArray[Any]:
        """Return the raw scores that the framework computes with a model, `(documents,)`."""

    def grow(self, number: int) -> bool:
        """Add a tree to the booster. Return False if no leaf can be split.

        Args:
            number: number of the tree in the run, from 0.
        """

    def scores(self) -> NDArray[Any]:
        """Return the scores of the trees so far for the validation lists, `(documents,)`."""

    def end(self) -> GrownTrees:
        """Return all trees so far, including this segment."""

    def booster(self, grown: GrownTrees, rounds: int) -> Any:
        """Return the framework's model, truncated to `rounds` trees.

        Args:
            grown: all trees.
            rounds: number of trees, including the trees of `init_model`.
        """


class TreeFramework(Protocol):
    """Base class of the frameworks: everything that differs between them. Its methods import the package."""

    name: ClassVar[str]  # name of the framework and of its package
    signature: ClassVar[bytes]  # regular expression for the begin of a model file
    from_text: ClassVar[bool] = False  # True if the content of such a file is accepted as a text, in place of a path
    growth: ClassVar[type[Growth]]
    objective: ClassVar["type[TreeObjective]"]
    dtype: ClassVar[torch.dtype]  # of the scores from which a segment starts
    native: ClassVar[Mapping[str, bool]]  # objectives of the framework for ranking; True if they use the gain 2^y - 1
    # Parameters that only objectives of the framework use.
    of_objectives: ClassVar[tuple[str, ...]]
    # With some values of these parameters, a tree depends on earlier trees or on the number of earlier trees. With the
    # values in this table, a tree depends only on the current scores.
    past: ClassVar[Mapping[str, tuple[Any, ...]]]
    sparse_missing: ClassVar[bool] = False  # True if an entry that a sparse matrix does not store is a missing value
    stores_missing: ClassVar[bool] = False  # True if a file tells how each split treats missing values
    # What `rankgrad tune` and the command line need.
    rate: ClassVar[str]  # parameter that is the learning rate
    space: ClassVar[Mapping[str, Any]]  # search space
    # Parameter that is sampled -> a parameter without which it has no effect, and its value.
    needs: ClassVar[Mapping[str, tuple[str, Any]]] = MappingProxyType({})
    device: ClassVar[str]  # parameter and value for a GPU
    bytes_per_value: ClassVar[int]  # memory in training, per value of a feature

    def parameters(self) -> ParameterNames:
        """Return the names of all parameters of the framework."""

    def aliases(self, name: str) -> set[str]:
        """Return the name and all aliases of a parameter.

        Args:
            name: name of the parameter.
        """

    def booster_of(self, source: Any) -> Any:
        """Return the booster of a booster or a fitted estimator of the framework; None for every other object.

        Args:
            source: any object.
        """

    def content(self, booster: Any) -> bytes:
        """Return the content of the model file of a booster.

        Args:
            booster: booster of the framework.
        """

    def check(self, content: bytes, features: int) -> bytes:
        """Check the content of a model file. Return content that the package can load safely.

        Args:
            content: content of the file.
            features: number of features that the model must have.
        """

    def load(self, content: bytes) -> Any:
        """Return the booster in the content of a model file.

        Args:
            content: content that `check` returned.
        """

    def read_foreign(
        self, source: Any, name: str, content: bytes, names: Sequence[str] | None, categorical: Sequence[Any] | None
    ) -> "ForeignModel":
        """Check and read a model that was trained without rankgrad; see `foreign_models.read_foreign`.

        Args:
            source: booster, fitted estimator, path or text.
            name: name of the source, for messages.
            content: content of the model file.
            names: names of the features; None for the names in the model.
            categorical: names or positions of the columns that were categorical in the data frame of the training.
        """

    def read_trees(self, content: bytes, reader: "CategoryReader") -> "Forest":
        """Return the trees of a model file as arrays.

        Args:
            content: content of the file.
            reader: collects the categorical splits.
        """

    def dump(self, forest: "Forest", names: Sequence[str]) -> Any:
        """Return trees in a JSON format of the framework that Vespa reads.

        Args:
            forest: trees of a model.
            names: names of the features.
        """

    def read_dump(self, trees: Any, places: dict[str, int]) -> "list[Branch | float]":
        """Return the trees that `dump` wrote, for the check of a file.

        Args:
            trees: what `dump` returned.
            places: column of each feature, by name.
        """

    def features(self, booster: Any) -> int:
        """Return the number of features of a booster."""

    def feature_names(self, booster: Any) -> list[str] | None:
        """Return the names of the features in a booster."""

    def leaves(self, booster: Any) -> int:
        """Return the number of leaves in all trees of a booster."""

    def rounds(self, booster: Any) -> int:
        """Return the number of trees of a booster, or of its rounds if a round grows several trees."""

    def scores(self, booster: Any, rows: Any) -> NDArray[Any]:
        """Return raw scores `(documents,)` of features `(documents, f)`, dense if `sparse_missing` is True."""

    def importance(self, booster: Any, method: str) -> NDArray[np.float64]:
        """Return the total gain (`"gain"`) or the number of splits (`"split"`) of each feature, `(features,)`."""

    def shap_values(self, booster: Any, rows: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the TreeSHAP values of documents, `(documents, f + 1)`; the last column is the mean score."""

    def rescales(self, content: bytes, params: Mapping[str, Any]) -> bool:
        """Return True if trees cannot be added, because a model or a run weights its trees (random forest, DART).

        Args:
            content: content of the file of the model to which trees are added.
            params: parameters with which they are grown.
        """


@cache
def framework_named(name: str) -> TreeFramework:
    """Return a framework by its name.

    Args:
        name: a name in `rankgrad.tree_frameworks.FRAMEWORKS`.
    """
    module, _, attribute = FRAMEWORKS[name][0].partition(":")
    made: TreeFramework = getattr(import_module(module), attribute)()
    return made


def import_framework(name: str) -> Any:
    """Import the package of a framework. If the package is missing, the error shows how to install it.

    Args:
        name: name of the framework.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f"trees need {name}: pip install 'rankgrad[trees]' (got the error {error})") from error


def is_booster(source: Any, package: str) -> bool:
    """Return True if an object has the class `Booster` of a package.

    Args:
        source: any object.
        package: name of the package.
    """
    return type(source).__module__.partition(".")[0] == package and type(source).__name__ == "Booster"


def names_for_files(names: Sequence[str] | None) -> list[str] | None:
    """Return the names of the features as a list if model files of all frameworks can contain them, otherwise None.

    Args:
        names: names of the features, or None.
    """
    if names is None or len({*names}) < len(names) or not all(map(_PLAIN_NAME.fullmatch, names)):
        return None
    return [*names]


def nonempty_lengths(data: Dataset) -> NDArray[np.int64]:
    """Return the lengths of the lists for the frameworks, which do not accept empty lists.

    Args:
        data: lists.
    """
    return data.lengths[data.lengths > 0]
