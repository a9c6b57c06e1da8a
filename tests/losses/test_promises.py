"""Promises 1 to 3, 5 and 6 of the design, for every loss at once."""

import inspect
import math
import random

import pytest
import torch
from every_loss import BACKEND, EVERY, GUMBEL, NAMED, PLAINEST, RELAXED, each_loss, every_loss
from strategies import Document, RaggedLists

from rankgrad import backend, losses, metrics, relax
from rankgrad.losses import gumbel, relaxed
from rankgrad.losses.traits import traits_of

TOLERANCE = {"rtol": 1e-8, "atol": 1e-10}


@pytest.fixture(autouse=True)
def _backend():
    with backend(BACKEND):
        yield


def assert_same(found, expected):
    """Equal values and gradients, and not a trace of a gradient on what is no document."""
    torch.testing.assert_close(found.values, expected.values, **TOLERANCE)
    torch.testing.assert_close(found.gradient, expected.gradient, **TOLERANCE)
    for mine, other in zip(found.parameters, expected.parameters, strict=True):
        torch.testing.assert_close(mine, other, **TOLERANCE)
    assert torch.equal(found.padding, torch.zeros_like(found.padding))


# 1. Layouts agree.


@every_loss()
def test_padding_changes_nothing_and_flat_and_nested_equal_padded(loss, lists):
    narrow = loss.outcome(lists.padded())
    assert_same(loss.outcome(lists.padded(extra=3, junk=math.nan)), narrow)
    assert_same(loss.outcome(lists.padded(extra=2, junk=math.nan, random=random.Random(0))), narrow)
    assert_same(loss.outcome(lists.flat()), narrow)
    assert_same(loss.outcome(lists.nested()), narrow)


@every_loss(untied=True)
def test_order_of_documents_changes_nothing(loss, lists):
    moved, came_from = lists.permuted(random.Random(1))
    before, after = loss.outcome(lists.flat()), loss.outcome(moved.flat())
    assert_same(after, before._replace(gradient=before.gradient[came_from]))


@every_loss()
def test_lists_do_not_see_each_other(loss, lists):
    together = loss(lists.flat()).detach()
    alone = [loss(batch).detach() for batch in lists.alone()]
    torch.testing.assert_close(together, torch.stack(alone) if alone else together[:0], **TOLERANCE)


@each_loss([*NAMED, *GUMBEL])
def test_any_leading_dimensions(loss):
    batch = SIX.padded()
    flat = loss(batch)
    shape = (2, 3, batch.scores.shape[-1])
    deep = batch._replace(
        scores=batch.scores.reshape(shape),
        labels=batch.labels.reshape(shape),
        layout={"mask": batch.layout["mask"].reshape(shape)},
        extras={name: values.reshape(shape) for name, values in batch.extras.items()},
    )
    torch.testing.assert_close(loss(deep), flat.reshape(2, 3))


# 2. One value a list.


@every_loss()
def test_one_value_a_list_and_the_mean_over_those_with_signal(loss, lists):
    batch = lists.flat()
    values, mean, total = (loss(batch, reduction).detach() for reduction in ("none", "mean", "sum"))
    signal = [loss.has_signal(labels) for labels in lists.column("label")]
    assert values.shape == (len(lists.lists),)
    assert all(value == 0 for value, counts in zip(values, signal, strict=True) if not counts)
    torch.testing.assert_close(total, values.sum())
    torch.testing.assert_close(mean, values.sum() / max(sum(signal), 1))
    of_documents = torch.tensor(signal, dtype=torch.bool).repeat_interleave(torch.tensor(lists.lengths).long())
    assert not loss.outcome(batch).gradient[~of_documents].any()  # lists without signal have no gradient


# 3. Finite.

ONE = (Document(1.0, 1.0),)
HIGH = (1e30, -1e30, 9.9e29, 1.0, 1.0000001, 0.0, -1e-30)
LOW = (1e-42, 0.0, -1e-40, 1e-38, -3e-31, 1e-30)
SIX = RaggedLists(
    tuple(
        tuple(Document(math.sin(7 * l + 3 * i), float((l + i) % 3), 0.5 + i / 4, i / 5) for i in range(n))
        for l, n in enumerate((4, 0, 3, 1, 2, 4))
    )
)
# Its derivative multiplies the scores once a rank, and 1e30 squared is no float32: what the stopped gradient is for.
UNBOUNDED = [case for case in EVERY if "stop_gradient=False" in case.id]
# The square of 1e30 is none either.
SQUARES = [case for case in EVERY if case.name in ("mse", "margin_mse")]


