"""Grow trees with LightGBM, in segments, and use a loss as its objective."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.data import Dataset
from rankgrad.errors import bad_type, bad_value
from rankgrad.trees import frameworks
from rankgrad.trees.lightgbm.files import joined
from rankgrad.trees.objective import Array, TreeObjective, as_float32, as_offsets, given_weights
from rankgrad.trees.parameters import seed_of

# Parameters of LightGBM that are random seeds. LightGBM computes the seeds that are not given from `seed`.
_SEEDS = ("seed", "bagging_seed", "feature_fraction_seed", "drop_seed", "objective_seed", "extra_seed")


def seeded(params: dict[str, Any], segment: int) -> dict[str, Any]:
    """Return a copy of LightGBM's parameters that has the random seeds of a segment.

    Args:
        params: parameters with the random seeds of the run.
        segment: number of the segment, from 0.
    """
    seeds = {name for main in _SEEDS for name in aliases_of(main)}
    return {name: seed_of(int(value), segment) if name in seeds else value for name, value in params.items()}


def aliases_of(name: str) -> set[str]:
    """Return the name and all aliases of a parameter of LightGBM.

    Args:
        name: name of the parameter.
    """
    try:
        from lightgbm.basic import _ConfigAliases
    except ImportError:  # LightGBM is not installed, or its version has no list of aliases
        return {name}
    return {name, *_ConfigAliases.get(name)}


class LightGBMGrowth(frameworks.Growth):
    """The training with LightGBM, whose scores are float64."""

    def __init__(self, task: frameworks.BoostingTask) -> None:
        self.task, self.lgb = task, frameworks.import_framework("lightgbm")
        params = {"verbosity": -1, "num_threads": task.threads, "seed": task.seed, **task.params, "metric": "None"}
        params["objective"] = "none" if task.native is None else task.native
        ways = aliases_of("force_col_wise") | aliases_of("force_row_wise")
        if not ways & params.keys():
            # Without this parameter, LightGBM measures which histograms are faster, column-wise or row-wise. The two
            # methods add numbers in different orders, so the trees could differ between two runs.
            params["force_col_wise"] = True
        self.params = params
        self.lists = self._dataset(task.data, task.weights).construct()
        self.validation = (
            None if task.validation is None else self._dataset(task.validation, None, self.lists).construct()
        )

    def _dataset(self, data: Dataset, weights: frameworks.Weights, reference: Any = None) -> Any:
        group, params = frameworks.nonempty_lengths(data), dict(self.params)
        options = {"group": group, "weight": weights, "reference": reference, "params": params}
        if data.categories:
            options["categorical_feature"] = [*data.categories]
        if names := frameworks.names_for_files(data.feature_names):
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
        """Add a tree of LightGBM; see `Growth.grow`.

        Args:
            number: number of the tree.
        """
        return not self.live.update(fobj=self.task.derivatives)

    def scores(self) -> NDArray[Any]:
        """Return LightGBM's scores of the validation lists."""
        return self._scores(self.live.eval_valid)

    def end(self) -> frameworks.GrownTrees:
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
        return frameworks.GrownTrees((*self.grown.parts, text.encode()), scores)

    def _scores(self, measure: Callable[..., Any]) -> NDArray[np.float64]:
        found: list[NDArray[np.float64]] = []

        def keep(scores: Any, _: Any) -> tuple[str, float, bool]:
            found.append(np.array(scores, dtype=np.float64))
            return "none", 0.0, True

        measure(feval=keep)
        return found[0]

    def booster(self, grown: frameworks.GrownTrees, rounds: int) -> Any:
        """Return LightGBM's model, truncated to `rounds` trees; see `Growth.booster`.

        Args:
            grown: all trees.
            rounds: number of trees.
        """
        whole = self.lgb.Booster(model_str=joined([part.decode() for part in grown.parts]))
        return self.lgb.Booster(model_str=whole.model_to_string(num_iteration=rounds))


class LightGBMObjective(TreeObjective):
    """Objective for `lightgbm.LGBMRanker(objective=...)` and for `lightgbm.train({"objective": ...}, ...)`."""

    def __call__(self, y_true: Array, y_pred: Any, weight: Array | None = None, group: Array | None = None) -> Any:
        """Return the gradient and the diagonal of the Hessian for LightGBM in float32, the precision of LightGBM.

        `LGBMRanker` passes all four arguments. `lightgbm.train` passes only the scores and the data set, in this order.

        Args:
            y_true: labels `(documents,)`; the scores if the second argument is a data set.
            y_pred: scores `(documents,)`, or a `lightgbm.Dataset` with labels, lists and optional weights.
            weight: document weights `(documents,)`, or None.
            group: lengths of the lists, `(lists,)`.
        """
        if hasattr(y_pred, "get_uint_info"):
            must = "be scores or a lightgbm.Dataset (for XGBoost, use objective(loss, 'xgboost'))"
            bad_type("y_pred", must, type(y_pred).__name__)
        where = "fit"
        if hasattr(y_pred, "get_group"):
            where, data = "lightgbm.Dataset", y_pred
            y_true, y_pred, weight, group = data.get_label(), y_true, data.get_weight(), data.get_group()
        if group is None:
            bad_value("group", f"be given to {where}, because a ranking loss needs lists", None)
        return self.derivatives(*as_float32(y_pred, y_true), as_offsets(np.cumsum(group)), given_weights(weight))
