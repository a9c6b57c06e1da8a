"""Every loss in plain loops, as its formula reads: the scores and labels of one list in, a number out.

One function for each member of `rankgrad.losses.__all__`, of the same name. A list without signal gives 0.
"""

import functools
import itertools
import math
import statistics

import references_metrics
import references_neural as neural
import references_relax as relax
from references_relax import sigmoid


def _signal(kind):
    """What a list needs, or its loss is 0, in the words of `rankgrad.losses.traits.Traits`."""

    def decorate(loss):
        @functools.wraps(loss)
        def guarded(scores, labels, **options):
            return loss(list(scores), list(labels), **options) if carries(kind, labels, options) else 0.0

        guarded.signal = kind
        return guarded

    return decorate


def carries(kind, labels, options):
    if kind == "a document":
        return len(labels) > 0
    if kind == "two documents":
        return len(labels) > 1
    if kind == "two different labels":
        return len(set(labels)) > 1
    assert kind == "a relevant document", kind
    return any(y > options.get("threshold", 0.0) for y in labels)


@_signal("a document")
def mse(scores, labels, weights=None):
    w = _ones(weights, labels)
    return sum(w[i] * (scores[i] - labels[i]) ** 2 for i in range(len(labels))) / len(labels)


@_signal("a document")
def rmse(scores, labels, levels, weights=None):
    return math.sqrt(mse([levels * sigmoid(s) for s in scores], labels, weights=weights))


@_signal("a document")
def bce(scores, labels, threshold=0.0, weights=None):
    w = _ones(weights, labels)
    total = 0.0
    for s, y, weight in zip(scores, labels, w, strict=True):
        total += weight * softplus(-s if y > threshold else s)
    return total / len(labels)


@_signal("two documents")
def margin_mse(scores, labels, weights=None):
    w, n = _ones(weights, labels), len(labels)
    total = 0.0
    for i in range(n):
        for j in range(i):
            total += w[i] * w[j] * ((scores[i] - scores[j]) - (labels[i] - labels[j])) ** 2
    return total / (sum(w) / n) / (n * (n - 1) / 2)


@_signal("two different labels")
def ranknet(scores, labels, k=None, pairs="any", sigma=1.0, weights=None):
    def weight(i, j):
        inside = [_rank(scores, d) <= (k or math.inf) for d in (i, j)]
        return float(any(inside) if pairs == "any" else all(inside))

    return _pairs(scores, labels, weight, sigma, weights)


@_signal("two different labels")
def hinge(scores, labels, margin=1.0, weights=None):
    w, total = _ones(weights, labels), 0.0
    for i, j in _ordered(labels):
        total += w[i] * max(0.0, margin - (scores[i] - scores[j]))
    return total


@_signal("two different labels")
def lambdarank(scores, labels, k=None, metric="ndcg", sigma=1.0, weights=None):
    return _pairs(scores, labels, lambda i, j: swap_difference(metric, scores, labels, i, j, k), sigma, weights)


@_signal("two different labels")
def lambdaloss(
    scores, labels, k=None, scheme="ndcg2", truncation=None, metric="ndcg", mu=10.0, sigma=1.0, weights=None
):
    if metric != "ndcg":
        return lambdarank(scores, labels, k=k, metric=metric, sigma=sigma, weights=weights)
    truncation = truncation or ("sound" if scheme == "ndcg2" else "heuristic")
    rank = [_rank(scores, i) for i in range(len(scores))]
    best = _ideal(labels, k)
    cut = k or math.inf

    def delta(i, j):
        gap = abs(rank[i] - rank[j])
        return 1 / _discount(gap) - 1 / _discount(gap + 1)

    def weight(i, j):
        gains = abs(_gain(labels[i]) - _gain(labels[j])) / best
        rho = abs(1 / _discount(rank[i]) - 1 / _discount(rank[j]))
        value = {
            "ndcg1": lambda: _gain(labels[i]) / best / _discount(rank[i]),
            "ndcg2": lambda: gains * delta(i, j),
            "ndcg2pp": lambda: gains * (rho + mu * delta(i, j)),
            "arp1": lambda: labels[i],
            "arp2": lambda: abs(labels[i] - labels[j]),
        }[scheme]()
        if truncation == "heuristic":
            return value if min(rank[i], rank[j]) <= cut else 0.0
        beyond = max(rank[i], rank[j])
        return value / (1 - 1 / _discount(beyond)) if beyond > cut else value

    return _pairs(scores, labels, weight, sigma, weights, every=scheme in ("ndcg1", "arp1"))


