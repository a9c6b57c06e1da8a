"""Losses with learned parameters, which are trained together with the ranker."""

import functools
import math
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, ParamSpec

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from rankgrad.errors import bad_type, bad_value, one_of
from rankgrad.kernels.options import ApproxOptions, ParamForm
from rankgrad.lists import as_lists
from rankgrad.losses.fused import fused
from rankgrad.losses.ideal_dcg import ideal_dcg
from rankgrad.losses.metric_formula import MetricFormula, check_cutoff
from rankgrad.losses.relaxed import soft_cutoff
from rankgrad.losses.traits import Traits
from rankgrad.relax.sigmoid_ranks import pairwise_ranks

LEARNABLE = ("gain", "discount", "alpha")
_LISTS = ("scores", "labels", "mask", "offsets", "weights", "reduction")
_Parameters = ParamSpec("_Parameters")


def _without_lists(make: Callable[_Parameters, None]) -> Callable[_Parameters, None]:
    """Raise an error if LearnDCG is created with lists, as if it were a function. `make` is its `__init__`."""

    @functools.wraps(make)
    def made(*given: _Parameters.args, **options: _Parameters.kwargs) -> None:
        if {*_LISTS} & {*options} or (len(given) > 1 and getattr(given[1], "shape", ()) != ()):
            must = "get the lists when it is called, as in `loss = LearnDCG(); loss(scores, labels, ...)`"
            bad_type("LearnDCG", must, "lists as arguments of the constructor")
        make(*given, **options)

    return made


