"""The two layouts, going between them, reductions, and what is said about bad ones."""

import importlib.util
import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rankgrad import losses, metrics
from rankgrad.lists import as_lists, compute_dtype, reduce, to_flat, to_padded, values_are_cheap

lengths_of_lists = st.lists(st.integers(0, 5), max_size=6)


@given(lengths=lengths_of_lists, extra=st.integers(0, 3))
def test_flat_to_padded_and_back(lengths, extra):
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    values = torch.arange(1.0, float(offsets[-1]) + 1)
    n = max(lengths, default=0) + extra
    padded, mask = to_padded(values, offsets, n)
    assert padded.shape == mask.shape == (len(lengths), n)
    assert mask.sum(-1).tolist() == lengths
    assert not padded[~mask].any()
    flat, back = to_flat(padded, mask)
    assert torch.equal(flat, values)
    assert torch.equal(back, offsets)


@given(rows=st.lists(st.lists(st.booleans(), min_size=4, max_size=4), max_size=5))
def test_any_mask_to_flat(rows):
    mask = torch.tensor(rows, dtype=torch.bool).reshape(-1, 4)
    values = torch.arange(mask.numel(), dtype=torch.float64).reshape(mask.shape)
    flat, offsets = to_flat(values, mask)
    assert offsets.diff().tolist() == [sum(row) for row in rows]
    assert flat.tolist() == [4 * l + i for l, row in enumerate(rows) for i, real in enumerate(row) if real]


def test_to_padded_without_a_width_takes_the_longest():
    padded, mask = to_padded(torch.tensor([5, 6, 7]), torch.tensor([0, 1, 1, 3]), fill=-1)
    assert padded.tolist() == [[5, -1], [-1, -1], [6, 7]]
    assert mask.tolist() == [[True, False], [False, False], [True, True]]


def test_to_padded_carries_trailing_dimensions_and_gradients():
    features = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    offsets = torch.tensor([0, 2, 2, 5])
    padded, _ = to_padded(features, offsets)
    assert padded.shape == (3, 3, 3)
    assert torch.autograd.gradcheck(lambda x: to_padded(x, offsets)[0], (features,))


def test_to_flat_of_deeper_layouts():
    mask = torch.tensor([[[True, False], [True, True]], [[False, False], [False, True]]])
    flat, offsets = to_flat(torch.arange(8).reshape(2, 2, 2), mask)
    assert flat.tolist() == [0, 2, 3, 7]
    assert offsets.tolist() == [0, 1, 3, 3, 4]


@settings(max_examples=15)
@given(lengths=lengths_of_lists)
def test_every_layout_becomes_the_same_lists(lengths):
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    scores = torch.arange(float(offsets[-1]))
    labels = (scores % 3).long()
    padded, mask = to_padded(scores, offsets)
    marks, _ = to_padded(labels, offsets, fill=7)
    given_flat = as_lists(scores, labels, offsets=offsets, weights=scores)
    given_padded = as_lists(padded.masked_fill(~mask, math.nan), marks, mask=mask, weights=padded)
    nest = torch.nested.nested_tensor_from_jagged
    given_nested = as_lists(nest(scores, offsets), nest(labels, offsets))
    for lists in (given_flat, given_padded, given_nested):
        assert torch.equal(lists.scores, padded)
        assert torch.equal(lists.labels, torch.where(mask, marks, 0).float())
        assert torch.equal(lists.mask, mask)
    assert torch.equal(given_flat.weights, given_padded.weights)
    assert given_nested.weights is None


def test_without_mask_every_document_is_real():
    lists = as_lists(torch.zeros(2, 3), torch.zeros(2, 3))
    assert lists.mask.all()
    assert as_lists(torch.zeros(3), torch.zeros(3)).mask.shape == (3,)


def test_arrays_and_plain_lists_are_welcome():
    frozen = np.array([[1.0, 2.0]])
    frozen.flags.writeable = False
    lists = as_lists(frozen, [[1, 0]], mask=np.array([[True, False]]))
    assert lists.scores.tolist() == [[1.0, 0.0]]
    assert lists.scores.dtype == torch.float64


