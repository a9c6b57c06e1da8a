"""Limits on the memory of a data set: the memory of the machine, and a multiple of the size of the text files."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from rankgrad.data.letor.errors import LetorError
from rankgrad.errors import bad_value, name_settings

# A matrix with more than FREE bytes and more than RATIO bytes per byte of text is a mistake or an attack. A dense file
# needs at most 1 byte of memory per byte of text. A file with 1 of 100 features per document needs about 50 bytes.
FREE = 1 << 30
RATIO = 200


def check_memory(name: str, shape: tuple[int, ...], dtype: Any, advice: str) -> None:
    """Check that an array of a data set fits in the memory of the machine. The error message contains `advice`."""
    need = int(np.prod(shape, dtype=object)) * np.dtype(dtype).itemsize
    have = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else need
    if need > have:
        must = f"fit in the memory of {have / 1e9:,.0f} GB ({advice})"
        bad_value(name, must, f"{' x '.join(f'{n:,}' for n in shape)} values, {need / 1e9:,.0f} GB")


def free_memory() -> int:
    """Return the number of free bytes of memory, within the limits of the machine and of its control group.

    If the system does not report the free memory, return the memory of the machine.
    """
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 1 << 40
    found = [pages]
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        found.append(1024 * int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]))
    with suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        found.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    return max(0, min(found))


def too_sparse(documents: int, features: int, text: int) -> bool:
    """Return True if the feature matrix (float32) needs too much memory for a file with `text` bytes of text.

    Example:
        >>> too_sparse(4_000, 1_000_000, 79_000), too_sparse(500_000, 700, 10**9), too_sparse(10**6, 5_000, 10**9)
        (True, False, False)
    """
    return documents * features * 4 > max(FREE, RATIO * text)


def refuse_sparse(path: Path, line: int | None, documents: int, features: int) -> LetorError:
    """Return the error about a feature matrix that is too large; `line` is the line with the largest feature id."""
    size = f"{documents:,} documents x {features:,} features are {documents * features * 4 / 1e9:,.1f} GB, almost all 0"
    matrices = f"{{sparse=True}} (--sparse) for a sparse matrix, or {{features={features}}} for a dense matrix"
    expected = name_settings(f"smaller ids, or {matrices}")
    return LetorError(path, line, f"feature id {features} makes the data too large: {size}", expected)
