"""Losses of Rax as contenders: the call that equals each loss of ours, jitted together with its gradient.

If conventions differ, the jitted function contains a constant factor. Call `use(device)` first.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # PyTorch also needs GPU memory

import jax
import jax.numpy as jnp
import numpy as np
import rax
import torch
from contenders import Contender
from rax import utils
from torch import Tensor

Loss = Callable[..., jax.Array]
VERSIONS = {"JAX": jax.__version__, "Rax": rax.__version__}
STEPS = 20  # number of passes inside one jitted loop


def pair_sum(loss: Loss, scores: jax.Array, labels: jax.Array, **options: Any) -> jax.Array:
    """Return the sum over ordered pairs per list, as ours; Rax averages over all pairs of the batch."""
    return loss(scores, labels, reduce_fn=jnp.sum, **options) / scores.shape[0]


def lambda_sum(weight: Loss, scores: jax.Array, labels: jax.Array, **options: Any) -> jax.Array:
    """Return the sum with our pair weights; those of Rax are ours times the padded list size."""
    total = pair_sum(rax.pairwise_logistic_loss, scores, labels, lambdaweight_fn=weight, **options)
    return total / scores.shape[1]


def approx_ndcg(scores: jax.Array, labels: jax.Array, **options: Any) -> jax.Array:
    """Compute `rax.approx_t12n(rax.ndcg_metric)`, which needs `jax.util`; current versions of JAX lack it."""
    return -rax.ndcg_metric(scores, labels, rank_fn=utils.approx_ranks, cutoff_fn=utils.approx_cutoff, **options)


CALLS: dict[str, Loss] = {
    "softmax": rax.softmax_loss,
    "poly1_softmax": rax.poly1_softmax_loss,
    "unique_softmax": rax.unique_softmax_loss,
    "listmle:ties=position": rax.listmle_loss,
    "ranknet": partial(pair_sum, rax.pairwise_logistic_loss),
    "hinge": partial(pair_sum, rax.pairwise_hinge_loss),
    "lambdarank": partial(lambda_sum, partial(rax.dcg_lambdaweight, normalize=True)),
    "lambdaloss@5": partial(lambda_sum, partial(rax.dcg2_lambdaweight, normalize=True, topn=5)),
    "approx_ndcg": approx_ndcg,
}


@dataclass(frozen=True)
class Queue(Contender):
    """A contender whose run queues many passes, as usual in JAX, and waits for the last one."""

    passes: int = 1


def use(device: str) -> None:
    """Set the device; on the CPU, limit JAX to the number of cores of PyTorch: it uses all available cores."""
    jax.config.update("jax_platforms", device)
    if device == "cpu" and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))[: torch.get_num_threads()]
        os.sched_setaffinity(0, cores)


def called(name: str, *batch: Tensor | None, enough: float = 0.01) -> Queue:
    """Make a contender of enough calls of the jitted value and gradient to be timed."""
    loss, arrays = _slopes(name), _arrays(batch)
    jax.block_until_ready(loss(*arrays))  # compiled
    start = perf_counter()
    jax.block_until_ready([loss(*arrays) for _ in range(3)])
    passes = max(1, min(1000, int(enough / (perf_counter() - start) * 3)))
    return _queue(lambda: loss(*arrays), passes, repeated=passes)


def inside(name: str, *batch: Tensor | None) -> Queue:
    """Make a contender of passes inside one jitted loop: the time of a pass in a jitted training step."""
    loss, arrays = _slopes(name), _arrays(batch)

    @jax.jit
    def loop(scores: jax.Array, labels: jax.Array, where: jax.Array | None) -> tuple[jax.Array, jax.Array]:
        def one(_: int, last: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            # Every pass depends on the previous one, also its labels, so that no part is computed only once.
            slopes, now_labels, now_where = jax.lax.optimization_barrier((last[1], labels, where))
            return loss(scores - 1e-30 * slopes, now_labels, now_where)

        return jax.lax.fori_loop(0, STEPS, one, (jnp.zeros(()), jnp.zeros_like(scores)))

    return _queue(lambda: loop(*arrays), STEPS)


def planned_memory(name: str, *batch: Tensor | None) -> int:
    """Return the bytes that XLA plans for a pass, without its input, with the gradient."""
    plan = _slopes(name).lower(*_arrays(batch)).compile().memory_analysis()
    return int(plan.temp_size_in_bytes + plan.output_size_in_bytes)


def _slopes(name: str) -> Any:
    loss = CALLS[name]
    return jax.jit(jax.value_and_grad(lambda scores, labels, where: loss(scores, labels, where=where)))


def _arrays(batch: tuple[Tensor | None, ...]) -> list[jax.Array | None]:
    return [None if tensor is None else jax.device_put(tensor.cpu().numpy()) for tensor in batch]


def _queue(call: Callable[[], Any], passes: int, repeated: int = 1) -> Queue:
    kept: list[Any] = []

    def run() -> None:
        for _ in range(repeated):
            kept[:] = call()
        jax.block_until_ready(kept)

    def outcome() -> tuple[Tensor, Tensor]:
        value, slopes = (torch.from_numpy(np.array(part)) for part in kept)
        return value, slopes

    return Queue(run, outcome, "auto", passes=passes)