@every_loss([case for case in EVERY if case not in UNBOUNDED + SQUARES], pool=HIGH)
def test_scores_up_to_1e30_in_float32(loss, lists):
    outcome = loss.outcome(RaggedLists(lists.lists, dtype=torch.float32).padded(junk=math.nan))
    assert outcome.values.dtype == torch.float32
    assert outcome.values.isfinite().all()
    assert outcome.gradient.isfinite().all()
    if loss.name.endswith("_ndcg") and loss.name != "xe_ndcg":
        assert (outcome.values <= 0).all()
        assert (outcome.values > -2).all()  # soft gains may add up to a little more than there is


@every_loss(NAMED, pool=LOW)
def test_scores_down_to_the_smallest_in_float32(loss, lists):
    """Losses that do not depend on the scale of the scores have a derivative of one over it."""
    outcome = loss.outcome(RaggedLists(lists.lists, dtype=torch.float32).flat())
    assert outcome.values.isfinite().all()
    assert outcome.gradient.isfinite().all()


@each_loss(SQUARES)
def test_squares_while_they_fit(loss):
    scores = torch.tensor([[1e18, -1e18, 0.0]], requires_grad=True)
    value = loss.make()(scores, torch.tensor([[0.0, 1.0, 2.0]]))
    value.backward()
    assert value.isfinite()
    assert scores.grad.isfinite().all()


DEGENERATE = {
    "no lists": RaggedLists(()),
    "one empty list": RaggedLists(((),)),
    "all lists empty": RaggedLists(((), (), ())),
    "one document": RaggedLists((ONE,)),
    "one irrelevant document": RaggedLists(((Document(1.0, 0.0),),)),
    "no relevant document": RaggedLists(((Document(1.0, 0.0), Document(2.0, 0.0)), ())),
    "all labels equal": RaggedLists(((Document(1.0, 2.0), Document(1.5, 2.0), Document(-1.0, 2.0)),)),
    "all scores equal": RaggedLists(((Document(1.0, 2.0), Document(1.0, 0.0), Document(1.0, 1.0)),)),
    "all scores zero": RaggedLists(((Document(0.0, 2.0), Document(0.0, 0.0), Document(0.0, 1.0)),)),
}


@each_loss()
def test_degenerate_lists_are_finite_and_connected(loss):
    for lists in DEGENERATE.values():
        for batch, reduction in ((lists.flat(), "mean"), (lists.padded(extra=2, junk=math.nan), "none")):
            value = loss(batch, reduction)
            assert value.requires_grad
            (gradient,) = torch.autograd.grad(value.sum(), batch.leaf)
            assert value.isfinite().all()
            assert gradient.isfinite().all()
            if not any(loss.has_signal(labels) for labels in lists.column("label")):
                assert not value.any()
                assert not gradient.any()


@each_loss([*PLAINEST, *GUMBEL])
def test_long_lists_are_finite_in_float32(loss):
    n = 130  # 2^n is no float32
    documents = tuple(Document(math.sin(i) * 30, float(i % 5), 1.0, math.cos(i)) for i in range(n))
    outcome = loss.outcome(RaggedLists((documents,), dtype=torch.float32).flat())
    assert outcome.values.isfinite().all()
    assert outcome.gradient.isfinite().all()


def test_unique_softmax_has_a_gradient_where_its_value_does_not_fit():
    scores = torch.tensor([[1e30, -1e30, 0.0, 5.0]], requires_grad=True)
    value = losses.unique_softmax(scores, torch.tensor([[0.0, 30.0, 30.0, 1.0]]))  # 2^30 times 1e30
    value.backward()
    assert value.isinf()
    torch.testing.assert_close(scores.grad, torch.tensor([[2.0**31 - 1, 1 - 2.0**30, 1 - 2.0**30, -1.0]]))


# The gain 2^200 of `unique_softmax` is not divided by an ideal, and no float32; a network of 5 grades refuses others.
# In `rmse`, labels above `levels` are an error.
@each_loss([case for case in NAMED if case.name not in ("unique_softmax", "rmse") and "published" not in case.id])
def test_large_labels_do_not_overflow(loss):
    lists = RaggedLists(((Document(1.0, 200.0), Document(2.0, 0.0), Document(0.5, 150.0)),), dtype=torch.float32)
    outcome = loss.outcome(lists.flat())
    assert outcome.values.isfinite().all()
    assert outcome.gradient.isfinite().all()


# 5. Dtypes.


