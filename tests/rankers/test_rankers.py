"""Rankers: lists alone, both layouts, no waiting."""

import math

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from rankgrad import rankers
from rankgrad.rankers.attention import SelfAttention
from rankgrad.rankers.batch_norm import BatchNorm
from rankgrad.rankers.list_index import ListIndex

F = 5
CASES = {
    "linear": "linear",
    "mlp": "mlp:widths=7-6",
    "mlp-layer": "mlp:widths=7-6,norm=layer,activation=gelu",
    "mlp-batch": "mlp:widths=7-6,norm=batch,norm_place=after,input_norm=batch,init=xavier_normal",
    "context_aware": "context_aware:width=6,feed_forward=9,dropout=0",
    "context_aware-heads": "context_aware:width=6,heads=3,feed_forward=9,dropout=0,output=tanh",
    "context_aware-fixed": "context_aware:width=7,feed_forward=9,dropout=0,position=fixed",
    "context_aware-learned": "context_aware:width=6,feed_forward=9,dropout=0,position=learned,positions=3",
    "attsets": "attsets:widths=7-6,head=5",
    "attsets-reweight": "attsets:widths=6,mode=reweight,norm=layer",
    "attention_mil": "attention_mil:widths=6,attention=4,head=5",
    "attention_mil-gated": "attention_mil:widths=6,attention=4,gated=true,head=5-4,norm=batch",
    "attention_mil-reweight": "attention_mil:widths=6,attention=4,mode=reweight",
    "dasalc": "dasalc:width=7,layers=2,heads=2,head_size=4,dropout=0,noise=0,projection=true",
}
NORMED = {name for name, text in CASES.items() if "batch" in text or "dasalc" in text}
each_ranker = pytest.mark.parametrize("case", CASES)


def made(case, dtype=torch.float64):
    """The ranker of a case, with running statistics that differ from those at the start."""
    torch.manual_seed(7)
    name, options = rankers.parse_ranker(CASES[case])
    ranker = rankers.build(name, features=F, **options).to(dtype)
    for module in ranker.modules():
        if isinstance(module, BatchNorm):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2.0)
    return ranker


def rows_of(lengths, dtype=torch.float64):
    """Features `(documents, f)` and offsets of lists of these lengths."""
    generator = torch.Generator("cpu").manual_seed(sum(lengths) + 31 * len(lengths))
    rows = torch.randn(sum(lengths), F, generator=generator, dtype=dtype, device="cpu")
    return rows.to(torch.get_default_device()), offsets_of(lengths)


def offsets_of(lengths):
    return nn.functional.pad(torch.tensor(lengths, dtype=torch.long).cumsum(0), (1, 0))


def padded_of(rows, lengths, extra=1, seed=0):
    """The same lists in the padded layout, documents in order at random places, NaN between."""
    n = max(lengths, default=0) + extra
    generator = torch.Generator("cpu").manual_seed(seed)
    features, mask = torch.full((len(lengths), n, F), math.nan, dtype=rows.dtype), torch.zeros(len(lengths), n) > 0
    for l, own in enumerate(rows.split(lengths)):
        chosen = torch.randperm(n, generator=generator, device="cpu")[: lengths[l]].sort().values
        features[l, chosen], mask[l, chosen] = own, True
    return features, mask


def gradients(scores, ranker):
    """Of a function of the scores that treats no two alike; zeros where a parameter is not used."""
    value = (scores * torch.linspace(1, 2, len(scores), dtype=scores.dtype)).sum()
    parameters = list(ranker.parameters())
    found = torch.autograd.grad(value, parameters, allow_unused=True)
    return [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)]


some_lengths = st.lists(st.integers(0, 6), min_size=1, max_size=5)


@each_ranker
@given(
    lengths=some_lengths,
    behind=st.integers(0, 3),
    empty=st.integers(0, 1),
    wider=st.integers(0, 2),
    mode=st.booleans(),
)
@example(lengths=[2, 3], behind=2, empty=0, wider=0, mode=True)  # rows behind have no padding to fall into
def test_a_list_is_scored_as_if_alone(case, lengths, behind, empty, wider, mode):
    """Whatever shares the batch, however wide it is padded, whatever rows and empty lists stand behind."""
    ranker = made(case).train(mode and case not in NORMED)
    rows, offsets = rows_of(lengths)
    alone = torch.cat([ranker(own, offsets_of([len(own)])) for own in rows.split(lengths)])
    assert_close(ranker(rows, offsets), alone)
    junk = torch.full((behind, F), math.nan, dtype=rows.dtype)
    longer = torch.cat([offsets, offsets[-1:].expand(empty)])
    scores = ranker(torch.cat([rows, junk]), longer, width=max(lengths) + wider)
    assert scores.isfinite().all()
    assert_close(scores[: len(rows)], alone)
    for found, wanted in zip(gradients(scores[: len(rows)], ranker), gradients(alone, ranker), strict=True):
        assert_close(found, wanted)


