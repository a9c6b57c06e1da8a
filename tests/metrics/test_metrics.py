"""Every exact metric against plain loops and scikit-learn; layouts, empty lists, dtypes, bad input."""

import inspect
import math
import warnings

import numpy as np
import pytest
import references_metrics as references
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rankgrad import metrics
from rankgrad.lists import to_padded

NAMES = list(references.ALL)
every_metric = pytest.mark.parametrize("name", NAMES)
OPTIONS = [
    *[(name, {}) for name in NAMES],
    ("ndcg", {"gain": "linear"}),
    ("ndcg", {"gain": lambda y: y**2 + 0.5}),
    ("ndcg", {"discount": lambda rank: rank}),
    ("dcg", {"gain": "linear", "discount": lambda rank: rank + 1}),
    ("rr", {"first": "best"}),
    ("rr", {"threshold": 1}),
    ("ap", {"threshold": 1}),
    ("precision", {"threshold": 0.5}),
    ("recall", {"threshold": 2}),
    ("success", {"threshold": 1}),
    ("err", {"max_label": 3}),
    ("rbp", {"persistence": 0.5, "threshold": 1}),
]
every_option = pytest.mark.parametrize(("name", "options"), OPTIONS)


def ragged(seed=0, lists=60, longest=12, levels=None, grades=4):
    """Lists of 0 to `longest` documents; scores of `levels` different values, or all different."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(0, longest + 1, size=lists)
    documents = int(lengths.sum())
    scores = generator.permutation(documents) if levels is None else generator.integers(0, levels, size=documents)
    labels = generator.choice(grades, p=[0.55, *[0.45 / (grades - 1)] * (grades - 1)], size=documents)
    offsets = np.concatenate([[0], lengths.cumsum()])
    return torch.tensor(scores / 7.0), torch.tensor(labels), torch.tensor(offsets)


def each_list(scores, labels, offsets):
    for start, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        yield scores[start:end].tolist(), labels[start:end].tolist()


@every_option
@pytest.mark.parametrize("k", [None, 1, 3, 20])
@pytest.mark.parametrize("empty", ["zero", "one", "skip"])
def test_equals_the_plain_loop(name, options, k, empty):
    scores, labels, offsets = ragged(levels=5)
    values = getattr(metrics, name)(scores, labels, offsets=offsets, k=k, empty=empty, reduction="none", **options)
    expected = [
        references.value(name, s, y, k=k, empty=empty, **options) for s, y in each_list(scores, labels, offsets)
    ]
    np.testing.assert_allclose(values, expected, atol=1e-12)
    counted = [value for value in expected if not math.isnan(value)]
    mean, total = (
        getattr(metrics, name)(scores, labels, offsets=offsets, k=k, empty=empty, reduction=reduction, **options)
        for reduction in ("mean", "sum")
    )
    assert float(total) == pytest.approx(sum(counted))
    assert float(mean) == pytest.approx(sum(counted) / len(counted))


@pytest.mark.parametrize("k", [None, 1, 5])
@pytest.mark.parametrize("levels", [None, 3])
def test_equals_scikit_learn(k, levels):
    """scikit-learn averages over ties, and counts a query without a relevant document as 0."""
    from sklearn.metrics import dcg_score, ndcg_score

    scores, labels, offsets = ragged(seed=3, lists=80, longest=15, levels=levels)
    for s, y in each_list(scores, labels, offsets):
        if len(s) < 2:  # scikit-learn refuses
            continue
        ours = [f(s, y, k=k, gain="linear", ties="expected") for f in (metrics.dcg, metrics.ndcg)]
        assert [float(v) for v in ours] == pytest.approx([f([y], [s], k=k) for f in (dcg_score, ndcg_score)], abs=1e-6)


@st.composite
def list_batches(draw):
    score = st.one_of(st.integers(-3, 3).map(float), st.sampled_from([math.inf, -math.inf]))
    document = st.tuples(score, st.integers(0, 3))
    return draw(st.lists(st.lists(document, max_size=6), min_size=1, max_size=5))


@every_metric
@settings(max_examples=25, deadline=None)
@given(batch=list_batches(), ties=st.sampled_from(["stable", "expected", "trec"]), data=st.data())
def test_layouts_agree(name, batch, ties, data):
    metric = getattr(metrics, name)
    k = data.draw(st.sampled_from([None, 1, 2, 10]))
    how = {"k": k, "ties": ties, "reduction": "none"}
    flat = torch.tensor([document for documents in batch for document in documents], dtype=torch.float64).reshape(-1, 2)
    offsets = torch.tensor([0, *np.cumsum([len(documents) for documents in batch])])
    values = metric(flat[:, 0], flat[:, 1], offsets=offsets, **how)
    # Padding of any width and anywhere in the list, holding NaN.
    width = max(map(len, batch)) + data.draw(st.integers(0, 3))
    table = torch.full((len(batch), width, 2), math.nan, dtype=torch.float64)
    mask = torch.zeros(len(batch), width, dtype=torch.bool)
    for row, documents in enumerate(batch):
        places = sorted(data.draw(st.permutations(range(width)))[: len(documents)])
        if documents:
            table[row, places] = torch.tensor(documents, dtype=torch.float64)
            mask[row, places] = True
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # NaN in padding is nobody's score
        padded = metric(table[..., 0], table[..., 1], mask=mask, **how)
    torch.testing.assert_close(padded, values, rtol=0, atol=1e-12)
    alone = [metric(*torch.tensor(d, dtype=torch.float64).reshape(-1, 2).unbind(1), **how) for d in batch]
    torch.testing.assert_close(torch.stack(alone), values, rtol=0, atol=1e-12)
    deep = metric(table[None, ..., 0], table[None, ..., 1], mask=mask[None], **how)
    assert deep.shape == (1, len(batch))
    torch.testing.assert_close(deep[0], values, rtol=0, atol=1e-12)


@every_metric
def test_jagged_nested_tensors(name):
    scores, labels, offsets = ragged(seed=5)
    scores, labels = (torch.nested.nested_tensor_from_jagged(t, offsets) for t in (scores, labels.double()))
    expected = getattr(metrics, name)(scores.values(), labels.values(), offsets=offsets, ties="trec", reduction="none")
    ids = [f"{i:05}" for i in range(len(scores.values()))]
    values = getattr(metrics, name)(scores, labels, ids=ids, ties="trec", reduction="none")
    torch.testing.assert_close(values, expected)


@every_metric
def test_order_of_documents_does_not_matter(name):
    scores, labels, offsets = ragged(seed=6)
    scores, mask = to_padded(scores, offsets)
    labels, _ = to_padded(labels, offsets)
    shuffle = torch.randperm(scores.shape[-1], generator=torch.Generator().manual_seed(0))
    metric = getattr(metrics, name)
    values = metric(scores, labels, mask=mask, k=4, reduction="none")
    shuffled = metric(scores[:, shuffle], labels[:, shuffle], mask=mask[:, shuffle], k=4, reduction="none")
    torch.testing.assert_close(shuffled, values, rtol=0, atol=1e-12)


@every_metric
def test_perfect_order_is_best(name):
    _, labels, offsets = ragged(seed=7)
    metric = getattr(metrics, name)
    best = metric(labels.double(), labels, offsets=offsets, reduction="none")
    scores = torch.rand(len(labels), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    other = metric(scores, labels, offsets=offsets, reduction="none")
    assert bool((best <= other + 1e-12).all() if name == "arp" else (best >= other - 1e-12).all())
    assert not torch.equal(best, other) or name in ("precision", "recall", "success")


@every_metric
def test_nan_ranks_last_and_is_reported(name):
    metric = getattr(metrics, name)
    scores, labels = torch.tensor([math.nan, -math.inf, 1.0, math.nan]), torch.tensor([3, 1, 0, 2])
    with pytest.warns(UserWarning, match="2 of 4 scores are NaN; their documents are ranked last"):
        value = metric(scores, labels, k=3)
    torch.testing.assert_close(value, metric(torch.tensor([1.0, 2.0, 3.0, 0.0]), labels, k=3))


@every_metric
@pytest.mark.parametrize("empty", ["zero", "one", "skip"])
def test_empty_lists(name, empty):
    metric = getattr(metrics, name)
    expected = torch.tensor({"zero": 0.0, "one": 1.0, "skip": math.nan}[empty])
    mean = torch.tensor({"zero": 0.0, "one": 1.0, "skip": 0.0}[empty])
    for scores in (torch.tensor([2.0, 1.0]), torch.tensor([])):
        labels = torch.zeros(len(scores))
        value = metric(scores, labels, empty=empty, reduction="none")
        torch.testing.assert_close(value, expected, equal_nan=True)
        for reduction in ("mean", "sum"):
            torch.testing.assert_close(metric(scores, labels, empty=empty, reduction=reduction), mean)
    none = metric(torch.zeros(0, 4), torch.zeros(0, 4), empty=empty, reduction="none")
    assert none.shape == (0,)
    assert float(metric(torch.zeros(0, 4), torch.zeros(0, 4), empty=empty)) == 0.0
    assert metric(torch.zeros(3, 0), torch.zeros(3, 0), reduction="none", ties="expected").tolist() == [0.0] * 3


@every_metric
@pytest.mark.parametrize("ties", ["stable", "expected", "trec"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_dtypes(name, ties, dtype):
    metric = getattr(metrics, name)
    scores, labels = torch.tensor([1.0, 3.0, 2.0, 2.0], dtype=dtype), torch.tensor([0, 1, 2, 0])
    value = metric(scores, labels, ties=ties)
    assert value.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    for other in (torch.int32, torch.uint8, torch.float16, torch.float64):
        torch.testing.assert_close(metric(scores, labels.to(other), ties=ties), value)
    torch.testing.assert_close(metric(scores.double(), labels, ties=ties).to(value.dtype), value)


def test_large_labels_give_a_finite_ndcg():
    scores, labels = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([40.0, 0.0, 39.0])
    expected = references.ndcg([39.0, 0.0, 40.0])
    assert float(metrics.ndcg(scores, labels)) == pytest.approx(expected, rel=1e-6)
    # 2^1000 fits no float: 2^999 first and 2^1000 third, against the other way round.
    expected = (0.5 + 1 / 2) / (1 + 0.5 / math.log2(3))
    assert float(metrics.ndcg(scores, labels + 960)) == pytest.approx(expected, rel=1e-6)
    tiny = torch.tensor([0.0, 1e-30, 0.0])
    assert float(metrics.ndcg(scores, tiny)) == pytest.approx(1 / math.log2(3))


def test_long_lists_stay_exact_in_float32():
    """Sums over tens of thousands of ranks: one tie group of the whole list, for which the average is simple."""
    n = 50_000
    scores, labels = torch.zeros(n), torch.zeros(n)
    labels[123] = 1
    weights = 1 / np.log2(np.arange(2, n + 2))
    assert float(metrics.dcg(scores, labels, ties="expected")) == pytest.approx(weights.mean(), rel=1e-6)
    assert float(metrics.opa(scores, labels, ties="expected")) == pytest.approx(0.5, rel=1e-6)
    assert float(metrics.arp(scores, labels, ties="expected")) == pytest.approx((n + 1) / 2, rel=1e-6)
    expected = (1 / np.arange(1, n + 1)).mean()
    assert float(metrics.rr(scores, labels, ties="expected")) == pytest.approx(expected, rel=1e-5)


def test_every_metric_takes_the_same_arguments():
    shared = inspect.signature(metrics.opa).parameters
    for name in NAMES:
        parameters = inspect.signature(getattr(metrics, name)).parameters
        assert {key: parameters[key] for key in shared} == dict(shared), name
        assert getattr(metrics, name).__doc__.count("\n") <= 30
    assert shared["empty"].default == "zero"
    assert shared["ties"].default == "stable"


@every_metric
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"k": 0}, ValueError, "k must be at least 1; got 0"),
        ({"k": 2.5}, TypeError, "k must be an integer or None; got 2.5"),
        ({"k": True}, TypeError, "k must be an integer or None; got True"),
        ({"ties": "random"}, ValueError, "ties must be one of 'stable', 'expected', 'trec'; got 'random'"),
        ({"empty": "nan"}, ValueError, "empty must be one of 'skip', 'zero', 'one'; got 'nan'"),
        ({"reduction": "max"}, ValueError, "reduction must be one of 'mean', 'sum', 'none'; got 'max'"),
        ({"ids": ["a"], "ties": "trec"}, ValueError, "ids must have the shape of scores, (2,); got (1,)"),
    ],
)
def test_bad_arguments(name, arguments, error, message):
    with pytest.raises(error) as caught:
        getattr(metrics, name)([2.0, 1.0], [1, 0], **arguments)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.ndcg([1.0], [1], gain="log"), "gain must be one of 'exp', 'linear'; got 'log'"),
        (lambda: metrics.dcg([1.0], [1], discount="ln"), "discount must be one of 'log2'; got 'ln'"),
        (lambda: metrics.rr([1.0], [1], first="last"), "first must be one of 'relevant', 'best'; got 'last'"),
        (lambda: metrics.rbp([1.0], [1], persistence=1), "persistence must be at least 0 and below 1; got 1"),
        (lambda: metrics.err([1.0], [1], max_label=0), "max_label must be above 0; got 0"),
        (lambda: metrics.err([1.0], [5]), "labels must be at most max_label, 4; got 5"),
        (
            lambda: metrics.ndcg([1.0], [-1]),
            "labels must be at least 0 (mark padding with mask, not with a label); got -1",
        ),
    ],
)
def test_bad_options(call, message):
    with pytest.raises(ValueError, match="must") as caught:
        call()
    assert str(caught.value) == message