@each_loss([*NAMED, *GUMBEL])
def test_half_precision_is_computed_in_float32(loss):
    batch = SIX.padded()
    for dtype in (torch.float16, torch.bfloat16):
        half = batch.scores.detach().to(dtype)
        found, expected = (loss(batch._replace(scores=scores)) for scores in (half, half.float()))
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


@each_loss()
def test_float64_stays_float64(loss):
    assert loss(SIX.padded()).dtype == torch.float64


LABEL_DTYPES = (
    torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.float32, torch.bfloat16,
    torch.float8_e4m3fn, torch.float8_e5m2,
)  # fmt: skip


@each_loss([*NAMED, *GUMBEL])
def test_labels_of_any_dtype(loss):
    batch = SIX.padded()
    expected = loss(batch)
    for dtype in LABEL_DTYPES:
        torch.testing.assert_close(loss(batch._replace(labels=batch.labels.to(dtype))), expected, rtol=0, atol=0)


@each_loss()
def test_autocast_changes_nothing(loss):
    batch = RaggedLists(SIX.lists, dtype=torch.float32).padded()
    expected = loss.outcome(batch)
    for forward, backward in ((True, False), (False, True), (True, True)):
        found = loss.outcome(batch, autocast=(forward, backward))
        assert found.values.dtype == torch.float32
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_gumbel_draws_its_noise_in_float32():
    scores = torch.zeros(1, 2000, dtype=torch.bfloat16)
    seen = []

    def look(scores, labels):
        seen.append(scores)
        return scores.sum()

    gumbel(look, seed=0)(scores, scores)
    assert seen[0].dtype == torch.float32
    assert seen[0].unique().numel() > 1900


# 6. Bad input.

S, Y = torch.tensor([[2.0, 1.0, 3.0]]), torch.tensor([[1.0, 0.0, 2.0]])
M = torch.ones(1, 3, dtype=torch.bool)
FLAT, MARKS = torch.tensor([2.0, 1.0, 3.0]), torch.tensor([1.0, 0.0, 2.0])
BAD = {
    "labels must have the shape of scores, (1, 3); got (3,)": ((S, Y[0]), {}),
    "labels must have the shape of scores, (1, 3); got (1, 2)": ((S, Y[:, :2]), {}),
    "mask must have the shape of scores, (1, 3); got (3,)": ((S, Y), {"mask": M[0]}),
    "mask must be boolean, True for a real document; got torch.float32": ((S, Y), {"mask": M.float()}),
    "mask must be None if offsets are given; got both": ((FLAT, MARKS), {"mask": M[0], "offsets": [0, 3]}),
    "offsets must not decrease; got [0, 2, 1, 3]": ((FLAT, MARKS), {"offsets": torch.tensor([0, 2, 1, 3])}),
    "offsets must run from 0 to the number of documents, 3; got 0 to 2": ((FLAT, MARKS), {"offsets": [0, 2]}),
    "offsets must run from 0 to the number of documents, 3; got 1 to 3; is the leading 0 missing?": (
        (FLAT, MARKS),
        {"offsets": [1, 3]},
    ),
    "offsets must not decrease; got [0, 3, 2, 3]": ((FLAT, MARKS), {"offsets": torch.tensor([0, 3, 2, 3]).byte()}),
    "offsets must be integers; got torch.float32": ((FLAT, MARKS), {"offsets": torch.tensor([0.0, 3.0])}),
    "offsets must be one-dimensional with lists + 1 entries; got (0,)": (
        (FLAT, MARKS),
        {"offsets": torch.tensor([], dtype=torch.long)},
    ),
    "scores must be flat, (documents,), if offsets are given; got (1, 3)": ((S, Y), {"offsets": [0, 3]}),
    "scores must have at least one dimension; got a scalar": ((S[0, 0], Y[0, 0]), {}),
    "scores must be real numbers; got torch.complex64": ((S.to(torch.complex64), Y), {}),
    "scores must be real numbers; got torch.bool": ((S > 1, Y), {}),
    "labels must be real numbers; got torch.complex64": ((S, Y.to(torch.complex64)), {}),
    "labels must be finite; got nan": ((S, torch.tensor([[1.0, math.nan, 0.0]])), {}),
    "labels must be finite; got inf": ((S, torch.tensor([[1.0, math.inf, 0.0]])), {}),
    "labels must be on the device of scores, cpu; got meta": ((S, Y.to("meta")), {}),
    "mask must be on the device of scores, cpu; got meta": ((S, Y), {"mask": M.to("meta")}),
    "reduction must be one of 'mean', 'sum', 'none'; got 'average'": ((S, Y), {"reduction": "average"}),
}


