"""Use losses as objectives of LightGBM and XGBoost. An objective computes the gradient and a second derivative."""

from collections.abc import Callable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rankgrad import losses
from rankgrad.errors import bad_value, one_of
from rankgrad.losses.curvature import FlatProblem, size_of_gradient
from rankgrad.losses.custom import as_loss
from rankgrad.losses.traits import Traits, traits_of
from rankgrad.moved import renamed
from rankgrad.run.objective import Batch
from rankgrad.run.objective import objective as value_of
from rankgrad.settings.trees import PREFIX
from rankgrad.tree_frameworks import FRAMEWORKS
from rankgrad.trees.frameworks import framework_named

Array = NDArray[Any]

HESSIANS = ("auto", "gradient")
DRAWN = "drawn"
HIGHEST = 30  # maximum label y with `smooth`, because 2^y and sums of such values must fit in float32


class TreeObjective:
    """Objective that computes the derivatives of a loss. The loss is a sum over lists, as in LightGBM's lambdarank.

    If `loss_lr` is not None, Adam updates the parameters of the loss (such as LearnDCG's scalars) once per round. Adam
    uses the gradient of the mean loss over the lists.
    """

    __call__: Callable[..., Any]  # returns gradient and Hessian for the arguments that the framework passes

    def __init__(
        self,
        loss: Any,
        hessian: str | float,
        loss_lr: float | None = None,
        smooth: str | float | None = None,
        seed: int = 0,
    ) -> None:
        self.loss, self.hessian, self.smooth = as_loss(loss), hessian, smooth
        self.loss.only_joint("trees")
        self.takes_weights = self.loss.takes_weights
        if smooth is not None and not self.traits.targets:
            known = [name for name in losses.__all__ if traits_of(getattr(losses, name)).targets]
            must = f"be None for losses other than {' and '.join(known)}"
            bad_value("smooth", must, f"{smooth!r} for {self.loss!s}")
        self.generator = np.random.default_rng(seed)
        parameters = [*self.loss.parameters()]
        if loss_lr is not None and not any(each.requires_grad for each in parameters):
            bad_value("loss_lr", "be None for a loss without parameters", f"{loss_lr!r} for {self.loss!s}")
        self.learning = None if loss_lr is None else torch.optim.Adam(parameters, lr=loss_lr)

    @cached_property
    def traits(self) -> Traits:
        """Traits of the loss; without second derivatives if `hessian` is not `"auto"`."""
        found = self.loss.traits
        return found if self.hessian == "auto" else found._replace(curvature=None, pairs=None)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.loss!s}, hessian={self.hessian!r})"

    def derivatives(
        self,
        scores: Array,
        labels: Array,
        offsets: Array,
        weights: Array | None = None,
        columns: Mapping[str, Tensor] = MappingProxyType({}),
    ) -> Any:
        """Compute the gradient and Hessian diagonal of the objective, `(documents,)` each, in the dtype of `scores`.

        Args:
            scores: scores `(documents,)`, float32 or float64.
            labels, weights: labels and document weights, `(documents,)` each.
            offsets: offsets of the lists, `(lists + 1,)`.
            columns: named columns for a custom objective, `(documents,)` each.
        """
        if weights is not None and not self.takes_weights:
            bad_value("weights", f"be None for {self.loss}, which takes no weights", "document weights")
        if self.smooth is not None:
            if len(labels) and not (labels.min() >= 0 and labels.max() <= HIGHEST):
                got = f"labels from {labels.min()} to {labels.max()}"
                bad_value("labels", f"be from 0 to {HIGHEST} with smooth", got)
            less = self.generator.random(len(labels)) if self.smooth == DRAWN else self.smooth
            labels = (np.exp2(labels) - less).astype(scores.dtype)
        traits = self.traits
        if traits.pairs:
            if not traits.any_label and len(labels) and labels.min() < 0:
                bad_value("labels", "be at least 0", labels.min())
            from rankgrad.kernels.cpu import curvature

            name, options = traits.pairs
            return curvature.run(name, scores, labels, weights, offsets, options)
        weight = None if weights is None else torch.from_numpy(weights)
        batch = Batch(None, torch.from_numpy(labels), torch.from_numpy(offsets), weight, columns=columns)
        slopes = self._slopes(scores, batch)
        if not isinstance(self.hessian, str):
            return slopes, np.full_like(slopes, self.hessian)
        lengths = np.diff(offsets)
        full = lengths > 0
        heavy = 1.0 if weights is None else weights.astype(scores.dtype, copy=False)
        problem = FlatProblem(scores, labels.astype(scores.dtype, copy=False), heavy, offsets[:-1][full], lengths[full])
        curved = (traits.curvature or size_of_gradient)(problem, slopes)
        return slopes, np.broadcast_to(curved, slopes.shape).astype(slopes.dtype, copy=False)

    def _slopes(self, scores: Array, batch: Batch) -> Array:
        leaf = torch.from_numpy(scores).requires_grad_()
        if self.learning is not None:
            self.learning.zero_grad()
        total = value_of(self.loss, leaf, batch, "sum")
        if self.learning is None:
            return torch.autograd.grad(total, leaf)[0].numpy()
        total.backward()
        for parameter in self.learning.param_groups[0]["params"]:
            if parameter.grad is not None:
                parameter.grad /= max(len(batch.offsets) - 1, 1)
        self.learning.step()
        assert leaf.grad is not None
        return leaf.grad.numpy()