def test_binary_labels_may_be_booleans():
    assert as_lists(torch.zeros(2), torch.tensor([True, False])).labels.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("given_dtype", "computed"),
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
        (torch.int64, torch.float64),
        (torch.uint8, torch.float64),
    ],
)
def test_dtype_of_computation(given_dtype, computed):
    assert compute_dtype(given_dtype) == computed
    lists = as_lists(torch.ones(2, dtype=given_dtype), torch.ones(2, dtype=torch.int32))
    assert lists.scores.dtype == lists.labels.dtype == computed


def test_padding_takes_no_gradient():
    scores = torch.tensor([[1.0, math.nan, 2.0]], requires_grad=True)
    mask = torch.tensor([[True, False, True]])
    (as_lists(scores, torch.zeros(1, 3), mask=mask).scores ** 2).sum().backward()
    assert scores.grad.tolist() == [[2.0, 0.0, 4.0]]


def test_reductions():
    values, signal = torch.tensor([3.0, 0.0, 5.0]), torch.tensor([True, False, True])
    assert reduce(values, signal, "none") is values
    assert reduce(values, signal, "sum") == 8
    assert reduce(values, signal, "mean") == 4
    nothing = reduce(torch.zeros(2, requires_grad=True) * 1, torch.zeros(2, dtype=torch.bool), "mean")
    assert nothing == 0
    assert nothing.requires_grad
    assert reduce(torch.zeros(0), torch.zeros(0, dtype=torch.bool), "mean") == 0


def test_a_list_with_a_document_carries_signal_unless_told():
    lists = as_lists(torch.zeros(3, 2), torch.zeros(3, 2), mask=torch.tensor([[1, 0], [0, 0], [1, 1]]).bool())
    assert lists.reduce(torch.tensor([2.0, 0.0, 4.0]), "mean") == 3
    assert lists.reduce(torch.tensor([2.0, 0.0, 0.0]), "mean", torch.tensor([True, False, False])) == 2


def test_values_are_looked_at_on_the_cpu_only():
    assert values_are_cheap(torch.zeros(1))
    assert not values_are_cheap(torch.zeros(1, device="meta"))
    seen = []
    torch.func.vmap(lambda x: seen.append(values_are_cheap(x)) or x)(torch.zeros(2))
    assert seen == [False]
    # No look at the values of a tensor that is not here.
    meta = torch.zeros(2, 3, device="meta")
    assert as_lists(meta, meta, lowest_label=0).scores.device.type == "meta"


S = torch.zeros(2, 3)
FLAT = torch.zeros(3)
BAD = {
    "scores must be a tensor or an array of numbers; got str": lambda: as_lists("abc", S),
    "scores must be a tensor or an array of numbers; got dict": lambda: as_lists({}, S),
    "labels must have the shape of scores, (2, 3); got (6,)": lambda: as_lists(S, S.reshape(-1)),
    "labels must have the shape of scores, (2, 3, 1); got (2, 3); scores.squeeze(-1) has the shape of labels": lambda: (
        as_lists(S[..., None], S)
    ),
    "labels must have the shape of scores, (2, 3); got (2, 3, 1); labels.squeeze(-1) has the shape of scores": lambda: (
        as_lists(S, S[..., None])
    ),
    "weights must have the shape of scores, (2, 3); got (2, 1); for one weight per list, use "
    "weights.expand_as(scores)": lambda: as_lists(S, S, weights=S[:, :1]),
    "weights must have the shape of scores, (2, 3); got (2,); for one weight per list, use "
    "weights[..., None].expand_as(scores)": lambda: as_lists(S, S, weights=S[:, 0]),
    "weights must have the shape of scores, (3,); got (2,); for one weight per list, use "
    "weights.repeat_interleave(offsets.diff())": lambda: as_lists(
        FLAT, FLAT, weights=FLAT[:2], offsets=torch.tensor([0, 1, 3])
    ),
    "weights must be finite and at least 0; got -1": lambda: as_lists(FLAT, FLAT, weights=FLAT - 1),
    "weights must be finite and at least 0; got nan": lambda: as_lists(FLAT, FLAT, weights=FLAT * math.nan),
    "labels must be at least 0; got -1; is the mask inverted? It must be True for a document and False for padding": (
        lambda: as_lists(FLAT, torch.tensor([2, 0, -1]), mask=torch.tensor([False, False, True]), lowest_label=0)
    ),
    "mask must have the shape of scores, (2, 3); got (3,)": lambda: as_lists(S, S, mask=FLAT.bool()),
    "offsets must run from 0 to the number of documents, 3; got 1 to 2; these look like list lengths: offsets are the "
    "cumulative sums of the lengths, with a leading 0": lambda: as_lists(FLAT, FLAT, offsets=[1, 2]),
    "offsets must run from 0 to the number of documents, 3; got 1 to 3; is the leading 0 missing?": lambda: as_lists(
        FLAT, FLAT, offsets=[1, 3]
    ),
    "offsets must be on the device of scores, cpu; got meta": lambda: as_lists(
        FLAT, FLAT, offsets=torch.zeros(2, dtype=torch.long, device="meta")
    ),
    "labels must be at least 0 (mark padding with mask, not with a label); got -1": lambda: as_lists(
        FLAT, torch.tensor([0, -1, 1]), lowest_label=0
    ),
    "scores must be nested lists of scalars; got a nested tensor of 3 dimensions": lambda: as_lists(
        torch.nested.nested_tensor([torch.zeros(2, 4)], layout=torch.jagged), FLAT
    ),
    "scores must be a nested tensor of layout torch.jagged; got torch.strided": lambda: as_lists(
        torch.nested.nested_tensor([torch.zeros(2)]), FLAT
    ),
}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("sentence", BAD)
def test_bad_input_is_told_in_one_sentence(sentence):
    with pytest.raises((ValueError, TypeError)) as caught:
        BAD[sentence]()
    assert str(caught.value) == sentence


