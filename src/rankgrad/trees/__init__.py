"""Train boosted trees with `TreeRanker`, or use losses as objectives of LightGBM and XGBoost.

This needs the extra `trees`: `pip install 'rankgrad[trees]'`.
"""

from typing import TYPE_CHECKING

from rankgrad import moved
from rankgrad.trees.model import TreeModel
from rankgrad.trees.objective import objective

if TYPE_CHECKING:
    from rankgrad.estimators.trees import TreeRanker
else:
    __getattr__ = moved.renamed("rankgrad.trees", {}, {"TreeRanker": ".estimators.trees"})

__all__ = ["TreeModel", "TreeRanker", "objective"]
