"""Boosted trees: the losses as objectives of LightGBM and XGBoost, and `TreeRanker` (needs the extra `trees`)."""

from rankgrad.trees.estimator import TreeRanker
from rankgrad.trees.model import TreeModel
from rankgrad.trees.objective import objective

__all__ = ["TreeModel", "TreeRanker", "objective"]
