"""Contenders: ways to run a loss forward and backward. Make them, check them against the truth, and time them."""

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

import rankgrad as rg
from rankgrad.losses import value_and_grad


class Wrong(Exception):
    """A value or a gradient differs from the truth."""


@dataclass(frozen=True)
class Contender:
    """`run` does one forward and backward pass; `outcome` returns its value and gradient."""

    run: Callable[[], object]
    outcome: Callable[[], tuple[Tensor, Tensor]]
    backend: str
    exact: bool = True
    native: bool | None = None  # True: with the C++ module; None: the current setting


def step(loss: Callable[..., Tensor], scores: Tensor, labels: Tensor, backend: str, exact: bool = True) -> Contender:
    """Make a contender from a loss; if not `exact`, as with epsilons in logarithms, its tolerance is larger."""
    leaf = scores.detach().clone().requires_grad_()
    parameters = list(getattr(loss, "parameters", list)())
    kept: list[Tensor] = []

    def run() -> None:
        for tensor in (leaf, *parameters):
            tensor.grad = None
        value = loss(leaf, labels)
        value.backward()
        kept[:] = [value.detach()]

    def outcome() -> tuple[Tensor, Tensor]:
        assert leaf.grad is not None
        return kept[0], leaf.grad

    return Contender(run, outcome, backend, exact)


def in_one_call(loss: Callable[..., Tensor], scores: Tensor, labels: Tensor) -> Contender:
    """Make a contender of the fused loss and its gradient by `value_and_grad`, without a backward pass."""
    kept: list[Tensor] = []

    def run() -> None:
        kept[:] = value_and_grad(loss, scores, labels)

    return Contender(run, lambda: (kept[0], kept[1]), "fused")


def graphed(eager: Contender) -> Contender:
    """Make a contender that does the same inside a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), rg.backend(eager.backend):
        for _ in range(3):
            eager.run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), rg.backend(eager.backend):
        eager.run()
    for tensor in eager.outcome():
        tensor.fill_(torch.nan)  # only a replay can set the right values
    return Contender(graph.replay, eager.outcome, eager.backend)


def uses_kernel(loss: Callable[..., Tensor], scores: Tensor, labels: Tensor) -> bool:
    """Return True if there is a fused form of this loss on this device."""
    from rankgrad.kernels import op

    called, original = [], op.loss

    def watched(name: str, *rest: object) -> object:
        called.append(name)
        return original(name, *rest)  # type: ignore[arg-type]

    op.loss = watched  # type: ignore[assignment]
    try:
        loss(scores[..., :8], labels[..., :8])
    finally:
        op.loss = original
    return bool(called)


def check(contender: Contender, truth: tuple[Tensor, Tensor]) -> None:
    """Raise `Wrong` unless value and gradient agree with the truth."""
    for what, found, expected, most in zip(("value", "gradient"), once(contender), truth, (1e-5, 1e-4), strict=True):
        # Values too small for float32 may be 0.
        off = float((found - expected).norm() / expected.norm().clamp(min=1e-30))
        if not off <= most * (1 if contender.exact else 10):
            raise Wrong(f"{what} off by {off:.1e}")


def once(contender: Contender) -> tuple[Tensor, Tensor]:
    """Run once, and return the value and the gradient in float64 on the CPU."""
    with rg.backend(contender.backend, native=contender.native):
        contender.run()
    value, gradient = contender.outcome()
    return value.double().cpu(), gradient.double().cpu()


def sample(contenders: dict[str, Contender], repeats: int, device: str) -> dict[str, tuple[float, float]]:
    """Return the median time of a run and half its interquartile range, in seconds; all samples are interleaved.

    Each round has another order: a contender is slower after one that has freed much memory.
    """
    calls = {kind: _calls(contender, device) for kind, contender in contenders.items()}
    times: dict[str, list[float]] = {kind: [] for kind in contenders}
    order = random.Random(0)
    for _ in range(repeats):
        for kind in order.sample([*contenders], len(contenders)):
            times[kind].append(_time(contenders[kind], calls[kind], device))
    found = {}
    for kind, seconds in times.items():
        low, middle, high = statistics.quantiles(seconds, n=4) if len(seconds) > 1 else seconds * 3
        found[kind] = (middle, (high - low) / 2)
    return found


def _calls(contender: Contender, device: str, enough: float = 0.01) -> int:
    """Return the number of runs in a sample that is long enough to be timed."""
    _time(contender, 2, device)
    return max(1, min(1000, int(enough / _time(contender, 3, device))))


def _time(contender: Contender, calls: int, device: str) -> float:
    with rg.backend(contender.backend, native=contender.native):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            contender.run()
        if device == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter() - start) / calls


def peak_memory(contender: Contender) -> int:
    """Return the GPU memory of a run in bytes, without its input, with the gradient."""
    once(contender)
    before = torch.cuda.memory_allocated() - contender.outcome()[1].nbytes
    torch.cuda.reset_peak_memory_stats()
    once(contender)
    return torch.cuda.max_memory_allocated() - before
