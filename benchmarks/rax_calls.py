"""Rax's losses as contenders: which of its calls each loss of ours is, jitted together with its gradient.

Where conventions differ the conversion is a constant factor inside the jitted function. `use(device)` comes first.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # PyTorch needs the GPU's memory, too

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
STEPS = 20  # passes inside one jitted loop


def pair_sum(loss: Loss, scores: jax.Array, labels: jax.Array, **options: Any) -> jax.Array:
    """Rax averages over all ordered pairs of the batch at once; ours is the sum over those of a list."""
    return loss(scores, labels, reduce_fn=jnp.sum, **options) / scores.shape[0]


def lambda_sum(weight: Loss, scores: jax.Array, labels: jax.Array, **options: Any) -> jax.Array:
    """Rax's pair weights are ours times the padded list size."""
    total = pair_sum(rax.pairwise_logistic_loss, scores, labels, lambdaweight_fn=weight, **options)
    return total / scores.shape[1]


def approx_ndcg(scores: jax.Array, labels: jax.Array, **options: Any) -> jax.Array:
    """What `rax.approx_t12n(rax.ndcg_metric)` makes; that itself asks for `jax.util`, which today's JAX lacks."""
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
    """A contender whose one run is many passes, queued as JAX likes it, and a wait for the last of them."""

    passes: int = 1


def use(device: str) -> None:
    """Compute on this device; on the CPU on as many cores as PyTorch takes, for JAX takes all it may run on."""
    jax.config.update("jax_platforms", device)
    if device == "cpu" and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))[: torch.get_num_threads()]
        os.sched_setaffinity(0, cores)


def called(name: str, *batch: Tensor | None, enough: float = 0.01) -> Queue:
    """Calls of the jitted value and gradient, so many that they can be timed."""
    loss, arrays = _slopes(name), _arrays(batch)
    jax.block_until_ready(loss(*arrays))  # compiled
    start = perf_counter()
    jax.block_until_ready([loss(*arrays) for _ in range(3)])
    passes = max(1, min(1000, int(enough / (perf_counter() - start) * 3)))
    return _queue(lambda: loss(*arrays), passes, repeated=passes)


def inside(name: str, *batch: Tensor | None) -> Queue:
    """Passes inside one jitted loop: what a pass takes where the whole training step is jitted."""
    loss, arrays = _slopes(name), _arrays(batch)

    @jax.jit
    def loop(scores: jax.Array, labels: jax.Array, where: jax.Array | None) -> tuple[jax.Array, jax.Array]:
        def one(_: int, last: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            # Every pass hangs on the one before it, labels included, so that nothing of it is done only once.
            slopes, now_labels, now_where = jax.lax.optimization_barrier((last[1], labels, where))
            return loss(scores - 1e-30 * slopes, now_labels, now_where)

        return jax.lax.fori_loop(0, STEPS, one, (jnp.zeros(()), jnp.zeros_like(scores)))

    return _queue(lambda: loop(*arrays), STEPS)


def planned_memory(name: str, *batch: Tensor | None) -> int:
    """Bytes that XLA sets aside for a pass beside its input, gradient included."""
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
