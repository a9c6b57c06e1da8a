"""NeuralLoss's two networks in plain loops, on the weights that the package ships: one list in, a number out."""

import functools
import math

import references_relax as relax
from paths import SOURCE
from references_relax import sigmoid
from safetensors.torch import load_file

WEIGHTS = SOURCE / "losses" / "weights"
HEADS, TEMPERATURES = 8, (0.5, 0.15, 0.05)


@functools.cache
def weights(name):
    return {key: tensor.double().tolist() for key, tensor in load_file(WEIGHTS / f"{name}.safetensors").items()}


def linear(w, name, x):
    matrix, bias = w[f"{name}.weight"], w[f"{name}.bias"]
    return [b + sum(m * v for m, v in zip(row, x, strict=True)) for row, b in zip(matrix, bias, strict=True)]


def mended(scores, labels):
    w, n = weights("mended"), len(scores)
    mean = sum(scores) / n
    spread = math.sqrt(sum((s - mean) ** 2 for s in scores) / n + 1e-6)
    ranks = [relax.sigmoid_ranks([s / spread for s in scores], t) for t in TEMPERATURES]
    least, gains = 1 / math.log2(1 + n), [2**y - 1 for y in labels]
    ideal = sum(g / math.log2(1 + r) for r, g in enumerate(sorted(gains, reverse=True), 1))
    total = 0.0
    for i, g in enumerate(gains):
        seen = [math.log(v) for v in (*(r[i] for r in ranks), *(n + 1 - r[i] for r in ranks), n)]
        for name in ("enter", "middle"):
            seen = [v * sigmoid(v) for v in linear(w, name, seen)]
        total += g * (least + (1 - least) * sigmoid(linear(w, "out", seen)[0]))
    return -total / ideal


def published(scores, labels, grades):
    w = weights(f"published-{grades}")
    ideal = network(w, [y / grades for y in labels], labels)
    return -network(w, [sigmoid(s) for s in scores], labels) / (max(ideal, 0.0) + 1e-6)


def network(w, scores, labels):
    rows = [
        [a + b for a, b in zip(linear(w, "score", [s]), w["grade.weight"][int(y)], strict=True)]
        for s, y in zip(scores, labels, strict=True)
    ]
    for layer in ("layers.0", "layers.1"):
        rows = attend(w, layer, rows)
        rows = [norm(w, f"{layer}.second", row, linear(w, f"{layer}.down", relu(w, layer, row))) for row in rows]
    value = sum(linear(w, "out", row)[0] for row in rows) / len(rows)
    return value if value > 0 else 1e-5 * value


def relu(w, layer, row):
    return [max(v, 0.0) for v in linear(w, f"{layer}.up", row)]


def attend(w, layer, rows):
    width = len(rows[0])
    d = width // HEADS
    projected = [linear(w, f"{layer}.project", row) for row in rows]
    mixed = [[] for _ in rows]
    for head in range(HEADS):
        query, key, value = (
            [p[part * width + head * d : part * width + (head + 1) * d] for p in projected] for part in range(3)
        )
        for i, q in enumerate(query):
            logits = [sum(a * b for a, b in zip(q, k, strict=True)) / math.sqrt(d) for k in key]
            shares = [math.exp(v - max(logits)) for v in logits]
            mixed[i] += [sum(s * v[c] for s, v in zip(shares, value, strict=True)) / sum(shares) for c in range(d)]
    return [norm(w, f"{layer}.first", row, linear(w, f"{layer}.mix", m)) for row, m in zip(rows, mixed, strict=True)]


def norm(w, name, one, other):
    x = [a + b for a, b in zip(one, other, strict=True)]
    mean = sum(x) / len(x)
    scale = math.sqrt(sum((v - mean) ** 2 for v in x) / len(x) + 1e-5)
    return [(v - mean) / scale * a + b for v, a, b in zip(x, w[f"{name}.weight"], w[f"{name}.bias"], strict=True)]
