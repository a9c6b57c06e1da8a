"""Sinkhorn scaling: scale the columns and the rows of a matrix alternately, until each column and row sums to 1."""

import torch
from torch import Tensor

from rankgrad.errors import bad_value
from rankgrad.relax.sinkhorn_rounds import factors


def sinkhorn(matrix: Tensor, rounds: int = 30, *, return_residual: bool = False) -> Tensor | tuple[Tensor, Tensor]:
    """Scale the rows and columns of a matrix to sums of about 1. Each round normalises columns, then rows.

    Only the two scaling vectors change, so a round computes two products of the matrix and a vector, and no new matrix.
    The number of rounds is fixed, because a test for convergence would have to wait for the device. Rows and columns of
    zeros stay zero.

    Args:
        matrix: numbers of at least 0, `(..., n, n)`.
        rounds: number of rounds; 0 returns the matrix unchanged.
        return_residual: True to also return the residual, `(...)`. It is the largest difference between 1 and the sum
            of a row or column.

    Example:
        >>> scaled, residual = sinkhorn(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), return_residual=True)
        >>> scaled, bool(residual < 1e-6)
        (tensor([[0.4495, 0.5505],
                [0.5505, 0.4495]]), True)
    """
    if rounds < 0:
        bad_value("rounds", "be at least 0", rounds)
    scaled = scale(matrix, rounds) if rounds else matrix
    if not return_residual:
        return scaled
    if matrix.shape[-1] == 0:
        return scaled, scaled.sum((-2, -1))
    present = [matrix.sum(axis) > 0 for axis in (-1, -2)]
    off = [
        torch.where(there, (scaled.sum(axis) - 1).abs(), 0.0).amax(-1)
        for there, axis in zip(present, (-1, -2), strict=True)
    ]
    return scaled, torch.maximum(*off)


def scale(matrix: Tensor, rounds: int) -> Tensor:
    """Return the matrix after one or more rounds of Sinkhorn scaling; each round scales columns, then rows."""
    row, column = factors(matrix, rounds)  # u and v of diag(u) matrix diag(v)
    return row[..., :, None] * matrix * column[..., None, :]
