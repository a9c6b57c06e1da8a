"""Grow trees with LightGBM and XGBoost, one by one, in segments. A resumed run has the same segments.

Each segment has a separate booster that starts from the current scores, even if the run is not interrupted. So a
resumed run grows the same trees as an uninterrupted run. Within a segment, the booster keeps its random state. At the
end, the trees of all segments are joined into one model.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrad.data import Dataset
from rankgrad.trees.joined_models import join_lightgbm, join_xgboost
from rankgrad.trees.parameters import aliases, seed_of, seeded

if TYPE_CHECKING:
    from rankgrad.trees.model import TreeModel

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


class Framework(ABC):
    """Base class of the boosting frameworks, LightGBM and XGBoost."""

    lists: Any  # the training lists, as an object of the framework
    validation: Any  # the validation lists, or None
    task: BoostingTask
    live: Any  # the booster of the current segment
    grown: GrownTrees  # trees of earlier segments

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

    @abstractmethod
    def _start_from(self, lists: Any, scores: NDArray[Any]) -> None:
        """Set the scores from which the next booster starts."""

    @abstractmethod
    def _make(self, segment: int) -> None:
        """Make the booster of a segment."""

    @abstractmethod
    def _raw(self, booster: Any, data: Dataset) -> NDArray[Any]:
        """Return the raw scores that the framework computes with a model, `(documents,)`."""

    @abstractmethod
    def grow(self, number: int) -> bool:
        """Add a tree to the booster. Return False if no leaf can be split.

        Args:
            number: number of the tree in the run, from 0.
        """

    @abstractmethod
    def scores(self) -> NDArray[Any]:
        """Return the scores of the trees so far for the validation lists, `(documents,)`."""

    @abstractmethod
    def end(self) -> GrownTrees:
        """Return all trees so far, including this segment."""

    @abstractmethod
    def booster(self, grown: GrownTrees, rounds: int) -> Any:
        """Return the framework's model, truncated to `rounds` trees.

        Args:
            grown: all trees.
            rounds: number of trees, including the trees of `init_model`.
        """


class LightGBM(Framework):
    """The framework LightGBM, whose scores are float64."""

    def __init__(self, task: BoostingTask) -> None:
        self.task, self.lgb = task, import_framework("lightgbm")
        params = {"verbosity": -1, "num_threads": task.threads, "seed": task.seed, **task.params, "metric": "None"}
        params["objective"] = "none" if task.native is None else task.native
        ways = aliases("force_col_wise") | aliases("force_row_wise")
        if not ways & params.keys():
            # Without this parameter, LightGBM measures which histograms are faster, column-wise or row-wise. The two
            # methods add numbers in different orders, so the trees could differ between two runs.
            params["force_col_wise"] = True
        self.params = params
        self.lists = self._dataset(task.data, task.weights).construct()
        self.validation = (
            None if task.validation is None else self._dataset(task.validation, None, self.lists).construct()
        )

    def _dataset(self, data: Dataset, weights: Weights, reference: Any = None) -> Any:
        group, params = nonempty_lengths(data), dict(self.params)
        options = {"group": group, "weight": weights, "reference": reference, "params": params}
        if data.categories:
            options["categorical_feature"] = [*data.categories]
        if names := names_for_files(data.feature_names):
            options["feature_name"] = names
        return self.lgb.Dataset(data.features, data.labels, **options)

    def _start_from(self, lists: Any, scores: NDArray[Any]) -> None:
        lists.set_init_score(scores)

    def _make(self, segment: int) -> None:
        self.live = self.lgb.Booster(seeded(self.params, segment), self.lists)
        if self.validation is not None:
            self.live.add_valid(self.validation, "held")

    def _raw(self, booster: Any, data: Dataset) -> NDArray[Any]:
        rows = data.features.astype(np.float32, copy=False)
        return np.asarray(booster.predict(rows, raw_score=True), dtype=np.float64) if rows.shape[0] else np.empty(0)

    def grow(self, number: int) -> bool:
        """Add a tree of LightGBM; see `Framework.grow`.

        Args:
            number: number of the tree.
        """
        return not self.live.update(fobj=self.task.derivatives)

    def scores(self) -> NDArray[Any]:
        """Return LightGBM's scores of the validation lists."""
        return self._scores(self.live.eval_valid)

    def end(self) -> GrownTrees:
        """Return all trees so far from LightGBM.

        If the first tree of a segment cannot be split, LightGBM adds a single leaf. The result does not contain this
        leaf, unless there are no earlier trees.
        """
        scores = {"train": self._scores(self.live.eval_train)}
        if self.validation is not None:
            scores["held"] = self.scores()
        text = self.live.model_to_string()
        if self.grown.parts and self.live.num_trees() == 1 and "\nnum_leaves=1\n" in text:
            return self.grown
        return GrownTrees((*self.grown.parts, text.encode()), scores)

    def _scores(self, measure: Callable[..., Any]) -> NDArray[np.float64]:
        found: list[NDArray[np.float64]] = []

        def keep(scores: Any, _: Any) -> tuple[str, float, bool]:
            found.append(np.array(scores, dtype=np.float64))
            return "none", 0.0, True

        measure(feval=keep)
        return found[0]

    def booster(self, grown: GrownTrees, rounds: int) -> Any:
        """Return LightGBM's model, truncated to `rounds` trees; see `Framework.booster`.

        Args:
            grown: all trees.
            rounds: number of trees.
        """
        whole = self.lgb.Booster(model_str=join_lightgbm([part.decode() for part in grown.parts]))
        return self.lgb.Booster(model_str=whole.model_to_string(num_iteration=rounds))


