"""One interface for every kind of ranker: neural, LightGBM, XGBoost, blends, and custom kinds.

`TrainedModel` is a trained ranker. `RankerKind` is a kind of ranker, which trains and loads models. `register` adds a
kind, `kind_of` returns the kind of a spec, and `load` reads a saved model of any kind. The other classes are results of
methods of a model:

- `feature_importance` returns `FeatureImportance`, and `explain` returns `ListExplanation`.
- `contributions` returns `Contributions`.
- `calibrate` returns `Calibration`, and `reliability` returns a list of `Reliability`.
"""

from rankgrad.models.calibration import Calibration
from rankgrad.models.explanation import ListExplanation
from rankgrad.models.feature_importance import FeatureImportance
from rankgrad.models.protocol import Contributions, Exported, RankerKind, TrainedModel
from rankgrad.models.registry import kind_of, load, register
from rankgrad.models.reliability import Reliability

__all__ = [
    "Calibration",
    "Contributions",
    "Exported",
    "FeatureImportance",
    "ListExplanation",
    "RankerKind",
    "Reliability",
    "TrainedModel",
    "kind_of",
    "load",
    "register",
]
