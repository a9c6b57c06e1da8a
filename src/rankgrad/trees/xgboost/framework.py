"""The framework XGBoost."""

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rankgrad.trees.engine_files import xgboost_json
from rankgrad.trees.engine_scores import from_xgboost
from rankgrad.trees.frameworks import ParameterNames, TreeFramework, import_framework, is_booster
from rankgrad.trees.xgboost.checks import checked_xgboost
from rankgrad.trees.xgboost.files import read_xgboost, xgboost_trees
from rankgrad.trees.xgboost.growth import XGBoostGrowth, XGBoostObjective

# Parameters of the estimator that have a different name in `TreeRanker`.
_OURS = {"enable_categorical": "categorical", "feature_types": "categorical"}
# Parameters that the estimator does not have, or that have a different name there.
_OTHERS = {
    "eta", "lambda", "alpha", "min_split_loss", "updater", "refresh_leaf", "process_type", "top_k", "feature_selector",
    "sample_type", "normalize_type", "rate_drop", "one_drop", "skip_drop", "seed_per_iteration", "validate_parameters",
    "max_cached_hist_node", "lambdarank_pair_method", "lambdarank_num_pair_per_sample", "lambdarank_normalization",
    "lambdarank_score_normalization", "lambdarank_unbiased", "lambdarank_bias_norm", "ndcg_exp_gain",
}  # fmt: skip
# Two names of one parameter.
_SAME = {"eta": "learning_rate", "lambda": "reg_lambda", "alpha": "reg_alpha", "min_split_loss": "gamma"}


class XGBoost(TreeFramework):
    """XGBoost: scores are float32, and a file is JSON. The methods are described in `TreeFramework`."""

    name = "xgboost"
    signature = rb'\s*\{\s*"'
    growth, objective, dtype = XGBoostGrowth, XGBoostObjective, torch.float32
    native = {"rank:ndcg": True, "rank:pairwise": False, "rank:map": False}  # noqa: RUF012
    of_objectives = (
        "lambdarank_pair_method", "lambdarank_num_pair_per_sample", "lambdarank_normalization",
        "lambdarank_score_normalization", "lambdarank_unbiased", "lambdarank_bias_norm", "ndcg_exp_gain",
        "scale_pos_weight",
    )  # fmt: skip
    past = {  # noqa: RUF012
        "booster": ("gbtree", None),  # dart drops earlier trees
        "lambdarank_unbiased": (False, None),  # the position bias is learned during training
    }
    sparse_missing = True
    rate = "eta"
    space = {  # noqa: RUF012
        "eta": {"low": 0.02, "high": 0.3, "log": True},
        "max_depth": [2, 3, 4, 6, 8],
        "min_child_weight": {"low": 0.01, "high": 10.0, "log": True},
        "colsample_bytree": {"low": 0.3, "high": 1.0},
        "subsample": {"low": 0.5, "high": 1.0},
        "lambda": {"low": 1e-3, "high": 10.0, "log": True},
    }
    device, bytes_per_value = "device=cuda", 16

    check = staticmethod(checked_xgboost)
    read_foreign, read_trees = staticmethod(read_xgboost), staticmethod(xgboost_trees)
    dump, read_dump = staticmethod(xgboost_json), staticmethod(from_xgboost)

    def parameters(self) -> ParameterNames:
        known = inspect.signature(import_framework(self.name).XGBModel.__init__).parameters
        return ParameterNames({*known, *_OTHERS}, _OURS, _SAME)

    def aliases(self, name: str) -> set[str]:
        return {name}.union(*(pair for pair in _SAME.items() if name in pair))

    def booster_of(self, source: Any) -> Any:
        estimator = not isinstance(source, type) and hasattr(source, "get_booster")
        found = source.get_booster() if estimator else source
        return found if is_booster(found, self.name) else None

    def content(self, booster: Any) -> bytes:
        return bytes(booster.save_raw("json"))

    def load(self, content: bytes) -> Any:
        return import_framework(self.name).Booster(model_file=bytearray(content))

    def features(self, booster: Any) -> int:
        return int(booster.num_features())

    def feature_names(self, booster: Any) -> list[str] | None:
        names: list[str] | None = booster.feature_names
        return names

    def leaves(self, booster: Any) -> int:
        return sum(tree.count("leaf=") for tree in booster.get_dump())

    def rounds(self, booster: Any) -> int:
        return int(booster.num_boosted_rounds())

    def scores(self, booster: Any, rows: Any) -> NDArray[Any]:
        return np.asarray(booster.inplace_predict(rows, predict_type="margin"))

    def importance(self, booster: Any, method: str) -> NDArray[np.float64]:
        known = booster.get_score(importance_type="total_gain" if method == "gain" else "weight")
        names = booster.feature_names or [f"f{place}" for place in range(booster.num_features())]
        return np.array([known.get(name, 0.0) for name in names], dtype=np.float64)

    def shap_values(self, booster: Any, rows: NDArray[np.float32]) -> NDArray[np.float64]:
        about = {"feature_names": booster.feature_names, "feature_types": booster.feature_types}
        matrix = import_framework(self.name).DMatrix(rows, **about, enable_categorical=True)
        return np.asarray(booster.predict(matrix, pred_contribs=True), dtype=np.float64)

    def rescales(self, content: bytes, params: Mapping[str, Any]) -> bool:
        return params.get("booster") == "dart" or b'"weight_drop"' in content
