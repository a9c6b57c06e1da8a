"""`torch.compile(fullgraph=True)` and `torch.func` on every plain loss in the padded layout."""

import pytest
import torch
from every_loss import NAMED, PLAINEST, each_loss
from strategies import Document, RaggedLists
from torch.func import grad, vmap

from rankgrad import backend, losses

# Losses that neither supports, with the reason. A test checks that each still fails, so that the list stays correct.
EXCEPTIONS = {"fastsort_ndcg": "pools adjacent violators until none is left: how often depends on the scores"}
# Sinkhorn's thirty rounds are unrolled into the graph: a few are sufficient for the test.
FEWER_ROUNDS = {"neural_ndcg": "neural_ndcg(sinkhorn_rounds=2,transposed=True)", "ot_ndcg": "ot_ndcg(rounds=3)"}
CASES = [case for case in PLAINEST if case.name not in {*EXCEPTIONS, *FEWER_ROUNDS}]
CASES += [case for case in NAMED if case.id in FEWER_ROUNDS.values()]
# Other branches of the same functions, for the cheaper `torch.func`.
MORE = [case for case in NAMED if case.name not in EXCEPTIONS and not case.extras]

LISTS = RaggedLists(
    (
        tuple(Document(s, y) for s, y in ((2.0, 1.0), (1.0, 0.0), (3.0, 2.0), (0.5, 0.0))),
        tuple(Document(s, y) for s, y in ((0.3, 0.0), (1.5, 2.0))),
        (Document(1.0, 0.0),),
    )
)


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


def test_every_loss_is_compiled_or_excused():
    assert {case.name for case in CASES} | set(EXCEPTIONS) == set(losses.__all__)


@pytest.mark.parametrize("backend_of_torch", ["eager", pytest.param("aot_eager", marks=pytest.mark.long)])
@each_loss(CASES)
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


@each_loss([case for case in PLAINEST if case.name in EXCEPTIONS])
def test_exceptions_are_exceptions_still(loss):
    call = loss.make()
    scores, labels, mask = batch()
    with pytest.raises(RuntimeError):
        vmap(lambda s, y: call(s, y))(scores, labels)
    with pytest.raises(torch._dynamo.exc.TorchDynamoException):
        torch.compile(call, fullgraph=True, backend="aot_eager")(scores, labels, mask=mask)
    # `grad` alone needs no fixed control flow, and works.
    leaf = scores.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(call(leaf, labels, mask=mask), leaf)
    torch.testing.assert_close(grad(lambda s: call(s, labels, mask=mask))(scores), gradient)