@_signal("a relevant document")
def softmax(scores, labels, weights=None):
    w, logp = _ones(weights, labels), log_softmax(scores)
    return -sum(w[i] * labels[i] * logp[i] for i in range(len(labels)))


@_signal("a relevant document")
def listnet(scores, labels, targets="sum", weights=None):
    w = _ones(weights, labels)
    share = [w[i] * (labels[i] if targets == "sum" else math.exp(labels[i])) for i in range(len(labels))]
    return -sum(p / sum(share) * l for p, l in zip(share, log_softmax(scores), strict=True))


@_signal("two different labels")
def listmle(scores, labels, weights=None, ties="together", noise=None):
    if ties == "random":
        by_noise = sorted(range(len(labels)), key=lambda i: -noise[i])
        scores, labels = [scores[i] for i in by_noise], [labels[i] for i in by_noise]
        weights = [weights[i] for i in by_noise] if weights else weights
        ties = "position"
    if ties in ("efron", "exact"):
        return sum(_tie_group(scores, labels, _ones(weights, labels), y, ties) for y in set(labels))
    return _plackett_luce(scores, labels, weights, lambda place, n: 1.0, ties)


@_signal("two different labels")
def p_listmle(scores, labels, weights=None, ties="together"):
    return _plackett_luce(scores, labels, weights, lambda place, n: (2 ** (n - place) - 1) / (2 ** (n - 1) - 1), ties)


@_signal("a relevant document")
def unique_softmax(scores, labels, weights=None):
    w, total = _ones(weights, labels), 0.0
    for i, (s, y) in enumerate(zip(scores, labels, strict=True)):
        against = [s] + [t for t, z in zip(scores, labels, strict=True) if z < y]
        total -= w[i] * _gain(y) * log_softmax(against)[0]
    return total


@_signal("a relevant document")
def listce(scores, labels, threshold=0.0, weights=None):
    w, logs = _ones(weights, labels), [-softplus(-s) for s in scores]
    return -sum(w[i] * log_softmax(logs)[i] for i, y in enumerate(labels) if y > threshold)


@_signal("a relevant document")
def poly1_softmax(scores, labels, epsilon=1.0, weights=None):
    w = _ones(weights, labels)
    share = [w[i] * labels[i] for i in range(len(labels))]
    hit = sum(p / sum(share) * math.exp(l) for p, l in zip(share, log_softmax(scores), strict=True))
    return softmax(scores, labels, weights=weights) + epsilon * (1 - hit)


@_signal("a relevant document")
def xe_ndcg(scores, labels, gamma=0.0, weights=None):
    w = _ones(weights, labels)
    gamma = [gamma] * len(labels) if isinstance(gamma, float) else gamma
    phi = [w[i] * (2 ** labels[i] - gamma[i]) for i in range(len(labels))]
    return -sum(p / sum(phi) * l for p, l in zip(phi, log_softmax(scores), strict=True))


@_signal("a relevant document")
def rank_cosine(scores, labels):
    if not any(scores):
        return 0.5
    product = sum(s * y for s, y in zip(scores, labels, strict=True))
    return (1 - product / math.hypot(*scores) / math.hypot(*labels)) / 2


@_signal("a relevant document")
def approx_ndcg(scores, labels, k=None, temperature=1.0, beta=10.0):
    return ndcg_at(relax.sigmoid_ranks(scores, temperature), labels, k, beta)


@_signal("a relevant document")
def approx_mrr(scores, labels, k=None, temperature=1.0, beta=10.0, threshold=0.0):
    ranks = relax.sigmoid_ranks(scores, temperature)
    relevant = [i for i, y in enumerate(labels) if y > threshold]
    logp = log_softmax([scores[i] / temperature for i in relevant])
    return -sum(math.exp(l) * cutoff(ranks[i], k, beta) / ranks[i] for i, l in zip(relevant, logp, strict=True))


