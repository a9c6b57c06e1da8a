"""`ties="expected"` is the average over all orders of tied documents, enumerated; `ties="trec"` is trec_eval's."""

import math
import random

import numpy as np
import pytest
import references_metrics as references
import torch
from test_metrics import OPTIONS, every_metric

from rankgrad import metrics
from rankgrad.metrics.sort_order import ranked_order

pytestmark = pytest.mark.filterwarnings("ignore:.*scores are NaN")


def tied_lists(lists=40, seed=0):
    """Lists up to 7 documents, with few different scores, among them -inf and NaN."""
    draw = random.Random(seed)
    for _ in range(lists):
        n, levels = draw.randint(0, 7), draw.choice([[1.0], [0.0, 1.0], [0.0, 1.0, 2.0, -math.inf, math.nan]])
        yield [draw.choice(levels) for _ in range(n)], [draw.randint(0, 3) for _ in range(n)]


def flat(lists):
    scores, labels = (torch.tensor([x for pair in lists for x in pair[side]], dtype=torch.float64) for side in (0, 1))
    return scores, labels, torch.tensor([0, *np.cumsum([len(pair[0]) for pair in lists])])


@pytest.mark.parametrize(("name", "options"), OPTIONS)
@pytest.mark.parametrize("k", [None, 1, 2, 3, 5, 9])
def test_expected_is_the_average_over_all_orders(name, options, k):
    lists = list(tied_lists())
    scores, labels, offsets = flat(lists)
    values = getattr(metrics, name)(
        scores, labels, offsets=offsets, k=k, ties="expected", empty="skip", reduction="none", **options
    )
    expected = [references.value(name, s, y, ties="expected", empty="skip", k=k, **options) for s, y in lists]
    np.testing.assert_allclose(values, expected, atol=1e-12)


@every_metric
def test_ties_differ_where_they_should(name):
    """The relevant document stands between two tied ones: three rules, three values."""
    scores, labels, ids = [1.0, 1.0, 1.0], [0, 2, 1], ["c", "b", "a"]
    if name in ("precision", "recall", "success"):
        scores, labels, ids = scores[:2], labels[:2], ids[:2]
    how = {"k": 1} if name in ("precision", "recall", "success") else {}
    stable, expected, trec = (
        float(getattr(metrics, name)(scores, labels, ties=ties, **how)) for ties in ("stable", "expected", "trec")
    )
    assert stable != pytest.approx(expected)
    assert trec != pytest.approx(stable)


@every_metric
@pytest.mark.parametrize("with_ids", [True, False])
def test_trec_order(name, with_ids):
    lists = list(tied_lists(seed=1))
    scores, labels, offsets = flat(lists)
    draw = random.Random(2)
    ids = [[draw.choice("aBé10") + str(draw.randint(0, 99)) + f"-{i}" for i in range(len(s))] for s, _ in lists]
    values = getattr(metrics, name)(
        scores,
        labels,
        offsets=offsets,
        ties="trec",
        ids=[i for some in ids for i in some] if with_ids else None,
        k=3,
        reduction="none",
    )
    expected = [
        references.value(name, s, y, ties="trec", ids=some if with_ids else None, k=3)
        for (s, y), some in zip(lists, ids, strict=True)
    ]
    np.testing.assert_allclose(values, expected, atol=1e-12)


def test_trec_compares_scores_in_float32_and_ids_as_text():
    scores = torch.tensor([1.0 + 1e-12, 1.0, 0.0], dtype=torch.float64)
    assert float(metrics.rr(scores, [0, 1, 0])) == 0.5
    assert float(metrics.rr(scores, [0, 1, 0], ties="trec", ids=["d10", "d9", "d1"])) == 1.0  # "d9" > "d10"
    assert float(metrics.rr(scores, [0, 1, 0], ties="trec", ids=[10, 9, 1])) == 1.0


def test_ids_in_the_padded_layout():
    scores, labels = torch.ones(2, 2), torch.tensor([[1, 0], [1, 0]])
    values = metrics.rr(scores, labels, ties="trec", ids=[["a", "b"], ["b", "a"]], reduction="none")
    assert values.tolist() == [0.5, 1.0]


def test_zeros_of_both_signs_tie():
    assert float(metrics.rr([0.0, -0.0], [0, 1], ties="expected")) == 0.75
    assert float(metrics.rr([-0.0, 0.0], [0, 1])) == 0.5


@pytest.mark.parametrize("ties", ["stable", "trec"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("k", [1, 3, 11, 12, 50])
def test_the_first_k_are_those_of_the_whole_order(ties, dtype, k):
    """In float32 the first k are found without sorting the rest; with every other score tied, and at both ends."""
    generator = torch.Generator().manual_seed(0)
    levels = torch.tensor([-math.inf, -1e30, -1.0, -0.0, 0.0, 1e-40, 1.0, math.inf, math.nan], dtype=dtype)
    scores = levels[torch.randint(len(levels), (200, 12), generator=generator)]
    mask = torch.rand(200, 12, generator=generator) < 0.8
    codes = torch.randperm(2400, generator=generator).reshape(200, 12) if ties == "trec" else None
    whole, keys = ranked_order(scores, mask, ties, codes)
    first, first_keys = ranked_order(scores, mask, ties, codes, k)
    assert torch.equal(first, whole[:, :k])
    assert torch.equal(first_keys, keys[:, :k].to(first_keys.dtype))
    for row, names in zip(range(200), scores.tolist(), strict=True):
        real = mask[row].nonzero()[:, 0].tolist()
        given = [names[i] for i in real]
        ids = None if codes is None else codes[row][real].tolist()
        order = references.stable_order(given) if ties == "stable" else references.trec_order(given, ids)
        assert whole[row, : len(real)].tolist() == [real[i] for i in order]
