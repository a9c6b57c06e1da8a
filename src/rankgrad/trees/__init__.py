"""Train boosted trees with `TreeRanker`, or use losses as objectives of LightGBM and XGBoost.

This needs the extra `trees`: `pip install 'rankgrad[trees]'`.
"""

from rankgrad.trees.estimator import TreeRanker
from rankgrad.trees.model import TreeModel
from rankgrad.trees.objective import objective

__all__ = ["TreeModel", "TreeRanker", "objective"]
