"""Bounds of graded labels (studies/bounds): cross entropies against -log NDCG and -log RR, and where they fail."""

import math

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

from rankgrad import losses
from rankgrad.metrics import ndcg, rr

LISTS = st.integers(1, 30).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 4), min_size=n, max_size=n).filter(any),
        st.lists(st.floats(-8, 8), min_size=n, max_size=n),
        st.sampled_from([0.01, 1.0, 5.0]),
    )
)
BOUNDS = [
    (losses.listnet, {"targets": "sum"}, "exp"),
    (losses.listnet, {"targets": "sum"}, "linear"),
    (losses.xe_ndcg, {"gamma": 0.0}, "exp"),
    (losses.xe_ndcg, {"gamma": 0.4}, "exp"),
    (losses.xe_ndcg, {"gamma": 1.0}, "exp"),
]


@pytest.mark.parametrize(("loss", "options", "gain"), BOUNDS)
@given(drawn=LISTS)
def test_graded_cross_entropies_bound_ndcg_and_rr(loss, options, gain, drawn):
    labels, scores, scale = drawn
    y, s = torch.tensor([labels], dtype=torch.float64), torch.tensor([scores], dtype=torch.float64) * scale
    value = float(loss(s, y, **options))
    assert value >= -math.log(float(ndcg(s, y, gain=gain))) - 1e-9
    assert value >= -math.log(float(rr(s, y))) - 1e-9


def test_the_lemma_of_the_proof():
    tau = np.linspace(1e-6, 1, 4001)[:, None]
    r = np.arange(1, 3000)[None]
    left = tau * np.log(r) + (1 - tau) * np.log(1 / tau)
    assert (left >= np.log(np.log2(1 + r)) - 1e-12).all()


@pytest.mark.parametrize(
    ("loss", "options", "gain", "labels"),
    [
        (losses.listnet, {"targets": "softmax"}, "linear", [8.0] + [0.0] * 10 + [2.0] * 3),
        (losses.listnet, {"targets": "softmax"}, "exp", [18.0] + [0.0] * 20 + [4.0] * 2),
        (losses.xe_ndcg, {"gamma": 1.0}, "linear", [8.0] + [0.0] * 50 + [1.0]),
    ],
)
def test_targets_that_are_steeper_than_the_gain_give_no_bound(loss, options, gain, labels):
    y = torch.tensor([labels], dtype=torch.float64)
    mass = torch.exp(y) if loss is losses.listnet else 2**y - 1
    target = mass[0] / mass.sum()
    # The best scores of this order: the first document alone, the others equal but for a very small step.
    rest = target[1:].mean().expand(len(labels) - 1)
    best = torch.cat([target[:1], rest]).log() - 1e-9 * torch.arange(len(labels), dtype=torch.float64)
    value = float(loss(best[None], y, **options))
    assert value < -math.log(float(ndcg(best[None], y, gain=gain)))


def test_a_cutoff_gives_no_bound():
    scores, labels = torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([[0.0, 0.0, 1.0]])
    assert float(ndcg(scores, labels, k=2)) == 0
    assert math.isfinite(float(losses.listnet(scores, labels)))
