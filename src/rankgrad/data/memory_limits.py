"""Limits on the memory of a data set: not more than the machine has, and in proportion to the size of its text."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from rankgrad.data.letor.errors import LetorError
from rankgrad.errors import bad_value

# A matrix of more than FREE bytes, and more than RATIO bytes per byte of text, is a mistake or an attack. A dense file
# needs at most 1 byte per byte of text, a file with 1 of 100 features per document about 50.
FREE = 1 << 30
RATIO = 200


def check_memory(name: str, shape: tuple[int, ...], dtype: Any, otherwise: str) -> None:
    """Raise if an array is larger than the memory of the machine; `otherwise` names an alternative for the message."""
    need = int(np.prod(shape, dtype=object)) * np.dtype(dtype).itemsize
    have = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else need
    if need > have:
        must = f"fit the memory of {have / 1e9:,.0f} GB, or {otherwise}"
        bad_value(name, must, f"{' x '.join(f'{n:,}' for n in shape)}, {need / 1e9:,.0f} GB")


def too_sparse(documents: int, features: int, text: int) -> bool:
    """True if a float32 matrix is too large in proportion to its text, which has `text` bytes.

    Example:
        >>> too_sparse(4_000, 1_000_000, 79_000), too_sparse(500_000, 700, 10**9), too_sparse(10**6, 5_000, 10**9)
        (True, False, False)
    """
    return documents * features * 4 > max(FREE, RATIO * text)


def refuse_sparse(path: Path, line: int | None, documents: int, features: int) -> LetorError:
    """Return the error about a matrix that is too large for its text; `line` is the first with the last feature."""
    size = f"{documents:,} documents x {features:,} features are {documents * features * 4 / 1e9:,.1f} GB, almost all 0"
    expected = f"smaller ids, or features={features} if this is intended (rankgrad convert --features {features})"
    return LetorError(path, line, f"feature id {features} makes the data too large: {size}", expected)
