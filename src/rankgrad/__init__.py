"""rankgrad trains rankers on the metric they are judged by.

The rooms of the house are loaded when they are first used, so that `import rankgrad` costs little more than
`import torch`: `rankgrad.losses`, `rankgrad.metrics`, `rankgrad.relax`, `rankgrad.data`, `rankgrad.rankers`,
`rankgrad.training`, `rankgrad.experiments`, and `rankgrad.Ranker`, the estimator.
"""

import importlib
from typing import Any

from rankgrad.backend import backend

__version__ = "0.1.0"
__all__ = ["Ranker", "backend", "data", "experiments", "lists", "losses", "metrics", "rankers", "relax", "training"]

_ROOMS = frozenset(__all__) - {"Ranker", "backend"}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"rankgrad.{name}")
    if name == "Ranker":
        return importlib.import_module("rankgrad.ranker").Ranker
    raise AttributeError(f"module 'rankgrad' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
