"""Limits on what a data set takes in memory: not more than there is, nor out of all proportion to its text."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from rankgrad.data.letor.errors import LetorError
from rankgrad.errors import bad_value

# A matrix of more bytes than this, and of more than this many per byte of text, is a slip or an attack. A dense file
# needs 1 byte or less per byte of text, one of which 1 feature in 100 is given about 50.
FREE = 1 << 30
RATIO = 200


def check_memory(name: str, shape: tuple[int, ...], dtype: Any, otherwise: str) -> None:
    """Raise where the machine's memory could not hold an array; `otherwise` says what would help."""
    need = int(np.prod(shape, dtype=object)) * np.dtype(dtype).itemsize
    have = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else need
    if need > have:
        must = f"fit the memory of {have / 1e9:,.0f} GB, or {otherwise}"
        bad_value(name, must, f"{' x '.join(f'{n:,}' for n in shape)}, {need / 1e9:,.0f} GB")


def too_sparse(documents: int, features: int, text: int) -> bool:
    """Whether a matrix of float32 would be out of proportion to `text`, the bytes it is made from.

    Example:
        >>> too_sparse(4_000, 1_000_000, 79_000), too_sparse(500_000, 700, 10**9), too_sparse(10**6, 5_000, 10**9)
        (True, False, False)
    """
    return documents * features * 4 > max(FREE, RATIO * text)


def refuse_sparse(path: Path, line: int | None, documents: int, features: int) -> LetorError:
    """The error about a matrix that is out of proportion; `line` is the first that has the last feature."""
    size = f"{documents:,} documents x {features:,} features are {documents * features * 4 / 1e9:,.1f} GB, almost all 0"
    meant = f"smaller ids, or features={features} if it is meant (rankgrad convert --features {features})"
    return LetorError(path, line, f"feature id {features} makes the data too large: {size}", meant)