def test_a_label_that_padding_hides_is_nobodys_business():
    labels = torch.tensor([0.0, math.nan, -1.0])
    as_lists(FLAT, labels, mask=torch.tensor([True, False, False]), lowest_label=0)
    as_lists(FLAT, FLAT, weights=labels, mask=torch.tensor([True, False, False]))


def test_lists_of_one_document_are_told_unless_they_are_useful():
    column = torch.zeros(4, 1, requires_grad=True)
    with pytest.warns(UserWarning, match=r"scores of shape \(n, 1\) are n lists .* use scores.squeeze\(-1\)"):
        losses.softmax(column, torch.ones(4, 1))
    with pytest.warns(UserWarning, match="which have no order"):
        metrics.ndcg(column, torch.ones(4, 1))
    with pytest.warns(UserWarning, match="which have no order"):
        metrics.evaluate(column, torch.ones(4, 1), "nDCG@10")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        losses.mse(column, torch.ones(4, 1))
        losses.softmax(column, torch.ones(4, 1), mask=torch.ones(4, 1, dtype=torch.bool))
        metrics.ndcg(column, torch.ones(4, 1), mask=torch.ones(4, 1, dtype=torch.bool))


def test_a_mask_that_hides_all_positive_labels_is_told():
    scores, labels = torch.tensor([[1.0, 2.0, 0.0]]), torch.tensor([[0, 1, 0]])
    padding = torch.tensor([[False, False, True]])  # as PyTorch's `src_key_padding_mask`
    for compute in (losses.softmax, losses.ranknet, metrics.ndcg):
        with pytest.warns(
            UserWarning, match="all labels of documents are 0, but not those of the padding; is the mask inv"
        ):
            compute(scores, labels, mask=padding)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        losses.softmax(scores, labels, mask=~padding)
        losses.softmax(scores, torch.zeros(1, 3), mask=~padding)
        losses.ranknet(scores, torch.tensor([[0, 0, -1]]), mask=~padding)


def test_scores_and_labels_in_the_wrong_order_are_told():
    grades, scores = torch.tensor([[2, 0, 1]]), torch.tensor([[0.5, -0.5, 0.1]], requires_grad=True)
    with pytest.raises(ValueError, match=r"labels must be at least 0; got -0\.5; are scores and labels swapped\?"):
        losses.softmax(grades.float(), scores.detach())
    with pytest.warns(UserWarning, match="labels require a gradient, but scores do not: are they swapped"):
        losses.softmax(grades.float(), scores.square())
    with pytest.raises(TypeError, match=r"got lists of different lengths \(join them and give offsets, or pad them"):
        losses.softmax([[1.0, 2.0], [1.0]], [[1, 0], [1]])
    with pytest.raises(TypeError, match=r"scores must be floating-point .*\(are they swapped\?\); got integers"):
        losses.mse(grades, scores)


