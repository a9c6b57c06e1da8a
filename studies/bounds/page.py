"""Page about cross entropies as bounds, with the smallest slack over all short lists."""

import math
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pages.templates import fill, table

Array = NDArray[np.float64]

LENGTH = 6  # documents of the longest list
GRADES = 5
GAINS: dict[str, Callable[[Array], Array]] = {"y": lambda y: y, "2^y - 1": lambda y: 2.0**y - 1}
TARGETS: dict[str, Callable[[Array], Array]] = {
    '`listnet`, `targets="sum"`': lambda y: y / y.sum(),
    "`xe_ndcg`, gamma 0": lambda y: 2.0**y / (2.0**y).sum(),
    "`xe_ndcg`, gamma 1": lambda y: (2.0**y - 1) / (2.0**y - 1).sum(),
    '`listnet`, `targets="softmax"`': lambda y: np.exp(y - y.max()) / np.exp(y - y.max()).sum(),
}
# Orders of labels for which the bound fails, with the name of the targets and of the gain.
FAILS = (
    ('`listnet`, `targets="softmax"`', "y", (8.0, *[0.0] * 10, *[2.0] * 3)),
    ('`listnet`, `targets="softmax"`', "2^y - 1", (18.0, *[0.0] * 20, *[4.0] * 2)),
    ("`xe_ndcg`, gamma 1", "y", (8.0, *[0.0] * 50, 1.0)),
)


def page() -> str:
    """Return the page."""
    tau = _root()
    values = {
        "tau2": f"{tau:.3f}",
        "left2": f"{tau * math.log(2) + (1 - tau) * math.log(1 / tau):.3f}",
        "right2": f"{math.log(math.log2(3)):.3f}",
        "slack": f"{1 - 1 / math.e + math.log(math.log(2)):.3f}",
        "right3": f"{math.log(math.log(4) / math.log(3)):.3f}",
        "length": str(LENGTH),
    }
    orders = every_order()
    values["orders"] = f"{len(orders):,}"
    rows = []
    for name, targets in TARGETS.items():
        losses = [smallest_loss(targets(y)) for y in orders]
        metrics = [[ndcg(gain(y)) for y in orders] for gain in GAINS.values()] + [[rr(y) for y in orders]]
        rows.append([name, *(f"{_slack(losses, metric) + 0.0:.4f}" for metric in metrics)])
    values["table"] = table(["targets", *(f"NDCG, gain {gain}" for gain in GAINS), "RR"], rows)
    failures = []
    for name, gain, labels in FAILS:
        y = np.array(labels)
        loss, value = smallest_loss(TARGETS[name](y)), -math.log(ndcg(GAINS[gain](y)))
        assert loss < value
        failures.append([name, gain, _said(labels), f"{loss:.3g}", f"{value:.3g}"])
    values["failures"] = table(["targets", "gain", "labels by rank", "smallest loss", "-log NDCG"], failures)
    return fill(Path(__file__).parent / "template.md", **values)


def _slack(losses: list[float], metric: list[float]) -> float:
    """Return the smallest loss + log(metric), over orders that are not ideal."""
    pairs = zip(losses, metric, strict=True)
    return round(min(loss + math.log(value) for loss, value in pairs if value < 1 - 1e-12), 9)


def every_order(length: int = LENGTH) -> list[Array]:
    """Return the labels of every list of up to `length` documents, in the order of their ranks."""
    lists = (labels for n in range(1, length + 1) for labels in product(range(GRADES), repeat=n))
    return [np.array(labels, dtype=np.float64) for labels in lists if any(labels)]


def smallest_loss(targets: Array) -> float:
    """Return the smallest cross entropy over all scores that rank the documents in this order.

    The probabilities of such scores do not increase. The best ones are the isotonic regression of the targets.
    """
    blocks: list[tuple[float, int]] = []  # sum and length of each block of equal probabilities
    for target in targets.tolist():
        total, count = target, 1
        while blocks and blocks[-1][0] * count <= total * blocks[-1][1]:
            before = blocks.pop()
            total, count = total + before[0], count + before[1]
        blocks.append((total, count))
    return -sum(total * math.log(total / count) for total, count in blocks if total > 0)


def ndcg(gains: Array) -> float:
    """Return NDCG of documents in the order of their ranks."""
    discounts = 1 / np.log2(2 + np.arange(len(gains)))
    return float((gains * discounts).sum() / (np.sort(gains)[::-1] * discounts).sum())


def rr(labels: Array) -> float:
    """Return reciprocal rank of documents in the order of their ranks."""
    return 1 / (1 + int((labels > 0).argmax()))


def _root() -> float:
    """Return the solution of log 2x = 1/x - 1."""
    low, high = 0.5, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if math.log(2 * middle) < 1 / middle - 1 else (low, middle)
    return low


def _said(labels: tuple[float, ...]) -> str:
    """Return the labels as text, with repeated labels counted."""
    parts: list[tuple[float, int]] = []
    for label in labels:
        parts = [*parts[:-1], (label, parts[-1][1] + 1)] if parts and parts[-1][0] == label else [*parts, (label, 1)]
    return ", ".join(f"{label:g}" if count == 1 else f"{label:g} ({count} times)" for label, count in parts)
