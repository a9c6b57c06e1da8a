"""Differentiable ranks and permutations. Each operator is a frozen dataclass with four methods:

`.permutation(scores, mask)` returns a soft permutation matrix, `.ranks(scores, mask)` returns soft ranks from 1,
`.sort(scores, mask)` returns softly sorted scores, and `.top_k(scores, k, mask)` returns how much of each document
is in the first k ranks. All results are differentiable. They converge to the exact results as the temperature
decreases.

If an operator defines only permutations, the soft rank of a document is the mean of the ranks 1 to n, weighted by the
document's column of the permutation. If an operator defines only ranks, the function `lift` makes the permutation: it
divides each document between the two integer ranks next to its soft rank.
"""

from rankgrad.relax.fast_sort import fast_sort
from rankgrad.relax.gumbel import gumbel_noise
from rankgrad.relax.neural_sort import neural_sort
from rankgrad.relax.optimal_transport import optimal_transport
from rankgrad.relax.relaxation import Relaxation, lift
from rankgrad.relax.sigmoid_ranks import sigmoid_ranks
from rankgrad.relax.sinkhorn import sinkhorn
from rankgrad.relax.smoothi import smoothi
from rankgrad.relax.soft_rank import soft_rank
from rankgrad.relax.soft_sort import soft_sort

__all__ = [
    "Relaxation",
    "fast_sort",
    "gumbel_noise",
    "lift",
    "neural_sort",
    "optimal_transport",
    "sigmoid_ranks",
    "sinkhorn",
    "smoothi",
    "soft_rank",
    "soft_sort",
]
