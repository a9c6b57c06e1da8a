"""Compiles every Triton kernel without a GPU: the interpreter accepts Python code that the compiler does not."""

import os
from importlib import import_module

import pytest
import torch

import rankgrad as rg
from rankgrad import losses
from rankgrad.kernels import op

if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("TRITON_INTERPRET=1: nothing is compiled", allow_module_level=True)
triton = pytest.importorskip("triton")
compiler, backends = import_module("triton.compiler"), import_module("triton.backends.compiler")

TARGET = backends.GPUTarget("cuda", 90, 32)
TYPES = {torch.float32: "fp32", torch.float64: "fp64", torch.int32: "i32", torch.int64: "i64", torch.uint8: "u8"}
OPTIONS = ("num_warps", "num_stages", "maxnreg")
FAMILIES = ("approx", "likelihood", "listwise", "neural_ndcg", "pairwise", "sinkhorn", "smoothi", "soft_ndcg")

# One loss for each kernel and each path through it.
LOSSES = {
    "approx_ap": losses.approx_ap,
    "approx_ndcg": losses.approx_ndcg,
    "hinge": losses.hinge,
    "lambdaloss": lambda *lists, **told: losses.lambdaloss(*lists, k=5, **told),
    "learndcg": losses.LearnDCG(discount="curved"),
    "listmle": losses.listmle,
    "listmle in order": lambda *lists, **told: losses.listmle(*lists, ties="position", **told),
    "listmle efron": lambda scores, *lists, **told: losses.listmle(
        scores, *lists, ties="efron", weights=torch.ones_like(scores), **told
    ),
    "neural_ndcg": losses.neural_ndcg,
    "neural_ndcg transposed": lambda *lists, **told: losses.neural_ndcg(*lists, transposed=True, **told),
    "p_listmle": losses.p_listmle,
    "p_listmle in order": lambda *lists, **told: losses.p_listmle(*lists, ties="position", **told),
    "smooth_ap": losses.smooth_ap,
    "smooth_ndcg": losses.smooth_ndcg,
    "softmax": losses.softmax,
    "softsort_ndcg": losses.softsort_ndcg,
    "unique_softmax": losses.unique_softmax,
}


class Compiler:
    """Replaces `launch`: compiles a kernel for its arguments, and does not change memory."""

    def __init__(self):
        self.kernels = set()

    def __call__(self, kernel, grid, *arguments, **constants):
        options = {name: constants.pop(name) for name in OPTIONS if name in constants}
        given = dict(zip(kernel.arg_names, arguments, strict=False)) | constants
        signature, constexprs = {}, {}
        for place, parameter in enumerate(kernel.params):
            value = given[parameter.name]
            if parameter.is_constexpr or value is None:
                signature[parameter.name], constexprs[place,] = "constexpr", value
            elif isinstance(value, torch.Tensor):
                signature[parameter.name] = f"*{TYPES[value.dtype]}"
            else:
                signature[parameter.name] = "fp32" if isinstance(value, float) else "i32"
        source = compiler.ASTSource(fn=kernel, signature=signature, constexprs=constexprs)
        assert triton.compile(source, target=TARGET, options=options).asm["cubin"]
        self.kernels.add(kernel.fn.__name__)


@pytest.fixture
def compiled(monkeypatch):
    """Losses on the CPU use the kernels of the GPU, which are only compiled."""
    compiled = Compiler()
    for family in FAMILIES:
        module = import_module(f"rankgrad.kernels.cuda.{family}")
        for name, instead in (("launch", compiled), ("multiprocessors", lambda device: 132)):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, instead)
    monkeypatch.setattr(op, "_module", lambda device, family: import_module(f"rankgrad.kernels.cuda.{family}"))
    monkeypatch.setattr(torch, "empty", torch.zeros)  # so that orders that no kernel fills are valid positions
    return compiled


# The longest path through each file of kernels; the others, and the other layout, take minutes.
SHORT = (
    "lambdaloss",
    "learndcg",
    "listmle",
    "neural_ndcg",
    "smooth_ndcg",
    "softmax",
    "softsort_ndcg",
    "unique_softmax",
)
CASES = [
    pytest.param(name, layout, marks=[] if name in SHORT and layout == "padded" else pytest.mark.long)
    for name in LOSSES
    for layout in ("padded", "flat, float64")
]


@pytest.mark.parametrize(("name", "layout"), CASES)
def test_kernels_compile(compiled, name, layout):
    if layout == "padded":
        scores, told = torch.randn(2, 20), {"mask": torch.ones(2, 20, dtype=torch.bool)}
    else:
        scores, told = torch.randn(40, dtype=torch.float64), {"offsets": torch.tensor([0, 25, 40])}
    labels = torch.randint(0, 3, scores.shape)
    loss = LOSSES[name].to(scores.dtype) if isinstance(LOSSES[name], torch.nn.Module) else LOSSES[name]
    with rg.backend("fused"):
        loss(scores.requires_grad_(), labels, **told)
    assert compiled.kernels