@pytest.mark.parametrize(
    "array", [np.array([[2, 0, 1]])[:, ::-1], np.array([[1, 0, 2]], dtype=">i4"), np.array([[1, 0, 2]], np.uint16)]
)
def test_arrays_that_pytorch_cannot_share_are_copied(array):
    array.flags.writeable = False
    lists = as_lists(torch.zeros(1, 3), array, mask=(array >= 0)[:, ::-1])
    assert lists.labels.tolist() == [[1.0, 0.0, 2.0]]


@pytest.mark.parametrize("name", ["mse", "rmse", "bce", "margin_mse", "rank_cosine"])
def test_losses_that_sum_over_documents_make_no_padding(name, monkeypatch):
    """One list of 200,000 documents among 20,000 short ones: 16 GB of padding."""
    monkeypatch.setattr("rankgrad.lists.to_padded", None)
    options = {"levels": 3} if name == "rmse" else {}
    offsets = torch.cat([torch.tensor([0]), 200_000 + torch.arange(20_001)])
    scores = torch.linspace(-1, 1, 220_000, requires_grad=True)
    labels = torch.arange(220_000) % 3
    values = getattr(losses, name)(scores, labels, offsets=offsets, reduction="none", **options)
    values.sum().backward()
    alone = getattr(losses, name)(scores[:200_000].double(), labels[:200_000], **options)
    assert values[0].item() == pytest.approx(alone.item(), rel=1e-6)
    assert values.shape == (20_001,)
    assert scores.grad.isfinite().all()


def series_of(values):
    """Series of pandas whose index does not contain 0, with several dtypes, and series of polars."""
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    index = range(len(values) + 3, 3, -1)
    yield pl.Series(values)
    for dtype in (None, "Int64", "float32", "Float64", "int64[pyarrow]"):
        if dtype != "int64[pyarrow]" or importlib.util.find_spec("pyarrow"):
            yield pd.Series(values, index=index, dtype=dtype)


def test_series_are_read_by_position():
    every = map(series_of, ([1, 3, 2], [0, 1, 2], [2, 1, 1], [0, 1, 3]))
    for scores, labels, weights, offsets in zip(*every, strict=True):
        expected = as_lists([1, 3, 2], [0, 1, 2], weights=[2, 1, 1]).given
        found = as_lists(scores, labels, weights=weights).given
        for one, other in zip(found, expected, strict=True):
            assert (one is None and other is None) or one.tolist() == other.tolist()
        if "float" not in str(offsets.dtype).lower():
            assert as_lists(scores, labels, offsets=offsets).given.offsets.tolist() == [0, 1, 3]
    mask = next(iter(series_of([1, 0, 1]))) > 0
    assert as_lists([1.0, 2.0, 3.0], [0, 1, 0], mask=mask).mask.tolist() == [True, False, True]
    for flags in (mask, mask.to_pandas()):
        assert as_lists([1.0, 2.0, 3.0], flags).labels.tolist() == [1, 0, 1]


def test_series_work_in_losses_and_metrics():
    expected = float(losses.softmax([1.0, 3.0, 2.0], [0, 1, 2]))
    for scores, labels in zip(series_of([1.0, 3.0, 2.0]), series_of([0, 1, 2]), strict=True):
        assert float(losses.softmax(scores, labels)) == pytest.approx(expected)
        assert losses.gumbel(losses.softmax, seed=0)(scores, labels) > 0
        assert metrics.rr(scores, labels) == 1


def test_series_of_text_are_told():
    pd = pytest.importorskip("pandas")
    for values in (["a", "b"], [1, None]):
        with pytest.raises(TypeError, match="labels must be a tensor or an array of numbers; got"):
            as_lists([1.0, 2.0], pd.Series(values, index=[4, 5], dtype=object))


def test_warnings_name_the_line_of_the_caller():
    """Also for a loss that is made from text, and for a metric."""
    column = torch.zeros(4, 1, requires_grad=True)
    for compute in (losses.softmax, losses.parse_loss("softmax"), metrics.ndcg, metrics.nDCG.measure):
        with pytest.warns(UserWarning, match="which have no order") as told:
            compute(column, torch.ones(4, 1))
        assert {warning.filename for warning in told} == {__file__}
