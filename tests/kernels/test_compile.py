"""`torch.compile(fullgraph=True)` on every loss in both layouts, and `torch.func` in the padded layout."""

import time
from functools import partial

import pytest
import torch
from every_loss import NAMED, PLAINEST, each_loss
from functorch.compile import make_boxed_func
from strategies import Document, RaggedLists
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.testing import CompileCounterWithBackend
from torch.func import grad, vmap

from rankgrad import backend, losses, relax
from rankgrad.kernels.op import FUSED

# Other branches of the same functions, for the cheaper `torch.func`.
MORE = [case for case in NAMED if not case.extras]
SCALED_TRANSPOSE = next(case for case in NAMED if case.id == "neural_ndcg(sinkhorn_rounds=2,transposed=True)")

LISTS = RaggedLists(
    (
        tuple(Document(s, y) for s, y in ((2.0, 1.0), (1.0, 0.0), (3.0, 2.0), (0.5, 0.0))),
        tuple(Document(s, y) for s, y in ((0.3, 0.0), (1.5, 2.0))),
        (Document(1.0, 0.0),),
    )
)


def has_bits_in_vmap():
    """Whether this PyTorch can read the bits of floats, which are the sort keys, inside of `vmap`."""
    try:
        vmap(lambda row: row.view(torch.int32))(torch.zeros(2, 3))
    except RuntimeError:
        return False
    return True


needs_vmap = pytest.mark.skipif(not has_bits_in_vmap(), reason="this PyTorch has no vmap of the bits of floats")


@pytest.fixture(autouse=True)
def _plain():
    with backend("plain"):
        yield


@pytest.fixture(autouse=True)
def _forget_compiled_code():
    yield
    torch.compiler.reset()


def batch():
    lists = LISTS.padded(extra=1)
    return lists.scores.detach(), lists.labels, lists.layout["mask"]


def test_every_loss_is_compiled():
    assert {case.name for case in PLAINEST} == set(losses.__all__)


@pytest.mark.parametrize("backend_of_torch", ["eager", pytest.param("aot_eager", marks=pytest.mark.long)])
@each_loss([*PLAINEST, SCALED_TRANSPOSE])
def test_compiles_into_one_graph(loss, backend_of_torch):
    """Compute with and without a mask, in one graph to compile only once."""
    call = loss.make()

    def both(scores, labels, mask):
        masked = call(scores, labels, mask=mask, reduction="none")
        return masked + 0.5 * call(scores, labels, reduction="none")

    scores, labels, mask = batch()
    leaves = [scores.clone().requires_grad_() for _ in range(2)]
    expected = both(leaves[0], labels, mask)
    found = torch.compile(both, fullgraph=True, backend=backend_of_torch)(leaves[1], labels, mask)
    torch.testing.assert_close(found, expected)
    wanted, got = (
        torch.autograd.grad(value.sum(), leaf)[0] for value, leaf in ((expected, leaves[0]), (found, leaves[1]))
    )
    torch.testing.assert_close(got, wanted)


def flat_lists_of_several_sizes_compile_into_one_graph(loss, backend_of_torch="aot_eager"):
    """The compiler must not ask for the length of the longest list, nor for the number of lists."""
    call, (scores, labels, mask) = loss.make(), batch()
    scores, labels = scores[mask], labels[mask]
    compiled = torch.compile(call, fullgraph=True, backend=backend_of_torch)
    for offsets in ([0, 4, 6, 7], [0, 2, 7]):
        results = []
        for function in (call, compiled):
            leaf = scores.clone().requires_grad_()
            with backend("auto"):
                value = function(leaf, labels, offsets=torch.tensor(offsets))
            results.append((value.detach(), *torch.autograd.grad(value, leaf)))
        torch.testing.assert_close(*results)


@pytest.mark.parametrize("backend_of_torch", ["eager", pytest.param("aot_eager", marks=pytest.mark.long)])
@each_loss([case for case in PLAINEST if case.name.lower() not in FUSED])
def test_flat_lists_compile_without_a_kernel(loss, backend_of_torch):
    flat_lists_of_several_sizes_compile_into_one_graph(loss, backend_of_torch)


@pytest.mark.long
@each_loss([case for case in PLAINEST if case.name.lower() in FUSED])
def test_flat_lists_compile_with_a_kernel(loss):
    flat_lists_of_several_sizes_compile_into_one_graph(loss)


# Their formulas have loops over the ranks, or derivatives that read the scores.
OF_ANY_WIDTH = {
    "lambdaloss": partial(losses.lambdaloss, k=3),
    "neural_ndcg": partial(losses.neural_ndcg, k=3),
    "smooth_ndcg": partial(losses.smooth_ndcg, k=3, alpha=20.0, stop_gradient=False),
    "AP with smoothi": losses.relaxed("AP", relax.smoothi(alpha=20.0)),
    "RR with sigmoid_ranks": losses.relaxed("RR", relax.sigmoid_ranks(temperature=0.01)),  # has factors of 0
    "ERR with neural_sort": losses.relaxed("ERR@3", relax.neural_sort()),
}


