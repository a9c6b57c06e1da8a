"""Kernels for the CPU, compiled by Numba. The compiled code is stored on disk.

The name of the folder with the compiled code contains a hash of all source files. The number of threads is
`torch.get_num_threads()`. Results do not depend on this number, because every sum is computed in a fixed order. A
forked child runs kernels in one thread.
"""

import sys
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rankgrad.kernels import fork_check, quadrature
from rankgrad.kernels.numba_cache import folder_of, keep

_config: Any = numba.config

# No 'nnan' or 'ninf': a result for a NaN score must be NaN, and the kernels compare with infinities.
FASTMATH = {"reassoc", "contract", "arcp", "nsz", "afn"}


# One folder for all kernels, because they share helpers. Numbers of `quadrature` are constants in the compiled code.
_FOLDER = folder_of("kernels", [*sorted(Path(__file__).parent.glob("*.py")), Path(quadrature.__file__)])
_one_at_a_time = threading.Lock()


def kernel(function: Callable[..., Any]) -> Any:
    """Make a CPU kernel: Numba compiles the function at its first call, or loads the stored code."""
    return keep(numba.njit(fastmath=FASTMATH, error_model="numpy", no_cfunc_wrapper=True)(function), _FOLDER)


def helper(function: Callable[..., Any]) -> Any:
    """Make a function that only CPU kernels call. Numba compiles it with the first kernel that calls it.

    The function has no wrapper for Python. This saves compilation time, but a call from Python crashes. Only
    LLVM may inline the function: if Numba inlined it, compilation would take four times as long.
    """
    return numba.njit(fastmath=FASTMATH, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)


class FlatLists(NamedTuple):
    """Lists as NumPy arrays, for CPU kernels.

    Without a mask, the array `mask` is empty. Without weights, the array `weights` is empty.

    Kernels take a plain tuple of these arrays, because Numba needs more time to infer the type of a named tuple.
    """

    scores: NDArray[Any]  # (D,), float32 or float64
    labels: NDArray[Any]  # (D,), dtype of scores
    weights: NDArray[Any]  # (D,) or (0,), dtype of scores
    mask: NDArray[np.bool_]  # (D,) or (0,)
    offsets: NDArray[np.int64]  # (L + 1,)

    @classmethod
    def of(
        cls,
        scores: Tensor,
        labels: Tensor,
        weights: Tensor | None,
        mask: Tensor | None,
        offsets: Tensor | None,
        n: int,
    ) -> "FlatLists":
        """Convert the input tensors of the operator to NumPy arrays, for a CPU kernel."""
        dtype = scores.dtype
        flat = _array(scores, dtype)
        return cls(
            flat,
            _array(labels, dtype),
            np.empty(0, flat.dtype) if weights is None else _array(weights, dtype),
            np.empty(0, np.bool_) if mask is None else _array(mask, torch.bool),
            np.arange(0, len(flat) + 1, n) if offsets is None else _array(offsets, torch.int64),
        )

    @property
    def unweighted(self) -> tuple[NDArray[Any], ...]:
        """Scores, labels, mask and offsets as arrays, for CPU kernels of losses that take no weights."""
        return self.scores, self.labels, self.mask, self.offsets

    @property
    def longest(self) -> int:
        """Number of documents in the longest list of a CPU kernel."""
        return int(np.diff(self.offsets).max(initial=0))


def _array(tensor: Tensor, dtype: torch.dtype) -> NDArray[Any]:
    """Return a tensor as a NumPy array for a CPU kernel, in the same memory if possible, with few PyTorch calls."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.dtype != dtype:
        tensor = tensor.to(dtype)
    return (tensor if tensor.is_contiguous() else tensor.contiguous()).numpy()


class KernelOutputs(NamedTuple):
    """NumPy arrays that a CPU kernel fills. The operator returns them as tensors; `op.py` describes them."""

    values: NDArray[Any]  # (L,)
    signal: NDArray[np.bool_]  # (L,)
    slopes: NDArray[Any]  # (D,), or (0,) if no gradient is needed
    extras: NDArray[Any]  # (L, P), or (0, P)

    @classmethod
    def like(cls, flat: FlatLists, params: int, gradient: bool) -> "KernelOutputs":
        """Allocate the outputs of a CPU kernel. The arrays are not initialised, so a kernel must write every entry."""
        lists, dtype = len(flat.offsets) - 1, flat.scores.dtype
        slopes = np.empty(len(flat.scores) if gradient else 0, dtype)
        extras = np.empty((lists if gradient else 0, params), dtype)
        return cls(np.empty(lists, dtype), np.empty(lists, np.bool_), slopes, extras)

    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Convert the arrays of a CPU kernel to the output tensors of the operator."""
        values, signal, slopes, extras = (torch.from_numpy(array) for array in self)
        return values, signal, slopes, extras


@lru_cache(maxsize=4)
def discounts(ranks: int) -> NDArray[np.float64]:
    """Return the discounts of NDCG for CPU kernels: 1 / log2(1 + rank) for ranks from 1 to `ranks`."""
    return 1.0 / np.log2(np.arange(2.0, ranks + 2.0))


def launch(compiled: Any, *arguments: Any, parallel: bool = True) -> None:
    """Run a CPU kernel in as many threads as PyTorch uses. Print a message if the call included a long compilation."""
    threads = torch.get_num_threads()
    several = False
    if parallel:
        number = 1 if fork_check.child else min(threads, _config.NUMBA_NUM_THREADS)
        numba.set_num_threads(number)
        several = number > 1
        fork_check.started |= several
    known = compiled.stats.cache_misses.total()  # code that is read from the cache is not a miss
    started = time.perf_counter()
    if several and numba.threading_layer() == "workqueue":  # this layer ends the process if two threads use it at once
        with _one_at_a_time:
            compiled(*arguments)
    else:
        compiled(*arguments)
    seconds = time.perf_counter() - started
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)  # when Numba starts, it also changes the number of threads of PyTorch
    if seconds > 2 and compiled.stats.cache_misses.total() > known:
        name = compiled.py_func.__module__.rsplit(".", 1)[-1]
        where = f"; stored in {_FOLDER.path}" if _FOLDER.kept else ""
        print(f"rankgrad: compiled the {name} kernels in {seconds:.0f} s{where}", file=sys.stderr)
