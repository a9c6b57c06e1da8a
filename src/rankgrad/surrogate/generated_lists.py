"""Generate random lists with scores in [0, 1] from nine distributions, mostly low labels, and different orders."""

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import torch
from torch import Generator, Tensor

# Probability of each label, as in the paper of NeuralLoss. The key is the number of label values.
PRIORS = {3: (0.75, 0.2, 0.05), 5: (0.515, 0.325, 0.134, 0.018, 0.008)}

Uniform = Callable[[], Tensor]  # function that returns random numbers in (0, 1), `(lists, n)`


def _normal(uniform: Tensor, mean: float, deviation: float) -> Tensor:
    """Convert uniform random numbers to scores with a normal distribution that is truncated to [0, 1].

    The function applies the inverse of the cumulative distribution function.
    """
    low, high = (math.erf((end - mean) / deviation / math.sqrt(2)) for end in (0.0, 1.0))
    return mean + deviation * math.sqrt(2) * torch.erfinv(low + (high - low) * uniform)


def _either(uniform: Uniform, share: float, one: tuple[float, float], other: tuple[float, float]) -> Tensor:
    """Sample each score from the normal distribution `one` with probability `share`, otherwise from `other`."""
    return torch.where(uniform() < share, _normal(uniform(), *one), _normal(uniform(), *other))


# Shapes of the distribution of scores: functions that draw scores in [0, 1], by the name of the shape.
SHAPES: dict[str, Callable[[Uniform], Tensor]] = {
    "uniform": lambda u: u(),
    "normal": lambda u: _normal(u(), 0.5, 0.15),
    "low normal": lambda u: _normal(u(), 0.2, 0.15),
    "high normal": lambda u: _normal(u(), 0.8, 0.15),
    "rising ramp": lambda u: u().sqrt(),
    "falling ramp": lambda u: 1.0 - u().sqrt(),
    "tent": lambda u: (u() + u()) / 2,
    "two humps": lambda u: _either(u, 0.5, (0.25, 0.1), (0.75, 0.1)),
    "few high": lambda u: _either(u, 0.85, (0.15, 0.1), (0.8, 0.1)),
}


def draw(
    lists: int,
    n: int,
    grades: int,
    *,
    shape: str | None = None,
    pairing: str = "mixed",
    generator: Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Generate random scores and labels for lists of n documents, both `(lists, n)`, on the device of the generator.

    `pairing` is the relation between scores and labels. With `"mixed"`, about 3 of 10 lists are in random order. In the
    other lists, documents with high labels tend to have high scores. With `"published"`, about half of the lists are in
    random order. In the other lists, each score is label / grades, so the order is ideal.

    Args:
        lists, n: number of lists, number of documents per list.
        grades: number of label values, 3 or 5; `PRIORS` contains the probability of each label.
        shape: distribution of the scores, a name in `SHAPES`; with None, each shape is used for about the same number
            of lists.
        pairing: `"mixed"` or `"published"`.
        generator: source of random numbers.

    Example:
        >>> scores, labels = draw(2, 4, 3, shape="tent", generator=torch.Generator().manual_seed(0))
        >>> scores.shape, float(labels.max()) <= 2
        (torch.Size([2, 4]), True)
    """
    device = "cpu" if generator is None else generator.device

    def uniform(many: int, long: int = n) -> Tensor:
        return torch.rand((many, long), generator=generator, device=device)

    edges = torch.tensor(PRIORS[grades], device=device).cumsum(0)[:-1]
    labels = torch.bucketize(uniform(lists), edges).float()
    names = [*SHAPES] if shape is None else [shape]
    ends = [lists * end // len(names) for end in range(len(names) + 1)]
    parts = [
        SHAPES[name](partial(uniform, high - low)) for name, (low, high) in zip(names, pairwise(ends), strict=True)
    ]
    scores = torch.cat(parts)
    if pairing == "published":
        return torch.where(uniform(lists, 1) < 0.5, scores, labels / grades), labels
    # Sort the documents by label plus noise, and assign the sorted scores to them in this order.
    pull = 1.5 * uniform(lists, 1) * (uniform(lists, 1) < 0.7)
    order = pull * labels + torch.randn((lists, n), generator=generator, device=device)
    return scores.sort(-1).values.gather(-1, order.argsort(-1).argsort(-1)), labels
