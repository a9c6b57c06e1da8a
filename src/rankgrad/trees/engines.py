"""Grow trees with LightGBM and XGBoost, one at a time, in segments whose borders are the same in a resumed run.

At each border the booster is made anew from what a checkpoint holds, also where nothing was interrupted. So a resumed
run does what an unbroken one does. Between two borders, a booster keeps its own random numbers.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrad.data import Dataset
from rankgrad.trees.model import TreeModel, framework
from rankgrad.trees.parameters import aliases, seed_of, seeded

Weights = NDArray[np.float32] | None
# Takes the scores of all documents, and the framework's own object for them.
Derivatives = Callable[[Any, Any], Any]


class Task(NamedTuple):
    """What an engine is given to grow trees on."""

    data: Dataset
    held: Dataset | None  # validation lists
    weights: Weights
    native: str | None  # the framework's own objective; None: `derivatives` is given
    derivatives: Derivatives | None
    params: dict[str, Any]  # as the framework takes them
    seed: int
    threads: int


class Grown(NamedTuple):
    """What a segment begins with: the model so far, in the framework's own format, and the scores it has come to."""

    model: bytes
    scores: dict[str, NDArray[np.float64]]  # of the training and validation lists, where the engine keeps them


class Engine(ABC):
    """Boosting in one of the frameworks."""

    @abstractmethod
    def begin(self, grown: Grown, segment: int) -> None:
        """Make the booster of a segment.

        Args:
            grown: what was grown before.
            segment: its number, from 0, which seeds it.
        """

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
    def end(self) -> Grown:
        """What has been grown, with this segment."""

    @abstractmethod
    def start(self, init_model: TreeModel | None) -> Grown:
        """What a new run begins with.

        Args:
            init_model: trees to add to.
        """

    @abstractmethod
    def booster(self, grown: Grown, rounds: int) -> Any:
        """The framework's model, cut to a number of trees.

        Args:
            grown: with all trees.
            rounds: how many, those of `init_model` included.
        """


class LightGBM(Engine):
    """Each segment is a booster of its own that begins with the scores so far; the texts of their trees are joined."""

    def __init__(self, task: Task) -> None:
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

    def start(self, init_model: TreeModel | None) -> Grown:
        """Nothing, or the text and the scores of a model; see `Engine.start`.

        Args:
            init_model: trees to add to.
        """
        if init_model is None:
            return Grown(b"", {})
        told, parts = init_model.booster, {"train": self.task.data, "held": self.task.held}
        scores = {name: _raw(told, part) for name, part in parts.items() if part is not None}
        return Grown(told.model_to_string().encode(), scores)

    def begin(self, grown: Grown, segment: int) -> None:
        """Make a booster that begins with the scores so far; see `Engine.begin`.

        Args:
            grown: what was grown before.
            segment: its number.
        """
        self.grown, self.segment = grown, segment
        if grown.scores:
            self.lists.set_init_score(grown.scores["train"])
        self.live = self.lgb.Booster(seeded(self.params, segment), self.lists)
        if self.held is not None:
            if grown.scores:
                self.held.set_init_score(grown.scores["held"])
            self.live.add_valid(self.held, "held")

    def grow(self, number: int) -> bool:
        """Add a tree; see `Engine.grow`.

        Args:
            number: of the tree.
        """
        return not self.live.update(fobj=self.task.derivatives)

    def scores(self) -> NDArray[Any]:
        """Scores of the validation lists."""
        return self._scores(self.live.eval_valid)

    def end(self) -> Grown:
        """Join the trees; the stump that LightGBM keeps where not even a first tree can be split is left out."""
        scores = {"train": self._scores(self.live.eval_train)}
        if self.held is not None:
            scores["held"] = self.scores()
        text = self.live.model_to_string()
        if not self.grown.model:
            return Grown(text.encode(), scores)
        if self.live.num_trees() == 1 and "\nnum_leaves=1\n" in text:
            return self.grown
        return Grown(joined(self.grown.model.decode(), text).encode(), scores)

    def _scores(self, measure: Callable[..., Any]) -> NDArray[np.float64]:
        found: list[NDArray[np.float64]] = []

        def keep(scores: Any, _: Any) -> tuple[str, float, bool]:
            found.append(np.array(scores, dtype=np.float64))
            return "none", 0.0, True

        measure(feval=keep)
        return found[0]

    def booster(self, grown: Grown, rounds: int) -> Any:
        """The model cut to a number of trees; see `Engine.booster`.

        Args:
            grown: with all trees.
            rounds: how many.
        """
        whole = self.lgb.Booster(model_str=grown.model.decode())
        return self.lgb.Booster(model_str=whole.model_to_string(num_iteration=rounds))


class XGBoost(Engine):
    """Each segment goes on from the model so far, whose file holds all that the next tree depends on."""

    def __init__(self, task: Task) -> None:
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

    def start(self, init_model: TreeModel | None) -> Grown:
        """Nothing, or the file of a model; see `Engine.start`.

        Args:
            init_model: trees to add to.
        """
        return Grown(b"" if init_model is None else bytes(init_model.booster.save_raw("json")), {})

    def begin(self, grown: Grown, segment: int) -> None:
        """Make a booster from the model so far; see `Engine.begin`.

        Args:
            grown: what was grown before.
            segment: its number.
        """
        params = {**self.params, "seed": seed_of(self.task.seed, segment)}
        known = [self.lists] if self.held is None else [self.lists, self.held]
        self.live = self.xgb.Booster(params, known, model_file=bytearray(grown.model) if grown.model else None)

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

    def end(self) -> Grown:
        """The file of the model."""
        return Grown(bytes(self.live.save_raw("json")), {})

    def booster(self, grown: Grown, rounds: int) -> Any:
        """The model cut to a number of trees; see `Engine.booster`.

        Args:
            grown: with all trees.
            rounds: how many.
        """
        whole = self.xgb.Booster(model_file=bytearray(grown.model))
        cut = whole if rounds == whole.num_boosted_rounds() else whole[:rounds]
        cut.set_param({"nthread": self.task.threads})
        return cut


ENGINES: dict[str, type[LightGBM] | type[XGBoost]] = {"lightgbm": LightGBM, "xgboost": XGBoost}


def joined(first: str, second: str) -> str:
    """The text of a LightGBM model with the trees of two; header and parameters are those of the first.

    Args:
        first: as LightGBM writes it.
        second: a model of the same columns.
    """
    head, trees, tail = _parts(first)
    trees = [*trees, *_parts(second)[1]]
    blocks = [re.sub(r"\ATree=\d+", f"Tree={place}", block) for place, block in enumerate(trees)]
    head = re.sub(r"^tree_sizes=.*$", f"tree_sizes={' '.join(str(len(block)) for block in blocks)}", head, flags=re.M)
    return f"{head}\n\n{''.join(blocks)}end of trees\n{tail}"


def _parts(text: str) -> tuple[str, list[str], str]:
    """The header, the trees and what follows them."""
    head, _, rest = text.partition("\n\n")
    body, _, tail = rest.partition("end of trees\n")
    return head, re.split(r"(?m)^(?=Tree=)", body)[1:], tail


def _raw(booster: Any, data: Dataset) -> NDArray[np.float64]:
    if not len(data.labels):
        return np.empty(0)
    return np.asarray(booster.predict(np.asarray(data.features, dtype=np.float32), raw_score=True), dtype=np.float64)


def sizes(data: Dataset) -> NDArray[np.int64]:
    """Number of documents of each list that has some; the frameworks know no others.

    Args:
        data: the lists.
    """
    return data.lengths[data.lengths > 0]
