"""Which implementation runs: the fused kernels, the plain PyTorch of the losses, or the better of the two."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from rankgrad.errors import one_of

CHOICES = ("auto", "fused", "plain")

_chosen: ContextVar[str | None] = ContextVar("rankgrad_backend", default=None)


@contextmanager
def backend(name: str) -> Iterator[None]:
    """Choose the implementation of the losses inside a `with` block.

    `"auto"` (the default) takes the fused kernel where one exists for the loss and the device; `"fused"` does so inside
    `torch.func` transforms too, and is an error on a device or with an option that has no kernel; `"plain"` takes the
    readable PyTorch version, which is the truth. Losses without any kernel are plain in every case. Outside of any
    block the environment variable `RANKGRAD_BACKEND` decides.

    Example:
        >>> with backend("plain"):
        ...     current()
        'plain'
    """
    one_of("backend", name, CHOICES)
    token = _chosen.set(name)
    try:
        yield
    finally:
        _chosen.reset(token)


def current() -> str:
    """The backend in force here."""
    name = _chosen.get() or os.environ.get("RANKGRAD_BACKEND", "auto")
    one_of("RANKGRAD_BACKEND", name, CHOICES)
    return name