class XGBoost(Framework):
    """The framework XGBoost, whose scores are float32.

    In a sparse matrix, an entry that is not stored is a missing value for XGBoost, not 0.
    """

    def __init__(self, task: BoostingTask) -> None:
        self.task, self.xgb = task, import_framework("xgboost")
        params = {"nthread": task.threads, "base_score": 0.0, "verbosity": 1, **task.params}
        params["disable_default_eval_metric"] = True
        if task.native is not None:
            params["objective"] = task.native
        self.params = params
        self.lists = self._matrix(task.data)
        if task.weights is not None and task.native is not None:
            full = task.data.lengths > 0
            starts = task.data.offsets[:-1][full]
            self.lists.set_weight(np.add.reduceat(task.weights, starts) / task.data.lengths[full])
        self.validation = None if task.validation is None else self._matrix(task.validation)

    def _matrix(self, data: Dataset) -> Any:
        options: dict[str, Any] = {"nthread": self.task.threads}
        if data.categories:
            kinds = ["c" if column in data.categories else "q" for column in range(data.features.shape[1])]
            options |= {"feature_types": kinds, "enable_categorical": True}
        made = self.xgb.DMatrix(data.features, data.labels, **options)
        made.set_group(nonempty_lengths(data))
        return made

    def _start_from(self, lists: Any, scores: NDArray[Any]) -> None:
        lists.set_base_margin(scores)

    def _make(self, segment: int) -> None:
        params = {**self.params, "seed": seed_of(self.task.seed, segment)}
        self.live = self.xgb.Booster(params, [self.lists] if self.validation is None else [self.lists, self.validation])

    def _raw(self, booster: Any, data: Dataset) -> NDArray[Any]:
        scores = booster.predict(self._matrix(data), output_margin=True, validate_features=False)
        return np.asarray(scores, dtype=np.float32)

    def grow(self, number: int) -> bool:
        """Add a tree of XGBoost, which may be a single leaf; see `Framework.grow`.

        Args:
            number: number of the tree.
        """
        self.live.update(self.lists, number, fobj=self.task.derivatives)
        return True

    def scores(self) -> NDArray[Any]:
        """Return XGBoost's scores of the validation lists."""
        scores: NDArray[Any] = self.live.predict(self.validation, output_margin=True)
        return scores

    def end(self) -> GrownTrees:
        """Return all trees so far from XGBoost, including this segment."""
        scores = {"train": self.live.predict(self.lists, output_margin=True)}
        if self.validation is not None:
            scores["held"] = self.scores()
        return GrownTrees((*self.grown.parts, bytes(self.live.save_raw("json"))), scores)

    def booster(self, grown: GrownTrees, rounds: int) -> Any:
        """Return XGBoost's model, truncated to `rounds` trees; see `Framework.booster`.

        Args:
            grown: all trees.
            rounds: number of trees.
        """
        whole = self.xgb.Booster(model_file=bytearray(join_xgboost(grown.parts)))
        truncated = whole if rounds == whole.num_boosted_rounds() else whole[:rounds]
        truncated.set_param({"nthread": self.task.threads})
        if names := names_for_files(self.task.data.feature_names):
            truncated.feature_names = names
        return truncated


def import_framework(name: str) -> Any:
    """Import the framework `lightgbm` or `xgboost`. If the package is missing, the error shows how to install it.

    Args:
        name: name of the framework.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f"trees need {name}: pip install 'rankgrad[trees]' (got the error {error})") from error


FRAMEWORK_CLASSES: dict[str, type[LightGBM] | type[XGBoost]] = {"lightgbm": LightGBM, "xgboost": XGBoost}


def names_for_files(names: Sequence[str] | None) -> list[str] | None:
    """Return the names of the features as a list if model files of both frameworks can contain them, otherwise None.

    Args:
        names: names of the features, or None.
    """
    if names is None or len({*names}) < len(names) or not all(map(_PLAIN_NAME.fullmatch, names)):
        return None
    return [*names]


def nonempty_lengths(data: Dataset) -> NDArray[np.int64]:
    """Return the lengths of the lists for LightGBM and XGBoost, which do not accept empty lists.

    Args:
        data: lists.
    """
    return data.lengths[data.lengths > 0]