class LearnDCG(nn.Module):
    r"""LearnDCG: ApproxNDCG with learned gain base, discount base and sharpness (LearnDCG paper, Eq. 1-7).

    .. math:: \ell(s, y) = -\sum_i \frac{g(y_i)}{d(\pi_i)} \Big/ \sum_i \frac{g(y_{(i)})}{d(i)}, \quad
              g(y) = b_g^y - 1, \quad \pi_i = 1 + \sum_{j \ne i} \sigma\bigl(\alpha (s_j - s_i)\bigr)

    y_(i) is the i-th highest label of the list. `discount="log"` is the published d(r) = ln(1 + r) / ln(b_d). ln(b_d)
    cancels in the ratio: the loss does not depend on b_d, and the gradient of `raw_discount` is exactly 0.
    `discount="curved"` is d(r) = ln(1 + (b_d - 1) r) / ln(b_d). With this form, b_d can be learned: d(r) is
    log2(1 + r) for b_d = 2, tends to r as b_d -> 1, and increases more slowly for larger b_d.

    Args:
        gain_base: initial value of b_g, above 1.
        discount_base: initial value of b_d, above 1.
        alpha: initial value of alpha, above 0.
        discount: form of the discount, `"log"` or `"curved"`.
        learn: names of the learned parameters: `"gain"`, `"discount"`, `"alpha"`. If `learn` is empty and
            all other arguments have their defaults, the loss equals `approx_ndcg`.
        k: soft cutoff, a sigmoid with sharpness `beta`; with None, all ranks count.
        beta: sharpness of the soft cutoff; not used without `k`.

    Example:
        >>> learn = LearnDCG(discount="curved")
        >>> learn(torch.tensor([[2., 1., 3.]]), torch.tensor([[1., 0., 0.]])).detach()
        tensor(-0.6309)

    References:
        "LearnDCG: End-to-End Joint Optimization of Ranker and Loss in Neural Ranking", 2026.
    """

    traits = Traits(gain=True)

    @_without_lists
    def __init__(
        self,
        gain_base: float = 2.0,
        discount_base: float = 2.0,
        alpha: float = 1.0,
        discount: str = "log",
        learn: Collection[str] = LEARNABLE,
        k: int | None = None,
        beta: float = 10.0,
    ) -> None:
        super().__init__()
        for name, value, least in (
            ("gain_base", gain_base, 1),
            ("discount_base", discount_base, 1),
            ("alpha", alpha, 0),
        ):
            if not value > least:
                bad_value(name, f"be above {least}", value)
        one_of("discount", discount, ("log", "curved"))
        for part in learn:
            one_of("learn", part, LEARNABLE)
        check_cutoff(k)
        self.discount, self.k, self.beta = discount, k, beta
        self.raw_gain = _raw(gain_base - 1, "gain" in learn)
        self.raw_discount = _raw(discount_base - 1, "discount" in learn)
        self.raw_alpha = _raw(alpha, "alpha" in learn)

    @property
    def gain_base(self) -> Tensor:
        """The gain base of LearnDCG, b_g = 1 + softplus(raw_gain)."""
        return 1.0 + softplus(self.raw_gain)

    @property
    def discount_base(self) -> Tensor:
        """The discount base of LearnDCG, b_d = 1 + softplus(raw_discount)."""
        return 1.0 + softplus(self.raw_discount)

    @property
    def alpha(self) -> Tensor:
        """The sharpness of LearnDCG, alpha = softplus(raw_alpha)."""
        return softplus(self.raw_alpha)

    def learned(self) -> dict[str, float]:
        """Return the current values of LearnDCG's b_g, b_d and alpha by name."""
        return {name: float(getattr(self, name).detach()) for name in ("gain_base", "discount_base", "alpha")}

    def forward(
        self, scores: Any, labels: Any, *, mask: Any = None, offsets: Any = None, reduction: str = "mean"
    ) -> Tensor:
        """Compute LearnDCG.

        Args:
            scores, labels, mask, offsets, reduction: the lists and the reduction; see `rankgrad.losses`.
        """
        lists = as_lists(scores, labels, mask=mask, offsets=offsets, lowest_label=0)
        form = ParamForm.LEARNED_CURVED if self.discount == "curved" else ParamForm.LEARNED
        options = ApproxOptions(self.k or 0, self.beta, form=form)
        raw = (self.raw_gain, self.raw_discount, self.raw_alpha)
        if (loss := fused("learndcg", lists, reduction, options, raw)) is not None:
            return loss
        dtype = lists.scores.dtype
        gain = torch.where(lists.mask, self._gain(lists.labels), 0.0)
        ranks = pairwise_ranks(lists.scores, lists.mask, softplus(self.raw_alpha.to(dtype)))
        dcg = (gain * soft_cutoff(ranks, self.k, self.beta) / self._discount(ranks)).sum(-1)
        ideal = ideal_dcg(gain, self.k, self._discount)
        value = torch.where(ideal > 0, dcg / torch.where(ideal > 0, ideal, 1.0), 0.0 * dcg)
        if self.discount == "log":
            value = value + 0.0 * self.raw_discount.to(dtype)  # stays in the graph; its gradient is exactly 0
        return MetricFormula("nDCG", self.k).loss(lists, value, reduction)

    if TYPE_CHECKING:
        __call__ = forward  # PyTorch's declaration returns Any

    def _gain(self, labels: Tensor) -> Tensor:
        """Return LearnDCG's gains, divided by the gain of the highest label: `g(y) / g(max y)`.

        The result is finite for all labels, even if b_g is near 1. The divisor cancels in the loss.
        """
        if labels.shape[-1] == 0:
            return labels * self.raw_gain.to(labels.dtype)  # empty, but in the graph: the gradient is 0, not None
        log_base = torch.log1p(softplus(self.raw_gain.to(labels.dtype))).clamp(min=_TINY)
        top = labels.amax(-1, keepdim=True)
        top = torch.where(top > 0, top, 1.0)
        return ((labels - top) * log_base).exp() * torch.expm1(-labels * log_base) / torch.expm1(-top * log_base)

    def _discount(self, ranks: Tensor) -> Tensor:
        """Return LearnDCG's discount d(r). For `"log"`, the divisor ln(b_d) is omitted, because it cancels."""
        if self.discount == "log":
            return torch.log1p(ranks)
        slope = softplus(self.raw_discount.to(ranks.dtype)).clamp(min=_TINY)
        return torch.log1p(slope * ranks) / torch.log1p(slope)

    def extra_repr(self) -> str:
        """Return the parameters of LearnDCG as text, for `print`."""
        known = not self.raw_alpha.is_meta  # a tensor on the device meta has no value
        values = [f"{name}={value:.4g}" for name, value in self.learned().items()] if known else []
        return ", ".join([*values, f"discount={self.discount!r}", f"k={self.k}"])


# Replaces a softplus that underflows to 0. It is small enough to give the limit and large enough to be a divisor.
_TINY = 1e-30


def _raw(value: float, learned: bool) -> nn.Parameter:
    """Return the raw parameter of LearnDCG whose softplus is `value`."""
    inverse = value + math.log(-math.expm1(-value))
    return nn.Parameter(torch.tensor(inverse), requires_grad=learned)
