"""The exact metrics in plain loops, as their formulas read, for one list: labels in ranked order in, a number out.

Each returns None for an empty list, one in which there is nothing to find.
"""

import itertools
import math


def dcg(ranked, k=None, gain="exp", discount="log2"):
    if not any(_gain(y, gain) > 0 for y in ranked):
        return None
    return _dcg(ranked, k, gain, discount)


def ndcg(ranked, k=None, gain="exp", discount="log2"):
    best = _dcg(sorted(ranked, key=lambda y: _gain(y, gain), reverse=True), k, gain, discount)
    return _dcg(ranked, k, gain, discount) / best if best > 0 else None


def rr(ranked, k=None, first="relevant", threshold=0.0):
    if not any(y > threshold for y in ranked):
        return None
    for rank, y in enumerate(ranked, 1):
        if y > threshold and (first == "relevant" or y == max(ranked)):
            return 1 / rank if k is None or rank <= k else 0.0


def ap(ranked, k=None, threshold=0.0):
    relevant = sum(y > threshold for y in ranked)
    if relevant == 0:
        return None
    total = 0.0
    for rank, y in enumerate(_cut(ranked, k), 1):
        if y > threshold:
            total += sum(z > threshold for z in ranked[:rank]) / rank
    return total / relevant


def precision(ranked, k=None, threshold=0.0):
    if not any(y > threshold for y in ranked):
        return None
    return sum(y > threshold for y in _cut(ranked, k)) / (len(ranked) if k is None else k)


def recall(ranked, k=None, threshold=0.0):
    relevant = sum(y > threshold for y in ranked)
    return sum(y > threshold for y in _cut(ranked, k)) / relevant if relevant else None


def success(ranked, k=None, threshold=0.0):
    if not any(y > threshold for y in ranked):
        return None
    return float(any(y > threshold for y in _cut(ranked, k)))


def err(ranked, k=None, max_label=4.0):
    if not any(y > 0 for y in ranked):
        return None
    total, still = 0.0, 1.0
    for rank, y in enumerate(_cut(ranked, k), 1):
        satisfied = (2**y - 1) / 2**max_label
        total += still * satisfied / rank
        still *= 1 - satisfied
    return total


def rbp(ranked, k=None, persistence=0.8, threshold=0.0):
    if not any(y > threshold for y in ranked):
        return None
    places = enumerate(_cut(ranked, k), 1)
    return (1 - persistence) * sum(persistence ** (rank - 1) for rank, y in places if y > threshold)


def arp(ranked, k=None):
    if sum(ranked) == 0:
        return None
    return sum(y * (rank if k is None else min(rank, k + 1)) for rank, y in enumerate(ranked, 1)) / sum(ranked)


def opa(ranked, k=None):
    best = _pairs(sorted(ranked, reverse=True), k)
    return _pairs(ranked, k) / best if best else None


ALL = {f.__name__: f for f in (ndcg, dcg, rr, ap, precision, recall, success, err, rbp, arp, opa)}


def stable_order(scores):
    """Positions by falling score, the earlier first among equals, NaN last."""
    return sorted(
        range(len(scores)), key=lambda i: (math.isnan(scores[i]), -scores[i] if scores[i] == scores[i] else 0)
    )


def trec_order(scores, ids=None):
    """Positions by falling score, the higher id (or the later position) first among equals, NaN last."""
    by_id = sorted(range(len(scores)), key=lambda i: i if ids is None else ids[i], reverse=True)
    return [by_id[i] for i in stable_order([scores[i] for i in by_id])]


def tied_orders(scores):
    """Every order of the documents that the scores allow."""
    groups = []
    for i in stable_order(scores):
        same = groups and (scores[i] == scores[groups[-1][0]] or all(math.isnan(scores[j]) for j in (i, groups[-1][0])))
        if same:
            groups[-1].append(i)
        else:
            groups.append([i])
    for orders in itertools.product(*(itertools.permutations(group) for group in groups)):
        yield [i for group in orders for i in group]


def value(name, scores, labels, ties="stable", ids=None, empty="zero", **options):
    """The value of a metric for one list, by its definition; the average over all orders for `ties="expected"`."""
    if ties == "expected":
        orders = list(tied_orders(scores))
    else:
        orders = [stable_order(scores) if ties == "stable" else trec_order(scores, ids)]
    values = [ALL[name]([labels[i] for i in order], **options) for order in orders]
    if values[0] is None:
        return {"zero": 0.0, "one": 1.0, "skip": math.nan}[empty]
    return math.fsum(values) / len(values)


def _gain(y, gain):
    return gain(y) if callable(gain) else 2**y - 1 if gain == "exp" else y


def _dcg(ranked, k, gain, discount):
    divisor = discount if callable(discount) else lambda rank: math.log2(1 + rank)
    return sum(_gain(y, gain) / divisor(rank) for rank, y in enumerate(_cut(ranked, k), 1))


def _pairs(ranked, k):
    return sum(z < y for i, y in enumerate(_cut(ranked, k)) for z in ranked[i + 1 :])


def _cut(ranked, k):
    return ranked if k is None else ranked[:k]
