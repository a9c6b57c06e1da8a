"""Differentiable ranks and permutations. An operator is a frozen value with four methods:

`.permutation(scores, mask)` gives a soft permutation matrix, `.ranks(scores, mask)` soft ranks from 1,
`.sort(scores, mask)` softly sorted scores and `.top_k(scores, k, mask)` soft membership in the first k. All are
differentiable, all tend to the exact answer as the temperature falls.

An operator that knows only permutations gives the mean rank of each column; one that knows only ranks is lifted to a
permutation by sharing each document between its two neighbouring ranks (`lift`).
"""

from rankgrad.relax.fast_sort import fast_sort
from rankgrad.relax.gumbel import gumbel_noise
from rankgrad.relax.neural_sort import neural_sort, sinkhorn
from rankgrad.relax.optimal_transport import optimal_transport
from rankgrad.relax.relaxation import Relaxation, lift
from rankgrad.relax.sigmoid_ranks import sigmoid_ranks
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