@pytest.mark.parametrize("layout", ["padded", pytest.param("flat", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", OF_ANY_WIDTH)
def test_lists_of_other_widths_reuse_compiled_code(name, layout):
    """Two graphs: one for the width of the first batch, and one for all other widths."""
    call, counter = OF_ANY_WIDTH[name], CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(call, fullgraph=True, backend=counter)
    for width in (5, 8, 13, 20):
        scores, labels = torch.linspace(0, 1, 2 * width).sin(), torch.arange(2 * width) % 3
        lists = {"offsets": torch.tensor([0, width, 2 * width])}
        if layout == "padded":
            scores, labels, lists = scores.view(2, width), labels.view(2, width), {}
        results = []
        for function in (call, compiled):
            leaf = scores.clone().requires_grad_()
            with backend("auto"):
                value = function(leaf, labels, **lists)
            results.append((value.detach(), *torch.autograd.grad(value, leaf)))
        torch.testing.assert_close(*results)
    assert counter.frame_count == 2


@needs_vmap
@each_loss(MORE)
def test_vmap_and_grad(loss):
    call = loss.make()
    scores, labels, mask = batch()

    def one(scores, labels, mask):
        return call(scores, labels, mask=mask)

    def bare(scores, labels):
        return call(scores, labels)

    leaf = scores.clone().requires_grad_()
    values = call(leaf, labels, mask=mask, reduction="none")
    (gradient,) = torch.autograd.grad(values.sum(), leaf)
    torch.testing.assert_close(vmap(one)(scores, labels, mask), values)
    torch.testing.assert_close(vmap(grad(one))(scores, labels, mask), gradient)
    torch.testing.assert_close(grad(lambda s: call(s, labels, mask=mask, reduction="sum"))(scores), gradient)
    values = call(leaf, labels, reduction="none")
    (gradient,) = torch.autograd.grad(values.sum(), leaf)
    torch.testing.assert_close(vmap(bare)(scores, labels), values)
    torch.testing.assert_close(vmap(grad(bare))(scores, labels), gradient)


@needs_vmap
@each_loss(PLAINEST)
def test_vmap_with_the_default_backend(loss):
    call = loss.make()
    scores, labels, mask = batch()
    with backend("auto"):
        expected = call(scores, labels, mask=mask, reduction="none")
        found = vmap(lambda s, y, m: call(s, y, mask=m))(scores, labels, mask)
        shared = vmap(lambda s: call(s, labels[0], mask=mask[0]))(scores)  # one list of labels for all scores
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(shared[0], expected[0])


# Losses with a loop: with few steps, and with many.
LOOPS = {
    "ot_ndcg": (partial(losses.ot_ndcg, rounds=2), partial(losses.ot_ndcg, rounds=30)),
    "neural_ndcg": (partial(losses.neural_ndcg, sinkhorn_rounds=2), partial(losses.neural_ndcg, sinkhorn_rounds=30)),
    "softrank_ndcg": (losses.softrank_ndcg, lambda *lists: losses.softrank_ndcg(*(x.repeat(1, 8) for x in lists))),
}


@pytest.mark.parametrize(("few", "many"), LOOPS.values(), ids=LOOPS)
def test_the_compiled_graph_does_not_grow_with_the_steps(few, many):
    """Count the operations of both graphs. The time of a compiler grows faster than their number."""
    sizes = {few: [], many: []}
    for call, counts in sizes.items():

        def count(graph, _, counts=counts):
            counts.append(sum(node.op == "call_function" for node in graph.graph.nodes))
            return make_boxed_func(graph.forward)

        scores, labels, _ = batch()
        leaf = scores.requires_grad_()
        torch.compiler.reset()
        value = torch.compile(call, fullgraph=True, backend=aot_autograd(fw_compiler=count))(leaf, labels)
        torch.autograd.grad(value, leaf)
    assert len(sizes[few]) == 2
    assert max(sizes[many]) <= max(sizes[few]) + 8  # the repeated lists


@pytest.mark.long
def test_optimal_transport_compiles_in_seconds():
    """Compiling thirty unrolled rounds took more than five minutes."""
    scores, labels, mask = batch()
    torch.compile(losses.softmax)(scores, labels, mask=mask)  # the first call of the compiler also loads it
    leaf = scores.requires_grad_()
    begun = time.perf_counter()
    torch.autograd.grad(torch.compile(losses.ot_ndcg, fullgraph=True)(leaf, labels, mask=mask), leaf)
    assert time.perf_counter() - begun < 60


@needs_vmap
@pytest.mark.parametrize("loss", [*LOOPS, "fastsort_ndcg", "softmax"])
@pytest.mark.parametrize("chosen", ["plain", "auto"])
def test_vmap_in_compiled_code(loss, chosen):
    call = getattr(losses, loss)
    every = vmap(grad(lambda s, y, m: call(s, y, mask=m)))
    with backend(chosen):
        found = torch.compile(every, fullgraph=True, backend="eager")(*batch())
    torch.testing.assert_close(found, every(*batch()))