@each_loss([*PLAINEST, *RELAXED[:1]])
def test_bad_input_is_told_in_one_sentence(loss):
    for sentence, (arguments, layout) in BAD.items():
        with pytest.raises((ValueError, TypeError)) as caught:
            loss.make()(*arguments, **layout)
        assert str(caught.value) == sentence


@each_loss(PLAINEST)
def test_negative_labels_are_refused_where_labels_are_gains(loss):
    labels = torch.tensor([[1.0, -1.0, 0.0]])
    if traits_of(loss.make()).any_label:
        assert loss.make()(S, labels).isfinite()
        return
    with pytest.raises(ValueError, match=r"^labels must be at least 0 \(.*\); got -1$"):
        loss.make()(S, labels)
    masked = loss.make()(S, labels, mask=labels >= 0)
    torch.testing.assert_close(masked, loss.make()(S[:, [0, 2]], labels[:, [0, 2]]))


@each_loss([case for case in PLAINEST if "k" in inspect.signature(getattr(losses, case.name)).parameters])
def test_cutoffs_are_ranks(loss):
    for k, sentence in (
        (0, "k must be at least 1; got 0"),
        (-3, "k must be at least 1; got -3"),
        (2.5, "k must be an integer or None; got 2.5"),
        ("5", "k must be an integer or None; got '5'"),
    ):
        with pytest.raises((ValueError, TypeError)) as caught:
            call(loss.name, k=k)
        assert str(caught.value) == sentence


@each_loss([case for case in NAMED if case.extras == ("weights",)])
def test_weights_are_one_a_document(loss):
    with pytest.raises(ValueError, match=r"^weights must have the shape of scores, \(1, 3\); got \(2,\)$"):
        loss.make()(S, Y, weights=torch.ones(2))


@each_loss([case for case in NAMED if case.extras == ("weights",)])
def test_a_weight_per_list_multiplies_its_value(loss):
    """The four exceptions are those of the docstring of `rankgrad.losses`."""
    scores, labels = torch.tensor([[0.3, 1.2, -0.4, 0.8]], dtype=torch.float64), torch.tensor([[1.0, 0.0, 2.0, 1.0]])
    value, heavy = (loss.make()(scores, labels, weights=torch.full_like(scores, w)) for w in (1.0, 4.0))
    times = 1.0 if traits_of(loss.make()).divides else 2.0 if loss.name == "rmse" else 4.0
    if loss.name == "poly1_softmax":
        heavy += 3 * (value - losses.softmax(scores, labels))  # weights are not in the second term
    torch.testing.assert_close(heavy, times * value)


@pytest.mark.parametrize("choice", ["plain", "auto"])
@each_loss([case for case in NAMED if case.extras == ("weights",)])
def test_a_list_without_weight_counts_for_nothing(loss, choice):
    scores, labels = S.double().requires_grad_(), Y.double()
    with backend(choice):
        value = loss.make()(scores, labels, weights=torch.zeros_like(labels))
    assert value == 0
    assert not torch.autograd.grad(value, scores)[0].any()


