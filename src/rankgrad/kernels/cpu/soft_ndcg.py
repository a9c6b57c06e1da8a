"""CPU kernels of the family `soft_ndcg`: NDCG computed from the soft ranks of SoftSort and FastSort, in float64.

Documents are in descending order of scores. SoftSort's matrix, before its rows are divided by their sums, is symmetric:
e(i, j) = exp(-|x_i - x_j|^p). For p = 1, an entry is a product over the gaps between i and j. So the product of the
matrix and a vector needs two cumulative sums, in O(n). For p = 2, only entries in a band around the diagonal count.
FastSort uses the algorithm "pool adjacent violators", with a stack.
"""

import math

import numpy as np
from torch import Tensor

from rankgrad.kernels.cpu import FlatLists, KernelOutputs, discounts, helper, kernel, launch
from rankgrad.kernels.cpu.exponential import exp
from rankgrad.kernels.cpu.ideal import descending_gains
from rankgrad.kernels.cpu.order import bits
from rankgrad.kernels.cpu.parallel import spread
from rankgrad.kernels.options import Regularisation, SoftNDCGOptions

_LOG_2 = math.log(2.0)
# Entries of the matrix in `_similarity_product`: e (ENTRIES), or the derivatives of e (DERIVATIVES).
# NumPy booleans, because Numba would compile again for each Python boolean.
ENTRIES, DERIVATIVES = np.bool_(False), np.bool_(True)


