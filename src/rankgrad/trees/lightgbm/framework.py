"""The framework LightGBM."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rankgrad.errors import bad_value, name_settings
from rankgrad.trees.frameworks import ParameterNames, TreeFramework, import_framework, is_booster
from rankgrad.trees.lightgbm.checks import check_lightgbm
from rankgrad.trees.lightgbm.files import from_lightgbm, lightgbm_json, lightgbm_trees, read_lightgbm
from rankgrad.trees.lightgbm.growth import LightGBMGrowth, LightGBMObjective, aliases_of

# Parameters of LightGBM that have a different name in `TreeRanker`.
_OURS = {
    "num_iterations": "trees", "early_stopping_round": "patience", "objective": "loss", "num_threads": "threads",
    "categorical_feature": "categorical", "eval_at": name_settings("metric (such as {metric='nDCG@5'})"),
}  # fmt: skip


class LightGBM(TreeFramework):
    """LightGBM: scores are float64, and a file is text. The methods are described in `TreeFramework`."""

    name = "lightgbm"
    signature, from_text = rb"tree\n", True
    growth, objective, dtype = LightGBMGrowth, LightGBMObjective, torch.float64
    native = {"lambdarank": True, "rank_xendcg": True}  # noqa: RUF012
    of_objectives = (
        "label_gain", "lambdarank_truncation_level", "lambdarank_norm", "lambdarank_position_bias_regularization",
        "sigmoid", "is_unbalance", "scale_pos_weight", "reg_sqrt", "boost_from_average",
    )  # fmt: skip
    past = {  # noqa: RUF012
        "boosting": ("gbdt", "gbrt"),  # dart drops earlier trees, rf averages all trees, goss starts without sampling
        "data_sample_strategy": ("bagging",),
        "linear_tree": (False,),  # the first tree is not linear
        "cegb_penalty_feature_lazy": (None, "", ()),  # the first use of a feature has a cost
        "cegb_penalty_feature_coupled": (None, "", ()),
    }
    stores_missing = True
    rate = "learning_rate"
    space = {  # noqa: RUF012
        "learning_rate": {"low": 0.02, "high": 0.3, "log": True},
        "num_leaves": [7, 15, 31, 63, 127],
        "min_data_in_leaf": [5, 20, 50, 100],
        "feature_fraction": {"low": 0.3, "high": 1.0},
        "bagging_fraction": {"low": 0.5, "high": 1.0},
        "lambda_l2": {"low": 1e-3, "high": 10.0, "log": True},
    }
    needs = {"bagging_fraction": ("bagging_freq", 1)}  # noqa: RUF012
    device, bytes_per_value = "device_type=gpu", 8

    aliases = staticmethod(aliases_of)
    read_foreign, read_trees = staticmethod(read_lightgbm), staticmethod(lightgbm_trees)
    dump, read_dump = staticmethod(lightgbm_json), staticmethod(from_lightgbm)

    def parameters(self) -> ParameterNames:
        from lightgbm.basic import _ConfigAliases

        known = _ConfigAliases._get_all_param_aliases()
        settings = {alias: ours for theirs, ours in _OURS.items() for alias in (theirs, *known.get(theirs, ()))}
        mains = {alias: main for main, others in known.items() for alias in others}
        return ParameterNames({*known, *mains}, settings, mains)

    def booster_of(self, source: Any) -> Any:
        found = getattr(source, "booster_", None) or source  # an estimator has `booster_`
        return found if is_booster(found, self.name) else None

    def content(self, booster: Any) -> bytes:
        return bytes(booster.model_to_string(), "utf-8")

    def check(self, content: bytes, features: int) -> bytes:
        check_lightgbm(content.decode(), features)
        return content

    def load(self, content: bytes) -> Any:
        return import_framework(self.name).Booster(model_str=content.decode())

    def features(self, booster: Any) -> int:
        return int(booster.num_feature())

    def feature_names(self, booster: Any) -> list[str]:
        return list(booster.feature_name())

    def leaves(self, booster: Any) -> int:
        lines = [line for line in booster.model_to_string().splitlines() if line.startswith("num_leaves=")]
        return sum(int(line.partition("=")[2]) for line in lines)

    def rounds(self, booster: Any) -> int:
        return int(booster.num_trees())

    def scores(self, booster: Any, rows: Any) -> NDArray[Any]:
        return np.asarray(booster.predict(rows, raw_score=True))

    def importance(self, booster: Any, method: str) -> NDArray[np.float64]:
        return np.asarray(booster.feature_importance(method), dtype=np.float64)

    def shap_values(self, booster: Any, rows: NDArray[np.float32]) -> NDArray[np.float64]:
        if "\nis_linear=1\n" in booster.model_to_string():
            bad_value("model", "have only constant leaves for TreeSHAP values", "linear trees (linear_tree=true)")
        return np.asarray(booster.predict(rows, pred_contrib=True), dtype=np.float64)

    def rescales(self, content: bytes, params: Mapping[str, Any]) -> bool:
        return b"\naverage_output\n" in content