BAD_OPTIONS = {
    "labels must be at most levels, 1; got 2": ("rmse", {"levels": 1}),
    "levels must be a finite number of at least 1, the highest possible label; got 0": ("rmse", {"levels": 0}),
    "levels must be a finite number of at least 1, the highest possible label; got nan": ("rmse", {"levels": math.nan}),
    "levels must be a finite number of at least 1, the highest possible label; got inf": ("rmse", {"levels": math.inf}),
    "levels must be a finite number of at least 1, the highest possible label; got True": ("rmse", {"levels": True}),
    "levels must be a finite number of at least 1, the highest possible label; got tensor(True)": (
        "rmse",
        {"levels": torch.tensor(True)},
    ),
    "levels must be a finite number of at least 1, the highest possible label; got '5'": ("rmse", {"levels": "5"}),
    "levels must be a finite number of at least 1, the highest possible label; got [5]": ("rmse", {"levels": [5]}),
    "scheme must be one of 'ndcg1', 'ndcg2', 'ndcg2pp', 'arp1', 'arp2'; got 'ndcg3'": (
        "lambdaloss",
        {"scheme": "ndcg3"},
    ),
    "truncation must be one of 'sound', 'heuristic'; got 'hard'": ("lambdaloss", {"truncation": "hard"}),
    "truncation must be 'heuristic' with scheme 'arp1'; got 'sound'": (
        "lambdaloss",
        {"scheme": "arp1", "truncation": "sound"},
    ),
    "metric must be one of 'nDCG', 'P', 'AP', 'RR'; got 'ERR', which this loss cannot use": (
        "lambdarank",
        {"metric": "ERR"},
    ),
    "metric must have a cutoff, for example P@5; got P": ("lambdarank", {"metric": "P"}),
    "pairs must be one of 'any', 'both'; got 'all'": ("ranknet", {"pairs": "all"}),
    "targets must be one of 'sum', 'softmax'; got 'max'": ("listnet", {"targets": "max"}),
    "gamma must be a number or have the shape of scores, (1, 3); got (2,)": ("xe_ndcg", {"gamma": torch.ones(2)}),
    "ties must be one of 'together', 'position', 'random', 'efron', 'exact'; got 'first'": (
        "listmle",
        {"ties": "first"},
    ),
    "noise must be None unless ties is 'random'; got noise with ties='efron'": (
        "listmle",
        {"ties": "efron", "noise": torch.ones(1, 3)},
    ),
    "noise must have the shape of scores, (1, 3); got (2,)": ("listmle", {"ties": "random", "noise": torch.ones(2)}),
    "bins must be at least 2; got 1": ("list_ap", {"bins": 1}),
    "temperature must be above 0; got 0": ("approx_ndcg", {"temperature": 0}),
    "temperature must be above 0; got -1.0": ("neural_ndcg", {"temperature": -1.0}),
    "sinkhorn_rounds must be at least 0; got -1": ("neural_ndcg", {"sinkhorn_rounds": -1}),
    "alpha must be above 0; got 0": ("smooth_ndcg", {"alpha": 0}),
    "delta must be between 0 and 0.5; got 0.7": ("smooth_ap", {"delta": 0.7}),
    "sigma must be above 0; got 0": ("softrank_ndcg", {"sigma": 0}),
    "rounds must be at least 1; got 0": ("ot_ndcg", {"rounds": 0}),
    "p must be 1 or 2; got 3": ("softsort_ndcg", {"p": 3}),
    "regularisation must be one of 'l2', 'entropic'; got 'l1'": ("fastsort_ndcg", {"regularisation": "l1"}),
    "gain_base must be above 1; got 1.0": ("LearnDCG", {"gain_base": 1.0}),
    "discount_base must be above 1; got 0.5": ("LearnDCG", {"discount_base": 0.5}),
    "discount must be one of 'log', 'curved'; got 'flat'": ("LearnDCG", {"discount": "flat"}),
    "learn must be one of 'gain', 'discount', 'alpha'; got 'beta'": ("LearnDCG", {"learn": ("beta",)}),
    "form must be one of 'mended', 'published'; got 'printed'": ("NeuralLoss", {"form": "printed"}),
    "grades must be 3 or 5 (for other labels, use the form 'mended', which needs no grades); got 4": (
        "NeuralLoss",
        {"grades": 4, "form": "published"},
    ),
}


def call(name, **options):
    loss = getattr(losses, name)
    return loss(**options)(S, Y) if isinstance(loss, type) else loss(S, Y, **options)


@pytest.mark.parametrize("sentence", BAD_OPTIONS)
def test_bad_options_are_told_in_one_sentence(sentence):
    name, options = BAD_OPTIONS[sentence]
    with pytest.raises((ValueError, TypeError)) as caught:
        call(name, **options)
    assert str(caught.value) == sentence


BAD_COMPOSITIONS = {
    "samples must be at least 1; got 0": lambda: gumbel(losses.approx_ndcg, samples=0),
    "scale must be above 0; got 0.0": lambda: gumbel(losses.approx_ndcg, scale=0.0),
    "noise must have the shape of scores, (1, 3); got (2,)": lambda: gumbel(losses.approx_ndcg)(
        S, Y, noise=torch.ones(2)
    ),
    "relaxation must be an operator such as rankgrad.relax.neural_sort(); got str": lambda: relaxed(
        metrics.AP, "neural_sort"
    ),
    "metric must be a metric of rankgrad.metrics (a function has no relaxation; if it is differentiable, use a loss); "
    "got function": lambda: relaxed(lambda scores, labels: scores.sum(), relax.neural_sort()),
    "labels must have the list lengths of scores; got [1, 2]": lambda: losses.softmax(nested([2, 1]), nested([1, 2])),
}


def nested(lengths):
    return torch.nested.nested_tensor([torch.ones(n) for n in lengths], layout=torch.jagged)


@pytest.mark.parametrize("sentence", BAD_COMPOSITIONS)
def test_bad_compositions_are_told_in_one_sentence(sentence):
    with pytest.raises((ValueError, TypeError)) as caught:
        BAD_COMPOSITIONS[sentence]()
    assert str(caught.value) == sentence