def run(
    name: str,
    scores: Tensor,
    labels: Tensor,
    weights: Tensor | None,
    mask: Tensor | None,
    offsets: Tensor | None,
    n: int,
    params: Tensor,
    options: SoftNDCGOptions,
    gradient: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Run the operator on the CPU for softsort_ndcg or fastsort_ndcg."""
    flat = FlatLists.of(scores, labels, None, mask, offsets, n)
    results = KernelOutputs.like(flat, 0, gradient)
    softsort = name == "softsort_ndcg"
    form = options.p if softsort else int(options.regularisation == Regularisation.ENTROPIC)
    tables = (bits(flat.scores), bits(flat.labels), discounts(flat.longest))
    numbers = (options.k, options.beta, options.temperature, form)
    launch(_softsort if softsort else _fastsort, flat.unweighted, results[:3], tables, numbers)
    return results.tensors()


@kernel
def _softsort(given, out, tables, numbers):
    """Compute softsort_ndcg of all lists on the CPU, with one task per list."""
    spread(_softsort_list, len(out[0]), (given, out, tables, numbers))


@kernel
def _fastsort(given, out, tables, numbers):
    """Compute fastsort_ndcg of all lists on the CPU, with one task per list."""
    spread(_fastsort_list, len(out[0]), (given, out, tables, numbers))


@helper
def _finish(l, place, slope, value, out):
    """Write the value and the slopes of a list to the outputs of softsort_ndcg or fastsort_ndcg on the CPU."""
    values, _, slopes = out
    values[l] = value
    for i in range(len(place) if len(slopes) > 0 else 0):
        slopes[place[i]] = slope[i]


@helper
def _ndcg(rank, gain, k, beta, by_rank):
    """Return minus the NDCG of a list at SoftSort's or FastSort's soft ranks. Fill `by_rank` with the derivatives."""
    value = 0.0
    for i in range(len(rank)):
        by_rank[i] = 0.0
        if gain[i] == 0.0:
            continue
        discount = math.log1p(rank[i]) / _LOG_2
        inside = 1.0 / (1.0 + math.exp(-beta * (k + 0.5 - rank[i]))) if k > 0 else 1.0
        fading = -beta * inside * (1.0 - inside) if k > 0 else 0.0
        value -= gain[i] * inside / discount
        by_rank[i] = -gain[i] * (fading - inside / (discount * _LOG_2 * (1.0 + rank[i]))) / discount
    return value


@helper
def _softsort_list(l, given, out, tables, numbers):
    """Compute the value and the slopes of softsort_ndcg for one list on the CPU.

    The soft rank of a document is the mean of all ranks, weighted by the document's column of SoftSort's matrix.
    """
    score_bits, label_bits, discount = tables
    k, beta, temperature, p = numbers
    place, score, gain = descending_gains(l, given, out, score_bits, label_bits, discount, k)
    m = len(place)
    if m == 0:
        return
    per_unit = 1.0 / temperature if p == 1 else 1.0 / math.sqrt(temperature)
    reach = np.empty((2, m))  # row 0: exp(-scaled gap before a document), for p = 1; row 1: its scaled score, for p = 2
    for i in range(m):
        reach[0, i] = exp((score[i] - score[max(i - 1, 0)]) * per_unit)
        reach[1, i] = score[i] * per_unit
    own = _own_ranks(score)
    vectors, made = np.empty((6, m)), np.empty((6, m))
    for i in range(m):
        vectors[0, i] = 1.0
    _similarity_product(vectors[:1], made[:1], score, reach, p, ENTRIES)
    for i in range(m):
        vectors[1, i] = 1.0 / made[0, i]
        vectors[2, i] = own[i] / made[0, i]
    _similarity_product(vectors[1:3], made[1:3], score, reach, p, ENTRIES)
    rank, by_rank = np.empty(m), np.empty(m)
    for i in range(m):
        rank[i] = made[2, i] / made[1, i]
    value = _ndcg(rank, gain, k, beta, by_rank)
    for i in range(m):
        vectors[3, i] = -by_rank[i] * rank[i] / made[1, i]
        vectors[4, i] = by_rank[i] / made[1, i]
    _similarity_product(vectors[3:5], made[3:5], score, reach, p, ENTRIES)
    for i in range(m):
        vectors[5, i] = -(made[3, i] + own[i] * made[4, i]) * vectors[1, i] * vectors[1, i]
    # An entry is in the matrix twice, at (i, j) and at (j, i). Each time it is multiplied by two of the vectors.
    _similarity_product(vectors, made, score, reach, p, DERIVATIVES)
    for i in range(m):
        pairs = (
            vectors[1, i] * made[3, i]
            + vectors[3, i] * made[1, i]
            + vectors[2, i] * made[4, i]
            + vectors[4, i] * made[2, i]
        )
        by_rank[i] = (pairs + vectors[0, i] * made[5, i] + vectors[5, i] * made[0, i]) * per_unit
    _finish(l, place, by_rank, value, out)


@helper
def _own_ranks(score):
    """Return the rank of each document for SoftSort on the CPU. Tied documents have the mean of their ranks.

    Tied documents have the same weight in soft ranks, so the mean does not change the soft ranks. But with the mean,
    the slopes do not depend on the order of tied documents in the input.
    """
    rank = np.empty(len(score))
    first = 0
    for i in range(1, len(score) + 1):
        if i == len(score) or score[i] != score[first]:
            rank[first:i] = 0.5 * (first + 1 + i)
            first = i
    return rank


@helper
def _similarity_product(given, made, score, reach, p, slanted):
    """Multiply, on the CPU, SoftSort's matrix by the vectors `given (vectors, m)`, and write the products to `made`.

    The matrix has the entries e(i, j) or, if `slanted`, the derivatives of e(i, j) with respect to x_i.
    """
    m = len(score)
    if p == 1:
        for a in range(len(given)):
            for backwards in (False, True):
                carry = level = 0.0
                for step in range(m):
                    i = m - 1 - step if backwards else step
                    near = i + 1 if backwards else i - 1
                    # Ties have e = 1 but no derivative, so they are added to `carry` together.
                    if step > 0 and (not slanted or score[i] != score[near]):
                        carry = (carry + level) * reach[0, max(i, near)]
                        level = 0.0
                    level += given[a, i]
                    if not backwards:
                        made[a, i] = carry if slanted else carry + level
                    else:
                        made[a, i] += -carry if slanted else carry
        return
    x = reach[1]
    row = np.empty(m)
    low = high = 0
    for i in range(m):
        while (x[low] - x[i]) ** 2 > 80.0:
            low += 1
        while high < m and (x[high] - x[i]) ** 2 <= 80.0:
            high += 1
        # Slices, because loops over them are vectorised.
        others, entries = x[low:high], row[: high - low]
        for j in range(len(others)):
            apart = others[j] - x[i]
            entries[j] = exp(-apart * apart) * (2.0 * apart if slanted else 1.0)
        for a in range(len(given)):
            vector = given[a, low:high]
            total = 0.0
            for j in range(len(vector)):
                total += entries[j] * vector[j]
            made[a, i] = total


@helper
def _fastsort_list(l, given, out, tables, numbers):
    """Compute the value and the slopes of fastsort_ndcg for one list on the CPU.

    The soft ranks are the projection of -s / temperature onto the permutahedron of the ranks.
    """
    score_bits, label_bits, discount = tables
    k, beta, temperature, entropic = numbers
    place, score, gain = descending_gains(l, given, out, score_bits, label_bits, discount, k)
    m = len(place)
    if m == 0:
        return
    z, start = np.empty(m + 1), np.empty(m + 1, np.int64)
    pooled, ranks = np.empty(m), np.empty(m)  # sums per block: of z - first z (entropic: of exp(z - first z)); of ranks
    level = m * 2.0**-52  # tolerance for rounding errors: blocks at the same level are not merged
    blocks = 0
    for i in range(m):  # from the lowest score, which has rank m
        z[i] = -score[m - 1 - i] / temperature
        start[blocks], start[blocks + 1], pooled[blocks], ranks[blocks] = i, i + 1, float(entropic), m - i
        blocks += 1
        while blocks > 1:
            a, b = blocks - 2, blocks - 1
            apart = z[start[a]] - z[start[b]]
            size_a, size_b = start[b] - start[a], start[b + 1] - start[b]
            if entropic:
                between = math.log(pooled[a] / pooled[b]) - math.log(ranks[a] / ranks[b])
            else:
                between = (pooled[a] - ranks[a]) / size_a - (pooled[b] - ranks[b]) / size_b
            if apart + between >= -level * (abs(apart) + abs(between)):
                break
            pooled[a] += pooled[b] * math.exp(-apart) if entropic else pooled[b] - size_b * apart
            ranks[a] += ranks[b]
            start[b] = start[b + 1]
            blocks -= 1
    rank, by_rank = np.empty(m), np.empty(m)
    for b in range(blocks):
        for i in range(start[b], start[b + 1]):
            apart = z[i] - z[start[b]]
            if entropic:
                rank[m - 1 - i] = math.exp(apart) / pooled[b] * ranks[b]
            else:
                rank[m - 1 - i] = apart + (ranks[b] - pooled[b]) / (start[b + 1] - start[b])
    value = _ndcg(rank, gain, k, beta, by_rank)
    for b in range(blocks):
        total = 0.0
        for i in range(start[b], start[b + 1]):
            total += by_rank[m - 1 - i] * (rank[m - 1 - i] if entropic else 1.0)
        for i in range(start[b], start[b + 1]):
            j = m - 1 - i
            by_z = (
                rank[j] * (by_rank[j] - total / ranks[b])
                if entropic
                else by_rank[j] - total / (start[b + 1] - start[b])
            )
            by_rank[j] = -by_z / temperature
    _finish(l, place, by_rank, value, out)
