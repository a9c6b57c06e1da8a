"""Tests that need a GPU: recorded calls, CUDA graphs, programs that wait for each other."""

import functools

import pytest
import torch

import rankgrad as rg
from rankgrad import losses

if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

CASES = {
    "ranknet": losses.ranknet,
    "lambdarank": losses.lambdarank,
    "lambdaloss@5": functools.partial(losses.lambdaloss, k=5),
    "approx_ndcg": losses.approx_ndcg,
    "approx_ap": losses.approx_ap,
    "LearnDCG": losses.LearnDCG(discount="curved").cuda(),
    "neural_ndcg": functools.partial(losses.neural_ndcg, sinkhorn_rounds=5),
    "softsort_ndcg": losses.softsort_ndcg,
    "smooth_ndcg": losses.smooth_ndcg,
    "listmle": losses.listmle,
    "listmle efron": functools.partial(losses.listmle, ties="efron"),
    "softmax": losses.softmax,
}
every_case = pytest.mark.parametrize("loss", CASES.values(), ids=CASES)


def batch(seed, lists=7, n=70, dtype=torch.float32, labels=torch.float32):
    generator = torch.Generator("cpu").manual_seed(seed)
    scores = torch.randn(lists, n, generator=generator, dtype=dtype, device="cpu").cuda()
    grades = torch.randint(0, 4, (lists, n), generator=generator, device="cpu").cuda()
    return scores, grades.to(labels)


def outcome(loss, scores, labels, backend, **options):
    """Return the value and its derivatives by scores and parameters."""
    leaf = scores.detach().requires_grad_()
    inputs = [leaf, *getattr(loss, "parameters", list)()]
    with rg.backend(backend):
        value = loss(leaf, labels, **options)
    upstream = torch.full((), 0.7, dtype=value.dtype, device="cuda")  # no copy, which a graph could not record
    return value.detach(), *torch.autograd.grad(value, inputs, upstream)


def assert_near(found, expected, most=1e-5):
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.double(), b.double(), rtol=0, atol=most * max(float(b.abs().max()), 1e-3))


@every_case
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("labels", [torch.float32, torch.int64])
def test_a_call_that_was_made_before(loss, reduction, labels):
    for seed in range(3):
        scores, grades = batch(seed, labels=labels)
        found = outcome(loss, scores, grades, "fused", reduction=reduction)
        assert_near(found, outcome(loss, scores.double(), grades, "plain", reduction=reduction))


@every_case
@pytest.mark.parametrize("layout", ["padded", "masked", "flat"])
def test_a_compiled_call_that_was_made_before(loss, layout):
    torch.compiler.reset()  # each case compiles the same lambda, for which PyTorch has a limit
    compiled = torch.compile(lambda *given, **named: loss(*given, **named), backend="aot_eager", fullgraph=True)
    compiled.parameters = getattr(loss, "parameters", list)
    for seed in range(3):
        scores, labels = batch(seed)
        options = {"mask": torch.rand(scores.shape, device="cuda") < 0.7} if layout == "masked" else {}
        if layout == "flat":
            scores, labels, options = scores.view(-1), labels.view(-1), {"offsets": torch.tensor([0, 90, 490]).cuda()}
        found = outcome(compiled, scores, labels, "fused", **options)
        assert_near(found, outcome(loss, scores.double(), labels, "plain", **options))


@every_case
def test_addresses_that_are_not_aligned(loss):
    for seed in range(2):
        scores, labels = (tensor.view(-1)[1:-1].view(4, -1) for tensor in batch(seed, 10, 61))
        assert_near(outcome(loss, scores, labels, "fused"), outcome(loss, scores.double(), labels, "plain"))


@every_case
def test_a_mask_in_any_pattern(loss):
    for seed in range(2):
        scores, labels = batch(seed)
        mask = torch.rand(scores.shape, device="cuda") < 0.7
        found = outcome(loss, scores.where(mask, torch.nan), labels, "fused", mask=mask)
        assert_near(found, outcome(loss, scores.double(), labels, "plain", mask=mask))


