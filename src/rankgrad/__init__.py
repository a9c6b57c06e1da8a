"""rankgrad trains rankers on the metric they are judged by.

The rooms of the house are loaded when they are first used, so that `import rankgrad` costs little more than
`import torch`: `rankgrad.losses`, `rankgrad.metrics`, `rankgrad.relax`, `rankgrad.data`, `rankgrad.rankers`,
`rankgrad.training`, `rankgrad.trees`, `rankgrad.experiments`, `rankgrad.surrogate`; `rankgrad.Ranker`, the estimator,
and `rankgrad.blend`, a ranker of rankers.
"""

import importlib
from typing import Any

from rankgrad.backend import backend
from rankgrad.kernels import forks as _forks  # noqa: F401  # learns of forks from now on

__version__ = "0.1.0"
__all__ = [
    "Ranker", "backend", "blend", "data", "experiments", "lists", "losses", "metrics", "rankers", "relax", "surrogate",
    "training", "trees",
]  # fmt: skip

_ROOMS = frozenset(__all__) - {"Ranker", "backend", "blend"}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"rankgrad.{name}")
    if name == "Ranker":
        return importlib.import_module("rankgrad.ranker").Ranker
    if name == "blend":
        return importlib.import_module("rankgrad.blending").blend
    raise AttributeError(f"module 'rankgrad' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
