"""Rankers against the papers' equations in plain loops, and against PyTorch's own layers."""

import math

import pytest
import torch
from test_rankers import F, made, rows_of
from torch import nn
from torch.testing import assert_close

from rankgrad import rankers
from rankgrad.rankers.batch_norm import BatchNorm


@pytest.mark.parametrize("heads", [1, 3])
def test_context_aware_is_a_transformer_encoder(heads):
    """Against `torch.nn.TransformerEncoder`, list by list, with the same weights; its norm is PyTorch's."""
    ranker = rankers.build("context_aware", features=F, width=6, heads=heads, feed_forward=9, dropout=0.2).double()
    layer = nn.TransformerEncoderLayer(6, heads, 9, dropout=0.2, batch_first=True, norm_first=True)
    encoder = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(6), enable_nested_tensor=False).double()
    for ours, theirs in zip(ranker.blocks, encoder.layers, strict=True):
        theirs.self_attn.in_proj_weight.data = ours.attention.project.weight.data
        theirs.self_attn.in_proj_bias.data = ours.attention.project.bias.data.normal_()
        theirs.self_attn.out_proj.load_state_dict(ours.attention.out.state_dict())
        theirs.linear1.load_state_dict(ours.wide.state_dict())
        theirs.linear2.load_state_dict(ours.narrow.state_dict())
        for norm, other in ((ours.norm1, theirs.norm1), (ours.norm2, theirs.norm2), (ranker.norm, encoder.norm)):
            nn.init.normal_(norm.weight)
            nn.init.normal_(norm.bias)
            other.load_state_dict(norm.state_dict())
    ranker.eval(), encoder.eval()
    rows, offsets = rows_of([3, 1, 5])
    wanted = torch.cat([ranker.head(encoder(ranker.input(own)[None])[0])[:, 0] for own in rows.split([3, 1, 5])])
    assert_close(ranker(rows, offsets), wanted)


def softmax(values):
    top = max(values)
    powers = [math.exp(value - top) for value in values]
    return [power / sum(powers) for power in powers]


def layers(tower, rows):
    for layer in tower.layers:
        rows = layer(rows).relu()
    return rows


@pytest.mark.parametrize("mode", ["pooled", "reweight"])
@pytest.mark.parametrize("kind", ["attsets", "plain", "gated"])
@torch.no_grad()
def test_pooling_rankers_are_their_equations(kind, mode):
    """In plain loops: a softmax for each list and feature (AttSets), or for each list (MIL)."""
    name = "attsets" if kind == "attsets" else "attention_mil"
    own = {} if kind == "attsets" else {"attention": 3, "gated": kind == "gated"}
    ranker = rankers.build(name, features=F, widths=[7, 4], head=5, mode=mode, **own).double()
    rows, offsets = rows_of([3, 1, 5])
    wanted = []
    for x in rows.split([3, 1, 5]):
        h = layers(ranker.tower, x)
        if kind == "attsets":
            c = h @ ranker.attention.weight.T
            a = [softmax(c[:, d].tolist()) for d in range(4)]
        else:
            inner = torch.tanh(h @ ranker.inner.weight.T + ranker.inner.bias)
            if kind == "gated":
                inner = inner / (1 + torch.exp(-(h @ ranker.gate.weight.T + ranker.gate.bias)))
            a = [softmax((inner @ ranker.attention.weight[0]).tolist())] * 4
        weighted = torch.tensor([[a[d][i] * h[i, d] for d in range(4)] for i in range(len(h))], dtype=h.dtype)
        z = weighted.sum(0)
        for i in range(len(h)):
            seen = weighted[i] if mode == "reweight" else layers(ranker.mixer, torch.cat([h[i], z, h[i] * z]))
            wanted.append(ranker.head(seen).item())
    assert_close(ranker(rows, offsets), torch.tensor(wanted, dtype=rows.dtype))


