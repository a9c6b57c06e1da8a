"""One interface for every kind of ranker: neural, LightGBM, XGBoost, blends, and custom kinds.

`TrainedModel` is a trained ranker. `RankerKind` is a kind of ranker, which trains and loads models. `register` adds a
kind, `kind_of` returns the kind of a spec, and `load` reads a saved model of any kind.
"""

from rankgrad.models.protocol import Exported, RankerKind, TrainedModel
from rankgrad.models.registry import kind_of, load, register

__all__ = ["Exported", "RankerKind", "TrainedModel", "kind_of", "load", "register"]
