"""rankgrad trains rankers on the metric they are judged by.

Packages are loaded when they are first used, so that `import rankgrad` costs little more than `import torch`:
`rankgrad.losses`, `rankgrad.metrics`, `rankgrad.relax`, `rankgrad.data`, `rankgrad.rankers`, `rankgrad.training`,
`rankgrad.trees`, `rankgrad.models`, `rankgrad.experiments`, `rankgrad.surrogate`; `rankgrad.Ranker`, the estimator, and
`rankgrad.blend`, a ranker of rankers.
"""

import importlib
from typing import TYPE_CHECKING

from rankgrad import moved
from rankgrad.backend import backend
from rankgrad.kernels import fork_check as _forks  # noqa: F401  # learns of forks from now on

moved.install()

__version__ = "0.1.0"
__all__ = [
    "Ranker", "backend", "blend", "data", "experiments", "lists", "losses", "metrics", "models", "rankers", "relax",
    "surrogate", "training", "trees",
]  # fmt: skip

# A public name that is loaded when it is first used is in `__all__`, and here for type checkers and editors; one that
# is no module is in `_MEMBERS`, too, with the module that defines it.
if TYPE_CHECKING:
    from rankgrad import data, experiments, lists, losses, metrics, models, rankers, relax, surrogate, training, trees
    from rankgrad.blend_estimator import blend
    from rankgrad.estimator import Ranker
else:
    _MEMBERS = {"Ranker": "rankgrad.estimator", "blend": "rankgrad.blend_estimator"}

    def __getattr__(name: str) -> object:
        """Load a public name; type checkers do not see this function, so they know which names there are."""
        if name in _MEMBERS:
            return getattr(importlib.import_module(_MEMBERS[name]), name)
        if name in __all__:
            return importlib.import_module(f"rankgrad.{name}")
        raise AttributeError(f"module 'rankgrad' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