def test_reweighted_mil_orders_as_if_there_were_no_list():
    ranker = made("attention_mil-reweight").eval()
    ranker.head.bias.data.zero_()
    rows, offsets = rows_of([6, 4])
    apart = torch.cat([ranker.logits(ranker.tower(rows, None)).exp() * ranker.tower(rows, None)])
    apart = ranker.head(apart)[:, 0]
    for l in (slice(0, 6), slice(6, 10)):
        assert ranker(rows, offsets)[l].argsort().tolist() == apart[l].argsort().tolist()


def normed(norm, x):
    """Batch norm in evaluation, as the formula reads."""
    return (x - norm.running_mean) / torch.sqrt(norm.running_var + norm.eps) * norm.weight + norm.bias


@pytest.mark.parametrize("projection", [False, True])
@torch.no_grad()
def test_dasalc_is_its_equations(projection):
    torch.manual_seed(1)
    options = {"width": 7, "layers": 2, "heads": 2, "head_size": 3, "projection": projection}
    ranker = rankers.build("dasalc", features=F, **options).double()
    for module in ranker.modules():
        if isinstance(module, BatchNorm):
            for tensor in (module.running_mean, module.weight, module.bias):
                tensor.normal_()
            module.running_var.uniform_(0.5, 2.0)
    ranker.eval()
    rows, offsets = rows_of([3, 1, 5])
    wanted = []
    for x in rows.split([3, 1, 5]):
        h = normed(ranker.input_norm, x)
        u = h
        for layer, norm in zip(ranker.tower.layers, ranker.tower.norms, strict=True):
            u = normed(norm, layer(u).relu())
        u = ranker.projection(u) if projection else u
        c = ranker.context(h).relu()
        for attention, norm in zip(ranker.attentions, ranker.norms, strict=True):
            q, k, v = attention.project(c).split(6, -1)
            heads = []
            for head in (slice(0, 3), slice(3, 6)):
                heads.append((q[:, head] @ k[:, head].T / math.sqrt(3)).softmax(-1) @ v[:, head])
            c = norm(c + attention.out(torch.cat(heads, -1)))
        v = ranker.cross(normed(ranker.context_norm, c))
        wanted.append(ranker.head((u * v + u).relu())[:, 0])
    assert_close(ranker(rows, offsets), torch.cat(wanted))


@pytest.mark.parametrize("momentum", [0.1, 0.001])
@pytest.mark.parametrize("real", [None, "all", "some"])
def test_batch_norm_is_torch_s(real, momentum):
    """Values, gradients and running statistics, over two batches and then in evaluation."""
    ours, theirs = BatchNorm(4, momentum=momentum).double(), nn.BatchNorm1d(4, momentum=momentum).double()
    nn.init.normal_(ours.weight)
    theirs.load_state_dict(ours.state_dict())
    for batch in range(2):
        x = (torch.randn(9, 4, dtype=torch.float64) * 3 + batch).requires_grad_()
        mask = None if real is None else torch.ones(9) > 0 if real == "all" else torch.arange(9) % 3 > 0
        documents = torch.ones(9) > 0 if mask is None else mask
        upstream = torch.randn(int(documents.sum()), 4, dtype=torch.float64)
        found, wanted = ours(x, mask)[documents], theirs(x[documents])
        assert_close(found, wanted)
        pairs = ((found, [x, *ours.parameters()]), (wanted, [x, *theirs.parameters()]))
        got, want = (torch.autograd.grad(value, leaves, upstream) for value, leaves in pairs)
        assert_close(got, want)
        assert_close(dict(ours.state_dict()), dict(theirs.state_dict()))
    assert_close(ours.eval()(x, mask), theirs.eval()(x))


def test_batch_norm_of_one_row_or_none():
    norm = BatchNorm(2)
    assert_close(norm(torch.tensor([[3.0, 4.0]])), torch.zeros(1, 2))
    assert_close(norm.running_mean, torch.tensor([0.3, 0.4]))
    before = norm.running_mean.clone(), norm.running_var.clone()
    assert norm(torch.randn(3, 2), torch.zeros(3) > 0).isfinite().all()
    assert norm(torch.randn(0, 2)).shape == (0, 2)
    assert_close((norm.running_mean, norm.running_var), before)
