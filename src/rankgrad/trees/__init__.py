"""Train boosted trees with `TreeRanker`, and use losses as objectives of LightGBM and XGBoost (extra `trees`)."""

from rankgrad.trees.estimator import TreeRanker
from rankgrad.trees.model import TreeModel
from rankgrad.trees.objective import objective

__all__ = ["TreeModel", "TreeRanker", "objective"]
