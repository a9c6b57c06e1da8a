"""Grow trees with LightGBM and XGBoost, one at a time, in segments whose borders are the same in a resumed run.

Each segment is a booster of its own that begins with the scores so far, also where nothing was interrupted. So a
resumed run does what an unbroken one does. Between two borders, a booster keeps its own random numbers. At the end, the
trees of all segments are joined to one model.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrad.data import Dataset
from rankgrad.trees.joined_models import join_lightgbm, join_xgboost
from rankgrad.trees.model import TreeModel, framework
from rankgrad.trees.parameters import aliases, seed_of, seeded

Weights = NDArray[np.float32] | None
# Takes the scores of all documents, and the framework's own object for them.
Derivatives = Callable[[Any, Any], Any]


class BoostingTask(NamedTuple):
    """What an engine is given to grow trees on."""

    data: Dataset
    held: Dataset | None  # validation lists
    weights: Weights
    native: str | None  # the framework's own objective; None: `derivatives` is given
    derivatives: Derivatives | None
    params: dict[str, Any]  # as the framework takes them
    seed: int
    threads: int


class GrownTrees(NamedTuple):
    """What a segment begins with: the trees of those before, and the scores that these come to."""

    parts: tuple[bytes, ...]  # a model each, in the framework's own format
    scores: dict[str, NDArray[Any]]  # of the lists "train" and "held", where there are trees


class Framework(ABC):
    """Boosting in one of the frameworks."""

    lists: Any  # the training lists, as the framework takes them
    held: Any  # the validation lists, or None
    task: BoostingTask
    live: Any  # the booster of a segment
    grown: GrownTrees  # what it began with

    def begin(self, grown: GrownTrees, segment: int) -> None:
        """Make the booster of a segment, which begins with the scores so far.

        Args:
            grown: what was grown before.
            segment: its number, from 0, which seeds it.
        """
        self.grown = grown
        for name, scores in grown.scores.items():
            self._start_from(self.lists if name == "train" else self.held, scores)
        self._make(segment)

    def start(self, init_model: TreeModel | None) -> GrownTrees:
        """What a new run begins with.

        Args:
            init_model: trees to add to.
        """
        if init_model is None:
            return GrownTrees((), {})
        parts = {"train": self.task.data, "held": self.task.held}
        scores = {name: self._raw(init_model.booster, part) for name, part in parts.items() if part is not None}
        return GrownTrees((init_model.content(),), scores)

    @abstractmethod
    def _start_from(self, lists: Any, scores: NDArray[Any]) -> None:
        """Let the next booster begin with these scores of the lists."""

    @abstractmethod
    def _make(self, segment: int) -> None:
        """Make the booster of a segment."""

    @abstractmethod
    def _raw(self, booster: Any, data: Dataset) -> NDArray[Any]:
        """Scores as the framework adds them up, `(documents,)`."""

    @abstractmethod
    def grow(self, number: int) -> bool:
        """Add a tree; False where none can be split off.

        Args:
            number: of the tree in the run, from 0.
        """

    @abstractmethod
    def scores(self) -> NDArray[Any]:
        """Scores of the validation lists, `(documents,)`."""

    @abstractmethod
    def end(self) -> GrownTrees:
        """What has been grown, with this segment."""

    @abstractmethod
    def booster(self, grown: GrownTrees, rounds: int) -> Any:
        """The framework's model, cut to a number of trees.

        Args:
            grown: with all trees.
            rounds: how many, those of `init_model` included.
        """


class LightGBM(Framework):
    """LightGBM, whose scores are float64."""

    def __init__(self, task: BoostingTask) -> None:
        self.task, self.lgb = task, framework("lightgbm")
        params = {"verbosity": -1, "num_threads": task.threads, "seed": task.seed, **task.params, "metric": "None"}
        params["objective"] = "none" if task.native is None else task.native
        ways = aliases("force_col_wise") | aliases("force_row_wise")
        if not ways & params.keys():
            # Else LightGBM measures which is faster and takes that, and the two add up numbers in different orders.
            params["force_col_wise"] = True
        self.params = params
        self.lists = self._dataset(task.data, task.weights).construct()
        self.held = None if task.held is None else self._dataset(task.held, None, self.lists).construct()

    def _dataset(self, data: Dataset, weights: Weights, reference: Any = None) -> Any:
        told = {"group": sizes(data), "weight": weights, "reference": reference, "params": dict(self.params)}
        return self.lgb.Dataset(data.features, data.labels, **told)

    def _start_from(self, lists: Any, scores: NDArray[Any]) -> None:
        lists.set_init_score(scores)

    def _make(self, segment: int) -> None:
        self.live = self.lgb.Booster(seeded(self.params, segment), self.lists)
        if self.held is not None:
            self.live.add_valid(self.held, "held")

    def _raw(self, booster: Any, data: Dataset) -> NDArray[Any]:
        rows = np.asarray(data.features, dtype=np.float32)
        return np.asarray(booster.predict(rows, raw_score=True), dtype=np.float64) if len(rows) else np.empty(0)

    def grow(self, number: int) -> bool:
        """Add a tree; see `Engine.grow`.

        Args:
            number: of the tree.
        """
        return not self.live.update(fobj=self.task.derivatives)

    def scores(self) -> NDArray[Any]:
        """Scores of the validation lists."""
        return self._scores(self.live.eval_valid)

    def end(self) -> GrownTrees:
        """The parts with this one, but for the stump that LightGBM keeps where not even a first tree can be split."""
        scores = {"train": self._scores(self.live.eval_train)}
        if self.held is not None:
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
        """The model cut to a number of trees; see `Engine.booster`.

        Args:
            grown: with all trees.
            rounds: how many.
        """
        whole = self.lgb.Booster(model_str=join_lightgbm([part.decode() for part in grown.parts]))
        return self.lgb.Booster(model_str=whole.model_to_string(num_iteration=rounds))


class XGBoost(Framework):
    """XGBoost, whose scores are float32."""

    def __init__(self, task: BoostingTask) -> None:
        self.task, self.xgb = task, framework("xgboost")
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
        self.held = None if task.held is None else self._matrix(task.held)

    def _matrix(self, data: Dataset) -> Any:
        made = self.xgb.DMatrix(data.features, data.labels, nthread=self.task.threads)
        made.set_group(sizes(data))
        return made

    def _start_from(self, lists: Any, scores: NDArray[Any]) -> None:
        lists.set_base_margin(scores)

    def _make(self, segment: int) -> None:
        params = {**self.params, "seed": seed_of(self.task.seed, segment)}
        self.live = self.xgb.Booster(params, [self.lists] if self.held is None else [self.lists, self.held])

    def _raw(self, booster: Any, data: Dataset) -> NDArray[Any]:
        return np.asarray(booster.predict(self._matrix(data), output_margin=True), dtype=np.float32)

    def grow(self, number: int) -> bool:
        """Add a tree, which may be a single leaf; see `Engine.grow`.

        Args:
            number: of the tree.
        """
        self.live.update(self.lists, number, fobj=self.task.derivatives)
        return True

    def scores(self) -> NDArray[Any]:
        """Scores of the validation lists."""
        scores: NDArray[Any] = self.live.predict(self.held, output_margin=True)
        return scores

    def end(self) -> GrownTrees:
        """The parts with this one."""
        scores = {"train": self.live.predict(self.lists, output_margin=True)}
        if self.held is not None:
            scores["held"] = self.scores()
        return GrownTrees((*self.grown.parts, bytes(self.live.save_raw("json"))), scores)

    def booster(self, grown: GrownTrees, rounds: int) -> Any:
        """The model cut to a number of trees; see `Engine.booster`.

        Args:
            grown: with all trees.
            rounds: how many.
        """
        whole = self.xgb.Booster(model_file=bytearray(join_xgboost(grown.parts)))
        cut = whole if rounds == whole.num_boosted_rounds() else whole[:rounds]
        cut.set_param({"nthread": self.task.threads})
        return cut


ENGINES: dict[str, type[LightGBM] | type[XGBoost]] = {"lightgbm": LightGBM, "xgboost": XGBoost}


def sizes(data: Dataset) -> NDArray[np.int64]:
    """Number of documents of each list that has some; the frameworks know no others.

    Args:
        data: the lists.
    """
    return data.lengths[data.lengths > 0]