@_signal("a relevant document")
def approx_ap(scores, labels, k=None, temperature=1.0, beta=10.0, threshold=0.0):
    ranks = relax.sigmoid_ranks(scores, temperature)
    relevant = [i for i, y in enumerate(labels) if y > threshold]
    total = 0.0
    for i in relevant:
        above = sum(sigmoid((scores[j] - scores[i]) / temperature) for j in relevant if j != i)
        total += (1 + above) / ranks[i] * cutoff(ranks[i], k, beta)
    return -total / len(relevant)


@_signal("a relevant document")
def approx_precision(scores, labels, k=10, temperature=1.0, beta=10.0, threshold=0.0):
    ranks = relax.sigmoid_ranks(scores, temperature)
    return -sum(cutoff(r, k, beta) for r, y in zip(ranks, labels, strict=True) if y > threshold) / k


@_signal("a relevant document")
def list_ap(scores, labels, bins=20, threshold=0.0):
    top, low = max(scores), min(scores)
    level = [1 + (bins - 1) * ((top - s) / (top - low) if top > low else 0.0) for s in scores]

    def near(b, only):
        return sum(max(0.0, 1 - abs(x - b)) for x, y in zip(level, labels, strict=True) if not only or y > threshold)

    total = every = found = 0.0
    for b in range(1, bins + 1):
        found += near(b, True)
        every += near(b, False)
        total += near(b, True) * found / every if every else 0.0
    return -total / found


@_signal("a relevant document")
def neural_ndcg(scores, labels, k=None, temperature=1.0, transposed=False, sinkhorn_rounds=30):
    n = len(scores)
    p = relax.neural_sort(scores, temperature)
    gains = [_gain(y) for y in labels]
    if transposed:
        unsort = relax.sinkhorn([list(column) for column in zip(*p, strict=True)], sinkhorn_rounds)
        discounts = [1 / _discount(r) if r <= (k or n) else 0.0 for r in range(1, n + 1)]
        return -sum(gains[j] * sum(unsort[j][r] * discounts[r] for r in range(n)) for j in range(n)) / _ideal(labels, k)
    p = relax.sinkhorn(p, sinkhorn_rounds)
    at = [sum(p[r][j] * gains[j] for j in range(n)) for r in range(n)]
    return -sum(at[r] / _discount(r + 1) for r in range(min(n, k or n))) / _ideal(labels, k)


@_signal("a relevant document")
def softrank_ndcg(scores, labels, k=None, sigma=1.0):
    return relaxed("ndcg", labels, permutation=relax.soft_rank(scores, sigma), k=k)


@_signal("a relevant document")
def smooth_ndcg(scores, labels, k=10, alpha=1.0, delta=0.1, stop_gradient=True):
    at = _at_ranks(scores, labels, k, alpha, delta)
    return -sum(_gain(y) / _discount(r) for r, y in enumerate(at, 1)) / _ideal(labels, k)


@_signal("a relevant document")
def smooth_precision(scores, labels, k=10, alpha=1.0, delta=0.1, stop_gradient=True, threshold=0.0):
    return -sum(_at_ranks(scores, [float(y > threshold) for y in labels], k, alpha, delta)) / k


@_signal("a relevant document")
def smooth_ap(scores, labels, k=None, alpha=1.0, delta=0.1, stop_gradient=True, threshold=0.0):
    at = _at_ranks(scores, [float(y > threshold) for y in labels], k, alpha, delta)
    total = sum(at[r] * sum(at[: r + 1]) / (r + 1) for r in range(len(at)))
    return -total / sum(y > threshold for y in labels)


@_signal("a relevant document")
def ot_ndcg(scores, labels, k=None, temperature=0.01, rounds=30):
    return ndcg_at(relax.mean_ranks(relax.optimal_transport(scores, temperature, rounds)), labels, k)


@_signal("a relevant document")
def fastsort_ndcg(scores, labels, k=None, temperature=1.0, regularisation="l2"):
    return ndcg_at(relax.fast_sort(scores, temperature, regularisation), labels, k)


@_signal("a relevant document")
def softsort_ndcg(scores, labels, k=None, temperature=1.0, p=1):
    return ndcg_at(relax.mean_ranks(relax.soft_sort(scores, temperature, p)), labels, k)