@every_case
def test_inside_a_cuda_graph(loss):
    scores, labels = batch(0)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        outcome(loss, scores, labels, "fused")
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = outcome(loss, scores, labels, "fused")
    for seed in (1, 2):
        scores.copy_(batch(seed)[0])
        labels.copy_(batch(seed)[1])
        graph.replay()
        assert_near(found, outcome(loss, scores.double(), labels, "plain"))


@pytest.mark.parametrize("n", [100, 240, 256, 257, 500, 1000])
@pytest.mark.parametrize(("dtype", "most"), [(torch.float32, 1e-4), (torch.float64, 1e-10)])
@pytest.mark.parametrize("transposed", [False, True])
def test_programs_that_share_a_list(n, dtype, most, transposed):
    loss = functools.partial(losses.neural_ndcg, transposed=transposed)
    scores, labels = batch(0, 9, n, dtype)
    truth = outcome(loss, scores.double(), labels, "plain")
    first = outcome(loss, scores, labels, "fused")
    assert_near(first, truth, most)
    offsets = torch.arange(0, 9 * n + 1, n, device="cuda")
    flat = outcome(loss, scores.view(-1), labels.view(-1), "fused", offsets=offsets)
    assert_near((flat[0], flat[1].view(9, n)), truth, most)
    for again, before in zip(outcome(loss, scores, labels, "fused"), first, strict=True):
        assert torch.equal(again, before)


@every_case
def test_no_entry_is_left_unwritten(loss, monkeypatch):
    """Uninitialised memory may hold anything; here it holds NaN, in the first call of a kind and in the next."""
    scores, labels = batch(3, 5, 83)
    labels[1] = 0
    mask = torch.rand(scores.shape, device="cuda") < 0.8
    mask[2] = False
    options = {"mask": mask, "reduction": "mean"}
    truth = outcome(loss, scores.double(), labels, "plain", **options)
    empty = torch.empty

    def poisoned(*arguments, **options):
        tensor = empty(*arguments, **options)
        return tensor.fill_(torch.nan if tensor.is_floating_point() else 1)

    monkeypatch.setattr(torch, "empty", poisoned)
    for _ in range(2):
        assert_near(outcome(loss, scores, labels, "fused", **options), truth)


@every_case
def test_a_score_that_is_no_number_spoils_its_own_list_only(loss):
    scores, labels = batch(4, 3, 50, torch.float64)
    scores[1, 7] = torch.nan
    offsets = torch.arange(0, 151, 50, device="cuda")
    leaf = scores.view(-1).requires_grad_()
    with rg.backend("fused"):
        values = loss(leaf, labels.view(-1), offsets=offsets, reduction="none")
    (slopes,) = torch.autograd.grad(values.sum(), leaf)
    assert values.isnan().tolist() == [False, True, False]
    assert slopes[:50].isfinite().all()
    assert slopes[100:].isfinite().all()


LONG = [name for name in CASES if name not in ("neural_ndcg", "softsort_ndcg", "smooth_ndcg")]


@pytest.mark.parametrize("name", LONG)
def test_a_list_of_100_000_documents_trains_in_little_memory(name):
    generator = torch.Generator("cpu").manual_seed(0)
    features = torch.randn(100_000, 8, generator=generator, device="cpu").cuda()
    labels = torch.randint(0, 5, (100_000,), generator=generator, device="cpu").cuda()
    model = torch.nn.Linear(8, 1).cuda()
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    for _ in range(2):
        optimiser.zero_grad()
        with rg.backend("fused"):
            loss = CASES[name](model(features)[:, 0], labels)
        loss.backward()
        optimiser.step()
    assert all(parameter.isfinite().all() for parameter in model.parameters())
    # Labels as floats, scores, slopes and gradients, and 64 bytes per document; PyTorch's matrix products hold 64 MB.
    assert torch.cuda.max_memory_allocated() - before < 100e6