def objective(
    loss: Any,
    framework: str = "lightgbm",
    *,
    hessian: str | float = "auto",
    loss_lr: float | None = None,
    smooth: str | float | None = None,
    seed: int = 0,
) -> TreeObjective:
    """Return a loss as a custom objective of LightGBM or XGBoost.

    Use it as `LGBMRanker(objective=...)`, `lightgbm.train({"objective": ...}, ...)` or `xgboost.train(..., obj=...)`.
    The objective is the sum of the loss over the lists. `rankgrad.losses.curvature` has a table of the second
    derivatives of all losses. Derivatives are computed in float32, the precision of both frameworks.

    Args:
        loss: spec such as `"lambdarank@10"`, a function of `rankgrad.losses`, or a module such as `LearnDCG()`.
        framework: `"lightgbm"` or `"xgboost"`.
        hessian: second derivative. `"gradient"` is the absolute value of the gradient. `"auto"` is the closed form or
            the bound if the loss has one, otherwise `"gradient"`. A number is used for all documents.
        loss_lr: learning rate of the parameters of the loss, which change once per round. With None, these parameters
            do not change.
        smooth: with None, the loss does not change. For softmax and listnet, a number g from 0 to 1 replaces each label
            y by the target 2^y - g. listnet then equals `xe_ndcg:gamma=g` (XE-NDCG), but it also uses the lists without
            a relevant document, with equal targets. softmax is this loss, with each list weighted by the sum of its
            targets. With `"drawn"`, g is a new random number for each document and round, as in LightGBM's rank_xendcg.
        seed: random seed of `smooth="drawn"`.

    Example:
        >>> lambdarank = objective("lambdarank")
        >>> gradient, hessian = lambdarank(np.array([1., 0., 0.]), np.array([2., 1., 3.]), None, np.array([3]))
        >>> gradient.round(3), hessian.round(3)
        (array([-0.305,  0.035,  0.27 ], dtype=float32), array([0.098, 0.026, 0.073], dtype=float32))
    """
    one_of("framework", framework, FRAMEWORKS)
    if isinstance(hessian, str):
        one_of("hessian", hessian, HESSIANS)
    elif not 0 < hessian < float("inf"):
        bad_value("hessian", "be 'auto', 'gradient' or a number above 0", hessian)
    if loss_lr is not None and not (isinstance(loss_lr, int | float) and 0 < loss_lr < float("inf")):
        bad_value("loss_lr", "be None or a number above 0", repr(loss_lr))
    if smooth not in (None, DRAWN) and not (isinstance(smooth, int | float) and 0 <= smooth <= 1):
        bad_value("smooth", f"be None, {DRAWN!r} or a number from 0 to 1", repr(smooth))
    return framework_named(framework).objective(loss, hessian, loss_lr, smooth, seed)


def as_tree_loss(loss: Any) -> Any:
    """Return the loss of boosted trees, as a loss, or as the text `native:NAME` of an objective of a framework.

    Args:
        loss: spec, function or module; see `rankgrad.losses.custom.as_loss`.
    """
    if isinstance(loss, str) and loss.startswith(PREFIX):
        return loss
    natives = {native for name in FRAMEWORKS for native in framework_named(name).native}
    if isinstance(loss, str) and loss in natives.difference(losses.__all__):
        bad_value("loss", f"be given as {PREFIX + loss!r}, because it is no loss of rankgrad", repr(loss))
    return as_loss(loss)


def as_float32(scores: Array, labels: Array) -> tuple[Array, Array]:
    """Return scores and labels as float32."""
    return np.ascontiguousarray(scores, np.float32), np.ascontiguousarray(labels, np.float32)


def as_offsets(ends: Array) -> NDArray[np.int64]:
    """Return offsets of lists that end at these rows."""
    offsets = np.zeros(len(ends) + 1, np.int64)
    offsets[1:] = ends
    return offsets


def given_weights(weights: Any) -> Array | None:
    """Return weights as float32; None if there are none."""
    return None if weights is None or not len(weights) else np.ascontiguousarray(weights, np.float32)


# Pickled objectives of version 0.2 have these paths.
_MOVED = {"LightGBMObjective": "lightgbm.growth", "XGBoostObjective": "xgboost.growth"}
__getattr__ = renamed("rankgrad.trees", {}, _MOVED)
