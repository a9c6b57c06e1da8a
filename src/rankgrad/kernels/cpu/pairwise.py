"""CPU kernels of the family `pairwise`: RankNet, hinge, LambdaRank, LambdaLoss. The loops are in `pair_loops.py`.

The losses are sums over ordered pairs. Documents are sorted in descending order of scores. So the rank of a document
is its position, and each pair (i, j) is processed once, with document i before document j.

With e = exp(sigma s), the probability that j wins is q = e_j / (e_i + e_j) <= 1/2. So n^2 pairs need only n
exponentials. Let B be the weight with which j should win. Let A be the sum of B and the weight with which i should win.
Then

    value += A (-log(1 - q)) + B sigma (s_i - s_j),    d value / d s_j = -d value / d s_i = sigma (A q - B).

A polynomial approximates the logarithm. If e would overflow, an exponential is computed for each pair.
"""

from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial
from numpy.typing import NDArray
from torch import Tensor

from rankgrad.kernels.cpu import FlatLists, KernelOutputs, launch
from rankgrad.kernels.cpu.order import bits
from rankgrad.kernels.cpu.pair_loops import (
    EVERY,
    EXPONENTIAL,
    HINGE,
    LABEL,
    LINEAR,
    ORDERED,
    STEPPED,
    SWAPPED,
    WIDTH,
    pairwise_kernel,
)
from rankgrad.kernels.options import Gains, Pairs, PairwiseOptions, Scheme, Truncation

LONG, STRIPS = 1024, 4  # a list with more than LONG documents has STRIPS tasks, each with separate sums
UNCUT = 1 << 62


class Plan(NamedTuple):
    """A pairwise loss and its options, in the form that the CPU kernel reads.

    Each field that is an array has one entry per rank or per rank distance.
    """

    kind: int
    gained: int
    rows: int  # a pair counts only if the better of its two ranks is at most `rows`
    columns: int  # a pair counts only if the worse of its two ranks is at most `columns`
    ideal: NDArray[Any]  # discount of each rank in the ideal DCG, 0 after the cutoff
    # STEPPED: the weight of the pair of ranks i < j is |gain_i - gain_j| (worth_i - worth_j + step_(j-i)) lift_j.
    # SWAPPED: the weight is |gain_i - gain_j| (worth_i - worth_j).
    # EVERY: each pair counts twice, once with each document as the winner i. The weight is gain_i worth_i.
    worth: NDArray[Any]
    step: NDArray[Any]
    lift: NDArray[Any]


def run(
    name: str,
    scores: Tensor,
    labels: Tensor,
    weights: Tensor | None,
    mask: Tensor | None,
    offsets: Tensor | None,
    n: int,
    params: Tensor,
    options: PairwiseOptions,
    gradient: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Run the operator on the CPU for a loss of the family `pairwise`."""
    flat = FlatLists.of(scores, labels, weights, mask, offsets, n)
    results = KernelOutputs.like(flat, params.shape[0], gradient)
    longest = n if offsets is None else int(np.diff(flat.offsets).max(initial=1))
    dtype = flat.scores.dtype
    chosen = plan_of(name, options, longest, dtype)
    steep = dtype.type(options.margin if name == "hinge" else options.sigma)
    given = (*flat, bits(flat.scores), bits(flat.labels))
    launch(pairwise_kernel(chosen.kind), given, results[:3], (*chosen[1:], steep), logarithm(dtype), *_work(flat))
    return results.tensors()


def _work(flat: FlatLists) -> tuple[tuple[NDArray[Any], ...], tuple[NDArray[Any], ...]]:
    """Allocate the work arrays of the CPU kernel of a pairwise loss, in two groups.

    The first group has the data of the documents by rank. The second group has positions, numbers of documents, and
    data of the tasks.
    """
    lengths = np.diff(flat.offsets)
    strips = np.where(lengths <= LONG, 1, STRIPS)
    tasks, begin = np.zeros(len(lengths) + 1, np.int64), np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(strips, out=tasks[1:])
    np.cumsum(strips * lengths, out=begin[1:])
    documents = np.empty((4, len(flat.scores) + WIDTH * len(lengths)), flat.scores.dtype)
    place, count = np.empty(len(flat.scores), np.int64), np.empty(len(lengths), np.int64)
    owner = np.repeat(np.arange(len(lengths)), strips)
    return (*documents,), (place, count, owner, tasks, begin, np.empty(tasks[-1]), np.empty(begin[-1]))


def plan_of(name: str, options: PairwiseOptions, longest: int, dtype: np.dtype[Any]) -> Plan:
    """Return the plan of a pairwise loss for the CPU kernel. The plan does not depend on sigma or margin."""
    fields = (options.k, options.pairs, options.gain, options.scheme, options.truncation, options.mu)
    return _plan(name, *fields, 1 << longest.bit_length(), dtype)


@lru_cache(maxsize=16)  # few plans, because tables are as long as the longest list
def _plan(
    name: str,
    k: int,
    pairs: Pairs,
    gain: Gains,
    scheme: Scheme,
    truncation: Truncation,
    mu: float,
    size: int,
    dtype: np.dtype[Any],
) -> Plan:
    """Return the plan of a pairwise loss for the CPU kernel and lists with up to `size` documents."""
    sound = truncation == Truncation.SOUND
    one, rank = np.ones(size + WIDTH), np.arange(1, size + WIDTH + 1)
    inverse = 1.0 / np.log2(1.0 + rank)
    within = rank <= (k or UNCUT)
    # For two ranks with distance d > 0, step[WIDTH + d] is the difference of the discounts of ranks d and d + 1.
    step = np.concatenate([np.zeros(WIDTH + 1), inverse[:-1] - inverse[1:]])
    rows = k if k and not sound else UNCUT
    columns = k if k and pairs == Pairs.BOTH else UNCUT
    gained = LINEAR if gain == Gains.LINEAR else EXPONENTIAL
    kind, worth, lift = STEPPED, 0 * one, one
    if name in ("ranknet", "hinge"):
        kind, gained = ORDERED if name == "ranknet" else HINGE, LABEL
    elif name == "lambdarank":
        kind, worth = SWAPPED, inverse * within
    elif scheme == Scheme.NDCG1:
        kind, worth = EVERY, inverse
    elif scheme == Scheme.NDCG2PP:
        worth, step = inverse, mu * step
    elif scheme == Scheme.ARP1:
        kind, gained, worth = EVERY, LABEL, one
    elif scheme == Scheme.ARP2:
        gained, step = LABEL, np.ones(len(step))
    if sound:
        lift = np.where(within, 1.0, 1.0 / (1.0 - np.minimum(inverse, 0.75)))  # rank 1 is never the worse rank
    tables = [table.astype(dtype) for table in (inverse * within, worth, step, lift)]
    return Plan(kind, gained, rows, columns, *tables)


@cache
def logarithm(dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the coefficients of a polynomial for the logistic loss of a pair, for the CPU kernel.

    The polynomial approximates -log(1 - q) for q in [0, 1/2]. For float32, it is a polynomial in q. For float64, it is
    a polynomial in q / (2 - q) with odd powers only.
    """
    if dtype.itemsize == 4:
        fitted = Chebyshev.interpolate(lambda q: -np.log1p(-q) / q, 9, domain=[0, 1 / 2])
    else:
        fitted = Chebyshev.interpolate(lambda zz: 2 * np.arctanh(np.sqrt(zz)) / np.sqrt(zz), 9, domain=[0, 1 / 9])
    return fitted.convert(kind=Polynomial).coef.astype(dtype)
