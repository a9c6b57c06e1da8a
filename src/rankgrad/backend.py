"""Choose the implementation of the losses: fused kernels (launched by Python or C++) or plain PyTorch."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache

from rankgrad.errors import bad_type, one_of

CHOICES = ("auto", "fused", "plain")

_chosen: ContextVar[str | None] = ContextVar("rankgrad_backend", default=None)
_native: ContextVar[bool | None] = ContextVar("rankgrad_native", default=None)


@contextmanager
def backend(name: str = "auto", *, native: bool | None = None) -> Iterator[None]:
    """Choose the implementation of the losses inside a `with` block.

    Outside of such blocks, the environment variables `RANKGRAD_BACKEND` and `RANKGRAD_NATIVE` decide. Blocks can be
    nested. A block applies only to the thread that runs it.

    Args:
        name: name of the backend. `"auto"` uses the fused kernel if one exists for the loss and the device. `"fused"`
            uses this kernel also inside `torch.func` transforms; it raises an error if no kernel supports the device or
            an option. `"plain"` uses PyTorch operations, which are the reference. Losses without any kernel are always
            plain.
        native: True to launch the kernels of eager calls on an NVIDIA GPU from a small C++ module instead of Python.
            The results are the same. C++ is not the default, because the first launch from C++ on a machine starts the
            C++ compiler in the background. None keeps the current choice.

    Example:
        >>> with backend("plain"):
        ...     current()
        'plain'
    """
    one_of("backend", name, CHOICES)
    if native is not None and not isinstance(native, bool):
        bad_type("native", "be True, False or None", repr(native))
    tokens = _chosen.set(name), _native.set(_native.get() if native is None else native)
    try:
        yield
    finally:
        _chosen.reset(tokens[0])
        _native.reset(tokens[1])


def current() -> str:
    """Return the current backend of the losses: `"auto"`, `"fused"` or `"plain"`."""
    name = _chosen.get() or os.environ.get("RANKGRAD_BACKEND", "auto")
    one_of("RANKGRAD_BACKEND", name, CHOICES)
    return name


def native() -> bool:
    """Return True if `backend` or `RANKGRAD_NATIVE` allows the C++ module that launches the kernels of eager calls."""
    chosen = _native.get()
    return _native_by_default() if chosen is None else chosen


@lru_cache(maxsize=1)
def _native_by_default() -> bool:
    """Return the value of `RANKGRAD_NATIVE`. The variable is read once, because each eager call needs the value."""
    wanted = os.environ.get("RANKGRAD_NATIVE") or "0"
    one_of("RANKGRAD_NATIVE", wanted, ("0", "1"))
    return wanted == "1"