@pytest.mark.parametrize("case", sorted(set(CASES) - {"linear", "mlp", "mlp-layer", "mlp-batch"}))
def test_a_broken_list_breaks_no_other(case):
    ranker = made(case).eval()
    rows, offsets = rows_of([3, 2, 4])
    broken = rows.clone()
    broken[3:5] = math.nan
    found, wanted = ranker(broken, offsets), ranker(rows, offsets)
    assert_close(found[[0, 1, 2, 5, 6, 7, 8]], wanted[[0, 1, 2, 5, 6, 7, 8]])
    assert found[3:5].isnan().all()


@pytest.mark.parametrize("case", sorted(NORMED))
def test_batch_norm_in_training_sees_documents_only(case):
    rows, offsets = rows_of([3, 0, 4, 1])
    plain, behind, padded = (made(case).train() for _ in range(3))
    wanted = plain(rows, offsets)
    junk = torch.full((5, F), 1e3, dtype=rows.dtype)
    found = behind(torch.cat([rows, junk]), torch.cat([offsets, offsets[-1:]]), width=6)[: len(rows)]
    features, mask = padded_of(rows, [3, 0, 4, 1])
    laid_out = padded.padded(features, mask)[mask]
    assert_close(found, wanted)
    assert_close(laid_out, wanted)
    expected = gradients(wanted, plain)
    for scores, ranker in ((found, behind), (laid_out, padded)):
        for got, want in zip(gradients(scores, ranker), expected, strict=True):
            assert_close(got, want)
        for name, buffer in plain.named_buffers():
            assert_close(ranker.get_buffer(name), buffer)


@each_ranker
@given(lengths=some_lengths, seed=st.integers(0, 99))
def test_padded_equals_flat(case, lengths, seed):
    ranker = made(case).eval()
    rows, offsets = rows_of(lengths)
    features, mask = padded_of(rows, lengths, seed=seed)
    scores = ranker.padded(features, mask)
    assert scores.isfinite().all()
    flat = ranker(rows, offsets)
    assert_close(scores[mask], flat)
    for found, wanted in zip(gradients(scores[mask], ranker), gradients(flat, ranker), strict=True):
        assert_close(found, wanted)


@pytest.mark.parametrize("case", sorted(case for case in CASES if "learned" not in case and "fixed" not in case))
def test_the_order_of_documents_does_not_matter(case):
    ranker = made(case).eval()
    rows, offsets = rows_of([4, 1, 6])
    moved = torch.cat([torch.randperm(4), torch.tensor([4]), 5 + torch.randperm(6)])
    assert_close(ranker(rows[moved], offsets), ranker(rows, offsets)[moved])


@pytest.mark.parametrize("case", ["context_aware-fixed", "context_aware-learned"])
def test_positions_make_the_order_matter(case):
    ranker = made(case).eval()
    rows, offsets = rows_of([2])
    assert not torch.allclose(ranker(rows.flip(0), offsets), ranker(rows, offsets).flip(0), atol=1e-3)


def test_fixed_positions_are_sines_and_cosines():
    ranker = rankers.build("context_aware", features=F, width=6, blocks=0, position="fixed").double()
    rows = torch.randn(4, 6, dtype=torch.float64)
    found = ranker.position(rows, torch.arange(4)) - math.sqrt(6) * rows
    wanted = [[f(r / 10000 ** (i / 6)) for i in (0, 2, 4) for f in (math.sin, math.cos)] for r in range(4)]
    assert_close(found, torch.tensor(wanted, dtype=torch.float64), atol=1e-6, rtol=0)


@pytest.mark.parametrize("model", ["mlp", "context_aware"])
def test_tanh_on_the_scores(model):
    bounded, plain = (rankers.build(model, features=F, output=output).eval() for output in ("tanh", "none"))
    plain.load_state_dict(bounded.state_dict())
    rows, offsets = rows_of([4, 3], torch.float32)
    assert_close(bounded(rows, offsets), plain(rows, offsets).tanh())


@each_ranker
@pytest.mark.parametrize("lengths", [[], [0], [0, 0], [1], [1, 0], [0, 1, 1]])
@pytest.mark.parametrize("behind", [0, 2])
@pytest.mark.parametrize("training", [False, True])
def test_tiny_lists(case, lengths, behind, training):
    """No list, empty lists and lists of one, with and without rows behind: finite, in the graph, with gradients."""
    ranker = made(case, torch.float32).train(training)
    rows, offsets = rows_of([*lengths, behind], torch.float32)
    scores = ranker(rows, offsets[:-1], width=3)
    assert scores.shape == (len(rows),)
    assert scores.isfinite().all()
    scores[: sum(lengths)].sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in ranker.parameters())
    assert all(buffer.isfinite().all() for buffer in ranker.buffers())
    mask = torch.zeros(len(lengths), 2, dtype=torch.bool)
    assert ranker.padded(torch.full((len(lengths), 2, F), math.nan), mask).isfinite().all()


