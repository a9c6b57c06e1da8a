"""The Triton kernels of the pairwise losses, interpreted on the CPU, against the plain losses."""

import os

import numpy as np
import pytest
import torch
from made_lists import LAYOUTS_AND_TYPES

import rankgrad as rg
from rankgrad import losses

if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("TRITON_INTERPRET=1 is not set", allow_module_level=True)
pytest.importorskip("triton")
from rankgrad.kernels.cuda import pairwise
from rankgrad.kernels.options import Gains, Pairs, PairwiseOptions, Scheme, Truncation

# Name, options of the plain loss, and those of the kernel.
CASES = {
    "ranknet": ("ranknet", {}, PairwiseOptions()),
    "ranknet@10 any": ("ranknet", {"k": 10, "sigma": 0.7}, PairwiseOptions(sigma=0.7, k=10)),
    "ranknet@10 both": ("ranknet", {"k": 10, "pairs": "both"}, PairwiseOptions(k=10, pairs=Pairs.BOTH)),
    "hinge": ("hinge", {"margin": 0.3}, PairwiseOptions(margin=0.3)),
    "lambdarank": ("lambdarank", {}, PairwiseOptions()),
    "lambdarank@5 linear": (
        "lambdarank",
        {"metric": "nDCG(gain='linear')@5"},
        PairwiseOptions(k=5, gain=Gains.LINEAR),
    ),
    "ndcg1@5": ("lambdaloss", {"scheme": "ndcg1", "k": 5}, PairwiseOptions(k=5, scheme=Scheme.NDCG1)),
    "ndcg2": ("lambdaloss", {}, PairwiseOptions()),
    "ndcg2@1": ("lambdaloss", {"k": 1}, PairwiseOptions(k=1, truncation=Truncation.SOUND)),
    "ndcg2@5 heuristic": ("lambdaloss", {"k": 5, "truncation": "heuristic"}, PairwiseOptions(k=5)),
    "ndcg2pp": ("lambdaloss", {"scheme": "ndcg2pp", "mu": 0.7}, PairwiseOptions(scheme=Scheme.NDCG2PP, mu=0.7)),
    "arp1": ("lambdaloss", {"scheme": "arp1"}, PairwiseOptions(scheme=Scheme.ARP1)),
    "arp2@5": ("lambdaloss", {"scheme": "arp2", "k": 5}, PairwiseOptions(k=5, scheme=Scheme.ARP2)),
}
# Lengths, size of the scores, lowest label, highest label plus 1, True if scores tie.
BATCHES = [
    ((0, 1, 2, 65), 1.0, (0, 5), False),
    ((40, 3), 100.0, (0, 5), True),
    ((33, 0, 31), 1e30, (0, 2), False),
    ((9, 4), 1e-3, (3, 4), False),
]
# Scores near 1 in every run; the interpreter is slow, so the other ranges are in the long tests.
EACH_BATCH = [BATCHES[0], *(pytest.param(batch, marks=pytest.mark.long) for batch in BATCHES[1:])]


@pytest.mark.parametrize("batch", EACH_BATCH, ids=str)
@pytest.mark.parametrize(("layout", "dtype"), LAYOUTS_AND_TYPES)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_interpreted_equals_plain(case, layout, dtype, batch):
    name, options, chosen = case
    lengths, scale, grades, tied = batch
    random = np.random.default_rng(0)
    lists, width, documents = len(lengths), max(lengths) + 2, sum(lengths)
    drawn = random.normal(size=documents)
    scores = torch.tensor((np.round(drawn, 1) if tied else drawn) * scale).float().double().requires_grad_()
    labels = torch.tensor(random.integers(*grades, documents))
    weights = torch.tensor(random.uniform(0.5, 2.0, documents))
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    with rg.backend("plain"):
        loss = getattr(losses, name)
        values = loss(scores, labels, offsets=offsets, weights=weights, reduction="none", **options)
    (gradient,) = torch.autograd.grad(values.sum(), scores)
    different = [len(set(part.tolist())) > 1 for part in labels.split(lengths)]
    places = np.concatenate([l * width + np.sort(random.choice(width, m, False)) for l, m in enumerate(lengths)])
    places = torch.tensor(places, dtype=torch.long)

    def scatter(column):
        junk = torch.full((lists * width,), torch.nan, dtype=torch.float64)
        return junk.index_copy(0, places, column.detach().double())

    mask = ~scatter(scores).isnan()
    if layout == "flat":
        inputs = (scores.to(dtype), labels, weights, None, offsets, 0)
    else:
        inputs = (scatter(scores).to(dtype), scatter(labels), scatter(weights), mask, None, width)
    value, signal, slopes, extras = pairwise.run(name, *inputs, torch.empty(0), chosen, True)
    assert signal.tolist() == different
    assert extras.shape == (lists, 0)
    if layout != "flat":
        assert (slopes[~mask] == 0).all()
        slopes = slopes[places]
    tolerance = 1e-11 if dtype == torch.float64 else 3e-6
    for actual, expected in ((value, values), (slopes, gradient)):
        largest = max(float(expected.detach().abs().max()), 1e-30)
        torch.testing.assert_close(actual.double(), expected.detach(), rtol=0, atol=tolerance * largest)