@_signal("a relevant document")
def LearnDCG(scores, labels, gain_base=2.0, discount_base=2.0, alpha=1.0, discount="log", k=None, beta=10.0):
    def d(r):
        u = discount_base - 1 if discount == "curved" else 1.0
        return math.log(1 + u * r) / math.log(discount_base)

    ranks = relax.sigmoid_ranks(scores, 1 / alpha)
    gains = [gain_base**y - 1 for y in labels]
    value = sum(g / d(r) * cutoff(r, k, beta) for g, r in zip(gains, ranks, strict=True))
    best = sorted(gains, reverse=True)[: k or len(gains)]
    return -value / sum(g / d(i) for i, g in enumerate(best, 1))


@_signal("a relevant document")
def NeuralLoss(scores, labels, grades=5, form="mended"):
    return neural.mended(scores, labels) if form == "mended" else neural.published(scores, labels, grades)


def relaxed(metric, labels, *, permutation=None, ranks=None, k=None, beta=10.0, threshold=0.0, max_label=4.0):
    """Minus a metric (plus, for ARP) of one list, on a soft permutation or on soft ranks."""
    if not carries("two different labels" if metric == "opa" else "a relevant document", labels, {"threshold": threshold}):
        return 0.0
    if metric == "opa":
        return -_soft_pairs(ranks or relax.mean_ranks(permutation), labels, k, beta)
    n, cut = len(labels), k or len(labels)
    relevant = [float(y > threshold) for y in labels]
    gains = [_gain(y) for y in labels]
    stops = [_gain(y) / 2**max_label for y in labels]
    if permutation is None and metric in ("rr", "ap", "err"):
        permutation = relax.lift(ranks)
    if permutation is None:
        keep = [cutoff(r, k, beta) for r in ranks]
        inside = [c * t for c, t in zip(keep, relevant, strict=True)]
        found, patient = sum(inside), sum(i * 0.8 ** (r - 1) for i, r in zip(inside, ranks, strict=True))
        dcg = sum(c * g / _discount(r) for c, g, r in zip(keep, gains, ranks, strict=True))
        shares = zip(keep, labels, ranks, strict=True)
        late = sum(y * (c * min(r, cut + 1 if k else r) + (1 - c) * (cut + 1)) for c, y, r in shares)
    else:
        at_rank = functools.partial(_expected, permutation)
        rel, stop = at_rank(relevant), at_rank(stops)
        share = [sum(column) for column in zip(*permutation, strict=True)]
        rel, stop = ([v / max(1, sum(p)) for v, p in zip(each, permutation, strict=True)] for each in (rel, stop))
        inside = [
            t * sum(column[:cut]) / sum(column)
            for t, column in zip(relevant, zip(*permutation, strict=True), strict=True)
        ]
        found = sum(inside) if metric == "recall" else sum(rel[:cut])
        patient = sum(v * 0.8**r for r, v in enumerate(rel[:cut]))
        dcg = sum(g / _discount(r) for r, g in enumerate(at_rank(gains)[:cut], 1))
        heavy = [y / s for y, s in zip(labels, share, strict=True)]
        late = sum(y * min(r, cut + 1) for r, y in enumerate(at_rank(heavy), 1))
    if metric in ("ndcg", "dcg"):
        return -dcg / (_ideal(labels, k) if metric == "ndcg" else 1.0)
    if metric in ("precision", "recall"):
        return -found / (cut if metric == "precision" else sum(relevant))
    if metric == "success":
        return math.prod(1 - i for i in inside) - 1
    if metric == "rbp":
        return -0.2 * patient
    if metric == "arp":
        return late / sum(labels)
    if metric == "ap":
        return -sum(rel[r] * sum(rel[: r + 1]) / (r + 1) for r in range(min(cut, n))) / sum(relevant)
    total, going_on = 0.0, 1.0
    for r, here in enumerate((rel if metric == "rr" else stop)[:cut], 1):
        total += going_on * here / r
        going_on *= max(0.0, 1 - here)
    return -total


def _soft_pairs(ranks, labels, k, beta):
    """Soft OPA at soft ranks."""
    right = sum(
        cutoff(ranks[i], k, beta) * sigmoid(beta * (ranks[j] - ranks[i]))
        for i, j in itertools.permutations(range(len(labels)), 2)
        if labels[i] > labels[j]
    )
    counted = sum(cutoff(r, k, beta) * sum(z < y for z in labels) for r, y in zip(ranks, labels, strict=True))
    return right / max(counted, references_metrics._pairs(sorted(labels, reverse=True), k))


