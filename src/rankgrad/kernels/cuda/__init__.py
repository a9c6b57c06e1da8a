"""Kernels for NVIDIA GPUs, in Triton. They do not synchronise with the CPU, and the number of launches is fixed.

Only NeuralNDCG uses atomic operations. A program has a block of documents (rows). It loops over all documents of the
lists to which these rows belong (columns). In a padded batch, a block has documents of one list. In a flat batch, a
block may have documents of several lists, and each row finds its list in the offsets. So the kernels do not need the
length of the longest list.
"""

import os
import struct
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

INTERPRETED = tl.constexpr(os.environ.get("TRITON_INTERPRET") == "1")


class Layout:
    """Layout of the lists, for Triton kernels: the offsets or the common length of the lists, and grids of programs."""

    def __init__(self, scores: Tensor, offsets: Tensor | None, n: int) -> None:
        self.documents = scores.shape[0]
        self.padded = offsets is None
        self.n = n
        self.offsets = scores if offsets is None else offsets  # not read if padded
        self.lists = self.documents // n if offsets is None else offsets.shape[0] - 1

    def arguments(self) -> tuple[Any, ...]:
        """Return `offsets, documents, lists, n`, which Triton kernels pass to `rows`."""
        return self.offsets, self.documents, self.lists, self.n

    def constants(self) -> dict[str, Any]:
        """Return the compile-time arguments `PADDED` and `STEPS`, which kernels pass to `rows`."""
        return {"PADDED": self.padded, "STEPS": 0 if self.padded else max(self.lists, 1).bit_length() + 1}

    def row_grid(self, rows: int) -> tuple[int]:
        """Return the grid of a Triton launch with one program per block of rows."""
        if self.padded:
            return (self.lists * triton.cdiv(self.n, rows),)
        return (max(triton.cdiv(self.documents, rows), 1),)

    def list_grid(self) -> tuple[int]:
        """Return the grid of a Triton launch with one program per list."""
        return (max(self.lists, 1),)


@triton.jit
def rows(offsets, documents, lists, n, PADDED: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr):
    """Return the rows of a Triton program, as four arrays `(ROWS,)`.

    They are: the document of each row; True if this document exists; start and end of the list of this document.
    """
    if PADDED:
        blocks = tl.cdiv(n, ROWS)
        first = (tl.program_id(0) // blocks) * n
        inside = (tl.program_id(0) % blocks) * ROWS + tl.arange(0, ROWS)
        row = first + inside
        real = inside < n
        return row, real, tl.zeros([ROWS], tl.int32) + first, tl.zeros([ROWS], tl.int32) + first + n
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    real = row < documents
    low = tl.zeros([ROWS], tl.int32)
    high = low + lists
    for _ in range(STEPS):  # find the last list that begins at or before the row
        middle = (low + high) // 2
        begins = tl.load(offsets + middle, mask=real, other=0)
        low = tl.where(begins <= row, middle, low)
        high = tl.where(begins <= row, high, middle)
    start = tl.load(offsets + low, mask=real, other=0).to(tl.int32)
    end = tl.load(offsets + low + 1, mask=real, other=0).to(tl.int32)
    return row, real, start, end


@triton.jit
def list_bounds(offsets, l, n, PADDED: tl.constexpr):
    """Return the start and the end of list `l` among all documents, in a Triton kernel."""
    if PADDED:
        return l * n, l * n + n
    return tl.load(offsets + l).to(tl.int32), tl.load(offsets + l + 1).to(tl.int32)


@triton.jit
def present(mask, where, inside, MASKED: tl.constexpr):
    """Return True for each position in `where` that is `inside` a list and has a real document."""
    if MASKED:
        return inside & (tl.load(mask + where, mask=inside, other=0) != 0)
    return inside


@triton.jit
def reciprocal(x):
    """Return 1 / x in a Triton kernel, correct except for the last bit. In float32 it is one instruction."""
    if INTERPRETED or x.dtype == tl.float64:
        return 1.0 / x
    else:
        return tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )


@triton.jit
def power(x):
    """Return 2^x in a Triton kernel. In float32 it is one instruction, and subnormal results are 0."""
    if INTERPRETED or x.dtype == tl.float64:
        return tl.exp2(x)
    else:
        return tl.inline_asm_elementwise(
            "ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )


@triton.jit
def logarithm(x):
    """Return log2(x) for x >= 2 in a Triton kernel. In float32 it is one instruction."""
    if INTERPRETED or x.dtype == tl.float64:
        return tl.log2(x)
    else:
        return tl.inline_asm_elementwise(
            "lg2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )


@triton.jit
def log1p(x):
    """Return log(1 + x) in a Triton kernel, accurate for small x."""
    whole = 1.0 + x
    rest = whole - 1.0
    return tl.where(rest == 0.0, x, tl.log(whole) * (x / tl.where(rest == 0.0, 1.0, rest)))


@triton.jit
def expm1(x):
    """Return exp(x) - 1 for x <= 0 in a Triton kernel, accurate for x near 0."""
    power = tl.exp(x)
    log = tl.log(tl.where(power > 0.0, power, 1.0))
    tiny = power == 1.0
    middle = (power - 1.0) * (x / tl.where(log == 0.0, 1.0, log))
    return tl.where(tiny, x, tl.where(power < 1e-30, -1.0, middle))


def split(number: float) -> tuple[float, float]:
    """Split a number into two arguments of a Triton kernel: its float32 value, and the remainder.

    Triton passes numbers only as float32. The kernel adds both arguments.
    """
    most: float = struct.unpack("f", struct.pack("f", number))[0]
    return most, number - most


def own(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a contiguous tensor with this dtype and no autograd graph, for Triton kernels. Copy only if necessary."""
    tensor = tensor.detach() if tensor.requires_grad else tensor
    return (tensor if tensor.dtype == dtype else tensor.to(dtype)).contiguous()
