"""Every operator of `rankgrad.relax` in plain loops, for the scores of one list."""

import itertools
import math

import references_metrics


def sigmoid(x):
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def softmax(row):
    powers = [math.exp(x - max(row)) for x in row]
    return [power / sum(powers) for power in powers]


def sigmoid_ranks(scores, temperature=1.0):
    n = len(scores)
    return [1 + sum(sigmoid((scores[j] - scores[i]) / temperature) for j in range(n) if j != i) for i in range(n)]


def neural_sort(scores, temperature=1.0):
    n = len(scores)
    spread = [sum(abs(s - t) for t in scores) for s in scores]
    return [
        softmax([((n + 1 - 2 * r) * scores[j] - spread[j]) / temperature for j in range(n)]) for r in range(1, n + 1)
    ]


def soft_sort(scores, temperature=1.0, p=1):
    return [softmax([-(abs(top - s) ** p) / temperature for s in scores]) for top in sorted(scores, reverse=True)]


def sinkhorn(matrix, rounds):
    matrix = [list(row) for row in matrix]
    for _ in range(rounds):
        columns = [sum(column) for column in zip(*matrix, strict=True)]
        matrix = [[x / c for x, c in zip(row, columns, strict=True)] for row in matrix]
        matrix = [[x / sum(row) for x in row] for row in matrix]
    return matrix


def optimal_transport(scores, temperature=0.01, rounds=30):
    """Sinkhorn scaling of exp(-cost / epsilon), costs being at most 1."""
    n, low, high = len(scores), min(scores), max(scores)
    x = [(s - low) / (high - low) if high > low else 0.0 for s in scores]
    z = [(n - r) / (n - 1) if n > 1 else 0.0 for r in range(1, n + 1)]
    return sinkhorn([[math.exp(-((a - b) ** 2) / temperature) for b in x] for a in z], rounds)


def smoothi(scores, alpha=1.0, delta=0.1):
    n = len(scores)
    shifted = [s - min(scores) for s in scores]
    left, rows = [1.0] * n, []
    for _ in range(n):
        rows.append(softmax([alpha * shifted[j] * left[j] for j in range(n)]))
        left = [left[j] * (1 - rows[-1][j] - delta) for j in range(n)]
    return rows


def soft_rank(scores, sigma=1.0):
    """Rank distributions by enumeration: every set of documents that may be above document j."""
    n = len(scores)
    rows = [[0.0] * n for _ in range(n)]
    for j in range(n):
        others = [i for i in range(n) if i != j]
        beats = {i: 0.5 * math.erfc(-(scores[i] - scores[j]) / (2 * sigma)) for i in others}
        for above in itertools.product([False, True], repeat=len(others)):
            chance = math.prod(beats[i] if up else 1 - beats[i] for i, up in zip(others, above, strict=True))
            rows[sum(above)][j] += chance
    return rows


def fast_sort(scores, temperature=1.0, regularisation="l2"):
    """Soft ranks: the projection of -s / epsilon, by the slow min-max form of isotonic regression."""
    return project([-s / temperature for s in scores], list(range(len(scores), 0, -1)), regularisation)


def project(z, w, regularisation="l2"):
    """The point of the permutahedron of `w` (falling) nearest to z; for `"entropic"` in KL divergence to exp(z)."""
    order = references_metrics.stable_order(z)
    ordered = [z[i] for i in order]

    def level(block):
        if regularisation == "l2":
            return sum(ordered[i] - w[i] for i in block) / len(block)
        top = max(ordered[i] for i in block)
        return top + math.log(sum(math.exp(ordered[i] - top) for i in block)) - math.log(sum(w[i] for i in block))

    n, answer = len(z), [0.0] * len(z)
    for i in range(n):
        value = min(max(level(range(j, k + 1)) for k in range(i, n)) for j in range(i + 1))
        answer[order[i]] = ordered[i] - value if regularisation == "l2" else math.exp(ordered[i] - value)
    return answer


def lift(ranks):
    n = len(ranks)
    return [[max(0.0, 1 - abs(r - rank)) for rank in ranks] for r in range(1, n + 1)]


def mean_ranks(permutation):
    columns = list(zip(*permutation, strict=True))
    return [sum(r * share for r, share in enumerate(column, 1)) / sum(column) for column in columns]
