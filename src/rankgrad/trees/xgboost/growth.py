"""Grow trees with XGBoost, in segments, and use a loss as its objective."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.data import Dataset
from rankgrad.errors import bad_type, bad_value
from rankgrad.trees import frameworks
from rankgrad.trees.objective import Array, TreeObjective, as_float32, as_offsets, given_weights
from rankgrad.trees.parameters import seed_of
from rankgrad.trees.xgboost.files import joined


class XGBoostGrowth(frameworks.Growth):
    """The training with XGBoost, whose scores are float32.

    In a sparse matrix, an entry that is not stored is a missing value for XGBoost, not 0.
    """

    def __init__(self, task: frameworks.BoostingTask) -> None:
        self.task, self.xgb = task, frameworks.import_framework("xgboost")
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
        made.set_group(frameworks.nonempty_lengths(data))
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
        """Add a tree of XGBoost, which may be a single leaf; see `Growth.grow`.

        Args:
            number: number of the tree.
        """
        self.live.update(self.lists, number, fobj=self.task.derivatives)
        return True

    def scores(self) -> NDArray[Any]:
        """Return XGBoost's scores of the validation lists."""
        scores: NDArray[Any] = self.live.predict(self.validation, output_margin=True)
        return scores

    def end(self) -> frameworks.GrownTrees:
        """Return all trees so far from XGBoost, including this segment."""
        scores = {"train": self.live.predict(self.lists, output_margin=True)}
        if self.validation is not None:
            scores["held"] = self.scores()
        return frameworks.GrownTrees((*self.grown.parts, bytes(self.live.save_raw("json"))), scores)

    def booster(self, grown: frameworks.GrownTrees, rounds: int) -> Any:
        """Return XGBoost's model, truncated to `rounds` trees; see `Growth.booster`.

        Args:
            grown: all trees.
            rounds: number of trees.
        """
        whole = self.xgb.Booster(model_file=bytearray(joined(grown.parts)))
        truncated = whole if rounds == whole.num_boosted_rounds() else whole[:rounds]
        truncated.set_param({"nthread": self.task.threads})
        if names := frameworks.names_for_files(self.task.data.feature_names):
            truncated.feature_names = names
        return truncated


class XGBoostObjective(TreeObjective):
    """Objective for `xgboost.train(..., obj=...)`. The data may have one weight per list or per document."""

    def __call__(self, preds: Array, dtrain: Any) -> Any:
        """Return the gradient and the diagonal of the Hessian for XGBoost in float32."""
        if not hasattr(dtrain, "get_uint_info"):
            must = "be an xgboost.DMatrix, as in xgboost.train (for LightGBM, use objective(loss, 'lightgbm'))"
            bad_type("dtrain", must, type(dtrain).__name__)
        pointers = dtrain.get_uint_info("group_ptr")
        if not len(pointers):
            bad_value("dtrain", "have lists (qid= or group=), because a ranking loss needs lists", "no lists")
        offsets, weight = as_offsets(pointers[1:]), dtrain.get_weight()
        if len(weight) == len(offsets) - 1:
            weight = np.repeat(weight, np.diff(offsets))
        return self.derivatives(*as_float32(preds, dtrain.get_label()), offsets, given_weights(weight))