@each_ranker
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(case, dtype):
    rows, offsets = rows_of([4, 0, 3], torch.float32)
    wanted = made(case, torch.float32).eval()(rows, offsets)
    close = {"atol": 0.1, "rtol": 0.1, "check_dtype": False}
    assert_close(made(case, dtype).eval()(rows.to(dtype), offsets), wanted, **close)
    ranker = made(case, torch.float32)
    with torch.autocast(rows.device.type, dtype):
        assert_close(ranker.eval()(rows, offsets), wanted, **close)
        scores = ranker.train()(torch.cat([rows, rows]), offsets, width=5)
    assert all(g.isfinite().all() for g in gradients(scores.float(), ranker))


@each_ranker
def test_nothing_waits_for_values(case):
    """Where there are no values, there is nothing to wait for."""
    ranker = made(case, torch.float32).to("meta").train()
    rows, offsets = torch.empty(9, F, device="meta"), torch.empty(4, dtype=torch.long, device="meta")
    scores = ranker(rows, offsets, width=5)
    assert scores.shape == (9,)
    scores.sum().backward()
    assert ranker.padded(torch.empty(2, 3, F, device="meta"), torch.empty(2, 3, device="meta") > 0).shape == (2, 3)


@pytest.mark.parametrize(
    "case",
    [
        "mlp-batch",
        "context_aware-heads",
        *(
            pytest.param(case, marks=pytest.mark.long)
            for case in ("context_aware-fixed", "attsets", "attention_mil-gated", "dasalc")
        ),
    ],
)
def test_compiles_into_one_graph(case):
    plain, other = made(case).train(), made(case).train()
    compiled = torch.compile(other, fullgraph=True, backend="aot_eager", dynamic=True)
    try:
        for lengths in ([3, 0, 4], [2, 5, 3, 4]):
            rows, offsets = rows_of(lengths)
            rows = torch.cat([rows, rows[:2]])
            wanted, found = (ranker(rows, offsets, width=6)[:-2] for ranker in (plain, compiled))
            assert_close(found, wanted)
            for got, want in zip(gradients(found, other), gradients(wanted, plain), strict=True):
                assert_close(got, want)
    finally:
        torch.compiler.reset()


class Exported(nn.Module):
    """The padded layout as a forward, which is what is exported."""

    def __init__(self, ranker):
        super().__init__()
        self.ranker = ranker

    def forward(self, features, mask):
        return self.ranker.padded(features, mask)


@pytest.mark.parametrize(
    "case", ["mlp-batch", "context_aware-heads", "context_aware-fixed", "attsets", "attention_mil-gated", "dasalc"]
)
def test_padded_exports_with_any_shape(case):
    module = Exported(made(case, torch.float32).eval())
    features, mask = torch.randn(2, 4, F), torch.rand(2, 4) < 0.5
    lists, n = torch.export.Dim("lists", min=1, max=1 << 20), torch.export.Dim("n", min=1, max=1 << 20)
    program = torch.export.export(module, (features, mask), dynamic_shapes=({0: lists, 1: n}, {0: lists, 1: n}))
    for shape in ((3, 7), (1, 1), (5, 2)):
        features, mask = torch.randn(*shape, F), torch.rand(shape) < 0.6
        assert_close(program.module()(features, mask), module(features, mask))


def test_moves_are_differentiated_exactly():
    """To padded lists and back, twice differentiable, with rows of no list and an empty list."""
    index = ListIndex.flat(torch.tensor([0, 2, 2, 5]), 7, 4)
    rows = torch.randn(7, 2, dtype=torch.float64, requires_grad=True)

    def there_and_back(rows):
        padded = torch.where(index.mask[..., None], index.pad(rows), 0.0)
        return (index.unpad(padded**3) + index.each(padded.sum(1)) ** 2)[:5]

    assert torch.autograd.gradcheck(there_and_back, rows)
    assert torch.autograd.gradgradcheck(there_and_back, rows)


def test_attention_weights_are_dropped_in_training_only():
    torch.manual_seed(0)
    attention = SelfAttention(4, 2, dropout=0.5)
    rows, index = torch.randn(6, 4), ListIndex.flat(torch.tensor([0, 6]), 6, 6)
    assert not torch.equal(attention(rows, index), attention(rows, index))
    attention.eval()
    assert torch.equal(attention(rows, index), attention(rows, index))


@pytest.mark.parametrize("text", ["mlp:noise=0.5", "dasalc:width=4,head_size=3,dropout=0,noise=0.5"])
def test_noise_is_there_in_training_only(text):
    name, options = rankers.parse_ranker(text)
    ranker = rankers.build(name, features=F, **options)
    rows, offsets = rows_of([4, 5], torch.float32)
    assert not torch.equal(ranker(rows, offsets), ranker(rows, offsets))
    ranker.eval()
    assert torch.equal(ranker(rows, offsets), ranker(rows, offsets))


def test_dropout_of_each_layer():
    ranker = rankers.build("mlp", features=F, widths=[4, 3], dropout=[0.1, 0.2])
    assert [dropout.p for dropout in ranker.tower.dropouts] == [0.1, 0.2]