def swap_difference(metric, scores, labels, i, j, k):
    """How much the metric of the ranked list changes when documents i and j trade places."""
    order = references_metrics.stable_order(scores)
    swapped = [{i: j, j: i}.get(d, d) for d in order]
    measure = references_metrics.ALL[metric]
    before, after = (measure([labels[d] for d in documents], k=k) for documents in (order, swapped))
    return abs(before - after) if before is not None else 0.0


def ndcg_at(ranks, labels, k=None, beta=10.0):
    """Minus NDCG at soft ranks: ApproxNDCG's formula."""
    value = sum(_gain(y) / _discount(r) * cutoff(r, k, beta) for r, y in zip(ranks, labels, strict=True))
    return -value / _ideal(labels, k)


def cutoff(rank, k, beta):
    return 1.0 if k is None else sigmoid(beta * (k + 0.5 - rank))


def log_softmax(scores):
    top = max(scores)
    return [s - top - math.log(sum(math.exp(t - top) for t in scores)) for s in scores]


def softplus(x):
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def _pairs(scores, labels, weight, sigma, weights, every=False):
    w, total = _ones(weights, labels), 0.0
    for i, j in _ordered(labels, every):
        total += w[i] * weight(i, j) * softplus(-sigma * (scores[i] - scores[j]))
    return total


def _ordered(labels, every=False):
    n = len(labels)
    return [(i, j) for i in range(n) for j in range(n) if i != j and (every or labels[i] > labels[j])]


def _plackett_luce(scores, labels, weights, factor, ties):
    w, n, total = _ones(weights, labels), len(labels), 0.0
    order = sorted(range(n), key=lambda i: -labels[i])
    for place, i in enumerate(order):
        if ties == "position":
            rivals, count = order[place + 1 :], factor(place + 1, n)
        else:
            rivals = [j for j in order if j != i and labels[j] <= labels[i]]
            count = statistics.fmean(factor(p + 1, n) for p, j in enumerate(order) if labels[j] == labels[i])
        total -= count * w[i] * log_softmax([scores[j] for j in (i, *rivals)])[0]
    return total


def _tie_group(scores, labels, weights, y, ties):
    """The part of the documents with label y in Efron's likelihood or in the exact one."""
    group = [math.exp(s) for s, z in zip(scores, labels, strict=True) if z == y]
    below = sum(math.exp(s) for s, z in zip(scores, labels, strict=True) if z < y)
    w, d = [w for w, z in zip(weights, labels, strict=True) if z == y], len(group)
    if ties == "exact":
        return -statistics.fmean(w) * math.log(all_first(group, below))
    chosen = sum(w_i * math.log(e) for w_i, e in zip(w, group, strict=True))
    return statistics.fmean(w) * sum(math.log(sum(group) * (1 - l / d) + below) for l in range(d)) - chosen


def all_first(group, below):
    """The probability that a group is chosen before all others, whose powers have the sum `below`: over all orders."""
    chance = {frozenset(): 1.0}  # of each set of documents of the group to be the first ones
    for size in range(1, len(group) + 1):
        for members in map(frozenset, itertools.combinations(range(len(group)), size)):
            left = {i: sum(group[j] for j in range(len(group)) if j not in members - {i}) + below for i in members}
            chance[members] = sum(chance[members - {i}] * group[i] / left[i] for i in members)
    return chance[frozenset(range(len(group)))]


def _at_ranks(scores, values, k, alpha, delta):
    """The expected value at ranks 1 to k under SmoothI's indicators."""
    indicators = relax.smoothi(scores, alpha, delta)[: k or len(scores)]
    return _expected(indicators, values)


def _expected(rows, values):
    return [sum(share * value for share, value in zip(row, values, strict=True)) for row in rows]


def _rank(scores, i):
    return references_metrics.stable_order(scores).index(i) + 1


def _ideal(labels, k):
    best = sorted(labels, reverse=True)[: k or len(labels)]
    return sum(_gain(y) / _discount(r) for r, y in enumerate(best, 1))


def _gain(y):
    return 2**y - 1


def _discount(rank):
    return math.log2(1 + rank)


def _ones(weights, labels):
    return [1.0] * len(labels) if weights is None else list(weights)
