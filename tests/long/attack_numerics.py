"""Fused against plain in float64, and fused against itself with the documents in another order: 256 lists per attempt.

Scores tie, cluster within units in the last place, and lie far apart. An attempt ends in the name of its loss.
"""

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from conditioning import one_ulp
from every_loss import NAMED, Case, _named
from made_lists import Lists

from rankgrad.kernels.op import FUSED

LISTS, LONGEST = 256, 30
SHARP = [
    _named(name, {"alpha": alpha, "k": k})
    for name, k in (("smooth_ndcg", None), ("smooth_precision", 5), ("smooth_ap", None))
    for alpha in (10.0, 100.0, 1000.0)
]
_OTHER = ("stop_gradient", "noise")  # another gradient; random orders, which differ without given noise
CASES = [
    case for case in [*NAMED, *SHARP] if case.name.lower() in FUSED and not any(each in case.id for each in _OTHER)
]
NAMES = sorted({case.name for case in CASES})


def scores(rng: np.random.Generator, n: int, case: Case) -> np.ndarray:
    """Scores of one kind, with a variance of about 1 unless they are far apart."""
    smooth = case.name.startswith("smooth_")
    kind = rng.choice(["two levels", "integers", "clusters", "normal", "far", "constant"])
    if kind == "two levels":
        return rng.integers(0, 2, n) * rng.uniform(0.1, 4.0)
    if kind == "integers":
        return rng.integers(-3, 4, n) * rng.choice([1.0, 0.1, 1 / 3])
    if kind == "clusters" and not smooth:
        return rng.normal(size=3)[rng.integers(0, 3, n)] * (1.0 + rng.integers(-2, 3, n) * 2.0**-52)
    if kind == "far" and not smooth and case.name != "neural_ndcg":
        # NeuralSort by its formula loses the distances of the others beside a far score; the kernel does not.
        return np.where(rng.random(n) < 0.3, rng.choice([1e30, -1e30, 1e4, -700.0, 0.0, -0.0], n), rng.normal(size=n))
    if kind == "constant":
        return np.full(n, rng.normal())
    return rng.normal(size=n)


def lists_for(case: Case, rng: np.random.Generator) -> Lists:
    """Lists of up to 30 documents."""
    lengths = tuple(int(n) for n in rng.integers(0, LONGEST + 1, LISTS))
    lists = Lists(lengths, seed=int(rng.integers(1 << 30)))
    total = sum(lengths)
    drawn = [scores(rng, n, case) for n in lengths]
    lists.scores = torch.tensor(np.concatenate([*drawn, np.zeros(0)]))
    grades = rng.choice(["grades", "binary", "real"])
    labels = {"grades": rng.integers(0, 5, total), "binary": rng.integers(0, 2, total), "real": 3 * rng.random(total)}
    lists.labels = torch.tensor(labels[grades])
    lists.weights = torch.tensor(rng.choice([0.0, 0.5, 1.0, 3.0], total))
    return lists


def permuted(lists: Lists, rng: np.random.Generator) -> tuple[Lists, torch.Tensor]:
    """The same lists with their documents in another order, and where each of them came from."""
    bounds = lists.offsets.tolist()
    order = [first + rng.permutation(last - first) for first, last in pairwise(bounds)]
    came_from = torch.tensor(np.concatenate([*order, np.zeros(0, int)]), dtype=torch.long)
    moved = Lists(tuple(lists.offsets.diff().tolist()))
    moved.scores, moved.labels, moved.weights = (t[came_from] for t in (lists.scores, lists.labels, lists.weights))
    return moved, came_from


def compare(found, expected, room: float, what: str) -> None:
    """Values and gradients, to `room` times the largest, or times 1 where all are smaller."""
    for part, mine, other in zip(("value", "gradient"), found, expected, strict=True):
        largest = max(1.0, float(other.abs().max())) if other.numel() else 1.0
        off = float((mine - other).abs().max()) if other.numel() else 0.0
        assert off <= room * largest, f"{what}: {part} off by {off:.3g}, largest {largest:.3g}"
        assert not math.isnan(off), f"{what}: {part} is NaN"


def compare_ill_conditioned(fused, plain, lists: Lists, call, what: str) -> None:
    """The same to ten times what one unit in the last place of the scores makes of the plain loss.

    A few lists of a thousand are so sharp that only many draws show it.
    """
    try:
        compare(fused, plain, max(1e-9, 10.0 * one_ulp(lists, call, plain)), what)
    except AssertionError:
        compare(fused, plain, max(1e-9, 10.0 * one_ulp(lists, call, plain, draws=200)), what)


def case(rng: np.random.Generator, folder: Path) -> str:
    name = rng.choice(NAMES)  # every loss as often as the others, however many options it has
    loss = rng.choice([case for case in CASES if case.name == name])
    lists = lists_for(loss, rng)
    weighted, layout = "weights" in loss.extras, str(rng.choice(["flat", "scattered"]))
    call = loss.make()
    fused = lists.outcome(call, "auto", layout, weighted)
    plain = lists.outcome(call, "plain", layout, weighted)
    what = f"{loss.id}, fused against plain"
    if loss in SHARP and "alpha=10.0" not in loss.id:
        compare_ill_conditioned(fused, plain, lists, call, what)
    else:
        compare(fused, plain, 1e-9, what)
    if loss.ties is None:
        moved, came_from = permuted(lists, rng)
        values, gradient = moved.outcome(call, "auto", "flat", weighted)
        here = lists.outcome(call, "auto", "flat", weighted)
        compare((values, gradient), (here[0], here[1][came_from]), 1e-9, f"{loss.id}, order of documents")
    return loss.name
