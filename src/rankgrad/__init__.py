"""rankgrad trains rankers on the metric they are judged by.

The packages are `rankgrad.losses`, `rankgrad.metrics`, `rankgrad.relax`, `rankgrad.data`, `rankgrad.rankers`,
`rankgrad.training`, `rankgrad.trees`, `rankgrad.models`, `rankgrad.text`, `rankgrad.experiments` and
`rankgrad.surrogate`. Each package is loaded when it is first used. Therefore, `import rankgrad` is nearly as fast as
`import torch`. `rankgrad.Ranker` is the estimator, `rankgrad.blend` combines fitted rankers, and `rankgrad.AutoRanker`
searches for the best ranker.
"""

import importlib
from typing import TYPE_CHECKING

from rankgrad import moved
from rankgrad.backend import backend
from rankgrad.kernels import fork_check as _forks  # noqa: F401  # detects forks from now on

moved.install()

__version__ = "0.2.0"
__all__ = [
    "AutoRanker", "Ranker", "backend", "blend", "data", "experiments", "lists", "losses", "metrics", "models",
    "rankers", "relax", "surrogate", "text", "training", "trees",
]  # fmt: skip

# A public name that is loaded on first use must be in `__all__`, and in the block below for type checkers and editors.
# A name that is not a module must also be in `_MEMBERS`, with the module that defines it.
if TYPE_CHECKING:
    from rankgrad import (
        data,
        experiments,
        lists,
        losses,
        metrics,
        models,
        rankers,
        relax,
        surrogate,
        text,
        training,
        trees,
    )
    from rankgrad.estimators.auto import AutoRanker
    from rankgrad.estimators.blend import blend
    from rankgrad.estimators.neural import Ranker
else:
    _MEMBERS = {
        "AutoRanker": "rankgrad.estimators.auto",
        "Ranker": "rankgrad.estimators.neural",
        "blend": "rankgrad.estimators.blend",
    }

    def __getattr__(name: str) -> object:
        """Load a public object of `rankgrad` on first use. Type checkers do not see this function."""
        if name in _MEMBERS:
            return getattr(importlib.import_module(_MEMBERS[name]), name)
        if name in __all__:
            return importlib.import_module(f"rankgrad.{name}")
        hint = "; use rankgrad.trees.TreeRanker" if name == "TreeRanker" else ""
        raise AttributeError(f"module 'rankgrad' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
