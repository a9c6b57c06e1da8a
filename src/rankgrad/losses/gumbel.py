"""Average any loss over scores with Gumbel noise, as in GumbelApproxNDCG and stochastic NeuralNDCG."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from rankgrad.custom_objects import describe
from rankgrad.errors import bad_type, bad_value
from rankgrad.lists import as_tensor, compute_dtype
from rankgrad.losses.traits import Traits, traits_of
from rankgrad.relax import gumbel_noise


class gumbel(nn.Module):
    r"""Mean of a loss over scores with Gumbel noise, `loss(scores + scale * noise, labels)`.

    .. math:: \ell(s, y) = \frac{1}{S} \sum_{g} \mathrm{loss}(s + \beta g, y), \quad g_i \sim \mathrm{Gumbel}(0, 1)

    `gumbel(approx_ndcg)` is GumbelApproxNDCG (LambdaLoss@K paper, Eq. 9-10).

    Args:
        loss: any function or module of `rankgrad.losses`.
        samples: number of noisy copies to average.
        scale: beta, the scale of the noise.
        seed: random seed of a separate generator, whose state is not part of `state_dict`; with None, PyTorch's default
            generator is used.
        options: keywords for every call of `loss`, such as `temperature=0.1`.

    Example:
        >>> from rankgrad.losses import approx_ndcg
        >>> scores, labels = torch.tensor([[2., 1., 3.]]), torch.tensor([[1., 0., 0.]])
        >>> gumbel(approx_ndcg, temperature=0.1)(scores, labels, noise=torch.tensor([[9., 0., 0.]]))
        tensor(-1.)

    References:
        Bruch et al., "A Stochastic Treatment of Learning to Rank Scoring Functions", WSDM 2020.
    """

    def __init__(
        self, loss: Callable[..., Tensor], samples: int = 1, scale: float = 1.0, seed: int | None = None, **options: Any
    ) -> None:
        super().__init__()
        if not callable(loss):
            bad_type("loss", "be a function or a module (for a spec, add the option gumbel=1 to the spec)", repr(loss))
        if samples < 1:
            bad_value("samples", "be at least 1", samples)
        if not scale > 0:
            bad_value("scale", "be above 0", scale)
        self.loss, self.samples, self.scale, self.seed, self.options = loss, samples, scale, seed, options
        self._generators: dict[torch.device, torch.Generator] = {}

    @property
    def traits(self) -> Traits:
        """Traits of the loss, without its second derivatives."""
        return traits_of(self.loss, self.options)._replace(curvature=None, pairs=None)

    def forward(self, scores: Any, labels: Any, *, noise: Tensor | None = None, **arguments: Any) -> Tensor:
        """Compute the mean of the loss over the noisy copies of the scores.

        Args:
            scores, labels: the lists; see `rankgrad.losses`.
            noise: tensor with the shape of `scores`, or `(samples, *scores.shape)`; with None, the noise is random.
            arguments: other keywords of `loss`, such as `mask` and `reduction`.
        """
        scores = as_tensor("scores", scores)
        scores = scores.to(compute_dtype(scores.dtype))  # noise in half precision would be too coarse
        if scores.is_nested:
            scores, arguments["offsets"] = scores.values(), scores.offsets()
            noise = noise.values() if noise is not None and noise.is_nested else noise
        if noise is None:
            noise = self._draw(scores)
        elif noise.shape == scores.shape:
            noise = noise[None]
        elif noise.shape[1:] != scores.shape:
            bad_value("noise", f"have the shape of scores, {tuple(scores.shape)}", tuple(noise.shape))
        noise = noise.to(scores.dtype)
        values = [self.loss(scores + self.scale * g, labels, **self.options, **arguments) for g in noise]
        return torch.stack(values).mean(0)

    if TYPE_CHECKING:
        __call__ = forward  # PyTorch's declaration returns Any

    def extra_repr(self) -> str:
        """Return the loss and the options of a gumbel loss as text, for `print`."""
        given = {"samples": self.samples, "scale": self.scale, **({} if self.seed is None else {"seed": self.seed})}
        return ", ".join(
            [loss_name(self.loss), *(f"{name}={value!r}" for name, value in {**given, **self.options}.items())]
        )

    def _draw(self, scores: Tensor) -> Tensor:
        generator = None
        if self.seed is not None:
            generator = self._generators.get(scores.device)
            if generator is None:
                generator = torch.Generator(scores.device).manual_seed(self.seed)
                self._generators[scores.device] = generator
        return gumbel_noise((self.samples, *scores.shape), like=scores, generator=generator)


def loss_name(loss: Any) -> str:
    """Return the spec, the name or the description of a loss, for `print` and for errors.

    Args:
        loss: a function or module of `rankgrad.losses`, or a custom loss.
    """
    known = getattr(loss, "text", None) or getattr(loss, "__name__", None)
    return str(known or (type(loss).__name__ if isinstance(loss, nn.Module) else describe(loss)))
