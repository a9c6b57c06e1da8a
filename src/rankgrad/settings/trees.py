"""The settings of boosted trees. The names are the same in Python, on the command line and in recipes."""

from dataclasses import dataclass
from typing import Any

from rankgrad.settings.neural import AS_METRIC, LOSS_TEXT, METRIC_TEXT
from rankgrad.settings.schema import Schema, documented, setting
from rankgrad.tree_frameworks import FRAMEWORKS

PREFIX = "native:"
AS_TREE_LOSS = "rankgrad.trees.objective:as_tree_loss"
_ANY = float("-inf")


@documented()
@dataclass(frozen=True)
class TreeSpec(Schema):
    """The settings with which boosted trees are trained; `rankgrad.trees.settings.checked_trees` checks them."""

    what = "boosted trees"

    # fmt: off
    framework: str = setting("lightgbm", " or ".join(map('"{}"'.format, FRAMEWORKS)), choices=tuple(FRAMEWORKS))
    loss: Any = setting("lambdarank", f"loss: spec, object or {PREFIX}NAME", reads=AS_TREE_LOSS, writes=LOSS_TEXT)
    hessian: Any = setting("auto", "option of `rankgrad.trees.objective`")
    loss_lr: Any = setting(None, "option of `rankgrad.trees.objective`")
    smooth: Any = setting(None, "option of `rankgrad.trees.objective`")
    trees: int = setting(500, "maximum number of trees", least=1, on_resume=True)
    patience: int | None = setting(
        50, "trees without improvement, after which the training stops; None to train all trees",
        least=1, on_resume=True,
    )
    metric: Any = setting("nDCG@10", "validation metric; selects the tree", reads=AS_METRIC, writes=METRIC_TEXT)
    seed: int = setting(0, "random seed of the sampling and of the choice of held-out lists", least=_ANY)
    threads: int = setting(1, "number of threads; None means the number that PyTorch uses", least=_ANY, on_resume=True)
    params: dict[str, Any] = setting(dict, "parameters of the framework, by the framework's names")
    # fmt: on

    @property
    def native(self) -> str | None:
        """Name of the framework's objective if the loss is native, otherwise None."""
        native = isinstance(self.loss, str) and self.loss.startswith(PREFIX)
        return self.loss.removeprefix(PREFIX) if native else None
