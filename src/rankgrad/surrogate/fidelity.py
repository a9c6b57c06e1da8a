"""Measure the correlation of a surrogate with its metric, for each list length and each distribution of scores."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rankgrad.metrics import dcg, ndcg
from rankgrad.surrogate.generated_lists import SHAPES, draw

LENGTHS = (5, 10, 20, 40, 50, 100, 200)
# Pretraining with seed S draws the lists of a step with the seed S * 2^24 + step. The random generator of a CPU
# uses only 32 bits of a seed. So 2^40 has no effect on a CPU, and the seeds of `fidelity` begin at 50,000. A run with
# seed 0 and fewer than 50,000 steps never draws the lists of `fidelity`.
HELD_OUT = 2**40

Surrogate = Callable[[Tensor, Tensor, Tensor], Tensor]


class FidelityRow(NamedTuple):
    """Spearman correlations for the lists of one length and one distribution of scores (shape)."""

    length: int  # number of documents of each list
    shape: str  # name of the distribution of scores; "all" means the lists of all shapes together
    dcg: float  # correlation with the true DCG, with the same gain as in pretraining
    # Correlation with the true NDCG with exponential gain. The value of a surrogate of DCG is first divided by the
    # ideal DCG. So a surrogate that uses only the labels has no advantage here.
    ndcg: float


@torch.no_grad()
def fidelity(
    surrogate: Surrogate,
    *,
    target: str,
    grades: int,
    lengths: Iterable[int] = LENGTHS,
    shapes: Iterable[str] = tuple(SHAPES),
    lists: int = 100,
    seed: int = 0,
    device: Any = "cpu",
) -> list[FidelityRow]:
    """Compute rank correlations between a surrogate and the true metric, on lists that pretraining did not use.

    Args:
        surrogate: function that returns one value per list. Its arguments are scores in [0, 1], labels and mask, each
            `(lists, n)`.
        target: metric that the surrogate estimates: `"dcg"` (linear gain) or `"ndcg"` (exponential gain).
        grades: number of label values, 3 or 5.
        lengths: lengths of the lists.
        shapes: distributions of the scores, names in `SHAPES`.
        lists: number of lists for each combination of length and shape.
        seed: random seed of the lists.
        device: device of the lists and the surrogate.

    Example:
        >>> exact = lambda scores, labels, mask: ndcg(scores, labels, mask=mask, reduction="none")
        >>> fidelity(exact, target="ndcg", grades=5, lengths=[5], shapes=["tent"], lists=50)[-1].ndcg > 0.9999
        True
    """
    rows, generator = [], torch.Generator(device)
    names = list(shapes)
    for length in lengths:
        found = []
        for number, shape in enumerate(names):
            generator.manual_seed(HELD_OUT + 10_000 * length + 100 * number + seed)
            scores, labels = draw(lists, length, grades, shape=shape, generator=generator)
            found.append(_compared(surrogate, scores, labels, target))
            rows.append(FidelityRow(length, shape, *_correlations(found[-1])))
        rows.append(FidelityRow(length, "all", *_correlations(torch.cat(found, 1))))
    return rows


def _compared(surrogate: Surrogate, scores: Tensor, labels: Tensor, target: str) -> Tensor:
    """Return four values of surrogate and metric for each list with a relevant document, `(4, lists)`.

    These are the DCG of the surrogate, the true DCG, the NDCG of the surrogate, and the true NDCG.
    """
    some = (labels > 0).any(-1)
    scores, labels = scores[some], labels[some]
    value = surrogate(scores, labels, torch.ones_like(scores, dtype=torch.bool))
    gain = "linear" if target == "dcg" else "exp"
    ideal = dcg(labels, labels, gain=gain, reduction="none")
    surrogate_dcg, surrogate_ndcg = (value, value / ideal) if target == "dcg" else (value * ideal, value)
    true_dcg = dcg(scores, labels, gain=gain, reduction="none")
    return torch.stack([surrogate_dcg, true_dcg, surrogate_ndcg, ndcg(scores, labels, reduction="none")]).cpu()


def _correlations(compared: Tensor) -> tuple[float, float]:
    value, true, normal_value, normal_true = compared.double()
    return _spearman(value, true), _spearman(normal_value, normal_true)


def _spearman(one: Tensor, other: Tensor) -> float:
    """Return Spearman's correlation of surrogate and metric, or 0 if one is constant. Ties get their mean rank."""
    from scipy.stats import spearmanr

    if one.min() == one.max() or other.min() == other.max():
        return 0.0
    return round(float(spearmanr(one.numpy(), other.numpy()).statistic), 4)
